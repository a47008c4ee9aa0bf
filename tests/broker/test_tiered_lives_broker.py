"""Lives of 30 tiered topics on two real brokers: kdump answers beside them, also after a kill.

KDUMP_FUZZ=long. Needs `broker/` of KDUMP_SHARED.
"""

import hashlib
import os
import random
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from broker_box import Broker, Json
from long_runs import LONG, SEED

from kdump.broker.list_offsets import list_offsets
from kdump.broker.lookup_records import BrokerError
from kdump.engine.dump.run import dump
from kdump.engine.find.options import FindOptions
from kdump.engine.info.run import InfoOptions, info
from kdump.engine.reading.options import DumpOptions
from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.run import verify
from kdump.engine.why.options import WhyOptions
from kdump.engine.why.run import why
from kdump.errors import KdumpError
from kdump.findings.finding import Finding, Severity
from kdump.findings.rows import RecordChunk
from kdump.replay.topic_settings import topic_settings
from kdump.rows.info import TopicSummary
from kdump.rows.why import SegmentFate
from kdump.storage.targets import Selection, resolve

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(not LONG, reason="minutes of real brokers: KDUMP_FUZZ=long"),
]

VERSIONS = ("4.1.1", "4.4.0")
HOUR = 3_600_000
NOW = int(time.time() * 1000)
SPECIAL = {"earliest": -2, "latest": -1, "max": -3, "earliest-local": -4, "latest-tiered": -5}
PENDING = {"earliest-pending-upload": -6}
LEVELS = ("read_uncommitted", "read_committed")
#: What a topic is made with, and what is done to it.
KINDS: dict[str, dict[str, str]] = {
    "plain": {"local.retention.bytes": "9000"},
    "wide": {"local.retention.bytes": "30000"},
    "total": {"local.retention.bytes": "9000", "retention.bytes": "60000"},
    "aged": {"local.retention.bytes": "9000", "retention.ms": str(24 * HOUR)},
    "brief": {"local.retention.ms": "1000"},
    "trimmed": {"local.retention.bytes": "9000"},
    "compacted": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
    "stamped": {"local.retention.bytes": "9000", "message.timestamp.type": "LogAppendTime"},
    "held": {"local.retention.bytes": "9000"},
    "failing": {"local.retention.bytes": "9000"},
}
TOPICS = [f"{kind}.{number}" for number in range(3) for kind in KINDS]


def kind_of(topic: str) -> str:
    return topic.partition(".")[0]


@pytest.fixture(params=VERSIONS)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    found = Broker(tmp_path / "data", request.param)
    yield found
    found.run("kill")


def start(broker: Broker, *more: str) -> None:
    done = broker.run(
        "start", "--version", broker.version, "--owner", str(os.getpid()), "--timeout", "300", *more
    )
    assert done.returncode == 0, done.stderr


def ask(broker: Broker, operations: list[Json]) -> list[Json]:
    answers = broker.ask(*(one | {"timeout": 120} for one in operations))
    assert len(answers) == len(operations)
    assert all(answer["ok"] for answer in answers), [one for one in answers if not one["ok"]]
    return answers


def made(topic: str) -> Json:
    configs = dict(KINDS[kind_of(topic)])
    if kind_of(topic) != "compacted":
        configs["remote.storage.enable"] = "true"
    return {"op": "create_topic", "topic": topic, "segmentBytes": 12_000, "configs": configs}


def fill_operations(topic: str, rng: random.Random, turn: int) -> list[Json]:
    """Give operations that append; those of the first turn are days old where time decides."""
    base = NOW - (72 * HOUR if kind_of(topic) == "aged" and turn < 2 else HOUR)
    found: list[Json] = []
    for number in range(2):
        found.append({
            "op": "produce", "topic": topic, "count": rng.randrange(60, 300),
            "seed": 10 * turn + number, "batch": rng.choice((5, 10, 40)), "valueSize": [20, 200],
            "codec": rng.choice(("none", "lz4", "zstd")), "keySize": [1, 2],
            "timestamps": [base + rng.randrange(0, 10**6), rng.choice((0, 1, 500))],
        })  # fmt: skip
        end = rng.choice(("abort", "commit"))
        found.append({"op": "txn", "topic": topic, "txn": topic, "count": 9, "end": end})
    return found


def wait_until_settled(broker: Broker) -> dict[str, dict[object, list[object]]]:
    """Wait until nothing moves any more; give what the broker answers of each topic."""
    special = SPECIAL | (PENDING if broker.version != "4.1.1" else {})
    times = [*range(NOW - 73 * HOUR, NOW - 71 * HOUR, 400_000), NOW + HOUR,
             *range(NOW - 2 * HOUR, NOW, 300_000)]  # fmt: skip
    asks = [{"op": "list_offsets", "topic": topic, "at": [*special, *times]} for topic in TOPICS]
    before: object = None
    same = 0
    for _ in range(60):
        now = [answer["offsets"] for answer in ask(broker, asks)]
        same = same + 1 if now == before else 0
        if same == 2:
            break
        before = now
        time.sleep(4)
    return {
        topic: {one["at"]: [one["offset"], one["timestamp"]] for one in said}
        for topic, said in zip(TOPICS, now, strict=True)
    }


def sums_of(items: Iterable[object]) -> tuple[int, str]:
    """Count records, and hash them as the client does those that it consumed."""
    digest, count = hashlib.sha256(), 0
    for item in items:
        for row in item.iter_records() if isinstance(item, RecordChunk) else ():
            key, value = ("-" if one is None else bytes(one).hex() for one in (row.key, row.value))
            digest.update(f"{row.offset}\t{row.timestamp_ms}\t{key}\t{value}\t\n".encode())
            count += 1
    return count, digest.hexdigest()


def compare(
    data: str, tier: str, answers: dict[str, dict[object, list[object]]]
) -> tuple[int, list[object]]:
    """Hold answers against a broker's; return how many there were, and those that differ."""
    settings = topic_settings(None, [data], tier=tier)
    asked, wrong = 0, []
    for target in resolve([data], Selection()):
        assert not isinstance(target, KdumpError)
        if target.topic not in answers:
            continue
        with closing(FindOptions(settings=settings).view(settings.with_tier(target))) as view:
            for at, answer in answers[target.topic].items():
                special = (SPECIAL | PENDING).get(str(at))
                try:
                    found = list_offsets(view, int(str(at)) if special is None else special)
                    ours: object = [found.offset, found.timestamp_ms]
                except BrokerError as error:
                    ours = repr(error)
                asked += 1
                if ours != answer:
                    wrong.append((target.topic, at, ours, answer))
    return asked, wrong


def check_consumed(broker: Broker, data: str, tier: str) -> tuple[int, list[object]]:
    """Hold records, of all and from places inside, against what consumers are handed."""
    asks = [
        {"op": "consume", "topic": topic, "isolation": level}
        for topic in TOPICS
        for level in LEVELS
    ]
    asked, wrong = 0, []
    firsts: dict[str, Json] = {}
    for one, theirs in zip(asks, ask(broker, asks), strict=True):
        options = DumpOptions(
            visible=True, isolation=str(one["isolation"]), tier=tier,
            selection=Selection(topic=str(one["topic"])),
        )  # fmt: skip
        ours = sums_of(dump([data], options))
        asked += 1
        if ours != (theirs["count"], theirs["recordsSha256"]):
            wrong.append((one["topic"], one["isolation"], ours, theirs))
        firsts[str(one["topic"])] = theirs
    rng = random.Random(SEED)
    seeks = [
        {"op": "consume", "topic": topic, "from": rng.randrange(said["first"], said["end"]),
         "max": 1}
        for topic, said in firsts.items() if said["count"]
        for _ in range(4)
    ]  # fmt: skip
    settings = topic_settings(None, [data], tier=tier)
    targets = {
        it.topic: it for it in resolve([data], Selection()) if not isinstance(it, KdumpError)
    }
    for one, theirs in zip(seeks, ask(broker, seeks), strict=True):
        target = settings.with_tier(targets[str(one["topic"])])
        with closing(FindOptions(settings=settings).view(target)) as view:
            at = int(str(one["from"]))
            batch = view.fetch(at)
            first = theirs.get("first", -1)
            asked += 1
            if batch is None or (first >= 0 and view.record_at(batch, first) is None):
                wrong.append((one, theirs))
    return asked, wrong


def test_answers_match_a_tiered_broker_over_its_life(broker: Broker, tmp_path: Path) -> None:
    tier = tmp_path / "remote"
    tier.mkdir()
    for topic in TOPICS:
        if kind_of(topic) == "failing":
            (tier / f"fail-{topic}").touch()
    start(broker, "--tier", str(tier))
    rng = random.Random(SEED)
    ask(broker, [made(topic) for topic in TOPICS])
    ask(broker, [one for topic in TOPICS for one in fill_operations(topic, rng, 0)])
    data = str(broker.directory)
    counts: list[int] = []
    wrongs: list[object] = []

    def hold(moment: str) -> None:
        answers = wait_until_settled(broker)
        for asked, wrong in (
            compare(data, str(tier), answers), check_consumed(broker, data, str(tier)),
        ):  # fmt: skip
            counts.append(asked)
            wrongs.extend((moment, one) for one in wrong)

    hold("filled")
    for topic in TOPICS:
        (tier / f"fail-{topic}").unlink(missing_ok=True)
        if kind_of(topic) == "held":
            (tier / f"hold-{topic}").touch()
        if kind_of(topic) == "total":
            (tier / f"keep-{topic}").touch()
    ask(broker, [one for topic in TOPICS for one in fill_operations(topic, rng, 1)])
    ask(
        broker,
        [
            {"op": "delete_records", "topic": topic, "before": rng.randrange(50, 200)}
            for topic in TOPICS
            if kind_of(topic) == "trimmed"
        ],
    )
    hold("held")
    broker.run("kill")
    copy = tmp_path / "copies"
    shutil.copytree(data, copy / "data")
    shutil.copytree(tier, copy / "remote")
    for topic in TOPICS:
        (tier / f"hold-{topic}").unlink(missing_ok=True)
        (tier / f"keep-{topic}").unlink(missing_ok=True)
    start(broker)
    hold("after the kill")
    for turn in (2, 3):
        ask(broker, [one for topic in TOPICS for one in fill_operations(topic, rng, turn)])
        if turn == 2:
            broker.run("stop")
            start(broker)
    hold("two epochs on")
    broker.run("stop")
    for root in (tmp_path, copy):  # the copy is of the moment of the kill
        options = VerifyOptions(tier=str(root / "remote"))
        found = [one for one in verify([str(root / "data")], options) if isinstance(one, Finding)]
        assert not [one for one in found if one.severity is Severity.DAMAGE]
    tiered = {
        one.topic: one.tiered
        for one in info([data], InfoOptions())
        if isinstance(one, TopicSummary)
    }
    assert all(tiered[topic] == (kind_of(topic) != "compacted") for topic in TOPICS)
    # Retention has done what it has to.
    assert not [
        (one.topic, one.segment, one.rule)
        for one in why([data], WhyOptions(now_ms=int(time.time() * 1000)))
        if isinstance(one, SegmentFate) and one.verdict == "deletable" and one.topic in TOPICS
    ]
    assert sum(counts) > 100 * len(TOPICS)
    assert not wrongs
