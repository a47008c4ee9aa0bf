"""The division of slots, on both index forms; entries are packed by hand here."""

import random
from pathlib import Path

import pytest
from builders import offset_index, time_index

from kdump.broker.index_search import floor_slot
from kdump.kernels.text_form import time_text
from kdump.storage import index as index_module
from kdump.storage.index import Extent, OffsetIndex, OffsetPosition
from kdump.storage.source import Source
from kdump.storage.time_index import TimeIndex, TimestampOffset


class TestOffsetIndex:
    BASE = 1 << 40

    @pytest.fixture
    def index(self) -> OffsetIndex:
        return OffsetIndex(offset_index([(29, 4216), (41, 8400), (97, 13000)]), self.BASE)

    def test_entries_are_absolute(self, index: OffsetIndex) -> None:
        assert len(index) == 3
        assert index.entry(1) == OffsetPosition(self.BASE + 41, 8400)
        assert [slot for slot, _ in index.slots()] == [0, 1, 2]
        assert [entry for _, entry in index.slots(1)] == [index.entry(1), index.entry(2)]
        assert index.last_offset == self.BASE + 97

    def test_an_empty_index(self) -> None:
        index = OffsetIndex(b"", 7)
        assert index.last_offset == 7
        assert index.logical_end() == 0
        assert index.extent().is_sound
        assert index.tool_end() == 0

    def test_piece_of_an_entry_is_left_out(self) -> None:
        index = OffsetIndex(offset_index([(29, 4216)]) + b"\0\0\0", 0)
        assert (len(index), index.trailing_bytes) == (1, 3)
        assert index.sanity() == "length 11 is not a multiple of 8"

    def test_zero_tail_is_not_an_entry(self) -> None:
        index = OffsetIndex(offset_index([(29, 4216), (41, 8400)]) + bytes(8 * 10000), 0)
        assert index.extent() == Extent(2, 2, 10002, 0, 0)
        assert index.tool_end() == 2

    def test_empty_preallocated_file(self) -> None:
        index = OffsetIndex(bytes(262144), 50)
        assert index.extent() == Extent(0, 0, 32768, 0, 0)
        assert index.tool_end() == 1  # the tool prints slot 0 whatever it holds

    def test_stale_tail_after_truncation(self) -> None:
        data = offset_index([(29, 4216), (90, 9000), (60, 12000), (80, 16000)]) + bytes(80)
        extent = OffsetIndex(data, 0).extent()
        assert extent == Extent(2, 4, 14, 2, 0)
        assert extent.is_stale

    def test_damaged_slot_in_the_midst(self) -> None:
        data = offset_index([(29, 4216), (41, 8400), (5, 12000), (80, 16000)])
        extent = OffsetIndex(data, 0).extent()
        assert extent == Extent(2, 4, 4, 1, 1)
        assert not extent.is_stale
        assert not OffsetIndex(data + bytes(80), 0).extent().is_stale

    @pytest.mark.parametrize(
        ("bad", "end"),
        [((29, 9000), 1), ((41, 4216), 1), ((-3, 9000), 1), ((41, -9000), 1), ((0, 0), 1)],
    )
    def test_what_ends_the_written_entries(self, bad: tuple[int, int], end: int) -> None:
        assert OffsetIndex(offset_index([(29, 4216), bad]), 0).logical_end() == end

    def test_first_slot_at_position_zero_is_not_an_entry(self) -> None:
        assert OffsetIndex(offset_index([(3, 0)]), 0).logical_end() == 0
        assert OffsetIndex(offset_index([(0, 4216)]), 0).logical_end() == 1

    def test_positions_are_inside_the_log(self, index: OffsetIndex) -> None:
        assert index.logical_end(log_size=13001) == 3
        assert index.logical_end(log_size=13000) == 2
        assert index.logical_end(log_size=0) == 0

    @pytest.mark.parametrize("bad", [4095, 4096, 4097, 9000])
    def test_end_across_runs(self, bad: int) -> None:
        slots = [(n, n) for n in range(1, 10001)]
        assert OffsetIndex(offset_index(slots), 0).logical_end() == 10000
        slots[bad] = slots[bad - 1]
        assert OffsetIndex(offset_index(slots), 0).logical_end() == bad

    @pytest.mark.parametrize("first", [(4096, 4096), (4000, 5000), (5000, 4000), (1, 5000)])
    def test_end_at_the_start_of_a_run(self, first: tuple[int, int]) -> None:
        """What a run of slots begins with is held against the last of the run before."""
        slots = [(n, n) for n in range(1, 4097)]
        behind = [(first[0] + n, first[1] + n) for n in range(10)]
        assert OffsetIndex(offset_index([*slots, *behind]), 0).logical_end() == 4096

    @pytest.mark.parametrize("limit", [4097, 4098, 5000, 9999, 10_000, 10_001])
    def test_positions_inside_the_log_across_runs(self, limit: int) -> None:
        slots = [(n, n) for n in range(1, 10_001)]
        assert OffsetIndex(offset_index(slots), 0).logical_end(limit) == min(limit - 1, 10_000)

    def test_slots_after_the_end(self) -> None:
        """Those that rise are counted apart, each from the last that did."""
        data = offset_index(
            [(29, 4216), (5, 12000), (41, 8400), (41, 9000), (50, 8400), (60, 9000)]
        )
        assert OffsetIndex(data, 0).extent() == Extent(1, 6, 6, 3, 2)
        assert OffsetIndex(offset_index([(-1, 5), (7, 5)]), 0).extent() == Extent(0, 2, 2, 1, 1)

    @pytest.mark.parametrize("zeros", [0, 1, 4095, 4096, 4097, 8192])
    def test_slots_in_use_before_zeros(self, zeros: int) -> None:
        for last in (1, 256, 1 << 24):
            data = offset_index([(29, 4216), (5, last)]) + bytes(8 * zeros)
            assert OffsetIndex(data, 0).count_used() == 2

    def test_offset_0_ends_what_the_tool_prints(self) -> None:
        slots = [(n, n) for n in range(1, 5001)]
        for zero in (1, 4096, 4097, 4999):
            data = offset_index([*slots[:zero], (0, 7), *slots[zero + 1 :]])
            assert OffsetIndex(data, 0).tool_end() == zero
        assert OffsetIndex(offset_index(slots), 0).tool_end() == 5000

    def test_offsets_wrap_as_in_java(self) -> None:
        index = OffsetIndex(offset_index([(29, 4216)]), 2**63 - 1)
        assert index.entry(0).offset == next(index.slots())[1].offset == -(2**63) + 28
        assert index.last_offset == -(2**63) + 28

    @pytest.mark.parametrize(
        ("entry", "may_end_at_base", "words"),
        [
            ((-1, 4216), True, "last offset 6 is below the base offset 7"),
            ((0, 4216), False, "last offset 7 is not above the base offset 7"),
            ((-1, 4216), False, "last offset 6 is not above the base offset 7"),
        ],
    )
    def test_words_of_sanity(
        self, entry: tuple[int, int], may_end_at_base: bool, words: str
    ) -> None:
        index = OffsetIndex(offset_index([entry]), 7)
        assert index.sanity(may_end_at_base=may_end_at_base) == words

    @pytest.mark.parametrize(
        ("data", "may_end_at_base", "is_sane"),
        [
            (b"", False, True),
            (offset_index([(0, 100)]), False, False),
            (offset_index([(0, 100)]), True, True),
            (offset_index([(29, 4216)]) + bytes(8), False, False),
            (offset_index([(29, 4216)]) + bytes(8), True, True),
            (offset_index([(-1, 4216)]), True, False),
        ],
    )
    def test_sanity(self, data: bytes, may_end_at_base: bool, is_sane: bool) -> None:
        broken = OffsetIndex(data, 0).sanity(may_end_at_base=may_end_at_base)
        assert (broken is None) is is_sane


class TestTimeIndex:
    BASE = 500
    T = 1700000000000

    @pytest.fixture
    def index(self) -> TimeIndex:
        return TimeIndex(
            time_index([(self.T, 41), (self.T + 50, 46), (self.T + 90, 46)]), self.BASE
        )

    def test_entries_are_absolute(self, index: TimeIndex) -> None:
        assert [entry for _, entry in index.slots()] == [
            TimestampOffset(self.T, 541),
            TimestampOffset(self.T + 50, 546),
            TimestampOffset(self.T + 90, 546),
        ]
        assert index.last_entry == index.entry(2)

    def test_an_offset_may_repeat_but_not_fall(self, index: TimeIndex) -> None:
        assert index.logical_end() == 3
        assert TimeIndex(time_index([(5, 41), (6, 40)]), 0).logical_end() == 1
        assert TimeIndex(time_index([(5, 41), (5, 42)]), 0).logical_end() == 1

    def test_zero_tail(self) -> None:
        index = TimeIndex(time_index([(self.T, 41)]) + bytes(12 * 5000), 0)
        assert index.extent() == Extent(1, 1, 5001, 0, 0)
        assert index.last_entry == TimestampOffset(0, 0)  # what a broker takes it for
        assert (
            index.sanity()
            == f"last timestamp {time_text(0)} is below the first {time_text(self.T)}"
        )
        assert index.tool_end() == 1

    def test_zero_slot_is_an_entry_or_an_empty_file(self) -> None:
        empty = TimeIndex(bytes(12 * 100), 0)
        assert empty.logical_end() == 0
        assert empty.logical_end(zero_is_entry=True) == 1
        assert TimeIndex(bytes(12), 0).logical_end() == 1
        assert TimeIndex(bytes(12), 0).logical_end(zero_is_entry=False) == 0
        written = TimeIndex(time_index([(0, 0), (7, 3)]) + bytes(120), 0)
        assert written.logical_end() == 2

    def test_negative_timestamp_is_never_written(self) -> None:
        assert TimeIndex(time_index([(-1, 4)]), 0).logical_end() == 0
        assert TimeIndex(time_index([(0, 4)]), 0).logical_end() == 1

    def test_an_empty_index(self) -> None:
        index = TimeIndex(b"", self.BASE)
        assert index.last_entry == TimestampOffset(-1, self.BASE)
        assert index.logical_end() == index.logical_end(zero_is_entry=True) == index.tool_end() == 0

    @pytest.mark.parametrize(
        ("second", "end"),
        [((7, 3), 2), ((7, 0), 2), ((0, 3), 0), ((-7, 3), 0), ((7, -3), 0), ((1, 0), 2)],
    )
    def test_zero_slot_counts_before_a_written_one(self, second: tuple[int, int], end: int) -> None:
        assert TimeIndex(time_index([(0, 0), second]), 0).logical_end() == end

    def test_extent(self, index: TimeIndex) -> None:
        assert index.extent() == Extent(3, 3, 3, 0, 0)
        assert TimeIndex(bytes(24), 0).extent() == Extent(0, 0, 2, 0, 0)
        stale = TimeIndex(time_index([(7, 3), (9, 1), (8, 4), (9, 4)]) + bytes(12), 0).extent()
        assert stale == Extent(1, 4, 5, 1, 2)

    def test_sanity(self, index: TimeIndex) -> None:
        assert index.sanity() is None
        assert (
            TimeIndex(time_index([(5, -1)]), 9).sanity()
            == "last offset 8 is below the base offset 9"
        )
        assert (
            TimeIndex(time_index([(5, 1)]) + b"x", 0).sanity()
            == "length 13 is not a multiple of 12"
        )
        assert TimeIndex(b"", 0).sanity() is None

    def test_tool_stops_at_the_first_zero_offset_after_slot_0(self) -> None:
        assert TimeIndex(time_index([(5, 0), (6, 1), (7, 0), (8, 4)]), 0).tool_end() == 2


class TestLargeFile:
    """A file over the limit is not held in memory; the answers are the same."""

    def test_same_answers(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        slots = [(n, 3 * n) for n in range(1, 9001)]
        slots[7000] = (3, 3)
        data = offset_index(slots) + bytes(8 * 9000) + b"abc"
        path = tmp_path / "00000000000000000000.index"
        path.write_bytes(data)
        whole = OffsetIndex(data, 0)
        monkeypatch.setattr(index_module, "_HELD_BYTES", 1000)
        with Source(path) as source:
            pieces = OffsetIndex(source, 0)
            assert isinstance(pieces.data, Source)
            assert list(pieces.slots()) == list(whole.slots())
            assert pieces.extent() == whole.extent() == Extent(7000, 9000, 18000, 1, 1999)
            assert pieces.trailing_bytes == 3

    def test_files_kept_in_memory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "00000000000000000000.index"
        path.write_bytes(offset_index([(1, 1), (2, 2)]))
        for limit, slotwise, held in ((16, False, True), (15, False, False), (16, True, False)):
            monkeypatch.setattr(index_module, "_HELD_BYTES", limit)
            with Source(path) as source:
                for made in (OffsetIndex, TimeIndex):
                    index = made(source, 0, slotwise=slotwise)
                    assert isinstance(index.data, bytes) == held
                assert OffsetIndex(source, 0).entry(1) == OffsetPosition(2, 2)

    def test_file_that_shrinks(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "00000000000000000000.index"
        path.write_bytes(offset_index((n, n) for n in range(1, 9001)))
        monkeypatch.setattr(index_module, "_HELD_BYTES", 1000)
        with Source(path) as source:
            index = OffsetIndex(source, 0)
            path.write_bytes(offset_index([(1, 1)]) + b"ab")
            assert list(index.slots()) == [(0, OffsetPosition(1, 1))]
            assert index.entry(5000) == OffsetPosition(0, 0)
            index.extent()
            assert source.shrank


@pytest.mark.fuzz
def test_any_bytes_are_survived() -> None:
    random_bytes = random.Random(5)
    for _ in range(300):
        data = random_bytes.randbytes(random_bytes.randrange(0, 400))
        data += bytes(random_bytes.randrange(0, 100))
        base = random_bytes.choice([0, 1 << 40, 2**63 - 1])
        for index in (OffsetIndex(data, base), TimeIndex(data, base)):
            extent = index.extent()
            assert 0 <= extent.end <= extent.used <= extent.entries == len(index)
            assert extent.used - extent.end == extent.breaking + extent.rising
            floor_slot(index, random_bytes.getrandbits(64))
            index.sanity()
            assert len(list(index.slots())) == len(index)
            assert 0 <= index.tool_end() <= len(index)
