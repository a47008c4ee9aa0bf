"""Write a run's result as metrics for the textfile collector of Prometheus' node exporter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kdump.findings.finding import Finding, Severity
from kdump.output.textfile import SERIES as SERIES
from kdump.output.textfile import labels, last_runs, metric
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.rows.verify import VerifySummary


class Place(NamedTuple):
    """Where findings of one code are; topic and partition are empty for a data directory's."""

    severity: str
    code: str
    topic: str
    partition: str


def place_of(finding: Finding) -> Place | None:
    """Say to which series a finding belongs; notes are reported by code alone."""
    if finding.severity is Severity.NOTE:
        return None
    partition = "" if finding.partition is None else str(finding.partition)
    return Place(finding.severity.value, finding.code, finding.topic or "", partition)


def metrics(
    summary: VerifySummary | None,
    *,
    now_s: int,
    succeeded: bool,
    before: str,
    places: Mapping[Place, int] | None = None,
) -> str:
    """Write the metrics of a run that has ended; `before` is what the file held until now.

    The time of the last success outlives runs that fail, so that an alert on its age holds.
    """
    lines = _lines(summary, now_s, succeeded, before, places or {})
    return "".join(f"{line}\n" for line in lines)


def _lines(
    summary: VerifySummary | None,
    now_s: int,
    succeeded: bool,
    before: str,
    places: Mapping[Place, int],
) -> Iterator[str]:
    if summary is not None:
        yield from _of_summary(summary)
        yield from metric(
            "kdump_verify_findings_by_partition",
            "Damage and rebuild findings of the last run, by place.",
            {labels(**place._asdict()): count for place, count in places.items()},
        )
        if summary.forecast is not None:
            yield from _of_forecast(summary.forecast)
    yield from metric(
        "kdump_verify_finished",
        "Whether everything requested was checked.",
        {"": int(summary is not None and bool(summary.finished))},
    )
    yield from last_runs("verify", now_s, before, succeeded=succeeded)


def _of_summary(row: VerifySummary) -> Iterator[str]:
    for name, help_text, label, member in (
        ("findings", "Findings of the last run.", "severity", "findings"),
        ("findings_by_code", "Findings of the last run by code.", "code", "codes"),
        ("not_checked", "What the last run did not check.", "what", "not_checked"),
    ):
        values = {f'{{{label}="{word}"}}': count for word, count in row[member].items()}
        yield from metric(f"kdump_verify_{name}", help_text, values)
    for name, help_text in (
        ("paths", "Partitions checked by the last run."),
        ("segments", "Segments read by the last run."),
        ("batches", "Batches read by the last run."),
        ("bytes", "Bytes of logs read by the last run."),
        ("seconds", "How long the last run took."),
        ("paths_unfinished", "Paths that the last run could not read."),
    ):
        yield from metric(f"kdump_verify_{name}", help_text, {"": row[name]})


def _of_forecast(values: Mapping[str, Any]) -> Iterator[str]:
    for name, help_text in (
        ("records_lost", "Records that the next start would lose."),
        ("partitions_losing", "Partitions that would lose records at the next start."),
        ("segments_to_read", "Segments that the next start would read."),
        ("bytes_to_read", "Bytes of logs that the next start would read."),
        ("seconds", "How long the next start may take to read them."),
    ):
        yield from metric(f"kdump_verify_start_{name}", help_text, {"": values[name]})
