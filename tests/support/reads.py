"""How much is read of files."""

import pytest

from kdump.storage.source import Source


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that the size of every read into a buffer is added to from now on."""
    sizes: list[int] = []
    read_into = Source.read_into

    def counted(self: Source, buffer: bytearray, position: int, size: int) -> int:
        sizes.append(size)
        return read_into(self, buffer, position, size)

    monkeypatch.setattr(Source, "read_into", counted)
    return sizes


def count_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that the size of every read from a file is added to from now on."""
    sizes: list[int] = []
    plain = Source._pread

    def counted(self: Source, view: memoryview, position: int) -> int:
        done = plain(self, view, position)
        sizes.append(done)
        return done

    monkeypatch.setattr(Source, "_pread", counted)
    return sizes
