"""Metrics of `why` for the textfile collector."""

import re
from typing import Any

from declared_rows import make_row

from kdump.output.why_textfile import Gauges

PLACE = {"topic": 'a"b', "partition": 3}
SUMMARY: dict[str, Any] = {
    "log_bytes": 100, "index_bytes": 20, "other_bytes": 3, "retired_bytes": 7,
    "bytes_by_verdict": {"pinned": 60, "active": 40}, "next_deletable_ms": 5_000_999,
}  # fmt: skip


def values(gauges: Gauges, before: str = "", *, succeeded: bool = True) -> dict[str, float]:
    text = gauges.text(1000, before, succeeded=succeeded)
    metric = r"[a-z_]+(\{[a-z]+=\".*\"\})? [0-9.]+"
    for line in text.splitlines():
        assert re.fullmatch(rf"# HELP [a-z_]+ .+|# TYPE [a-z_]+ gauge|{metric}", line), line
    return {
        name: float(value)
        for name, value in re.findall(r"^([a-z_]+(?:\{.*\})?) (\S+)$", text, re.MULTILINE)
    }


def gauges(*rows: tuple[str, dict[str, Any]]) -> Gauges:
    found = Gauges()
    for kind, fields in rows:
        found.add(make_row(kind, **PLACE | fields))
    found.add(make_row("why-summary", **SUMMARY))
    return found


def test_values() -> None:
    def fate(verdict: str, size: int, time_ms: int) -> tuple[str, dict[str, Any]]:
        fields = {"verdict": verdict, "size_bytes": size, "largest_timestamp_ms": time_ms}
        return "segment-fate", fields

    found = values(
        gauges(
            fate("deletable", 9, 3000),
            fate("deletable", 9, 9000),
            ("pinned-segments", {"size_bytes": 20}),
            ("pinned-segments", {"size_bytes": 40}),
            ("partition-space", {"deletable_bytes": 18}),
            ("compaction", {"dirty_ratio": 0.25, "blocked_by": "corrupt-batch"}),
        )
    )
    of = '{topic="a\\"b",partition="3"}'
    assert found[f"kdump_why_pinned_bytes{of}"] == 60
    assert found[f"kdump_why_deletable_bytes{of}"] == 18
    assert found[f"kdump_why_oldest_deletable_timestamp_seconds{of}"] == 3
    assert found[f"kdump_why_dirty_ratio{of}"] == 0.25
    assert found[f"kdump_why_uncleanable{of}"] == 1
    assert found['kdump_why_bytes{what="retired"}'] == 7
    assert found['kdump_why_segment_bytes{verdict="pinned"}'] == 60
    assert found["kdump_why_next_deletable_timestamp_seconds"] == 5000
    assert found["kdump_why_last_success_timestamp_seconds"] == 1000


def test_last_success_survives_a_failed_run() -> None:
    before = gauges().text(77, "", succeeded=True)
    found = values(gauges(), before, succeeded=False)
    assert found["kdump_why_last_success_timestamp_seconds"] == 77
    assert found["kdump_why_last_run_timestamp_seconds"] == 1000
