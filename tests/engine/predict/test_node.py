"""Whether a node starts, against what real brokers did with the same directories.

`tests/broker/nodes` has nodes that brokers of four versions left, and what came of starting each
after one thing about it was changed: over 1,000 starts.
"""

import json
import os
import random
import re
import resource
import shutil
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import odd_nodes
import pytest
from broken_nodes import TABLE, Fault
from long_runs import LONG, SEED
from node_starts import NODES, is_same_sentence, read_rare_starts, unpack_node

from kdump.broker.node_directories import User
from kdump.broker.node_settings import REFUSES, STARTS, UNKNOWN
from kdump.broker.versions import read_version
from kdump.engine.predict import node as starting
from kdump.engine.predict.node import finding_of, node_start, user_of
from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.predict import node_rows
from kdump.replay.releases import Releases

_OF = 1 if LONG else 6
_ALL = [(broken, version) for broken in (*TABLE, *odd_nodes.TABLE) for version in broken.versions]
_RARE = read_rare_starts("node")
#: ZooKeeper's own cluster id decides; it is said that this is not known.
_IN_ZOOKEEPER = {("meta other cluster", "2.8.2"), ("meta cluster empty", "2.8.2")}


@cache
def read_recorded() -> dict[tuple[str, str], tuple[str, str | None]]:
    lines = map(json.loads, (NODES / "starts.jsonl").read_text().splitlines())
    return {(at["node"], at["version"]): (at["outcome"], at["sentence"]) for at in lines}


@pytest.mark.parametrize(
    ("broken", "version"),
    [
        pytest.param(broken, version, id=f"{broken.file_name}-{version}")
        for number, (broken, version) in enumerate(_ALL)
        if number % _OF == SEED % _OF or (broken.name, version) in _RARE
    ],
)
def test_prediction_of_a_node_matches_the_broker(
    broken: Fault, version: str, tmp_path: Path
) -> None:
    if broken.needs_root and os.geteuid() != 0:
        pytest.skip("only root gives files to others")
    node = unpack_node(version, broken.directories, tmp_path / "node")
    broken.change(node)
    # The recorded broker was root, without the rights that root has over all files.
    user = User(0, frozenset({0}), is_root=False) if node.run_before else None
    try:
        facts = node_start(
            [], read_version(version), server_properties=str(node.server_properties), user=user
        )
    finally:
        node.release()
    outcome, sentence = read_recorded()[broken.name, version]
    refused = [fact for fact in facts if fact.outcome == REFUSES]
    if (broken.name, version) in _IN_ZOOKEEPER:
        assert (outcome, refused) == (REFUSES, [])
        assert any(fact[:2] == (UNKNOWN, "zookeeper") for fact in facts)
        return
    assert bool(refused) == (outcome == REFUSES), facts
    if sentence is None:
        assert facts[0].outcome == STARTS
    else:
        assert is_same_sentence(
            refused[0].message, [re.sub("@(?=/)", str(tmp_path / "node"), sentence)]
        )
        assert refused[0].remedy


def test_table_has_enough_nodes_that_fail_to_start() -> None:
    outcomes = read_recorded()
    for version in ("4.4.0", "4.1.1", "2.8.2", "0.10.2.2"):
        mine = [outcome for (_, at), (outcome, _) in outcomes.items() if at == version]
        assert mine.count(REFUSES) >= (80 if version.startswith("4.") else 35)
    assert len({name for (name, _), (outcome, _) in outcomes.items() if outcome == REFUSES}) >= 120


def test_facts_without_settings_come_from_directories(tmp_path: Path) -> None:
    node = unpack_node("4.4.0", 1, tmp_path / "node")
    facts = node_start([str(node.first)], None)
    assert [fact[:2] for fact in facts] == [(STARTS, "none"), (UNKNOWN, "settings")]
    (node.first / "meta.properties").unlink()
    facts = node_start([str(node.first)], None)
    assert facts[0][:2] == (REFUSES, "meta-missing")


def test_settings_apply_to_a_copy_of_the_directories(tmp_path: Path) -> None:
    node = unpack_node("4.4.0", 1, tmp_path / "node")
    node.settings["node.id"] = "99"
    node.settings["controller.quorum.voters"] = "99@127.0.0.1:9093"
    node.write_settings()
    copy = tmp_path / "copy"
    node.first.rename(copy)
    facts = node_start([str(copy)], (4, 4), server_properties=str(node.server_properties))
    assert facts[0][:2] == (REFUSES, "node-id")
    assert str(copy) in facts[0].message


def test_old_node_needs_its_version(tmp_path: Path) -> None:
    node = unpack_node("2.8.2", 1, tmp_path / "node")
    assert [fact[:2] for fact in node_start([str(node.first)], None)] == [(UNKNOWN, "version")]
    assert node_start([str(node.first)], (2, 8, 2))[0].outcome == STARTS
    # A KRaft-only release finds no id of the cluster in what 0.10 wrote.
    old = unpack_node("0.10.2.2", 1, tmp_path / "old")
    assert node_start([str(old.first)], (4, 4))[0][:2] == (REFUSES, "cluster-id")


def test_users_have_a_name_or_a_number() -> None:
    assert user_of("root").is_root
    assert user_of("54321") == User(54321, frozenset(), is_root=False)
    with pytest.raises(ValueError, match="there is no user named"):
        user_of("nobody at all")


def room(**fields: int) -> SimpleNamespace:
    return SimpleNamespace(
        **{"f_frsize": 4096, "f_bavail": 9999, "f_files": 9999, "f_favail": 999} | fields
    )


@pytest.mark.parametrize(
    ("version", "left", "expected"),
    [
        ("4.4.0", room(), []),
        ("4.4.0", room(f_bavail=0), [UNKNOWN]),  # on some file systems it was seen to start
        ("0.10.2.2", room(f_bavail=0), [UNKNOWN]),
        ("0.10.2.2", room(f_favail=0), [REFUSES]),
        ("4.1.1", room(f_bavail=9), [UNKNOWN]),
        ("4.1.1", room(f_files=0, f_favail=0), []),  # a file system that has no inodes
    ],
)
def test_full_disk_prevents_the_start(
    version: str, left: object, expected: list[str], tmp_path: Path, monkeypatch: Any
) -> None:
    node = unpack_node(version, 1, tmp_path / "node")
    monkeypatch.setattr(os, "statvfs", lambda _: left)
    facts = node_start([], read_version(version), server_properties=str(node.server_properties))
    assert [fact.outcome for fact in facts if fact.cause == "space"] == expected


def test_open_file_limit_prevents_the_start(tmp_path: Path, monkeypatch: Any) -> None:
    node = unpack_node("4.4.0", 1, tmp_path / "node")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (3, 3))
    facts = node_start([str(node.first)], None)
    assert (UNKNOWN, "open-files") in [fact[:2] for fact in facts]


def test_long_path_prevents_the_start(tmp_path: Path, monkeypatch: Any) -> None:
    node = unpack_node("4.4.0", 1, tmp_path / "node")
    longest = len(str(node.first / "__cluster_metadata-0"))
    for most, expected in ((longest + 39, [UNKNOWN]), (longest + 40, [])):
        monkeypatch.setattr(os, "pathconf", lambda *_, most=most: most)
        facts = node_start([str(node.first)], None)
        assert [fact.outcome for fact in facts if fact.cause == "path-length"] == expected


def test_only_controller_without_its_log_loses_everything(tmp_path: Path) -> None:
    node = unpack_node("4.4.0", 1, tmp_path / "node")
    shutil.rmtree(node.metadata)
    facts = node_start([], (4, 4), server_properties=str(node.server_properties))
    lost = next(fact for fact in facts if fact.cause == "metadata-lost")
    assert lost.outcome == STARTS
    found = finding_of(lost)
    assert found is not None
    assert found.code == "start-loses-records"
    # Nothing tells that it is the only one where no settings say so.
    assert "metadata-lost" not in [fact.cause for fact in node_start([str(node.first)], (4, 4))]


@pytest.mark.parametrize("version", ["4.4.0", "2.8.2", "0.10.2.2"])
def test_random_bytes_in_any_file_are_survived(version: str, tmp_path: Path) -> None:
    rng = random.Random(f"{SEED} {version}")
    node = unpack_node(version, 1, tmp_path / "node")
    files = [path for path in sorted(node.first.rglob("*")) if path.is_file()]
    small = [path for path in files if path.stat().st_size < 20_000]
    small.append(node.server_properties)
    for _ in range(2000 if _OF == 1 else 60):
        path = rng.choice(small)
        before = path.read_bytes()
        data = bytearray(before or b"0")
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(len(data))
            data[at : at + rng.randrange(4)] = rng.randbytes(rng.randrange(4)) or b"0"
            data = data or bytearray(b"\0")
        path.write_bytes(bytes(data[: rng.choice((len(data), rng.randrange(len(data) + 1)))]))
        for settings in (str(node.server_properties), None):
            facts = node_start([str(node.first)], read_version(version), server_properties=settings)
            assert facts
            assert all(fact.outcome in (STARTS, REFUSES, UNKNOWN) for fact in facts)
        path.write_bytes(before)


def test_special_files_do_not_hang(tmp_path: Path) -> None:
    node = unpack_node("4.4.0", 1, tmp_path / "node")
    for path in (node.first / "meta.properties", node.metadata / "quorum-state",
                 node.first / "recovery-point-offset-checkpoint"):  # fmt: skip
        before = path.read_bytes()
        path.unlink()
        os.mkfifo(path)
        assert node_start([str(node.first)], (4, 4))
        path.unlink()
        path.symlink_to(path)
        assert node_start([str(node.first)], (4, 4))
        path.unlink()
        path.write_bytes(before)


def test_obstacles_are_listed_in_broker_order(tmp_path: Path) -> None:
    node = unpack_node("4.4.0", 2, tmp_path / "node", full=True)
    (node.second / "lost+found").mkdir()
    (node.metadata / "quorum-state").write_text("")
    node.write_meta({"node.id": "4"}, node.second)
    facts = node_start([], (4, 4), server_properties=str(node.server_properties))
    refused = [(fact.cause, fact.remedy or "") for fact in facts if fact.outcome == REFUSES]
    assert [cause for cause, _ in refused] == ["node-id", "quorum-state", "name"]
    assert f"{node.second} belongs to node 4, and this is node 1." in refused[0][1]
    assert "a directory below the mount" in refused[2][1]


def test_a_node_is_looked_at_again_only_where_the_oldest_release_may_differ(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[int, ...] | None] = []

    def counted(paths: list[str], broker: tuple[int, ...] | None, **words: Any) -> Any:
        asked.append(broker)
        return node_start(paths, broker, **words)

    monkeypatch.setattr(starting, "node_start", counted)
    sample = Path(__file__).parents[3] / "sample-data/clean/4.4.0/d1"
    for first, last, times in (((4, 4), (4, 4), 1), ((2, 8), (3, 6), 1), ((3, 7), (4, 4), 2)):
        releases = Releases(None)
        monkeypatch.setattr(releases, "range_of", lambda _, ends=(first, last): ends)
        asked.clear()
        assert list(node_rows([str(sample)], VerifyOptions(), releases, []))
        assert asked == [last, first][:times]


def test_other_broker_id_of_an_old_node_is_told_in_its_words(tmp_path: Path) -> None:
    node = unpack_node("2.8.2", 1, tmp_path / "node")
    node.settings["broker.id"] = "77"
    node.write_settings()
    fact = node_start([], (2, 8, 2), server_properties=str(node.server_properties))[0]
    assert fact[:2] == (REFUSES, "node-id")
    assert fact.message == (
        "Configured broker.id 77 doesn't match stored broker.id Some(1) in meta.properties. If you "
        "moved your data, make sure your configured broker.id matches. If you intend to create a "
        "new broker, you should remove all data in your data directories (log.dirs)."
    )
