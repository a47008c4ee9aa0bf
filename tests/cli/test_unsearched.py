"""What lies under a folder and was not looked at is named, and nothing is called sound then."""

import errno
import json
import os
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
from commands import DATA, READING, run

from kdump.client import cluster

SOURCE = DATA / "clean" / "4.1.1"
ARGUMENTS = {
    "produce": "--bootstrap-server b:9092 --dry-run",
    "find-offset": "5",
    "find-time": "1700050000000",
    "transactions": "--topic clock*",
}


@pytest.fixture
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder with a node's data directories, one of them deep, and one of no access."""
    parent = tmp_path / "P"
    shutil.copytree(SOURCE, parent / "b1" / "deep" / "er")
    (parent / "b2").mkdir()
    scandir = os.scandir

    def denied(at: Any) -> object:
        if str(at) == str(parent / "b2"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return scandir(at)

    monkeypatch.setattr(os, "scandir", denied)
    return parent


@pytest.mark.parametrize("command", READING)
def test_unsearched_parts_are_named(
    command: str, parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for waits in ("ANSWER_SECONDS", "_FIRST_SECONDS"):  # no cluster is there to be waited for
        monkeypatch.setattr(cluster, waits, 0.1)
    words = [command, str(parent), *ARGUMENTS.get(command, "").split()]
    if command in ("compare", "elect"):
        words.append(str(SOURCE / "d1"))
    result = run(*words)
    assert f"{parent}/b2: was not searched for data directories: Permission denied" in (
        result.stderr
    )
    assert result.exit_code == 1
    assert "reading b1/deep/er/d1, b1/deep/er/d2 below it" in result.stderr


def test_verify_never_calls_a_partial_search_sound(parent: Path) -> None:
    result = run("verify", "--format", "table", parent)
    assert "no damage" not in result.stdout.lower()
    assert "Not everything was checked; 47 segments checked, no problems found in them" in (
        " ".join(result.stdout.split())
    )
    result = run("verify", "--nagios", parent)
    assert result.stdout.startswith(f"KDUMP UNKNOWN - {parent}/b2: was not searched")


@pytest.mark.parametrize("command", ["cluster", "usage", "verify", "duplicates"])
def test_remote_storage_next_to_data_is_no_failure(command: str) -> None:
    result = run(command, "--format", "jsonl", DATA / "damaged" / "4.1.1-tiered")
    assert (
        "kafka-tiered-storage is remote storage: skipped (pass it as the only PATH, or with --tier)"
        in (result.stderr)
    )
    assert result.exit_code == (3 if command == "verify" else 0)
    assert (
        json.loads(result.stdout.splitlines()[-1 if command != "duplicates" else 0])[
            "paths_unfinished"
        ]
        == 0
    )


@pytest.mark.parametrize("name", ["orders.plain-0", "a copy"])
def test_readable_segments_next_to_an_unreadable_one_are_checked(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(SOURCE / "d2" / "orders.plain-0", tmp_path / name)
    unreadable = f"{341:020}.log"
    open_file = os.open

    def denied(path: Any, *args: Any, **named: Any) -> int:
        if str(path).endswith(unreadable):
            raise PermissionError(errno.EACCES, "Permission denied")
        return open_file(path, *args, **named)

    monkeypatch.setattr(os, "open", denied)
    result = run("verify", "--format", "table", tmp_path / name)
    text = " ".join(result.stdout.split())
    assert "3 of 4 segments checked, no problems found in them" in text
    assert "no damage" not in text.lower()
    assert "1 segment not read completely" in text
    assert result.exit_code == 1


def test_archive_is_read_up_to_an_impossible_header(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.GNU_FORMAT) as tar:
        tar.add(SOURCE / "d2" / "orders.plain-0", "orders.plain-0")
    header = bytearray(tarfile.TarInfo("negative").tobuf(tarfile.GNU_FORMAT))
    header[124:136], header[148:156] = b"\xff" * 12, b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    data = (tmp_path / "a.tar").read_bytes().rstrip(b"\0")
    data += bytes(-len(data) % 512)
    (tmp_path / "a.tar").write_bytes(data + header + bytes(1024))
    result = run("verify", "--format", "table", tmp_path / "a.tar")
    assert f"{tmp_path}/a.tar: the entry at byte {len(data):,} has an impossible size (-1)" in (
        result.stderr
    )
    assert "4 segments checked, no problems found in them" in " ".join(result.stdout.split())
    assert result.exit_code == 1
