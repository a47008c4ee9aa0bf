"""Which offsets of a log are believed, and what is said of a gap: neighbours decide."""

from collections.abc import Callable

import builders
import pytest

from kdump import kernels
from kdump.kernels.columns import RecordBatches
from kdump.record.frames import Gap
from kdump.storage.offsets import ASTRAY_IN_A_ROW, Offsets, ResolvedGap

GAP = Gap(0, 100, "crc-mismatch", None, b"", False)
END = 1 << 31
Span = tuple[int, int]


def batches(*spans: Span) -> RecordBatches:
    """Give the headers of batches from a first to a last offset."""
    data = b"".join(
        builders.batch([builders.record(n, n) for n in range(last - first + 1)], base_offset=first)
        for first, last in spans
    )
    found, _, _ = kernels.walk(data, 0, len(data), 0, -1, True, len(spans))
    return found


def wrapper(last: int) -> RecordBatches:
    """Give the header of a compressed message, which names the last offset of those in it."""
    data = builders.wrapper([builders.message(offset=n) for n in range(3)], offset=last)
    found, _, _ = kernels.walk(data, 0, len(data), 0, -1, True, 1)
    return found


def told(*items: Span | Gap, last: int = -1, end: int = END) -> list[tuple[int, int | None, int]]:
    """Follow batches and gaps one by one; give where each gap ends, and what is spared."""
    offsets = Offsets(last, end)
    released: list[ResolvedGap] = []
    for item in items:
        released += offsets.add_gap(item) if isinstance(item, Gap) else offsets.take(batches(item))
    released += offsets.release(None)
    return [(one.last_offset, one.next_offset, one.spared) for one in released]


def test_gap_ends_at_the_next_batch() -> None:
    assert told((0, 3), GAP, (10, 12)) == [(3, 10, 0)]
    assert told((0, 3), GAP, (10, 12), GAP, (20, 20)) == [(3, 10, 0), (12, 20, 0)]
    assert told(GAP, (10, 12)) == [(-1, 10, 0)]


def test_jumps_of_compaction_are_trusted() -> None:
    assert told((0, 3), GAP, (1000, 1000), (5000, 5001), (90_000, 90_000)) == [(3, 1000, 0)]


def test_batch_too_high_after_the_gap() -> None:
    """Offsets go on below it: its records can be read, and are no loss."""
    assert told((0, 3), GAP, (900, 902), (10, 12), (13, 13)) == [(3, 10, 3)]
    assert told((0, 3), GAP, (900, 902), (10, 12)) == [(3, 10, 3)]


def test_batches_too_high_before_the_gap_are_spared() -> None:
    assert told((0, 3), (900, 902), GAP, (10, 12), (13, 13)) == [(3, 10, 3)]
    assert told((0, 3), (900, 900), (990, 991), GAP, (10, 12), (13, 13)) == [(3, 10, 3)]


def test_equal_counts_contradict_them() -> None:
    """One batch below two that rise may be the wrong one."""
    assert told((0, 3), GAP, (900, 900), (990, 991), (10, 12)) == [(3, 900, 0)]


def test_two_consecutive_batches_are_not_both_wrong() -> None:
    assert told((0, 3), GAP, (900, 902), (903, 903), (10, 12), (13, 13)) == [(3, 900, 0)]


@pytest.mark.parametrize("wrong", [(1, 2), (END, END + 1), (END - 1, END)])
def test_impossible_batch_is_spared(wrong: Span) -> None:
    """Too low, or not within the segment; it is spared all the same."""
    assert told((0, 3), GAP, wrong, (10, 12)) == [(3, 10, 2)]
    assert told((0, 3), wrong, GAP, (10, 12)) == [(3, 10, 2)]


def test_repeatedly_low_batches_are_spared() -> None:
    low = [(1, 1)] * (ASTRAY_IN_A_ROW + 2)
    assert told((0, 30), GAP, *low, (40, 40)) == [(30, 40, len(low))]
    assert told((0, 30), *low, GAP, (40, 40)) == [(30, 40, len(low))]


def test_batches_are_spared_since_the_last_trusted_one() -> None:
    assert told((0, 3), (1, 1), (10, 10), GAP, (20, 20)) == [(10, 20, 0)]


def test_batches_below_from_both_sides_of_a_gap_contradict_nothing() -> None:
    high = (10, 13), (20, 23)
    assert told(*high, (2, 4), GAP, (5, 6), (30, 30)) == [(23, 30, 5)]
    assert told(*high, GAP, (2, 4), (5, 6), (30, 30)) == [(-1, 2, 8)]


def test_gap_without_a_following_batch_is_released() -> None:
    assert told((0, 3), GAP) == [(3, None, 0)]
    offsets = Offsets(3, END)
    assert list(offsets.add_gap(GAP)) == []
    assert offsets.has_gap
    (one,) = offsets.release(50)
    assert (one.gap, one.last_offset, one.next_offset, one.end) == (GAP, 3, 50, END)
    assert not offsets.has_gap


def test_gap_is_released_after_enough_batches() -> None:
    offsets = Offsets(-1, END)
    list(offsets.add_gap(GAP))
    released = [list(offsets.take(batches((n * 10, n * 10)))) for n in range(ASTRAY_IN_A_ROW + 1)]
    assert [len(each) for each in released] == [0] * ASTRAY_IN_A_ROW + [1]
    joined = Offsets(-1, END)
    list(joined.add_gap(GAP))
    assert [len([*joined.take(batches((n, n)))]) for n in (7, 8)] == [0, 1]


def test_number_of_pending_gaps_is_bounded() -> None:
    offsets = Offsets(3, END)
    assert [len([*offsets.add_gap(GAP)]) for _ in range(18)] == [0] * 16 + [1, 1]


def test_wrapper_has_its_last_offset() -> None:
    """Its first is taken from what is in it, where that can be right."""

    def next_offset(first_of: Callable[[int], int] | None) -> int | None:
        offsets = Offsets(3, END)
        list(offsets.add_gap(GAP))
        list(offsets.take(wrapper(12), first_of))
        return next(iter(offsets.release(None))).next_offset

    assert next_offset(lambda row: 10) == 10
    assert next_offset(lambda row: 13) == next_offset(lambda row: -1) == next_offset(None) == 12


def test_offsets_that_may_follow() -> None:
    offsets = Offsets(9, 100)
    assert offsets.believes(10, 10)
    assert offsets.believes(50, 99)
    assert not offsets.believes(9, 20)
    assert not offsets.believes(50, 100)
    assert not offsets.believes(51, 50)
    assert (offsets.last, offsets.end) == (9, 100)


def test_two_gaps_may_wait_for_the_same_batch() -> None:
    """The records between them are none."""
    assert told((0, 3), GAP, GAP, (10, 12)) == [(3, 10, 0), (3, 10, 0)]
    assert told((0, 3), GAP, (900, 902), GAP, (10, 12), (13, 13)) == [(3, 10, 3), (3, 10, 3)]
    assert told((0, 3), GAP, (1, 2), GAP, (10, 12)) == [(3, 10, 2), (3, 10, 2)]


def test_oldest_pending_gap_is_released_first() -> None:
    offsets = Offsets(3, END)
    gaps = [GAP._replace(position=number) for number in range(17)]
    released = [one.gap.position for gap in gaps for one in offsets.add_gap(gap)]
    assert released == [0]
    assert [one.gap.position for one in offsets.release(None)] == [*range(1, 17)]


def test_latest_jumps_are_revoked_first() -> None:
    """Of three that jump only those that lie above what follows are taken back."""
    assert told((0, 3), (50, 50), (900, 900), GAP, (60, 60), (61, 61)) == [(50, 60, 1)]
    assert told((0, 3), (50, 50), (900, 900), GAP, (60, 60)) == [(50, 60, 1)]
    assert told((0, 3), (50, 50), (900, 900), (990, 990), (999, 999), GAP, (60, 60)) == [
        (999, None, 1)
    ]


def test_many_rising_batches_are_trusted() -> None:
    """But for the last few, which what follows may give the lie."""
    spans = [(n * 2, n * 2 + 1) for n in range(20)]
    offsets = Offsets(-1, END)
    list(offsets.take(batches(*spans)))
    assert offsets.last == 39
    list(offsets.take(batches(*((n * 100, n * 100) for n in range(1, 9)), (9_000_000, 9_000_000))))
    assert offsets.last == 9_000_000
    list(offsets.add_gap(GAP))
    list(offsets.take(batches((900, 900))))
    (one,) = offsets.release(None)
    assert (one.last_offset, one.next_offset) == (800, 900)
