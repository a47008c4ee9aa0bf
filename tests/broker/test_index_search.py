"""The search of an index, on both forms and for releases of both ways; entries packed by hand."""

from pathlib import Path

import pytest
from builders import offset_index, time_index
from generated import given, st

from kdump.broker.index_search import find_offset, find_time, floor_of, floor_slot, offset_finder
from kdump.storage.index import OffsetIndex, OffsetPosition
from kdump.storage.source import Source
from kdump.storage.time_index import TimeIndex, TimestampOffset


def linear_floor(keys: list[int], target: int) -> int:
    return max((slot for slot, key in enumerate(keys) if key <= target), default=-1)


def broker_floor(keys: list[int], target: int, warm: int) -> int:
    """indexSlotRangeFor and binarySearch of AbstractIndex, written down once more."""
    entries = len(keys)
    if entries == 0:
        return -1
    first_hot_entry = max(0, entries - 1 - warm)
    if keys[first_hot_entry] < target:
        lo, hi = first_hot_entry, entries - 1
    elif keys[0] > target:
        return -1
    else:
        lo, hi = 0, first_hot_entry
    while lo < hi:
        mid = (lo + hi + 1) // 2
        if keys[mid] > target:
            hi = mid - 1
        elif keys[mid] < target:
            lo = mid
        else:
            return mid
    return lo


def set_bits(number: int) -> list[int]:
    """Give numbers that rise, no two the same: an index has up to some hundred."""
    return [bit for bit in range(number.bit_length()) if number >> bit & 1]


class TestSearch:
    @given(
        st.binary(max_size=38).map(lambda data: set_bits(int.from_bytes(data, "little"))),
        st.integers(-5, 305),
        st.integers(1, 20),
    )
    def test_search_of_a_sound_index_returns_the_floor(
        self, keys: list[int], target: int, warm: int
    ) -> None:
        floor = linear_floor(keys, target)
        assert floor_of(keys.__getitem__, len(keys), target, warm) == floor
        assert floor_of(keys.__getitem__, len(keys), target, None) == floor

    @given(st.lists(st.integers(0, 30), max_size=60), st.integers(-2, 32), st.integers(1, 20))
    def test_search_probes_an_unsound_index_as_the_broker(
        self, keys: list[int], target: int, warm: int
    ) -> None:
        found = floor_of(keys.__getitem__, len(keys), target, warm)
        assert found == broker_floor(keys, target, warm)

    def test_zero_tail_hides_the_entries(self) -> None:
        index = OffsetIndex(offset_index((n, n) for n in range(10, 2010)) + bytes(8 * 5000), 0)
        assert floor_slot(index, 50) == 6999
        assert find_offset(index, 50) == OffsetPosition(0, 0)

    def test_search_forms_differ_on_a_damaged_slot(self) -> None:
        # The plain search probes slot 1500 first; the other searches slots 0 to 1975 only.
        slots = [(n, n) for n in range(1, 3001)]
        slots[1500] = (1 << 30, 1501)
        index = OffsetIndex(offset_index(slots), 0)
        assert floor_slot(index, 1600) == 1599
        assert floor_slot(index, 1600, (2, 0)) == 1499

    def test_warm_section_has_1024_offset_and_682_time_entries(self) -> None:
        slots = [(n, n) for n in range(1, 2001)]
        for index, warm in (
            (TimeIndex(time_index(slots), 0), 682),
            (OffsetIndex(offset_index(slots), 0), 1024),
        ):
            compared: list[int] = []
            floor_slot(index, 1900, compared=compared)
            assert compared[0] == min(compared) == 1999 - warm


class TestLookup:
    BASE = 1 << 40
    T = 1700000000000

    @pytest.mark.parametrize(
        ("relative", "found"),
        [
            (-1, (0, 0)),
            (28, (0, 0)),
            (29, (29, 4216)),
            (40, (29, 4216)),
            (41, (41, 8400)),
            (1 << 50, (97, 13000)),
        ],
    )
    def test_lookup_of_an_offset(self, relative: int, found: tuple[int, int]) -> None:
        index = OffsetIndex(offset_index([(29, 4216), (41, 8400), (97, 13000)]), self.BASE)
        entry = OffsetPosition(self.BASE + found[0], found[1])
        assert find_offset(index, self.BASE + relative) == entry
        assert find_offset(index, self.BASE + relative, (2, 0)) == entry

    def test_lookup_in_an_index_without_entries(self) -> None:
        assert find_offset(OffsetIndex(b"", 7), 100) == OffsetPosition(7, 0)
        assert find_offset(OffsetIndex(bytes(262144), 50), 60) == OffsetPosition(50, 0)

    def test_index_on_disk_is_searched_as_in_memory(self, tmp_path: Path) -> None:
        data = offset_index((n, n) for n in range(1, 7001)) + bytes(8 * 9000) + b"abc"
        path = tmp_path / "00000000000000000000.index"
        path.write_bytes(data)
        with Source(path) as source:
            on_disk = OffsetIndex(source, 0, slotwise=True)
            for target in (0, 1, 500, 7000, 8999, 20000):
                assert find_offset(on_disk, target) == find_offset(OffsetIndex(data, 0), target)

    def test_lookup_of_a_time(self) -> None:
        index = TimeIndex(time_index([(self.T, 41), (self.T + 50, 46), (self.T + 90, 46)]), 500)
        assert find_time(index, self.T - 1) == TimestampOffset(-1, 500)
        assert find_time(index, self.T) == TimestampOffset(self.T, 541)
        assert find_time(index, self.T + 89) == TimestampOffset(self.T + 50, 546)
        assert find_time(index, 1 << 62) == TimestampOffset(self.T + 90, 546)


@given(
    st.lists(st.tuples(st.integers(-2, 40), st.integers(-2, 40)), max_size=30),
    st.booleans(),
    st.lists(st.integers(-60, 160), min_size=1),
)
def test_batch_finder_equals_single_lookups(
    entries: list[tuple[int, int]], rising: bool, targets: list[int]
) -> None:
    if rising:
        keys = sorted({abs(each[0]) for each in entries})
        entries = [(key, 9 * slot) for slot, key in enumerate(keys, 1)]
    index = OffsetIndex(offset_index(entries), 50)
    find = offset_finder(index)
    targets += [50 + key for key, _ in entries]
    assert [find(target) for target in targets] == [find_offset(index, each) for each in targets]
