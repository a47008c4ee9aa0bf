"""LocalLog: one topic-partition directory and its segments, from its file names."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING, Protocol, TypeVar

from kdump.errors import PathError, path_errors
from kdump.storage import checkpoints, names, places
from kdump.storage.checkpoints import EpochStart
from kdump.storage.names import DirectoryName, FileName, Kind
from kdump.storage.source import read_whole

if TYPE_CHECKING:
    from kdump.storage.places import FileStatus


_OF_A_SEGMENT = names.SEGMENT_KINDS - {Kind.PRODUCER_SNAPSHOT}


class LogSegment:
    """One base offset: the log file, if it is there, and the files that go with it.

    `base_offset` is a lower bound of the offsets inside, not the first of them (I25). `files` maps
    each kind to a path.
    """

    def __init__(self, base_offset: int, files: dict[Kind, str] | None = None) -> None:
        self.base_offset = base_offset
        self.files = {} if files is None else files

    @property
    def log(self) -> str | None:
        """The path of the log file; None for indexes without one."""
        return self.files.get(Kind.LOG) or self.files.get(Kind.PRE08_LOG)

    @property
    def is_pre08(self) -> bool:
        """Whether the log is of 0.6 or 0.7, where offsets are byte positions (F1)."""
        return Kind.PRE08_LOG in self.files and Kind.LOG not in self.files

    @property
    def misnamed_files(self) -> dict[Kind, str]:
        """The files whose names do not have twenty digits: no broker opens them (O7)."""
        return {
            kind: path
            for kind, path in self.files.items()
            if os.path.basename(path) != names.file_name(kind, self.base_offset)
        }


class LocalLog:
    """One partition directory.

    `segments` rise by base offset and hold the files in use, `logs` are those that have a log file;
    `retired` are files on their way in or out (`.deleted .cleaned .swap` and the like), `others`
    all else that has a known name. `name` is None where the directory's name is no topic and
    partition. The entries may come with what the file system says of each (`places.statuses`),
    which is then not asked for again.
    """

    def __init__(self, path: str, entries: Sequence[str] | dict[str, FileStatus]) -> None:
        self.path = path
        if isinstance(entries, dict):
            self.statuses = entries
        self.name: DirectoryName | None = names.parse_directory(_base_name(path))
        self.retired: list[tuple[FileName, str]] = []
        self.others: list[tuple[FileName, str]] = []
        found: dict[int, LogSegment] = {}
        self.has_odd_names = False  # a segment's file without twenty digits
        prefix = os.path.join(path, "")  # once: a directory may hold many thousands of files
        for entry in sorted(entries):
            name = names.parse(entry)
            at = prefix + entry
            if name.is_retired:
                self.retired.append((name, at))
            elif name.kind in _OF_A_SEGMENT:
                assert name.base_offset is not None
                segment = found.get(name.base_offset)
                if segment is None:
                    segment = found[name.base_offset] = LogSegment(name.base_offset)
                if entry.find(".") == names.DIGITS:
                    segment.files[name.kind] = at  # whatever else has the same number
                else:
                    self.has_odd_names = True
                    segment.files.setdefault(name.kind, at)
            elif name.kind is not Kind.UNKNOWN:
                self.others.append((name, at))
        self.segments = [found[base] for base in sorted(found)]
        self.logs = [segment for segment in self.segments if segment.log is not None]

    @classmethod
    def open(cls, path: str) -> LocalLog:
        """List a partition directory."""
        with path_errors(path):
            return cls(path, places.listdir(path, fresh=True))

    @cached_property
    def statuses(self) -> dict[str, FileStatus]:
        """What the file system says of each entry; nothing where the directory is gone."""
        try:
            return places.statuses(self.path)
        except OSError:
            return {}

    def without_directories(self) -> LocalLog:
        """Give it without directories that have the names of files: a start passes over them (N12).

        One in the place of the only log stops a start, and stays.
        """
        found = {
            name
            for name, status in self.statuses.items()
            if isinstance(status, os.stat_result) and stat.S_ISDIR(status.st_mode)
        }
        files = {name: self.statuses[name] for name in self.statuses if name not in found}
        left = LocalLog(self.path, files) if found else self
        return left if left.logs else self

    @property
    def topic(self) -> str | None:
        """The topic, as the directory's name tells."""
        return self.name.topic if self.name else None

    @property
    def partition(self) -> int | None:
        """The partition's number, as the directory's name tells."""
        return self.name.partition if self.name else None

    def snapshots(self, kind: Kind = Kind.PRODUCER_SNAPSHOT) -> list[tuple[int, str]]:
        """The snapshots of producers, or of another kind, as (offset, path), rising."""
        return sorted(
            (name.base_offset, path)
            for name, path in self.others
            if name.kind is kind and name.base_offset is not None
        )

    def epoch_starts(self) -> list[EpochStart]:
        """What the leader epoch checkpoint says; nothing where it cannot be read or believed."""
        for name, path in self.others:
            if name.kind is Kind.LEADER_EPOCHS:
                try:
                    read = checkpoints.parse_leader_epochs(read_whole(path, checkpoints.SIZE_LIMIT))
                except PathError:
                    return []
                return [] if read.problems else read.entries
        return []


class _HasBaseOffset(Protocol):
    @property
    def base_offset(self) -> int: ...


_Segment = TypeVar("_Segment", bound=_HasBaseOffset)


def with_next_base(segments: Sequence[_Segment]) -> Iterator[tuple[_Segment, int | None]]:
    """Yield each segment with the base offset of the one behind it, None for the last."""
    return zip_longest(segments, [segment.base_offset for segment in segments[1:]])


def _base_name(path: str) -> str:
    """Name a directory that may be given as `.` or with a slash at its end."""
    name = os.path.basename(path)
    if name in ("", ".", "..") or places.is_uri(path):
        return os.path.basename(places.absolute(path))
    return name


def looks_like_partition(entries: list[str]) -> bool:
    """Whether a directory with these entries holds a partition's segments."""
    return any("." in name and names.parse(name).kind in names.SEGMENT_KINDS for name in entries)
