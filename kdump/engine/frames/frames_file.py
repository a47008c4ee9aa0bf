"""The frames of a file that has them one after the other, each behind its length.

Requests and responses of one connection may be mixed. Where a length cannot be, the file is
searched for the next request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.engine.frames.exchange import Exchange
from kdump.engine.frames.frame import HEAD_BYTES, LENGTH_BYTES, Frame
from kdump.findings.finding import Finding, finding

if TYPE_CHECKING:
    from kdump.storage.source import Source

_BLOCK_BYTES = 1 << 20
#: The length, the api and the version of a request; zeros are none.
_REQUEST = re.compile(rb"(?!\0\0\0[\0-\x07])[\0-\x7f](?=[\0-\xff]{3}\0[\0-\x7f]\0[\0-\x7f])")
_LOOKED_AT = 512
_REQUEST_BYTES = 8


class FramesReader:
    """Reads one file. `limit` bounds a frame that is held in memory."""

    def __init__(self, source: Source, limit: int) -> None:
        self._source, self._limit = source, limit
        self._exchange = Exchange()

    def items(self) -> Iterator[Frame | Finding]:
        """Yield the frames in order."""
        source, position = self._source, 0
        while position < source.size:
            head = source.read(position, LENGTH_BYTES)
            size = int.from_bytes(head, "big", signed=True)
            whole = LENGTH_BYTES + size
            left = source.size - position
            if left < LENGTH_BYTES or size < 0 or whole > left:
                following = self._next(position + 1)
                yield self._bad_finding(position, size, left, following)
                position = following
                continue
            if size > self._limit:
                yield self._large(position, whole)
            else:
                data = source.read(position + LENGTH_BYTES, size)
                said = self._exchange.either(data)
                yield Frame(position, whole, data, said, ([0], [position]))
            position += whole

    def _bad_finding(self, position: int, size: int, left: int, following: int) -> Finding:
        skipped = following - position
        is_end = following >= self._source.size
        if left < LENGTH_BYTES or (size >= 0 and is_end):
            code = "frame-cut-short"
            words = f"The file ends within a frame: it has {left:,} bytes of {4 + size:,}."
            if left < LENGTH_BYTES:
                words = f"The file ends within the length of a frame, after {left:,} bytes."
        else:
            code = "frame-length"
            words = f"The length is {size:,}, and {left - LENGTH_BYTES:,} bytes follow"
            words += "." if is_end else f"; a request follows {skipped:,} bytes later."
        path = self._source.path
        return finding(code, path=path, position=position, size_bytes=skipped, message=words)

    def _large(self, position: int, whole: int) -> Frame:
        data = self._source.read(position + LENGTH_BYTES, HEAD_BYTES)
        words = f"The frame of {whole:,} bytes is too large to be held in memory."
        exchange = self._exchange
        if exchange.begins_response(data, whole) and not exchange.begins_request(data, whole):
            said = exchange.response(data, whole=False)
        else:
            said = exchange.request(data, whole=False)
        said = said._replace(fields=None, parts=None, problem=("over-decompress-limit", words))
        return Frame(position, whole, data, said, ([0], [position]))

    def _next(self, position: int) -> int:
        """Return where the next request is, from a position on; else the end of the file."""
        source = self._source
        while position < source.size:
            block = source.read(position, _BLOCK_BYTES + HEAD_BYTES)
            for found in _REQUEST.finditer(block, 0, _BLOCK_BYTES + _REQUEST_BYTES):
                at = found.start()
                if at >= _BLOCK_BYTES:
                    break
                if self._begins(block[at : at + _LOOKED_AT], source.size - position - at):
                    return position + at
            position += _BLOCK_BYTES
        return source.size

    def _begins(self, head: bytes, left: int) -> bool:
        size = int.from_bytes(head[:LENGTH_BYTES], "big", signed=True)
        return size <= left - LENGTH_BYTES and self._exchange.begins_request(
            head[LENGTH_BYTES:], size
        )
