"""Remote segments in `why`, on a real broker's directories: what it deletes, and what is wasted."""

import json
from pathlib import Path
from typing import Any

import pytest
from corpus import find_expected, find_shared
from tiered import MOMENTS, moment, plant_faults, truth

from kdump.broker.settings import read_topic_config
from kdump.engine.why.options import WhyOptions
from kdump.engine.why.run import why
from kdump.rows.why import RemoteFate, SegmentFate, TierSpace
from kdump.storage.targets import Selection


def judged(data: str, tier: str | None, now: str, *configs: str, **more: Any) -> list[Any]:
    """Give the rows as of the end of a recording, by the broker's own settings."""
    times = map(json.loads, find_expected("tiered/moments.jsonl").read_text().splitlines())
    options = WhyOptions(
        now_ms=next(one["end_ms"] for one in times if one["moment"] == now),
        server_properties=str(find_expected("tiered/server.properties.txt")),
        configs=tuple(map(read_topic_config, configs)),
        tier=tier,
        **more,
    )
    return list(why([data], options))


def remote(rows: list[Any]) -> dict[str, RemoteFate]:
    return {row.segment_id: row for row in rows if isinstance(row, RemoteFate)}


@pytest.mark.parametrize("name", MOMENTS)
def test_idle_broker_has_nothing_left_to_delete(name: str) -> None:
    data, tier = moment(name)
    rows = judged(data, tier, name)
    found = remote(rows)
    assert not [one for one in found.values() if one.verdict == "deletable"]
    assert not [
        one for one in rows
        if isinstance(one, SegmentFate) and one.verdict == "deletable"
        and not str(one.topic).startswith("__")
    ]  # fmt: skip
    wasted = [
        (one.topic, one.verdict)
        for one in found.values()
        if one.verdict in ("unfinished", "orphan")
    ]
    half = [("invoices", "unfinished")]
    assert sorted(wasted) == ([] if name == "first" else half + 5 * [("stubborn", "orphan")])
    listed = find_expected(f"tiered/{name}/files.tsv").read_text().splitlines()
    in_bucket = sum(int(line.split("\t")[0]) for line in listed if "\tremote/kafka-tiered" in line)
    sums = [one for one in rows if isinstance(one, TierSpace)]
    assert sum(one.object_bytes or 0 for one in sums) == in_bucket
    assert sum(one.wasted_bytes for one in sums) == (0 if name == "first" else 4726 + 51586)
    bare = remote(judged(data, None, name))
    assert {one: (row.verdict, row.rule) for one, row in bare.items()} == {
        one: (row.verdict, row.rule) for one, row in found.items()
    }


def test_next_deletion_of_a_broker() -> None:
    """What limits that were set later delete, in directories of before."""
    if MOMENTS == ["none"]:
        moment("first")
    for before, after, limits, all_of in (
        ("first", "killed", ("daily:retention.ms=432000000", "capped:retention.bytes=60000"), True),
        # More was written in between, so by size more went.
        ("live", "last", ("capped:retention.bytes=36000", "jumbled:retention.bytes=48000"), False),
    ):
        topics = {one.partition(":")[0] for one in limits}
        now = remote(judged(*moment(before), before))
        left = remote(judged(*moment(after), after))
        gone = {one for one, row in now.items() if row.topic in topics and one not in left}
        rows = judged(*moment(before), after, *limits)
        found = {one for one, row in remote(rows).items() if row.verdict == "deletable"}
        assert len(found) >= 10
        assert found == gone if all_of else found < gone


@pytest.mark.parametrize(
    ("fault", "verdict"),
    [("f09", "orphan"), ("f10", "orphan"), ("f13", "gap"), ("f14", "gap"), ("f15", "kept")]
    if find_shared() is not None
    else [],
)
def test_wasted_and_apparently_wasted_segments(fault: str, verdict: str, tmp_path: Path) -> None:
    told = truth()[fault]
    data, tier = plant_faults(fault, tmp_path / "planted")
    found = remote(judged(data, tier, "last", selection=Selection(topic=told["topic"])))
    row = found[told["segment_id"]]
    assert (row.verdict, row.start_offset) == (verdict, told["start_offset"])
    objects = list(Path(tier).rglob(f"*-{told['segment_id']}.*"))
    assert row.object_bytes == sum(one.stat().st_size for one in objects) > 0
    others = {row.verdict for one, row in found.items() if one != told["segment_id"]}
    assert others <= {"kept", "not-deleted-by-policy"}
