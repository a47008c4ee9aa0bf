"""Who should lead of replicas as three real nodes left them, and of some made by hand."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import builders
import declared_rows
import pytest

from kdump.engine.compare import elect as elect_module
from kdump.engine.compare.commands import _rank
from kdump.engine.compare.elect import elect
from kdump.engine.compare.plan import CompareOptions
from kdump.engine.compare.start_order import StartOrder
from kdump.engine.work.pipeline import Workers
from kdump.errors import NothingToDo, PathError
from kdump.findings.rows import Row
from kdump.output.elect_table import ElectTable
from kdump.output.report import Page
from kdump.rows.compare import ElectSummary, ReplicaElection
from kdump.storage.targets import Selection

NODES = Path(__file__).parents[3] / "sample-data/damaged/4.4.0-three-nodes"
METADATA = "__cluster_metadata-0"
Json = dict[str, Any]


def rows(*paths: Path, topic: str | None = None) -> list[Json]:
    options = CompareOptions(selection=Selection(topic=topic), elect=True)
    found = list(elect([str(path) for path in paths], options))
    assert all(isinstance(row, Row) for row in found), found
    return [json.loads(json.dumps(row.fields)) for row in found]  # type: ignore[union-attr]


def all_nodes() -> list[Path]:
    return sorted(NODES.iterdir())


def choices(fields: Json, *members: str) -> list[tuple[object, ...]]:
    return [tuple(one[member] for member in members) for one in fields["choices"]]


def test_quorum() -> None:
    fields, summary = rows(*all_nodes(), topic="__cluster_metadata")
    assert (fields["rule"], fields["leader_node"], fields["voters_count"]) == ("raft", 1, 3)
    assert choices(fields, "last_epoch", "log_end", "records_lost", "electable") == [
        (4, 517, 0, True),
        (3, 498, 19, True),
        (3, 490, 27, False),
    ]
    lost = fields["choices"][1]
    assert [(span["leader_epoch"], span["first_offset"], span["last_offset"])
            for span in lost["lost"]] == [(3, 498, 503), (4, 504, 516)]  # fmt: skip
    assert lost["changes_lost"]["topic created"] == 3
    assert lost["changes_lost"]["ISR change"] == 6
    assert fields["advice"].startswith(
        "Start node 1 and node 2; start node 3 only when node 1 leads."
    )
    assert (summary["partitions"], summary["at_stake"], summary["rules"]) == (1, 1, {"raft": 1})


def test_shorter_logs_cannot_win_where_only_two_are_up() -> None:
    fields, _ = rows(*all_nodes()[:2], topic="__cluster_metadata")
    assert choices(fields, "node_id", "electable") == [(1, True), (2, False)]
    assert fields["advice"] == "Start node 1 and node 2: only node 1 can be elected."


def test_single_voter_is_no_majority() -> None:
    fields, _ = rows(all_nodes()[2], topic="__cluster_metadata")
    assert choices(fields, "node_id", "electable") == [(3, False)]
    assert fields["advice"].startswith("Of 3 voters 1 is here, too few")
    assert "Node 1, with an empty disk, must not lead" in fields["advice"]
    form, remove, copy, elect = fields["commands"]
    assert elect.endswith("--election-type UNCLEAN --all-topic-partitions")
    assert form == (
        "kafka-storage.sh format --cluster-id threeNodesAAAAAAAAAAAA --config "
        "controller-1.properties"
    )
    assert remove == f'rm -rf "${{METADATA_LOG_DIR_1:?}}"/{METADATA}'
    assert copy == f'cp -a {NODES / "n3" / METADATA} "${{METADATA_LOG_DIR_1:?}}"/{METADATA}'


def test_observer_log_does_not_count(tmp_path: Path) -> None:
    """It has the longest log, which has to be given to the voters."""
    shutil.copytree(NODES, tmp_path / "nodes")
    meta = tmp_path / "nodes/n1/meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=9"))
    fields, _ = rows(*sorted((tmp_path / "nodes").iterdir()), topic="__cluster_metadata")
    assert choices(fields, "node_id", "voter", "electable")[0] == (9, False, False)
    assert fields["leader_node"] == 9
    assert fields["advice"].startswith("Node 9 has the longest log, but is not a voter")
    moved = [command for command in fields["commands"] if command.startswith("mv ")]
    assert len(moved) == 2
    assert all(command.endswith(".metadata-before") for command in moved)


def test_newer_snapshot_replaces_the_log(tmp_path: Path) -> None:
    shutil.copytree(NODES, tmp_path / "nodes")
    log = tmp_path / "nodes/n3" / METADATA
    shutil.copyfile(log / f"{0:020}-{0:010}.checkpoint", log / f"{600:020}-{5:010}.checkpoint")
    fields, _ = rows(*sorted((tmp_path / "nodes").iterdir()), topic="__cluster_metadata")
    assert choices(fields, "last_epoch", "log_start", "log_end")[2] == (5, 600, 600)
    assert fields["leader_node"] == 3
    assert choices(fields, "records_lost") == [(83,), (83 + 19,), (0,)]


def test_newest_log_is_not_called_the_longest() -> None:
    """A replica that led after an unclean election has a newer epoch, and fewer records."""
    best, other = ({"log_end": end} for end in (950, 1200))
    row = SimpleNamespace(choices=[best, other])
    assert _rank(cast("Any", row), cast("Any", best)) == "the log of the newest epoch"
    assert _rank(cast("Any", row), cast("Any", other)) == "the longest log"


def test_partitions() -> None:
    *found, summary = rows(*all_nodes(), topic="t*")
    assert [
        (one["topic"], one["partition"], one["rule"], one["leader_node"], one["isr"])
        for one in found
    ] == [
        ("t10", 1, "in-sync", 1, [1, 2, 3]),
        ("t13", 1, "in-sync", 2, [1, 2, 3]),
        ("t27", 1, "in-sync", 2, [1, 2, 3]),
    ]
    assert choices(found[1], "last_epoch", "log_end", "records_lost", "in_sync") == [
        (1, 22, 11, True),
        (1, 33, 0, True),
        (None, 0, 33, True),
    ]
    (command,) = found[0]["commands"]
    assert command.endswith("--election-type UNCLEAN --topic t10 --partition 1")
    assert summary["rules"] == {"in-sync": 3}
    assert [(one["records_at_stake"], one["records_lost_alone"]) for one in found] == [
        tuple(
            max(each["records_lost"] for each in one["choices"] if every or each["in_sync"])
            for every in (True, False)
        )
        for one in found
    ]
    assert (found[1]["records_at_stake"], found[1]["any_may_lead"]) == (33, False)


def test_workers_give_the_same() -> None:
    options, paths = CompareOptions(elect=True), list(map(str, all_nodes()))
    ours = list(elect(paths, options))[:-1]
    assert list(elect(paths, options, driver=Workers(2)))[:-1] == ours


def test_concurrently_deleted_segments_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    real, failed = elect_module._candidates, []

    def candidates(item: Any, *rest: Any) -> Any:
        if not failed:
            failed.append(item.paths[0])
            raise PathError(f"{item.paths[0]}/{0:020}.log", "No such file or directory")
        return real(item, *rest)

    monkeypatch.setattr(elect_module, "_candidates", candidates)
    (found, *_) = rows(*all_nodes())
    assert failed
    assert found["choices"]


def test_single_replica_is_elected() -> None:
    (error, _) = elect([str(all_nodes()[0])], CompareOptions(Selection(topic="t13"), elect=True))
    assert isinstance(error, NothingToDo)


def write_replica(directory: Path, log: list[tuple[int, int]], *, checkpoint: bool = True) -> Path:
    """Write a replica of one record a batch: (leader epoch, offset)."""
    partition = directory / "orders-0"
    partition.mkdir(parents=True)
    data = b"".join(
        builders.batch([builders.record(0, 0, b"k", b"v")], base_offset=offset, leader_epoch=epoch)
        for epoch, offset in log
    )
    (partition / f"{0:020}.log").write_bytes(data)
    if checkpoint:
        starts = dict(reversed(log))
        lines = [f"{epoch} {starts[epoch]}" for epoch in sorted(starts)]
        text = "\n".join(["0", str(len(lines)), *lines]) + "\n"
        (partition / "leader-epoch-checkpoint").write_text(text)
    return directory


@pytest.mark.parametrize("checkpoint", [True, False])
def test_diverged_histories_are_reported(tmp_path: Path, checkpoint: bool) -> None:
    """The longer log was led by who did not lead any more: its last three records are lost."""
    common = [(0, offset) for offset in range(10)]
    old = write_replica(tmp_path / "a", [*common, (0, 10), (0, 11), (0, 12)], checkpoint=checkpoint)
    new = write_replica(tmp_path / "b", [*common, (2, 10), (2, 11)], checkpoint=checkpoint)
    fields, _ = rows(old, new)
    assert fields["rule"] == "longest-log"
    assert fields["leader"] == str(new / "orders-0")
    assert choices(fields, "log_end", "last_epoch", "records_lost") == [(13, 0, 2), (12, 2, 3)]
    lost = fields["choices"][1]["lost"][0]
    assert (lost["leader_epoch"], lost["first_offset"], lost["last_offset"]) == (0, 10, 12)
    assert "The in-sync replicas are unknown: there is no metadata log here." in fields["advice"]


def test_records_of_two_followers_are_lost_once(tmp_path: Path) -> None:
    log = [(1, offset) for offset in range(8)]
    a, b, c = (
        write_replica(tmp_path / name, log[:end]) for name, end in (("a", 8), ("b", 7), ("c", 2))
    )
    fields, _ = rows(a, b, c)
    assert choices(fields, "records_lost") == [(0,), (1,), (6,)]


def test_torn_tail_is_not_counted(tmp_path: Path) -> None:
    """What a start cuts off makes no log longer."""
    log = [(1, offset) for offset in range(8)]
    torn, short = write_replica(tmp_path / "a", log), write_replica(tmp_path / "b", log[:7])
    path = torn / "orders-0" / f"{0:020}.log"
    (torn / "meta.properties").write_text("version=1\nnode.id=4\ncluster.id=c\n")
    path.write_bytes(path.read_bytes()[:-80])
    fields, _ = rows(torn, short)
    assert choices(fields, "log_end", "records_lost") == [(6, 1), (7, 0)]


def test_identical_replicas_have_nothing_at_stake(tmp_path: Path) -> None:
    log = [(1, offset) for offset in range(8)]
    fields, summary = rows(write_replica(tmp_path / "a", log), write_replica(tmp_path / "b", log))
    assert not fields["at_stake"]
    assert fields["any_may_lead"]
    assert summary["any_may_lead"] == 1
    assert fields["commands"] == []
    assert summary["at_stake"] == 0


def test_nodes_have_one_start_order() -> None:
    """The quorum first; of partitions that ask for different nodes what is lost is named."""
    *found, summary = rows(*all_nodes())
    order = summary["start_order"]
    assert order["steps"] == [["node 1", "node 2"], ["node 3"]]
    assert [(one["topic"], one["records_lost"]) for one in order["losing"]] == [
        ("t10", 51),
        ("t27", 43),
        ("t13", 11),
    ]
    assert (order["records_lost"], order["records_at_stake"]) == (105, 127)
    assert order["commands"][0].startswith("kdump salvage --topic t10 --partition 1 --out ")
    advice = [one["advice"] for one in found if one["rule"] != "raft"]
    assert not any(" first" in text for text in advice)
    *_, alone = rows(*all_nodes(), topic="t13")
    assert alone["start_order"] is None


def election(number: int, best: str, lost: dict[str, int], **members: object) -> ReplicaElection:
    """Make a row of a partition: what is lost with each node."""
    choices = [
        {
            "path": f"/{node}/t-{number}",
            "broker_version": "4.4",
            "node_id": int(node),
            "records_lost": count,
            "refused": None,
            "in_sync": True,
            **members,
        }
        for node, count in lost.items()
    ]
    row = declared_rows.make_row(
        "replica-election",
        topic="t",
        partition=number,
        rule="in-sync",
        leader=f"/{best}/t-{number}",
        at_stake=any(lost.values()),
        any_may_lead=not any(lost.values()),
        records_at_stake=max(lost.values()),
        choices=choices,
    )
    assert isinstance(row, ReplicaElection)
    return row


def test_start_order_loses_the_fewest_records() -> None:
    order = StartOrder(())
    order.add(election(0, "1", {"1": 0, "2": 100, "3": 100}))
    order.add(election(1, "2", {"1": 5, "2": 0}))
    order.add(election(2, "3", {"2": 7, "3": 0}))
    order.add(election(3, "4", {"4": 0, "5": 0}))
    order.add(election(4, "1", {"1": 0, "2": 9}, in_sync=False))
    fields: Json = order.fields()
    assert fields["steps"] == [["node 1"], ["node 3"], ["node 2", "node 4", "node 5"]]
    assert (fields["records_lost"], fields["losing_count"]) == (5, 1)
    assert (fields["partitions_equal"], fields["by_hand_count"]) == (1, 1)


def test_any_start_order_without_risk() -> None:
    order = StartOrder((1, 2, 3))
    order.add(election(0, "1", {"1": 0, "2": 0, "3": 0}))
    assert (order.fields()["steps"], order.fields()["partitions_equal"]) == ([], 1)


def test_voting_brokers_start_with_a_majority() -> None:
    order = StartOrder((1, 2, 3))
    order.add(election(0, "2", {"1": 8, "2": 0, "3": 4}))
    fields: Json = order.fields()
    assert fields["steps"] == [["node 2", "node 3"], ["node 1"]]
    (one,) = fields["losing"]
    assert (one["may_lead"], one["records_lost"]) == (["node 2", "node 3"], 4)


def test_table_lists_important_partitions_and_counts_the_rest() -> None:
    written: list[bytes] = []
    table = ElectTable(Page(written.append), quiet=False)
    order = StartOrder(())
    for number, lost in enumerate((0, 3, 70, 0, *(1 for _ in range(20)))):
        row = election(
            number, "1", {"1": 0, "2": lost}, log_start=0, log_end=9, last_epoch=0, voter=None
        )
        for choice in row.choices:
            choice["changes_lost"] = None
        row = row.replaced(leader_node=1, advice="-")
        order.add(row)
        table.write(row)
    summary = {"partitions": 24, "at_stake": 22, "any_may_lead": 2, "start_order": order.fields()}
    table.write(ElectSummary(**summary))
    text = b"".join(written).decode()
    heads = [line.partition(" ")[0] for line in text.splitlines() if " \u2192 node" in line]
    assert heads[:2] == ["t-2", "t-1"]
    assert len(heads) == 20
    assert "2 more partitions with up to 2 records at stake" in text
    assert "2 partitions: any replica may lead." in text
    assert "    1. node 1\n    2. node 2\n" in text
