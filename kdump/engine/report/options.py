"""What a report is asked for."""

from __future__ import annotations

from kdump.broker.versions import Version
from kdump.storage.file_records import DEFAULT_LIMIT
from kdump.storage.targets import EVERYTHING, Selection
from kdump.tuples import NamedTuple


class ReportOptions(NamedTuple):
    """What is asked for.

    `from_ms` and `to_ms` (exclusive) are those of the timeline; the cluster and its groups are
    shown at both. `records`: how many records are shown before and after damage.
    """

    now_ms: int
    selection: Selection = EVERYTHING
    server_properties: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    deep: bool = False
    hashes: bool = True
    records: int = 0
    broker_version: Version | None = None  # None: of each directory, the newest it can be of
    scratch: str | None = None
    decompress_limit: int = DEFAULT_LIMIT
