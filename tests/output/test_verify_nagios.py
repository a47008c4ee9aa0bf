"""One line for a monitoring plug-in."""

import subprocess
from collections.abc import Iterable
from typing import Any

import pytest
from each import each

from kdump.findings.finding import CATALOGUE, Finding, Severity, finding
from kdump.output.verify_nagios import PluginText, plugin_line, plugin_status, plugin_text
from kdump.rows.verify import VerifySummary

WORST = finding(
    "crc-mismatch",
    path="/data/orders-7/0.log",
    topic="orders",
    partition=7,
    offset=48301220,
    lost_at_least=118,
    lost_at_most=118,
)


def summary(damage: int = 0, rebuild: int = 0, **not_checked: int) -> VerifySummary:
    fields: dict[str, Any] = {
        "paths": 4,
        "segments": 9,
        "bytes": 93745152000,
        "findings": {"damage": damage, "rebuild": rebuild, "note": 2},
        "not_checked": not_checked,
        "seconds": 1875.0,
    }
    return VerifySummary(**fields)


@each(
    ("row", "errors", "status"),
    [
        (summary(), 0, 0),
        (summary(rebuild=1), 0, 1),
        (summary(damage=1, rebuild=1), 0, 2),
        (summary(damage=1), 1, 2),
        (summary(rebuild=1), 1, 3),
        (summary(), 1, 3),
        (None, 1, 3),
        (None, 0, 3),
        (summary(segments_out_of_time=5), 0, 0),
    ],
)
def test_statuses(row: VerifySummary | None, errors: int, status: int) -> None:
    assert plugin_status(row, errors) == status


def test_line_of_damage() -> None:
    assert plugin_line(WORST, summary(damage=1), 0, "") == (
        "KDUMP CRITICAL - 1 damage: crc-mismatch in orders-7 at offset 48301220 (118 records)"
        " | damaged=1;;0 rebuild=0;0 bytes=93745152000B seconds=1875 not_checked=0"
    )


def test_line_of_a_sound_directory_gives_the_rest() -> None:
    row = summary(segments_out_of_time=3).replaced(unchecked=3)
    assert plugin_line(None, row, 0, "") == (
        "KDUMP OK - 4 partitions, 9 segments checked"
        " | damaged=0;;0 rebuild=0;0 bytes=93745152000B seconds=1875 not_checked=3"
    )


def test_errors_are_in_the_line() -> None:
    assert plugin_line(None, None, 1, "/data: Permission denied") == (
        "KDUMP UNKNOWN - /data: Permission denied"
    )


@each(
    ("fail_on", "row", "status"),
    [
        ("never", summary(damage=1, rebuild=1), 0),
        ("damage", summary(rebuild=1), 0),
        ("damage", summary(damage=1), 2),
        ("rebuild", summary(rebuild=1), 1),
        ("note", summary(), 1),
        ("note", summary(damage=1), 2),
    ],
)
def test_alarm_level_is_configurable(fail_on: str, row: VerifySummary, status: int) -> None:
    assert plugin_status(row, 0, fail_on) == status
    assert plugin_status(row, 1, fail_on) == (status if status == 2 else 3)
    assert plugin_status(None, 1, fail_on) == 3


def test_findings_below_the_alarm_level_are_printed() -> None:
    line = plugin_line(WORST, summary(damage=2, rebuild=3), 0, "", "never")
    assert line.startswith(
        "KDUMP OK - 4 partitions, 9 segments checked; not reported under --fail-on never: "
        "2 damage, 3 rebuild | "
    )


def test_long_text_of_the_worst() -> None:
    index = WORST._replace(
        code="offset-index-missing", severity=Severity.REBUILD, path="/data/orders-7", offset=None
    )
    text = plugin_text([WORST, index], summary(damage=1, rebuild=9), 0, "", "rebuild")
    first, one, other, more = text.splitlines()
    assert first.startswith("KDUMP CRITICAL - 1 damage: crc-mismatch in orders-7")
    assert one == (
        "DAMAGE crc-mismatch in orders-7 at offset 48301220: "
        f"{CATALOGUE['crc-mismatch'].meaning} File: /data/orders-7/0.log "
        f"Next: {CATALOGUE['crc-mismatch'].remedy}"
    )
    assert other == (
        "REBUILD offset-index-missing in orders-7: A broker start rebuilds it, which reads the "
        "whole "
        "segment. File: /data/orders-7 Next: kdump reindex --only index,timeindex "
        "/data/orders-7"
    )
    assert more == "and 8 more: kdump verify without --nagios lists them"


@pytest.mark.parametrize("directory", ["/a|b/orders-7", "/a|b\x1b/orders-7", "/it's|/orders-7"])
def test_bar_in_a_path_is_kept_for_the_shell(directory: str) -> None:
    index = WORST._replace(code="offset-index-missing", severity=Severity.REBUILD, path=directory)
    line = plugin_text([index], summary(rebuild=1), 0, "", "rebuild").splitlines()[1]
    assert "|" not in line
    command = line.split(" Next: ")[1]
    said = subprocess.run(
        ["bash", "-c", f"printf %s {command.split('--only index,timeindex ')[1]}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == directory


def kept(fail_on: str, found: Iterable[Finding]) -> list[Finding]:
    given: list[Finding] = []

    def text(worst: list[Finding]) -> str:
        given.extend(worst)
        return "KDUMP"

    written = bytearray()
    sink = PluginText(written.extend, fail_on, text)
    for one in found:
        sink.finding(one)
    sink.finish()
    assert written == b"KDUMP\n"
    return given


def test_worst_ten_are_kept() -> None:
    severities = (Severity.NOTE, Severity.REBUILD, Severity.DAMAGE)
    found = [WORST._replace(severity=severities[at % 3], offset=at) for at in range(30)]
    assert [one.offset for one in kept("rebuild", found)] == list(range(2, 30, 3))
    severities = (Severity.NOTE, Severity.DAMAGE, Severity.REBUILD)
    few = [WORST._replace(severity=severity) for severity in (*severities, Severity.NOTE)]
    told = [one.severity.value for one in kept("note", few)]
    assert told == ["damage", "rebuild", "note", "note"]


def test_quick_reports_what_it_checked() -> None:
    row = summary().replaced(mode="quick", segments=0, tails=9)
    assert plugin_line(None, row, 0, "").startswith(
        "KDUMP OK - 4 partitions, names, sizes, indexes and tails of 9 segments checked (--quick) |"
    )


def test_names_add_no_lines_or_metrics() -> None:
    hostile = WORST._replace(topic="a|damaged=0\nOK")
    line = plugin_line(hostile, summary(damage=1), 0, "")
    assert line.count("|") == 1
    assert "\n" not in line
