"""One line for a monitoring plug-in."""

from typing import Any

import pytest

from kdump.engine.findings import finding
from kdump.engine.rows import Row
from kdump.output.verify_nagios import plugin_line, plugin_status

WORST = finding(
    "crc-mismatch",
    path="/data/orders-7/0.log",
    topic="orders",
    partition=7,
    offset=48301220,
    lost_at_least=118,
    lost_at_most=118,
)


def summary(damage: int = 0, rebuild: int = 0, **not_checked: int) -> Row:
    fields: dict[str, Any] = {
        "paths": 4,
        "segments": 9,
        "bytes": 93745152000,
        "findings": {"damage": damage, "rebuild": rebuild, "note": 2},
        "not_checked": not_checked,
        "seconds": 1875.0,
    }
    return Row("summary", fields)


@pytest.mark.parametrize(
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
def test_statuses(row: Row | None, errors: int, status: int) -> None:
    assert plugin_status(row, errors) == status


def test_line_of_damage() -> None:
    assert plugin_line(WORST, summary(damage=1), 0, "") == (
        "KDUMP CRITICAL - 1 damage: crc-mismatch in orders-7 at offset 48301220 (118 records)"
        " | damaged=1;;0 rebuild=0;0 bytes=93745152000B seconds=1875 not_checked=0"
    )


def test_line_of_a_sound_directory_says_what_is_left() -> None:
    row = summary(segments_out_of_time=3, segments_verified_before=70)
    assert plugin_line(None, row, 0, "") == (
        "KDUMP OK - 4 partitions, 9 segments checked"
        " | damaged=0;;0 rebuild=0;0 bytes=93745152000B seconds=1875 not_checked=3"
    )


def test_line_of_what_could_not_be_done() -> None:
    assert plugin_line(None, None, 1, "/data: Permission denied") == (
        "KDUMP UNKNOWN - /data: Permission denied"
    )


def test_names_cannot_add_lines_or_figures() -> None:
    hostile = WORST._replace(topic="a|damaged=0\nOK")
    line = plugin_line(hostile, summary(damage=1), 0, "")
    assert line.count("|") == 1
    assert "\n" not in line
