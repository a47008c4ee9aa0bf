"""`kdump why` as it is called."""

import json
import os
from functools import partial
from pathlib import Path

import commands
import pytest
from segments import START_MS, batches, write_partition
from terminals import on_terminal

run = partial(commands.run, "why")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    write_partition(data, {0: batches(0, 30), 30: batches(30, 60)})
    (data / "meta.properties").write_text("version=1\nnode.id=1\n")
    return data


def test_rows_are_in_order(data: Path) -> None:
    result = run("--now", START_MS, "--free", "1MiB", data)
    assert result.exit_code == 0
    kinds = [json.loads(line)["row"] for line in result.stdout.splitlines()]
    fates, spaces = ["segment-fate"] * 2, ["partition-space"] * 2
    totals = ["data-directory", "topic-space", "topic-space", "why-summary"]
    assert kinds == [*fates, "pinned-segments", *spaces, "plan-step", *totals]


def test_table_on_a_terminal(data: Path) -> None:
    status, written = on_terminal("why", "--now", str(START_MS), str(data))
    assert status == 0
    assert "topic" in written.decode().splitlines()[0]
    assert b"segment-fate" not in written


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ("retention.ms", "is not a setting"),
        (":retention.ms=1", "is not a setting"),
        ("retention.mss=1", "is not one of the topic settings"),
        ("compression.type=zip", "does not accept: use producer, uncompressed"),
        ("retention.ms=7d", "has a value that retention.ms does not accept"),
    ],
)
def test_invalid_settings(data: Path, config: str, told: str) -> None:
    result = run("--config", config, data)
    assert result.exit_code == 2
    assert told in " ".join(result.stderr.split())


def test_table_starts_with_unknown_facts(data: Path) -> None:
    lines = run("--format", "table", "--now", START_MS, data).stdout.splitlines()
    assert lines[0].startswith("NOTE    topic-settings-unknown: Topic settings of")
    assert run("--format", "table", "--fail-on", "note", data).exit_code == 3
    known = run("--format", "table", "--no-topic-configs", data)
    assert "topic-settings-unknown" not in known.output


def test_quiet_writes_metrics_only(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "why.prom"
    result = run("-q", "--textfile", file, data)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "kdump_why_last_success_timestamp_seconds" in file.read_text()
    assert run("-q", "--textfile", file, data, tmp_path / "none").exit_code == 1


def test_metrics_file_cannot_replace_an_input(data: Path) -> None:
    log = data / "orders-0" / f"{0:020}.log"
    before = log.read_bytes()
    assert run("--textfile", log, data).exit_code == 5
    assert log.read_bytes() == before


def test_space_may_be_freed_in_one_directory(data: Path) -> None:
    for text, told in (("=1MiB", "does not name"), ("data=7m5", "is not a size"), ("d9=1", "'d9'")):
        result = run("--free", text, data)
        assert (result.exit_code, told in result.stderr) == (2, True), text
    rows = [json.loads(line) for line in run("--free", "data=1", data).stdout.splitlines()]
    assert rows[-1]["plans"][0]["directories"] == [str(data)]
    (directory,) = (row for row in rows if row["row"] == "data-directory")
    room = os.statvfs(data)
    assert directory["size_bytes"] == room.f_blocks * room.f_frsize
    assert directory["asked_bytes"] == 1


def test_csv_has_no_summary(data: Path) -> None:
    lines = run("--format", "csv", data).stdout.splitlines()
    assert not any(line.startswith("why-summary") for line in lines)
    assert sum(line.startswith("row,") for line in lines) == 3
