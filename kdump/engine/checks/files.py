"""Check the file names of a partition: files no broker opens, leftovers, missing files.

What a start does with each suffix is R6 and R11; that a name which ends like a segment's but does
not begin with a number stops the start was tried on 4.1.1.
"""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Unpack

from kdump.engine.checks.access import FileStatus, access_findings, status_of
from kdump.engine.checks.missing_segments import OffsetSpan, has_log, holes
from kdump.engine.reading.check import Check
from kdump.engine.reading.damage import at_place, gap_finding
from kdump.engine.reading.log_files import find_misnamed
from kdump.engine.reading.segment_pass import SegmentPass
from kdump.errors import PathError
from kdump.findings.finding import About, Finding
from kdump.findings.rows import Place
from kdump.record.frames import Gap
from kdump.storage import names, places
from kdump.storage.local_log import LocalLog
from kdump.storage.names import FileName, Kind
from kdump.storage.offsets import Offsets, end_of
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.reading.partition_scan import PartitionScan


_EXPECTED = names.SEGMENT_KINDS | {
    Kind.LEADER_EPOCHS,
    Kind.PARTITION_METADATA,
    Kind.METADATA_SNAPSHOT,
    Kind.QUORUM_STATE,
    Kind.OTHER_CHECKPOINT,
    Kind.REMOTE_LOG_SNAPSHOT,
    Kind.LOCK,
}
_LEFTOVERS = {
    names.DELETED: "A broker start removes {them}; a running broker removes {them} after "
    "log.segment.delete.delay.ms.",
    names.CLEANED: "A broker start removes {them}. A running cleaner may be using {them}.",
    names.PART: "A broker start removes {them}. A running broker may be writing {them}.",
    names.TEMPORARY: "An unfinished write; brokers ignore {them} and write the file again.",
}
_RETIRED = {
    names.Retirement.DELETE: "The partition was deleted or moved away; the running broker or the "
    "next start removes the directory.",
    names.Retirement.FUTURE: "The partition is being moved here from another data directory; "
    "a broker start continues the move.",
    names.Retirement.STRAY: "At a start, the broker found that the partition does not belong here "
    "and renamed it; it deletes it later.",
}


class Files(Check):
    """Looks at the names in a partition's directory, and at holes between its segments."""

    def end(self) -> Iterator[Finding]:
        """Look at the directory as a whole."""
        if not self.partition.target.whole:
            return
        log = self.partition.log
        if log.name is not None and log.name.retirement is not None:
            yield self._make_finding("directory-retired", message=_RETIRED[log.name.retirement])
        elif not log.logs:
            yield self._make_finding("partition-empty")
        yield from find_misnamed(log, self.partition.place)
        yield from self._leftovers()
        covered: list[OffsetSpan] = []
        if log.retired:
            from kdump.engine.checks.files import swaps

            yield from swaps(self.partition, covered)
        yield from self._orphans(list(holes(self.partition, covered)))
        yield from self._listing()

    def _orphans(self, missing: list[Finding]) -> Iterator[Finding]:
        """Tell of indexes without a log; those of a segment that is missing follow from that."""
        for segment in self.partition.log.segments:
            base = segment.base_offset
            if segment.log is not None or not segment.files or has_log(self.partition.log, base):
                continue
            for number, hole in enumerate(missing):
                assert hole.offset is not None
                assert hole.next_offset is not None
                if hole.offset <= base < hole.next_offset:
                    more = (*hole.consequences, f"index-without-log@{base}")
                    missing[number] = hole._replace(consequences=more)
                    break
            else:
                path = next(iter(segment.files.values()))
                count = len(segment.files)
                place = self.partition.place._replace(segment=base, path=path)
                yield at_place("index-without-log", place, actual=count)
        yield from missing

    def _leftovers(self) -> Iterator[Finding]:
        found: dict[str, list[str]] = defaultdict(list)
        for name, path in self.partition.log.retired:
            found[name.suffix].append(path)
        for suffix, words in _LEFTOVERS.items():
            if paths := found.get(suffix):
                them = "it" if len(paths) == 1 else "them"
                message = f"{first_and_more(paths)} left over. {words.format(them=them)}"
                yield self._make_finding("leftover", path=paths[0], actual=suffix, message=message)
        if paths := found.get(names.OURS):
            yield self._make_finding("reindex-unfinished", path=paths[0], actual=len(paths))

    def _make_finding(self, code: str, path: str | None = None, **about: Unpack[About]) -> Finding:
        return at_place(code, self.partition.place, path=path, **about)

    def _listing(self) -> Iterator[Finding]:
        """Tell of what only a look at the directory itself shows."""
        statuses, unknown = listing(self.partition.log)
        rest = []
        for path in unknown:
            # Brokers pass over directories, whatever their names.
            if names.stops_start(os.path.basename(path)) and places.isfile(path):
                yield self._make_finding("file-stops-start", path=path)
            else:
                rest.append(path)
        yield from unknown_files(rest, self.partition.place)
        yield from access_findings(statuses, self.partition.place)


def unknown_files(paths: Sequence[str], place: Place) -> Iterator[Finding]:
    """Yield one finding for all the files that no broker knows."""
    if paths:
        message = f"{first_and_more(paths)} unknown to brokers."
        yield at_place("file-unknown", place, path=paths[0], actual=len(paths), message=message)


def first_and_more(paths: Sequence[str]) -> str:
    """Begin a sentence: name the first of some files, and count the others."""
    shown, more = os.path.basename(paths[0]), len(paths) - 1
    return f"{shown} and {more:,} more are" if more else f"{shown} is"


def listing(log: LocalLog) -> tuple[list[FileStatus], list[str]]:
    """Go through a partition's directory: who may open what, itself first, and unknown names."""
    statuses: list[FileStatus] = []
    unknown: list[str] = []
    own = status_of(log.path)
    if own is not None:
        statuses.append(own)
    prefix = os.path.join(log.path, "")
    for entry in sorted(log.statuses):
        found, path = log.statuses[entry], prefix + entry
        # One that is not found vanished, or points nowhere. Of a file that is read and cannot be
        # asked for, reading it says why.
        if not _is_expected(names.parse(entry)):
            if not isinstance(found, FileNotFoundError):
                unknown.append(path)
        elif isinstance(found, os.stat_result):
            if stat.S_ISREG(found.st_mode):
                statuses.append(FileStatus(path, found.st_uid, found.st_mode))
            else:
                unknown.append(path)
        elif not isinstance(found, OSError) and not found.is_file:
            unknown.append(path)
    return statuses, unknown


def _is_expected(name: FileName) -> bool:
    return name.kind in _EXPECTED or (name.is_retired and name.suffix != names.SWAP)


class _Swap(NamedTuple):
    place: Place
    base_offset: int
    next_offset: int
    legacy: bool


def swaps(partition: PartitionScan, covered: list[OffsetSpan]) -> Iterator[Finding]:
    """Yield what a start would do with them, and add to `covered` the offsets they hold.

    They are read like any log: once they are in place there is no other.
    """
    found: list[_Swap] = []
    for name, path in partition.log.retired:
        if name.kind is Kind.LOG and name.suffix == names.SWAP and name.base_offset is not None:
            try:
                found.append((yield from _read(partition, path, name.base_offset)))
            except PathError as error:
                if places.lexists(path):
                    partition.errors.append(error)
    if not found:
        return
    covered.extend(OffsetSpan(swap.base_offset, swap.next_offset) for swap in found)
    start = min(swap.base_offset for swap in found)
    end = max(swap.next_offset for swap in found)
    replaced = [
        segment.base_offset for segment in partition.log.logs if start <= segment.base_offset < end
    ]
    yield at_place(
        "swap-left",
        found[0].place,
        actual=len(found),
        message=_words(found, replaced, _find_lost_at_start(partition, found)),
    )


def _read(partition: PartitionScan, path: str, base_offset: int) -> Generator[Finding, None, _Swap]:
    place = partition.place._replace(segment=base_offset, path=path)
    if partition.quick:
        bases = [segment.base_offset for segment in partition.log.logs]
        behind = min((base for base in bases if base > base_offset), default=names.OFFSET_MAX)
        return _Swap(place, base_offset, behind, legacy=False)
    offsets, legacy = Offsets(base_offset - 1, end_of(base_offset, None)), False
    with partition.open(path) as source:
        log = SegmentPass(source, offsets, limit=partition.limit, next_base=None)
        for item in log.items():
            legacy |= not isinstance(item, Gap) and item.batches.is_legacy(0)
            for gap in log.take(item):
                yield gap_finding(gap, place, source, active=False)
        for gap in offsets.release(None):
            yield gap_finding(gap, place, source, active=False)
    return _Swap(place, base_offset, offsets.last + 1, legacy)


def _find_lost_at_start(partition: PartitionScan, found: list[_Swap]) -> list[int]:
    """Swap files that a start deletes: those from the first `.cleaned` file on."""
    cleaned = [
        name.base_offset
        for name, _ in partition.log.retired
        if name.suffix == names.CLEANED and name.base_offset is not None
    ]
    return [swap.base_offset for swap in found if cleaned and swap.base_offset >= min(cleaned)]


def _words(found: list[_Swap], replaced: list[int], lost: list[int]) -> str:
    bases = _list([swap.base_offset for swap in found])
    if lost:
        return (
            f"The .swap files of segment {bases} are next to files of an unfinished cleaning: "
            f"a broker start deletes those of segment {_list(lost)}."
        )
    if replaced:
        old = _list(replaced)
        return f"A broker start replaces segment {old} by the .swap files of segment {bases}."
    words = (
        f"The .swap files of segment {bases} have offsets that no other segment has; a broker "
        "start turns these files into a segment."
    )
    if any(swap.legacy for swap in found):
        words += " Brokers from 0.9.0 to 0.10.2 also delete the segment before it."
    return words


def _list(bases: list[int]) -> str:
    shown = ", ".join(str(base) for base in bases[:5])
    return shown if len(bases) <= 5 else f"{shown} and {len(bases) - 5:,} more"
