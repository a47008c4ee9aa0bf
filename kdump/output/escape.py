"""Text from the log made safe: for a terminal, and for JSON.

Keys, values, header names and file names are hostile until shown otherwise. Control characters
(C0, DEL, C1), the marks that turn the direction of writing, and the two Unicode line ends are never
passed on as they are: a terminal would obey them.
"""

from __future__ import annotations

from itertools import chain

#: What reorders or breaks a line without being seen.
_UNSEEN = (0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
#: Halves of UTF-16 pairs stand for bytes of file names that are no UTF-8; they cannot be encoded.
_SURROGATES = range(0xD800, 0xE000)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _visible(number: int) -> str:
    if 0xDC80 <= number <= 0xDCFF:
        return f"\\x{number - 0xDC00:02x}"
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


class _Table(dict[int, str]):
    """A table for `str.translate` that spells out the surrogates without holding them."""

    def __missing__(self, number: int) -> str:
        if number in _SURROGATES:
            return self.spell(number)
        raise LookupError

    def spell(self, number: int) -> str:
        return _visible(number)


class _JsonTable(_Table):
    def spell(self, number: int) -> str:
        return f"\\u{number:04x}"


_TERMINAL = _Table(
    (number, _SHORT.get(chr(number)) or _visible(number))
    for number in chain(range(0x20), range(0x7F, 0xA0), (0x061C,), _UNSEEN)
)
#: What JSON leaves as it is and a terminal would act upon; the kernel's formatter has the same set.
_JSON = _JsonTable((number, f"\\u{number:04x}") for number in chain(range(0x7F, 0xA0), _UNSEEN))


def visible(text: str) -> str:
    """Return the text with every hostile character spelled out, fit for one line of a terminal."""
    if text.isprintable() and text.isascii():
        return text
    return text.translate(_TERMINAL)


def visible_bytes(data: bytes) -> str:
    """Return bytes as text for a terminal: UTF-8 where valid, `\\xNN` where not."""
    return visible(data.decode("utf-8", "backslashreplace"))


def escape_json(text: str) -> str:
    """Escape in finished JSON text what `json` leaves raw; only strings can hold it."""
    if text.isascii() and "\x7f" not in text:
        return text
    return text.translate(_JSON)
