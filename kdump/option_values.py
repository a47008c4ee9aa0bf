"""How the values of options are read: one reader for the command line and for Spark.

A reader takes text, and raises ValueError with the end of a sentence that begins with the text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

#: What a consumer may be told to read, in Kafka's words.
ISOLATION_LEVELS = ("read_uncommitted", "read_committed")

_UNITS = {
    "": 1, "b": 1,
    "k": 1 << 10, "kib": 1 << 10, "kb": 10**3,
    "m": 1 << 20, "mib": 1 << 20, "mb": 10**6,
    "g": 1 << 30, "gib": 1 << 30, "gb": 10**9,
    "t": 1 << 40, "tib": 1 << 40, "tb": 10**12,
}  # fmt: skip
_BACK_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


def read_size(text: str) -> int:
    """Read a number of bytes: 1000000, 64MiB, 1.5GiB. K, M, G and T alone are binary as well."""
    match = re.fullmatch(r"\s*(\d+)(?:\.(\d+))?\s*([a-zA-Z]*)\s*", text)
    unit = _UNITS.get(match[3].lower()) if match else None
    if match is None or unit is None:
        raise ValueError("is not a size: give bytes, or a unit as in 64MiB")
    part = match[2] or "0"
    size: int = int(match[1]) * unit + int(part) * unit // 10 ** len(part)
    if size >= 1 << 63:
        raise ValueError("does not fit in 64 bits")
    return size


def read_positive_size(text: str) -> int:
    """Read a number of bytes that is not zero."""
    size = read_size(text)
    if size == 0:
        raise ValueError("is not a size: give at least one byte")
    return size


def read_int_size(text: str) -> int:
    """Read a number of bytes that is an `int` in Kafka's settings."""
    size = read_size(text)
    if size >= 1 << 31:
        raise ValueError("is more than Kafka's limit, 2147483647")
    return size


def read_int64(text: str) -> int:
    """Read a whole number of 64 bits, as offsets, times and producer ids are."""
    try:
        number = int(text)
    except ValueError:
        raise ValueError("is not a whole number") from None
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError("does not fit in 64 bits")
    return number


def read_count(text: str) -> int:
    """Read a whole number from 0 on, as partition numbers are."""
    number = read_int64(text)
    if number < 0:
        raise ValueError("is below 0")
    return number


def read_time(text: str) -> int:
    """Read a time as epoch milliseconds.

    A number is epoch milliseconds, and rejected if it can only be meant as seconds; after an @ it
    is seconds. Otherwise ISO 8601 (UTC by default), `14:05` (today), `yesterday`,
    `yesterday 14:05`, `now`, or a distance back: `now-30m`, `now-1d12h`, `-2h`, `2 hours ago`.
    """
    text = text.strip()
    if re.fullmatch(r"[+-]?\d+", text):
        time_ms = read_int64(text)
        if time_ms in MEANT_AS_SECONDS:
            raise ValueError(
                f"is in 1970 as milliseconds; if these are seconds, type {time_ms * 1000} or "
                f"@{time_ms}, else {_in_1970(time_ms)}"
            )
        return time_ms
    if re.fullmatch(r"@-?\d+", text):
        return read_int64(f"{text[1:]}000")
    if text == "now":
        return _read_now("0s")
    if text.startswith(("now-", "-")):
        return _read_now(text.removeprefix("now")[1:])
    if back := _AGO.fullmatch(text):
        return _read_now(back[1] + back[2])
    from datetime import UTC, datetime, time, timedelta

    try:
        day, _, clock = text.partition(" ")
        if day in _DAYS_BACK or re.match(r"\d\d:\d\d", text):
            of_day = time.fromisoformat((clock or "00:00") if day in _DAYS_BACK else text)
            today = datetime.now(of_day.tzinfo or UTC).date()
            moment = datetime.combine(today - timedelta(_DAYS_BACK.get(day, 0)), of_day)
        else:
            moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(_NO_TIME) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


#: As milliseconds in 1970, which no log is of; as seconds from 2001 to 2100.
MEANT_AS_SECONDS = range(978_307_200, 4_102_444_800)


def _in_1970(time_ms: int) -> str:
    from datetime import UTC, datetime

    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


_AGO = re.compile(r"(\d+) ?([smhdw])(?:ec|econd|in|inute|our|r|ay|eek)?s? ago")
_DAYS_BACK = {"today": 0, "yesterday": 1}
_NO_TIME = (
    "is not a time: give epoch milliseconds, 2026-11-19T10:00:00Z, 14:05, 'yesterday 14:05', now, "
    "now-30m, or '30 minutes ago'"
)


def _read_now(back: str) -> int:
    import time

    return time.time_ns() // 1_000_000 - _read_parts(back, _NO_TIME)


def _read_parts(text: str, why: str, number: str = r"\d+") -> int:
    """Read a length of time in milliseconds, as numbers with units."""
    parts = re.findall(f"({number})(ms|[smhdw])", text)
    if not parts or "".join(many + unit for many, unit in parts) != text:
        raise ValueError(why)
    return sum(int(many) * _BACK_MS[unit] for many, unit in parts)


def read_duration(text: str) -> float:
    """Read a length of time in seconds: 90, 30m, 1h30m, 7d."""
    text = text.strip()
    if re.fullmatch(r"\d{1,12}", text):
        return float(text)
    why = "is not a duration: give seconds, or units as in 1h30m"
    return _read_parts(text, why, r"\d{1,12}") / 1000


def read_utc_offset(text: str) -> int:
    """Read how far a zone is east of UTC, in minutes: +02:00, -0330, +5, Z."""
    if text.strip().upper() in ("Z", "UTC"):
        return 0
    match = re.fullmatch(r"([+-])(\d{1,2})(?::?([0-5]\d))?", text.strip())
    minutes = int(match[2]) * 60 + int(match[3] or 0) if match else _MOST_MINUTES + 1
    if match is None or minutes > _MOST_MINUTES:
        raise ValueError("is not an offset from UTC: give one as in +02:00")
    return -minutes if match[1] == "-" else minutes


_MOST_MINUTES = 18 * 60


def read_rate(text: str) -> int:
    """Read bytes a second: 50MiB, 50MiB/s."""
    rate = read_size(re.sub(r"(?i)/s\s*\Z", "", text))
    if rate == 0:
        raise ValueError("is too low: give at least one byte per second")
    return rate


def read_slice(text: str) -> tuple[int, int]:
    """Read N/T, the Nth of T slices."""
    match = re.fullmatch(r"\s*(\d{1,9})/(\d{1,9})\s*", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError("is not a slice: give N/T, as in 1/7, with N from 1 to T")
    return int(match[1]), int(match[2])


def read_pattern(text: str) -> re.Pattern[bytes]:
    """Read a regular expression over bytes."""
    try:
        return re.compile(os.fsencode(text))
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from None


def read_choice(text: str, known: Sequence[str]) -> str:
    """Read one of some words, in upper or lower case."""
    word = text.strip().lower()
    if word not in known:
        if len(known) == 2:
            raise ValueError(f"is neither {known[0]} nor {known[1]}")
        from difflib import get_close_matches  # most runs are spelled right

        near = get_close_matches(word, known, 1)
        hint = f"did you mean {near[0]}?" if near else f"give one of {', '.join(known)}"
        raise ValueError(f"is unknown: {hint}")
    return word


def read_truth(text: str) -> bool:
    """Read true or false, in upper or lower case."""
    return read_choice(text, ("true", "false")) == "true"


def read_words(text: str, known: Sequence[str]) -> tuple[str, ...]:
    """Read WORD[,WORD...], in whatever order."""
    given = [word.strip() for word in text.split(",")]
    if unknown := [word for word in given if word not in known]:
        has = f"has {unknown[0]!r}, which " if len(given) > 1 else ""
        raise ValueError(f"{has}is not one of {', '.join(known)}")
    return tuple(word for word in known if word in given)
