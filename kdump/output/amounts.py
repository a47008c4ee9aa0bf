"""Numbers, sizes and times for people. Everywhere else a time is integer milliseconds."""

from __future__ import annotations

from kdump.kernels import text_form

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def count_text(count: int, word: str) -> str:
    """Write a number and a word, in the plural where it is one."""
    plural = "" if count == 1 or word in ("damage", "rebuild") else "s"
    plural = "es" if plural and word == "batch" else plural
    if plural and word == "directory":
        word, plural = word[:-1], "ies"
    return f"{count:,} {word}{plural}"


def size_text(size_bytes: float) -> str:
    """Write a size with a binary unit and three digits or so."""
    unit = 0
    while size_bytes >= 1024 and unit < len(_UNITS) - 1:
        size_bytes /= 1024
        unit += 1
    return f"{size_bytes:,.0f} {_UNITS[unit]}" if unit < 1 else f"{size_bytes:,.1f} {_UNITS[unit]}"


def number_cell(value: object, absent: str = "-") -> str:
    """Write a number for a cell of a table."""
    return absent if value is None else str(value)


def number_text(value: object, unknown: str = "?") -> str:
    """Write a number with thousands apart."""
    return f"{value:,}" if isinstance(value, int) else unknown


def time_cell(timestamp_ms: object) -> str:
    """Write a time for a cell of a table."""
    return time_text(timestamp_ms) if isinstance(timestamp_ms, int) else "-"


def second_cell(timestamp_ms: object) -> str:
    """Write a time to the second, where that is enough."""
    text = time_cell(timestamp_ms)
    return text[:19] + text[23:] if text[19:20] == "." else text


def seconds_text(value: object) -> str:
    """Write how long something took."""
    seconds = float(str(value))
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {left} s"


_offset_minutes, _zone = 0, "Z"


def show_times_at(minutes: int) -> None:
    """Write times from now on in the zone so many minutes east of UTC."""
    global _offset_minutes, _zone  # of the process that writes: what is asked for holds for all
    sign, (hours, rest) = "-" if minutes < 0 else "+", divmod(abs(minutes), 60)
    _offset_minutes, _zone = minutes, f"{sign}{hours:02}:{rest:02}" if minutes else "Z"


def times_are_utc() -> bool:
    """Whether times are written as the kernels write them."""
    return _offset_minutes == 0


def time_text(timestamp_ms: int) -> str:
    """Write a time as ISO 8601; a number outside the years 1 to 9999 stays a number."""
    if times_are_utc() or timestamp_ms == -1:
        return text_form.time_text(timestamp_ms)
    text = text_form.time_text(timestamp_ms + _offset_minutes * 60_000)
    return text[:-1] + _zone if text.endswith("Z") else str(timestamp_ms)
