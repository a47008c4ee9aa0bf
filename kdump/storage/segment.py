"""LogSegment: the files of one base offset, found by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.storage.names import Kind

if TYPE_CHECKING:
    from kdump.storage.names import FileName

LOG_KINDS = (Kind.LOG, Kind.PRE08_LOG)


class LogSegment:
    """One base offset: the log file, if it is there, and the files that go with it.

    `base_offset` is a lower bound of the offsets inside, not the first of them (I25). `files` maps
    each kind to a path.
    """

    __slots__ = ("base_offset", "files", "name")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.files: dict[Kind, str] = {}
        self.name: FileName | None = None

    @property
    def log(self) -> str | None:
        """The path of the log file; None for indexes without one."""
        return self.files.get(Kind.LOG) or self.files.get(Kind.PRE08_LOG)

    @property
    def is_pre08(self) -> bool:
        """Whether the log is of 0.6 or 0.7, where offsets are byte positions (F1)."""
        return Kind.PRE08_LOG in self.files and Kind.LOG not in self.files
