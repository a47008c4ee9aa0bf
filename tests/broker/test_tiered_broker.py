"""Real brokers with tiered topics: kdump answers as they do, and what it rebuilds they serve.

KDUMP_FUZZ=long takes 30 topics of each of two brokers. Needs `broker/` of KDUMP_SHARED.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from time import time

import pytest
from broker_box import Broker, Json
from long_runs import LONG, SEED
from tiered_live import T0, compare, wait_until_settled

from kdump.broker.settings import read_topic_config
from kdump.engine.salvage.options import SalvageOptions
from kdump.engine.salvage.run import salvage
from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.run import verify
from kdump.engine.why.options import WhyOptions
from kdump.engine.why.run import why
from kdump.errors import KdumpError
from kdump.findings.finding import Finding, Severity
from kdump.rows.why import RemoteFate

pytestmark = pytest.mark.broker

VERSIONS = ("4.1.1", "4.4.0") if LONG else ("4.4.0",)
TOPICS = [f"orders{number}" for number in range(30 if LONG else 3)]


@pytest.fixture(params=VERSIONS)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    found = Broker(tmp_path / "data", request.param)
    yield found
    found.run("kill")


def start(broker: Broker, *more: str) -> None:
    done = broker.run("start", "--version", broker.version, "--owner", str(os.getpid()), *more)
    assert done.returncode == 0, done.stderr


def fill(broker: Broker, topic: str, rng: random.Random, *, made: bool = False) -> None:
    configs = {
        "remote.storage.enable": "true",
        "local.retention.bytes": str(rng.choice((9_000, 30_000))),
    }
    if rng.random() < 0.3:
        configs["retention.bytes"] = str(rng.randrange(40_000, 120_000))
    operations: list[Json] = [
        {
            "op": "create_topic",
            "topic": topic,
            "segmentBytes": 12_000,
            "configs": configs,
            "timeout": 90,
        }
    ]
    for number in range(3):
        operations.append({
            "op": "produce", "topic": topic, "count": rng.randrange(100, 500), "seed": number,
            "batch": rng.choice((5, 10, 40)), "valueSize": [20, 200], "timeout": 90,
            "codec": rng.choice(("none", "lz4")),
            "timestamps": [T0 + rng.randrange(0, 10**6), rng.choice((1, 1000))],
        })  # fmt: skip
        end = rng.choice(("abort", "commit"))
        operations.append({"op": "txn", "topic": topic, "txn": topic, "count": 9, "end": end})
    answers = broker.ask(*operations[made:])
    assert all(answer["ok"] for answer in answers), answers


def run_why(data: str, tier: str, *limits: str) -> dict[str, RemoteFate]:
    """Give what `why` says of remote segments, with limits of topics, by their ids."""
    configs = tuple(map(read_topic_config, ("retention.ms=-1", *limits)))
    options = WhyOptions(int(time() * 1000), tier=tier, configs=configs)
    rows = [row for row in why([data], options) if isinstance(row, RemoteFate)]
    return {row.segment_id: row for row in rows}


def count_predicted_deletions(broker: Broker, data: str, tier: str, rng: random.Random) -> int:
    """Set limits: the broker deletes the remote segments that are foretold; count them."""
    before = run_why(data, tier)
    assert not [row for row in before.values() if row.verdict == "deletable"]
    limits = {topic: rng.randrange(30_000, 80_000) for topic in TOPICS[::2]}
    words = [f"{topic}:retention.bytes={size}" for topic, size in limits.items()]
    foretold = {
        one for one, row in run_why(data, tier, *words).items() if row.verdict == "deletable"
    }
    broker.ask(*(
        {"op": "alter_topic", "topic": topic, "configs": {"retention.bytes": str(size)}}
        for topic, size in limits.items()
    ))  # fmt: skip
    wait_until_settled(broker.ask, TOPICS)
    left = run_why(data, tier)
    assert before.keys() - left.keys() == foretold
    assert not [row for row in left.values() if row.verdict == "deletable"]
    assert {row.verdict for row in left.values()} <= {"kept", "not-deleted-by-policy"}
    return len(foretold)


def test_answers_and_rebuilt_topics_match_the_broker(broker: Broker, tmp_path: Path) -> None:
    tier = tmp_path / "remote"
    start(broker, "--tier", str(tier))
    rng = random.Random(SEED)
    for topic in TOPICS:
        fill(broker, topic, rng)
    data = str(broker.directory)
    assert compare(broker.ask, TOPICS, data, str(tier)) > 20 * len(TOPICS)
    assert count_predicted_deletions(broker, data, str(tier), rng) > len(TOPICS) // 2
    operations = [
        {"op": "delete_records", "topic": topic, "before": rng.randrange(50, 250)}
        for topic in TOPICS[::2]
    ]
    broker.ask(*operations)
    held = TOPICS[1]  # the broker is killed within a copy of a segment of this one
    (tier / f"hold-{held}").touch()
    fill(broker, held, rng, made=True)
    compare(broker.ask, TOPICS, data, str(tier))
    broker.run("kill")
    half = [row for row in run_why(data, str(tier)).values() if row.state == "COPY_SEGMENT_STARTED"]
    assert {(row.topic, row.verdict) for row in half} == {(held, "unfinished")}
    (tier / f"hold-{held}").unlink()
    start(broker)
    compare(broker.ask, TOPICS, data, str(tier))
    broker.run("stop")
    found = [
        one for one in verify([data], VerifyOptions(tier=str(tier))) if isinstance(one, Finding)
    ]
    assert not [one for one in found if one.severity is not Severity.NOTE or "remote" in one.code]
    out = tmp_path / "rebuilt"
    rows = list(salvage([], SalvageOptions(tier=str(tier), out=str(out))))
    assert not [row for row in rows if isinstance(row, KdumpError)]
    other = Broker(out, broker.version)
    start(other, "--takeover")
    try:
        for topic in TOPICS:
            one = next(row for row in rows if getattr(row, "topic", None) == topic)
            consumed = other.ask({"op": "consume", "topic": topic})[0]
            assert consumed["first"] >= one.first_offset  # type: ignore[union-attr]
            assert consumed["end"] == one.last_offset + 1  # type: ignore[union-attr]
    finally:
        other.run("kill")
