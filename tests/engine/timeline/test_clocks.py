"""How clocks of brokers are bounded against each other, also where they were set."""

import random

import pytest
from long_runs import SEED, how_many
from made_clocks import MadeClocks, check_bounds

from kdump.engine.timeline.clocks import Clocks
from kdump.engine.timeline.eras import Eras, Point
from kdump.engine.timeline.raw_event import Spot, Tie
from kdump.rows.timeline import ClockSkew


def test_order_of_events_bounds_clocks() -> None:
    """Made clocks, and ties of them: every bound holds, over third brokers too."""
    for seed in range(50):
        draw = random.Random(seed)
        ahead = {broker: draw.randrange(-100_000, 100_000) for broker in range(4)}
        clocks = Clocks()
        at_ms = 0
        for _ in range(draw.randrange(3, 60)):
            first, second = draw.choices(range(4), k=2)
            at_ms += draw.randrange(1, 500)
            then = at_ms + draw.randrange(0, 300)
            clocks.add(Tie(first, at_ms + ahead[first], second, then + ahead[second], "made"))
        clocks.settle(range(4), 0, {})
        for row in clocks.rows():
            truth = ahead[row.broker_id] - ahead[0]
            assert row.at_least_ms is None or row.at_least_ms <= truth
            assert row.at_most_ms is None or truth <= row.at_most_ms


def test_touched_file_bounds_no_clock() -> None:
    clocks = Clocks()
    clocks.add(Tie(1, 1000, 2, 1050, "records"))
    clocks.add(Tie(2, 2000, 1, 2050, "records"))
    clocks.add(Tie(1, 1000, 2, 100, "a file of before", by_file=True))
    clocks.add(Tie(1, 1000, 2, 1010, "a file", by_file=True))
    clocks.settle((1, 2), 1, {})
    assert clocks.rows() == [ClockSkew(2, 1, -50, 20, 3 + 1, "a file; records")]


_ONCE_WRONG = (31, 336, 465, 615, 727, 1411, 2061, 2483, 3679, 100_142, 102_717)


def test_changed_clock_is_bounded() -> None:
    """Made clocks that are set, once or more, and logs: each stamp is where its bounds say.

    The first seeds once gave wrong bounds: what was set twice between two ties, what only a clock
    that may itself have been set contradicts, and a time that no known way of the clock explains.
    """
    count = close = 0
    seeds = range(SEED * 10_000, SEED * 10_000 + how_many(40, 8_000))
    for seed in (*_ONCE_WRONG, *seeds):
        made = MadeClocks(seed)
        found, wrong = check_bounds(made)
        assert not wrong, (seed, wrong[:5])
        count += len(made.stamps)
        close += found
    assert close > 0.7 * count


def _set_twice(step: int, *, tied: bool) -> Clocks:
    """Of two clocks the second is set at 100 s and back at 200 s; a log shows it in between."""
    clocks = Clocks()
    for at_ms in (*range(0, 100_000, 10_000), *range(210_000, 300_000, 10_000)):
        clocks.add(Tie(0, at_ms, 1, at_ms + 20, "made", False, *_spots("a", "b", at_ms)))
        clocks.add(Tie(1, at_ms + 20, 0, at_ms + 40, "made", False, *_spots("b", "a", at_ms + 20)))
    if tied:
        at_ms = 150_000
        clocks.add(Tie(0, at_ms, 1, at_ms + step + 20, "made", False, *_spots("a", "b", at_ms)))
    shown, later = sorted((150_020 + step, 199_000), reverse=True)
    clocks.add(Tie(1, shown, 1, later, "set back", False, *_spots("b", "b", 150_020)))
    clocks.settle((0, 1), 0, {})
    return clocks


def _spots(first: str, second: str, at_ms: int) -> tuple[Spot, Spot]:
    return Spot((first, 0), at_ms, 1), Spot((second, 0), at_ms + 20, 1)


@pytest.mark.parametrize("step", [10_800_000, -10_800_000])
@pytest.mark.parametrize("tied", [False, True])
def test_clock_set_and_reset_is_detected(step: int, tied: bool) -> None:
    clocks = _set_twice(step, tied=tied)
    for at_ms in (120_000, 150_020, 190_000):
        low, high = clocks.between(1, at_ms + step, at_ms + step, Spot(("b", 0), at_ms, 1))
        assert low is not None
        assert high is not None
        assert low <= at_ms <= high
        assert high - low <= 130_040
    for at_ms in (40_020, 260_020):
        low, high = clocks.between(1, at_ms, at_ms, Spot(("b", 0), at_ms, 1))
        assert (low, high) == (at_ms - 20, at_ms + 20)
    for row in clocks.rows():
        assert (row.at_least_ms, row.at_most_ms) == (None, None)


def test_drifting_clocks_stay_bounded() -> None:
    clocks, draw = Clocks(), random.Random(1)
    for at_ms in range(0, 1_000_000, 5_000):
        ahead = (0, at_ms // 4_000)
        for first in draw.choice(((0,), (1,), (0, 1))):
            then = at_ms + ahead[1 - first] + draw.randrange(5)
            clocks.add(Tie(first, at_ms + ahead[first], 1 - first, then, "made"))
    clocks.settle(range(2), 0, {})
    (row,) = clocks.rows()
    assert row.at_least_ms is not None
    assert row.at_most_ms is not None
    assert -5 <= row.at_least_ms <= 5
    assert 240 <= row.at_most_ms <= 260


def test_clock_that_was_set_was_ahead_by_what_it_showed_before_and_after() -> None:
    one = Eras([Point(1_100, 990, 1_010)], ())
    assert one.lead == (90, 110)
    two = Eras([Point(1_100, 990, 1_010), Point(100_000, 50_000, 50_000)], ())
    unseen_ms = 50_000 - 990
    assert two.lead == (90 - unseen_ms, 50_000 + unseen_ms)
    assert Eras((), ()).lead is None
