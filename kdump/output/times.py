"""Times for people: UTC, to the millisecond. Everywhere else a time is integer milliseconds."""

from __future__ import annotations

from functools import lru_cache

_DAY_MS = 86_400_000
#: Year 0001 to 9999, what the calendar of ISO 8601 can name.
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999


def time_text(timestamp_ms: int) -> str:
    """Write a time as ISO 8601 in UTC; a number outside the years 1 to 9999 stays a number."""
    if not _FIRST_MS <= timestamp_ms <= _LAST_MS:
        return str(timestamp_ms)
    if timestamp_ms == -1:  # the formats' own mark for "no time"; -1 as a time is never meant
        return "-1"
    days, within = divmod(timestamp_ms, _DAY_MS)
    hours, within = divmod(within, 3_600_000)
    minutes, within = divmod(within, 60_000)
    seconds, millis = divmod(within, 1000)
    return f"{_date_text(days)}T{hours:02}:{minutes:02}:{seconds:02}.{millis:03}Z"


@lru_cache(maxsize=4096)
def _date_text(days: int) -> str:
    from datetime import date

    return date.fromordinal(days + 719_163).isoformat()
