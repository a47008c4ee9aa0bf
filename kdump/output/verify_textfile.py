"""A run's outcome as metrics for the textfile collector of Prometheus' node exporter."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kdump.engine.rows import Row

_SUCCESS = "kdump_verify_last_success_timestamp_seconds"


def metrics(summary: Row | None, *, now_s: int, succeeded: bool, before: str) -> str:
    """Write the metrics of a run that has ended; `before` is what the file held until now.

    The time of the last success outlives runs that fail, so that an alert on its age holds.
    """
    return "".join(f"{line}\n" for line in _lines(summary, now_s, succeeded, before))


def _lines(summary: Row | None, now_s: int, succeeded: bool, before: str) -> Iterator[str]:
    if summary is not None:
        yield from _of_summary(summary.fields)
    yield from _metric(
        "kdump_verify_finished",
        "Whether all that was asked for was looked at.",
        {"": int(summary is not None and bool(summary.fields["finished"]))},
    )
    yield from _metric(
        "kdump_verify_last_run_timestamp_seconds", "When the last run ended.", {"": now_s}
    )
    last = now_s if succeeded else _last_success(before)
    if last is not None:
        yield from _metric(_SUCCESS, "When a run last ended with all paths read.", {"": last})


def _of_summary(fields: dict[str, object]) -> Iterator[str]:
    yield from _metric(
        "kdump_verify_findings",
        "Findings of the last run.",
        _labelled("severity", fields["findings"]),
    )
    yield from _metric(
        "kdump_verify_findings_by_code",
        "Findings of the last run by code.",
        _labelled("code", fields["codes"]),
    )
    yield from _metric(
        "kdump_verify_not_checked",
        "What the last run did not look at.",
        _labelled("what", fields["not_checked"]),
    )
    for name, help_text in (
        ("paths", "Partitions looked at by the last run."),
        ("segments", "Segments read by the last run."),
        ("batches", "Batches read by the last run."),
        ("bytes", "Bytes of logs read by the last run."),
        ("seconds", "How long the last run took."),
        ("paths_unfinished", "Paths that the last run could not read."),
    ):
        value = fields[name]
        assert isinstance(value, (int, float))
        yield from _metric(f"kdump_verify_{name}", help_text, {"": value})


def _labelled(label: str, counts: object) -> dict[str, int]:
    assert isinstance(counts, dict)
    return {f'{{{label}="{name}"}}': count for name, count in counts.items()}


def _metric(name: str, help_text: str, values: Mapping[str, float]) -> Iterator[str]:
    if not values:
        return
    yield f"# HELP {name} {help_text}"
    yield f"# TYPE {name} gauge"
    for labels, value in values.items():
        yield f"{name}{labels} {value}"


def _last_success(before: str) -> int | None:
    found = re.search(rf"^{_SUCCESS} (\d{{1,12}})$", before, re.MULTILINE)
    return int(found[1]) if found else None
