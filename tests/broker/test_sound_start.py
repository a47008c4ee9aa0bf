"""How much of an index is written while a broker has it open, and where it leads."""

import struct
from pathlib import Path

import pytest
from builders import batch, message, offset_index, record, wrapper
from each import each

from kdump.broker.sound_start import count_written_slots, sound_start
from kdump.storage.index import OffsetIndex
from kdump.storage.source import Source

ONE = batch([record()])
LOG = b"".join(batch([record()], base_offset=at) for at in range(5))
SLOTS = [(at, at * len(ONE)) for at in range(1, 5)]


@each(
    ("slots", "written"),
    [
        (SLOTS, 4),
        ([*SLOTS[:3], *[(0, 0)] * 500], 3),
        ([*SLOTS[:3], SLOTS[0], *[(0, 0)] * 500], 3),  # left by a truncation
        ([(0, 0)] * 500, 0),
    ],
)
def test_written_slots_end_at_zeros_or_a_lower_entry(
    slots: list[tuple[int, int]], written: int, tmp_path: Path
) -> None:
    data = offset_index(slots)
    assert count_written_slots(OffsetIndex(data, 0)) == written
    log, index = tmp_path / f"{0:020}.log", tmp_path / f"{0:020}.index"
    log.write_bytes(LOG)
    index.write_bytes(data)
    with Source(str(log)) as source:
        assert sound_start(source, 0, str(index)) == written * len(ONE)
        assert sound_start(source, 0, None) == 0


def start_of(tmp_path: Path, log: bytes, *slots: tuple[int, int], base: int = 0) -> int:
    path, index = tmp_path / f"{base:020}.log", tmp_path / f"{base:020}.index"
    path.write_bytes(log)
    index.write_bytes(offset_index(slots))
    with Source(str(path)) as source:
        return sound_start(source, base, str(index))


SIZE = len(ONE)


@each(
    ("last", "start"),
    [
        ((3, 3 * SIZE), 3 * SIZE),
        ((4, 3 * SIZE), 3 * SIZE),  # an offset of the batch may be named, or one in a hole behind
        ((2, 3 * SIZE), SIZE),  # the batch begins above it
        ((3, 3 * SIZE + 1), SIZE),
        ((3, 5 * SIZE), SIZE),
        ((3, 5 * SIZE - 1), SIZE),
        ((3, 6 * SIZE), SIZE),
        ((3, 0), SIZE),
    ],
)
def test_plausible_entry_is_trusted(last: tuple[int, int], start: int, tmp_path: Path) -> None:
    """Where the last cannot, the one before is looked at; the first batch has no entry."""
    log = b"".join(batch([record()], base_offset=at) for at in range(5))
    assert start_of(tmp_path, log, (1, SIZE), last) == start
    assert start_of(tmp_path, log, last) == (start if start > SIZE else 0)


def test_entry_to_an_impossible_batch_is_not_trusted(tmp_path: Path) -> None:
    below = [batch([record()], base_offset=at) for at in (9, 10, 8)]
    assert start_of(tmp_path, b"".join(below), (5, 2 * SIZE), base=9) == 0
    assert start_of(tmp_path, b"".join(below), (1, SIZE), base=9) == SIZE
    small = struct.pack(">qiib", 1, 20, 0, 2) + bytes(15)
    assert start_of(tmp_path, ONE + small + ONE, (5, SIZE)) == 0
    odd = message(1, magic=3)
    assert start_of(tmp_path, ONE + odd, (5, SIZE)) == 0
    assert start_of(tmp_path, ONE + message(1), (5, SIZE)) == SIZE
    packed = wrapper([message(1)], 1)
    assert (
        start_of(tmp_path, ONE + packed, (0, SIZE)) == SIZE
    )  # of a wrapper only the last is known


def test_steps_back_are_bounded(tmp_path: Path) -> None:
    log = b"".join(batch([record()], base_offset=at) for at in range(3))
    for lies, start in ((63, SIZE), (64, 0)):
        slots = [(1, SIZE), *((at, 9_999 + at) for at in range(2, 2 + lies))]
        assert start_of(tmp_path, log, *slots) == start


def test_unreadable_index_is_handled(tmp_path: Path) -> None:
    log = tmp_path / f"{0:020}.log"
    log.write_bytes(LOG)
    with Source(str(log)) as source:
        assert sound_start(source, 0, str(tmp_path / "gone.index")) == 0


LARGE = (1 << 15) + 10  # slots, of 8 bytes


@pytest.mark.parametrize(
    ("at", "slot", "written"),
    [
        (LARGE - 5, (LARGE - 6, LARGE), LARGE - 5),
        (LARGE - 5, (LARGE - 5, LARGE - 4), LARGE - 5),
        (LARGE - 5, (LARGE - 4, LARGE - 5), LARGE - 5),
        (LARGE - 5, (LARGE - 3, LARGE - 6), LARGE - 5),
        (LARGE - 4096, (1, LARGE - 4095), LARGE),
        (LARGE - 4096, (1, LARGE), LARGE - 4095),
        (LARGE - 4096, (LARGE, 1), LARGE - 4095),
        (LARGE - 4095, (1, LARGE), LARGE - 4095),
        (LARGE - 4097, (1, 1), LARGE),
        (5, (1, 1), LARGE),
        (LARGE // 2, (-1, 5), LARGE),  # only zeros end the entries
    ],
)
@pytest.mark.parametrize("zeros", [0, 500])
def test_end_of_a_large_index(at: int, slot: tuple[int, int], written: int, zeros: int) -> None:
    """Of one above 256 KiB only the last 4,096 slots are looked at, and not the one before them."""
    slots = [(n + 1, n + 1) for n in range(LARGE)]
    slots[at] = slot
    index = OffsetIndex(offset_index([*slots, *[(0, 0)] * zeros]), 0)

    assert count_written_slots(index) == written


@pytest.mark.parametrize(("count", "written"), [((1 << 15), 3), ((1 << 15) + 1, (1 << 15) + 1)])
def test_index_that_is_still_read_completely(count: int, written: int) -> None:
    slots = [(n + 1, n + 1) for n in range(count)]
    slots[3] = (3, 3)
    assert count_written_slots(OffsetIndex(offset_index(slots), 0)) == written
