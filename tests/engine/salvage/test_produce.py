"""What a salvage that produces does where its copies go away, and what it prints."""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import builders
import commands
import metadata_log as m
import offsets_log
import pytest
from comparing import Batch, batches, replica
from produce_bench import NEW_ID, SETTINGS, Bench, Outcome
from salvaging import data_of

from kdump.client.cluster import TopicFacts
from kdump.client.group_offsets import Place
from kdump.engine.salvage import produce as module
from kdump.engine.salvage.copies import Item
from kdump.errors import RefusedError
from kdump.storage import held_files, lock
from kdump.storage.targets import Selection

LOG = batches(0, 50)
DELETED = f"orders-0.{'0' * 32}-delete"
UUID = "AAAAAAAAAAAAAAAAAAAABw"  # of the number 7
SECOND = 1000


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def two(path: Path, log: Sequence[Batch] = LOG) -> Path:
    one = replica(path, "one", log, segments=(0, 4))
    shutil.copytree(one / "orders-0", one / "orders-1")
    return one


# What vanishes -----------------------------------------------------------------------------------


def test_files_deleted_after_planning_are_still_produced(bench: Bench, tmp_path: Path) -> None:
    one = two(tmp_path)
    bench.cluster.before_send = lambda: shutil.rmtree(one, ignore_errors=True)
    outcome = bench.run(one)
    assert not outcome.errors
    assert [len(log) for log in bench.cluster.logs.values()] == [50, 50]
    assert all(each["is_done"] for each in bench.state["partitions"].values())
    assert not held_files.HELD  # given back


def test_files_over_the_open_limit_are_reported(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_files, "_room_for", lambda _: 2)
    one = two(tmp_path)
    bench.cluster.before_send = lambda: shutil.rmtree(one / "orders-1", ignore_errors=True)
    outcome = bench.run(one)
    assert [each.code for each in outcome.findings] == ["file-not-held"] * 2 + ["produced-short"]
    assert outcome.findings[-1].message.startswith("0 of 50 records were produced")
    (error,) = outcome.errors
    assert error.status == 1
    assert "orders-1: 50 of 50 records have not arrived" in str(error)
    assert bench.state["partitions"]["orders-1"]["is_done"] is False


def test_copy_deleted_after_planning_stops_only_its_partition(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_files, "_room_for", lambda _: 0)
    one = two(tmp_path)
    (one / "orders-2").mkdir()
    opened = module.open_copies

    def late(item: Item, *more: Any) -> Any:
        shutil.rmtree(one / "orders-1", ignore_errors=True)
        return opened(item, *more)

    monkeypatch.setattr(module, "open_copies", late)
    outcome = bench.run(one)
    (error,) = outcome.errors
    assert (error.status, str(error)[-27:]) == (1, "was deleted before it was read"[-27:])
    assert [row["partition"] for row in outcome.fields("salvaged")] == [0, 2]


def test_shrinking_log_leaves_its_partition_incomplete(bench: Bench, tmp_path: Path) -> None:
    one = two(tmp_path)
    newest = one / "orders-1" / f"{20:020}.log"
    bench.cluster.before_send = lambda: os.truncate(newest, 0)
    outcome = bench.run(one, groups=False)
    whole, short = outcome.fields("salvaged")
    assert (whole["severity"], whole["produced"]["missing_count"]) == (None, 0)
    assert (short["severity"], short["produced"]["missing_count"]) == ("damage", 30)
    assert short["produced"]["planned_count"] == 50
    again = bench.run(one)  # it says so as often as it is asked
    assert [error.status for error in (*outcome.errors, *again.errors)] == [1, 1]
    assert again.findings[-1].code == "produced-short"
    assert len(bench.cluster.logs["orders", 1]) == 20
    bench.cluster.before_send = lambda: None
    newest.write_bytes(data_of(LOG[4:]))
    last = bench.run(one)
    assert not last.errors
    assert not last.findings
    assert len(bench.cluster.logs["orders", 1]) == 50
    assert not bench.run(one).errors


def test_records_after_a_new_hole_are_not_sent(bench: Bench, tmp_path: Path) -> None:
    one = replica(tmp_path, "one", LOG)
    log = one / "orders-0" / f"{0:020}.log"
    whole = log.read_bytes()

    def wound() -> None:
        hurt = bytearray(whole)
        hurt[len(data_of(LOG[:5])) + 70] ^= 1  # a batch in the middle, as on a dying disk
        log.write_bytes(hurt)

    bench.cluster.before_send = wound
    for _ in range(2):
        outcome = bench.run(one)
        assert [each.code for each in outcome.findings] == ["produced-short"]
        assert len(bench.cluster.logs["orders", 0]) == 25
    bench.cluster.before_send = lambda: None
    log.write_bytes(whole)
    assert not bench.run(one).errors
    keys = [record.key for record in bench.cluster.logs["orders", 0]]
    assert keys == [b"k%d" % number for number in range(50)]


def test_deleted_copies_are_reported_as_lost(bench: Bench, tmp_path: Path) -> None:
    one = two(tmp_path)

    def stop() -> None:
        raise KeyboardInterrupt

    bench.cluster.before_send = stop
    with pytest.raises(KeyboardInterrupt):
        bench.run(one)
    bench.cluster.before_send = lambda: None
    shutil.rmtree(one / "orders-1")
    first = bench.run(one)
    shutil.rmtree(one / "orders-0")
    for outcome in (first, bench.run(one), bench.run(one)):
        error = outcome.errors[-1]
        assert error.status == 1
        assert "orders-1: 50 of 50 records have not arrived" in str(error)
    assert list(bench.cluster.logs) == [("orders", 0)]


def test_unsent_records_do_not_count_as_missing(bench: Bench, tmp_path: Path) -> None:
    aborted = {"producer_id": 7, "producer_epoch": 0, "attributes": 0x10}
    log: list[Batch | bytes] = [*batches(0, 10, 0, **aborted)]
    log.append(builders.marker(0, base_offset=10, producer_id=7, timestamp=0))
    log += batches(11, 21, 0)
    log += batches(21, 26, 0, **{**aborted, "producer_id": 8})
    one = replica(tmp_path, "one", log)
    (row,) = bench.run(one).fields("salvaged")
    produced = row["produced"]
    assert (produced["planned_count"], produced["missing_count"]) == (10, 0)
    assert (produced["aborted_count"], produced["open_count"]) == (10, 5)
    bench.cluster.logs.clear()
    (bench.path / "state").unlink()
    (row,) = bench.run(one, from_offset=13, to_offset=18).fields("salvaged")
    assert (row["produced"]["planned_count"], row["produced"]["records_count"]) == (5, 5)


# The cluster's own directory ---------------------------------------------------------------------


def with_id(directory: Path, topic_id: str) -> None:
    (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")


def test_repeated_command_skips_the_new_topic(bench: Bench, tmp_path: Path) -> None:
    one = replica(tmp_path, "one", LOG, partition=DELETED)
    with_id(one / DELETED, UUID)
    new = one / "orders-0"
    new.mkdir()
    (new / f"{0:020}.log").write_bytes(b"")
    with_id(new, "C" * 21 + "A")  # as if the broker answered without an id
    assert not bench.run(one).errors
    with_id(new, NEW_ID)
    (new / f"{0:020}.log").write_bytes(data_of(batches(0, 30, epoch=9)))  # what was produced
    again = bench.run(one)
    assert not again.errors
    assert len(bench.cluster.logs["orders", 0]) == 50
    shutil.rmtree(one / DELETED)
    (bench.path / "state").unlink()
    (own,) = bench.run(one).findings
    assert own.code == "source-is-target"
    assert len(bench.cluster.logs["orders", 0]) == 50


def test_topic_without_ids_belongs_to_the_running_cluster(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "is_held", lambda _: True)
    bench.cluster.topics["orders"] = TopicFacts(2, SETTINGS, None)
    one = replica(tmp_path, "one", LOG, partition=DELETED)
    (one / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=the-cluster\n")
    shutil.copytree(one / DELETED, one / "orders-0")
    (one / "orders-0" / f"{0:020}.log").write_bytes(data_of(batches(0, 30, epoch=9)))
    assert not bench.run(one).errors
    assert len(bench.cluster.logs["orders", 0]) == 50


# What is printed ---------------------------------------------------------------------------------


def make_deleted_topic(path: Path, **settings: str) -> Path:
    """A data directory, with a quote in its name, whose topic was deleted on a running broker."""
    one = replica(path, "it's one", LOG, partition=DELETED, files={".lock": ""})
    with_id(one / DELETED, UUID)
    said = [m.topic("orders", 7), *(m.partition(number, 7, (1, 2)) for number in range(3))]
    said += [m.config(2, "orders", name, value) for name, value in settings.items()]
    said.append(m.remove_topic(7))
    log = one / "__cluster_metadata-0"
    log.mkdir()
    (log / f"{0:020}.log").write_bytes(m.log_of(said))
    return one


def test_steps_link_copies_before_creating_the_topic(bench: Bench, tmp_path: Path) -> None:
    bench.cluster.topics.clear()
    settings = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.insync.replicas": "1"}
    one = make_deleted_topic(tmp_path, **settings)
    command = ("kdump", "produce", "--bootstrap-server", "b:9092", str(one))
    outcome = bench.run(one, selection=Selection("orders"), command=command)
    assert [row.row for row in outcome.rows] == ["salvage-step"] * 3
    assert list(outcome.steps) == ["keep", "create-topic", "same-command"]
    assert outcome.steps["create-topic"] == (
        "kafka-topics.sh --bootstrap-server b:9092 --create --topic orders --partitions 3 "
        "--replication-factor 2 --config cleanup.policy=compact --config min.insync.replicas=1 "
        "--config segment.bytes=1048576"
    )
    (error,) = outcome.errors
    assert isinstance(error, RefusedError)
    subprocess.run(["bash", "-ec", outcome.steps["keep"]], check=True)
    kept = tmp_path / "it's one.kdump-kept"
    name = f"{0:020}.log"
    assert (kept / DELETED / name).samefile(one / DELETED / name)
    words = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {outcome.steps['same-command']}"],
        capture_output=True, text=True, check=True,
    ).stdout.split("\0")[:-1]  # fmt: skip
    assert words == [
        *("kdump", "produce", "--resume", str(tmp_path / "state"), "--bootstrap-server", "b:9092"),
        *(str(one), str(kept)),
    ]
    bench.cluster.topics["orders"] = TopicFacts(3, SETTINGS, NEW_ID)
    again = bench.run(one, kept, selection=Selection("orders"))
    assert not again.errors
    assert not again.steps
    (row,) = again.fields("salvaged")
    assert len(row["from"]) == 1  # two names of one copy
    assert len(bench.cluster.logs["orders", 0]) == 50


def test_settings_that_lose_records_are_applied_last(bench: Bench, tmp_path: Path) -> None:
    bench.cluster.topics.clear()
    settings = {
        "retention.ms": "86400000", "retention.bytes": "900",
        "message.timestamp.type": "LogAppendTime", "max.message.bytes": "900000",
    }  # fmt: skip
    one = make_deleted_topic(tmp_path, **settings)
    outcome = bench.run(one)
    assert outcome.steps["create-topic"].endswith(
        "--config max.message.bytes=900000 --config retention.ms=-1"
    )
    bench.cluster.topics["orders"] = TopicFacts(3, SETTINGS, NEW_ID)
    assert bench.run(one).steps["restore-settings"] == (
        "kafka-configs.sh --bootstrap-server b:9092 --alter --entity-type topics --entity-name "
        "orders --add-config message.timestamp.type=LogAppendTime,retention.bytes=900,"
        "retention.ms=86400000"
    )


def test_dry_run_prints_the_deferred_settings(bench: Bench, tmp_path: Path) -> None:
    bench.cluster.topics.clear()
    one = make_deleted_topic(tmp_path, **{"retention.ms": "86400000"})
    steps = bench.run(one, dry_run=True).steps
    assert steps["create-topic"].endswith("--config retention.ms=-1")
    assert steps["restore-settings"].endswith("--add-config retention.ms=86400000")


def test_given_metadata_log_names_the_topic_of_kept_copies(bench: Bench, tmp_path: Path) -> None:
    bench.cluster.topics.clear()
    one = make_deleted_topic(tmp_path, **{"cleanup.policy": "compact"})
    kept = tmp_path / "kept"
    kept.mkdir()
    (one / DELETED).rename(kept / DELETED)
    assert "--config cleanup.policy=compact" in bench.run(kept, one).steps["create-topic"]
    assert "cleanup.policy" not in bench.run(kept).steps["create-topic"]


def test_unknown_topic_facts_are_reported(bench: Bench, tmp_path: Path) -> None:
    bench.cluster.topics.clear()
    one = replica(tmp_path, "one", LOG, partition=DELETED, files={".lock": ""})
    outcome = bench.run(one)
    assert outcome.steps["create-topic"].endswith("--partitions 1 --config retention.ms=-1")
    text = outcome.fields("salvage-step")[1]["text"]
    assert "Its settings and replication factor are unknown" in text
    assert text.endswith(
        "Create it; with retention.ms=-1 it keeps all records until you set another value:"
    )


def test_settings_are_read_from_zookeeper_files(bench: Bench, tmp_path: Path) -> None:
    def node(path: str, value: object) -> bytes:
        data = json.dumps(value).encode()
        return b"".join(len(each).to_bytes(4, "big") + each for each in (path.encode(), data))

    configs = "/config/topics/orders"
    zookeeper = tmp_path / "zk" / "version-2"
    zookeeper.mkdir(parents=True)
    partitions = {"version": 1, "partitions": {"0": [1, 2, 3], "1": [2, 3, 1]}}
    (zookeeper / "log.1").write_bytes(
        node(configs, {"version": 1, "config": {"retention.ms": "1"}})
        + node("/brokers/topics/orders", partitions)
        + node(configs + "-other", {"version": 1, "config": {"retention.ms": "2"}})
        + node(configs, {"version": 1, "config": {"retention.ms": "-1", "segment.ms": "9"}})
    )
    bench.cluster.topics.clear()
    one = replica(tmp_path, "one", LOG, partition=DELETED)
    outcome = bench.run(one, tmp_path / "zk")
    assert outcome.steps["create-topic"].endswith(
        "--partitions 2 --replication-factor 3 --config retention.ms=-1 --config segment.ms=9"
    )


def test_no_batch_is_larger_than_a_segment(bench: Bench, tmp_path: Path) -> None:
    settings = {**SETTINGS, "max.message.bytes": "900000", "segment.bytes": "1000"}
    bench.cluster.topics["orders"] = TopicFacts(1, settings, NEW_ID)
    small, large = batches(0, 10)
    items = (large.items[0]._replace(value=bytes(950)), *large.items[1:])
    outcome = bench.run(replica(tmp_path, "one", [small, large._replace(items=items)]))
    assert bench.cluster.limits == {1000}
    assert "--add-config segment.bytes=" in str(outcome.errors[0])


# Offsets of groups -------------------------------------------------------------------------------


def offsets(directory: Path, log: offsets_log.Log) -> None:
    log.write(directory / "__consumer_offsets-0")


def apply_plan(outcome: Outcome) -> tuple[dict[str, Any], dict[str, str]]:
    (summary,) = outcome.fields("group-offsets")
    rows = outcome.fields("group-offset")
    return summary, {row["group"]: row["outcome"] for row in rows}


def test_offsets_before_the_deletion_are_restored(bench: Bench, tmp_path: Path) -> None:
    one = replica(tmp_path, "one", LOG, partition=DELETED)
    log = offsets_log.Log()
    log.add(*(offsets_log.commit(f"g{number}", "orders-0", 10 + number) for number in range(3)))
    log.add(offsets_log.commit("expired", "orders-0", 3))
    log.add(offsets_log.commit("expired", "orders-0", None))
    log.now_ms += 3_600_000
    log.add(*(offsets_log.commit(f"g{number}", "orders-0", None) for number in range(3)))
    log.add(offsets_log.commit("compacted", "orders-0", None))
    late = log.now_ms + 9000
    log.add(offsets_log.commit("g1", "orders-0", 2, commitTimestamp=late))
    log.add(offsets_log.commit("new", "orders-0", 5, commitTimestamp=late))
    offsets(one, log)
    summary, outcomes = apply_plan(bench.run(one, groups=True, apply_groups=True))
    found = {place.group: offset for place, offset in bench.cluster.committed.items()}
    assert found == {"g0": 10, "g1": 11, "g2": 12}
    assert (summary["applied_count"], summary["not_applied_count"]) == (3, 3)
    assert summary["as_of"] == "deletion"
    assert outcomes["compacted"] == "gone"
    assert outcomes["new"] == "committed-since"
    assert outcomes["expired"] == "ended"


def test_topic_id_of_a_commit_selects_the_topic(bench: Bench, tmp_path: Path) -> None:
    one = replica(tmp_path, "one", LOG, partition=DELETED)
    with_id(one / DELETED, UUID)
    log = offsets_log.Log()
    old, other = {"version": 4, "topicId": UUID}, {"version": 4, "topicId": NEW_ID}
    log.add(offsets_log.commit("deleted-twice", "orders-0", 20, **old))
    log.add(offsets_log.commit("untouched", "orders-0", 30, **old))
    log.add(offsets_log.commit("deleted-twice", "orders-0", None))
    log.add(offsets_log.commit("deleted-twice", "orders-0", 1, **other))
    log.add(offsets_log.commit("deleted-twice", "orders-0", None))
    log.add(offsets_log.commit("new", "orders-0", 2, **other))
    offsets(one, log)
    summary, outcomes = apply_plan(bench.run(one, groups=True, apply_groups=True))
    found = {place.group: offset for place, offset in bench.cluster.committed.items()}
    assert found == {"deleted-twice": 20, "untouched": 30}
    assert outcomes["new"] == "committed-since"
    assert summary["outcomes"] == {"committed": 2, "committed-since": 1}


def test_offsets_of_a_time_are_restored(bench: Bench, tmp_path: Path) -> None:
    one = replica(tmp_path, "one", LOG)
    log = offsets_log.Log()
    log.add(offsets_log.commit("g", "orders-0", 10))
    then = log.now_ms
    log.add(offsets_log.commit("g", "orders-0", None))
    offsets(one, log)
    silent = bench.run(one, groups=True, apply_groups=True)
    summary, outcomes = apply_plan(silent)  # it is no deleted topic, and says what was not applied
    assert (summary["applied_count"], outcomes) == (0, {"g": "ended"})
    summary, _ = apply_plan(bench.run(one, groups=True, apply_groups=True, groups_at=then))
    assert (summary["applied_count"], summary["as_of"]) == (1, "time")
    assert bench.cluster.committed == {Place("g", "orders", 0): 10}


def test_incomplete_partition_gets_no_group_offset(bench: Bench, tmp_path: Path) -> None:
    one = two(tmp_path)
    log = offsets_log.Log()
    log.add(*(offsets_log.commit("g", f"orders-{number}", 10) for number in range(2)))
    offsets(one, log)
    newest = one / "orders-1" / f"{20:020}.log"
    bench.cluster.before_send = lambda: os.truncate(newest, 0)
    outcome = bench.run(one, groups=True, apply_groups=True)
    assert bench.cluster.committed == {Place("g", "orders", 0): 10}
    (summary,) = outcome.fields("group-offsets")
    assert summary["outcomes"] == {"committed": 1, "not-produced": 1}


def test_groups_that_a_plan_cannot_name_are_not_in_it(bench: Bench, tmp_path: Path) -> None:
    one = replica(tmp_path, "one", LOG, partition=DELETED)
    log = offsets_log.Log()
    for ended in (False, True):
        groups = ("g", "a,b")
        log.add(*(offsets_log.commit(g, "orders-0", None if ended else 10) for g in groups))
    offsets(one, log)
    bench.run(one, groups=True)
    assert (tmp_path / "state.groups.csv").read_text() == "g,orders,0,10\n"


# On a terminal ---------------------------------------------------------------------------------


def said(bench: Bench, monkeypatch: pytest.MonkeyPatch, *words: object) -> tuple[int, str]:
    """Run the command; give its status, and what it says beside the rows."""
    monkeypatch.setattr("kdump.cli.salvage_report.is_terminal", lambda _: True)
    monkeypatch.setattr("sys.argv", ["kdump", "produce", *map(str, words)])
    asked = ("--bootstrap-server", "b:9092", "--resume", bench.path / "state", "--format", "table")
    result = commands.run("produce", *asked, *words)
    return result.exit_code, result.stderr


def with_groups(path: Path) -> Path:
    one = replica(path, "one", LOG)
    log = offsets_log.Log()
    log.add(offsets_log.commit("g0", "orders-0", 10))
    offsets(one, log)
    return one


def test_dry_run_says_that_nothing_was_sent(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, text = said(bench, monkeypatch, "--dry-run", replica(tmp_path, "one", LOG))
    assert status == 0
    assert "Nothing was sent. To send it: kdump produce" in text
    assert "--dry-run" not in text.partition("To send it:")[2]
    assert not bench.cluster.logs


def test_planned_offsets_of_groups_have_the_command_that_commits_them(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, text = said(bench, monkeypatch, "--groups", with_groups(tmp_path))
    plan = f"{bench.path}/state.groups.csv"
    assert status == 0
    assert f"The new offset of each record: {bench.path}/state.offsets.csv" in text
    assert "To commit the offsets of groups: kafka-consumer-groups.sh --bootstrap-server" in text
    assert f"--from-file {plan} --execute" in text


def test_committed_offsets_of_groups_are_counted(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, text = said(bench, monkeypatch, "--apply-groups", with_groups(tmp_path))
    assert status == 0
    assert "kdump: offsets of groups: 1 applied, 0 not applied" in text
    assert "To commit" not in text


def test_offsets_that_were_not_committed_have_their_reason(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = with_groups(tmp_path)
    bench.cluster.before_send = lambda: None
    words = ("--apply-groups", "--groups-at", "2001-01-01T00:00Z", one)
    _, text = said(bench, monkeypatch, *words)
    assert "offsets of groups: 0 applied, " in text
    assert "; as of 2001-01-01T00:00:00" in text


def test_groups_at_needs_groups(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    status, text = said(bench, monkeypatch, "--groups-at", "2001-01-01T00:00Z", bench.path)
    assert (status, "--groups-at requires --groups or --apply-groups" in text) == (2, True)


def test_records_that_did_not_arrive_have_a_status_of_their_own(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = two(tmp_path)
    monkeypatch.setattr(held_files, "_room_for", lambda _: 2)
    bench.cluster.before_send = lambda: shutil.rmtree(one / "orders-1", ignore_errors=True)
    status, text = said(bench, monkeypatch, one)
    assert status == 1
    assert "of 50 records have not arrived" in text


def test_headers_are_sent_as_they_were(bench: Bench, tmp_path: Path) -> None:
    one = tmp_path / "one" / "orders-0"
    one.mkdir(parents=True)
    record = builders.record(0, headers=[(b"trace", b"7"), (b"empty", None)])
    (one / f"{0:020}.log").write_bytes(builders.batch([record]))
    assert not bench.run(one.parent).errors
    (sent,) = bench.cluster.logs["orders", 0]
    assert list(sent.headers or ()) == [("trace", b"7"), ("empty", None)]
