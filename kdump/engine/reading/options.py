"""Options of reading: which part of partitions to read, and how."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, dataclass_transform

from kdump.engine.reading.filters import Filters
from kdump.findings.rows import BatchChunk, BatchRow, HexText, RecordChunk, RecordRow, Row
from kdump.storage.file_records import DEFAULT_LIMIT
from kdump.storage.targets import EVERYTHING, Selection

if TYPE_CHECKING:
    from kdump.replay.releases import Releases
    from kdump.values.decoded_values import SchemaSource

Item = RecordChunk | BatchChunk | Row | HexText | BatchRow | RecordRow


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Options:
    """Takes by name what its members are given; the class has what others are."""

    def __init__(self, **given: Any) -> None:
        assert all(hasattr(self, name) for name in given), given
        vars(self).update(given)


class DumpOptions(Options):
    """What is asked for; the names are those of the command line.

    `mode` is records, batches, entries or hex. Times are epoch milliseconds, `to_*` exclusive.
    `tail`: only this number of rows at the end of each partition.
    `decode`: keys and values of topics that have a decoder are JSON text of what they hold.
    `show_secrets`: also what is masked otherwise, decoded or not. `schema_files` are those that the
    user gives, as `--schemas` takes them; `schema_rows`: what internal topics add up to has rows.
    `reader_schema`: `latest`, for values as the newest version of their subject has them.
    `decoder`: a command that is asked for the values of all other topics, and how long.
    `tier`: where the objects of tiered topics are; `tier_key`: the file that decrypts them.
    `schemas` is where a run has its schemas from, `releases` what dates the data directories.
    `hex_width`: the columns that annotated bytes may take.
    """

    mode: str = "records"
    selection: Selection = EVERYTHING
    server_properties: str | None = None
    from_offset: int | None = None
    to_offset: int | None = None
    from_time_ms: int | None = None
    to_time_ms: int | None = None
    limit: int | None = None
    tail: int | None = None
    key: bytes | None = None
    grep: re.Pattern[bytes] | None = None
    producer_id: int | None = None
    visible: bool = False
    isolation: str = "read_uncommitted"
    control: bool | None = None
    deep: bool = False
    decode: bool = False
    show_secrets: bool = False
    schema_files: tuple[str, ...] = ()
    schemas_at_ms: int | None = None
    reader_schema: str | None = None
    decoder: str | None = None
    decoder_timeout_s: float = 10.0
    schema_rows: bool = False
    tier: str | None = None
    tier_key: str | None = None
    schemas: SchemaSource | None = None
    releases: Releases | None = None
    decompress_limit: int = DEFAULT_LIMIT
    hex_width: int = 100

    @property
    def filters(self) -> Filters:
        """What narrows a log."""
        return Filters(*(getattr(self, name) for name in Filters._fields))
