"""`groups` over made and real partitions: rows, lag, replicas, damage, what is read at all."""

import os
import random
import shutil
import struct
from pathlib import Path
from typing import Any

import builders
import metadata_log as metadata
import pytest
from each import each
from long_runs import LONG
from offsets_log import START_MS, Log, classic, commit, pair
from segments import batches, write_partition
from told_items import codes, rows

from kdump.engine.groups.options import GroupOptions
from kdump.engine.groups.run import groups
from kdump.engine.work.pipeline import ONE_BY_ONE, Driver, Workers
from kdump.errors import KdumpError, NothingToDo
from kdump.findings.finding import Finding
from kdump.findings.rows import Row
from kdump.replay.coordinators import partition_for
from kdump.storage.targets import Selection

SAMPLE = Path(__file__).parents[3] / "sample-data/clean/4.4.0"
Told = Row | Finding | KdumpError


def run_groups(*paths: Path, driver: Driver = ONE_BY_ONE, **asked: Any) -> list[Told]:
    options = GroupOptions(Selection.take(asked), **asked)
    return list(groups(map(str, paths), options, driver=driver))


def make_log(directory: Path, *pairs: Any, partition: int = 0) -> Path:
    log = Log()
    for one in pairs:
        log.add(one)
    return log.write(directory / f"__consumer_offsets-{partition}")


def test_rows_are_ordered_by_kind_and_name() -> None:
    items = run_groups(SAMPLE / "d1", SAMPLE / "d2")
    kinds = [item.row for item in items if isinstance(item, Row)]
    assert len(kinds) == len(items)
    assert kinds == sorted(kinds, key=["group", "member", "committed-offset"].index)
    for kind in ("group", "committed-offset"):
        names = [fields["group"] for fields in rows(items, kind)]
        assert names == sorted(names)
    assert {fields["type"] for fields in rows(items, "group")} == {
        "Classic", "Consumer", "Share", "Streams",
    }  # fmt: skip


def test_workers_give_the_same_result() -> None:
    assert run_groups(SAMPLE, driver=Workers(3)) == run_groups(SAMPLE)


def test_lag_uses_the_neighboring_log(tmp_path: Path) -> None:
    make_log(tmp_path, commit("g", "orders-0", 2), commit("g", "orders-8", 2))
    write_partition(tmp_path, {0: batches(0, 9)})
    here, elsewhere = rows(run_groups(tmp_path), "committed-offset")
    assert (here["log_start"], here["log_end"], here["high_watermark"], here["lag"]) == (0, 9, 9, 7)
    assert elsewhere["lag"] is elsewhere["log_end"] is elsewhere["high_watermark"] is None


def test_high_watermark_comes_from_the_checkpoint(tmp_path: Path) -> None:
    make_log(tmp_path, commit("g", "orders-0", 2))
    write_partition(tmp_path, {0: batches(0, 9)})
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\norders 0 6\n")
    (here,) = rows(run_groups(tmp_path), "committed-offset")
    assert (here["log_end"], here["high_watermark"], here["lag"]) == (9, 6, 4)


def test_log_without_a_usable_end(tmp_path: Path) -> None:
    make_log(tmp_path, commit("g", "orders-0", 2))
    path = write_partition(tmp_path, {0: batches(0, 9)}) / f"{0:020}.log"
    path.write_bytes(path.read_bytes() + struct.pack(">qiib", 9, -5, 0, 2) + bytes(60))
    (here,) = rows(run_groups(tmp_path), "committed-offset")
    assert (here["log_start"], here["log_end"], here["lag"]) == (0, None, None)
    mark = tmp_path / "replication-offset-checkpoint"
    mark.write_text("0\n1\norders 0 6\n")
    os.utime(path, (1, 1))
    (here,) = rows(run_groups(tmp_path), "committed-offset")
    assert (here["log_end"], here["high_watermark"], here["lag"]) == (None, 6, 4)


def test_group_selection_reads_one_partition(tmp_path: Path) -> None:
    for partition in range(4):
        path = make_log(tmp_path, commit("other", "t-0", 1), partition=partition)
        (path / f"{0:020}.log").write_bytes(b"\1" * 100)  # damage, which is told where it is read
    home = tmp_path / f"__consumer_offsets-{partition_for('billing', 4)}"
    shutil.rmtree(home)
    make_log(tmp_path, commit("billing", "t-0", 1), partition=partition_for("billing", 4))
    items = run_groups(tmp_path, group="billing")
    assert codes(items) == []
    assert [fields["group"] for fields in rows(items, "group")] == ["billing"]
    assert codes(run_groups(tmp_path, group="billing*")) != []
    assert codes(run_groups(tmp_path, group="billing", history=True)) == []
    assert len(rows(run_groups(tmp_path, group="billing", history=True), "offset-commit")) == 1


@pytest.mark.parametrize("history", [False, True])
def test_group_is_found_with_another_partition_count(history: bool, tmp_path: Path) -> None:
    away = 1 - partition_for("billing", 2)
    for partition in range(2):
        name = "billing" if partition == away else "other"
        make_log(tmp_path, commit(name, "t-0", 1), partition=partition)
    items = run_groups(tmp_path, group="billing", history=history)
    assert len([item for item in items if isinstance(item, Row)]) == (1 if history else 2)


def test_metadata_gives_the_number_of_partitions(tmp_path: Path) -> None:
    """Two of three partitions lie here, so the number of those that do says nothing."""
    copy = tmp_path / "d1"
    shutil.copytree(SAMPLE / "d1", copy)
    said = [
        metadata.topic("__consumer_offsets", 5),
        *(metadata.partition(number, 5) for number in range(3)),
    ]
    cluster = copy / "__cluster_metadata-0"
    cluster.mkdir()
    home = f"__consumer_offsets-{partition_for('dashboard', 3)}"
    for path in copy.glob("__consumer_offsets-*"):
        if path.name != home:
            (path / f"{0:020}.log").write_bytes(b"\1" * 100)  # damage, told where it is read
    (cluster / f"{0:020}.log").write_bytes(metadata.log_of(said[:1]))
    assert codes(run_groups(copy, group="dashboard")) != []
    (cluster / f"{0:020}.log").write_bytes(metadata.log_of(said))
    assert codes(run_groups(copy, group="dashboard")) == []
    assert codes(run_groups(copy, group="dash*")) != []


def test_metadata_names_topics_too(tmp_path: Path) -> None:
    ids = [f"{'A' * 20}{letters}" for letters in ("Bw", "CA")]  # 7 and 8
    has = {"memberEpoch": 3, "assignedPartitions": [{"topicId": i, "partitions": [0]} for i in ids]}
    member = {"clientId": "c", "clientHost": "/h", "subscribedTopicNames": []}
    make_log(tmp_path, pair(5, ("g", "m"), member), pair(8, ("g", "m"), has))
    cluster = tmp_path / "__cluster_metadata-0"
    cluster.mkdir()
    said = [metadata.topic("orders", 7), metadata.topic("clicks", 8), metadata.remove_topic(8)]
    (cluster / f"{0:020}.log").write_bytes(metadata.log_of(said))
    (fields,) = rows(run_groups(tmp_path), "member")
    assert fields["assignment"] == {"clicks": [0], "orders": [0]}


def test_partitions_may_be_missing(tmp_path: Path) -> None:
    make_log(tmp_path, commit("billing", "t-0", 1), partition=17)
    (group,) = rows(run_groups(tmp_path, group="billing"), "group")
    assert group["offsets_partition"] == 17


def test_furthest_replica_is_replayed(tmp_path: Path) -> None:
    behind = make_log(tmp_path / "a", commit("g", "t-0", 1))
    make_log(tmp_path / "b", commit("g", "t-0", 1), commit("g", "t-0", 2))
    items = run_groups(tmp_path / "a", tmp_path / "b")
    assert codes(items) == ["replica-not-replayed"]
    assert next(item.path for item in items if isinstance(item, Finding)) == str(behind)
    assert [fields["offset"] for fields in rows(items, "committed-offset")] == [2]


def test_topic_and_partition_select_commits(tmp_path: Path) -> None:
    pairs = [commit("g", "orders-0", 1), commit("g", "orders-1", 2), commit("h", "clicks-0", 3)]
    make_log(tmp_path, *pairs)
    items = run_groups(tmp_path, topic="ord*")
    assert [fields["offset"] for fields in rows(items, "committed-offset")] == [1, 2]
    assert [fields["group"] for fields in rows(items, "group")] == ["g"]
    items = run_groups(tmp_path, partition=0)
    assert [fields["offset"] for fields in rows(items, "committed-offset")] == [1, 3]
    history = run_groups(tmp_path, topic="orders", partition=1, history=True)
    assert [fields["offset"] for fields in rows(history, "offset-commit")] == [2]


def test_group_name_may_contain_pattern_characters(tmp_path: Path) -> None:
    make_log(tmp_path, commit("g[1]", "t-0", 1), commit("g1", "t-0", 2))
    assert len(rows(run_groups(tmp_path, group="g[1]"), "group")) == 2


def test_missing_group_is_an_error(tmp_path: Path) -> None:
    write_partition(tmp_path, {0: batches(0, 9)})
    (item,) = run_groups(tmp_path)
    assert isinstance(item, NothingToDo)


def test_damage_findings_name_what_may_be_missing(tmp_path: Path) -> None:
    log = Log()
    for number in range(5):
        log.add(commit("g", f"t-{number}", number))
    batch = bytearray(log.batches[2])
    batch[-3] ^= 0x40
    log.batches[2] = bytes(batch)
    items = run_groups(log.write(tmp_path / "__consumer_offsets-0"))
    assert codes(items) == ["crc-mismatch", "replay-incomplete"]
    assert [fields["partition"] for fields in rows(items, "committed-offset")] == [0, 1, 3, 4]
    history = run_groups(tmp_path / "__consumer_offsets-0", history=True)
    assert codes(history) == ["crc-mismatch", "replay-incomplete"]
    assert [fields["partition"] for fields in rows(history, "offset-commit")] == [0, 1, 3, 4]
    incomplete = items[1]
    assert isinstance(incomplete, Finding)
    assert incomplete.offset == 2


def compacted(directory: Path) -> tuple[Path, int]:
    """A log whose offsets 1 to 4 the cleaner took; and the time before the last commit."""
    log = Log()
    log.add(commit("g", "t-0", 1))
    log.add(commit("h", "t-0", 2), skip=4)
    then_ms = log.now_ms
    log.add(commit("g", "t-1", 3), classic("g", 2))
    log.add(commit("g", "t-1", 4))
    return log.write(directory / "__consumer_offsets-0"), then_ms


def test_compacted_times_are_reported(tmp_path: Path) -> None:
    path, then_ms = compacted(tmp_path)
    assert codes(run_groups(path)) == []
    assert codes(run_groups(path, at_ms=then_ms - 1)) == ["replay-compacted"]
    assert codes(run_groups(path, at_ms=then_ms)) == []
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\n__consumer_offsets 0 9\n")
    assert codes(run_groups(path, at_ms=then_ms)) == ["replay-compacted"]
    assert codes(run_groups(path, at_ms=then_ms + 1000)) == ["replay-compacted"]
    assert codes(run_groups(path, at_ms=then_ms + 2000)) == []


def test_members_are_reported_only_from_complete_records(tmp_path: Path) -> None:
    path, _ = compacted(tmp_path)

    def counts() -> list[tuple[int, int | None]]:
        items = run_groups(path, history=True)
        assert codes(items) == ["replay-compacted"]
        found = rows(items, "offset-commit")
        return [(fields["source_offset"], fields["members_count"]) for fields in found]

    assert counts() == [(0, 0), (5, 0), (6, 0), (8, 2)]
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\n__consumer_offsets 0 8\n")
    assert counts() == [(0, 0), (5, None), (6, None), (8, 2)]


def test_holes_inside_a_batch_count(tmp_path: Path) -> None:
    log = Log()
    log.add(commit("g", "t-0", 1), commit("g", "t-0", 2), commit("g", "t-1", 3))
    log.add(commit("g", "t-0", 4))
    whole = log.batches[0]

    records = [
        builders.record(0, 0, *commit("g", "t-0", 1)),
        builders.record(2, 0, *commit("g", "t-1", 3)),
    ]
    log.batches[0] = builders.batch(records, last_offset_delta=2)
    assert len(log.batches[0]) < len(whole)
    items = run_groups(log.write(tmp_path / "__consumer_offsets-0"), history=True)
    found = rows(items, "offset-commit")
    assert [(one["source_offset"], one["members_count"]) for one in found] == [
        (0, 0), (2, None), (3, 0),
    ]  # fmt: skip


def test_history_covers_every_kind(tmp_path: Path) -> None:
    log = Log()
    log.add(classic("g", 2), commit("g", "t-0", 5))
    log.add(classic("g", 0))
    log.add(commit("g", "t-0", 0))
    log.add(commit("g", "t-0", 8), producer_id=3)
    log.add(commit("g", "t-1", 8), producer_id=4)
    log.end(4, committed=False)
    log.end(3, committed=True)
    ended_ms = log.now_ms
    log.add(commit("g", "t-0", None))
    items = run_groups(log.write(tmp_path / "__consumer_offsets-2"), history=True)
    names = ("previous_offset", "offset", "kind", "producer_id", "members_count", "source_offset")
    found = rows(items, "offset-commit")
    assert [tuple(map(fields.get, names)) for fields in found] == [
        (None, 5, "commit", None, 2, 1),
        (5, 0, "commit", None, 0, 3),
        (0, 8, "transaction", 3, 0, 4),
        (8, None, "tombstone", None, 0, 8),
    ]
    assert found[2]["at_ms"] == ended_ms
    assert {fields["offsets_partition"] for fields in found} == {2}


def test_empty_group_expires(tmp_path: Path) -> None:
    day_ms = 86_400_000
    state_ms = START_MS + 5000
    empty = classic("g", 0, currentStateTimestamp=state_ms)
    path = make_log(tmp_path, commit("g", "t-0", 1), empty, commit("simple", "t-0", 1))
    properties = tmp_path / "server.properties"
    properties.write_text("offsets.retention.minutes=60\n")

    def expiring(**asked: Any) -> list[int]:
        return [one["expire_ms"] for one in rows(run_groups(path, **asked), "committed-offset")]

    assert expiring() == [state_ms + 7 * day_ms, START_MS + 7 * day_ms]
    assert expiring(broker_version=(1, 1)) == [START_MS + day_ms, START_MS + day_ms]
    assert expiring(server_properties=str(properties)) == [
        state_ms + 3_600_000,
        START_MS + 3_600_000,
    ]


def test_offset_with_an_open_transaction_does_not_expire(tmp_path: Path) -> None:
    log = Log()
    log.add(commit("g", "t-0", 1))
    log.add(commit("g", "t-0", 2), producer_id=3)
    found = rows(run_groups(log.write(tmp_path / "__consumer_offsets-0")), "committed-offset")
    assert [(one["offset"], one["pending"], one["expire_ms"]) for one in found] == [
        (1, False, None), (2, True, None),
    ]  # fmt: skip


def test_topic_names_come_from_neighboring_files(tmp_path: Path) -> None:
    member = {"clientId": "c", "clientHost": "/h", "subscribedTopicNames": ["orders"]}
    ids = "A" * 21 + "Q", "A" * 21 + "g"
    assigned = [{"topicId": one, "partitions": [2, 1]} for one in ids]
    has = {"memberEpoch": 3, "assignedPartitions": assigned}
    make_log(
        tmp_path,
        pair(5, ("g", "m"), member),
        pair(3, ("g",), {"epoch": 3}),
        pair(6, ("g",), {"assignmentEpoch": 3}),
        pair(8, ("g", "m"), has),
    )
    orders = write_partition(tmp_path, {0: batches(0, 3)})
    (orders / "partition.metadata").write_text(f"version: 0\ntopic_id: {ids[0]}\n")
    items = run_groups(tmp_path)
    (member_fields,) = rows(items, "member")
    assert member_fields["assignment"] == {"orders": [1, 2], ids[1]: [1, 2]}
    (group,) = rows(items, "group")
    assert (group["state"], group["epoch"], group["assignment_epoch"]) == ("Stable", 3, 3)


@each(
    ("epoch", "assigned", "has", "state"),
    [
        (4, 3, {"memberEpoch": 3}, "Assigning"),
        (3, 3, {"memberEpoch": 2}, "Reconciling"),
        (3, 3, {"memberEpoch": 3, "state": 1}, "Reconciling"),
        (3, 3, None, "Reconciling"),
        (3, 3, {"memberEpoch": 3}, "Stable"),
    ],
)
def test_state_follows_from_epochs(
    epoch: int, assigned: int, has: dict[str, int] | None, state: str, tmp_path: Path
) -> None:
    make_log(
        tmp_path,
        pair(5, ("g", "m"), {"clientId": "c", "clientHost": "/h", "subscribedTopicNames": []}),
        pair(3, ("g",), {"epoch": epoch}),
        pair(6, ("g",), {"assignmentEpoch": assigned}),
        *([pair(8, ("g", "m"), has)] if has else []),
    )
    (group,) = rows(run_groups(tmp_path), "group")
    assert group["state"] == state


@pytest.mark.parametrize(("topology", "state"), [(False, "NotReady"), (True, "Stable")])
def test_streams_group_without_topology_is_not_ready(
    topology: bool, state: str, tmp_path: Path
) -> None:
    part = {"subtopologyId": "0", "sourceTopics": ["lines"]}
    make_log(
        tmp_path,
        pair(19, ("g", "m"), {"clientId": "c", "clientHost": "/h", "processId": "p"}),
        pair(17, ("g",), {"epoch": 3}),
        pair(20, ("g",), {"assignmentEpoch": 3}),
        pair(22, ("g", "m"), {"memberEpoch": 3, "state": 1}),
        *([pair(23, ("g",), {"epoch": 0, "subtopologies": [part]})] if topology else []),
    )
    items = run_groups(tmp_path)
    assert rows(items, "group")[0]["state"] == state
    (member,) = rows(items, "member")
    assert member["subscription"] == (["lines"] if topology else [])


def test_a_named_segment_is_replayed_alone(tmp_path: Path) -> None:
    path = make_log(tmp_path, commit("g", "t-0", 1))
    (found,) = rows(run_groups(path / f"{0:020}.log"), "committed-offset")
    assert found["offset"] == 1


@pytest.mark.parametrize("history", [False, True])
def test_unreadable_partition_is_an_error(history: bool, tmp_path: Path) -> None:
    path = make_log(tmp_path, commit("g", "t-0", 1))
    make_log(tmp_path, commit("h", "t-0", 1), partition=1)
    (path / f"{0:020}.log").unlink()
    (path / f"{0:020}.log").mkdir()
    items = run_groups(tmp_path, history=history)
    assert any(isinstance(item, KdumpError) for item in items)
    assert any(isinstance(item, Row) and item.fields["group"] == "h" for item in items)


# A short run takes those that reach what the others do not.
@pytest.mark.parametrize("seed", range(15) if LONG else (1, 4, 5, 10, 11, 12, 13))
def test_damaged_files_are_survived(seed: int, tmp_path: Path) -> None:
    """Every partition of the sample with bytes changed, taken out and put in."""
    draw = random.Random(seed)
    shutil.copytree(SAMPLE, tmp_path, dirs_exist_ok=True)
    for path in sorted(tmp_path.rglob("*.log")):
        data = bytearray(path.read_bytes())
        for _ in range(draw.choice((0, 1, 3, 20))):
            at = draw.randrange(len(data))
            data[at : at + draw.choice((0, 1, 1, 9))] = draw.randbytes(draw.choice((1, 1, 1, 9)))
        path.write_bytes(data)
    for asked in ({}, {"history": True}, {"at_ms": 1_795_350_100_000}, {"group": "billing"}):
        for item in run_groups(tmp_path / "d1", tmp_path / "d2", **asked):
            if isinstance(item, Row):
                assert item.fields["group"] is not None
