"""Collect from one partition what checks of the whole directory need, and find the directories.

Apart from those checks, which a run over one partition does not need.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from kdump.engine.checks.access import FileStatus, status_of
from kdump.engine.reading.check import Check
from kdump.engine.reading.damage import at_place
from kdump.errors import PathError, StoreError
from kdump.findings.finding import Finding, Severity, and_more
from kdump.findings.rows import Place
from kdump.storage import names, places, properties
from kdump.storage.local_log import LocalLog
from kdump.storage.log_dir import LogDir
from kdump.storage.names import Kind, Retirement
from kdump.storage.source import Unreadable, read_whole
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.reading.partition_scan import SegmentScan
    from kdump.storage.problems import Problem
    from kdump.storage.properties import Properties


class SmallFileReader(Protocol):
    """What a reader of a small file gives."""

    @property
    def problems(self) -> Sequence[Problem]:
        """What is wrong with it."""


ReadType = TypeVar("ReadType", bound=SmallFileReader)


class PartitionFacts(NamedTuple):
    """One partition directory.

    `topic_id` is that of `partition.metadata`, None where `has_metadata` is false or the file
    cannot be read. `base_offset` is that of the first segment, None where there is none.
    `next_offset` is the log end offset, None where the newest segment was not read to its end or
    where what is wrong with it leaves the end open. `newest` is the log it was read from and how
    many bytes that had. `pre08`: offsets are byte positions, and no checkpoint speaks of them.
    `records_count` is None where not every header was read, or wrappers were not opened.
    """

    topic: str
    partition: int
    path: str
    retirement: Retirement | None = None
    topic_id: str | None = None
    has_metadata: bool = False
    base_offset: int | None = None
    next_offset: int | None = None
    newest: tuple[str, int] | None = None
    pre08: bool = False
    status: FileStatus | None = None
    records_count: int | None = None

    @property
    def amount_text(self) -> str:
        """How many records it holds, as far as that was found out."""
        if self.records_count is not None:
            return f"{self.records_count:,} record" + "s" * (self.records_count != 1)
        if self.base_offset is None or self.next_offset is None:
            return "the records"
        return f"up to {self.next_offset - self.base_offset:,} records"

    @property
    def place(self) -> Place:
        """The partition, in its directory."""
        return Place(self.topic, self.partition, None, self.path)

    @property
    def is_live(self) -> bool:
        """Whether a broker would load it as the partition itself."""
        return self.retirement is None

    def still_holds(self) -> bool:
        """Whether nothing was written to the log since it was read.

        What lies beside it is read later: a broker may have gone on in between.
        """
        try:
            logs = LocalLog.open(self.path).logs
            if not logs or self.newest is None:
                return not logs and self.base_offset is None
            path, size = self.newest
            return logs[-1].log == path and places.getsize(path) == size
        except (PathError, OSError):
            return False

    def read_topic_id(self) -> str | None:
        """Read the topic id anew; None where there is none that can be read."""
        place = self.place._replace(path=os.path.join(self.path, names.PARTITION_METADATA))
        return _topic_id(read_properties(place, properties.parse_partition_metadata)[0])


class Survey(Check):
    """Collects the facts of a partition, and reads its `partition.metadata` (X8)."""

    reads_tails = True
    topic_id: str | None = None
    _has_metadata = False
    _next_offset: int | None = None
    _newest: tuple[str, int] | None = None

    def finish(self, segment: SegmentScan) -> None:
        """Note where the newest segment ends."""
        if segment.active and (segment.complete or segment.tail_read):
            self._next_offset = segment.last_offset + 1
            if segment.source is not None:
                self._newest = (segment.path, segment.source.size)

    def end(self) -> Iterator[Finding]:
        """Read what says which topic this is."""
        log = self.partition.log
        if not self.partition.target.whole or names.PARTITION_METADATA not in log.statuses:
            return
        path = os.path.join(log.path, names.PARTITION_METADATA)
        self._has_metadata = True
        place = self.partition.place._replace(path=path)
        found, reported = read_properties(place, properties.parse_partition_metadata)
        for one in reported:
            if isinstance(one, Finding):
                yield one
            else:
                self.partition.errors.append(one)
        if found is not None and not reported:
            self.topic_id = _topic_id(found)

    def facts(self, findings: Iterable[Finding]) -> PartitionFacts | None:
        """Say what was found; None where no directory of a partition was looked at.

        Damage in the newest segment may have been at its end, and has been reported.
        """
        log = self.partition.log
        if log.name is None or not self.partition.target.whole:
            return None
        segments = log.logs
        newest = segments[-1].base_offset if segments else None
        if any(
            reported.severity is Severity.DAMAGE
            and reported.segment == newest
            and not reported.entry.blocks_committed
            for reported in findings
        ):
            self._next_offset = None
        return PartitionFacts(
            log.name.topic,
            log.name.partition,
            log.path,
            log.name.retirement,
            self.topic_id,
            self._has_metadata,
            segments[0].base_offset if segments else None,
            self._next_offset,
            self._newest,
            any(segment.is_pre08 for segment in segments),
            status_of(log.path),
            self._records_count(),
        )

    def _records_count(self) -> int | None:
        segments = self.partition.segments
        if not all(segment.complete and not segment.wrappers for segment in segments):
            return None
        return sum(segment.records_count for segment in segments)


def read_properties(
    place: Place, parse: Callable[[bytes], Properties]
) -> tuple[Properties | None, list[Finding | PathError]]:
    """Read a small file of names and values, as `read_small` does."""
    return read_small(place, parse, properties.SIZE_LIMIT, "properties-malformed")


def read_small(
    place: Place, parse: Callable[[bytes], ReadType], limit: int, unreadable: str
) -> tuple[ReadType | None, list[Finding | PathError]]:
    """Read a small file: its contents, None if there are none, and what is wrong.

    A file that vanished has no contents, and nothing is wrong with it. `unreadable` is the code
    for one that is there and cannot be read; one that this user may not read is an error instead,
    as the broker's user may.
    """
    try:
        found = parse(read_whole(place.path, limit))
    except PathError as error:
        if not places.lexists(place.path):
            return None, []
        if isinstance(error.__cause__, PermissionError):
            return None, [error]
        if isinstance(error, Unreadable):
            return None, [
                at_place("unreadable", place, position=start, size_bytes=end - start)
                for start, end in error.ranges
            ]
        return None, [at_place(unreadable, place, message=f"It {error.reason}.")]
    # The rest of a file that is not what it should be is one damage with the first.
    return found, [problem_finding(problem, place) for problem in found.problems[:1]]


def _topic_id(found: Properties | None) -> str | None:
    """Brokers write the id without padding; some tools pad it."""
    if found is None or found.problems:
        return None
    return (found.values.get("topic_id") or "").rstrip("=") or None


def problem_finding(problem: Problem, place: Place) -> Finding:
    """Make a finding of what a reader of a small file found wrong."""
    found = at_place(
        problem.code,
        place,
        position=problem.position,
        size_bytes=problem.size_bytes,
        expected=problem.expected,
        actual=problem.actual,
    )
    return and_more(found, problem.places - 1)


class SurveyedDirectory(NamedTuple):
    """A data directory and what was found of its partitions; `whole`: of all of them."""

    directory: LogDir
    facts: Sequence[PartitionFacts]
    whole: bool = True


class Member(NamedTuple):
    """A data directory among those of its broker, with what its `meta.properties` say."""

    surveyed: SurveyedDirectory
    meta: dict[str, str]

    @property
    def path(self) -> str:
        """The directory's path."""
        return self.surveyed.directory.path

    @property
    def node_id(self) -> str | None:
        """The broker, as the directory knows it."""
        return self.meta.get("node.id", self.meta.get("broker.id"))


def is_data_directory(directory: LogDir) -> bool:
    """Whether a broker kept its data here, rather than that someone put partitions together."""
    kinds = {names.parse(os.path.basename(path)).kind for path in directory.files}
    return bool(kinds & {Kind.META_PROPERTIES, Kind.OFFSET_CHECKPOINT})


def group_surveys(
    paths: Iterable[str], facts: Iterable[PartitionFacts], *, whole: bool
) -> list[SurveyedDirectory]:
    """Find the data directories among paths, each once, with the facts of what lies in them."""
    by_parent: dict[str, list[PartitionFacts]] = {}
    for one in facts:
        by_parent.setdefault(places.parent(one.path), []).append(one)
    by_directory: dict[str, list[PartitionFacts]] = {}
    for parent, in_it in by_parent.items():
        by_directory.setdefault(places.real(parent), []).extend(in_it)
    found: dict[str, SurveyedDirectory] = {}
    for path in paths:
        try:
            real = places.real(path)
            if real in found or not places.isdir(path):
                continue
            directory = LogDir.open(path)
        except (PathError, StoreError):
            continue  # whoever listed it before has said so
        if is_data_directory(directory):
            of_it = by_directory.get(real, [])
            complete = {one.path for one in of_it} >= {at for _, at in directory.partitions}
            found[real] = SurveyedDirectory(directory, of_it, whole and complete)
    return list(found.values())
