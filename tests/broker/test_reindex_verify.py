"""What `reindex` writes, `verify` finds nothing wrong with: on directories that brokers broke.

And the other way round: an index that `verify` finds wrong is not called sound by `reindex`.
"""

import shutil
from pathlib import Path

import pytest
from corpus import corpus, names
from long_runs import LONG
from partitions import target_of
from reindexing import items_of

from kdump.broker.settings import Settings
from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.partition import verify_partition
from kdump.findings.finding import Finding, Severity
from kdump.findings.rows import Row

_ALL = [
    *(f"modern/recovery/{state}/before" for state in ("killed", "clean", "killed-norp")),
    *(name for name in names("old") if "/v07-" not in name and name.endswith(".before")),
]
SETS = _ALL if LONG else _ALL[:1]
SUFFIXES = (".index", ".timeindex", ".txnindex")


def wrong_indexes(directory: Path) -> dict[str, Finding]:
    """The indexes that verify would have rebuilt, by path."""
    result = verify_partition(target_of(directory, listed=False), VerifyOptions(), Settings())
    assert not result.errors
    return {
        found.path: found
        for found in result.findings
        if found.path.endswith(SUFFIXES) and found.severity is Severity.REBUILD
    }


@pytest.mark.parametrize("name", SETS)
def test_verify_finds_all_indexes_right_afterwards(name: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(corpus(name), copy)
    wrong = 0
    for directory in sorted({log.parent for log in copy.rglob("*.log")}):
        before = wrong_indexes(directory)
        rows = [item.fields for item in items_of(directory, write=True) if isinstance(item, Row)]
        refused = {row["path"] for row in rows if row["action"] == "refuse"}
        written = {row["path"] for row in rows if row["action"] in ("rebuilt", "created")}
        assert set(before) <= written | refused, directory.name
        wrong += len(before)
        left = wrong_indexes(directory)
        assert set(left) <= refused, (directory.name, [one.message for one in left.values()])
    assert wrong
