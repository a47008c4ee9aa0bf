"""Inputs that once ended a command with a traceback, or hung it: each is built here."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import builders
import pytest
from commands import DATA, run
from each import each

SOURCE = DATA / "clean" / "4.1.1" / "d2"


def copied(source: str, to: Path) -> Path:
    shutil.copytree(SOURCE / source, to)
    return to


@pytest.mark.parametrize("name", ["d\udcff/nulls_all-0", "d/nulls\udcff-0"])
def test_salvage_writes_names_that_are_not_utf8(tmp_path: Path, name: str) -> None:
    copied("nulls_all-0", tmp_path / name)
    out = tmp_path / "out"
    assert run("salvage", tmp_path / name.partition("/")[0], "--out", out).exit_code == 0
    manifest = tmp_path / "out.manifest.json"
    assert run("salvage", "--check", manifest, out).exit_code == 0
    content = json.loads(manifest.read_text())
    assert any("\udcff" in one["path"] for one in content["sources"])
    topic = name.partition("/")[2].removesuffix("-0")
    checkpoint = (out / "recovery-point-offset-checkpoint").read_bytes()
    assert os.fsencode(topic) + b" 0 " in checkpoint


@pytest.fixture
def salvaged(tmp_path: Path) -> Path:
    copied("nulls_all-0", tmp_path / "d" / "nulls_all-0")
    assert run("salvage", tmp_path / "d", "--out", tmp_path / "out").exit_code == 0
    return tmp_path


@pytest.mark.parametrize(
    "change",
    [
        {"path": 5}, {"path": None}, {"path": "a\0b"}, {"size_bytes": "x"}, {"sha256": None},
        {"sha256": []},
    ],
)  # fmt: skip
def test_malformed_manifest_is_refused(salvaged: Path, change: dict[str, Any]) -> None:
    content = json.loads((salvaged / "out.manifest.json").read_text())
    content["files"][0].update(change)
    odd = salvaged / "odd.json"
    for text in (json.dumps(content), "[" * 100_000, '{"files": 5}', "[1]", "NaN"):
        odd.write_text(text)
        result = run("salvage", "--check", odd, salvaged / "out")
        assert result.stderr == f"kdump: {odd}: is not a salvage manifest\n"
        assert result.exit_code == 1


@pytest.mark.parametrize("path", ["../out.manifest.txt", "/etc/hostname", "link", ".", ""])
def test_manifest_cannot_leave_its_directory(salvaged: Path, path: str) -> None:
    (salvaged / "out" / "link").symlink_to(salvaged / "out.manifest.txt")
    content = json.loads((salvaged / "out.manifest.json").read_text())
    content["files"].append({"path": path, "size_bytes": 0, "sha256": ""})
    (salvaged / "odd.json").write_text(json.dumps(content))
    result = run("salvage", "--check", salvaged / "odd.json", salvaged / "out")
    assert f"names a file outside {salvaged}/out: {path}" in result.stderr
    assert '"outcome":"differs"' not in result.stdout


def test_carving_accepts_the_lowest_offset(tmp_path: Path) -> None:
    batches = []
    for offset in (0, 1, -(2**63), 2, -(2**63) + 1):
        made = builders.batch([builders.record(0, 0, b"k", b"v")], base_offset=0)
        batches.append(offset.to_bytes(8, "big", signed=True) + made[8:])
    (tmp_path / "image").write_bytes(bytes(4096) + b"".join(batches) + bytes(4096))
    assert run("carve", tmp_path / "image").exit_code in (0, 3)


@each("command", ["why", "verify", "find-offset", "reindex"])
def test_malformed_checkpoint_of_an_old_broker_is_survived(tmp_path: Path, command: str) -> None:
    copied("nulls_all-0", tmp_path / "d" / "nulls-0")
    (tmp_path / "d" / "recovery-point-offset-checkpoint").write_text("0\nx\n")
    target = ["3"] if command == "find-offset" else []
    assert run(command, "--broker-version", "0.8.2", tmp_path / "d", *target).exit_code in (0, 3, 4)


@each("command", ["verify", "why", "dump", "reindex", "groups"])
def test_null_character_in_server_properties_is_an_error(tmp_path: Path, command: str) -> None:
    data = copied("nulls_all-0", tmp_path / "d" / "nulls-0").parent
    properties = tmp_path / "server.properties"
    properties.write_bytes(b"metadata.log.dir=\0\nlog.dirs=" + os.fsencode(data) + b"\n")
    result = run(command, "--server-properties", properties)
    assert "names a directory with a null character: '\\x00'" in result.stderr
    assert result.exit_code == 1
    if command == "verify":
        found = run(command, "--server-properties", properties, data).stdout.splitlines()
        assert json.loads(found[-1])["segments"] == 1


def test_dangling_links_and_fifos_in_a_tier_hide_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "tier" / "orders.plain-0-LWgrMmVrT0a__7a4SasuPA"
    folder.mkdir(parents=True)
    for file in (SOURCE / "orders.plain-0").glob("*.log"):
        shutil.copy(file, folder / f"{file.stem}-bCqX9UaaSb6U8XUM9II25Q.log")
    names = [f"{base:020}-bCqX9UaaSb6U8XUM9II25Q.log" for base in (5000, 6000)]
    (folder / names[0]).symlink_to("gone")
    os.mkfifo(folder / names[1])
    result = run("verify", "--format", "jsonl", tmp_path / "tier")
    assert json.loads(result.stdout.splitlines()[-1])["segments"] == 4
    assert f"{folder.name}/{names[0]} was skipped: No such file" in result.stderr
    assert f"{folder.name}/{names[1]} was skipped: it is not a regular file" in result.stderr
    assert result.exit_code == 1


def test_fifo_among_held_logs_is_reported(tmp_path: Path) -> None:
    data = copied("nulls_all-0", tmp_path / "d" / "nulls-0").parent
    log = copied("orders.plain-0", data / "orders-0") / f"{341:020}.log"
    log.unlink()
    os.mkfifo(log)
    result = run("salvage", "--format", "jsonl", data)
    assert f"{log.name}: is a FIFO, not a regular file" in result.stderr
    assert '"topic":"nulls"' in result.stdout
