"""Lookups and reads of tiered topics against all that their broker, Kafka 4.1.1, answered.

Two answers are not on disk: a broker that starts raises the leader epoch, and with uploads delayed
by ten minutes it does not know the last tiered offset.
"""

import json
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from commands import run
from corpus import find_expected, find_shared
from tiered import (
    MOMENTS,
    Runs,
    add,
    answers,
    broker_on_faults,
    moment,
    plant_faults,
    read_consumed_offsets,
)

from kdump.broker.list_offsets import list_offsets
from kdump.broker.lookup_records import BrokerError
from kdump.broker.partition import PartitionView
from kdump.engine.dump.run import dump
from kdump.engine.find.options import FindOptions
from kdump.engine.reading.options import DumpOptions
from kdump.errors import KdumpError
from kdump.findings.finding import Finding
from kdump.findings.rows import RecordChunk
from kdump.replay.topic_settings import topic_settings
from kdump.storage.targets import Selection, resolve

SPECIAL = {
    "earliest": -2,
    "latest": -1,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
}
ISOLATIONS = ("read_uncommitted", "read_committed")


def views(data: str, tier: str | None, isolation: str) -> Any:
    settings = topic_settings(None, [data], tier=tier)
    options = FindOptions(isolation=isolation, settings=settings)
    for target in resolve([data], Selection()):
        assert not isinstance(target, KdumpError)
        with closing(options.view(settings.with_tier(target))) as view:
            yield (target.topic, target.partition), view


def ask(view: PartitionView, target: int) -> list[int | None] | str:
    try:
        found = list_offsets(view, target)
    except BrokerError as error:
        return type(error).__name__
    return [found.offset, found.timestamp_ms, found.leader_epoch]


def visible(data: str, tier: str | None, isolation: str, topic: str | None = None) -> Any:
    """Give the runs of offsets that --visible shows, by partition, and the codes of findings."""
    options = DumpOptions(
        visible=True, isolation=isolation, tier=tier, selection=Selection(topic=topic)
    )
    found: dict[tuple[str | None, int | None], Runs] = defaultdict(list)
    codes = []
    for item in dump([data], options):
        if isinstance(item, RecordChunk):
            rows = range(item.records.count) if item.rows is None else item.rows
            for row in rows:
                add(found[item.place.topic, item.place.partition], item.records.offset(row))
        elif isinstance(item, Finding):
            codes.append(item.code)
    return found, codes


@pytest.mark.parametrize("name", MOMENTS)
def test_every_recorded_answer_is_reproduced(name: str) -> None:
    data, tier = moment(name)
    recorded = {(one["topic"], one["partition"]): one for one in answers(name)}
    asked = remote = 0
    for isolation in ISOLATIONS:
        for place, view in views(data, tier, isolation):
            if place not in recorded:
                continue
            wanted = {SPECIAL[word]: one for word, one in recorded[place][isolation].items()}
            if isolation == "read_uncommitted":
                wanted |= dict(recorded[place].get("times", []))
            for target, theirs in wanted.items():
                assert ask(view, target) == theirs, (place, target)
                asked += 1
        for place, view in views(data, None, isolation):
            for target, theirs in recorded.get(place, {}).get("times", []):
                ours = ask(view, target)
                assert ours in (theirs, "RemoteOnlyError"), (place, target)
                remote += ours == "RemoteOnlyError"
    assert asked > 1300
    assert remote > 500


@pytest.mark.parametrize("name", MOMENTS)
def test_consumed_records_are_visible(name: str) -> None:
    data, tier = moment(name)
    received = read_consumed_offsets(name)
    for isolation in ISOLATIONS:
        found, codes = visible(data, tier, isolation)
        assert set(codes) <= {"high-watermark-unknown", "read-committed-stops"}
        for one in answers(name):
            place = one["topic"], one["partition"]
            if "consumed" not in one:
                continue
            theirs = one["consumed"]["read_committed"].get("offsets", [])
            assert found[place] == (theirs if isolation == "read_committed" else received[place])
    for place, view in views(data, tier, "read_uncommitted"):
        for first, last in received.get(place, []):
            for offset in (first, (first + last) // 2, last):
                batch = view.fetch(offset)
                assert batch is not None
                record = view.record_at(batch, offset)
                assert record is not None
                assert record[0] == offset


@pytest.mark.parametrize("name", MOMENTS)
def test_missing_remote_records_are_reported(name: str) -> None:
    data, _ = moment(name)
    _, codes = visible(data, None, "read_uncommitted", "orders")
    assert codes == ["remote-not-given"]


def rows(*words: str) -> list[dict[str, Any]]:
    result = run(*words, "--format", "jsonl")
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("name", MOMENTS)
def test_info_and_predict_match_the_broker(name: str) -> None:
    """Which topics are tiered, what partitions take here, and where each log ends after a start."""
    data, _ = moment(name)
    configs, sizes = (
        json.loads(find_expected(f"tiered/{name}/{file}").read_text())
        for file in ("configs.json", "log-dirs.json")
    )
    (sizes,) = sizes.values()
    found = rows("info", "--partitions", data)
    tiered = {one["topic"]: one["tiered"] for one in found if one["row"] == "topic-summary"}
    for topic, config in configs.items():
        if topic in tiered:
            assert tiered[topic] == (config.get("remote.storage.enable") == "true"), topic
    held = {
        f"{one['topic']}-{one['partition']}": one["size_bytes"]
        for one in found
        if one["row"] == "partition-summary" and not one["topic"].startswith("__")
    }
    assert len(held) > 10
    assert held == {place: one["size"] for place, one in sizes.items() if place in held}
    ends = {
        (one["topic"], one["partition"]): one["log_end_after"]
        for one in rows("predict", data)
        if one["row"] == "recovery" and not one["topic"].startswith("__")
    }
    latest = {
        (one["topic"], one["partition"]): one["read_uncommitted"]["latest"][0]
        for one in answers(name)
    }
    assert ends == {place: latest[place] for place in ends}


def faults() -> list[dict[str, Any]]:
    return list(broker_on_faults()) if find_shared() is not None else []


@pytest.mark.parametrize("recorded", faults(), ids=lambda one: one["fault"])
def test_recorded_broker_on_each_fault_is_reproduced(
    recorded: dict[str, Any], tmp_path: Path
) -> None:
    cached = recorded["index_cache"]
    data, tier = plant_faults(recorded["fault"], tmp_path / "planted", index_cache=cached)
    theirs = {(one["topic"], one["partition"]): one for one in recorded["answers"]}
    for isolation in ISOLATIONS:
        for place, view in views(data, tier, isolation):
            if place not in theirs:
                continue
            special = theirs[place][isolation]
            assert ask(view, SPECIAL["max-timestamp"]) == special["max-timestamp"]
            for word in ("earliest", "latest", "earliest-local"):
                assert ask(view, SPECIAL[word])[:2] == special[word][:2]
            for target, answer in theirs[place].get("times", []):
                ours = ask(view, target)
                assert ours == answer or (isinstance(answer, dict) and ours == "BrokerError")
            if place[0] is None or isolation != "read_committed":
                continue
            consumed = theirs[place]["consumed"]["read_committed"]
            found, _ = visible(data, tier, isolation, place[0])
            if "error" not in consumed:
                assert found[place] == consumed["offsets"]
                continue
            # A dump goes on behind what stops a consumer; a seek to that offset fails as theirs.
            shown = len(consumed["offsets"])
            assert [one[0] for one in found[place][:shown]] == [
                one[0] for one in consumed["offsets"]
            ]
            if "OffsetOutOfRange" in consumed["error"] and consumed["count"]:
                with pytest.raises(BrokerError, match="OUT_OF_RANGE"):
                    view.fetch(consumed["last"] + 1)
