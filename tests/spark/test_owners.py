"""Rows know their broker, cluster and file; what a frame leaves out by partition and time."""

import json
import os
import shutil
from collections import defaultdict
from pathlib import Path

import pytest
from directories import CLUSTER, DataDirectory, identifier
from fleet import BROKERS, OFFSETS, PARTITIONS, REPLICAS, make_fleet
from metadata_log import log_of, topic
from offsets_log import Log, commit
from view_rows import view_rows

from kdump.errors import UsageError
from kdump.spark.clusters import clusters_of
from kdump.spark.scope import Scope

pytestmark = pytest.mark.filterwarnings("ignore:.*records are omitted")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return make_fleet(tmp_path_factory.mktemp("fleet"))


@pytest.mark.parametrize("view", ["records", "batches", "index-entries", "segments", "findings"])
def test_each_row_knows_its_broker(fleet: list[Path], view: str) -> None:
    rows = view_rows(view, fleet)
    nodes = {str(path): node for node, path in enumerate(fleet)}
    assert {row["cluster_id"] for row in rows} == {CLUSTER}
    for row in rows:
        assert row["node_id"] == nodes[row["data_directory"]], row
        assert row["path"].startswith(row["data_directory"])
        if view != "findings":
            status = Path(row["path"]).stat()
            assert row["file_size"] == status.st_size
            changed = row["file_modification_time"].timestamp()
            assert round(changed * 1000) == status.st_mtime_ns // 1_000_000
    seen = {row["node_id"] for row in rows}
    assert seen == ({1, 3, 6} if view == "findings" else set(range(BROKERS)))


def test_segments(fleet: list[Path]) -> None:
    rows = view_rows("segments", [fleet[0]])
    found = {(row["topic"], row["partition"]): [] for row in rows}  # type: ignore[var-annotated]
    for row in rows:
        name = f"{row['topic']}-{row['partition']}/{row['segment']:020}.log"
        assert row["path"] == str(fleet[0] / name)
        found[row["topic"], row["partition"]].append(
            (row["segment"], row["next_segment"], row["closed"])
        )
    assert found["orders", 0] == [(0, 10, True), (10, None, False)]
    first = next(row for row in rows if row["path"].endswith(f"orders-0/{0:020}.log"))
    assert (first["first_ms"], first["last_ms"]) == (1_700_000_000_001, 1_700_000_000_009)


def test_sums_of_partitions(fleet: list[Path]) -> None:
    rows = view_rows("summary", fleet)
    found = {(row["node_id"], row["topic"], row["partition"]): row for row in rows}
    assert len(found) == len(rows) == 15 + 5 + 3
    sound, damaged = found[0, "orders", 0], found[1, "orders", 1]
    assert (sound["segments"], sound["batches"], sound["records_count"]) == (2, 10, 20)
    assert sound["bytes"] == sum(log.stat().st_size for log in Path(sound["path"]).glob("*.log"))
    assert json.loads(sound["findings"]) == {"damage": 0, "rebuild": 0, "note": 0}
    assert json.loads(damaged["codes"]) == {"crc-mismatch": 1}


def test_offsets_by_partition(fleet: list[Path]) -> None:
    scope = Scope({"orders": {0: 15, 1: None}}, {"orders": {0: 18, 2: 4}})
    found = defaultdict[int, set[int]](set)
    healthy = [fleet[node] for node in (0, 2, 4)]
    for row in view_rows("records", healthy, scope=scope, columns=("topic", "partition", "offset")):
        if row["topic"] == "orders":
            found[row["partition"]].add(row["offset"])
    whole = set(range(20))
    assert found == {0: {15, 16, 17}, 1: whole, 2: set(range(4)), 3: whole, 4: whole}
    with pytest.raises(UsageError, match="name orders-9, which is not one of"):
        view_rows("batches", healthy, scope=Scope({"orders": {9: 0}}))


def test_files_by_time(fleet: list[Path]) -> None:
    new = fleet[0] / "orders-0" / f"{10:020}.log"
    os.utime(new, (2_000_000_000, 2_000_000_000))
    scope = Scope(modified_after_ms=1_999_999_999_999)
    for view in ("records", "batches", "segments"):
        assert {row["path"] for row in view_rows(view, fleet, scope=scope)} == {str(new)}
    later = Scope(modified_after_ms=2_000_000_000_000)
    assert view_rows("segments", fleet, scope=later) == []


def test_replicas_of_a_fleet_are_one_cluster(fleet: list[Path]) -> None:
    rows = [row for row in view_rows("groups", fleet) if row["row"] == "committed-offset"]
    found = {(row["partition"], row["offset"], row["lag"]) for row in rows}
    assert found == {(0, 7, 13), (1, 20, 0), (2, 12, 8)}
    assert {(row["cluster_id"], row["node_id"]) for row in rows} == {(CLUSTER, None)}
    alone = view_rows("groups", [fleet[4]])
    assert {(row["node_id"], row["data_directory"]) for row in alone} == {(4, str(fleet[4]))}
    assert len({row["path"] for row in view_rows("records", fleet, columns=["path"])}) > (
        PARTITIONS * REPLICAS
    )


def test_directories_without_a_cluster_id_are_grouped(tmp_path: Path) -> None:
    """By topic ids, of which a metadata log has some; the others each by itself."""
    for name, topic_id in (("a1", 7), ("a2", 7), ("b1", 9), ("named", 11), ("lost", 11)):
        made = DataDirectory(tmp_path / name)
        made.partition("orders", 0, topic_id=topic_id)
        if name != "named":
            made.meta.unlink()
    for name in ("old1", "old2"):
        DataDirectory(tmp_path / name).meta.unlink()
        (tmp_path / name / "orders-0").mkdir()
        shutil.copy(tmp_path / f"a1/orders-0/{0:020}.log", tmp_path / name / "orders-0")
    controller = tmp_path / "controller" / "__cluster_metadata-0"
    controller.mkdir(parents=True)
    (controller / f"{0:020}.log").write_bytes(log_of([topic("orders", 9)]))
    found = {
        frozenset(Path(path).name for path in one.paths): (
            one.cluster_id,
            one.directory and Path(one.directory).name,
        )
        for one in clusters_of(str(path) for path in sorted(tmp_path.iterdir()))
    }
    assert found == {
        frozenset(("a1", "a2")): (None, "a1"),
        frozenset(("b1", "controller")): (None, "b1"),
        frozenset(("named", "lost")): (CLUSTER, None),
        frozenset(("old1",)): (None, "old1"),
        frozenset(("old2",)): (None, "old2"),
    }


def test_unnamed_replicas_are_not_merged(tmp_path: Path) -> None:
    for name, offset in (("x", 5), ("y", 9)):
        log = Log()
        log.add(commit("billing", "orders-0", offset))
        at = tmp_path / name / OFFSETS
        at.mkdir(parents=True)
        (at / f"{0:020}.log").write_bytes(b"".join(log.batches))
    rows = view_rows("groups", [tmp_path / "x", tmp_path / "y"])
    found = {
        (row["data_directory"], row["offset"]) for row in rows if row["row"] == "committed-offset"
    }
    assert found == {(str(tmp_path / "x"), 5), (str(tmp_path / "y"), 9)}


def test_directory_between_two_clusters_is_kept_apart(tmp_path: Path) -> None:
    """It has topics of both, as after a copy by hand: no reason to take them for one."""
    for name, topic_ids in (("a", [7]), ("between", [7, 8]), ("b", [8])):
        made = DataDirectory(tmp_path / name)
        for number in topic_ids:
            made.partition(f"t{number}", 0, topic_id=number)
        text = made.meta.read_text()
        made.meta.write_text(text.replace(CLUSTER, identifier(len(name) + ord(name[0]))))
    (tmp_path / "between" / "meta.properties").unlink()
    found = [(one.cluster_id, len(one.paths)) for one in clusters_of(map(str, tmp_path.iterdir()))]
    assert sorted(found, key=str) == sorted(
        [(identifier(98), 1), (identifier(99), 1), (None, 1)], key=str
    )
