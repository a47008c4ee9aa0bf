"""What a person is shown of `why`: topics, what keeps segments, and the plan."""

from typing import Any

import pytest

from kdump.findings.rows import Row
from kdump.output.text_report import Page
from kdump.output.why_table import WhyTable

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
        "text": "kept until then by retention.ms=7d",
    }
    return Row("segment-fate", members | fields)


def space(topic: str | None, size: int, retired: str | None = None) -> Row:
    members = {"topic": topic, "partition": 0, "apparent_bytes": size, "retired": retired}
    return Row("partition-space", members)


def step(order: int, command: str | None, undo: str | None = None) -> Row:
    members = {
        "order": order, "command": command, "frees_bytes": 5 << 30, "loses_records": 3,
        "loses_from": 0, "loses_to": 2, "loses_to_ms": NOW, "text": "loses 3 records of clicks-0",
        "undo": undo,
    }  # fmt: skip
    return Row("plan-step", members)


def summary(**fields: Any) -> Row:
    members: dict[str, Any] = {
        "now_ms": NOW, "partitions": 2, "segments": 3, "apparent_bytes": 9 << 30,
        "allocated_bytes": 8 << 30, "retired_bytes": 0, "reserved_index_bytes": 20 << 20,
        "bytes_by_verdict": {"pinned": 6 << 30, "active": 1 << 30}, "next_deletable_ms": None,
    }  # fmt: skip
    return Row("why-summary", members | fields)


def shown(*rows: Row, width: int = 80) -> list[str]:
    written: list[bytes] = []
    table = WhyTable(Page(written.append, width), quiet=False)
    for row in rows:
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


def test_topics_the_largest_first() -> None:
    lines = shown(*ROWS, summary())
    assert lines[0].split() == ["topic", "size", "share", "deletable", "pinned", "kept", "active"]
    assert lines[2].split()[:4] == ["clicks", "7.0", "GiB", "77.8%"]
    assert [line.split("  ")[0] for line in lines[3:5]] == ["(around)", "clicks (-delete)"]


def test_segments_that_one_record_keeps_are_one_sentence() -> None:
    text = " ".join(" ".join(shown(*ROWS, summary())).split())
    assert "PINNED clicks-0 from 0 on: 2 segments, 6.0 GiB, kept until then" in text
    assert text.count("PINNED") == 1
    assert "pinned 6.0 GiB 2 segments" in text


def test_plan() -> None:
    plan = summary(asked_bytes=10 << 30, planned_bytes=5 << 30)
    steps = step(1, None), step(2, "kafka-delete-records.sh x"), step(3, None, "kafka-configs.sh y")
    lines = shown(*ROWS, *steps, plan)
    text = " ".join(" ".join(lines).split())
    assert "To free 10.0 GiB, cheapest first:" in text
    assert "     → kafka-delete-records.sh x" in lines
    assert text.count("→") == 1
    assert "     and back: kafka-configs.sh y" in lines
    assert "5.0 GiB short" in text


@pytest.mark.parametrize("width", [80, 100])
def test_fits(width: int) -> None:
    rows = [space("t" * 60 + str(number), number << 40) for number in range(30)]
    rows += [fate("t" * 60 + "9", 0, word, 1 << 50) for word in ("deletable", "kept", "active")]
    rows += [fate("p" * 40, 0, "pinned", 1 << 40, pinned_by=PIN)]
    lines = shown(*rows, summary(apparent_bytes=435 << 40), width=width)
    assert max(map(len, lines)) <= width
    assert any(line.startswith("and 11 topics more") for line in lines)
