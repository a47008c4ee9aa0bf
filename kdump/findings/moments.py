"""Write times and durations for messages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999  # the years 1 to 9999


def time_text(timestamp_ms: int) -> str:
    """Write a time as ISO 8601 in UTC, nothing where there is none or no calendar has it."""
    if timestamp_ms == -1 or not _FIRST_MS <= timestamp_ms <= _LAST_MS:
        return ""
    time = _EPOCH + timedelta(milliseconds=timestamp_ms)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def span_text(duration_ms: int) -> str:
    """Write how long something takes or took, in whole seconds, minutes or hours."""
    seconds = max(duration_ms, 0) // 1000
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 7200:
        return f"{seconds // 60} min"
    return f"{seconds // 3600} h"
