"""The parts that a segment with offsets too far above its base falls into."""

import struct
from itertools import pairwise
from pathlib import Path

import pytest
from builders import batch, record
from each import each

from kdump.broker import loading
from kdump.broker.loading import split
from kdump.broker.log_reader import RefusalError, UnknowableError
from kdump.broker.segment import Segment
from kdump.broker.settings import Settings
from kdump.storage.file_records import HEADER_BLOCK_BYTES
from kdump.storage.names import Kind


def test_every_part_has_the_entries_of_its_batches(tmp_path: Path) -> None:
    """Those before and behind the first of a part, and in the blocks that are read after it."""
    log = tmp_path / f"{0:020}.log"
    one = batch([record(value=bytes(HEADER_BLOCK_BYTES // 5))])
    far = 1 << 32
    offsets = [0, 1, *range(far, far + 8)]
    log.write_bytes(b"".join(struct.pack(">q", at) + one[8:] for at in offsets))
    low, high = split(Segment(0, {Kind.LOG: str(log)}, (4, 1), Settings(index_interval_bytes=0)))
    assert (low.base_offset, low.extent) == (0, (0, 2 * len(one)))
    assert (high.base_offset, high.extent) == (far, (2 * len(one), 10 * len(one)))
    assert [entry for _, entry in low.offset_index().slots()] == [(1, len(one))]
    assert [entry for _, entry in high.offset_index().slots()] == [
        (far + at, at * len(one)) for at in range(1, 8)
    ]


FAR, MOST = 1 << 32, (1 << 31) - 1


def segment_of(path: Path, *batches: bytes, base: int = 0, index_bytes: int = 10_000) -> Segment:
    log = path / f"{base:020}.log"
    log.write_bytes(b"".join(batches))
    settings = Settings(index_interval_bytes=0, index_size_max_bytes=index_bytes)
    return Segment(base, {Kind.LOG: str(log)}, (4, 1), settings, limit=1000)


def at(base: int, count: int = 1) -> bytes:
    return batch([record(n) for n in range(count)], base_offset=base)


@each(
    ("offsets", "bases"),
    [
        ((0, 1, FAR), (0, FAR)),
        ((5, MOST - 1, MOST + 5, MOST + 6), (5, MOST + 6)),
        ((7, 5, FAR, FAR + 1), (7, 5, FAR)),
        ((0, FAR, 5, 6 + FAR), (0, FAR, 5, 6 + FAR)),
    ],
)
def test_where_a_part_begins(
    offsets: tuple[int, ...], bases: tuple[int, ...], tmp_path: Path
) -> None:
    """At a batch below the part's base, or too far above it."""
    segment = segment_of(tmp_path, *map(at, offsets))
    pieces = split(segment)
    assert tuple(piece.base_offset for piece in pieces) == bases
    ends = [offsets.index(base) * len(at(0)) for base in bases] + [segment.end]
    assert [piece.extent for piece in pieces] == [*pairwise(ends)]
    for piece in pieces:
        assert (piece.path, piece.limit, piece.broker) == (segment.path, 1000, (4, 1))
        assert piece.is_part
        assert piece.read_next_offset() > piece.base_offset


@each(
    ("batches", "words"),
    [
        ((at(0), at(MOST)), "only permitted for segments with overflow"),
        ((at(FAR), at(0)), "only permitted for segments with overflow"),
        ((at(0), at(FAR), bytes(7)), "a tail that is no batch cannot be split"),
        ((at(0), at(FAR), at(5), at(FAR), at(FAR + 1)), "two parts of a split segment have the"),
        ((at(0), batch([record()], base_offset=5, last_offset_delta=MOST), at(FAR)), None),
        ((at(0), batch([record()], base_offset=9, last_offset_delta=-2), at(FAR)), None),
        ((at(5), batch([record()], base_offset=4, last_offset_delta=-1), at(FAR)),
         "the batch at offset 4 fits no segment"),
    ],
)  # fmt: skip
def test_unsplittable_segment_is_refused(
    batches: tuple[bytes, ...], words: str | None, tmp_path: Path
) -> None:
    segment = segment_of(tmp_path, *batches)
    if words is None:
        assert split(segment)
        return
    with pytest.raises(RefusalError, match=words):
        split(segment)


def test_small_index_of_a_part_is_refused(tmp_path: Path) -> None:
    log = [*map(at, range(4)), at(FAR)]
    assert len(split(segment_of(tmp_path, *log, index_bytes=60))) == 2
    with pytest.raises(RefusalError, match="the time index is full"):
        split(segment_of(tmp_path, *log, index_bytes=24))


def test_part_with_falling_entries(tmp_path: Path) -> None:
    with pytest.raises(RefusalError, match="would decrease from offset 6 to 6"):
        split(segment_of(tmp_path, at(0), at(6), at(6), at(FAR)))
    place = 2 * len(at(0))  # in the part
    with pytest.raises(RefusalError, match=f"due at {place} would decrease from offset {FAR}"):
        split(segment_of(tmp_path, at(0), at(FAR - 1), at(FAR), at(FAR)))


def test_more_parts_than_any_broker_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = segment_of(tmp_path, at(0), at(FAR), at(2 * FAR))
    monkeypatch.setattr(loading, "_PARTS", 3)
    assert len(split(segment)) == 3
    monkeypatch.setattr(loading, "_PARTS", 2)
    with pytest.raises(UnknowableError, match="more than 2 parts"):
        split(segment)
