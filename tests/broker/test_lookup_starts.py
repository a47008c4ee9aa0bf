"""Random lookups in directories that a start would mend: broken, stopped cleanly or not.

The directories are those of `recoveries`; `find_offset` and `find_time` of Kafka 4.1.1 judge, with
the recovery point, the log start and the clean mark that we read from the data directory.
KDUMP_FUZZ=long takes 20,000 lookups; KDUMP_FUZZ_COUNT any number, KDUMP_FUZZ_SEED others.
"""

import random
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any

import partitions
import pytest
from each import each
from long_runs import SEED, how_many
from oracle import oracle
from recoveries import BROKER, INTERVAL, Case

from kdump.broker.list_offsets import list_offsets
from kdump.broker.lookup_records import BrokerError
from kdump.broker.partition import PartitionView
from kdump.broker.settings import Settings
from kdump.errors import PathError

pytestmark = pytest.mark.oracle

_COUNT = how_many(1000, 20_000)
LOOKUPS = 20  # of each directory
A_TEST = 10  # directories
SETTINGS = Settings(index_interval_bytes=INTERVAL)
Json = dict[str, Any]

# Seeds on which we once differed, with what we had wrong.
ONCE_WRONG = {
    19: "a part of a split segment takes the place of an earlier one",
    315: "a part of a split segment with its name is not served until the next start",
    922: "a truncation leaves the largest timestamp of what it leaves",
    1033: "the log starts at the first part of a split segment",
    1068: "a swap put in, and a log that begins anew behind it",
    1191: "a split segment, and a cut behind it",
    1195: "as 1068, after an unclean stop",
    1330: "as 1068, among other segments",
    1515: "as 1033",
    1650: "as 1191",
    1763: "as 1191",
    2136: "earliest where a swap that is put in begins lower",
}


def view_of(case: Case) -> PartitionView:
    (case.root / "meta.properties").touch()
    view = partitions.view_of(case.directory, broker=BROKER, settings=SETTINGS)
    if splits(case):
        with suppress(BrokerError, PathError):
            _ = view.log_end
    return view


@cache
def splits(case: Case) -> bool:
    """Whether a segment is split, whose parts may displace one that a lookup met before."""
    return bool(case.ours().get("split"))


def fetch_of_ours(case: Case, offset: int) -> Json:
    with closing(view_of(case)) as view:
        try:
            found = view.fetch(offset)
        except (BrokerError, PathError) as error:
            return {"error": str(error)}
        if found is None:
            return {"found": None}
        return {"segment": found.segment, "size": found.size_bytes, "last": found.last_offset}


def fetch_of_theirs(side: Json) -> Json:
    if "error" in side:
        return {"error": side["error"]}
    fetch = side["fetch"]
    if fetch is None or not fetch.get("size"):
        return {"error": fetch["error"]} if fetch and "error" in fetch else {"found": None}
    first = fetch.get("firstBatch")
    if first is None:
        return {"segment": fetch["segment"]}
    last = first.get("lastOffset")
    return {"segment": fetch["segment"], "size": first["sizeInBytes"], "last": last}


def same_fetch(ours: Json, theirs: Json) -> bool:
    if "error" in theirs:
        return "error" in ours
    return all(ours.get(name, -1) == value for name, value in theirs.items() if value is not None)


def time_of_ours(case: Case, target: int) -> Any:
    with closing(view_of(case)) as view:
        try:
            answer = list_offsets(view, target)
        except (BrokerError, PathError) as error:
            return f"error: {error}"
        return [answer.offset, answer.timestamp_ms]


def time_of_theirs(side: Json) -> Any:
    if "error" in side:
        return f"error: {side['error']}"
    answer = side["answer"]
    if answer is None or (answer["timestamp"] >= 0 and answer["offset"] >= side["logEndOffset"]):
        return [-1, -1]  # what lies past the end is left to the broker's next layer
    return [answer["offset"], answer["timestamp"]]


def draw_targets(case: Case, rng: random.Random) -> tuple[list[int], list[int]]:
    """Offsets and times at and around what the logs hold."""
    offsets, times = [0], [0]
    for log in sorted(case.directory.glob("*.log")):
        offsets.append(int(log.stem))
        for batch in case.judge.ask("batches", file=log)["batches"]:
            offsets += [batch.get("baseOffset", 0), batch.get("lastOffset", 0)]
            times.append(batch.get("maxTimestamp", 0))
    least, most = min(offsets), max(offsets)
    asked = [max(0, rng.choice(offsets) + rng.choice((-1, 0, 0, 1))) for _ in range(LOOKUPS // 2)]
    asked[:2] = [rng.randint(max(0, least), max(0, most)), max(0, most) + 2]
    asked = [min(offset, (1 << 63) - 1) for offset in asked]
    at = [max(0, rng.choice(times) + rng.choice((-1, 0, 1))) for _ in range(LOOKUPS // 2 - 3)]
    return asked, [min(time, (1 << 63) - 1) for time in at] + [-1, -2, -3]


def differences(case: Case) -> list[str]:
    rng = random.Random(f"lookups after a start {case.seed}")
    offsets, times = draw_targets(case, rng)
    how: Json = {"dir": case.directory, "indexIntervalBytes": INTERVAL, **case.start}
    found = []
    for offset in offsets:
        side = case.judge.ask("find_offset", offset=offset, **how)["unified"]
        if "logEndOffset" not in side:
            return found  # the start fails, at something that a lookup need not meet
        theirs, ours = fetch_of_theirs(side), fetch_of_ours(case, offset)
        if not same_fetch(ours, theirs):
            found.append(f"{case}\n  offset {offset}: {ours}\n  broker {theirs}")
    for time in times:
        side = case.judge.ask("find_time", timestamp=time, **how)["unified"]
        told, ours_told = time_of_theirs(side), time_of_ours(case, time)
        same = told == ours_told
        if isinstance(told, str):
            same = isinstance(ours_told, str)
        if not same:
            found.append(f"{case}\n  time {time}: {ours_told}\n  broker {told}")
    return found


@each("first", range(SEED, SEED + -(-_COUNT // LOOKUPS), A_TEST))
def test_lookups_after_a_start_repairs(first: int, tmp_path: Path) -> None:
    failures: list[str] = []
    for seed in range(first, first + A_TEST):
        failures += differences(Case(oracle(), seed, tmp_path / str(seed)))
    assert not failures, "\n".join(failures)


@each("seed", sorted(ONCE_WRONG))
def test_lookup_regressions(seed: int, tmp_path: Path) -> None:
    failures = differences(Case(oracle(), seed, tmp_path / str(seed)))
    assert not failures, "\n".join(failures)
