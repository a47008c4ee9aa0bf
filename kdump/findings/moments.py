"""Write times and durations for messages."""

from __future__ import annotations

from kdump.kernels import text_form


def time_text(timestamp_ms: int) -> str:
    """Write a time as ISO 8601 in UTC, nothing where there is none or no calendar has it."""
    text = text_form.time_text(timestamp_ms)
    return text if text.endswith("Z") else ""


def beyond_text(timestamp_ms: int) -> str:
    """Say on which side of the calendar's years a time is."""
    return "after year 9999" if timestamp_ms > 0 else "before year 1"


def span_text(duration_ms: int) -> str:
    """Write how long something takes or took, in whole seconds, minutes, hours or days."""
    seconds = max(duration_ms, 0) // 1000
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 7200:
        return f"{seconds // 60} min"
    hours = seconds // 3600
    return f"{hours} h" if hours < 72 else f"{hours // 24:,} d"
