"""Write records with long values or many headers piece by piece, in bounded memory.

One record may be as large as the decompression limit. Made into one string, quoted, joined and
encoded, it would take many times that; so such records, and only they, are written piece by piece.
The text is the same as in one piece.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.output.values import AUTO, BASE64, HEX, UTF8, bytes_text, headers_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kdump.findings.rows import RecordRow

    Header = tuple[bytes, bytes | None]

LARGE_BYTES = 1 << 16
MANY_HEADERS = 512
_PIECE = 3 << 14  # bytes; a multiple of 3, so that base64 needs no padding inside
_GATHERED = 1 << 16


def is_large(record: RecordRow) -> bool:
    """Whether a record is to be written in pieces."""
    size = len(record.key or b"") + len(record.value or b"")
    headers = record.headers
    if headers and size <= LARGE_BYTES and len(headers) <= MANY_HEADERS:
        size += sum(len(key) + len(value or b"") for key, value in headers)
    return size > LARGE_BYTES or len(headers) > MANY_HEADERS


def write_pieces(write: Callable[[bytes], object], pieces: Iterable[str]) -> None:
    """Encode pieces and write them, some at a time."""
    gathered: list[str] = []
    size = 0
    for piece in pieces:
        gathered.append(piece)
        size += len(piece)
        if size >= _GATHERED:
            write("".join(gathered).encode("utf-8", "surrogateescape"))
            gathered.clear()
            size = 0
    if gathered:
        write("".join(gathered).encode("utf-8", "surrogateescape"))


def cut_text(data: bytes) -> Iterator[bytes]:
    """Cut bytes so that decoding the pieces as UTF-8 is the same as decoding the whole.

    No sequence, whole or malformed, goes on at a byte that does not continue one, nor behind three
    that do.
    """
    start = 0
    while len(data) - start > _PIECE:
        end = start + _PIECE
        for back in range(4):
            if data[end - back] & 0xC0 != 0x80:
                end -= back
                break
        yield data[start:end]
        start = end
    yield data[start:]


def is_utf8(data: bytes) -> bool:
    """Whether bytes are valid UTF-8."""
    try:
        for piece in cut_text(data):
            piece.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def text_pieces(data: bytes, mode: int) -> Iterator[str]:
    """Write bytes as one string; the mode is none that looks at them first."""
    assert mode != AUTO
    if mode == UTF8:
        for piece in cut_text(data):
            yield piece.decode("utf-8", "replace")
        return
    for start in range(0, len(data), _PIECE):
        yield bytes_text(data[start : start + _PIECE], mode)


def json_pieces(record: RecordRow, mode: int, encode: Callable[[object], str]) -> Iterator[str]:
    """Write a `record` row as one line of JSON."""
    yield '{"row":"record"'
    for name, value in record.members():
        yield f',"{name}":'
        if isinstance(value, bytes):
            yield from _bytes_json(value, mode, encode)
        elif name == "headers":
            yield from headers_pieces(record.headers, mode, encode)
        else:
            yield encode(value)
    yield "}\n"


def headers_pieces(
    headers: Sequence[Header], mode: int, encode: Callable[[object], str]
) -> Iterator[str]:
    """Write headers as a JSON list, small ones many at a time."""
    before = "["
    for some in _together(headers):
        if isinstance(some, list):
            yield before + encode(headers_json(some, mode))[1:-1]
        else:
            key, value = some
            yield before + '{"key":'
            yield from _bytes_json(key, UTF8 if mode == AUTO else mode, encode)
            yield ',"value":'
            yield from ["null"] if value is None else _bytes_json(value, mode, encode)
            yield "}"
        before = ","
    yield "[]" if before == "[" else "]"


def _together(headers: Sequence[Header]) -> Iterator[list[Header] | Header]:
    """Yield headers in order: small ones as lists of some, each large one for itself."""
    some: list[Header] = []
    size = 0
    for header in headers:
        key, value = header
        taken = len(key) + (0 if value is None else len(value))
        if some and (size + taken > LARGE_BYTES or len(some) == MANY_HEADERS):
            yield some
            some, size = [], 0
        if taken > LARGE_BYTES:
            yield header
        else:
            some.append(header)
            size += taken
    if some:
        yield some


def _bytes_json(data: bytes, mode: int, encode: Callable[[object], str]) -> Iterator[str]:
    around = '"', '"'
    if mode == AUTO:
        mode = UTF8
        if not is_utf8(data):
            mode, around = BASE64, ('{"base64":"', '"}')
    yield around[0]
    for piece in text_pieces(data, mode):
        yield piece if mode in (HEX, BASE64) else encode(piece)[1:-1]
    yield around[1]
