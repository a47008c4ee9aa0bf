"""Note batches that are not as `compression.type` and `message.timestamp.type` ask (V6).

Only by settings that were stated, and only notes: a setting may have been changed after the batches
were written. Control batches and batches without records are left out: no producer sent them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.broker.settings import OPTION, TOPIC
from kdump.engine.reading.check import Check
from kdump.engine.reading.damage import BatchAt
from kdump.kernels import columns as c
from kdump.kernels.members import codec_name
from kdump.record.layout import (
    CODEC_MASK,
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    TIMESTAMP_TYPE_BIT,
    ZSTD,
)

if TYPE_CHECKING:
    from kdump.engine.reading.partition_scan import PartitionScan, SegmentScan
    from kdump.findings.finding import Finding
    from kdump.kernels.columns import RecordBatches

_CODECS = {"uncompressed": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
_TIMES = {"CreateTime": 0, "LogAppendTime": TIMESTAMP_TYPE_BIT}
_NOT_PRODUCED = c.CONTROL | c.WRONG


class _Setting:
    """One setting against the bits of the attributes that it decides."""

    def __init__(self, code: str, name: str, text: str, wanted: int, mask: int) -> None:
        self.code = code
        self.name = name
        self.text = text
        self.wanted = wanted
        self.mask = mask
        self.first: BatchAt | None = None
        self.last_offset = -1
        self.found: Counter[str] = Counter()
        self.since: int | None = None  # from this offset on all batches are as they should be

    def take(self, segment: SegmentScan, batches: RecordBatches, kinds: frozenset[int]) -> None:
        """Look at some batches; `kinds` are the attributes that they have."""
        if all(kind & self.mask == self.wanted for kind in kinds):
            if self.since is None and self.first is not None:
                self.since = batches.known_offset(0)
            return
        for row, attributes in enumerate(batches.all_attributes):
            if batches.flags_of(row) & _NOT_PRODUCED or not batches.records_count(row):
                continue
            if self.mask == TIMESTAMP_TYPE_BIT and not batches.has_timestamps(row):
                continue
            if attributes & self.mask == self.wanted:
                if self.since is None and self.first is not None:
                    self.since = batches.known_offset(row)
                continue
            self.found[self._name_of(attributes)] += 1
            self.since, self.last_offset = None, batches.last_offset(row)
            if self.first is None:
                self.first = BatchAt(segment.place, batches.slice(row, row + 1), 0)

    def _name_of(self, attributes: int) -> str:
        if self.mask == TIMESTAMP_TYPE_BIT:
            return "LogAppendTime" if attributes & TIMESTAMP_TYPE_BIT else "CreateTime"
        return codec_name(attributes)

    def finding(self, source: str) -> Finding | None:
        """Report what is not as it should be, once."""
        if self.first is None:
            return None
        count = self.found.total()
        kinds = " or ".join(name for name, _ in self.found.most_common())
        shown = " or ".join(
            "no compression" if name == "none" else name for name, _ in self.found.most_common()
        )
        words = "One batch has" if count == 1 else f"{count:,} batches have"
        why = "they may have been written with a different setting"
        if self.since is not None:
            why = f"all before offset {self.since:,}, so the setting was probably changed there"
        return self.first.finding(
            self.code,
            expected=self.text,
            actual=kinds,
            message=f"{words} {shown}, although {self.name}={self.text} ({source}); {why}.",
        )


class BatchTypes(Check):
    """Holds the batches of a partition against both settings, and reports each once."""

    def __init__(self, partition: PartitionScan) -> None:
        super().__init__(partition)
        settings = partition.settings
        asked = (
            ("compression-type-differs", "compression.type", _CODECS, CODEC_MASK),
            (
                "timestamp-type-differs",
                "message.timestamp.type",
                _TIMES,
                TIMESTAMP_TYPE_BIT,
            ),
        )
        self._settings: list[tuple[_Setting, str]] = []
        for code, name, known, mask in asked:
            field = name.removeprefix("message.").replace(".", "_")
            text, source = getattr(settings, field), settings.source(field)
            # Brokers give their own topics settings of their own, which may not be known here.
            is_own = (partition.target.topic or "").startswith("__")
            holds = source in (TOPIC, OPTION) or not is_own
            if field in settings.stated_fields and text in known and holds:
                setting = _Setting(code, name, text, known[text], mask)
                self._settings.append((setting, source))

    def headers(self, segment: SegmentScan, batches: RecordBatches) -> None:
        """Compare attributes with the settings."""
        if self._settings and not segment.is_snapshot:
            kinds = frozenset(batches.all_attributes)
            for setting, _ in self._settings:
                setting.take(segment, batches, kinds)

    def end(self) -> Iterator[Finding]:
        """Report each setting once."""
        for setting, source in self._settings:
            found = setting.finding(source)
            if found is not None:
                yield found
