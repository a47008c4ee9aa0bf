"""Retention passes against the broker's own, on made directories, with the clock moved."""

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from long_runs import LONG
from oracle import Oracle, oracle
from segments import target_of

from kdump.broker.retention import LogFacts, Policy, policy_of, retention_pass
from kdump.broker.segment_facts import log_facts
from kdump.broker.settings import TOPIC, Settings
from kdump.broker.versions import NEWEST

DIRECTORIES, QUESTIONS = (300, 17) if LONG else (15, 10)
T0 = 1_700_000_000_000
HOUR = 3_600_000
DAY = 24 * HOUR


def recipe(seed: int, directory: Path) -> dict[str, Any]:
    """Some segments of some batches, with times around T0, ahead of it, or none."""
    draw = random.Random(seed)
    ops: list[dict[str, Any]] = []
    for _ in range(draw.randint(1, 7)):
        kind = draw.choice(["rising", "rising", "mixed", "ahead", "untimed"])
        for _ in range(draw.randint(1, 5)):
            if kind == "untimed":
                times = [-1] * draw.randint(1, 4)
            else:
                start = T0 + draw.randint(-20, 5) * DAY
                start += draw.randint(5, 40) * DAY * (kind == "ahead")
                times = [start + draw.randint(0, 3 * HOUR) for _ in range(draw.randint(1, 4))]
            magic = draw.choice([2, 2, 2, 1])
            records = [
                {"key": str(at), "value": "v" * draw.choice([1, 40, 3000]), "ts": time}
                for at, time in enumerate(times)
            ]
            ops.append({
                "op": "append", "magic": magic, "gap": draw.choice([0, 0, 0, 7]),
                "codec": draw.choice(["none", "none", "gzip"]), "records": records,
            })  # fmt: skip
        ops.append({"op": "roll"})
    if draw.random() < 0.7:
        ops.pop()  # else the active segment is empty
    return {
        "dir": str(directory),
        "seed": seed,
        "clock": T0,
        "indexIntervalBytes": draw.choice([100, 4096]),
        "engine": "follower",
        "close": draw.choice(["clean", "crash"]),
        "ops": ops,
    }


def question(draw: random.Random, log: LogFacts) -> dict[str, Any]:
    """Settings, offsets and a time, many of them just at or beside what decides."""
    total = sum(segment.size_bytes for segment in log.segments)
    times = [segment.time_ms for segment in log.segments]
    limit = draw.choice([-1, 0, 1, HOUR, DAY, 7 * DAY])
    now = draw.choice([T0, draw.choice(times) + max(limit, 0) + draw.randint(-1, 2)])
    now += draw.choice([0, 0, draw.randint(-48, 48) * HOUR, draw.randint(-30, 30) * DAY])
    edge = sum(segment.size_bytes for segment in log.segments[draw.randint(0, len(times)) :])
    bytes_ = draw.choice([-1, -1, 0, 1, total, max(edge + draw.randint(-1, 1), 0)])
    ends = [log.find_end(number) for number in range(len(times))]
    mark = draw.choice([log.log_end, log.log_end, draw.choice(ends), draw.choice(ends) - 1])
    mark = max(mark, log.segments[0].base_offset)
    start = draw.choice([log.log_start, log.log_start, draw.choice(ends), draw.choice(ends) - 1])
    policy = draw.choice(["delete", "delete", "delete", "compact", "compact,delete"])
    return {
        "now": max(now, 0),
        "config": {
            "retention.ms": str(limit),
            "retention.bytes": str(bytes_),
            "cleanup.policy": policy,
        },
        "highWatermark": mark,
        "logStartOffset": max(min(start, mark), log.log_start),
    }


def policy_for(config: dict[str, str]) -> Policy:
    return policy_of(Settings().of_topic(config, TOPIC), "orders", NEWEST)


def facts_of(directory: Path) -> LogFacts:
    return log_facts(target_of(directory), NEWEST, clean=False)


@pytest.fixture(scope="module")
def broker() -> Oracle:
    return oracle()


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(DIRECTORIES))
def test_retention_passes_match_the_broker(seed: int, broker: Oracle, tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    broker.ask("make", recipe=recipe(seed, directory), dir=str(directory))
    log = facts_of(directory)
    draw = random.Random(seed)
    for _ in range(QUESTIONS):
        asked = question(draw, log)
        said = broker.ask("retention", dir=str(directory), clean=False, **asked)
        known = [
            (one["baseOffset"], one["size"], one["largestTimestamp"])
            for one in said["before"]["segments"]
        ]
        assert [(one.base_offset, one.size_bytes, one.time_ms) for one in log.segments] == known
        assert log.log_end == said["before"]["logEndOffset"]
        start, mark = said["before"]["logStartOffset"], said["before"]["highWatermark"]
        moved = log._replace(log_start=start, high_watermark=mark)
        done = retention_pass(moved, policy_for(asked["config"]), asked["now"])
        got = ([one.base_offset for one in done.deleted], done.rolled, done.log_start)
        wanted = (said["deleted"], said["rolled"], said["after"]["logStartOffset"])
        assert got == wanted, asked
    shutil.rmtree(directory)
