"""What `verify` prints of many different damages is read without scrolling for long."""

import re
import shutil
from pathlib import Path

import pytest
from damaged_catalogue import MAKERS
from verify_command import run

CODES = """batch-count batch-cut-short batch-length batch-max-timestamp batch-too-small
codec-unknown control-record crc-mismatch inner-crc-mismatch leader-epoch-odd log-end-astray
log-too-short magic-unknown offset-below-base offset-not-rising offset-past-next
offset-past-range record-offset records-undecodable torn-tail transaction-hanging
transaction-mixed wrapper-offset zero-tail"""


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Give a data directory of 24 partitions, each damaged in another way."""
    for code in CODES.split():
        (tmp_path / "made" / code).mkdir(parents=True)
        (root,) = MAKERS[code](tmp_path / "made" / code).paths
        folders = [root, *sorted(root.rglob("*"))]
        partition = next(each for each in folders if re.fullmatch(r"[\w.]+-\d+", each.name))
        shutil.copytree(partition, tmp_path / "data" / f"{code}-0")
    return tmp_path / "data"


def test_report_of_24_damages_fits_120_lines(
    damaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("--deep", "--format", "table", damaged).stdout.splitlines()
    assert len(lines) <= 120
    table = [line.split()[0] for line in lines if re.match(r"[a-z-]+-0 ", line)]
    assert sorted(table) == [f"{code}-0" for code in CODES.split()]
    worst = next(line for line in lines if line.endswith(" worst:"))
    in_full = [line.split()[1] for line in lines if line.startswith("DAMAGE ")]
    assert worst == f"The {len(in_full)} worst:"
    assert 5 <= len(in_full) <= 10
    assert in_full[0] == "log-end-astray-0"
    assert [line for line in lines[1:] if len(line) > 80 and "→ " not in line] == []
    meanings = [line for line in lines if line.startswith("         No consumer gets past")]
    assert len(meanings) == 1
    everything = run("--deep", "--format", "table", "--all", damaged).stdout.splitlines()
    assert sum(line.startswith("DAMAGE ") for line in everything) == 24
