"""Escape text from the log, for a terminal and for JSON.

Keys, values, header names and file names are hostile until shown otherwise. Control characters
(C0, DEL, C1), the marks that turn the direction of writing, and the two Unicode line ends are never
passed on as they are: a terminal would obey them.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: What reorders or breaks a line without being seen, and the halves of UTF-16 pairs that stand for
#: bytes of file names that are no UTF-8 and cannot be encoded.
_UNSEEN = "\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_encoder: Callable[[object], str] | None = None
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


@cache
def _terminal() -> re.Pattern[str]:
    """Compile what a terminal would act upon; most runs meet none of it and need no pattern."""
    return re.compile(f"[\x00-\x1f\x7f-\x9f\u061c{_UNSEEN}]")


@cache
def _json() -> re.Pattern[str]:
    """Compile what JSON leaves as it is; the kernel's formatter has the same set."""
    return re.compile(f"[\x7f-\x9f{_UNSEEN}]")


def _spell(match: re.Match[str]) -> str:
    character = match.group()
    if character in _SHORT:
        return _SHORT[character]
    number = ord(character)
    if 0xDC80 <= number <= 0xDCFF:
        return f"\\x{number - 0xDC00:02x}"
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def visible(text: str) -> str:
    """Return the text with every hostile character spelled out, fit for one line of a terminal."""
    if text.isascii() and text.isprintable():
        return text
    return _terminal().sub(_spell, text)


def name_text(name: str) -> str:
    """Spell a name, of a file or a topic, so that no two names are the same text.

    For lines that programs read, where a raw line end would be another line: as `visible` does,
    with backslashes doubled.
    """
    return visible(name.replace("\\", "\\\\"))


def visible_bytes(data: bytes) -> str:
    """Return bytes as text for a terminal: UTF-8 where valid, `\\xNN` where not."""
    return visible(data.decode("utf-8", "backslashreplace"))


def escape_json(text: str) -> str:
    """Escape in finished JSON text what `json` leaves raw; only strings can hold it."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _json().sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def json_text(value: object) -> str:
    """Write a value as one line of JSON text, without the line end."""
    global _encoder  # most runs need no encoder, and its import is not free
    if _encoder is None:
        _encoder = _new_encoder()
    return escape_json(_encoder(value))


def _new_encoder() -> Callable[[object], str]:
    """Make an encoder; the one in C once, where `JSONEncoder` makes one for each value."""
    from json import encoder

    made = encoder.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
    make = getattr(encoder, "c_make_encoder", None)  # not every Python has it
    if make is None:
        return made.encode
    quoted = encoder.encode_basestring
    write = make(None, made.default, quoted, None, ":", ",", False, False, True)
    return lambda value: "".join(write(value, 0))
