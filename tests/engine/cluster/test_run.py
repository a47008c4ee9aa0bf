"""What `cluster` shows of metadata logs: of real ones, damaged ones and those of hostile bytes."""

from __future__ import annotations

import io
import json
import random
import re
import shutil
import tracemalloc
from base64 import b64encode
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import damage
import metadata_log
import pytest
from corpus import corpus, find_expected
from each import each
from internal_topics import raw_records
from long_runs import LONG
from message_writing import message_bytes

from kdump.engine.cluster import run as cluster_run
from kdump.engine.cluster.options import ClusterOptions, to_until
from kdump.engine.cluster.run import cluster
from kdump.errors import KdumpError, PathError
from kdump.findings.escape import json_text
from kdump.findings.finding import Finding
from kdump.findings.rows import Row
from kdump.messages.table import message
from kdump.output.jsonl import JsonLines
from kdump.output.table import Table
from kdump.output.values import BYTES_MODES
from kdump.replay.cluster import Until, read_replay
from kdump.replay.cluster_facts import Moment, kind_of, subject_of
from kdump.replay.cluster_state import changes_between
from kdump.storage.targets import Selection

SAMPLES = Path(__file__).parents[3] / "sample-data" / "clean"
SAMPLE = SAMPLES / "4.1.1" / "d1"
METADATA = "__cluster_metadata-0"


def run_cluster(
    *paths: Path, topic: str | None = None, partition: int | None = None, **options: Any
) -> list[Row | Finding | KdumpError]:
    asked = ClusterOptions(selection=Selection(topic, partition), **options)
    return list(cluster(map(str, paths), asked))


def rows(*paths: Path, kind: str | None = None, **options: Any) -> list[dict[str, Any]]:
    found = run_cluster(*paths, **options)
    assert all(isinstance(one, Row) for one in found), found
    kept = [one for one in found if isinstance(one, Row) and kind in (None, one.row)]
    return [{"row": one.row} | one.fields for one in kept]


def findings(*paths: Path, **options: Any) -> list[Finding]:
    return [one for one in run_cluster(*paths, **options) if isinstance(one, Finding)]


def copied(tmp_path: Path) -> Path:
    """A data directory with the sample's metadata log."""
    directory = tmp_path / "d1"
    shutil.copytree(SAMPLE / METADATA, directory / METADATA)
    shutil.copy(SAMPLE / "meta.properties", directory)
    return directory


def make_directory(path: Path, values: Sequence[bytes]) -> Path:
    """A data directory whose metadata log holds records of these values."""
    directory = path / METADATA
    directory.mkdir(parents=True)
    (directory / f"{0:020}.log").write_bytes(metadata_log.log_of(values))
    return path


def test_sample_has_its_final_state() -> None:
    found = rows(SAMPLE)
    kinds = list(dict.fromkeys(one["row"] for one in found))
    assert kinds == [
        "feature",
        "broker",
        "controller",
        "topic",
        "partition",
        "config",
        "producer-ids",
        "cluster-summary",
    ]
    summary = found[-1]
    assert (summary["as_of_offset"], summary["complete"], summary["source"]) == (1141, True, "log")
    assert (summary["leader_id"], summary["leader_epoch"]) == (1, 3)
    topics = [one for one in found if one["row"] == "topic"]
    assert sum(one["deleted_ms"] is None for one in topics) == summary["topics_count"] == 32
    (deleted,) = (one for one in topics if one["deleted_ms"] is not None)
    assert (deleted["topic"], deleted["created_offset"]) == ("doomed-topic", 151)
    assert (deleted["deleted_ms"], deleted["deleted_offset"]) == (1795220057943, 885)
    (controller,) = (one for one in found if one["row"] == "controller")
    assert (controller["leader"], controller["leader_epoch"], controller["voter"]) == (
        True,
        3,
        True,
    )


def test_partition_directory_or_file_selects_the_log() -> None:
    whole = rows(SAMPLE)[:-1]
    directory = SAMPLE / METADATA
    assert rows(directory)[:-1] == whole
    assert rows(directory / f"{0:020}.log")[:-1] == whole
    # However it is spelled, it is read once.
    assert rows(SAMPLE, directory, SAMPLE / "." / METADATA) == rows(SAMPLE)


@each(
    ("options", "kinds"),
    [
        ({"what": ("topics",)}, {"topic"}),
        ({"what": ("configs", "features")}, {"config", "feature"}),
        ({"topic": "orders.*"}, {"topic", "partition", "config"}),
        ({"topic": "wide-8", "partition": 3}, {"topic", "partition"}),
        ({"topic": "wide-8", "what": ("brokers",)}, set()),
        ({"broker": 1}, {"broker", "partition"}),
        ({"broker": 2}, set()),
    ],
)
def test_selected_facts(options: dict[str, Any], kinds: set[str]) -> None:
    found = rows(SAMPLE, **options)[:-1]
    assert {one["row"] for one in found} - {"config"} == kinds - {"config"}
    for one in found:
        if "topic" in options and one["row"] in ("topic", "partition"):
            assert one["topic"].startswith(options["topic"].removesuffix("*"))
        if "partition" in options and one["row"] == "partition":
            assert one["partition"] == 3


def test_concurrently_deleted_segments_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    log, failed = SAMPLES / "4.1.1/d1/__cluster_metadata-0", []

    def replay(path: str, **options: Any) -> Any:
        if not failed:
            failed.append(path)
            raise PathError(f"{path}/{0:020}.log", "No such file or directory")
        return read_replay(path, **options)

    monkeypatch.setattr(cluster_run, "read_replay", replay)
    found = list(cluster([str(log)], ClusterOptions()))
    assert failed
    assert all(isinstance(each, Row) for each in found), found


def test_deleted_topic_exists_before_its_deletion() -> None:
    for moment, gone in (((884, None), False), ((885, None), True), ((None, 1795220057943), True)):
        (topic,) = rows(SAMPLE, kind="topic", topic="doomed*", at=to_until(moment))
        assert (topic["deleted_ms"] is not None) is gone
        partitions = rows(SAMPLE, kind="partition", topic="doomed*", at=to_until(moment))
        assert len(partitions) == (not gone)
    history = rows(SAMPLE, kind="change", topic="doomed*", history=True)
    assert [one["what"] for one in history[:3]] == [
        "topic-created",
        "config-created",
        "partition-created",
    ]
    ended = [one for one in history if one["metadata_offset"] == 885]
    assert [one["what"] for one in ended] == [
        "topic-deleted",
        "partition-deleted",
        "config-deleted",
    ]
    assert [one["subject"] for one in ended] == [
        "doomed-topic",
        "doomed-topic-0",
        "topic doomed-topic internal.segment.bytes",
    ]
    assert ended[2]["before"]["value"] == "16384"
    assert all(one["after"] is None for one in ended)
    moved = rows(SAMPLE, kind="change", topic="doomed*", diff_from=to_until((200, None)))
    assert [one["what"] for one in moved] == [one["what"] for one in ended]
    for start in ((885, None), (None, 1795220057943)):  # what was said right then is not in it
        assert not rows(SAMPLE, kind="change", topic="doomed*", diff_from=to_until(start))
    back = rows(
        SAMPLE,
        kind="change",
        topic="doomed*",
        diff_from=to_until((100, None)),
        at=to_until((900, None)),
    )
    assert back == []  # it came and went in between
    (made_since,) = rows(
        SAMPLE,
        kind="change",
        topic="wide-8",
        what=("topics",),
        diff_from=to_until((10, None)),
        at=to_until((900, None)),
    )
    assert made_since["after"]["partitions_count"] == 8


def test_broker_without_partitions_has_no_changes_of_them() -> None:
    assert not rows(SAMPLE, kind="change", broker=2, history=True, what=("partitions",))


def test_partial_directory_of_a_broker_has_partitions() -> None:
    changes = rows(SAMPLE, kind="change", broker=1, history=True, what=("partitions",))
    assert changes
    for one in changes:
        both = [one["before"] or {}, one["after"] or {}]
        assert any({"isr", "leader", "replicas"} & side.keys() for side in both)


@pytest.mark.parametrize("copy", ["newest/data/killed", "sample"])
def test_diff_lists_changed_facts(copy: str) -> None:
    directory = SAMPLE if copy == "sample" else corpus(copy) / "d1"
    if copy == "sample":
        ends = [150, 300, 700, 1100]
    else:
        lines = find_expected("newest/moments.jsonl").read_text().splitlines()
        ends = [json.loads(line)["log_ends"][METADATA] - 1 for line in lines]
    path = str(directory / METADATA)
    for first, last in pairwise(ends):
        changes = rows(
            directory, kind="change", diff_from=to_until((first, None)), at=to_until((last, None))
        )
        assert all(first < one["metadata_offset"] <= last for one in changes)
        before, after = (
            read_replay(path, until=Until(offset=offset), whole=True).state
            for offset in (first, last)
        )
        expected_changes = changes_between(before, after, Moment(0, 0, 0))
        assert sorted(
            (one["what"].rpartition("-")[0], one["subject"]) for one in changes
        ) == sorted(
            (kind_of(one.fact), subject_of(one.fact))
            for one in expected_changes
            # How many partitions a topic has is told by those that come.
            if not (kind_of(one.fact) == "topic" and one.before and one.after)
        )


def all_output(path: Path, **options: Any) -> str:
    ways: list[dict[str, Any]] = [{}, {"history": True}, {"view": "zookeeper"}]
    ways.append({"diff_from": to_until((-1, None))})
    return "\n".join(
        json_text(one.fields)
        for way in ways
        for one in run_cluster(path, **way, **options)
        if isinstance(one, Row)
    )


def test_secrets_need_the_option() -> None:
    directory = corpus("newest/data/killed") / "d1"
    secrets = set()
    for at in (383, 500, 627):
        state = read_replay(str(directory / METADATA), until=Until(offset=at)).state
        for user in state.users.values():
            every = (user.salt, user.stored_key, user.server_key)
            secrets |= {b64encode(one).decode() for one in every}
        by_key = state.settings("broker", "1")
        secrets |= {value for key, value in by_key.items() if key.startswith("listener.name")}
        secrets.add(by_key["no.such.instance"])
    assert len(secrets) > 8
    shown = all_output(directory, show_secrets=True)
    hidden = all_output(directory)
    for secret in secrets:
        text = json_text(secret)[1:-1]
        assert text in shown
        assert text not in hidden
    assert "(redacted)" in hidden
    masked = [one for one in rows(directory, kind="config") if one["sensitive"]]
    assert {one["value"] for one in masked} == {"(redacted)"}
    assert len(masked) == 2


def test_zookeeper_paths_are_reported() -> None:
    found = {one["path"]: one["value"] for one in rows(SAMPLE, kind="znode", view="zookeeper")}
    state = read_replay(str(SAMPLE / METADATA)).state
    for topic_id, topic in state.topics.items():
        assert found[f"/brokers/topics/{topic.topic}"]["topic_id"] == topic_id
        for number, one in state.partitions[topic_id].items():
            at = found[f"/brokers/topics/{topic.topic}/partitions/{number}/state"]
            assert (at["leader"], at["leader_epoch"]) == (one.leader, one.leader_epoch)
            assert at["isr"] == list(one.isr)
        settings = found.get(f"/config/topics/{topic.topic}", {"config": {}})["config"]
        assert settings == state.settings("topic", topic.topic)
    assert found["/cluster/id"] == {"version": "1", "id": "c0rpusSharedAAAAAAAAAA"}
    assert (found["/controller"]["brokerid"], found["/controller_epoch"]) == (1, 3)
    assert found["/admin"] is found["/isr_change_notification"] is None
    # Its broker was stopped, and such a path goes with its broker.
    assert "/brokers/ids/1" not in found
    running = rows(SAMPLE, kind="znode", view="zookeeper", at=to_until((1000, None)))
    assert "/brokers/ids/1" in {one["path"] for one in running}
    only = rows(SAMPLE, kind="znode", view="zookeeper", topic="orders.gzip")
    assert {one["path"].split("/")[1] for one in only} == {"brokers", "config"}


def test_damaged_batch_is_reported_and_bridged(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    log = directory / METADATA / f"{0:020}.log"
    log.write_bytes(damage.flip(log.read_bytes(), 20_000))
    (finding,) = findings(directory)
    assert finding.code == "metadata-records-missing"
    assert finding.severity.value == "damage"
    assert finding.path == str(log)
    assert finding.offset is not None
    assert finding.next_offset is not None
    assert "The snapshot at " in str(finding.message)
    summary = [one for one in run_cluster(directory) if isinstance(one, Row)][-1]
    assert summary.fields["complete"]
    for snapshot in (directory / METADATA).glob("*.checkpoint"):
        snapshot.unlink()
    (finding,) = findings(directory)
    assert "no snapshot has their changes" in str(finding.message)
    summary = [one for one in run_cluster(directory) if isinstance(one, Row)][-1]
    assert not summary.fields["complete"]


def test_log_that_starts_after_a_snapshot_is_sound(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    whole = {one["topic"] for one in rows(directory, kind="topic", at=to_until((2000, None)))}
    for path in (directory / METADATA).glob(f"{0:020}.*"):
        path.unlink()
    found = rows(directory)
    assert {one["topic"] for one in found if one["row"] == "topic"} == whole
    assert (found[-1]["complete"], found[-1]["log_start_offset"]) == (True, 616)


def test_unreadable_record_falls_back_to_the_newest_snapshot(tmp_path: Path) -> None:
    directory = make_directory(
        tmp_path / "d1", [metadata_log.topic("a", 1), b"\x01\x02\x00", b"\x01\x7e\x00"]
    )
    (finding,) = findings(directory)
    assert (finding.offset, finding.next_offset) == (1, 2)
    summary = [one for one in run_cluster(directory) if isinstance(one, Row)][-1]
    assert (summary.fields["complete"], summary.fields["unknown_records"]) == (False, 1)
    snapshot = directory / METADATA / f"{3:020}-{1:010}.checkpoint"
    snapshot.write_bytes(metadata_log.snapshot_of([metadata_log.topic("b", 2)]))
    found = [one for one in run_cluster(directory) if isinstance(one, Row)]
    assert found[-1].fields["complete"]
    assert [one.fields["topic"] for one in found if one.row == "topic"] == ["b"]


def test_furthest_of_several_copies_is_read(tmp_path: Path) -> None:
    one, other = copied(tmp_path / "one"), copied(tmp_path / "two")
    log = one / METADATA / f"{616:020}.log"
    log.write_bytes(log.read_bytes()[:5000])
    for paths in ((one, other), (other, one)):
        summary = rows(*paths)[-1]
        assert summary["as_of_offset"] == 1141
        assert summary["path"] == str(other / METADATA)
        assert summary["other_copies"] == [str(one / METADATA)]


@pytest.mark.parametrize("version", ["0.8.2.2", "0.10.2.2", "2.8.2"])
def test_directories_of_a_zookeeper_cluster(version: str) -> None:
    found = rows(SAMPLES / version)
    summary = found[-1]
    assert (summary["source"], summary["complete"]) == ("directory", False)
    assert "in ZooKeeper" in summary["text"]
    kinds = [one["row"] for one in found]
    assert kinds == sorted(kinds, key=["broker", "topic", "partition", "cluster-summary"].index)
    topics = {one["topic"]: one["partitions_count"] for one in found if one["row"] == "topic"}
    partitions = [one["topic"] for one in found if one["row"] == "partition"]
    assert topics
    assert topics == {topic: partitions.count(topic) for topic in topics}


def test_topics_are_selected_without_a_log() -> None:
    found = rows(SAMPLES / "0.10.2.2", topic="p*")[:-1]
    assert [(one["row"], one["topic"]) for one in found] == [
        ("topic", "plain"),
        ("partition", "plain"),
    ]
    found = rows(SAMPLES / "0.10.2.2", partition=1)[:-1]
    assert {one["row"] for one in found} == {"topic"}


def test_directory_of_a_node_with_its_log_elsewhere() -> None:
    (*_, summary) = rows(SAMPLES / "4.1.1" / "d2")
    assert (summary["source"], "There is no metadata log here" in summary["text"]) == (
        "directory",
        True,
    )
    # Beside its log neither the directory nor what format left in it counts.
    beside = rows(SAMPLES / "4.1.1")
    assert beside == rows(SAMPLE)
    live = corpus("modern/data/live")
    assert rows(live / "d2", live / "d1") == rows(live / "d1")


def test_formatted_but_never_started_node_is_reported() -> None:
    found = rows(corpus("newest/data/formatted") / "d1")
    assert found[-1]["source"] == "format"
    features = {one["name"]: one["feature_level"] for one in found if one["row"] == "feature"}
    assert features["metadata.version"] == 30
    assert [one["name"] for one in found if one["row"] == "scram-user"] == ["root-scram"]


def test_formatted_directory_before_4_4(tmp_path: Path) -> None:
    for name in ("bootstrap.checkpoint", "meta.properties"):
        shutil.copy(SAMPLES / "4.1.1" / "d2" / name, tmp_path)
    found = rows(tmp_path)
    assert found[-1]["source"] == "format"
    assert "metadata.version" in {one["name"] for one in found if one["row"] == "feature"}
    # A partition shows that the node has run: its log is elsewhere then.
    (tmp_path / "orders-0").mkdir()
    assert rows(tmp_path)[-1]["source"] == "directory"


def test_other_log_than_the_metadata_log_is_an_error(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        (error,) = run_cluster(path)
        assert isinstance(error, KdumpError)


def test_memory_is_bounded_by_the_state(tmp_path: Path) -> None:
    """More changes of the same partitions than are decoded at once take no more memory."""
    begin = [metadata_log.topic("a", 1), *(metadata_log.partition(n, 1) for n in range(10))]
    change = [metadata_log.change(n, 1, (2, metadata_log.ids(1))) for n in range(10)]
    peaks = []
    for number, times in enumerate((900, 1800)):
        directory = tmp_path / str(number) / METADATA
        directory.mkdir(parents=True)
        with (directory / f"{0:020}.log").open("wb") as log:
            log.write(metadata_log.log_of(begin))
            for at in range(times):
                log.write(metadata_log.log_of(change, base_offset=len(begin) + 10 * at))
        read_replay(str(directory), whole=True)
        tracemalloc.start()
        read_replay(str(directory), whole=True)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + (1 << 20)


def test_hostile_bytes_in_every_record_are_harmless(tmp_path: Path) -> None:
    rng = random.Random(15)
    whole = [
        raw.value
        for path in sorted((SAMPLE / METADATA).glob("*.log"))
        for raw in raw_records(path)
        if raw.value and not raw.control
    ]
    kinds: dict[int, bytes] = {value[1]: value for value in whole}
    quota = message_bytes(
        message("ClientQuotaRecord"),
        0,
        {"entity": [{"entityType": "\x1b[31m", "entityName": "\udc80"}], "value": float("nan")},
    )
    kinds[14] = b"\x01\x0e\x00" + quota
    for type_id in range(30):
        kinds.setdefault(type_id, bytes([1, type_id, 0]) + rng.randbytes(40))
    written: list[bytes] = []
    drawn: list[bytes] = []
    lines = JsonLines(lambda data: written.append(bytes(data)), BYTES_MODES.index("auto"))
    times = 200 if LONG else 6
    for number in range(times):
        values = []
        for value in kinds.values():
            data = bytearray(value * rng.choice((1, 1, 2)))
            for _ in range(rng.randrange(4)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            values.append(
                bytes(data[: rng.randrange(len(data) + 1)] if rng.random() < 0.3 else data)
            )
            values.append(value)
        rng.shuffle(values)
        directory = make_directory(tmp_path / str(number), values)
        table = Table(lambda data: drawn.append(bytes(data)), io.StringIO(), 0)
        for way in ({}, {"history": True}, {"view": "zookeeper"}, {"at": to_until((9, None))}):
            for one in run_cluster(directory, **way):
                assert isinstance(one, Row | Finding), one
                if isinstance(one, Row):
                    lines.write(one)
                    table.write(one)
        table.finish()
    for line in b"".join(written).splitlines():
        json.loads(line, parse_constant=lambda word: pytest.fail(word))
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", b"".join(drawn))
