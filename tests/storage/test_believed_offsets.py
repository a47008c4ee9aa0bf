"""Which offsets are believed behind damage, from the entries met before it."""

import builders
import pytest

from kdump import kernels
from kdump.kernels.columns import RecordBatches
from kdump.storage.believed_offsets import BelievedOffsets, Bounds
from kdump.storage.names import OFFSET_MAX

RELATIVE_OFFSETS = 1 << 31
Span = tuple[int, int]


def entries(*spans: Span) -> RecordBatches:
    """Give the headers of batches from a first to a last offset."""
    data = b"".join(
        builders.batch([], base_offset=first, last_offset_delta=last - first, records_count=1)
        for first, last in spans
    )
    found, _, _ = kernels.walk(data, 0, len(data), 0, -1, True, len(spans))
    assert found.count == len(spans)
    return found


def in_a_row(first: int, count: int) -> list[Span]:
    """Spans of ten offsets that join on to each other."""
    return [(first + 10 * n, first + 10 * n + 9) for n in range(count)]


def segment(base: int | None = 100, next_base: int = 200, last: int = -1) -> BelievedOffsets:
    return BelievedOffsets(base, next_base, last, whole=True)


def test_file_name_and_next_segment_bound_the_first_entry() -> None:
    assert segment().bounds() == Bounds(99, 200, -1, 200)
    assert segment(next_base=OFFSET_MAX).bounds().high == 100 + RELATIVE_OFFSETS
    assert segment(None, OFFSET_MAX).bounds() == Bounds(-1, RELATIVE_OFFSETS, -1, OFFSET_MAX)


def test_walk_from_the_middle_continues_after_the_previous_entry() -> None:
    midst = BelievedOffsets(100, 200, 149, whole=False)
    assert midst.bounds() == Bounds(149, 200, 149, 200)
    nameless = BelievedOffsets(None, OFFSET_MAX, 149, whole=False)
    assert nameless.bounds() == Bounds(149, 150 + RELATIVE_OFFSETS, 149, OFFSET_MAX)
    assert BelievedOffsets(100, 200, 50, whole=False).bounds().low == 99


def test_admitted_offsets_are_within_the_bounds() -> None:
    bounds = Bounds(99, 200, 50, 300)
    assert bounds.admit(100, 199)
    assert not bounds.admit(99, 150)
    assert not bounds.admit(150, 200)
    assert bounds.admit_wide(51, 299)
    assert not bounds.admit_wide(50, 60)
    assert not bounds.admit_wide(60, 300)
    assert bounds.lowest == 99


def test_consecutive_entries_are_trusted() -> None:
    believed = segment()
    believed.add(entries((100, 109)))
    assert believed.bounds() == Bounds(109, 200, 109, 200)
    believed.add(entries((110, 119)))
    assert believed.bounds() == Bounds(119, 200, 119, 200)


def test_single_jumping_entry_is_not_trusted() -> None:
    """Its offset may be what flipped, and all that follows lie below it."""
    believed = segment()
    believed.add(entries((100, 109), (180, 189)))
    assert believed.bounds().low == 99
    believed.add(entries((190, 194)))
    assert believed.bounds().low == 99
    believed.add(entries((195, 196)))
    assert believed.bounds().low == 196  # two that join on to each other are not both wrong


def test_offset_beyond_any_segment_is_not_trusted() -> None:
    believed = segment()
    believed.add(entries((100, 109), (5000, 5009), (5010, 5019), (5020, 5029)))
    assert believed.bounds().low == 99
    unnamed = segment(None, 4000, 50)
    unnamed.add(entries((4000, 4009)))
    assert unnamed.bounds() == Bounds(50, 4000, 50, 4000)


def test_entries_of_a_misnamed_file_are_trusted() -> None:
    believed = segment(100, OFFSET_MAX)
    first = 100 + RELATIVE_OFFSETS
    believed.add(entries(*in_a_row(first, 16)))
    assert believed.bounds() == Bounds(
        first + 9, first + 10 + RELATIVE_OFFSETS, first + 9, OFFSET_MAX
    )


def test_last_entries_of_a_long_run_count() -> None:
    believed = segment(0, OFFSET_MAX)
    believed.add(entries(*in_a_row(0, 15)))
    assert believed.bounds().low == 149
    believed.add(entries(*in_a_row(150, 16)))
    assert believed.bounds().low == 309
    believed.add(entries(*in_a_row(310, 40)))
    assert believed.bounds().low == 709


def test_distant_entries_have_no_influence() -> None:
    """Of one that was too high nothing is left once sixteen follow, in one run or in many."""
    for runs in (1, 16):
        believed = segment(0, OFFSET_MAX)
        believed.add(entries((0, 9), (90_000, 90_009)))
        spans = [(20 + 100 * n, 29 + 100 * n) for n in range(16)]
        for start in range(0, 16, 16 // runs):
            believed.add(entries(*spans[start : start + 16 // runs]))
        assert believed.bounds().low == 29  # the lowest of the last sixteen, none joins on
        assert believed.bounds().wide_low == 29


def test_entries_skipped_by_a_gap_are_accepted_later() -> None:
    believed = segment(0, OFFSET_MAX)
    believed.add(entries((0, 9), (10, 19)))
    believed.gap()
    believed.add(entries((50, 59), (60, 69), (70, 79)))
    bounds = believed.bounds()
    assert (bounds.low, bounds.holes, bounds.lowest) == (79, ((19, 50),), 19)
    assert bounds.admit(20, 49)
    assert not bounds.admit(19, 30)
    assert not bounds.admit(30, 50)
    believed.gap()
    believed.add(entries((80, 89)))
    assert believed.bounds().holes == ((19, 50),)  # between 79 and 80 nothing has room
    believed.gap()
    believed.add(entries((91, 99)))
    assert believed.bounds().holes == ((19, 50), (89, 91))


@pytest.mark.parametrize("gaps", [16, 17, 20])
def test_last_holes_are_remembered(gaps: int) -> None:
    believed = segment(0, OFFSET_MAX)
    believed.add(entries((0, 9), (10, 19)))
    for number in range(gaps):
        believed.gap()
        first = 100 * (number + 1)
        believed.add(entries((first, first + 9), (first + 10, first + 19)))
        believed.add(entries((first + 20, first + 29)))
    holes = believed.bounds().holes
    assert len(holes) == 16
    assert holes[-1] == (100 * gaps - 71 if gaps > 1 else 19, 100 * gaps)
