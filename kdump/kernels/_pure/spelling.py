"""Spell bytes and text as a form of rows wants them, in pieces of bounded size."""

from __future__ import annotations

import codecs
import re
from binascii import b2a_base64
from functools import cache
from json.encoder import encode_basestring
from typing import TYPE_CHECKING

from kdump.kernels import columns as c

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.kernels._pure.layout import Write
    from kdump.kernels.text_form import TextForm

    Spell = Callable[[str], str]

_PIECE = 1 << 18
_BLOCK = 3 << 14  # of a long value; a multiple of 3, so that base64 needs no padding inside

# What a terminal might act on: controls, line and paragraph separators, direction marks.
_UNSEEN = "\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069"
_JSON_UNSEEN = re.compile(f"[{_UNSEEN}]")
_SHOWN_UNSEEN = re.compile(f"[\0-\x1f\u061c{_UNSEEN}]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_QUOTED = re.compile(b'[",\r\n]')
_QUOTED_SHOWN = re.compile(b'[",]')
_SURROGATE = re.compile(b"\xed[\xa0-\xbf][\x80-\xbf]?")
#: What begins a formula in a spreadsheet, also written wide as in East Asian texts.
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")


def _json(text: str) -> str:
    """Spell text as between the quotes of a JSON string."""
    text = encode_basestring(text)[1:-1]
    if text.isascii() and "\x7f" not in text:
        return text
    return _JSON_UNSEEN.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def _show(text: str) -> str:
    """Spell out what a terminal would act on."""
    if text.isascii() and text.isprintable():
        return text
    return _SHOWN_UNSEEN.sub(_show_mark, text)


def _show_mark(match: re.Match[str]) -> str:
    mark = match.group()
    number = ord(mark)
    return _SHORT.get(mark) or (f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}")


class Out:
    """Collects output and hands it on in pieces."""

    def __init__(self, write: Write) -> None:
        self.write = write
        self.parts: list[bytes] = []
        self.size = 0

    def put(self, part: bytes) -> None:
        self.parts.append(part)
        self.size += len(part)
        if self.size >= _PIECE:
            self.flush()

    def flush(self) -> None:
        if self.parts:
            self.write(b"".join(self.parts))
            self.parts.clear()
            self.size = 0


@cache
def speller(*, json: bool, shown: bool, doubled: bool) -> Spell:
    """Return how text is spelled; in a quoted cell of CSV quotes are doubled."""
    steps = [step for step, wanted in ((_json, json), (_show, shown)) if wanted]

    def spell(text: str) -> str:
        for step in steps:
            text = step(text)
        return text.replace('"', '""') if doubled else text

    return spell


def put_text(out: Out, piece: memoryview, spell: Spell, decode: str = "replace") -> None:
    """Write text; what is not UTF-8 becomes U+FFFD. Long text is written block by block."""
    if len(piece) <= _BLOCK:
        out.put(spell(str(piece, "utf-8", decode)).encode())
        return
    decoder = codecs.getincrementaldecoder("utf-8")(decode)
    for block in _blocks(piece):
        out.put(spell(decoder.decode(block)).encode())
    out.put(decoder.decode(b"", final=True).encode())


def _blocks(piece: memoryview) -> Iterator[memoryview]:
    return (piece[at : at + _BLOCK] for at in range(0, len(piece), _BLOCK))


def put_blocks(out: Out, piece: memoryview) -> None:
    """Write bytes as they are."""
    for block in _blocks(piece):
        out.put(bytes(block))


def put_java_text(out: Out, piece: memoryview, spell: Spell) -> None:
    """Write text as Java decodes it: a surrogate is one malformed sequence."""
    if _is_utf8(piece):
        put_text(out, piece, spell)
    else:
        put_text(out, memoryview(_SURROGATE.sub(b"\xff", piece)), spell)


def _put_encoded(out: Out, piece: memoryview, mode: int) -> None:
    """Write bytes in hex or base64."""
    for block in _blocks(piece):
        if mode == c.BYTES_HEX:
            out.put(block.hex().encode())
        else:
            out.put(b2a_base64(block, newline=False))


def put_json(out: Out, piece: memoryview, mode: int, spell: Spell) -> None:
    """Write bytes as a JSON string, or as the base64 object of BYTES_AUTO."""
    if mode in (c.BYTES_AUTO, c.BYTES_UTF8) and len(piece) <= _BLOCK:
        try:
            text = str(piece, "utf-8", "strict" if mode == c.BYTES_AUTO else "replace")
        except UnicodeDecodeError:
            mode = -1
        else:
            quote = b'""' if spell('"') == '\\""' else b'"'
            out.put(quote + spell(text).encode() + quote)
            return
    quote = b'""' if spell('"') == '\\""' else b'"'
    if mode == c.BYTES_AUTO:
        mode = c.BYTES_UTF8 if _is_utf8(piece) else -1
    if mode == -1:
        out.put(b'{"base64":'.replace(b'"', quote))
    out.put(quote)
    if mode == c.BYTES_UTF8:
        put_text(out, piece, spell)
    else:
        _put_encoded(out, piece, mode)
    out.put(quote + b"}" if mode == -1 else quote)


def put_csv(out: Out, piece: memoryview, form: TextForm) -> None:
    """Write bytes as a cell of CSV; an empty one is quoted, to tell it from null."""
    mode = form.bytes_mode
    if not piece:
        out.put(b'""')
    elif mode == c.BYTES_AUTO and not _is_utf8(piece):
        out.put(b"base64:")
        _put_encoded(out, piece, c.BYTES_BASE64)
    elif mode in (c.BYTES_HEX, c.BYTES_BASE64):
        if form.safe and mode == c.BYTES_BASE64 and piece[0] >> 2 == 62:  # a plus
            out.put(b"'")
        _put_encoded(out, piece, mode)
    else:
        quoted = (_QUOTED_SHOWN if form.shown else _QUOTED).search(piece) is not None
        spell = speller(json=False, shown=form.shown, doubled=quoted)
        formula = form.safe and spell(str(piece[:4], "utf-8", "replace")).startswith(_FORMULA)
        if quoted or formula:
            out.put(b'"' * quoted + b"'" * formula)
        put_text(out, piece, spell)
        if quoted:
            out.put(b'"')


def _is_utf8(piece: memoryview) -> bool:
    try:
        if len(piece) <= _BLOCK:  # an incremental decoder costs more than most texts
            str(piece, "utf-8")
            return True
        decoder = codecs.getincrementaldecoder("utf-8")()
        for block in _blocks(piece):
            decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True
