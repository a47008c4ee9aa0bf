"""Which slots of an index file are taken for entries, and which are odd, old or zeros."""

from pathlib import Path

import pytest
from each import each
from segments import offset_index, time_index

from kdump.engine.checks import index_file
from kdump.engine.checks.index_file import IndexFile
from kdump.storage.names import Kind
from kdump.storage.source import Source

Pairs = list[tuple[int, int]]
BLOCK = 1 << 16


def open_index(parent: Path, kind: Kind, data: bytes) -> IndexFile:
    path = parent / "0.index"
    path.write_bytes(data)
    with Source(path) as source:
        return IndexFile(source, kind)


def offsets(parent: Path, pairs: Pairs, behind: bytes = b"") -> IndexFile:
    return open_index(parent, Kind.OFFSET_INDEX, offset_index(pairs) + behind)


def times(parent: Path, pairs: Pairs, behind: bytes = b"") -> IndexFile:
    return open_index(parent, Kind.TIME_INDEX, time_index(pairs) + behind)


def list_kept(file: IndexFile) -> list[int]:
    """Name the slots of the file that count."""
    assert [file.entry(number) for number in range(len(file))] == [
        file.layout.unpack_from(file.slots, file.slot_bytes * number) for number in range(len(file))
    ]
    return [file.slot(number) for number in range(len(file))]


SOUND: Pairs = [(1, 10), (2, 20), (3, 30), (4, 40)]


@each(
    ("changed", "odd"),
    [
        ({}, []),
        ({2: (1, 30)}, [2]),  # an offset that does not rise
        ({2: (3, 10)}, [2]),  # a position that does not
        ({2: (2, 30)}, [1]),  # the one before is contradicted by it, and may be the wrong one
        ({2: (3, 20)}, [1]),
        ({2: (3, 15)}, [1]),
        ({1: (9, 90)}, [1]),  # too high: the next one contradicts it
        ({1: (9, 20)}, [1]),
        ({1: (2, 90)}, [1]),
        ({1: (3, 20)}, [1]),  # as high as the next one
        ({1: (2, 30)}, [1]),
        ({0: (9, 90)}, [0]),
        ({3: (0, 50)}, [3]),  # the last one
        ({3: (9, 90)}, []),
        ({0: (-1, 10)}, [0]),
        ({0: (0, 10)}, []),
        ({0: (0, 0)}, [0]),
        ({1: (9, 90), 2: (8, 80)}, [1, 2]),
    ],
)
def test_falling_offset_index_slots_are_found(
    tmp_path: Path, changed: dict[int, tuple[int, int]], odd: list[int]
) -> None:
    file = offsets(tmp_path, [changed.get(slot, pair) for slot, pair in enumerate(SOUND)])
    assert (file.odd, file.odd_count) == (odd, len(odd))
    assert list_kept(file) == [slot for slot in range(4) if slot not in odd]
    assert (file.stale_from, file.is_untrimmed, file.used, file.entries) == (None, False, 4, 4)


@each(
    ("pairs", "odd"),
    [
        ([(10, 1), (20, 1), (30, 2)], []),  # two times of one batch
        ([(10, 1), (20, 3), (30, 2)], [1]),
        ([(10, 2), (20, 1), (30, 3)], [0]),
        ([(10, 1), (10, 2), (30, 3)], [0]),
        ([(10, 1), (5, 2), (30, 3)], [0]),
        ([(10, 1), (20, 2), (20, 3)], [1]),
        ([(10, 1), (20, 2), (30, 1)], [1]),
        ([(10, 1), (20, 2), (30, 0)], [2]),
    ],
)
def test_falling_time_index_slots_are_found(tmp_path: Path, pairs: Pairs, odd: list[int]) -> None:
    file = times(tmp_path, pairs)
    assert (file.odd, file.odd_count) == (odd, len(odd))
    assert list_kept(file) == [slot for slot in range(3) if slot not in odd]


@each(
    ("pairs", "zeros", "stale_from"),
    [
        ([*SOUND, (2, 25), (3, 25)], 0, None),  # nothing follows: no truncation
        ([*SOUND, (2, 25), (3, 25)], 2, 4),
        ([*SOUND, (2, 25), (5, 50)], 2, None),  # the last one rises again
        ([(1, 10), (9, 90), (3, 30), (4, 40)], 2, None),
    ],
)
def test_stale_entries_follow_rising_ones_and_precede_zeros(
    tmp_path: Path, pairs: Pairs, zeros: int, stale_from: int | None
) -> None:
    file = offsets(tmp_path, pairs, bytes(8 * zeros))
    assert file.stale_from == stale_from
    assert (file.used, file.entries) == (len(pairs), len(pairs) + zeros)
    assert file.is_untrimmed == (zeros > 0)


@each(
    ("odd", "number", "quick", "may_be"),
    [
        ([], 3, False, True),
        ([], 0, True, True),
        ([2], 2, False, True),
        ([2], 1, False, False),
        ([2], 3, False, False),
        ([2], 3, True, True),
        ([2], 1, True, False),
        ([2], 4, True, False),  # behind all that are kept
        ([2, 3], 2, False, False),
        ([2, 3], 3, True, False),
    ],
)
def test_possible_start_of_stale_entries(
    tmp_path: Path, odd: list[int], number: int, quick: bool, may_be: bool
) -> None:
    pairs = [(slot + 1, 10 * slot + 10) for slot in range(4 + len(odd))]
    for slot in odd:
        pairs[slot] = (100 - slot, 0)
    file = offsets(tmp_path, pairs, bytes(16))
    assert (file.odd, len(file)) == (odd, 4)
    assert file.may_be_stale_from(number, quick=quick) == may_be


def test_entries_around_an_invalid_slot(tmp_path: Path) -> None:
    pairs = [(7, 0), *SOUND[:2], (2, 0), *SOUND[2:], (1, 0)]
    file = offsets(tmp_path, pairs)
    assert file.odd == [0, 3, 6]
    assert [file.entries_around(slot) for slot in file.odd] == [SOUND[:1], SOUND[1:3], SOUND[3:]]


@each(
    ("data", "used", "trailing", "last"),
    [
        (b"", 0, 0, (-1, 0)),
        (bytes(8), 0, 0, (-1, 0)),
        (bytes(80), 0, 0, (-1, 0)),
        (offset_index([(1, 256)]), 1, 0, (1, 256)),  # its own last byte is a zero
        (offset_index([(1, 256)]) + bytes(16), 1, 0, (1, 256)),
        (offset_index([(1, 5), (0, 9)]) + bytes(8), 2, 0, (0, 9)),
        (offset_index([(1, 5)]) + b"abc", 1, 3, (1, 5)),
        (offset_index([(1, 5)]) + bytes(3), 1, 3, (1, 5)),
        (b"abc", 0, 3, (-1, 0)),
    ],
)
def test_written_and_stale_slots(
    tmp_path: Path, data: bytes, used: int, trailing: int, last: tuple[int, int]
) -> None:
    file = open_index(tmp_path, Kind.OFFSET_INDEX, data)
    assert (file.used, file.trailing_bytes, file.entries) == (used, trailing, len(data) // 8)
    assert (file.last_key, file.last_value) == last


@pytest.mark.parametrize(("slots", "used"), [(1, 1), (2, 0)])
def test_zero_slot_is_an_entry_of_a_time_index(tmp_path: Path, slots: int, used: int) -> None:
    file = open_index(tmp_path, Kind.TIME_INDEX, bytes(12 * slots))
    assert (file.used, len(file), file.is_untrimmed) == (used, used, not used)


@each("zeros", [0, 8, BLOCK - 16, BLOCK - 8, BLOCK, BLOCK + 8, 3 * BLOCK])
@each("first", [1, BLOCK // 8, BLOCK // 8 + 1])
def test_written_part_ends_at_the_last_nonzero_byte(tmp_path: Path, first: int, zeros: int) -> None:
    pairs = [(slot + 1, 10 * slot + 10) for slot in range(first)]
    file = offsets(tmp_path, pairs, bytes(zeros))
    assert (file.used, file.slots) == (first, offset_index(pairs))


def test_reads_of_a_large_file_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_file, "PROVED_BYTES", 24)
    file = offsets(tmp_path, SOUND, b"abc")
    assert (len(file), file.used, file.unread) == (3, 3, 1)
    file = offsets(tmp_path, SOUND[:3], b"abc")
    assert (len(file), file.unread) == (3, 0)


def test_at_most_a_thousand_invalid_slots_are_kept(tmp_path: Path) -> None:
    file = offsets(tmp_path, [(1 << 30, 1 << 30), *SOUND] + [(1, 1)] * 1500)
    assert (file.odd[0], len(file.odd), file.odd_count) == (0, 1000, 1501)
