"""Find the same record on both sides, by hashes that are sorted in scratch files.

An entry is 29 bytes: a hash of the pair of partitions and of what a record says, the number of the
pair, the side, the offset. Of records that say the same, as many as both sides have are paired in
order; where one side has more, the walk decides, which knows the shift around them.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from itertools import groupby
from struct import Struct
from typing import NamedTuple

from kdump.engine.dump.split_reader import SplitReader
from kdump.engine.mirror.plan import MirrorOptions
from kdump.engine.reading.split_edges import SplitEdges
from kdump.engine.work.pace import Going, Pace
from kdump.engine.work.splits import Split
from kdump.engine.work.spool import Bucket, SortedRun, Spool, merged
from kdump.errors import KdumpError
from kdump.findings.finding import Finding
from kdump.findings.rows import RecordChunk, RecordRow
from kdump.kernels import columns as c

_HASH_BYTES = 16
_WHERE = Struct(">IBQ")
_PARTS = Struct(">Iiiq")
_SOURCE, _TARGET = 0, 1
_SIGN = 1 << 63
#: Records that say the same, of which the walk decides which is which, and which are looked at.
_MOST_OPEN, _MOST_ALIKE = 64, 1 << 22
#: What the walk reads: of the source by its offsets, of the target by its own.
_PLACE = Struct(">IQB")
OFFSET = Struct(">q")
PAIRED, MISSING, OPEN = 0, 1, 2
#: A mark that a record of the target was taken sorts before what may be left of it.
TAKEN, EXTRA, COPY, OPEN_COPY = 0, 1, 2, 3


class Spooled(NamedTuple):
    """What came of a split."""

    runs: tuple[SortedRun, ...]
    reported: tuple[Finding | KdumpError, ...]
    seam: SplitEdges | None
    counts: tuple[int, int, int]  # number of the pair, side, records


class Sorted(NamedTuple):
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
    sides: Mapping[str, tuple[int, int, int]],
    directory: str,
    buckets: int,
) -> Spooled:
    """Write hashes of the records of a split to sorted runs."""
    pair, side, start = sides[split.target.path]
    spool = Spool(directory, buckets)
    reader = SplitReader(split, options, as_stored=True)
    going = Going(split.size_bytes, pace, split.start)
    reported: list[Finding | KdumpError] = []
    count = 0
    for item in reader.items():
        if isinstance(item, RecordChunk):
            going.reached(item)
            if item.controls is None:
                where = pair, side, start
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
    return Spooled(tuple(spool.runs), tuple(reported), reader.seam, (pair, side, count))


def _entries(
    chunk: RecordChunk, pair: int, side: int, log_start: int, *, with_times: bool
) -> Iterator[bytes]:
    records, data = chunk.records, memoryview(chunk.data)
    where = _WHERE.pack
    for row in chunk.numbers:
        if records.flags_of(row) & c.MARKER or records.offset(row) < log_start:
            continue
        _, start, size, _, _, *_, headers, headers_count, _ = records.row(row)
        said = data[headers : start + size] if headers_count else b""
        time_ms = records.timestamp(row) if with_times else -1
        key, value = records.key(data, row), records.payload(data, row)
        yield _hash(pair, key, value, time_ms, said) + where(
            pair, side, records.offset(row) + _SIGN
        )


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


def pair_bucket(bucket: Bucket, pace: Pace, *, options: MirrorOptions) -> Sorted:
    """Pair the records of a bucket."""
    sources, targets = Spool(bucket.path), Spool(bucket.path)
    for _, entries in groupby(merged(bucket.runs, bucket.number), _hash_of):
        sides = array("q"), array("q")
        pair = 0
        for entry in entries:
            pair, side, place = _WHERE.unpack_from(entry, _HASH_BYTES)
            if len(sides[side]) < _MOST_ALIKE:
                sides[side].append(place - _SIGN)
        _pair_up(pair, *sides, sources.add, targets.add)
    sources.flush()
    targets.flush()
    pace(bucket.size_bytes)
    return Sorted(tuple(sources.runs), tuple(targets.runs))


def _hash_of(entry: bytes) -> bytes:
    return entry[:_HASH_BYTES]


def _pair_up(
    pair: int,
    here: array[int],
    there: array[int],
    to_source: Callable[[bytes], None],
    to_target: Callable[[bytes], None],
) -> None:
    if here and there and len(here) != len(there) and max(len(here), len(there)) <= _MOST_OPEN:
        choices = b"".join(map(OFFSET.pack, (len(here), *there)))
        for offset in here:
            to_source(at_place(pair, offset, OPEN) + choices)
        for offset in there:
            to_target(at_place(pair, offset, OPEN_COPY) + OFFSET.pack(here[0]))
        return
    for offset, other in zip(here, there, strict=False):
        to_source(at_place(pair, offset, PAIRED) + OFFSET.pack(other))
    for offset in here[len(there) :]:
        to_source(at_place(pair, offset, MISSING))
    for offset in there[len(here) :]:
        kind, first = (COPY, here[0]) if here else (EXTRA, 0)
        to_target(at_place(pair, offset, kind) + OFFSET.pack(first))
