"""`timeline` on incidents that real brokers lived through just now, with clocks of their own."""

import itertools
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import run
from corpus import find_shared
from incident_truth import Truth, tools
from incidents import NODES, PLANS, make
from long_runs import LONG

LEFT = [one for size in (3, 2, 1) for one in itertools.combinations(NODES, size)]


@pytest.mark.skipif(not LONG, reason="starts three brokers ten times")
@pytest.mark.parametrize("number", range(len(PLANS)))
def test_incidents_are_reconstructed_from_any_disks(number: int, tmp_path: Path) -> None:
    root = find_shared()
    assert root is not None
    assert tools() is not None
    make(tmp_path / "incident", number)
    for node in NODES:  # as a copy without file times leaves it
        shutil.copytree(
            tmp_path / f"incident/node-{node}",
            tmp_path / f"copied/node-{node}",
            copy_function=shutil.copyfile,
        )
    for nodes in LEFT:
        truth = Truth(tmp_path / "incident", nodes)
        name = "".join(map(str, nodes))
        truth.write(tmp_path / name)
        jumped = [node for node in NODES if len(truth.ahead(node)) > 1]
        common = next(node for node in (*nodes, *NODES) if node not in jumped)
        for disks in ("incident", "copied"):
            paths = [str(tmp_path / disks / f"node-{node}") for node in nodes]
            words = ["timeline", "--clock", str(common), "--format", "jsonl", *paths]
            told = run(*words)
            assert told.exit_code == 0, told.output
            rows = [json.loads(line) for line in told.stdout.splitlines()]
            skews = [row for row in rows if row["row"] == "clock-skew"]
            _hold_bounds(tmp_path / name, truth, skews, jumped)
            for row in skews:  # a bound on one side alone is right, and enough
                row["at_least_ms"] = _known(row["at_least_ms"], -(10**15))
                row["at_most_ms"] = _known(row["at_most_ms"], 10**15)
            answer = tmp_path / name / "answer.jsonl"
            answer.write_text("".join(json.dumps(row) + "\n" for row in rows))
            _check(root, tmp_path / name, nodes, disks, is_steady=not jumped)


def _known(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


def _hold_bounds(path: Path, truth: Truth, skews: list[dict[str, Any]], jumped: list[int]) -> None:
    """Every bound holds, and is as tight as records allow where no clock was set."""
    possible = map(json.loads, (path / "expected/possible.jsonl").read_text().splitlines())
    most = {(row["of"], row["ahead"]): row["ms"] for row in possible}
    for row in skews:
        broker, against = row["broker_id"], row["against_broker_id"]
        low, high = _known(row["at_least_ms"], -(10**15)), _known(row["at_most_ms"], 10**15)
        for one, other in itertools.product(truth.ahead(broker), truth.ahead(against)):
            assert low - 2 <= one - other <= high + 2, row
        if not jumped:
            assert high <= most.get((against, broker), 10**15), row
            assert -low <= most.get((broker, against), 10**15), row


def _check(root: Path, path: Path, nodes: tuple[int, ...], disks: str, *, is_steady: bool) -> None:
    """Ask the checker; nine tenths of pairs of different clocks are to be in a decided order.

    Not where nothing ties two clocks closely. A time that a clock showed twice, as it was set back,
    can be of before and of after; in these incidents that leaves up to 8 % of the pairs undecided.
    """
    check = [sys.executable, str(root / "corpus/incident/check.py"), "-v"]
    check += ["--corpus", str(path), "--answer", str(path / "answer.jsonl")]
    check += ["--only", ",".join(map(str, nodes))] if len(nodes) < len(NODES) else []
    check += ["--no-times"] if disks == "copied" else []
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    first, *wrong = done.stdout.splitlines()
    assert not wrong, (nodes, disks, first, wrong[:20])
    assert "; 0 rows by file times" in first or disks != "copied", first
    figures = re.search(r"(\d+) of (\d+) pairs of different clocks decided.*widest (\d+) ms", first)
    assert figures is not None, first
    decided, pairs, widest = map(int, figures.groups())
    if not is_steady or widest < 2_500:
        assert decided >= (0.9 if is_steady else 0.85) * pairs, (nodes, disks, first)
