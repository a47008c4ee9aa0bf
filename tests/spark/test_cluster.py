"""Clusters of several executors: what is lost, what is done twice, and where kdump comes from."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import builders
import damage
import pytest
from bulk import digest_files

pytestmark = [pytest.mark.spark]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Six partitions of three segments, with one flipped byte."""
    root = tmp_path / "data"
    for number in range(6):
        directory = root / f"orders-{number}"
        directory.mkdir(parents=True)
        for base in (0, 400, 800):
            (directory / f"{base:020}.log").write_bytes(
                b"".join(
                    builders.batch(
                        [builders.record(k, k, b"k%d" % k, b"v" * 50) for k in range(10)],
                        base_offset=base + 10 * n,
                    )
                    for n in range(40)
                )
            )
    log = root / "orders-3" / f"{400:020}.log"
    log.write_bytes(damage.flip(log.read_bytes(), 5000))
    return root


def ran(scenario: str, data: Path, out: Path) -> dict[str, Any]:
    script = Path(__file__).with_name("on_cluster.py")
    done = subprocess.run(
        [sys.executable, script, scenario, data, out],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_lost_workers_executors_and_files_are_survived(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    told = ran("losses", data, out)
    assert told["killed"] == [
        f"killed-{what}-{whom}" for what in ("dump", "verify") for whom in ("executor", "worker")
    ]
    for what in ("dump", "verify"):
        assert any("crc-mismatch" in line for line in told[what]["here"][1:])
        assert told[what]["worker"] == told[what]["executor"] == told[what]["here"]
        assert told[f"lost-{what}-spark"] == told[f"lost-{what}-here"]
        found = " ".join(told[f"lost-{what}-here"][1:])
        assert "torn-tail" in found
        assert ("file-vanished" if what == "dump" else "segments-apart") in found
    assert (
        digest_files(out / "worker") == digest_files(out / "executor") == digest_files(out / "here")
    )
    assert digest_files(out / "lost-spark") == digest_files(out / "lost-here")


def test_speculative_copy_of_a_task_changes_nothing(data: Path, tmp_path: Path) -> None:
    """Spark starts one on another host only; both attempts write, and one is kept."""
    out = tmp_path / "out"
    told = ran("copies", data, out)
    assert not told["waited_for"]  # the slow ones were ended before they went on
    for what in ("dump", "verify"):
        assert list(told[f"{what}-attempts"]) == [f"{what}-0", f"{what}-1"]
        assert told[what]["copied"] == told[what]["here"]
    first, second = told["dump-attempts"].values()
    assert first != second
    assert "None" not in (first, second)
    assert digest_files(out / "copied") == digest_files(out / "here")


def test_environment_sent_to_executors_without_kdump(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    told = ran("shipped", data, out)
    status, why = told["refused"]
    assert status == 5
    assert why.startswith("executor on ")
    assert "kdump cannot be imported there (ModuleNotFoundError: No module named 'kdump')" in why
    for way in ("sent", "connect"):
        assert told["dump"][way] == told["dump"]["here"]
        assert told["verify"][way] == told["verify"]["here"]
        assert digest_files(out / way) == digest_files(out / "here")
