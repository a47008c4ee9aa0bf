"""Text from the log made safe: for a terminal, and for JSON.

Keys, values, header names and file names are hostile until shown otherwise. Control characters
(C0, DEL, C1), the marks that turn the direction of writing, and the two Unicode line ends are never
passed on as they are: a terminal would obey them.
"""

from __future__ import annotations

import re

#: C0, DEL, C1, and the characters that reorder or break a line without being seen.
HOSTILE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
#: What JSON leaves as it is and a terminal would act upon. The kernel's formatter has the same set.
_HOSTILE_IN_JSON = re.compile(
    "[\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _visible(match: re.Match[str]) -> str:
    character = match.group()
    if character in _SHORT:
        return _SHORT[character]
    number = ord(character)
    if 0xDC80 <= number <= 0xDCFF:  # a byte of a file name that is no UTF-8 (surrogateescape)
        return f"\\x{number - 0xDC00:02x}"
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def visible(text: str) -> str:
    """Return the text with every hostile character spelled out, fit for one line of a terminal."""
    if text.isprintable() and text.isascii():
        return text
    return HOSTILE.sub(_visible, text)


def visible_bytes(data: bytes) -> str:
    """Return bytes as text for a terminal: UTF-8 where valid, `\\xNN` where not."""
    return visible(data.decode("utf-8", "backslashreplace"))


def escape_json(text: str) -> str:
    """Escape in finished JSON text what `json` leaves raw; only strings can hold it."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _HOSTILE_IN_JSON.sub(lambda match: f"\\u{ord(match.group()):04x}", text)
