"""Lookups on real data directories against what their broker, Kafka 4.1.1, answered.

The broker was asked before it was stopped, killed or copied. One answer is not on disk: the latest
leader epoch of a partition that was moved while it ran, and what was asked of `recovered` about
the offsets topic, which the broker went on writing to. A broker that starts on `killed` would
raise the epochs that it was asked for.
"""

import gzip
import json
from collections import Counter
from contextlib import closing
from typing import Any

import pytest
from corpus import find_expected, names
from lookups import ask_list_offsets, modern, partitions

from kdump.broker.lookup_records import BrokerError
from kdump.broker.partition import PartitionView

STATES = [name.rpartition("/")[2] for name in names("modern/data")] or ["none"]
ISOLATIONS = ("read_uncommitted", "read_committed")
SPECIAL = {"earliest": -2, "latest": -1, "max_timestamp": -3}
EXTRA = {"earliest_local": -4, "latest_tiered": -5}
IN_MEMORY = {
    ("clean", "moving.topic-0", "latest"),
    ("live", "moving.topic-0", "latest"),
}


def read_recorded(state: str, name: str) -> dict[str, Any]:
    path = find_expected(f"modern/{state}/{name}")
    data = path.read_bytes()
    answers: dict[str, Any] = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    return answers


def views(state: str, isolation: str, answers: dict[str, Any]) -> Any:
    """Give each partition that was asked about, but for what the broker wrote afterwards."""
    data = modern(state)
    for name, target in partitions(data / "d1", data / "d2"):
        if name not in answers or (state == "recovered" and name.startswith("__consumer_offsets")):
            continue
        with closing(PartitionView(target, isolation=isolation)) as view:
            yield name, view


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("state", STATES)
def test_special_offsets_match_the_broker(state: str, isolation: str) -> None:
    answers = read_recorded(state, "offsets.json")
    asked: Counter[str] = Counter()
    committed = isolation == "read_committed"
    for partition, view in views(state, isolation, answers):
        for name, target in {**SPECIAL, **EXTRA}.items():
            key = f"{name}_rc" if committed and name in ("latest", "max_timestamp") else name
            theirs = answers[partition].get(key)
            if not isinstance(theirs, dict):
                continue
            wanted = [theirs["offset"], theirs["timestamp"], theirs.get("leader_epoch")]
            ours = ask_list_offsets(view, target)
            if (state, partition, name) in IN_MEMORY:
                assert ours[:2] == wanted[:2]
                continue
            assert ours == wanted, (partition, name)
            asked[name] += 1
    assert asked["latest"] > 30


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("state", STATES)
def test_offsets_for_times_match_the_broker(state: str, isolation: str) -> None:
    answers = read_recorded(state, "offsets_for_times.json.gz")
    asked = 0
    for partition, view in views(state, isolation, answers):
        for time, *theirs in answers[partition][isolation]:
            assert ask_list_offsets(view, time) == theirs[:3], (partition, time)
            asked += 1
    assert asked > 2000


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("state", STATES)
def test_first_record_after_a_seek_matches_the_consumer(state: str, isolation: str) -> None:
    answers = read_recorded(state, "seeks.json.gz")
    asked = 0
    for partition, view in views(state, isolation, answers):
        for offset, *theirs in answers[partition][isolation]:
            assert sought(view, offset) == theirs, (partition, offset)
            asked += 1
    assert asked > 1000


def sought(view: PartitionView, offset: int) -> list[Any]:
    try:
        found = view.fetch(offset)
    except BrokerError:
        return ["OUT_OF_RANGE"]
    record = view.record_at(found, offset) if found else None
    return list(record) if record else ["NONE"]
