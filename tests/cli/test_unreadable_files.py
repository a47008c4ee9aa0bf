"""A device that does not give back one file: said of that file, and nothing else changes."""

import errno
import json
import os
import pwd
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from commands import run
from long_runs import LONG, SEED
from unprivileged import run_unprivileged

from kdump.storage.source import Source

_OF = 1 if LONG else 4
SAMPLE = Path(__file__).parents[2] / "sample-data"
NODE = SAMPLE / "damaged/4.4.0-three-nodes/n2"
SOUND = SAMPLE / "clean/4.1.1/d1"
#: What verify needs no contents of.
_NOT_READ = (".kafka_cleanshutdown", ".lock")


def _files(directory: Path) -> list[Path]:
    found = sorted(path for path in directory.rglob("*") if path.is_file())
    return [path for path in found if path.stat().st_size and path.name not in _NOT_READ]


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Paths that the device does not give back."""
    bad: set[str] = set()
    plain = Source._pread

    def read(self: Source, view: memoryview, position: int) -> int:
        if self.path in bad:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return plain(self, view, position)

    monkeypatch.setattr(Source, "_pread", read)
    return bad


def _run(*words: object) -> tuple[list[dict[str, Any]], str, int]:
    result = run(*words, "--format", "jsonl")
    return [*map(json.loads, result.stdout.splitlines())], result.stderr, result.exit_code


@cache
def _quick_rows(node: Path) -> list[dict[str, Any]]:
    """Return what is said of a node all of whose files are readable."""
    return _run("predict", "--quick", node)[0]


@pytest.mark.parametrize(
    "path",
    [*_files(NODE), SOUND / "bootstrap.checkpoint"],
    ids=lambda path: str(path.relative_to(SAMPLE)),
)
def test_unreadable_start_files_make_the_start_unknown(path: Path, broken: set[str]) -> None:
    node = NODE if path.is_relative_to(NODE) else SOUND
    before = _quick_rows(node)
    broken.add(str(path))
    rows, _, _ = _run("predict", "--quick", node)
    starts = [row for row in rows if row["row"] == "node-start"]
    assert "refuses" not in {row["outcome"] for row in starts}
    if path.parent.name.startswith("t"):
        return  # of a partition, which has a row of its own
    added = [row for row in starts if row not in before]
    assert [(row["outcome"], row["cause"], row["path"]) for row in added] == [
        ("unknown", "unreadable", str(path))
    ]


@pytest.mark.parametrize(
    "path", _files(SOUND)[SEED % _OF :: _OF], ids=lambda path: str(path.relative_to(SOUND))
)
def test_verify_names_only_the_file(path: Path, broken: set[str]) -> None:
    broken.add(str(path))
    rows, errors, status = _run("verify", SOUND)
    worst = [row for row in rows if row["row"] == "finding" and row["severity"] != "note"]
    if not worst:
        assert str(path) in errors
        assert status == 1
        return
    assert {(row["code"], row["path"]) for row in worst} == {("unreadable", str(path))}
    assert status == 3


@pytest.mark.parametrize("target", ["nowhere", None])
@pytest.mark.parametrize("pattern", ["*.log", "*.checkpoint"])
def test_dangling_metadata_link_leaves_a_prediction(
    tmp_path: Path, pattern: str, target: str | None
) -> None:
    node = Path(shutil.copytree(SOUND, tmp_path / "d1"))
    for path in (node / "__cluster_metadata-0").glob(pattern):
        path.unlink()
        path.symlink_to(target or path.name)
    rows, _, _ = _run("predict", "--quick", node)
    starts = [row for row in rows if row["row"] == "node-start"]
    assert "refuses" not in {row["outcome"] for row in starts}
    assert any(row["outcome"] == "unknown" and "cannot be read" in row["message"] for row in starts)


def test_unreadable_file_in_a_view_has_the_given_path(
    broken: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of a class of its own keeps what it says."""
    monkeypatch.setattr("kdump.output.report.has_given_paths", lambda: True)
    path = SOUND / "headers_all-0" / "leader-epoch-checkpoint"
    broken.add(str(path))
    rows, errors, status = _run("verify", path.parent)
    assert status == 1
    assert f"{path}: bytes 0 to " in errors + json.dumps(rows)


@pytest.mark.parametrize("closed", ["directory", "files"])
def test_permitted_user_is_named_once(closed: str, tmp_path: Path) -> None:
    for number in range(2):
        shutil.copytree(SOUND / "empty.topic-0", tmp_path / f"orders-{number}")
        at = [tmp_path / f"orders-{number}"]
        for path in at if closed == "directory" else at[0].glob("*.log"):
            path.chmod(0)
            if not os.geteuid():
                os.chown(path, 12345, -1)
    result = run_unprivileged("verify", "--topic", "orders", tmp_path)
    assert result.returncode == 1
    lines = [line for line in result.stderr.splitlines() if "belongs to" in line]
    user = pwd.getpwuid(os.geteuid()).pw_name
    words = f"kdump verify --topic orders {tmp_path}"
    if os.geteuid():
        whose, command = f"{user}, but with mode 0", f"sudo {words}"
    else:
        whose, command = "user #12345", f"sudo -u '#12345' {words}"
    (line,) = lines
    assert line.startswith(f"kdump: kdump is running as user {user}, and {tmp_path}/orders-0")
    assert line.endswith(f" belongs to {whose}: {command}")
