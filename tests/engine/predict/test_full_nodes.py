"""Whether a node of two data directories starts, and without which, against what real brokers did.

`tests/broker/nodes/full_starts.jsonl` has what came of starting nodes of 14 releases after one
file was changed, most inside a partition: the outcome, the directories that went offline, and the
sentence. A broker that neither started nor ended counts as one that does not start.
"""

import json
import os
import re
from pathlib import Path

import pytest
from full_nodes import TABLE
from long_runs import LONG, SEED
from node_starts import NODES, is_same_sentence, read_rare_starts, unpack_node

from kdump.broker.node_directories import OFFLINE, User
from kdump.broker.node_settings import REFUSES
from kdump.broker.versions import read_version
from kdump.engine.predict.node import node_start

_OF = 1 if LONG else 12
_LINES = [json.loads(line) for line in (NODES / "full_starts.jsonl").read_text().splitlines()]
RECORDED = {
    (line["node"], version): said for line in _LINES for version, said in line["said"].items()
}
_CHANGES = {broken.name: broken for broken in TABLE}
_RARE = read_rare_starts("full")


@pytest.mark.parametrize(
    ("name", "version"),
    [
        pytest.param(*each, id=f"{_CHANGES[each[0]].file_name}-{each[1]}")
        for number, each in enumerate(RECORDED)
        if number % _OF == SEED % _OF or each in _RARE
    ],
)
def test_prediction_of_a_full_node_matches_the_broker(
    name: str, version: str, tmp_path: Path
) -> None:
    outcome, offline, sentence = RECORDED[name, version]
    broken = _CHANGES[name]
    if broken.needs_root and os.geteuid() != 0:
        pytest.skip("only root gives files to others")
    node = unpack_node(version, 2, tmp_path / "node", full=True)
    broken.change(node)
    user = User(0, frozenset({0}), is_root=False) if node.run_before else None
    facts = node_start(
        [], read_version(version), server_properties=str(node.server_properties), user=user
    )
    refused = [fact for fact in facts if fact.outcome == REFUSES]
    assert bool(refused) == (outcome != "starts"), facts
    if not refused:
        # A directory that fails over its meta.properties no broker reports in those words.
        without = {fact.path or "" for fact in facts if fact.cause == OFFLINE}
        without = {path for path in without if not path.endswith("meta.properties")}
        assert sorted({Path(at).relative_to(node.directory).parts[0] for at in without}) == offline
        return
    assert all(fact.remedy for fact in refused)
    assert sentence is None or is_same_sentence(
        refused[0].message, [re.sub("@(?=/)", str(node.directory), sentence)]
    )


def test_high_metadata_version_has_a_complete_command(tmp_path: Path) -> None:
    node = unpack_node("3.6.2", 2, tmp_path / "node", full=True)
    _CHANGES["metadata feature 99"].change(node)
    facts = node_start([], (3, 6, 2), server_properties=str(node.server_properties))
    remedy = next(fact.remedy or "" for fact in facts if fact.cause == "feature")
    command = "kafka-features.sh --bootstrap-server BOOTSTRAP downgrade --metadata 3.6-IV2"
    assert remedy.endswith(command)


def test_enough_starts_were_recorded() -> None:
    assert len(RECORDED) >= 800
    for version in ("2.4.1", "3.3.2", "4.1.1"):
        outcomes = [said for (_, at), said in RECORDED.items() if at == version]
        assert sum(said[0] != "starts" for said in outcomes) >= 20
        assert len({tuple(said[1]) for said in outcomes}) >= 2
