"""What `groups` is asked for."""

from __future__ import annotations

from kdump.broker.versions import Version
from kdump.engine.coordinators.patterns import matches, one_name
from kdump.replay.groups import keys_of
from kdump.storage.file_records import DEFAULT_LIMIT
from kdump.storage.targets import EVERYTHING, Selection
from kdump.tuples import NamedTuple


class GroupOptions(NamedTuple):
    """What is asked for; the names are those of the command line.

    `selection` has topic and partition of committed offsets; `at_ms`: as of that time, inclusive.
    `ended`: the offsets that tombstones removed as well, in `ended-offset` rows.
    Of `history`: `backwards` are only changes to a lower offset, `from_ms` and `to_ms` (exclusive)
    only those of a time; `explain` computes again what assignors give; with `commits_only` nothing
    is told of members.
    """

    selection: Selection = EVERYTHING
    server_properties: str | None = None
    group: str | None = None
    at_ms: int | None = None
    history: bool = False
    ended: bool = False
    backwards: bool = False
    explain: bool = False
    commits_only: bool = False
    from_ms: int | None = None
    to_ms: int | None = None
    broker_version: Version | None = None  # None: of each directory, the newest it can be of
    decompress_limit: int = DEFAULT_LIMIT

    @property
    def one_group(self) -> str | None:
        """The name of the one group that is asked for; None where it is a pattern, or none."""
        return one_name(self.group)

    @property
    def only(self) -> bytes:
        """What the keys of the one group begin with; nothing where there may be several."""
        return b"" if self.one_group is None else keys_of(self.one_group)

    def wants_group(self, name: str) -> bool:
        """Whether a group is asked for."""
        return matches(self.group, name)

    def is_of_time(self, from_ms: int | None, to_ms: int | None = None) -> bool:
        """Whether a moment, or a stretch of time that may be open, is asked for."""
        end_ms = from_ms if to_ms is None else to_ms
        after = self.from_ms is None or end_ms is None or end_ms >= self.from_ms
        return after and (self.to_ms is None or from_ms is None or from_ms < self.to_ms)
