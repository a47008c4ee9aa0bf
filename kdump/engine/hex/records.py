"""Annotate the records of a v2 batch, field by field (F23, F24, F29)."""

from __future__ import annotations

import json

from kdump.engine.hex.lines import Lines, to_ascii
from kdump.findings.moments import time_text
from kdump.kernels import reasons
from kdump.kernels.varints import Bad, varint
from kdump.record import control
from kdump.record.layout import CONTROL_BIT, TIMESTAMP_TYPE_BIT

MAX_RECORDS = 200
_MAX_HEADERS = 32
_HEADERS_WALKED = 4096
_SMALLEST_BODY = 6


class DecodeStop(Exception):
    """Decoding cannot go on at `position`; `reason` is one of the kernels'."""

    def __init__(self, position: int, reason: int) -> None:
        super().__init__(position, reason)
        self.position = position
        self.reason = reason


def records(lines: Lines, view: memoryview, start: int, end: int, values: dict[str, int]) -> None:
    """Write the records in `view[start:end]`; `values` are the fields of the batch header."""
    count = values["recordsCount"]
    at = start
    try:
        if count < 0:
            raise DecodeStop(at, reasons.COUNT_NEGATIVE)
        for number in range(count):
            if number == MAX_RECORDS or lines.full:
                lines.text(
                    f"… {count - number:,} more records, {end - at:,} bytes from {lines.at(at)} on"
                )
                return
            if at == end:
                raise DecodeStop(at, reasons.RECORDS_MISSING)
            lines.text(f"record {number + 1:,} of {count:,}")
            at = _record(lines, view, at, end, values)
        if count and at < end:
            raise DecodeStop(at, reasons.RECORDS_REMAINING)
    except DecodeStop as stopped:
        lines.muted = False
        at = stopped.position
        lines.stop(at, reasons.NAMES[stopped.reason], view[at:end])
        return
    if at < end:
        lines.text("Bytes after an empty batch's header, which brokers ignore:")
        lines.write_rest(at, view[at:end])


def read_varint(view: memoryview, at: int, end: int, most: int = 5) -> tuple[int, int]:
    """Read a zigzag varint as the kernels do: (value, position behind it)."""
    try:
        return varint(view, at, end, most)
    except Bad as bad:
        raise DecodeStop(at, bad.reason) from None


def _varint(lines: Lines, view: memoryview, at: int, end: int, name: str) -> tuple[int, int]:
    """Read a varint and write it as a field."""
    value, behind = read_varint(view, at, end)
    is_null = value < 0 and name in ("keyLength", "valueLength", "headerValueLength")
    lines.field(at, view[at:behind], name, "null" if is_null else f"{value:,}")
    return value, behind


def _bytes(
    lines: Lines, view: memoryview, at: int, end: int, name: str, reason: int
) -> tuple[bytes | None, int]:
    """Read a length and that many bytes, and write both."""
    size, at = _varint(lines, view, at, end, f"{name}Length")
    if size < 0 and name != "headerKey":
        return None, at
    if not 0 <= size <= end - at:
        raise DecodeStop(at, reason)
    if size:
        lines.data(at, view[at : at + size], name)
    return bytes(view[at : at + size]), at + size


def _record(lines: Lines, view: memoryview, at: int, end: int, values: dict[str, int]) -> int:
    """Write one record; return the position behind it."""
    start = at
    try:
        size, at = _varint(lines, view, at, end, "length")
    except DecodeStop as stopped:
        if stopped.reason == reasons.RECORD_LENGTH_MISMATCH:
            raise DecodeStop(start, reasons.RECORD_CUT_SHORT) from None
        raise
    if size < _SMALLEST_BODY:
        raise DecodeStop(at, reasons.RECORD_LENGTH)
    if size > end - at:
        raise DecodeStop(at, reasons.RECORD_CUT_SHORT)
    end = at + size
    unused = "not read by any version" if view[at] else ""
    lines.field(at, view[at : at + 1], "attributes", f"{view[at]:02x}", unused)
    at += 1
    delta, behind = read_varint(view, at, end, 10)
    timestamp = time_text(values["baseTimestamp"] + delta)
    if values["attributes"] & TIMESTAMP_TYPE_BIT:
        timestamp = "not used: the append time is maxTimestamp"
    lines.field(at, view[at:behind], "timestampDelta", f"{delta:,}", timestamp)
    at = behind
    delta, behind = read_varint(view, at, end)
    lines.field(
        at, view[at:behind], "offsetDelta", f"{delta:,}", f"offset {values['baseOffset'] + delta:,}"
    )
    key, at = _bytes(lines, view, behind, end, "key", reasons.KEY_LENGTH)
    value, at = _bytes(lines, view, at, end, "value", reasons.VALUE_LENGTH)
    if values["attributes"] & CONTROL_BIT:
        parsed = json.dumps(control.parse(key, value))
        lines.text(f"→ control record {to_ascii(parsed)}")
    at = _headers(lines, view, at, end)
    if at != end:
        raise DecodeStop(at, reasons.RECORD_LENGTH_MISMATCH)
    return end


def _headers(lines: Lines, view: memoryview, at: int, end: int) -> int:
    count, at = _varint(lines, view, at, end, "headerCount")
    if not 0 <= count <= end - at:
        raise DecodeStop(at, reasons.HEADER_COUNT)
    for number in range(count):
        if number == _HEADERS_WALKED:
            at = end  # whoever wrote so many is not answered one by one
            break
        lines.muted = number >= _MAX_HEADERS
        _, at = _bytes(lines, view, at, end, "headerKey", reasons.HEADER_KEY_LENGTH)
        _, at = _bytes(lines, view, at, end, "headerValue", reasons.HEADER_VALUE_LENGTH)
    lines.muted = False
    if count > _MAX_HEADERS:
        lines.text(f"… {count - _MAX_HEADERS:,} more headers")
    return at
