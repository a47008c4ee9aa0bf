"""Lookups on data directories of old brokers against what those brokers answered.

ListOffsets 0 and 1, and the first entry that a fetch returned. Not comparable: error 43, which
hangs on the topic's configured format and is no part of the log; answers of version 0 for times
after the newest file, which name the time of asking; topics that were written to afterwards.
"""

import hashlib
import json
import lzma
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from corpus import find_expected, names
from lookups import ask_list_offsets, copy_of, partitions

from kdump.broker.fetching import fetch, pieces
from kdump.broker.list_offsets import list_offsets_v0
from kdump.broker.lookup_records import BrokerError
from kdump.broker.partition import FetchStart, PartitionView
from kdump.broker.versions import Version
from kdump.engine.find.fetch import fetch_items
from kdump.engine.find.options import FindOptions
from kdump.rows.find import Fetch

SETS = [
    name.rpartition("/")[2]
    for name in names("old")
    if "v07-" not in name and name.endswith((".clean", ".after"))
] or ["none"]
WRITTEN_AFTERWARDS = ("bad-", "badc-", "badkey-")
FORMAT_TOO_OLD = 43
PRE08 = [
    name.rpartition("/")[2]
    for name in names("old")
    if "v07-" in name and name.endswith((".clean", ".after"))
] or ["none"]
ZSTD = 4
WHOLE_FIRST = 3  # the first version of the request that returns the first entry whole
Json = dict[str, Any]


def read_recorded(name: str) -> Json:
    answers: Json = json.loads(
        lzma.decompress(find_expected(f"old/{name}.answers.json.xz").read_bytes())
    )
    return answers


def version_of(text: str) -> Version:
    return tuple(int(part) for part in text.split("."))


def views(name: str) -> Any:
    answers = read_recorded(name)
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
def test_offsets_by_file_time_match_the_broker(name: str) -> None:
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
def test_offsets_by_record_time_match_the_broker(name: str) -> None:
    differences = []
    asked: Counter[int] = Counter()
    for partition, view, answers in views(name):
        assert ask_list_offsets(view, -1)[0] == answers["latest"]["offsets"][0], partition
        assert ask_list_offsets(view, -2)[0] == answers["earliest"]["offsets"][0], partition
        for one in answers.get("list_offsets_v1", []):
            asked[one["error"]] += 1
            if one["error"] == FORMAT_TOO_OLD:
                continue
            ours = ask_list_offsets(view, one["time"])
            if ours[:2] != [one["offset"], one["timestamp"]]:
                differences.append((partition, one, ours))
    assert differences == []
    assert asked.keys() <= {0, FORMAT_TOO_OLD}


@pytest.mark.parametrize("name", SETS)
def test_first_entry_of_a_fetch_matches_the_broker(name: str) -> None:
    differences = []
    asked: Counter[str] = Counter()
    for partition, view, answers in views(name):
        for one in answers["fetch"]:
            try:
                found = view.fetch(one["target"])
            except BrokerError:
                asked["error"] += 1
                if not one["error"]:
                    differences.append((partition, one, "error"))
                continue
            if found is None or not one["bytes"]:
                asked["nothing"] += 1
                if found or one["bytes"] or one["error"]:
                    differences.append((partition, one, found))
                continue
            asked["found"] += 1
            if not same_entry(view, found, one):
                differences.append((partition, one, found))
    assert differences == []
    assert asked["found"] > 200
    assert asked["error"] > 10
    assert asked["nothing"] > 10


def same_entry(view: PartitionView, found: FetchStart, one: Json) -> bool:
    """Whether the bytes handed out start there, and hold that first entry and record."""
    if one["error"]:
        return False
    log = next(item.path for item in view.segments if item.base_offset == found.segment)
    handed_out = Path(log).read_bytes()[found.position :][: one["bytes"]]
    if hashlib.sha256(handed_out).hexdigest() != one["sha256"]:
        return False
    first = one.get("first_shallow")
    if not first:
        return True  # the index led into the middle of an entry
    offset = found.last_offset if found.base_offset is None else found.base_offset
    if (first["offset"], first["size"] + 12) != (offset, found.size_bytes):
        return False
    if "deep_error" in one or first["attributes"] & 7 == ZSTD:
        return True  # the recorder could not read it
    try:
        record = view.record_at(found, one["target"])
    except BrokerError:
        return True  # damage inside, of which the recorder read less or more
    return record is not None and record[0] == one["first_deep_at_or_after"]


@pytest.mark.parametrize("name", PRE08)
def test_bytes_of_a_fetch_of_0_7_match_the_broker(name: str) -> None:
    answers = read_recorded(name)["answers"]
    differences = []
    asked: Counter[str] = Counter()
    for partition, target in partitions(copy_of(f"old/{name}") / "data"):
        for one in answers.get(partition, {"fetch": ()})["fetch"]:
            options = FindOptions(max_bytes=2048)
            (row,) = fetch_items(target, one["target"], options)
            assert isinstance(row, Fetch)
            if one["error"]:
                asked["error"] += 1
                same = row.error is not None
            else:
                asked["bytes" if one["bytes"] else "nothing"] += 1
                same = row.size_bytes == one["bytes"]
                same &= not one["bytes"] or row.sha256 == one["sha256"]
            if not same:
                differences.append((partition, one, row))
    assert differences == []
    assert asked["bytes"] > 100
    assert asked["error"] > 5


def test_archives_keep_file_times_finer_than_seconds(tmp_path: Path) -> None:
    if SETS == ["none"]:
        pytest.skip("no corpora")
    times = {path.stat().st_mtime_ns for path in copy_of(f"old/{SETS[0]}").rglob("*.log")}
    assert any(time % 1_000_000_000 for time in times)


@pytest.mark.parametrize("name", SETS)
def test_bytes_of_a_fetch_match_the_broker(name: str) -> None:
    differences = []
    asked: Counter[str] = Counter()
    for partition, view, answers in views(name):
        for one in answers["fetch"]:
            whole_first = one["fetch_version"] >= WHOLE_FIRST
            try:
                fetched = fetch(view, one["target"], 4096, whole_first=whole_first)
                data = b"".join(pieces(view, fetched))
            except BrokerError:
                asked["error"] += 1
                if not one["error"]:
                    differences.append((partition, one, "error"))
                continue
            asked["bytes" if data else "nothing"] += 1
            sha256 = hashlib.sha256(data).hexdigest() if data else one["sha256"]
            if len(data) != one["bytes"] or sha256 != one["sha256"] or one["error"]:
                differences.append((partition, one, fetched))
    assert differences == []
    assert asked["bytes"] > 200
    assert asked["error"] > 10
    assert asked["nothing"] > 10
