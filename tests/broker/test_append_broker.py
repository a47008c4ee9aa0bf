"""Random sets sent to running brokers: what they answer, and what then lies in their logs."""

import json
import random
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import produced_sets
import pytest
from broker_box import Broker
from long_runs import LONG, SEED, how_many
from produce_requests import Producer, ProduceResult

from kdump import kernels
from kdump.broker import versions as v
from kdump.broker.append_producers import KnownProducer, check_producers
from kdump.broker.append_set import CLOSES, ProducedSet, RefusedError, Topic
from kdump.broker.appending import Answer, StoredRun, append
from kdump.broker.settings import Settings
from kdump.broker.versions import Version, has

pytestmark = pytest.mark.broker
VERSIONS = ("0.10.2.2", "2.8.2", "4.1.1", "4.4.0") if LONG else ("2.8.2",)
COUNT = how_many(300, 2500)
TOPICS = 24
CLOCK_MS = 60_000  # how far the broker's may be from the test's
BROKEN_STREAM = ("UNKNOWN_SERVER_ERROR", "INVALID_RECORD")


def configs(rng: random.Random, version: Version) -> list[dict[str, str]]:
    """Draw the settings of topics that a release knows."""
    found = []
    for number in range(TOPICS):
        config = produced_sets.config(rng)
        if config["compression.type"] == "zstd" and not has(version, v.ZSTD):
            config["compression.type"] = "lz4"
        limits = ("difference",)
        if has(version, v.BEFORE_AND_AFTER):
            limits = ("before", "after")
        for limit in limits if number % 3 == 0 else ():
            config[f"message.timestamp.{limit}.max.ms"] = str(produced_sets.HOUR_MS)
        if has(version, v.BEFORE_AND_AFTER) and number % 3:
            config["message.timestamp.after.max.ms"] = str(2**63 - 1)
        if not has(version, v.FORMATS_FIXED) and number % 2:
            formats = ["0.9.0", "0.10.0"] + ["0.11.0"] * has(version, v.RECORD_BATCHES)
            config["message.format.version"] = rng.choice(formats)
        found.append(config)
    return found


def request_version(data: bytes, version: Version) -> int:
    if has(version, v.BATCHES_ONLY) or (data[16:17] == b"\2" and has(version, v.RECORD_BATCHES)):
        return 8
    return 2


class ExpectedTopic:
    """A topic as it should be: what it is told to hold."""

    def __init__(self, config: dict[str, str], version: Version) -> None:
        self.config, self.version = config, version
        self.end = 0
        self.known: dict[int, KnownProducer] = {}
        self.stored: list[tuple[StoredRun, bool]] = []

    def differs(self, data: bytes, told: ProduceResult) -> Any:
        """Take a set as the broker should have; return what differs from its answer."""
        settings = Settings().of_topic(self.config)
        topic = Topic.of(self.version, settings, produced_sets.NOW_MS, 1 << 26)
        sent, answer = ProducedSet(data, self.version), Answer(self.end)
        try:
            append(sent, topic, answer)
            if answer.entries and has(self.version, v.PRODUCER_STATE):
                check_producers(sent, answer, self.known, self.version, follower=False)
        except RefusedError as refused:
            either = "codec-failed" in refused.reason and told.error in BROKEN_STREAM
            closed = told.closed and CLOSES in refused.reason
            same = refused.error == told.error or closed or either
            return None if same else (refused.error, refused.reason)
        if told.error is not None:
            return answer.stored
        first = answer.duplicate_of[0] if answer.duplicate_of else self.end
        if answer.duplicate_of is None:
            self.end = answer.next_offset
            self.stored += [(one, answer.rewritten) for one in answer.stored]
        return None if first == told.offset or not answer.entries else first

    def on_disk(self, log: bytes) -> list[Any]:
        """Return the entries that are not in the log as they should be."""
        rows, _, _ = kernels.walk(log, 0, len(log), 0, -1, True, 1 << 20)
        at, different = 0, []
        for one, rewritten in self.stored:
            last, end = at + one.entries - 1, at + one.entries
            size = sum(rows.sizes[at:end])
            times = max(rows.max_timestamps[at:end])
            slack = 12 + size // 8 if rewritten and one.codec else 0
            same = (
                rows.last_offset(last) == one.last_offset
                and rows.magic(last) == one.magic
                and rows.attributes(last) & 7 == one.codec
                and bool(rows.attributes(last) & 8) == one.stamped
                and abs(times - one.max_timestamp_ms) <= (CLOCK_MS if one.stamped else 0)
                and abs(size - one.size_bytes) <= slack
            )
            kept_apart = one.codec and one.entries > 1  # 0.10 numbers the first of several only
            if not same and not kept_apart:
                different.append((one, rows.header(last), size))
            at = end
        return different


@pytest.mark.parametrize("version", VERSIONS)
def test_random_sets_get_the_answers_of_the_broker(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = tuple(map(int, version.split(".")))
    rng = random.Random(SEED)
    topics = {
        f"t{number}": ExpectedTopic(config, release)
        for number, config in enumerate(configs(rng, release))
    }
    broker = Broker(tmp_path / "data", version)
    broker.start()
    try:
        made = broker.ask(
            *(
                {"op": "create_topic", "topic": name, "configs": topic.config}
                | {"segmentBytes": 100_000_000}
                for name, topic in topics.items()
            )
        )
        assert all(one["ok"] for one in made), made
        state = json.loads((tmp_path / "data.broker" / "state.json").read_text())
        producer, different, answers = Producer(state["port"]), [], defaultdict(int)
        for number in range(COUNT):
            rng = random.Random(SEED * 1_000_003 + number)
            monkeypatch.setattr(produced_sets, "NOW_MS", int(time.time() * 1000))
            data, name = produced_sets.draw_record_set(rng), rng.choice(sorted(topics))
            told = producer.send(name, data, request_version(data, release))
            answers[told.error] += 1
            if differs := topics[name].differs(data, told):
                different.append((number, topics.pop(name).config, differs, told, data.hex()))
        producer.close()
        assert not different
        assert answers[None] > COUNT // 10
        for name, topic in topics.items():
            (log,) = (tmp_path / "data" / f"{name}-0").glob("*.log")
            assert not topic.on_disk(log.read_bytes()), name
    finally:
        broker.run("kill")
