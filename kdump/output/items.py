"""The type of what commands hand to sinks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.findings.rows import BatchChunk, BatchRow, HexText, RecordChunk, RecordRow, Row

if TYPE_CHECKING:
    from typing import TypeAlias

    from kdump.engine.kafka_text.dump import KafkaItem

    Item: TypeAlias = RecordChunk | BatchChunk | RecordRow | BatchRow | Row | HexText | KafkaItem
