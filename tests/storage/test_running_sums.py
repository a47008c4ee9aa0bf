"""Checksums of ranges, whichever way they are computed, and what is read for them."""

import random
from pathlib import Path

import builders
import pytest

from kdump.record.layout import CRC32, CRC32C
from kdump.storage import running_sums
from kdump.storage.running_sums import Sums, sum_of
from kdump.storage.source import Source

BLOCK = 1 << 18
SIZE = 3 * BLOCK + 1234
DATA = random.Random(7).randbytes(SIZE)
RANGES = [
    (0, 0),
    (0, 1),
    (5, SIZE),
    (0, SIZE),
    (4096, 8192),
    (4095, 8193),
    (BLOCK - 1, BLOCK + 1),
    (2 * BLOCK, 2 * BLOCK),
    (2 * BLOCK + 7, 3 * BLOCK + 7),
    (10_000, 10_001),
    (SIZE - 1, SIZE),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.log"
    path.write_bytes(DATA)
    return path


class CountingSource(Source):
    """Counts the bytes that are read."""

    counted = 0

    def read_into(self, buffer: bytearray | memoryview, position: int, size: int) -> int:
        got = super().read_into(buffer, position, size)
        self.counted += got
        return got


@pytest.mark.parametrize("free", [1 << 40, -1 << 40])
@pytest.mark.parametrize("backwards", [False, True])
def test_any_range_has_its_checksum(
    path: Path, monkeypatch: pytest.MonkeyPatch, free: int, backwards: bool
) -> None:
    """Summed directly or from running sums, in any order."""
    monkeypatch.setattr(running_sums, "_FREE_BYTES", free)
    with Source(path) as source:
        sums = Sums(source)
        for start, end in sorted(RANGES, reverse=backwards) * 2:
            assert sums.of(start, end, CRC32) == builders.crc32(DATA[start:end])
            assert sums.of(start, end, CRC32C) == builders.crc32c(DATA[start:end])


def test_checksum_continues_from_another(path: Path) -> None:
    with Source(path) as source:
        first = sum_of(source, running_sums.kernels.crc32, 0, 1000)
        assert sum_of(source, running_sums.kernels.crc32, 1000, SIZE, first) == builders.crc32(DATA)


def test_any_number_of_claims_reads_the_file_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond what is free each claim is answered from some kilobytes."""
    monkeypatch.setattr(running_sums, "_FREE_BYTES", 0)
    with CountingSource(path) as source:
        sums = Sums(source)
        for start in range(500):
            assert sums.of(start, SIZE - start, CRC32) == builders.crc32(DATA[start : SIZE - start])
        assert source.counted < 3 * SIZE + 500 * 2 * 4096


def test_old_marks_are_dropped(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_sums, "_FREE_BYTES", -1 << 40)
    monkeypatch.setattr(running_sums, "_KEPT", 10)
    with Source(path) as source:
        sums = Sums(source)
        assert sums.of(0, SIZE, CRC32) == builders.crc32(DATA)
        for start in (50 * 4096, 60 * 4096 + 5, 71 * 4096, 30, 80 * 4096):
            assert sums.of(start, SIZE, CRC32) == builders.crc32(DATA[start:])
        marks = sums._running[CRC32]._marks
        assert len(marks) <= SIZE // 4096 + 1


def test_shrinking_file_gives_a_number(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for free in (1 << 40, -1 << 40):
        path.write_bytes(DATA)
        monkeypatch.setattr(running_sums, "_FREE_BYTES", free)
        with Source(path) as source:
            path.write_bytes(DATA[:5000])
            Sums(source).of(100, SIZE, CRC32)
            assert source.shrank
