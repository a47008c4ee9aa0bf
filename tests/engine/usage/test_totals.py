"""Totals in bounded memory: never more than what is true, never less than what they admit."""

from __future__ import annotations

import random
from array import array
from collections import Counter

from each import each

from kdump.engine.usage.totals import WIDTH, Totals, shrink
from kdump.kernels import columns as c


def one(size: int, at: int = -1) -> array[int]:
    numbers = array("q", [0] * WIDTH)
    numbers[c.T_RECORDS], numbers[c.T_BYTES] = 1, size
    numbers[c.T_FIRST] = numbers[c.T_LAST] = at
    return numbers


def fill(draw: random.Random, most: int, keys: int, count: int) -> tuple[Totals, Counter[int]]:
    totals, truth = Totals(most), Counter[int]()
    for _ in range(count):
        key = (
            min(int(draw.expovariate(0.1)), keys - 1)
            if draw.random() < 0.7
            else draw.randrange(keys)
        )
        size = draw.randrange(1, 100)
        totals.add(key, one(size))
        truth[key] += size
    return totals, truth


def holds(totals: Totals, truth: Counter[int]) -> None:
    """What is held brackets the truth, and what is not held is bounded by the floor."""
    held = dict(totals.items())
    for key, true in truth.items():
        if key in held:
            counted, error = held[key][c.T_BYTES], held[key][c.T_ERROR]
            assert counted <= true <= counted + error
        else:
            assert true <= totals.floor
    assert totals.sum()[c.T_BYTES] == truth.total()


@each("seed", range(40))
def test_bounds_hold_for_any_number_of_groups(seed: int) -> None:
    draw = random.Random(seed)
    totals, truth = fill(draw, draw.choice([2, 5, 16, 1000]), draw.choice([3, 50, 400]), 600)
    holds(totals, truth)


@each("seed", range(40))
def test_bounds_hold_after_merging(seed: int) -> None:
    draw = random.Random(seed)
    parts = [fill(draw, draw.choice([4, 16, 60]), 100, 300) for _ in range(4)]
    truth = Counter[int]()
    merged = Totals.unpack(parts[0][0].pack())
    truth.update(parts[0][1])
    for totals, counted in parts[1:]:
        merged.merge(Totals.unpack(totals.pack()))
        truth.update(counted)
        held = dict(merged.items())
        for key, true in truth.items():
            if key in held:
                assert held[key][c.T_BYTES] <= true <= held[key][c.T_BYTES] + held[key][c.T_ERROR]
            else:
                assert true <= merged.floor
        shrink([merged], 30)
        assert len(merged) <= 30


def test_totals_are_exact_while_there_is_room() -> None:
    totals, truth = fill(random.Random(1), 50, 50, 5000)
    assert totals.floor == 0
    assert {key: numbers[c.T_BYTES] for key, numbers in totals.items()} == truth
    assert all(not numbers[c.T_ERROR] for _, numbers in totals.items())


def test_large_groups_are_kept() -> None:
    """A group with more than its share is there at the end, whatever else comes by."""
    totals = Totals(64)
    for number in range(100_000):
        totals.add(number, one(10))
        if number % 10 == 0:
            totals.add("hot", one(50))
    numbers = dict(totals.items())["hot"]
    assert numbers[c.T_BYTES] <= 500_000 <= numbers[c.T_BYTES] + numbers[c.T_ERROR]
    assert numbers[c.T_BYTES] > 400_000
    assert totals.floor < 1_500_000 // 64 * 3
    assert len(totals.sums) <= 64 * WIDTH


def test_times_are_the_widest() -> None:
    left, right = Totals(4), Totals(4)
    left.add("a", one(1, 50))
    left.add("a", one(1))
    right.add("a", one(1, 70))
    right.add("a", one(1, 0))
    left.merge(right)
    ((_, numbers),) = left.items()
    assert (numbers[c.T_FIRST], numbers[c.T_LAST]) == (0, 70)


def test_shrink_keeps_the_largest_of_several() -> None:
    small, large = Totals(10), Totals(10)
    for number in range(6):
        small.add(number, one(1 + number))
        large.add(number, one(100 + number))
    shrink([small, large], 8)
    assert [key for key, _ in large.items()] == [2, 3, 4, 5]
    assert not len(small)
    assert (small.floor, large.floor) == (6, 101)


def test_totals_work_with_little_room() -> None:
    totals = Totals(1)
    for number in range(9):
        totals.add(number, one(10))
    assert 0 < len(totals) <= 2
    assert totals.sum()[c.T_BYTES] == 90
