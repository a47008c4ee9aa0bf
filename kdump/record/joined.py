"""Join uncompressed bytes as codecs give them: in large pieces, or byte by byte."""

from __future__ import annotations

_SMALL = 512  # bytes; an object of its own costs a small piece many times its size


def add(pieces: list[bytes | bytearray], piece: bytes) -> None:
    """Append a piece to the others; small ones that follow each other become one."""
    if len(piece) >= _SMALL or not pieces:
        pieces.append(piece)
    elif isinstance(pieces[-1], bytearray):
        pieces[-1] += piece
    elif piece:
        pieces.append(bytearray(piece))
