"""`dump --visible` against what the consumers of old brokers, 0.7 to 2.8, were handed."""

import json
import lzma
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from corpus import corpus, find_expected
from dumped import Json, first_difference, run_dump
from each import each

SETS = ("v07-072", "v0-0822", "v0-0901", "v1-01022", "mixed-282")

# Partitions that took wrong produce requests after the consumers were asked.
BAD = ("bad-0", "badc-0", "badkey-0")


@cache
def answers(name: str) -> Any:
    return json.loads(
        lzma.decompress(find_expected(f"old/{name}.clean.answers.json.xz").read_bytes())
    )


@cache
def read_consumed(name: str) -> dict[str, list[Json]]:
    """What the consumer got, by partition."""
    packed = find_expected(f"old/{name}.clean.records.jsonl.xz").read_bytes()
    found = defaultdict(list)
    for line in lzma.decompress(packed).splitlines():
        record = json.loads(line)
        found[record.pop("partition")].append(record)
    return found


def as_consumed(row: Json, members: set[str]) -> Json:
    """Write a `record` row as the recorded consumer wrote the same record."""
    ours = {
        "offset": row["offset"],
        "key": row["key"],
        "value": row["value"],
        "magic": row["magic"],
        "next_offset": row.get("next_offset"),
        # These consumers say -1 and NoTimestampType of magic 0, where kdump has null.
        "ts": -1 if row["timestamp_ms"] is None else row["timestamp_ms"],
        "tstype": row["timestamp_type"] or "NoTimestampType",
    }
    return {name: value for name, value in ours.items() if name in members}


def compare_rows(rows: list[Json], theirs: list[Json]) -> str:
    """Say where the rows differ from a consumer's records, in all that these have."""
    # Where the 0.7 consumer asked, and what the 0.8 consumer thought of the checksum, are no
    # members of a row.
    aside = {"fetched_at", "crc_ok"}
    theirs = [
        {name: value for name, value in record.items() if name not in aside} for record in theirs
    ]
    members = set().union(*theirs) if theirs else {"offset"}
    return first_difference([as_consumed(row, members) for row in rows], theirs)


def partitions(name: str) -> list[Path]:
    return sorted(
        path for path in (corpus(f"old/{name}.clean") / "data").iterdir() if path.is_dir()
    )


@each("name", SETS)
def test_every_partition_equals_the_consumer(name: str) -> None:
    theirs = read_consumed(name)
    paths = [path for path in partitions(name) if name == "v07-072" or path.name not in BAD]
    assert theirs.keys() <= {path.name for path in paths}
    differences = {}
    for path in paths:
        rows, found = run_dump(path, visible=True)
        told = compare_rows(rows, theirs.get(path.name, []))
        if told or found:
            differences[path.name] = (told, [one.code for one in found])
    assert differences == {}
    assert sum(map(len, theirs.values())) > 2000


@pytest.mark.parametrize("name", ["v0-0822", "v0-0901", "v1-01022"])
def test_records_of_wrong_produce_requests(name: str) -> None:
    """Equal in every member the consumers have, but for `badkey`.

    There the one message's key size runs past its end; the consumers raised, and so there is no
    record to compare, only our finding. A wrapper inside a wrapper is shown as 0.9's consumer
    handed it out, as if its compressed bytes were a value, with a finding (F16).
    """
    given = answers(name)["records_after_bad_appends"]
    assert set(given) == set(BAD)
    nested = {8, 12} if name == "v0-0901" else set()
    for partition, theirs in given.items():
        rows, found = run_dump(corpus(f"old/{name}.clean") / "data" / partition)
        if partition == "badkey-0":
            assert [set(record) for record in theirs] == [{"exception", "position"}]
            assert [(one.code, one.actual) for one in found] == [
                ("records-undecodable", "key-length")
            ]
            assert rows == []
            continue
        if nested and partition == "bad-0":
            wrong = [one for one in found if one.actual == "inner-compressed"]
            assert {one.offset for one in wrong} == nested
        assert compare_rows(rows, theirs) == ""


@pytest.mark.parametrize("name", ["v0-0822", "v0-0901"])
def test_inner_checksums_are_checked_as_by_the_consumer(name: str) -> None:
    theirs = answers(name)["records_after_bad_appends"]["bad-0"]
    wrong = [record["offset"] for record in theirs if not record["crc_ok"]]
    _, found = run_dump(corpus(f"old/{name}.clean") / "data" / "bad-0")
    assert [one.offset for one in found if one.code == "inner-crc-mismatch"] == wrong


@pytest.mark.parametrize("name", ["v0-0822", "v0-0901"])
def test_any_magic_over_the_oldest_layout_is_decoded(name: str) -> None:
    rows, found = run_dump(corpus(f"old/{name}.clean") / "data" / "bad-0")
    assert Counter(row["magic"] for row in rows) == {0: len(rows) - 2, 2: 1, 5: 1}
    assert [one.actual for one in found if one.code == "magic-unknown"] == [2, 5]
