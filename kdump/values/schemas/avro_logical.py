"""Avro's logical types, as JSON: what is no sound one is shown as the type below it."""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

#: Digits of a decimal; there is none in use that has near as many, and Python writes some 4,300.
_MOST_DIGITS, _MOST_BYTES = 4000, 1600
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - local timestamps have no zone
_DAY = 86400


def of(schema: dict[str, Any], raw: Callable[..., Any], base: Any) -> Any:
    """Return the type of a logical type, None for one that is not known or not sound.

    `raw` reads what it lies in, bytes and fixed as bytes; `base` is the type without it.
    """
    logical, kind = schema.get("logicalType"), schema["type"]
    if not isinstance(logical, str):
        return None
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if not _is_sound(precision, scale):
            return None
        return _make_shown(raw, lambda data: _decimal(data, scale), base)
    if kind == "fixed":
        shown = _FIXED.get((logical, schema["size"]))
    else:
        shown = _NUMBERS.get((logical, kind))
    return None if shown is None else _make_shown(raw, shown, base)


def _is_sound(precision: object, scale: object) -> bool:
    if type(precision) is not int or type(scale) is not int:
        return False
    return 0 < precision <= _MOST_DIGITS and 0 <= scale <= precision


def _make_shown(raw: Callable[..., Any], shown: Callable[[Any], Any], base: Any) -> Any:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        value, at = raw(data, at)
        return shown(value), at

    return base._replace(read=read)


def _decimal(data: bytes, scale: int) -> str:
    if len(data) > _MOST_BYTES:
        return b2a_base64(data, newline=False).decode("ascii")
    number = int.from_bytes(data, "big", signed=True)
    digits = str(abs(number)).rjust(scale + 1, "0")
    text = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    return f"-{text}" if number < 0 else text


def _uuid(data: bytes) -> str:
    text = data.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _duration(data: bytes) -> dict[str, int]:
    names = ("months", "days", "millis")
    return {name: int.from_bytes(data[4 * i : 4 * i + 4], "little") for i, name in enumerate(names)}


@lru_cache(1 << 12)
def _date(days: int) -> str | int:
    try:
        return (_EPOCH + timedelta(days)).isoformat()[:10]
    except OverflowError:
        return days


def timestamp(unit: int, digits: int, zone: str) -> Callable[[int], str | int]:
    """Return what writes a number of units, so many a second, since 1970."""

    def shown(value: int) -> str | int:
        seconds, rest = divmod(value, unit)
        try:
            return f"{(_EPOCH + timedelta(0, seconds)).isoformat()}.{rest:0{digits}d}{zone}"
        except OverflowError:
            return value

    return shown


def _time(unit: int, digits: int) -> Callable[[int], str | int]:
    def shown(value: int) -> str | int:
        seconds, rest = divmod(value, unit)
        if not 0 <= seconds < _DAY:
            return value
        minutes, second = divmod(seconds, 60)
        return f"{minutes // 60:02}:{minutes % 60:02}:{second:02}.{rest:0{digits}d}"

    return shown


_UNITS = {"millis": (1000, 3), "micros": (1_000_000, 6), "nanos": (1_000_000_000, 9)}
_NUMBERS: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("date", "int"): _date,
    ("time-millis", "int"): _time(1000, 3),
    ("time-micros", "long"): _time(1_000_000, 6),
}
_NUMBERS |= {(f"timestamp-{name}", "long"): timestamp(*unit, "Z") for name, unit in _UNITS.items()}
_NUMBERS |= {
    (f"local-timestamp-{name}", "long"): timestamp(*unit, "") for name, unit in _UNITS.items()
}
_FIXED: dict[tuple[str, int], Callable[[bytes], Any]] = {
    ("uuid", 16): _uuid,
    ("duration", 12): _duration,
}
