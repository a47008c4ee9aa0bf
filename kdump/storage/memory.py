"""Bytes at hand, read like a file that begins with them at some position."""

from __future__ import annotations

from typing import cast

from kdump.storage.source import Source
from kdump.stores.store import Status
from kdump.stores.windows import Windows


class BytesSource(Source):
    """Some bytes of a file, under its path; nothing before `start` is there to be read."""

    def __init__(self, path: str, data: bytes, start: int = 0) -> None:
        self.path = path
        self.unreadable = []
        self.shrank = self.grew = False
        self.in_store = True
        self.size = start + len(data)
        self._fd = -1
        self._status = Status(False, True, self.size, 0)
        self._windows = cast("Windows", _Bytes(data, start))


class _Bytes:
    """Answers as the windows of a store do."""

    sequential = False

    def __init__(self, data: bytes, start: int) -> None:
        self._data, self._start = data, start

    def read_into(self, view: memoryview, position: int) -> int:
        """Read to a buffer and return how many bytes."""
        at = position - self._start
        part = self._data[at : at + len(view)]
        view[: len(part)] = part
        return len(part)

    def now(self) -> int:
        """Return the size."""
        return self._start + len(self._data)

    def close(self) -> None:
        """There is nothing to give back."""
