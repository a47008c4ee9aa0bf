"""What cron and Nagios read."""

from pathlib import Path
from typing import Any

import pytest
from verify_command import break_batch, break_index, names_in, run


def test_textfile_is_written(data: Path, tmp_path: Path) -> None:
    target = tmp_path / "kdump.prom"
    run("--textfile", target, data)
    first = target.read_text()
    assert 'kdump_verify_findings{severity="damage"} 0' in first
    break_batch(data)
    assert run("--textfile", target, data, data / "nowhere").exit_code == 3
    second = target.read_text()
    assert 'kdump_verify_findings{severity="damage"} 1' in second
    assert 'code="crc-mismatch",topic="orders",partition="1"} 1' in second
    success = next(line for line in first.splitlines() if line.startswith("kdump_verify_last_succ"))
    assert success in second
    assert names_in(tmp_path) == {"data", "kdump.prom"}


def test_unwritable_textfile_exits_with_1(data: Path, tmp_path: Path) -> None:
    assert run("--textfile", tmp_path / "no" / "x.prom", data).exit_code == 1


@pytest.mark.parametrize(
    ("broken", "status", "word"),
    [((), 0, "OK"), ((break_index,), 1, "WARNING"), ((break_index, break_batch), 2, "CRITICAL")],
)
def test_nagios_prints_one_line(
    data: Path, broken: tuple[Any, ...], status: int, word: str
) -> None:
    for each in broken:
        each(data)
    result = run("--nagios", "-q", data)
    assert result.exit_code == status
    line, *more = result.stdout.splitlines()
    assert line.startswith(f"KDUMP {word} - ")
    assert " | damaged=" in line
    assert [one.split()[0] for one in more] == ["DAMAGE", "REBUILD"][2 - len(broken) :]


@pytest.mark.parametrize(
    ("fail_on", "status"), [("never", 0), ("damage", 0), ("rebuild", 1), ("note", 1)]
)
def test_nagios_respects_fail_on(data: Path, fail_on: str, status: int) -> None:
    break_index(data)
    assert run("--nagios", "--fail-on", fail_on, data).exit_code == status
    break_batch(data)
    assert run("--nagios", "--fail-on", fail_on, data).exit_code == (0 if fail_on == "never" else 2)


def test_nagios_reports_an_unwritable_textfile(data: Path, tmp_path: Path) -> None:
    result = run("--nagios", "--textfile", tmp_path / "no" / "x.prom", data)
    assert result.exit_code == 3
    assert result.stdout.startswith("KDUMP UNKNOWN - ")
    assert "x.prom" in result.stdout


@pytest.mark.parametrize(
    "args", [["--nagios", "nowhere"], ["--nagios"], ["--nagios", "--nonesuch", "x"]]
)
def test_nagios_output_of_failures(args: list[str]) -> None:
    result = run(*args)
    assert result.exit_code == 3
    assert result.stdout.startswith("KDUMP UNKNOWN - ")
