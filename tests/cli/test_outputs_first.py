"""Where results are to go is tried before anything is read, and a path without permission is 1."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import segments
from commands import READING, find_command, run
from unprivileged import run_unprivileged


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Give a partition of one segment."""
    return segments.write_partition(tmp_path / "data", {0: segments.batches(0, 30)})


@pytest.fixture
def shut(tmp_path: Path) -> Iterator[Path]:
    """Give a directory that may not be entered."""
    path = tmp_path / "shut"
    path.mkdir()
    path.chmod(0)
    yield path
    path.chmod(0o700)


def name_outputs(command: str) -> str:
    """Write a command with a place for its output and one for a path, and what stands behind it."""
    paths = next(one for one in find_command(command).params if isinstance(one, click.Argument))
    behind = " 3" if "PATHS... " in (paths.metavar or "") else ""
    behind += " --bootstrap-server b:9092" if command == "produce" else ""
    return f"{command} --output {{}} {{}}{behind}"


COMMANDS = [
    *map(name_outputs, READING),
    "dump -o {} --batches {}",
    "verify --state {} {}",
    "verify --textfile {} {}",
    "reindex --out {} {}",
]


def never_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object) -> None:
        raise AssertionError("a file was read")

    monkeypatch.setattr("kdump.storage.source.Source.__init__", read)


@pytest.mark.parametrize("command", [one for one in COMMANDS if "--out {}" not in one])
def test_missing_folder_is_reported_first(
    partition: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    never_read(monkeypatch)
    result = run(*command.format(tmp_path / "none" / "file", partition).split())
    assert result.exit_code == 1
    option = "--output" if " -o " in command else command.split()[1]
    assert f"kdump: {option} " in result.stderr
    assert result.stderr.endswith(f"{tmp_path / 'none'}: No such file or directory\n")
    assert result.stdout == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_file_in_place_of_a_folder_is_reported_first(
    partition: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    never_read(monkeypatch)
    (tmp_path / "plain").write_bytes(b"")
    result = run(*command.format(tmp_path / "plain" / "file", partition).split())
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert str(tmp_path / "plain") in result.stderr


def test_directory_in_place_of_a_file_is_reported_first(partition: Path, tmp_path: Path) -> None:
    result = run("verify", "--state", tmp_path, partition)
    assert (result.exit_code, "is a directory" in result.stderr) == (1, True)


@pytest.mark.parametrize("command", COMMANDS)
def test_inaccessible_folder_is_reported_first(partition: Path, shut: Path, command: str) -> None:
    done = run_unprivileged(*command.format(shut / "file", partition).split())
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("kdump: --")


def test_monitoring_output_formats(partition: Path, tmp_path: Path) -> None:
    result = run("verify", "--nagios", "--state", tmp_path / "none" / "state", partition)
    assert result.exit_code == 3
    assert result.stdout.startswith("KDUMP UNKNOWN")


@pytest.mark.parametrize(
    "command", ["dump {}", "dump --entries {}", "find-offset {} 3", "usage {}", "verify {}"]
)
def test_unreadable_named_file_exits_with_1(partition: Path, command: str) -> None:
    log = partition / segments.name(0, "log")
    name = segments.name(0, "index") if "--entries" in command else log.name
    (partition / name).chmod(0)
    done = run_unprivileged(*command.format(partition / name).split())
    assert done.returncode == 1
    assert "Usage" not in done.stderr
    assert "Permission denied" in done.stderr
    assert "Traceback" not in done.stderr


def test_input_below_an_inaccessible_folder_is_an_error(tmp_path: Path, shut: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    done = run_unprivileged("dump", "--output", out / "rows.jsonl", shut / "orders-0")
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
