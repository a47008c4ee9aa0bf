"""Cut data directories into splits that workers read alone, and check that results fit.

Small segments of a partition are packed into one split, a huge one is cut. Planning only lists and
asks for sizes; where a cut lies exactly, the worker finds out: at the first position behind the
nominal one that the offset index names and at which a valid batch starts. Both neighbours look
into the same files and so agree.

An index entry is a claim, though, and one that points at a batch inside a record's value would
pass. So nothing rests on it: a split of a segment tells where it started and where it stopped, and
`edges_meet` demands that each starts where the one before stopped, above its last offset. A split
that meets anything but sound batches whose offsets rise gives up at once. Where the splits of a
segment do not fit, all of them are thrown away and the segment is read as one. With that, results
are those of an uncut read, whatever the index says and wherever the cuts lie. Not chosen: reading
around damage in a split, because what is found behind it depends on what was read before it.

The active segment is never cut: a broker may be writing it, and its index is full of zeros.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Protocol, TypeVar

from kdump.engine.reading.filters import Filters
from kdump.engine.reading.log_files import logs_of, sibling_path
from kdump.engine.reading.ranges import logs_within
from kdump.engine.reading.remote_logs import targets_of
from kdump.engine.reading.split_edges import SplitEdges, edges_meet
from kdump.errors import KdumpError, PathError
from kdump.storage import places
from kdump.storage.file_records import FileRecords
from kdump.storage.index import OffsetIndex
from kdump.storage.names import Kind
from kdump.storage.source import Source
from kdump.storage.targets import LogFile, Target
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.reading.options import DumpOptions
    from kdump.engine.work.pace import Progress
    from kdump.engine.work.pipeline import Driver, Step


#: Log bytes of one split. A gigabyte of log is decoded in some seconds; less than a second of work
#: would not be worth a task of Spark.
SPLIT_BYTES = 256 << 20
#: Brokers write an index entry for every so many bytes; finer cuts need the batches themselves.
_INDEX_INTERVAL = 4096
_CLAIMS_TRIED = 4
_MOST_CUTS = 1 << 20  # of one segment, so that a small size cannot exhaust memory


class Split(NamedTuple):
    """What one worker reads alone: whole logs of one partition, or a piece of one log.

    `number` is its place in the plan. `sizes` are those of `target.files` when it was planned. Of
    a piece, `start` and `end` are the nominal range (`end` None: to the file's end), and `segment`
    is the number of the first piece of the same log; None where logs are whole.
    """

    number: int
    target: Target
    sizes: tuple[int, ...]
    start: int = 0
    end: int | None = None
    segment: int | None = None

    @property
    def path(self) -> str:
        """What errors about the split name."""
        files = self.target.files
        return files[0].path if len(files) == 1 else self.target.path

    @property
    def paths(self) -> list[str]:
        """The files that are read."""
        return [file.path for file in self.target.files]

    @property
    def size_bytes(self) -> int:
        """The bytes of log to be read, as planned."""
        whole = sum(self.sizes)
        return (whole if self.end is None else min(self.end, whole)) - self.start

    def uncut(self) -> Split:
        """Return the split that reads the whole log of which this is the first piece."""
        return self._replace(start=0, end=None, segment=None)


class Narrower(Protocol):
    """Reads less of some partitions than options that are the same for all can say."""

    def check_targets(
        self, targets: Iterable[Target | KdumpError]
    ) -> Iterator[Target | KdumpError]:
        """Pass partitions on; raise where one that is narrowed is not among them."""

    def files(self, target: Target, files: Iterable[LogFile]) -> list[LogFile]:
        """Return the files of a partition that are read."""

    def options_of(self, target: Target, options: DumpOptions) -> DumpOptions:
        """Return the options with which a partition is read."""


def plan(
    paths: Iterable[str],
    options: DumpOptions,
    split_bytes: int | None = SPLIT_BYTES,
    narrowed: Narrower | None = None,
) -> Iterator[Split | KdumpError]:
    """Yield the splits in the order of `dump`, and an error for each path that cannot be read.

    `split_bytes` None: each log is a split. Below 4096 a cut is made at every batch that starts so
    far behind the last cut; 1 means at every batch. `narrowed` may leave out
    files of a partition, or narrow what is read of it.
    """
    number = 0
    targets = targets_of(paths, options)
    for target in targets if narrowed is None else narrowed.check_targets(targets):
        if isinstance(target, KdumpError):
            yield target
            continue
        files = logs_of(target)
        if not files and not target.whole:
            yield PathError(target.path, "is not a log file")
            continue
        own = options
        if narrowed is not None:
            files, own = narrowed.files(target, files), narrowed.options_of(target, options)
        for part in _parts_shown(target, files, own, split_bytes):
            yield part._replace(
                number=number, segment=None if part.segment is None else number - part.segment
            )
            number += 1


def _parts_shown(
    target: Target, files: list[LogFile], options: DumpOptions, split_bytes: int | None
) -> Iterator[Split]:
    if not options.visible:
        yield from parts(target, files, options.filters, split_bytes)
    elif files:
        # What a consumer is handed is known for the partition as a whole only.
        yield Split(
            0,
            target._replace(files=tuple(files)),
            tuple(places.size_or_zero(file.path) for file in files),
        )


def parts(
    target: Target, files: Sequence[LogFile], filters: Filters, split_bytes: int | None
) -> Iterator[Split]:
    """Cut and pack logs of one partition; `segment` of a piece is how many came before it."""
    packed: list[LogFile] = []
    sizes: list[int] = []
    plain = target._replace(log=None)  # it lists every file, and a split goes over the network
    for file in logs_within(files, filters):
        size = places.size_or_zero(file.path)
        if packed and (split_bytes is None or sum(sizes) + size > split_bytes):
            yield Split(0, plain._replace(files=tuple(packed)), tuple(sizes))
            packed, sizes = [], []
        if split_bytes is None or size <= split_bytes or not may_be_cut(file, filters):
            packed.append(file)
            sizes.append(size)
            continue
        alone = Split(0, plain._replace(files=(file,)), (size,))
        bounds = [*_nominal_cuts(file, size, split_bytes), None]
        start = 0
        for before, end in enumerate(bounds):
            yield alone._replace(start=start, end=end, segment=before) if len(bounds) > 1 else alone
            start = end or 0
    if packed:
        yield Split(0, plain._replace(files=tuple(packed)), tuple(sizes))


def may_be_cut(file: LogFile, filters: Filters) -> bool:
    """Whether a log is closed, and all of it asked for: a range has its own place to start."""
    base, following = file.name.base_offset, file.next_base
    if file.name.kind is not Kind.LOG or file.name.is_retired or file.active:
        return False
    if base is None or following is None:
        return False
    if filters.from_offset is not None and filters.from_offset > base:
        return False
    return filters.to_offset is None or following <= filters.to_offset


def _nominal_cuts(file: LogFile, size: int, split_bytes: int) -> Sequence[int]:
    if places.is_uri(file.path) and not _has_index(file):
        return ()  # every batch would be a request to find where to cut
    if split_bytes >= _INDEX_INTERVAL:
        return range(split_bytes, size, max(split_bytes, size // _MOST_CUTS))
    cuts: list[int] = []
    try:
        with Source(file.path) as source:
            for headers in FileRecords(source).headers(0):
                for position in headers.positions:
                    if position >= (cuts[-1] if cuts else 0) + max(split_bytes, 1):
                        cuts.append(position)
                        if len(cuts) == _MOST_CUTS:
                            return cuts
    except PathError:
        pass  # the worker will say it
    return cuts


def _has_index(file: LogFile) -> bool:
    try:
        return places.getsize(sibling_path(file, Kind.OFFSET_INDEX)) > 0
    except OSError:
        return False


def cut_at(source: Source, file: LogFile, nominal: int) -> int | None:
    """Return where a log may be cut: at or behind a nominal position, at a valid batch.

    None where no index entry behind the position names one.
    """
    if nominal <= 0:
        return 0
    records = FileRecords(source)
    if _starts_valid(records, nominal):
        return nominal
    assert file.name.base_offset is not None
    try:
        with Source(sibling_path(file, Kind.OFFSET_INDEX)) as index_source:
            # A few slots of many: what they say is a claim, and zeros lie behind what was written.
            index = OffsetIndex(index_source, file.name.base_offset, slotwise=True)
            slots = range(index.entries)
            first = bisect_left(slots, nominal, key=lambda slot: index.raw(slot)[1] or source.size)
            for slot in slots[first : first + _CLAIMS_TRIED]:
                position = index.entry(slot).position
                if position >= nominal and _starts_valid(records, position):
                    return position
    except PathError:
        pass
    return None


def _starts_valid(records: FileRecords, position: int) -> bool:
    return records.valid_at(position, records.source.size, -1) is not None


def range_of(source: Source, split: Split) -> tuple[int, int] | None:
    """Return where a piece really starts and ends; None where nothing is left of it."""
    file = split.target.files[0]
    start = cut_at(source, file, split.start)
    if start is None:
        return None
    if split.end is None:
        return start, source.size
    step = max(split.end - split.start, 1)
    for nominal in range(split.end, max(split.end + 1, split.sizes[0]), step):
        end = cut_at(source, file, nominal)
        if end is not None:
            return (start, end) if end > start else None
        if step < _INDEX_INTERVAL:
            break  # cuts at batches are not regular
    return start, source.size


def splits_to_reread(
    splits: Sequence[Split], seams: Mapping[int, SplitEdges | None]
) -> list[list[Split]]:
    """Return the pieces of each log that do not fit, and so have to be read again as one.

    `seams` are those of all results, by number; a log that was read as one has none.
    """
    logs = []
    pieces = (split for split in splits if split.segment is not None)
    for number, group in groupby(pieces, key=lambda split: split.segment):
        of_log = list(group)
        if number is None or seams[number] is None:
            continue
        known = [seams.get(split.number) or SplitEdges(sound=False) for split in of_log]
        if not edges_meet(known, of_log[0].sizes[0]):
            logs.append(of_log)
    return logs


class SplitOutcome(Protocol):
    """What comes of a split: `seam` says how a piece was read, None where logs were whole."""

    @property
    def seam(self) -> SplitEdges | None:
        """Where the piece began and ended."""


Result = TypeVar("Result", bound=SplitOutcome)


def of_whole_logs(
    splits: Sequence[Split], step: Step[Split, Result], driver: Driver, progress: Progress
) -> Iterator[Result | KdumpError]:
    """Yield what came of each split, in order. All results are held, so they should be small."""
    came = {split.number: result for split, result in driver(splits, step, progress)}
    seams = {
        number: None if isinstance(result, KdumpError) else result.seam
        for number, result in came.items()
    }
    logs = splits_to_reread(splits, seams)
    for number in (split.number for pieces in logs for split in pieces):
        del came[number]
    again = [pieces[0].uncut() for pieces in logs]
    came |= {split.number: result for split, result in driver(again, step, progress)}
    for number in sorted(came):
        yield came[number]
