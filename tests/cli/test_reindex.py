"""`kdump reindex` from the outside: arguments, forms, statuses, and what to type next."""

import csv
import json
import os
import shutil
import sys
from functools import partial
from pathlib import Path

import builders
import commands
import pytest
from commands import read_rows

STEM = "00000000000000000000"
SAMPLE = Path(__file__).parents[2] / "sample-data" / "clean" / "4.1.1"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Give a partition of three batches without indexes."""
    directory = tmp_path / "data" / "orders-7"
    directory.mkdir(parents=True)
    log = b"".join(builders.batch(base_offset=base) for base in range(3))
    (directory / f"{STEM}.log").write_bytes(log)
    os.utime(directory / f"{STEM}.log", (1_600_000_000, 1_600_000_000))
    return directory


run = partial(commands.run, "reindex")


def test_plan_in_a_pipe(partition: Path) -> None:
    result = run(partition)
    assert (result.exit_code, result.stderr) == (0, "")
    found = read_rows(result)
    assert [(row["row"], row["kind"], row["action"]) for row in found] == [
        ("reindex", "index", "create"),
        ("reindex", "timeindex", "create"),
    ]
    assert {"path", "entries_before", "entries_after", "first_difference", "action"} <= set(
        found[0]
    )
    assert [path.suffix for path in partition.iterdir()] == [".log"]


def test_second_write_has_nothing_to_do(partition: Path) -> None:
    result = run("--write", partition, "--index-interval-bytes", "0")
    assert result.exit_code == 0
    assert [row["action"] for row in read_rows(result)] == ["created", "created"]
    assert (partition / f"{STEM}.index").stat().st_size == 16
    result = run("--write", "--all", partition, "--index-interval-bytes", "0")
    assert [row["action"] for row in read_rows(result)] == ["keep", "keep"]


def test_broker_settings_apply_by_default(partition: Path, tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={partition.parent}\nlog.index.interval.bytes=0\n")
    entries = [row["entries_after"] for row in read_rows(run("--server-properties", properties))]
    assert entries == [2, 1]
    found = run("--server-properties", properties, "--index-interval-bytes", "4KiB")
    assert [row["entries_after"] for row in read_rows(found)] == [0, 1]


def test_damage_exits_with_3_in_a_plan_and_5_if_refused(partition: Path) -> None:
    log = partition / f"{STEM}.log"
    log.write_bytes(log.read_bytes()[:-5])
    os.utime(log, (1_600_000_000, 1_600_000_000))
    result = run(partition)
    assert result.exit_code == 3
    assert json.loads(result.stderr)["code"] == "torn-tail"
    result = run("--write", partition)
    assert result.exit_code == 5
    *_, line = result.stderr.splitlines()
    assert line.startswith(f"kdump: {partition / f'{STEM}.index'}: ")
    assert "recovery of the segment truncates it there, and loses offsets 2 and above" in line
    assert [path.suffix for path in partition.iterdir()] == [".log"]
    result = run("--write", "--up-to-damage", "--fail-on", "never", partition)
    assert result.exit_code == 0
    assert (partition / f"{STEM}.index").exists()


def test_out_writes_to_another_directory(partition: Path, tmp_path: Path) -> None:
    result = run("--out", tmp_path / "new", partition)
    assert result.exit_code == 0
    assert {path.name for path in (tmp_path / "new" / "orders-7").iterdir()} == {
        f"{STEM}.index",
        f"{STEM}.timeindex",
    }


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--only", "indexes", "."],
        ["--only", "", "."],
        ["--undo", "--out", "x", "--write", "."],
        ["--broker-version", "latest", "."],
        ["--format", "kafka", "."],
    ],
)
def test_wrong_usage_exits_with_2(words: list[str]) -> None:
    assert run(*words).exit_code == 2


def test_no_input_exits_with_1(tmp_path: Path) -> None:
    assert run(tmp_path).exit_code == 1
    assert run(tmp_path / "absent").exit_code == 1


def test_csv_has_one_header(partition: Path) -> None:
    found = list(csv.DictReader(run("--format", "csv", partition).stdout.splitlines()))
    assert [(row["row"], row["action"]) for row in found] == [("reindex", "create")] * 2


def test_table_names_each_file(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    (partition / f"{STEM}.index").write_bytes(b"abc")
    text = run("--format", "table", partition).stdout
    assert "orders-7" in text
    lines = [line.split() for line in text.splitlines()]
    assert ["0", "index", "0", "0"] in [line[:4] for line in lines]
    assert any("rebuild" in line and "3" in line for line in lines)


def test_next_command_is_printed(
    partition: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a b").symlink_to(partition)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["kdump", "reindex", "a b"])
    monkeypatch.setattr("kdump.output.escape.is_terminal", lambda _: True)
    told = "Nothing was changed. To write 2 files:\n  kdump reindex 'a b' --write"
    assert told in run("a b").stderr


def test_undo_command_is_printed(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (partition / f"{STEM}.index").write_bytes(b"abc")
    words = ["--write", str(partition)]
    monkeypatch.setattr(sys, "argv", ["kdump", "reindex", *words])
    monkeypatch.setattr("kdump.output.escape.is_terminal", lambda _: True)
    result = run(*words)
    undo = f"kdump reindex --write {partition} --undo"
    assert f"To restore the old files: {undo}" in result.stderr
    assert run(*undo.split()[2:]).exit_code == 0
    assert (partition / f"{STEM}.index").read_bytes() == b"abc"


def test_settings_file_selects_no_partition(partition: Path, tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text("log.index.interval.bytes=0\n")
    found = read_rows(run("--server-properties", properties, partition))
    assert [row["entries_after"] for row in found] == [2, 1]


def test_table_names_the_source_of_index_settings(tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path / "data")
    index = tmp_path / "data" / "d1" / "orders.lz4-0" / f"{STEM}.index"
    index.unlink()
    options = ("--format", "table", "--wide", index.with_suffix(".log"))
    assert "is missing; index.interval.bytes=1024 of the topic" in run(*options).stdout
    assert "index.interval.bytes" not in run(*options, "--no-topic-configs").stdout
    found = read_rows(run("--index-interval-bytes", "2KiB", index.with_suffix(".log")))[0]
    assert found["settings"][0] == {  # type: ignore[index]
        "name": "index.interval.bytes",
        "value": 2048,
        "source": "option",
    }
