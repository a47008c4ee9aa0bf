"""Whose data directories are, told by their own files: without settings, and without a flag."""

import shutil
from pathlib import Path

import pytest
from directories import CLUSTER, DataDirectory, findings
from node_starts import unpack_node

SAMPLES = Path(__file__).parents[3] / "sample-data"
NODE = SAMPLES / "clean/4.1.1"


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    directory = DataDirectory(tmp_path / "data")
    directory.partition("orders", 0)
    directory.partition("orders", 1)
    directory.stop()
    return directory


@pytest.fixture
def node(tmp_path: Path) -> Path:
    shutil.copytree(NODE, tmp_path / "node", ignore=shutil.ignore_patterns("*.log", "*.index"))
    return tmp_path / "node"


def run_check(*paths: Path) -> list[tuple[str, str, str]]:
    found = [one for one in findings(*paths) if one.code.startswith("meta-properties")]
    return [(one.code, one.severity.value, Path(one.path).parent.name) for one in found]


def test_node_without_meta_properties_is_damaged(data: DataDirectory) -> None:
    data.meta.unlink()
    assert run_check(data.path) == [("meta-properties-missing", "damage", "data")]


def test_copied_partitions_are_not_a_node(data: DataDirectory, tmp_path: Path) -> None:
    data.meta.unlink()
    assert not run_check(data.path / "orders-0")
    # Some of the partitions that the checkpoint names; or all of them without a broker's files.
    part = shutil.copytree(data.path, tmp_path / "part", ignore=shutil.ignore_patterns("orders-1"))
    assert not run_check(part)
    for name in (".kafka_cleanshutdown", "cleaner-offset-checkpoint"):
        (data.path / name).unlink()
    assert not run_check(data.path)


def test_zookeeper_broker_rewrites_the_file(tmp_path: Path) -> None:
    for version in ("2.4.1", "2.8.2"):
        old = unpack_node(version, 2, tmp_path / version, full=True)
        (old.second / "meta.properties").unlink()
        assert not run_check(old.first, old.second)
        (old.first / "meta.properties").unlink()
        assert not run_check(old.first, old.second)


@pytest.mark.parametrize("version", ["3.3.2", "4.4.0"])
def test_kraft_node_without_meta_properties_is_damaged(version: str, tmp_path: Path) -> None:
    node = unpack_node(version, 2, tmp_path / "node", full=True)
    for each in (node.first, node.second):
        assert not run_check(each)
        (each / "meta.properties").unlink()
        assert run_check(each) == [("meta-properties-missing", "damage", each.name)]


def node_with_lost_log(directory: Path) -> Path:
    """Give a directory of the same cluster whose metadata log has no records."""
    lost = directory.parent / "of" / "another" / "node"
    if not lost.exists():
        shutil.copytree(directory, lost, ignore=lambda folder, _: ["__cluster_metadata-0"])
        (lost / "__cluster_metadata-0").mkdir()
    return lost


def test_directory_of_another_node_is_reported(tmp_path: Path) -> None:
    other = DataDirectory(tmp_path / "of" / "a" / "node" / "elsewhere")  # without a metadata log
    other.partition("orders", 0)
    other.stop()
    node = unpack_node("4.4.0", 2, tmp_path / "node", full=True)
    assert not run_check(node.first, node.second)
    # The log knows the directory by its id, or at least who has its partitions.
    for changed in ({"node.id": "4"}, {"node.id": "4", "directory.id": "YSOz1jVZxxMsYtz3vOdPCA"}):
        node.write_meta(dict(changed), node.second)
        for paths in (
            (node.first, node.second),
            (other.path, node.second, node.first),
            (node_with_lost_log(node.first), node.first, node.second),
        ):
            assert run_check(*paths) == [("meta-properties-foreign", "damage", "d2")]
    node.write_meta({"node.id": "1", "cluster.id": CLUSTER}, node.second)
    assert run_check(node.first, node.second) == [("meta-properties-foreign", "damage", "d2")]
    # What is of another cluster altogether may well lie beside.
    for path in node.second.glob("*-*/partition.metadata"):
        path.write_text("version: 0\ntopic_id: YSOz1jVZxxMsYtz3vOdPCA")
    node.write_meta({"directory.id": "YSOz1jVZxxMsYtz3vOdPCA"}, node.second)
    assert not run_check(node.first, node.second)
    node.write_meta({"node.id": "99"}, node.first)
    assert run_check(node.first) == [("meta-properties-foreign", "damage", "d1")]


def test_nodes_of_one_cluster_are_not_foreign(node: Path) -> None:
    three = SAMPLES / "damaged/4.4.0-three-nodes"
    assert not run_check(*sorted(three.glob("n*")))
    assert not run_check(node / "d1", node / "d2")
