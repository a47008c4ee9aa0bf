"""Write key, value and header bytes in the four ways of `--bytes`."""

from __future__ import annotations

from collections.abc import Sequence

AUTO, UTF8, HEX, BASE64 = range(4)

#: The words of `--bytes`, at the numbers the kernel's formatter takes.
BYTES_MODES = ("auto", "utf8", "hex", "base64")


def bytes_text(data: bytes, mode: int) -> str:
    """Write bytes as one string. Under auto, what is no UTF-8 becomes base64, unmarked."""
    if mode == HEX:
        return data.hex()
    if mode == BASE64:
        return base64_text(data)
    if mode == UTF8:
        return data.decode("utf-8", "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return base64_text(data)


def base64_text(data: bytes) -> str:
    """Write bytes in base64, on one line."""
    from binascii import b2a_base64

    return b2a_base64(data, newline=False).decode("ascii")


def bytes_json(data: bytes | None, mode: int) -> object:
    """Write bytes as a JSON value: null, a string, or under auto `{"base64": …}` for non-UTF-8."""
    if data is None:
        return None
    if mode != AUTO:
        return bytes_text(data, mode)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64_text(data)}


def headers_json(headers: Sequence[tuple[bytes, bytes | None]], mode: int) -> list[object]:
    """Write headers as the list that stands in the `record` row."""
    return [
        {"key": bytes_json(key, mode), "value": bytes_json(value, mode)} for key, value in headers
    ]
