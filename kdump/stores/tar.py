"""Read the headers of a tar file, within bounds, so that none of them can cost time or memory.

The forms that POSIX, GNU tar and Python write: ustar, long names of GNU, extended headers of pax,
and the four forms of sparse files. Not chosen: `tarfile`, which believes sizes (a negative one is
read for ever, one of 2^40 bytes is asked for), keeps each header, and takes a damaged header for
the end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from kdump.tuples import NamedTuple

BLOCK = 512
#: Bytes of an extended header, which holds a path, a time or attributes.
LONGEST_HEADER = 1 << 20
#: Extended headers that may precede one file.
_EXTENDED = 16
#: Pieces of a sparse file, and the size to which one may grow: no file of Kafka's is larger.
_PIECES = 100_000
LARGEST_SPARSE = 1 << 31
_MAX_INT64 = (1 << 63) - 1
_LONGEST_NUMBER = 20
_END_LOOKED_AT = 1 << 20  # bytes behind the end mark

_FILES = b"0\x007"
_HARD_LINK, _DIRECTORY = b"1", b"5"
_WITHOUT_DATA = b"123456"
_PAX, _PAX_GLOBAL = b"xX", b"g"
_LONG_NAME, _LONG_LINK, _OLD_SPARSE = b"L", b"K", b"S"


class TarDamage(Exception):
    """A header that cannot be read or is beyond a bound: what lies behind it is not found."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"the entry at byte {position:,} {reason}")


class Piece(NamedTuple):
    """A range of a sparse file that is stored, and where it is stored."""

    offset: int
    start: int
    size: int


class Entry(NamedTuple):
    """One entry: a file, or what is none.

    `start` is where its bytes are, of which it has `size`; `pieces` are those of a sparse file.
    """

    position: int
    name: str
    is_file: bool
    is_directory: bool
    link: str | None  # of a hard link, the entry it is another name of
    start: int
    size: int
    mtime: int
    pieces: tuple[Piece, ...] | None = None


def entries(descriptor: int) -> Iterator[Entry]:
    """Yield the entries of a tar file in order; raises TarDamage behind the last that can be."""
    return _Tar(descriptor).entries()


class _Tar:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size
        self._position = 0  # of the next header
        self._globals: dict[str, list[bytes]] = {}

    def entries(self) -> Iterator[Entry]:
        while (entry := self._next()) is not None:
            yield entry

    def _next(self) -> Entry | None:
        """Read the next entry with the extended headers in front of it; None behind the last."""
        extended = self._globals.copy()
        first = self._position
        for _ in range(_EXTENDED):
            position = self._position
            header = self._read(position, BLOCK)
            if len(header) < BLOCK or not any(header):
                self._end(position, header)
                return None
            if not _is_sum_right(header):
                raise TarDamage(position, "has a damaged header")
            size = self._number(position, header[124:136], "size")
            kind = header[156:157]
            if kind in _PAX or kind in _PAX_GLOBAL or kind in (_LONG_NAME, _LONG_LINK):
                data = self._extension(position, size)
                if kind == _LONG_NAME:
                    extended["path"] = [data.rstrip(b"\0")]
                elif kind == _LONG_LINK:
                    extended["linkpath"] = [data.rstrip(b"\0")]
                else:
                    found = _records(position, data)
                    extended |= found
                    if kind == _PAX_GLOBAL:
                        self._globals |= found
                continue
            return self._entry(first, position, header, size, extended)
        raise TarDamage(first, f"has more than {_EXTENDED} extended headers")

    def _entry(
        self, first: int, position: int, header: bytes, size: int, extended: dict[str, list[bytes]]
    ) -> Entry:
        kind = header[156:157]
        if "size" in extended:
            size = _decimal(first, extended["size"][-1], "size")
        name = _last(extended, "GNU.sparse.name") or _last(extended, "path") or _name(header)
        link = _last(extended, "linkpath") or _text(header[157:257])
        start = position + BLOCK
        stored = 0 if kind in _WITHOUT_DATA else size
        self._position = start + -(-stored // BLOCK) * BLOCK
        entry = Entry(
            first,
            name,
            kind in _FILES and not name.endswith("/"),
            kind == _DIRECTORY or name.endswith("/"),
            link if kind == _HARD_LINK else None,
            start,
            size,
            _time(header, extended),
        )
        if kind == _OLD_SPARSE:
            return self._old_sparse(entry, position, header)
        if any(key.startswith("GNU.sparse.") for key in extended):
            return self._pax_sparse(entry, extended)
        return entry

    def _extension(self, position: int, size: int) -> bytes:
        """Read the data of an extended header."""
        if size > LONGEST_HEADER:
            words = f"has an extended header of {size:,} bytes ({LONGEST_HEADER:,} at most)"
            raise TarDamage(position, words)
        data = self._read(position + BLOCK, size)
        if len(data) < size:
            raise TarDamage(position, "ends in its extended header")
        self._position = position + BLOCK + -(-size // BLOCK) * BLOCK
        return data

    def _old_sparse(self, entry: Entry, position: int, header: bytes) -> Entry:
        """Read the map of a sparse file as old GNU tar stores it: in the header, and behind it."""
        at = position
        size = self._number(at, header[483:495], "size")
        slots, more = [header[386:482]], header[482]
        start = entry.start
        while more:
            block = self._read(start, BLOCK)
            if len(block) < BLOCK or len(slots) > _PIECES // 21:
                raise TarDamage(position, "has a sparse map without an end")
            slots.append(block[:504])
            more = block[504]
            start += BLOCK
        numbers = []
        for slot in slots:
            for number in range(0, len(slot), 24):
                if slot[number] == 0:
                    break
                numbers += [
                    self._number(at, slot[number : number + 12], "sparse map"),
                    self._number(at, slot[number + 12 : number + 24], "sparse map"),
                ]
        self._position += start - entry.start
        return self._sparse(entry._replace(start=start), numbers, size, entry.size)

    def _pax_sparse(self, entry: Entry, extended: dict[str, list[bytes]]) -> Entry:
        """Read the map of a sparse file as pax headers have it, in version 0.0, 0.1 or 1.0."""
        position = entry.position
        said = extended.get("GNU.sparse.realsize") or extended.get("GNU.sparse.size")
        size = entry.size if said is None else _decimal(position, said[-1], "size")
        if "GNU.sparse.map" in extended:
            words = extended["GNU.sparse.map"][-1].split(b",")
            numbers = [_decimal(position, word, "sparse map") for word in words if word]
        elif "GNU.sparse.offset" in extended:
            both = (extended["GNU.sparse.offset"], extended.get("GNU.sparse.numbytes", []))
            pairs = zip(*both, strict=False)
            numbers = [_decimal(position, word, "sparse map") for pair in pairs for word in pair]
        else:
            return self._sparse_with_map(entry, size)
        return self._sparse(entry, numbers, size, entry.size)

    def _sparse_with_map(self, entry: Entry, size: int) -> Entry:
        """Read a map that lies in front of the data: a count, and so many pairs, a line each."""
        limit = min(entry.size, _PIECES * 2 * (_LONGEST_NUMBER + 1))
        data = self._read(entry.start, limit)
        lines = data.split(b"\n", 2 * _PIECES + 2)
        count = _decimal(entry.position, lines[0], "sparse map")
        if count > _PIECES or len(lines) <= 2 * count + 1:
            raise TarDamage(entry.position, "has a sparse map without an end")
        words = lines[1 : 2 * count + 1]
        numbers = [_decimal(entry.position, word, "sparse map") for word in words]
        used = sum(map(len, lines[: 2 * count + 1])) + 2 * count + 1
        used = -(-used // BLOCK) * BLOCK
        return self._sparse(
            entry._replace(start=entry.start + used), numbers, size, entry.size - used
        )

    def _sparse(self, entry: Entry, numbers: list[int], size: int, stored: int) -> Entry:
        """Check a sparse map against the size of the file and of what is stored of it."""
        if size > LARGEST_SPARSE:
            words = f"is a sparse file of {size:,} bytes ({LARGEST_SPARSE:,} at most)"
            raise TarDamage(entry.position, words)
        pieces, start, end = [], entry.start, 0
        for offset, length in zip(numbers[::2], numbers[1::2], strict=False):
            if offset < end or offset + length > size or length > entry.start + stored - start:
                raise TarDamage(entry.position, "has an invalid sparse map")
            pieces.append(Piece(offset, start, length))
            start, end = start + length, offset + length
        if len(pieces) > _PIECES:
            raise TarDamage(entry.position, f"has more than {_PIECES:,} sparse pieces")
        return entry._replace(is_file=True, size=size, pieces=tuple(pieces))

    def _end(self, position: int, header: bytes) -> None:
        """See whether the archive ends here: with a block of zeros, and nothing behind it."""
        if len(header) < BLOCK:
            reason = "is cut short" if header else "is missing: the archive has no end mark"
            raise TarDamage(position, reason)
        rest = self._read(position + BLOCK, _END_LOOKED_AT)
        if any(rest):
            raise TarDamage(position, "is the end mark, but more follows it")

    def _number(self, position: int, field: bytes, what: str) -> int:
        """Read a number: octal digits, or in base 256 where the first bit is set."""
        if field[0] & 0x80:
            value = int.from_bytes(field[1:], "big") + ((field[0] & 0x7F) << 8 * (len(field) - 1))
            if field[0] & 0x40:
                value -= 1 << (8 * len(field) - 1)
        else:
            digits = field.partition(b"\0")[0].strip(b" ")
            if digits.strip(b"01234567"):
                raise TarDamage(position, f"has a {what} that is not a number")
            value = int(digits or b"0", 8)
        if not 0 <= value <= _MAX_INT64:
            raise TarDamage(position, f"has an impossible {what} ({value})")
        return value

    def _read(self, position: int, size: int) -> bytes:
        return os.pread(self._descriptor, min(size, max(0, self._size - position)), position)


def _is_sum_right(header: bytes) -> bool:
    try:
        stored = int(header[148:156].partition(b"\0")[0].strip(b" ") or b"-", 8)
    except ValueError:
        return False
    rest = header[:148] + b" " * 8 + header[156:]
    if stored == sum(rest):
        return True
    return stored == sum(byte - 256 if byte > 127 else byte for byte in rest)  # of old tools


def _records(position: int, data: bytes) -> dict[str, list[bytes]]:
    """Read the records of a pax header: each is its length, a space, a key, = and a value."""
    found: dict[str, list[bytes]] = {}
    at = 0
    while at < len(data) and data[at]:
        space = data.find(b" ", at, at + _LONGEST_NUMBER)
        digits = data[at:space] if space > at else b""
        length = int(digits) if digits.isdigit() else 0
        record = data[space + 1 : at + length]
        key, equals, value = record.partition(b"=")
        if space < 0 or length <= space + 1 - at or not equals or at + length > len(data):
            raise TarDamage(position, "has a damaged extended header")
        found.setdefault(key.decode("utf-8", "replace"), []).append(value.removesuffix(b"\n"))
        at += length
    return found


def _decimal(position: int, text: bytes, what: str) -> int:
    if not text.isdigit() or len(text) > _LONGEST_NUMBER or int(text) > _MAX_INT64:
        shown = text[:_LONGEST_NUMBER].decode("ascii", "backslashreplace")
        raise TarDamage(position, f"has an impossible {what} ({shown})")
    return int(text)


def _last(extended: dict[str, list[bytes]], key: str) -> str:
    values = extended.get(key)
    return values[-1].decode("utf-8", "surrogateescape") if values else ""


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def _name(header: bytes) -> str:
    """Read a name, of which ustar stores the front part by itself."""
    name = _text(header[:100])
    above = _text(header[345:500]) if header[257:263] == b"ustar\0" else ""
    return f"{above}/{name}" if above else name


def _time(header: bytes, extended: dict[str, list[bytes]]) -> int:
    """Read the time of the last change in seconds; 0 where it is none."""
    said = extended.get("mtime")
    whole = said[-1].partition(b".")[0] if said else b""
    if whole.isdigit() and len(whole) <= _LONGEST_NUMBER:
        return int(whole)
    digits = header[136:148].partition(b"\0")[0].strip(b" ")
    return int(digits, 8) if digits and not digits.strip(b"01234567") else 0
