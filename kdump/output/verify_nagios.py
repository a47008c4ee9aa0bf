"""One line for a monitoring plug-in, with performance data, and its own four statuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.output.escape import visible
from kdump.output.progress import counted

if TYPE_CHECKING:
    from kdump.engine.findings import Finding
    from kdump.engine.rows import Row

OK, WARNING, CRITICAL, UNKNOWN = 0, 1, 2, 3
_WORDS = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
#: What was asked for and not done; that a batch was not opened without --deep is no such thing.
_LEFT = (
    "segments_out_of_time",
    "segments_not_read",
    "batches_over_limit",
    "batches_without_codec",
)
#: A bar would start performance data, and a line end the long output.
_PLAIN = str.maketrans({"|": "/", "\n": " ", "\r": " "})


def plugin_status(summary: Row | None, errors: int) -> int:
    """Return the status: damage stays true even if the rest could not be read.

    What was found to be rebuilt does not hide that a path was not read, for there may be damage.
    """
    findings = _findings(summary)
    if findings.get("damage"):
        return CRITICAL
    if errors or summary is None:
        return UNKNOWN
    return WARNING if findings.get("rebuild") else OK


def plugin_line(worst: Finding | None, summary: Row | None, errors: int, why: str) -> str:
    """Write the line; `why` is the last error, for when there is nothing better to say."""
    status = plugin_status(summary, errors)
    findings = _findings(summary)
    if worst is not None and status in (WARNING, CRITICAL):
        told = _told(worst, findings)
    elif status == UNKNOWN:
        told = why or "nothing was checked"
    else:
        assert summary is not None
        partitions = counted(_number(summary, "paths"), "partition")
        told = f"{partitions}, {counted(_number(summary, 'segments'), 'segment')} checked"
    line = f"KDUMP {_WORDS[status]} - {visible(told).translate(_PLAIN)}"
    return line if summary is None else f"{line} | {_performance(summary)}"


def _told(worst: Finding, findings: dict[str, int]) -> str:
    """Name the worst finding and where it is."""
    word = worst.severity.value
    where = worst.path
    if worst.topic is not None:
        where = f"{worst.topic}-{worst.partition}"
    parts = [f"{findings[word]} {word}: {worst.code} in {where}"]
    if worst.offset is not None:
        parts.append(f"at offset {worst.offset}")
    elif worst.position is not None:
        parts.append(f"at position {worst.position}")
    if worst.lost_at_most:
        least = worst.lost_at_least or 0
        lost = worst.lost_at_most
        parts.append(f"({lost if least == lost else f'{least} to {lost}'} records)")
    return " ".join(parts)


def _performance(summary: Row) -> str:
    findings = _findings(summary)
    left = summary.fields["not_checked"]
    assert isinstance(left, dict)
    not_checked = sum(left.get(word, 0) for word in _LEFT)
    return (
        f"damaged={findings['damage']};;0 rebuild={findings['rebuild']};0"
        f" bytes={summary.fields['bytes']}B seconds={float(str(summary.fields['seconds'])):g}"
        f" not_checked={not_checked}"
    )


def _findings(summary: Row | None) -> dict[str, int]:
    found = {} if summary is None else summary.fields["findings"]
    assert isinstance(found, dict)
    return found


def _number(summary: Row, name: str) -> int:
    value = summary.fields[name]
    assert isinstance(value, int)
    return value
