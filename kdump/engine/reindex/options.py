"""Options of a rebuild, and one item of its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.versions import Version
from kdump.errors import KdumpError
from kdump.storage.file_records import DEFAULT_LIMIT
from kdump.storage.names import Kind
from kdump.storage.targets import Selection, Target
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.settings import TopicConfig
    from kdump.findings.finding import Finding
    from kdump.findings.rows import Row

    Item = Row | Finding | KdumpError


DEFAULT_ONLY = frozenset({Kind.OFFSET_INDEX, Kind.TIME_INDEX, Kind.TRANSACTION_INDEX})


class ReindexOptions(NamedTuple):
    """What is asked for; the names are those of the command line, sizes in bytes.

    `every`: also files that are sound but not as recovery writes them.
    """

    selection: Selection = Selection()
    server_properties: str | None = None
    broker_version: Version | None = None  # None: of each directory, the newest it can be of
    only: frozenset[Kind] = DEFAULT_ONLY
    index_interval_bytes: int | None = None
    max_index_bytes: int | None = None
    topic_configs: bool = True
    configs: tuple[TopicConfig, ...] = ()
    every: bool = False
    up_to_damage: bool = False
    write: bool = False
    out: str | None = None
    undo: bool = False
    decompress_limit: int = DEFAULT_LIMIT

    @property
    def changes(self) -> bool:
        """Whether files beside the logs are changed."""
        return self.write and self.out is None


class Job(NamedTuple):
    """One partition; `bases` are the segments asked for, None for all."""

    target: Target
    bases: frozenset[int] | None
    kinds: frozenset[Kind]
