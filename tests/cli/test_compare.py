"""`kdump compare` from the outside: arguments, forms, statuses, and what a person reads."""

import csv
import json
import os
import re
import shlex
import shutil
import subprocess
from functools import partial
from pathlib import Path

import commands
import damage
import pytest
from click.testing import CliRunner
from commands import read_rows
from comparing import batches, checkpoint, replica

from kdump.cli import cli

LOG = batches(0, 100)


run = partial(commands.run, "compare")


@pytest.fixture
def left(tmp_path: Path) -> Path:
    return replica(tmp_path, "left", LOG)


@pytest.fixture
def flipped(tmp_path: Path) -> Path:
    return replica(tmp_path, "flipped", [*LOG[:8], damage.flip_bit(LOG[8].data(), 90, 1), *LOG[9:]])


@pytest.fixture
def behind(tmp_path: Path) -> Path:
    return replica(tmp_path, "behind", LOG[:-2])


def test_rows_in_a_pipe(left: Path, flipped: Path) -> None:
    result = run(left, flipped)
    assert (result.exit_code, result.stderr) == (3, "")
    difference, comparison, summary = read_rows(result)
    assert difference["row"] == "replica-difference"
    assert list(difference)[:8] == [
        "row", "topic", "partition", "kind", "severity", "offset", "last_offset", "records_count",
    ]  # fmt: skip
    assert (difference["kind"], difference["offset"], difference["last_offset"]) == (
        "damaged", 40, 44,
    )  # fmt: skip
    assert difference["copy_from"] == str(left / "orders-0")
    assert comparison["row"] == "replica-comparison"
    assert (comparison["verdict"], comparison["differences"]) == ("damaged", {"damaged": 1})
    assert [each["sound"] for each in comparison["replicas"]] == [True, False]
    assert summary["row"] == "summary"
    assert summary["verdicts"] == {"damaged": 1}


@pytest.mark.parametrize(
    ("fail_on", "of_damage", "of_a_note"),
    [("never", 0, 0), ("note", 3, 3), ("rebuild", 3, 0), ("damage", 3, 0)],
)
def test_differences_that_count_as_failure(
    left: Path, flipped: Path, behind: Path, fail_on: str, of_damage: int, of_a_note: int
) -> None:
    assert run("--fail-on", fail_on, left, flipped).exit_code == of_damage
    assert run("--fail-on", fail_on, left, behind).exit_code == of_a_note


def test_unreadable_path_is_reported_and_the_others_compared(left: Path, tmp_path: Path) -> None:
    result = run(left, replica(tmp_path, "same", LOG), tmp_path / "nowhere")
    assert result.exit_code == 1
    assert result.stderr == f"kdump: {tmp_path / 'nowhere'}: No such file or directory\n"
    assert [row["verdict"] for row in read_rows(result)[:-1]] == ["equal"]


def test_nothing_to_compare(left: Path) -> None:
    result = run(left)
    assert result.exit_code == 1
    assert "nothing to compare" in result.stderr
    assert run().exit_code == 2
    assert "two directories" in run().stderr


def test_spark_options_need_spark(left: Path, behind: Path) -> None:
    assert run("--master", "local[2]", left, behind).exit_code == 2


def test_quiet_prints_damage_only(left: Path, flipped: Path, behind: Path) -> None:
    assert run("-q", left, behind).stdout == ""
    assert [row["row"] for row in read_rows(run("-q", left, flipped))] == [
        "replica-difference",
        "replica-comparison",
    ]


def test_csv_has_one_header(left: Path, flipped: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    assert run("--output", path, left, flipped).exit_code == 3
    lines = list(csv.reader(path.read_text().splitlines()))
    assert lines[0][:4] == ["row", "topic", "partition", "kind"]
    assert [line[:4] for line in lines[1:]] == [["replica-difference", "orders", "0", "damaged"]]


def test_binary_keys(tmp_path: Path) -> None:
    odd = [each._replace(items=(each.items[0]._replace(key=b"\xff"),)) for each in batches(0, 1)]
    other = [each._replace(items=(each.items[0]._replace(value=b"o"),)) for each in odd]
    result = run(replica(tmp_path, "a", odd), replica(tmp_path, "b", other))
    assert read_rows(result)[0]["key"] == {"base64": "/w=="}


def table(*args: object) -> str:
    return run("--format", "table", *args).stdout


def test_table_of_damage(left: Path, flipped: Path) -> None:
    lines = table(left, flipped).splitlines()
    assert lines[:3] == [f"A = {left}", f"B = {flipped}", ""]
    assert lines[3] == "damaged               orders-0"
    assert lines[4] == "    5 records can be read on one side only: copy from it."
    text = "\n".join(lines)
    assert "    damaged at offsets 40 to 44, 5 records (crc-mismatch)" in lines
    assert f"→ kdump dump --from-offset 40 --limit 1 {left}/orders-0" in text
    assert f"→ kdump verify {flipped}/orders-0" in text
    assert re.search(r" 95 .* no$", text, re.MULTILINE)  # not sound
    assert "1 partition compared: 1 damaged." in lines
    assert max(map(len, lines)) <= 100 or str(left) in max(lines, key=len)


def test_table_of_usual_differences(left: Path, behind: Path, tmp_path: Path) -> None:
    text = table(left, behind)
    assert text.startswith(f"A = {left}\nB = {behind}\n\nbehind                orders-0\n")
    assert "B is behind by 10 records." in text.replace("\n    ", " ")
    assert "→" not in text
    same = replica(tmp_path, "same", LOG)
    assert table(left, same).splitlines()[2].split() == ["equal", "orders-0", "100", "2"]


def test_table_reports_each_difference_once(left: Path, behind: Path) -> None:
    for number in range(7):
        replica(left, "", LOG, partition=f"alone-{number}")
    text = table(left, behind).replace("\n", " ")
    assert "not compared: alone-0, alone-1, alone-2, alone-3, alone-4 and 2 more." in text


def test_table_counts_omitted_differences(left: Path, tmp_path: Path) -> None:
    log = [each._replace(epoch=4) if each.base % 10 else each for each in LOG]
    text = table("--limit", "2", left, replica(tmp_path, "right", log))
    assert text.count("epoch-differs at") == 2
    assert "8 more differences; --limit shows more" in text


def test_hostile_names_are_escaped(tmp_path: Path) -> None:
    name = "o\x1b[31mrders-0"
    left = replica(tmp_path, "left", LOG, partition=name)
    right = replica(tmp_path, "right", LOG[:-1], partition=name)
    assert "\x1b" not in table(left, right)


def test_printed_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is printed behind an arrow runs, and shows both sides of a record."""
    odd = LOG[8]._replace(
        items=(*LOG[8].items[:2], LOG[8].items[2]._replace(value=b"odd"), *LOG[8].items[3:])
    )
    replica(tmp_path, "one side", LOG)
    replica(tmp_path, "-other", [*LOG[:8], odd, *LOG[9:]])
    monkeypatch.chdir(tmp_path)
    text = table("--", "one side", "-other")
    commands = re.findall(r"→ (kdump .*)", text)
    assert len(commands) == 2
    values = []
    for command in commands:
        words = [*shlex.split(command)[1:], "--format", "jsonl"]
        values.append(json.loads(CliRunner().invoke(cli, words).stdout)["value"])
    assert values == ["v42", "odd"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_command_names_existing_paths(tmp_path: Path) -> None:
    """Control bytes, quotes, bytes that are no UTF-8: a shell reads the path as it is."""
    name = os.fsdecode(b"a\x1b[31m\n'\xff\\b")
    replica(tmp_path, name, LOG)
    odd = LOG[8]._replace(
        items=(*LOG[8].items[:2], LOG[8].items[2]._replace(value=b"odd"), *LOG[8].items[3:])
    )
    text = table(tmp_path / name, replica(tmp_path, "right", [*LOG[:8], odd, *LOG[9:]]).parent)
    paths = []
    for command in re.findall(r"→ (kdump .*)", text):
        script = f'kdump() {{ printf "%s" "${{@: -1}}"; }}; {command}'
        done = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
        paths.append(Path(os.fsdecode(done.stdout)))
    assert len(paths) == 2
    assert all(path.exists() for path in paths)


def test_server_properties_select_the_directories(tmp_path: Path, left: Path) -> None:
    """A broker's own file names one side."""
    right = replica(tmp_path, "right", LOG[:-1], files={"cleaner-offset-checkpoint": checkpoint(0)})
    settings = tmp_path / "server.properties"
    settings.write_text(f"log.dirs={right}\n")
    result = run("--server-properties", settings, left)
    assert [row["row"] for row in read_rows(result)] == [
        "replica-difference",
        "replica-comparison",
        "summary",
    ]
