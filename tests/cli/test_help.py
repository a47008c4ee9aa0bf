"""The help: headings, short forms, and what is refused before anything is done."""

import shutil
from pathlib import Path

import click
from commands import NAMES, run
from each import each

from kdump.cli import cli

CLEAN = Path(__file__).parents[2] / "sample-data/clean"
SAMPLE = CLEAN / "4.1.1/d1"


def headings(text: str) -> list[str]:
    return [line[:-1] for line in text.splitlines() if line.endswith(":") and line[:1].isupper()]


def test_commands_are_grouped_by_purpose() -> None:
    text = run("--help").output
    assert headings(text) == ["Options", "Look", "Check", "Find", "Explain", "Repair"]
    for name in NAMES:
        assert f"\n  {name} " in text


@each("command", NAMES)
def test_options_are_grouped_under_headings(command: str) -> None:
    result = run(command, "--help")
    assert (result.exit_code, "error" in result.stderr) == (0, False)
    found = headings(result.output)
    first = ["Examples", "Common options", "More examples"]
    found = [heading for heading in found if heading not in first]
    of_all = ["Output", "Help"] if command == "schema" else ["Paths", "Engine", "Output", "Help"]
    assert found[-4:] == of_all
    assert len(found) == len({*found})
    assert "Options" not in found


def test_headings_of_dump() -> None:
    found = headings(run("dump", "--help").output)
    assert found[:3] == ["Examples", "Common options", "More examples"]
    assert found[3:6] == ["Rows and values", "Ranges", "Filters"]


def test_short_forms(tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    assert run("dump", "-n", 3, "-o", out, SAMPLE / "orders.zstd-0").exit_code == 0
    assert len(out.read_text().splitlines()) == 4
    assert run("compare", "-n", 1, SAMPLE, SAMPLE).exit_code == 1


@each("version", ["0.5", "2.9", "3.10", "1.2", "0.12", "3.x.y", "x", ""])
@each("command", ["find-offset {} 3", "find-time {} -1", "reindex {}"])
def test_nonexistent_versions_are_usage_errors(command: str, version: str) -> None:
    words = command.format(SAMPLE / "orders.zstd-0").split()
    result = run(*words, "--broker-version", version)
    assert result.exit_code == 2
    assert "is no" in result.stderr


def takes_version(name: str) -> bool:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return any(param.name == "broker_version" for param in command.params)


WITH_VERSION = [name for name in NAMES if takes_version(name)]


@each("name", WITH_VERSION)
@each(("version", "is_newer"), [("5.0", True), ("4.5.1", True), ("4.4.0", False)])
def test_newer_version_than_known_is_reported(
    tmp_path: Path, name: str, version: str, *, is_newer: bool
) -> None:
    partition = CLEAN / "4.4.0/d1/__consumer_offsets-0"
    target: list[str | Path] = []
    match name:
        case "find-offset":
            target = ["3"]
        case "find-time":
            target = ["-1"]
        case "why":
            target = ["--now", "@1764000000"]
        case "compare" | "elect":
            target = [shutil.copytree(partition, tmp_path / partition.name)]
    result = run(name, "--broker-version", version, partition, *target)
    assert result.exit_code == 0
    told = f"kdump: {version} is newer than any known version; using 4.4\n"
    assert (told in result.stderr) is is_newer
    if name not in {
        "verify",
        "predict",
        "compare",
        "elect",
        "why",
        "report",
    }:  # how long it took, and what is free on the disk
        named = f'"broker_version":"{version}"'
        shown = result.stdout.replace(named, '"broker_version":"4.4"')
        assert shown == run(name, partition, *target).stdout


@each(
    "words",
    [
        ("dump", "--from-time"),
        ("dump", "--to-time"),
        ("groups", "--at"),
        ("cluster", "--at"),
        ("find-time",),
    ],
    ids=str,
)
def test_seconds_are_not_read_as_1970(words: tuple[str, ...]) -> None:
    path = SAMPLE / "orders.zstd-0"
    args = (*words, "1700040000") if len(words) == 2 else (*words, path, "1700040000")
    result = run(*args, *([path] if len(words) == 2 else []))
    assert result.exit_code == 2
    assert "type 1700040000000 or @1700040000" in " ".join(result.stderr.split())


def test_seconds_after_an_at_sign() -> None:
    path = SAMPLE / "orders.zstd-0"
    seconds, milliseconds = (
        run("find-time", path, time).stdout for time in ("@1700040000", "1700040000000")
    )
    assert seconds == milliseconds
