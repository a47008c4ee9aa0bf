"""Lookups in logs of 0.7."""

import os
from pathlib import Path

import builders
import pytest
from lookup_rows import at_offset, at_time


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Give a 0.7 partition of two segments of two messages each."""
    directory = tmp_path / "old-0"
    directory.mkdir()
    size = len(builders.pre08_message(b"aa"))
    for base in (0, 2 * size):
        data = builders.pre08_message(b"aa") * 2
        (directory / f"{base:020}.kafka").write_bytes(data)
    return directory


def test_offset_of_0_7_is_a_byte_position(old: Path) -> None:
    size = len(builders.pre08_message(b"aa"))
    assert at_offset(old, size)["offset"] == size
    inside = at_offset(old, 3 * size + 1, check=True)
    assert (inside["segment"], inside["position"], inside["offset"]) == (2 * size, size, 3 * size)
    assert inside["scan_offset"] == 3 * size
    end = at_offset(old, 4 * size)
    assert (end["offset"], end["error"]) == (None, None)
    assert "OFFSET_OUT_OF_RANGE" in str(at_offset(old, 4 * size + 1)["error"])
    assert "OFFSET_OUT_OF_RANGE" in str(at_offset(old, -1)["error"])


def test_times_of_0_7_are_file_times(old: Path) -> None:
    size = len(builders.pre08_message(b"aa"))
    for base, seconds in ((0, 1000), (2 * size, 2000)):
        os.utime(old / f"{base:020}.kafka", (seconds, seconds))
    found = [at_time(old, target)["offset"] for target in (-2, -1, 999_999, 1_000_000, 2_000_001)]
    assert found == [0, 4 * size, None, 0, 2 * size]


def test_damage_of_0_7_is_reported(old: Path) -> None:
    path = old / "00000000000000000000.kafka"
    data = bytearray(path.read_bytes())
    data[-1] ^= 0xFF
    path.write_bytes(data)
    row = at_offset(old, len(data) - 1)
    assert row["offset"] is None
    assert "no entry can be read" in str(row["error"])


def test_lookup_of_0_7_compares_with_the_current_time(old: Path) -> None:
    for path in old.iterdir():
        os.utime(path, (1000, 1000))
    end = 4 * len(builders.pre08_message(b"aa"))
    found = [at_time(old, target, now_ms=5_000_000)["offset"] for target in (4_999_999, 5_000_000)]
    assert found == [end // 2, end]
