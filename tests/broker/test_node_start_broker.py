"""Real brokers started on nodes that are broken in one place, and on sound ones.

KDUMP_FUZZ=long starts all of the table (over 1,000 starts, an hour), and 200 sound nodes in chains:
stopped, killed, upgraded, taken over. The short profile draws some by KDUMP_FUZZ_SEED. Needs
`broker/` of KDUMP_SHARED.
"""

import os
import random
import shutil
import signal
from pathlib import Path

import odd_nodes
import pytest
from broken_nodes import TABLE, Fault
from broker_box import program
from long_runs import LONG, SEED
from node_starts import Node, is_same_sentence, start, unpack_node

from kdump.broker.node_directories import User
from kdump.broker.node_settings import REFUSES
from kdump.broker.versions import read_version
from kdump.engine.predict.node import node_start

pytestmark = pytest.mark.broker

_ALL = [(broken, version) for broken in (*TABLE, *odd_nodes.TABLE) for version in broken.versions]
_RNG = random.Random(SEED)
_DRAWN = _ALL if LONG else _RNG.sample([one for one in _ALL if one[1].startswith("4.")], 3)
_VERSIONS = ("4.4.0", "4.1.1", "2.8.2", "0.10.2.2") if LONG else ("4.4.0",)
_STARTS = 50 if LONG else 2
#: ZooKeeper's own cluster id decides, which lies nowhere here.
_IN_ZOOKEEPER = {("meta other cluster", "2.8.2"), ("meta cluster empty", "2.8.2")}


@pytest.fixture(autouse=True)
def _box() -> None:
    program()


@pytest.mark.parametrize(
    ("broken", "version"),
    [pytest.param(*each, id=f"{each[0].file_name}-{each[1]}") for each in _DRAWN],
)
def test_prediction_matches_the_start_of_the_broker(
    broken: Fault, version: str, tmp_path: Path
) -> None:
    if broken.needs_root and (os.geteuid() != 0 or shutil.which("capsh") is None):
        pytest.skip("needs root, and capsh to take its rights away")
    node = unpack_node(version, broken.directories, tmp_path / "node")
    broken.change(node)
    user = User(0, frozenset({0}), is_root=False) if node.run_before else None
    try:
        foretold = node_start(
            [], read_version(version), server_properties=str(node.server_properties), user=user
        )
        real = start(node)
    finally:
        node.release()
    refused = [fact for fact in foretold if fact.outcome == REFUSES]
    if (broken.name, version) in _IN_ZOOKEEPER:
        assert (real.outcome, refused) == (REFUSES, [])
        return
    assert bool(refused) == (real.outcome == REFUSES), (foretold, real.log[-3000:])
    if refused:
        assert is_same_sentence(refused[0].message, real.sentences), (
            refused[0],
            real.sentences[:3],
        )


@pytest.mark.parametrize("version", _VERSIONS)
def test_sound_node_is_never_predicted_to_fail(version: str, tmp_path: Path) -> None:
    rng = random.Random(f"{SEED} {version}")
    node: Node | None = None
    for number in range(_STARTS):
        if node is None or rng.random() < 0.2:  # a node of its own, or one to upgrade
            older = "4.1.1" if version == "4.4.0" and rng.random() < 0.4 else version
            node = unpack_node(older, rng.choice((1, 2)), tmp_path / f"node-{number}")
            node.version = version
        for settings in (str(node.server_properties), None):
            dirs = node.settings["log.dirs"].split(",")
            foretold = node_start(dirs, read_version(version), server_properties=settings)
            assert not [fact for fact in foretold if fact.outcome == REFUSES], number
        real = start(node, end=rng.choice((signal.SIGKILL, signal.SIGTERM)))
        assert real.outcome == "starts", (number, real.log[-3000:])
