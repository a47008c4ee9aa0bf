"""Write times and durations for messages."""

from __future__ import annotations

from kdump.kernels import text_form


def time_text(timestamp_ms: int) -> str:
    """Write a time as ISO 8601 in UTC, nothing where there is none or no calendar has it."""
    text = text_form.time_text(timestamp_ms)
    return text if text.endswith("Z") else ""


def span_text(duration_ms: int) -> str:
    """Write how long something takes or took, in whole seconds, minutes or hours."""
    seconds = max(duration_ms, 0) // 1000
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 7200:
        return f"{seconds // 60} min"
    return f"{seconds // 3600} h"
