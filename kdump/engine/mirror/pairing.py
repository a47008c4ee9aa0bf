"""Find the same record on both sides, by hashes that are sorted in scratch files.

An entry is 29 bytes: a hash of the pair of partitions and of what a record says, the number of the
pair, the side, the offset. Of records that say the same, as many as both sides have are paired in
order; where one side has more, the walk decides, which knows the shift around them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from itertools import groupby
from struct import Struct

from kdump.engine.dump.split_reader import SplitReader
from kdump.engine.mirror.plan import Aborted, MirrorOptions
from kdump.engine.reading.split_edges import SplitEdges
from kdump.engine.work.pace import Pace, ReadProgress
from kdump.engine.work.splits import Split
from kdump.engine.work.spool import Bucket, SortedRun, Spool, merge_runs
from kdump.errors import KdumpError
from kdump.findings.finding import Finding
from kdump.findings.rows import RecordChunk, RecordRow
from kdump.kernels import columns as c
from kdump.kernels.columns import RecordBatches
from kdump.storage.names import OFFSET_MAX
from kdump.tuples import NamedTuple

_HASH_BYTES = 16
_WHERE = Struct(">IBQ")
_PARTS = Struct(">Iiiq")
#: Sides; a record of an aborted transaction of the source may be nowhere at the target.
_SOURCE, _TARGET, _ABORTED = 0, 1, 2
_SIGN = 1 << 63
#: Records that say the same, of which the walk decides which is which, and which are looked at.
_MOST_OPEN, _MOST_ALIKE = 64, 1 << 22
#: What the walk reads: of the source by its offsets, of the target by its own.
_PLACE = Struct(">IQB")
OFFSET = Struct(">q")
PAIRED, MISSING, OPEN, ABORTED, OPEN_ABORTED = range(5)
#: A mark that a record of the target was taken sorts before what may be left of it.
TAKEN, EXTRA, COPY, OPEN_COPY = 0, 1, 2, 3


class SplitSpool(NamedTuple):
    """What came of a split."""

    runs: tuple[SortedRun, ...]
    reported: tuple[Finding | KdumpError, ...]
    seam: SplitEdges | None
    counts: tuple[int, int, int]  # number of the pair, side, records


class BucketRuns(NamedTuple):
    """What came of a bucket: runs by offsets of the source, and by those of the target."""

    by_source: tuple[SortedRun, ...]
    by_target: tuple[SortedRun, ...]


def at_place(pair: int, offset: int, kind: int) -> bytes:
    """Lay out the start of an entry by an offset of the source, or of the target."""
    return _PLACE.pack(pair, offset + _SIGN, kind)


def read_place(entry: bytes) -> tuple[int, int, int]:
    """Read pair, offset and kind of an entry."""
    pair, place, kind = _PLACE.unpack_from(entry)
    return pair, place - _SIGN, kind


def spool_split(
    split: Split,
    pace: Pace,
    *,
    options: MirrorOptions,
    sides: Mapping[str, tuple[int, int, int, Aborted]],
    directory: str,
    buckets: int,
) -> SplitSpool:
    """Write hashes of the records of a split to sorted runs."""
    pair, side, start, aborted = sides[split.target.path]
    spool = Spool(directory, buckets)
    reader = SplitReader(split, options, as_stored=True)
    going = ReadProgress(split.size_bytes, pace, split.start)
    reported: list[Finding | KdumpError] = []
    count = 0
    for item in reader.items():
        if isinstance(item, RecordChunk):
            going.advance(item)
            if item.controls is None:
                where = pair, side, start, aborted
                for entry in _entries(item, *where, with_times=not options.ignore_times):
                    spool.add(entry)
                    count += 1
        elif isinstance(item, RecordRow):
            parts = None, item.value
            spool.add(_hash(pair, *parts, -1, b"") + _WHERE.pack(pair, side, item.offset + _SIGN))
            count += 1
        elif isinstance(item, (Finding, KdumpError)):
            reported.append(item)
    going.end()
    spool.flush()
    return SplitSpool(tuple(spool.runs), tuple(reported), reader.seam, (pair, side, count))


def _entries(
    chunk: RecordChunk,
    pair: int,
    side: int,
    log_start: int,
    aborted: Aborted,
    *,
    with_times: bool,
) -> Iterator[bytes]:
    records, data = chunk.records, memoryview(chunk.data)
    where = _WHERE.pack
    may_abort = bool(aborted) and bool(chunk.batches.flags & c.TRANSACTIONAL)
    for row in chunk.numbers:
        if records.flags_of(row) & c.MARKER or records.offset(row) < log_start:
            continue
        at, start, size, _, _, *_, headers, headers_count, _ = records.row(row)
        if may_abort:
            side = _ABORTED if _is_aborted(chunk.batches, at, aborted) else _SOURCE
        said = data[headers : start + size] if headers_count else b""
        time_ms = records.timestamp(row) if with_times else -1
        key, value = records.key(data, row), records.payload(data, row)
        yield _hash(pair, key, value, time_ms, said) + where(
            pair, side, records.offset(row) + _SIGN
        )


def _is_aborted(batches: RecordBatches, row: int, aborted: Aborted) -> bool:
    """Whether the transaction of a batch was aborted (L9)."""
    if not batches.flags_of(row) & c.TRANSACTIONAL:
        return False
    ended = aborted.get(batches.producer_id(row), ())
    at = bisect_right(ended, (batches.base_offset(row), OFFSET_MAX)) - 1
    return at >= 0 and batches.last_offset(row) <= ended[at][1]


def _hash(
    pair: int,
    key: bytes | None,
    value: bytes | None,
    time_ms: int,
    headers: bytes | memoryview,
) -> bytes:
    sizes = -1 if key is None else len(key), -1 if value is None else len(value)
    found = blake2b(_PARTS.pack(pair, *sizes, time_ms), digest_size=_HASH_BYTES)
    found.update(key or b"")
    found.update(value or b"")
    found.update(headers)
    return found.digest()


def pair_bucket(bucket: Bucket, pace: Pace, *, options: MirrorOptions) -> BucketRuns:
    """Pair the records of a bucket."""
    sources, targets = Spool(bucket.path), Spool(bucket.path)
    for _, entries in groupby(merge_runs(bucket.runs, bucket.number), _hash_of):
        sides = array("q"), array("q"), array("q")
        pair = 0
        for entry in entries:
            pair, side, place = _WHERE.unpack_from(entry, _HASH_BYTES)
            if len(sides[side]) < _MOST_ALIKE:
                sides[side].append(place - _SIGN)
        _pair_up(pair, *sides, sources.add, targets.add)
    sources.flush()
    targets.flush()
    pace(bucket.size_bytes)
    return BucketRuns(tuple(sources.runs), tuple(targets.runs))


def _hash_of(entry: bytes) -> bytes:
    return entry[:_HASH_BYTES]


def _pair_up(
    pair: int,
    here: array[int],
    there: array[int],
    aborted: array[int],
    to_source: Callable[[bytes], None],
    to_target: Callable[[bytes], None],
) -> None:
    left_out = aborted
    if len(here) != len(there):  # else the mirror has what was committed
        here, left_out = array("q", sorted((*here, *aborted))), array("q")
    is_aborted = set(aborted).__contains__
    if here and there and len(here) != len(there) and max(len(here), len(there)) <= _MOST_OPEN:
        choices = b"".join(map(OFFSET.pack, (len(here), *there)))
        for offset in here:
            kind = OPEN_ABORTED if is_aborted(offset) else OPEN
            to_source(at_place(pair, offset, kind) + choices)
        for offset in there:
            to_target(at_place(pair, offset, OPEN_COPY) + OFFSET.pack(here[0]))
        return
    for offset, other in zip(here, there, strict=False):
        to_source(at_place(pair, offset, PAIRED) + OFFSET.pack(other))
    for offset in (*here[len(there) :], *left_out):
        to_source(at_place(pair, offset, ABORTED if is_aborted(offset) else MISSING))
    for offset in there[len(here) :]:
        kind, first = (COPY, here[0]) if here else (EXTRA, 0)
        to_target(at_place(pair, offset, kind) + OFFSET.pack(first))
