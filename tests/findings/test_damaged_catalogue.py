"""Each code of the catalogue can be had from a directory, or it is said what else it takes."""

import os
from pathlib import Path

import pytest
from damaged_catalogue import CAPTURES, MAKERS, NEEDS_ROOT, OTHERS
from findings_rows import verify_rows

from kdump.findings.catalogue import CATALOGUE


def test_every_code_has_an_example() -> None:
    made = [*MAKERS, *CAPTURES, *OTHERS]
    assert sorted(made) == sorted(CATALOGUE)


@pytest.mark.parametrize("codes", [MAKERS, CAPTURES], ids=["directories", "captures"])
def test_verify_finds_each_code(tmp_path: Path, codes: dict[str, object]) -> None:
    missing = []
    for code in codes:
        if code == NEEDS_ROOT and os.geteuid():
            continue
        (tmp_path / code).mkdir()
        damaged = (MAKERS | CAPTURES)[code](tmp_path / code)
        found = {row["code"] for row in verify_rows(damaged)}
        if code not in found:
            missing.append((code, found))
    assert not missing
