"""With --quick damage in the tail of a segment has the offsets that a whole read gives it."""

from pathlib import Path

import pytest
from damage import flip
from directories import DataDirectory, findings, write_checkpoint
from segments import batches, read, run_checks, write, write_partition

from kdump.findings.finding import Finding

#: Base offset, length, leader epoch, checksum, delta, body.
BYTES = (7, 11, 15, 18, 26, 70)


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """Give two segments of ten batches, each of which but the first has an index entry."""
    orders = write_partition(tmp_path, {0: batches(0, 60, 6), 60: batches(60, 120, 6)})
    write_checkpoint(tmp_path / "cleaner-offset-checkpoint", [])
    return orders


def gaps(found: tuple[Finding, ...]) -> list[tuple[object, ...]]:
    return [
        (one.code, one.position, one.size_bytes, one.offset, one.next_offset, one.lost_at_most)
        for one in found
        if one.lost_at_least is not None
    ]


@pytest.mark.parametrize("base", [0, 60])
@pytest.mark.parametrize("broken", [[9], [8], [8, 9], [6, 7, 8, 9]])
def test_damage_in_the_last_batches_is_found(orders: Path, base: int, broken: list[int]) -> None:
    log = read(orders, base, "log")
    size = len(log) // 10
    for at in broken:
        log = flip(log, at * size + 70)
    write(orders, base, "log", log)
    whole = run_checks(orders)
    assert gaps(whole)
    assert gaps(run_checks(orders, quick=True)) == gaps(whole)
    assert gaps(whole)[0][3] == base + 6 * broken[0]


@pytest.mark.parametrize("at", BYTES)
def test_damage_in_the_last_batch_header_is_found(orders: Path, at: int) -> None:
    log = read(orders, 0, "log")
    write(orders, 0, "log", flip(log, 9 * (len(log) // 10) + at))
    assert gaps(run_checks(orders, quick=True)) == gaps(run_checks(orders))


@pytest.mark.parametrize("quick", [False, True])
def test_missing_newest_segment_is_a_lost_log_end(tmp_path: Path, quick: bool) -> None:
    data = DataDirectory(tmp_path / "data")
    directory = data.partition("orders", 0, (0, 10))
    data.stop()
    for path in directory.glob(f"{10:020}.*"):
        path.unlink()
    (found,) = findings(data.path, quick=quick)
    assert (found.code, found.offset, found.lost_at_most) == ("log-end-lost", 10, 10)
