"""Remote segments in `why`, on a real broker's directories: what it deletes, and what is wasted."""

import json
from pathlib import Path
from typing import Any

import pytest
from corpus import find_expected, find_shared
from each import each
from sample_tier import DATA, journal_of
from tiered import MOMENTS, moment, plant_faults, truth

from kdump.broker.remote_log import DELETE_FINISHED, DELETE_STARTED, RemoteLog
from kdump.broker.retention import LogFacts
from kdump.broker.settings import Settings, read_topic_config
from kdump.engine.reading.remote_partitions import RemotePartition, remote_partitions
from kdump.engine.why.fates import NOT_DELETED
from kdump.engine.why.options import WhyOptions
from kdump.engine.why.remote import JudgingContext, remote_rows
from kdump.engine.why.run import why
from kdump.replay.topic_settings import topic_settings
from kdump.rows.why import RemoteFate, SegmentFate, TierSpace
from kdump.storage.checkpoints import EpochStart
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


# A partition of the sample ----------------------------------------------------------------------

FIRST, SECOND, LATER = "LXGfoUMfSiGlJUQipWny_g", "85NjXc6ZTs25aW7Ef3Kdwg", "8RWCiP6yQWiex9qYw8ZXNA"
NOW_MS, DAY_MS = 1_790_000_100_000, 86_400_000
FOR_EVER = {"retention.ms": "-1", "retention.bytes": "-1"}


def of_journal(folder: Path) -> RemotePartition:
    tier = str(journal_of(folder))
    settings, selection = topic_settings(None, [DATA], tier=tier), Selection(topic="journal")
    (one,) = remote_partitions([DATA], selection, settings, settings.tiers.objects)
    assert isinstance(one, RemotePartition)
    return one


def fates(
    of: RemotePartition, config: dict[str, str], log_end: int = 600
) -> dict[str, tuple[str, str]]:
    """Give the verdict and the words on each segment, in a log that begins at 0."""
    by = JudgingContext(LogFacts((), 0, log_end), Settings().of_topic(config), (4, 1), NOW_MS)
    rows = remote(list(remote_rows(of, by)))
    return {one: (row.verdict, row.text) for one, row in rows.items()}


def end_segment(of: RemotePartition, *states: int) -> RemotePartition:
    assert of.log is not None
    for state in states:
        of.log.update(SECOND, state, 1)
    return of


@each(
    ("config", "words"),
    [
        ({}, ("kept", "kept until 2026-09-28 14:21 by retention.ms=7d")),
        (FOR_EVER, (NOT_DELETED, "kept: retention.ms and retention.bytes are -1")),
        (
            FOR_EVER | {"retention.bytes": "99999999"},
            ("kept", "kept until more is written: retention.bytes=99,999,999"),
        ),
    ],
)
def test_segment_is_kept_by_a_setting(
    config: dict[str, str], words: tuple[str, str], tmp_path: Path
) -> None:
    assert fates(of_journal(tmp_path), config)[LATER] == words


def test_unfinished_segments_are_kept_for_ever(tmp_path: Path) -> None:
    of = of_journal(tmp_path)
    assert of.log is not None
    of.log.segments[LATER] = of.log.segments[LATER]._replace(state=0)
    words = "unfinished upload: it is running, or was interrupted; no broker deletes it"
    verdict, text = fates(of, FOR_EVER)[LATER]
    assert (verdict, text.partition(": retention")[0]) == ("unfinished", words)


def test_segment_of_a_diverged_log_is_kept(tmp_path: Path) -> None:
    of = of_journal(tmp_path)
    assert of.log is not None
    of.log.segments["again"] = of.log.segments[LATER]._replace(
        segment_id="again", leader_epochs=(EpochStart(5, 260),)
    )
    words = "belongs to a diverged log, by its leader epochs: kept until the log starts above it"
    assert fates(of, FOR_EVER)["again"] == ("unreferenced", words)


def test_segment_that_ends_in_a_diverged_log_is_kept_for_its_beginning(tmp_path: Path) -> None:
    words = "kept for its first records; the others belong to a diverged log, until the log starts"
    verdict, text = fates(of_journal(tmp_path), FOR_EVER, log_end=300)[LATER]
    assert (verdict, text) == ("kept", f"{words} above it")


def test_deleted_segment_whose_objects_exist_is_wasted(tmp_path: Path) -> None:
    of = of_journal(tmp_path)._replace(tier=None, tiered=False)
    end_segment(of, DELETE_STARTED, DELETE_FINISHED)
    words = "deleted in the metadata, but its objects still exist; no broker looks for them"
    assert fates(of, FOR_EVER)[SECOND] == ("orphan", words)


def test_objects_without_a_record_are_wasted_if_all_metadata_is_here(tmp_path: Path) -> None:
    of = of_journal(tmp_path)._replace(log=RemoteLog(), tier=None)
    assert fates(of._replace(complete=True), FOR_EVER)[SECOND] == (
        "orphan", "in no metadata record: no broker reads or deletes it",
    )  # fmt: skip
    assert fates(of._replace(complete=False), FOR_EVER)[SECOND] == (
        "kept", "unknown: the metadata is not here, or is incomplete",
    )  # fmt: skip


def test_only_copy_in_a_gap_is_not_wasted(tmp_path: Path) -> None:
    of = end_segment(of_journal(tmp_path), DELETE_STARTED, DELETE_FINISHED)
    assert fates(of, FOR_EVER)[SECOND][0] == "gap"


def test_metadata_that_cannot_be_read_keeps_all(tmp_path: Path) -> None:
    of = of_journal(tmp_path)
    assert of.log is not None
    of.log.problem = "it is damaged"
    words = "kept: brokers cannot read the metadata of remote segments: it is damaged"
    assert set(fates(of, FOR_EVER).values()) == {("kept", words)}
