"""How far a run that produces has come, on disk, so that it can go on after it was killed.

What the file says has arrived has; what arrived behind that is read back from the cluster.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Iterable
from contextlib import ExitStack, suppress

from kdump.errors import RefusedError, path_errors
from kdump.storage.evidence import refuse_among_evidence, refuse_replacing
from kdump.storage.names import OURS
from kdump.storage.source import read_whole
from kdump.tuples import NamedTuple
from kdump.writing import NewFile, flush_directory, open_directory, write_file

_FORM = 1
_SIZE_LIMIT = 1 << 30
_PAUSE_SECONDS = 0.5
MAP_ENDING, GROUPS_ENDING = ".offsets.csv", ".groups.csv"
_MAP_HEAD = "topic,partition,old,new,records_count\n"
#: How the files begin that a run writes, by the ending of their names.
_FORMS = {
    "": re.compile(rb'\{\s*"salvage_state"'),
    MAP_ENDING: re.compile(re.escape(_MAP_HEAD.encode())),
    GROUPS_ENDING: re.compile(rb"[^,\n]+,[^,\n]+,\d+,\d+\n"),
}


class PartitionProgress(NamedTuple):
    """How much of a partition has arrived.

    The first record got the offset `start` of the cluster, and `records_count` lie there from it on
    without a hole; `next_offset` of the copies is behind the last of them.
    """

    start: int
    records_count: int = 0
    next_offset: int = 0
    is_done: bool = False


class PendingCommit(NamedTuple):
    """An offset that is being committed for a group, or was.

    `before` is the one that the group had, None for none: what it has is this or the new one, as
    long as nobody else commits.
    """

    before: int | None
    is_done: bool = False


class PartitionPlan(NamedTuple):
    """What is to arrive of a partition, and the paths that have it, as they were first named."""

    records_count: int
    paths: tuple[str, ...] = ()


class State:
    """The state file of a run; a context manager, in which no other run has it.

    `planned` has each partition from before the first record is sent, so that one whose copies are
    gone is missed. `afterwards` are commands to be typed once all has arrived.
    """

    def __init__(self, path: str, cluster_id: str) -> None:
        self.path = path
        self._cluster_id = cluster_id
        self._folder, self._name = os.path.split(os.path.abspath(path))
        for ending, form in _FORMS.items():
            refuse_among_evidence(path + ending, "--resume")
            refuse_replacing(path + ending, "--resume", is_ours=form.match)
        self._written = 0.0
        self.partitions: dict[str, PartitionProgress] = {}
        self.planned: dict[str, PartitionPlan] = {}
        self.afterwards: list[str] = []
        self.groups: dict[str, dict[str, PendingCommit]] = {}  # by group and partition
        with path_errors(self._folder):
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            self._fd = open_directory(self._folder)

    def __enter__(self) -> State:
        with ExitStack() as stack:
            stack.callback(os.close, self._fd)  # where it is refused
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RefusedError(
                    self._folder, "another salvage is using this state file"
                ) from None
            except OSError:
                pass  # a file system without such locks
            for ending in ("", MAP_ENDING, GROUPS_ENDING):
                with suppress(OSError):  # of a run that was killed
                    os.unlink(self._name + ending + OURS, dir_fd=self._fd)
            self._read()
            stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def _read(self) -> None:
        if not os.path.lexists(self.path):
            return
        try:
            content = json.loads(read_whole(self.path, _SIZE_LIMIT))
            if content["salvage_state"] != _FORM:
                raise ValueError
            cluster_id = content["cluster_id"]
            self.partitions = {
                name: PartitionProgress(**said) for name, said in content["partitions"].items()
            }
            self.planned = {
                name: PartitionPlan(said["records_count"], tuple(said["paths"]))
                for name, said in content.get("planned", {}).items()
            }
            self.afterwards = [str(each) for each in content.get("afterwards", ())]
            self.groups = {
                group: {name: PendingCommit(**said) for name, said in offsets.items()}
                for group, offsets in content.get("groups", {}).items()
            }
        except (ValueError, KeyError, TypeError, AttributeError):
            raise RefusedError(self.path, "is not a salvage state file") from None
        if cluster_id != self._cluster_id:
            raise RefusedError(
                self.path,
                f"belongs to another cluster, {cluster_id}: use a different --resume file",
            )

    def plan(self, name: str, records_count: int, paths: Iterable[str]) -> int:
        """Take note of what is to arrive of a partition; give the most that ever was."""
        known = self.planned.get(name)
        if known is None or known.records_count < records_count:
            self.planned[name] = known = PartitionPlan(records_count, tuple(paths))
        return known.records_count

    def count_unfinished(self) -> dict[str, int]:
        """How many records are still to arrive, by the partitions of which some are."""
        left = {}
        for name, one in self.planned.items():
            arrived = self.partitions.get(name, PartitionProgress(0))
            if not arrived.is_done:
                left[name] = max(one.records_count - arrived.records_count, 0)
        return left

    def put(self, name: str, arrived: PartitionProgress, *, now: bool = False) -> None:
        """Take note of what has arrived; on disk at once, or soon."""
        self.partitions[name] = arrived
        if now or time.monotonic() - self._written >= _PAUSE_SECONDS:
            self.save()

    def save(self) -> None:
        """Put what is known on disk."""
        content = {
            "salvage_state": _FORM,
            "cluster_id": self._cluster_id,
            "planned": {key: one._asdict() for key, one in self.planned.items()},
            "partitions": {key: one._asdict() for key, one in self.partitions.items()},
            "afterwards": self.afterwards,
            "groups": {
                group: {name: one._asdict() for name, one in offsets.items()}
                for group, offsets in self.groups.items()
            },
        }
        self.write("", json.dumps(content, indent=1).encode() + b"\n")
        self._written = time.monotonic()

    def write(self, ending: str, data: bytes) -> None:
        """Write a small file, the state itself or one beside it."""
        with path_errors(self.path + ending):
            write_file(self._fd, self._name + ending, data, OURS)
            flush_directory(self._fd)

    def offset_map(self) -> OffsetMap:
        """Begin the map of offsets beside it."""
        with path_errors(self.path + MAP_ENDING):
            return OffsetMap(NewFile(self._fd, self._name + MAP_ENDING + OURS, mode=0o666),
                             self._name + MAP_ENDING, self.path + MAP_ENDING)  # fmt: skip


class OffsetMap:
    """Where records went, as ranges of offsets without a hole; a file that appears when whole."""

    def __init__(self, file: NewFile, name: str, path: str) -> None:
        self._file, self._name, self._path = file, name, path
        self._lines = [_MAP_HEAD]
        self._at: tuple[str, int] = ("", 0)
        self._old = self._new = self._count = 0

    def __enter__(self) -> OffsetMap:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.drop()

    def add(self, at: tuple[str, int], old: int, new: int) -> None:
        """Add a record of a partition, by the name that the topic has in the cluster.

        After a broker was away the records before it come by again.
        """
        if at == self._at and old < self._old + self._count:
            return
        if old == self._old + self._count and at == self._at and self._count:
            self._count += 1
            return
        self._end_range()
        self._at, self._old, self._new, self._count = at, old, new, 1

    def finish(self) -> None:
        """Put it in its place."""
        self._end_range()
        self._flush()
        with path_errors(self._path):
            self._file.seal()
            self._file.rename(self._name)

    def _end_range(self) -> None:
        if self._count:
            topic, partition = self._at
            self._lines.append(f"{topic},{partition},{self._old},{self._new},{self._count}\n")
            if len(self._lines) > 1000:
                self._flush()

    def _flush(self) -> None:
        with path_errors(self._path):
            self._file.write("".join(self._lines).encode("utf-8", "surrogateescape"))
        self._lines = []
