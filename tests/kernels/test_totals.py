"""Adding up headers and keys: what both twins say, and plain counting over the same columns."""

import random
from array import array
from types import ModuleType
from typing import Any

import builders
import pytest
from each import each

from kdump.kernels import _pure
from kdump.kernels import columns as c
from kdump.kernels.columns import Columns
from kdump.kernels.layout import int64

TWINS: list[ModuleType] = [_pure]
try:
    from kdump.kernels import _fast
except ImportError:
    pass
else:
    TWINS.append(_fast)

each_twin = pytest.mark.parametrize("kernel", TWINS, ids=lambda kernel: kernel.__name__[13:])


def log_of(draw: random.Random) -> bytes:
    """Write batches of all versions, with keys that come again, null ones and headers."""
    parts, offset = [], 0
    for _ in range(draw.randrange(1, 12)):
        kind = draw.randrange(4)
        if kind == 3:
            inner = [builders.message(0, draw.choice([None, b"a"])) for _ in range(2)]
            parts.append(builders.wrapper(inner, offset + 1))
        elif kind == 2:
            key = draw.choice([None, b"", b"a", b"b"])
            parts.append(builders.message(offset, key, draw.choice([None, b"vv"]), magic=0))
        else:
            records = [
                builders.record(
                    delta,
                    draw.randrange(-9, 99),
                    draw.choice([None, b"", b"a", b"b", b"long" * 9]),
                    draw.choice([None, b"", b"value"]),
                    draw.choice([[], [(b"h", None)], [(b"h", b"12"), (b"", b"")]]),
                )
                for delta in range(draw.randrange(1, 5))
            ]
            parts.append(
                builders.batch(
                    records,
                    base_offset=offset,
                    producer_id=draw.choice([-1, 7, 8]),
                    base_timestamp=draw.choice([-1, 5, 1000]),
                    attributes=draw.choice([0, 0, 0, 0x20]),
                )
            )
        offset += 5
    return b"".join(parts)


def columns_of(kernel: ModuleType, log: bytes) -> Columns:
    batches, _, _ = kernel.walk(log, 0, len(log), 0, -1, True, 1 << 20)
    assert isinstance(batches, Columns)
    return batches


@each_twin
@pytest.mark.parametrize("seed", range(60))
def test_batches_by_producer_and_codec(kernel: ModuleType, seed: int) -> None:
    draw = random.Random(seed)
    batches = columns_of(kernel, log_of(draw))
    by_producer, by_codec = draw.random() < 0.5, draw.random() < 0.5
    row = 0
    while row < batches.count:
        sums = array("q", [0] * 3 * c.TOTALS_WIDTH)
        sums[c.TOTALS_WIDTH + c.T_FIRST] = sums[c.TOTALS_WIDTH + c.T_LAST] = -1
        end = kernel.sum_batches(batches, row, by_producer, by_codec, sums, 1)
        rows = batches.rows()[row:end]

        def group(one: tuple[int, ...]) -> tuple[int, int]:
            return one[c.B_PRODUCER_ID] * by_producer, (one[c.B_ATTRIBUTES] & 7) * by_codec

        assert {group(one) for one in rows} == {group(rows[0])}
        assert end == batches.count or group(batches.row(end)) != group(rows[0])
        times = [one[c.B_MAX_TIMESTAMP] for one in rows if one[c.B_MAX_TIMESTAMP] >= 0]
        wanted = [0] * c.TOTALS_WIDTH
        wanted[c.T_BATCHES] = len(rows)
        wanted[c.T_RECORDS] = sum(max(one[c.B_RECORDS_COUNT], 0) for one in rows)
        wanted[c.T_BYTES] = sum(one[c.B_SIZE] for one in rows)
        wanted[c.T_CONTROL] = sum(bool(one[c.B_FLAGS] & c.CONTROL) for one in rows)
        wanted[c.T_UNOPENED] = sum(bool(one[c.B_FLAGS] & c.WRAPPER) for one in rows)
        wanted[c.T_FIRST], wanted[c.T_LAST] = min(times, default=-1), max(times, default=-1)
        assert list(sums) == [0] * c.TOTALS_WIDTH + wanted + [0] * c.TOTALS_WIDTH
        row = end


def keys_counted(kernel: ModuleType, log: bytes, most: int, longest: int) -> Any:
    """Add the records of a log up by key, where plain runs of them allow it."""
    batches = columns_of(kernel, log)
    slots: dict[bytes | None, int] = {}
    sums = array("q", [9] * most * c.TOTALS_WIDTH)
    stops, row = [], 0
    while row < batches.count:
        records, following, _, _ = kernel.decode_run(log, 0, batches, row, 1000)
        at = 0
        while at < records.count:
            at = kernel.sum_keys(log, records, at, slots, sums, 77, most, longest)
            stops.append(at)
            at += 1
        row = max(following, row + 1)
    return slots, list(sums[: len(slots) * c.TOTALS_WIDTH]), stops


@each("seed", range(60))
@each(("most", "longest"), [(100, 100), (2, 100), (100, 10)])
def test_kernels_agree_on_keys(seed: int, most: int, longest: int) -> None:
    log = log_of(random.Random(seed))
    told = [keys_counted(kernel, log, most, longest) for kernel in TWINS]
    assert all(one == told[0] for one in told)


@each_twin
def test_markers_have_no_key(kernel: ModuleType) -> None:
    log = builders.marker(0) + builders.batch(base_offset=1) + builders.marker(1, base_offset=2)
    slots, sums, stops = keys_counted(kernel, log, 9, 9)
    assert (list(slots), sums[c.T_RECORDS], stops) == ([b"key"], 1, [3])


@each_twin
def test_bytes_of_a_key_include_value_and_headers(kernel: ModuleType) -> None:
    log = builders.batch(
        [
            builders.record(0, 5, b"ab", b"cde", [(b"h", None), (b"kk", b"four")]),
            builders.record(1, 2, None, None),
            builders.record(2, 9, b"ab", b""),
        ],
        base_timestamp=100,
    )
    slots, sums, stops = keys_counted(kernel, log, 5, 100)
    assert slots == {b"ab": 0, None: 1}
    assert stops == [3]
    width = c.TOTALS_WIDTH
    assert sums[c.T_RECORDS] == 2
    assert sums[c.T_BYTES] == 2 + 3 + 1 + 2 + 4 + 2
    assert (sums[c.T_FIRST], sums[c.T_LAST], sums[c.T_ERROR]) == (105, 109, 77)
    assert sums[width + c.T_BYTES] == 0


@each_twin
def test_slots_outside_are_refused(kernel: ModuleType) -> None:
    batches = columns_of(kernel, builders.batch())
    for slot in (-1, 1):
        with pytest.raises(IndexError):
            kernel.sum_batches(batches, 0, False, False, array("q", [0] * c.TOTALS_WIDTH), slot)


@each_twin
@pytest.mark.parametrize("seed", range(60))
def test_largest_groups_are_kept_in_order(kernel: ModuleType, seed: int) -> None:
    draw = random.Random(seed)
    width, count = c.TOTALS_WIDTH, draw.randrange(12)
    groups = [[draw.randrange(5) for _ in range(width)] for _ in range(count)]
    if draw.random() < 0.2:
        groups += [[(1 << 63) - 1] * width]
        count += 1
    numbers = [number for group in groups for number in group]
    sums = array("q", [*numbers, *range(draw.randrange(3) * width)])
    bounds = [int64(group[c.T_BYTES] + group[c.T_ERROR]) for group in groups]
    assert list(kernel.bounds_of(sums, count)) == bounds
    threshold, ties = draw.randrange(-1, 9), draw.randrange(4)
    kept, floor, dropped = kernel.keep_largest(sums, count, threshold, ties)
    tied = [group for group, bound in enumerate(bounds) if bound == threshold][:ties]
    wanted = [bound > threshold or group in tied for group, bound in enumerate(bounds)]
    assert list(map(bool, kept)) == wanted
    staying = [group for group, stays in zip(groups, wanted, strict=True) if stays]
    going = [group for group, stays in zip(groups, wanted, strict=True) if not stays]
    assert list(sums[: width * len(staying)]) == [number for group in staying for number in group]
    lost = [bound for bound, stays in zip(bounds, wanted, strict=True) if not stays]
    assert floor == max([0, *lost])
    assert list(dropped) == [int64(sum(group[k] for group in going)) for k in range(width)]


@each_twin
def test_more_groups_than_there_are_numbers(kernel: ModuleType) -> None:
    sums = array("q", [0] * (2 * c.TOTALS_WIDTH - 1))
    assert list(kernel.bounds_of(array("q"), 0)) == []
    for count in (2, -1, 1 << 62):
        with pytest.raises(IndexError):
            kernel.bounds_of(sums, count)
        with pytest.raises(IndexError):
            kernel.keep_largest(sums, count, 0, 0)
