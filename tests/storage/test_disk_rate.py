"""Pieces that are read to measure a disk."""

from pathlib import Path

from kdump.storage.disk_rate import measure

MIB = 1 << 20


def test_file_rates_are_measured(tmp_path: Path) -> None:
    files = []
    for number, size in enumerate((9 * MIB, 0, 70 * MIB + 5)):
        path = tmp_path / str(number)
        path.write_bytes(bytes(size))
        files.append((str(path), size))
    rate = measure(files)
    assert rate is not None
    assert 0 < rate.low <= rate.high


def test_small_files_are_measured(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(bytes(5000))
    rate = measure([(str(path), 5000)])
    assert rate is None or rate.low > 0


def test_empty_input_has_no_rate(tmp_path: Path) -> None:
    assert measure([]) is None
    assert measure([(str(tmp_path / "gone"), 100 * MIB)]) is None


def test_measurement_stays_within_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(bytes(64 * MIB))
    assert measure([(str(path), 64 * MIB)], seconds=-1) is None
