"""Lookups on data directories of old brokers against what those brokers answered.

ListOffsets 0 and 1, and the first entry that a fetch returned. Not comparable: error 43, which
hangs on the topic's configured format and is no part of the log; answers of version 0 for times
after the newest file, which name the time of asking; topics that were written to afterwards.
"""

import json
import lzma
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from corpus import expected, names
from lookups import answered, copy_of, partitions

from kdump.engine.lookup import BrokerError, PartitionView, Version
from kdump.engine.time_lookup import list_offsets_v0

SETS = [
    name.rpartition("/")[2]
    for name in names("old")
    if "v07-" not in name and name.endswith((".clean", ".after"))
] or ["none"]
WRITTEN_AFTERWARDS = ("bad-", "badc-", "badkey-")
FORMAT_TOO_OLD = 43
OUT_OF_RANGE = 1
Json = dict[str, Any]


def recorded(name: str) -> Json:
    answers: Json = json.loads(
        lzma.decompress(expected(f"old/{name}.answers.json.xz").read_bytes())
    )
    return answers


def version_of(text: str) -> Version:
    return tuple(int(part) for part in text.split("."))


def views(name: str) -> Any:
    answers = recorded(name)
    broker = version_of(answers["version"])
    for partition, target in partitions(copy_of(f"old/{name}") / "data"):
        if partition in answers["answers"] and not partition.startswith(WRITTEN_AFTERWARDS):
            with closing(PartitionView(target, broker=broker)) as view:
                yield partition, view, answers["answers"][partition]


def newest_ms(answers: Json) -> int:
    """The newest log's time while the broker was asked."""
    logs = (file for name, file in answers["segments"].items() if name.endswith(".log"))
    return max((file["mtime_ms"] for file in logs), default=0)


@pytest.mark.parametrize("name", SETS)
def test_offsets_by_file_time(name: str) -> None:
    differences = []
    asked = 0
    for partition, view, answers in views(name):
        for one in answers["list_offsets_v0"]:
            if one["time"] > newest_ms(answers) or one["error"]:
                continue
            asked += 1
            ours = list_offsets_v0(view, one["time"], one["max_num_offsets"])
            if ours != one["offsets"]:
                differences.append((partition, one, ours))
    assert differences == []
    assert asked > 300


@pytest.mark.parametrize("name", SETS)
def test_offsets_by_record_time(name: str) -> None:
    differences = []
    asked: Counter[int] = Counter()
    for partition, view, answers in views(name):
        assert answered(view, -1)[0] == answers["latest"]["offsets"][0], partition
        assert answered(view, -2)[0] == answers["earliest"]["offsets"][0], partition
        for one in answers.get("list_offsets_v1", []):
            asked[one["error"]] += 1
            if one["error"] == FORMAT_TOO_OLD:
                continue
            ours = answered(view, one["time"])
            if ours[:2] != [one["offset"], one["timestamp"]]:
                differences.append((partition, one, ours))
    assert differences == []
    assert asked.keys() <= {0, FORMAT_TOO_OLD}


@pytest.mark.parametrize("name", SETS)
def test_first_entry_of_a_fetch(name: str) -> None:
    differences = []
    asked = 0
    for partition, view, answers in views(name):
        for one in answers["fetch"]:
            asked += 1
            if (ours := fetched(view, one["target"])) != fetch_of(one):
                differences.append((partition, fetch_of(one), ours))
    assert differences == []
    assert asked > 200


def fetch_of(one: Json) -> Json:
    if one["error"]:
        return {"error": one["error"]}
    first = one.get("first_shallow")
    if not first:
        return {"first": None}
    return {
        "first": (first["offset"], first["size"]),
        "record": one["first_deep_at_or_after"],
    }


def fetched(view: PartitionView, offset: int) -> Json:
    """The first entry and record: v2 names an entry by its first offset, v0 and v1 its last."""
    try:
        found = view.fetch(offset)
    except BrokerError:
        return {"error": OUT_OF_RANGE}
    if found is None:
        return {"first": None}
    record = view.record_at(found, offset)
    named = found.last_offset if found.base_offset is None else found.base_offset
    return {"first": (named, found.size_bytes), "record": record and record[0]}


def test_archives_keep_file_times_finer_than_seconds(tmp_path: Path) -> None:
    if SETS == ["none"]:
        pytest.skip("no corpora")
    times = {path.stat().st_mtime_ns for path in copy_of(f"old/{SETS[0]}").rglob("*.log")}
    assert any(time % 1_000_000_000 for time in times)
