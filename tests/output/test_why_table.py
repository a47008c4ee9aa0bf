"""What a person is shown of `why`: topics, what keeps segments, and the plan."""

import re
from typing import Any

import pytest
from declared_rows import make_row

from kdump.engine.why.options import Item
from kdump.engine.why.partition import sum_pinned
from kdump.engine.why.run import Sums
from kdump.findings.finding import finding
from kdump.findings.rows import Row
from kdump.output.report import Page
from kdump.output.why_table import WhyTable
from kdump.rows.why import SegmentFate, WhySummary

NOW = 1_764_000_000_000


def fate(topic: str, segment: int, verdict: str, size: int, **fields: Any) -> Row:
    members: dict[str, Any] = {
        "topic": topic,
        "partition": 0,
        "segment": segment,
        "size_bytes": size,
        "verdict": verdict,
        "deletable_at_ms": None,
        "pinned_by": None,
        "reserved_index_bytes": 0,
        "rolled_by": None,
        "rule": "none",
        "time_source": "timeindex",
        "kept_by": "cleanup.policy=compact",
        "dead_records": None,
        "dead_bytes": None,
        "tombstones": None,
        "tombstones_removable": None,
        "text": "kept until then by retention.ms=7d",
    }
    return make_row("segment-fate", **members | fields)


def space(topic: str | None, size: int, retired: str | None = None) -> Row:
    members: dict[str, Any] = {
        "topic": topic, "partition": 0, "apparent_bytes": size, "retired": retired,
        "reserved_index_bytes": 0, "allocated_bytes": None, "log_bytes": 0, "index_bytes": 0,
        "other_bytes": 0, "retired_bytes": 0, "deletable_bytes": 0, "path": "",
    }  # fmt: skip
    return make_row("partition-space", **members)


def step(order: int, command: str | None, undo: str | None = None) -> Row:
    members = {
        "order": order, "command": command, "frees_bytes": 5 << 30, "loses_records": 3,
        "loses_from": 0, "loses_to": 2, "loses_to_ms": NOW,
        "text": "loses 3 records of clicks-0; deleted by the next pass",
        "undo": undo, "directory": "/data/d1",
    }  # fmt: skip
    return make_row("plan-step", **members)


def summary(**fields: Any) -> Row:
    members: dict[str, Any] = {
        "now_ms": NOW, "partitions": 2, "segments": 3, "apparent_bytes": 9 << 30,
        "allocated_bytes": 8 << 30, "retired_bytes": 0, "reserved_index_bytes": 20 << 20,
        "bytes_by_verdict": {"pinned": 6 << 30, "active": 1 << 30}, "next_deletable_ms": None,
        "segments_by_verdict": {"pinned": 2, "active": 1},
    }  # fmt: skip
    return make_row("why-summary", **members | fields)


def fates_of(rows: tuple[Row, ...]) -> list[SegmentFate]:
    return [row for row in rows if isinstance(row, SegmentFate)]


def shown(*rows: Row, width: int = 80) -> list[str]:
    written: list[bytes] = []
    table = WhyTable(Page(written.append, width), quiet=False)
    sums = Sums(NOW)
    for row in rows:
        if isinstance(row, WhySummary):
            for one in (*sum_pinned(fates_of(rows)), *sums.topics()):
                table.write(one)
        sums.add(Item("", "partition"), row)
        table.write(row)
    table.finish()
    return b"".join(written).decode().splitlines()


PIN = {"offset": 4711, "timestamp_ms": NOW + 1, "producer_id": 9, "records_ahead": 1}
ROWS = (
    fate("clicks", 0, "pinned", 3 << 30, pinned_by=PIN),
    fate("clicks", 10, "pinned", 3 << 30, pinned_by=PIN),
    fate("clicks", 20, "active", 1 << 30),
    space("clicks", 7 << 30),
    space("clicks", 1 << 30, "delete"),
    space(None, 1 << 30),
)


def test_largest_topics_are_first() -> None:
    lines = shown(*ROWS, summary())
    # Columns in which no topic has anything are left out.
    assert lines[0].split() == ["topic", "size", "share", "pinned", "active"]
    assert lines[2].split()[:4] == ["clicks", "7.0", "GiB", "77.9%"]
    assert [line.split("  ")[0] for line in lines[3:5]] == ["(other files)", "clicks (-delete)"]


def test_segments_kept_by_one_record_have_one_sentence() -> None:
    text = " ".join(" ".join(shown(*ROWS, summary())).split())
    assert "PINNED clicks-0 from 0 on: 2 segments, 6.0 GiB, kept until then" in text
    assert text.count("PINNED") == 1
    assert "pinned 6.0 GiB 2 segments" in text


def test_plan() -> None:
    goal = {
        "directories": ["/data/d1"], "asked_bytes": 10 << 30, "planned_bytes": 5 << 30,
        "steps": [1, 2, 3],
    }  # fmt: skip
    plan = summary(asked_bytes=10 << 30, planned_bytes=5 << 30, plans=[goal])
    steps = step(1, None), step(2, "kafka-delete-records.sh x"), step(3, None, "kafka-configs.sh y")
    lines = shown(*ROWS, *steps, plan)
    text = " ".join(" ".join(lines).split())
    assert "To free 10.0 GiB in /data/d1, cheapest first:" in text
    assert "     → kafka-delete-records.sh x" in lines
    assert text.count("→") == 1
    assert "     and back: kafka-configs.sh y" in lines
    assert "5.0 GiB short" in text
    assert "already free there" not in text
    assert text.count("/data/d1") == 1
    assert text.count("next pass") == 1


@pytest.mark.parametrize("free", [9 << 30, 10 << 30])
def test_plan_for_what_is_free_already(free: int) -> None:
    members = {
        "path": "/data/d1", "size_bytes": 90 << 30, "used_bytes": 5 << 30, "free_bytes": free,
        "apparent_bytes": 3 << 30, "broker_version": "4.4", "device": "8:1",
        "asked_bytes": 10 << 30, "planned_bytes": 0,
    }  # fmt: skip
    directory = make_row("data-directory", **members)
    goal = {
        "directories": ["/data/d1"], "asked_bytes": 10 << 30, "planned_bytes": 0, "steps": [],
    }  # fmt: skip
    plan = summary(asked_bytes=10 << 30, planned_bytes=0, plans=[goal])
    lines = shown(*ROWS, directory, plan)
    is_enough = free == 10 << 30
    assert ("Before the first step, 10.0 GiB is already free there." in lines) == is_enough
    assert "The plan is 10.0 GiB short" in " ".join(lines)


@pytest.mark.parametrize("width", [80, 100])
def test_fits(width: int) -> None:
    rows = [space("t" * 60 + str(number), number << 40) for number in range(30)]
    rows += [fate("t" * 60 + "9", 0, word, 1 << 50) for word in ("deletable", "kept", "active")]
    rows += [fate("p" * 40, 0, "pinned", 1 << 40, pinned_by=PIN)]
    lines = shown(*rows, summary(apparent_bytes=435 << 40), width=width)
    assert max(map(len, lines)) <= width
    assert any(line.startswith("and 11 topics more") for line in lines)


def compaction(topic: str, **fields: Any) -> Row:
    members: dict[str, Any] = {
        "topic": topic, "partition": 0, "dirty_ratio": 0.25, "dirty_bytes": 1 << 20,
        "cleanable": False, "due_ms": None, "blocked_by": "active-segment", "dead_records": None,
        "dead_bytes": None, "tombstones": None, "tombstones_removable": None, "at_least": None,
        "fails_at": None, "text": "not cleaned: and why",
    }  # fmt: skip
    return make_row("compaction", **members | fields)


CLEANED = {"dead_records": 7, "dead_bytes": 900, "tombstones": 5, "tombstones_removable": 3}


def cells(lines: list[str], start: str) -> list[str]:
    """The cells of the first line that starts so."""
    line = next(line for line in lines if line.lstrip().startswith(start))
    return re.split(r" {2,}", line.strip())


def test_each_segment_of_one_partition_has_a_line() -> None:
    rows = [
        fate("users", 0, "not-deleted-by-policy", 2048, reserved_index_bytes=1024),
        fate("users", 7, "kept", 2048, kept_by="retention.bytes=5", rule="retention.bytes"),
        fate("users", 8, "deletable", 2048, kept_by=None, rule="retention.ms", time_source="mtime"),
        fate("users", 9, "deletable", 2048, kept_by=None, rule="retention.ms"),
        fate("users", 11, "active", 2048, kept_by="retention.ms=7d", deletable_at_ms=NOW),
    ]
    lines = shown(*rows, space("users", 8192), compaction("users"), summary())
    assert "users-0" in lines
    assert cells(lines, "segment") == ["segment", "size", "kept by", "until"]
    assert cells(lines, "0 ") == ["0", "1.0 KiB", "cleanup.policy=compact", "never"]
    assert cells(lines, "7 ")[2:] == ["retention.bytes=5", "more is written"]
    assert cells(lines, "9 ")[2:] == ["-", "next pass, by retention.ms"]
    assert cells(lines, "8 ")[2:] == ["-", "next pass, by retention.ms, file time"]
    assert cells(lines, "11 ")[2:] == ["retention.ms=7d", "2025-11-24T16:00:00Z"]
    assert cells(lines, "users-0  ")[1:3] == ["0.25", "1.0 MiB"]
    several = shown(*rows, fate("orders", 0, "kept", 1), summary())
    assert "users-0" not in several


def test_rolls_and_cleaner_show_in_the_table() -> None:
    rows = [
        fate("users", 0, "not-deleted-by-policy", 2048, **CLEANED),
        fate("users", 7, "active", 2048, rolled_by="active"),
        fate("orders", 0, "kept", 1),
    ]
    cleaning = compaction("users", at_least=True, cleanable=True, **CLEANED)
    lines = shown(*rows, cleaning, summary(), width=100)
    assert cells(lines, "0 ")[-2:] == ["5 (3 due)", "7 records, 900 bytes"]
    assert "at least 7 records, 900 bytes" in cells(lines, "users-0  ")
    assert "due now" in cells(lines, "users-0  ")
    assert "orders-0" not in lines
    rolled = [
        fate("orders", number, "kept", 1, rolled_by="size" if number < 299 else "active")
        for number in range(300)
    ]
    lines = shown(*rolled, summary())
    assert cells(lines, "7 ")[2] == "size"
    assert "and 99 segments more, in --format jsonl" in lines


def test_data_directories() -> None:
    members: dict[str, Any] = {
        "path": "/d1", "size_bytes": 9 << 30, "used_bytes": 5 << 30, "free_bytes": None,
        "apparent_bytes": 3 << 30, "planned_bytes": None,
    }  # fmt: skip
    one = make_row("data-directory", **members)
    two = make_row("data-directory", **members | {"path": "/d2", "free_bytes": 4 << 30})
    lines = shown(*ROWS, one, two, summary())
    assert cells(lines, "/d1") == ["/d1", "3.0 GiB", "9.0 GiB", "5.0 GiB", "-"]
    assert cells(lines, "/d2")[4] == "4.0 GiB"
    assert not any("/d1" in line for line in shown(*ROWS, one, summary()))


def test_note_on_several_directories_is_explained_once() -> None:
    written: list[bytes] = []
    table = WhyTable(Page(written.append, 80), quiet=False)
    for directory in ("/data/d1", "/data/d2"):
        message = f"Topic settings of {directory} are unknown: no metadata log was found."
        path = f"{directory}/meta.properties"
        table.finding(finding("topic-settings-unknown", path=path, message=message))
    table.finish()
    text = " ".join(b"".join(written).decode().split())
    assert text.count("no metadata log was found") == 1
    assert text.endswith("topic-settings-unknown: the same for /data/d2")
