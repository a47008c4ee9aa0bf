"""Each code of the catalogue can be had from a directory, or it is said what else it takes.

`recorded_findings.txt` has all that is found there but for the words, a line for each finding.
Where it is meant to change: KDUMP_RECORD=1 pytest -n0 THIS_FILE.
"""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from damaged_catalogue import CAPTURES, MAKERS, NEEDS_ROOT, OTHERS
from findings_rows import verify_rows

from kdump.findings.catalogue import CATALOGUE

RECORDED = Path(__file__).with_name("recorded_findings.txt")
_WORDS = ("message", "consequences", "row")


def lines_of(code: str, rows: Iterable[Mapping[str, Any]], root: Path) -> list[str]:
    """Write the members of findings, but for words and what is null."""
    lines = []
    for row in rows:
        members = {name: one for name, one in row.items() if one is not None and one != []}
        told = {name: one for name, one in members.items() if name not in _WORDS}
        lines.append(f"{code}: {json.dumps(told)}".replace(str(root), ""))
    return sorted(lines)


def test_every_code_has_an_example() -> None:
    made = [*MAKERS, *CAPTURES, *OTHERS]
    assert sorted(made) == sorted(CATALOGUE)


@pytest.mark.parametrize("codes", [MAKERS, CAPTURES], ids=["directories", "captures"])
def test_verify_finds_each_code(tmp_path: Path, codes: dict[str, object]) -> None:
    known: dict[str, list[str]] = {}
    for line in RECORDED.read_text("utf-8").splitlines():
        known.setdefault(line.partition(":")[0], []).append(line)
    for code in codes:
        if code == NEEDS_ROOT and os.geteuid():
            continue
        (tmp_path / code).mkdir()
        rows = verify_rows((MAKERS | CAPTURES)[code](tmp_path / code))
        assert code in {row["code"] for row in rows}
        lines = lines_of(code, rows, tmp_path / code)
        if "KDUMP_RECORD" in os.environ:
            known[code] = lines
        assert lines == known.get(code)
    recorded = (line for code in CATALOGUE for line in known.get(code, ()))
    if "KDUMP_RECORD" in os.environ:
        RECORDED.write_text("".join(f"{line}\n" for line in recorded), "utf-8")
