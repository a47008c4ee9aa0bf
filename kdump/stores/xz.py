"""Read xz and lzma files within a bound of memory, whatever dictionary their headers claim."""

from __future__ import annotations

import lzma
from typing import IO

#: Memory of the decoder: 64 MiB of dictionary is the most that `xz -9` uses.
MEMORY = 160 << 20
_BLOCK = 1 << 18
_MORE_THAN_ALLOWED = "Memory usage limit exceeded"


class XzFile:
    """An xz file of any number of streams, read from front to back."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._decoder = lzma.LZMADecompressor(memlimit=MEMORY)
        self._next = b""  # read, and not yet handed to the decoder

    def read1(self, size: int) -> bytes:
        """Return the next bytes, at most so many; nothing at the end."""
        while True:
            if self._decoder.eof and not self._begin_next():
                return b""
            block = b""
            if self._decoder.needs_input:
                block, self._next = self._next or self._file.read(_BLOCK), b""
                if not block:
                    raise EOFError("it ends before its end mark")
            try:
                data = self._decoder.decompress(block, size)
            except lzma.LZMAError as error:
                if _MORE_THAN_ALLOWED not in str(error):
                    raise
                words = f"it claims a dictionary of more than {MEMORY >> 20} MiB of memory"
                raise lzma.LZMAError(words) from None
            if data:
                return data

    read = read1

    def _begin_next(self) -> bool:
        """Begin the stream behind the last one and its padding; False where none follows."""
        rest = self._decoder.unused_data.lstrip(b"\0")
        while not rest:
            block = self._file.read(_BLOCK)
            if not block:
                return False
            rest = block.lstrip(b"\0")
        self._decoder, self._next = lzma.LZMADecompressor(memlimit=MEMORY), rest
        return True

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    def __enter__(self) -> XzFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
