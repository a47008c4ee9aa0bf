"""Check the file names of a partition: files no broker opens, leftovers, missing files.

What a start does with each suffix is R6 and R11; that a name which ends like a segment's but does
not begin with a number stops the start was tried on 4.1.1.
"""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kdump.engine.checks.access import FileStatus, kept_out, status_of
from kdump.engine.checks.missing_segments import Covered, Seen, has_log, holes
from kdump.engine.checks.swaps import swaps
from kdump.engine.reading.check import Check
from kdump.findings.finding import Finding, finding
from kdump.storage import names, places
from kdump.storage.names import Kind

if TYPE_CHECKING:
    from kdump.engine.reading.partition_scan import PartitionScan, SegmentScan
    from kdump.record.frames import Oversize, Run
    from kdump.storage.names import FileName

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
    names.DELETED: "A start removes {them}; a running broker does after log.segment.delete.delay.",
    names.CLEANED: "A start removes {them}, unless a cleaner is at work just now.",
    names.PART: "A start removes {them}, unless a snapshot is being written just now.",
    names.TEMPORARY: "A write that did not finish; brokers pass over {them} and write anew.",
}
_RETIRED = {
    names.Retirement.DELETE: "The partition was deleted or moved away; a running broker, or the "
    "next start, removes the directory.",
    names.Retirement.FUTURE: "The partition is being moved here from another data directory; a "
    "start goes on with it.",
    names.Retirement.STRAY: "A start found that the partition does not belong here and set it "
    "aside; the broker deletes it later.",
}


class Files(Check):
    """Looks at the names in a partition's directory, and at holes between its segments."""

    def __init__(self, partition: PartitionScan) -> None:
        super().__init__(partition)
        self._seen: list[Seen] = []
        self._first: int | None = None

    def begin(self, segment: SegmentScan) -> Iterator[Finding]:
        """Take up a segment."""
        self._first = None
        return iter(())

    def run(self, segment: SegmentScan, run: Run) -> Iterator[Finding]:
        """Note where a segment's offsets begin."""
        if self._first is None:
            self._first = run.batches.base_offset(0)
        return iter(())

    def oversize(self, segment: SegmentScan, one: Oversize) -> Iterator[Finding]:
        """Note where a segment's offsets begin."""
        if self._first is None:
            self._first = one.batches.base_offset(0)
        return iter(())

    def finish(self, segment: SegmentScan) -> Iterator[Finding]:
        """Note what a segment holds."""
        whole = segment.complete
        self._seen.append(
            Seen(
                segment.place,
                segment.base_offset,
                segment.end_position,
                segment.last_offset + 1 if whole else None,
                self._contiguous(segment) if whole else None,
                bool(segment.gaps and segment.gaps[-1].to_end),
            )
        )
        return iter(())

    def skip(self, segment: SegmentScan) -> Iterator[Finding]:
        """A segment of which nothing is known."""
        self._seen.append(Seen(segment.place, segment.base_offset, 0, None, None))
        return iter(())

    def _contiguous(self, segment: SegmentScan) -> bool | None:
        if not segment.batches:
            return True
        if segment.wrappers or segment.gaps:
            return None
        offsets = segment.last_offset + 1 - segment.base_offset
        return self._first == segment.base_offset and segment.records_count == offsets

    def end(self) -> Iterator[Finding]:
        """Look at the directory as a whole."""
        if not self.partition.target.whole:
            return
        log = self.partition.log
        if log.name is not None and log.name.retirement is not None:
            yield self._at("directory-retired", message=_RETIRED[log.name.retirement])
        elif not log.logs:
            yield self._at("partition-empty")
        yield from self._misnamed()
        yield from self._leftovers()
        covered: list[Covered] = []
        yield from swaps(self.partition, covered)
        yield from self._orphans(list(holes(self.partition, self._seen, covered)))
        yield from self._listing()

    def _misnamed(self) -> Iterator[Finding]:
        """Tell of segment files that are not spelled with twenty digits (O7)."""
        for segment in self.partition.log.segments:
            for kind, path in segment.files.items():
                if os.path.basename(path) == names.file_name(kind, segment.base_offset):
                    continue
                holds = kind is Kind.LOG and _size(path)
                code = "log-name" if holds else "file-name"
                expected = names.file_name(kind, segment.base_offset)
                yield self._at(
                    code, path=path, segment=segment.base_offset, expected=expected,
                    actual=os.path.basename(path),
                )  # fmt: skip

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
                yield self._at("index-without-log", path=path, segment=base, actual=count)
        yield from missing

    def _leftovers(self) -> Iterator[Finding]:
        found: dict[str, list[str]] = defaultdict(list)
        for name, path in self.partition.log.retired:
            found[name.suffix].append(path)
        for suffix, words in _LEFTOVERS.items():
            if paths := found.get(suffix):
                them = "it" if len(paths) == 1 else "them"
                message = f"{_files(paths)} left over. {words.format(them=them)}"
                yield self._at("leftover", path=paths[0], actual=suffix, message=message)
        if paths := found.get(names.OURS):
            yield self._at("reindex-unfinished", path=paths[0], actual=len(paths))

    def _listing(self) -> Iterator[Finding]:
        """Tell of what only a look at the directory itself shows."""
        statuses, unknown = listing(self.partition.log.path)
        rest = []
        for path in unknown:
            # Brokers pass over directories, whatever their names.
            if names.stops_start(os.path.basename(path)) and places.isfile(path):
                yield self._at("file-stops-start", path=path)
            else:
                rest.append(path)
        if rest:
            yield self._at(
                "file-unknown", path=rest[0], actual=len(rest), message=f"{_files(rest)} unknown "
                "to brokers, which pass over what they do not know."
            )  # fmt: skip
        refused = list(kept_out(statuses))
        if refused:
            yield self._at("file-access", path=refused[0][0].path, message=access_words(refused))

    def _at(
        self,
        code: str,
        *,
        path: str | None = None,
        message: str | None = None,
        segment: int | None = None,
        expected: object = None,
        actual: object = None,
    ) -> Finding:
        target = self.partition.target
        return finding(
            code,
            path=target.log.path if path is None and target.log else path or target.path,
            topic=target.topic,
            partition=target.partition,
            segment=segment,
            expected=expected,
            actual=actual,
            message=message,
        )


def access_words(refused: Sequence[tuple[FileStatus, str]]) -> str:
    """Say why, and of how many."""
    more = len(refused) - 1
    return refused[0][1] + (f" The same of {more:,} more." if more else "")


def listing(directory: str) -> tuple[list[FileStatus], list[str]]:
    """List a partition's directory: who may open what, the directory first, and unknown names."""
    statuses: list[FileStatus] = []
    unknown: list[str] = []
    try:
        own = status_of(directory)
        if own is not None:
            statuses.append(own)
        for entry in sorted(places.entries(directory), key=lambda entry: entry.name):
            name = names.parse(entry.name)
            try:
                found = entry.stat()
            except FileNotFoundError:
                continue  # it vanished, or points nowhere
            except OSError:  # of a file that is read, reading it says why
                if not _is_expected(name):
                    unknown.append(entry.path)
                continue
            if not stat.S_ISREG(found.st_mode) or not _is_expected(name):
                unknown.append(entry.path)
            elif isinstance(found, os.stat_result):
                statuses.append(FileStatus(entry.path, found.st_uid, found.st_gid, found.st_mode))
    except OSError:
        pass  # the directory vanished; the scan has said so
    return statuses, unknown


def _is_expected(name: FileName) -> bool:
    return name.kind in _EXPECTED or (name.retired and name.suffix != names.SWAP)


def _size(path: str) -> int:
    try:
        return places.getsize(path)
    except OSError:
        return 0


def _files(paths: list[str]) -> str:
    more = len(paths) - 1
    shown = os.path.basename(paths[0])
    return f"{shown} is" if not more else f"{shown} and {more:,} more are"
