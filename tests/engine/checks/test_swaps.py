"""What is said of a replacement that was not completed: its bytes are the segment's to be."""

from pathlib import Path

import damage
import pytest
from segments import batch, batches, name, partition_of, target_of, write, write_partition

from kdump.engine.checks.files import swaps
from kdump.engine.checks.missing_segments import OffsetSpan
from kdump.engine.reading.partition_scan import PartitionScan
from kdump.findings.finding import Finding

SWAP = "log.swap"


def run_check(directory: Path, *, quick: bool = False) -> tuple[list[Finding], list[OffsetSpan]]:
    covered: list[OffsetSpan] = []
    partition: PartitionScan = partition_of(directory, quick=quick)
    found = [*swaps(partition, covered)]
    assert not partition.errors
    return found, covered


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return write_partition(tmp_path, {0: batches(0, 30), 60: batches(60, 90)})


def test_no_finding_without_a_swap_file(directory: Path) -> None:
    write(directory, 30, "log.cleaned", b"".join(batches(30, 60)))
    write(directory, 30, "index.swap", b"")
    assert run_check(directory) == ([], [])


def test_offsets_that_a_swap_file_holds(directory: Path) -> None:
    """Of those no segment is missing."""
    write(directory, 30, SWAP, b"".join(batches(30, 54)))
    (one,), covered = run_check(directory)
    assert (one.code, one.segment, one.actual) == ("swap-left", 30, 1)
    assert (one.topic, one.partition) == (target_of(directory).topic, 0)
    assert one.path == str(directory / name(30, SWAP))
    assert covered == [OffsetSpan(30, 54)]
    _, covered = run_check(directory, quick=True)  # unread, it may reach to the next segment
    assert covered == [OffsetSpan(30, 60)]


def test_torn_tail_of_a_swap_file_is_damage(directory: Path) -> None:
    """No broker is writing to it, as it may be to the newest segment."""
    parts = batches(30, 60)
    write(directory, 30, SWAP, b"".join(parts)[:-5])
    (gap, one), covered = run_check(directory)
    assert (gap.code, gap.severity.value, gap.segment) == ("torn-tail", "damage", 30)
    assert gap.path == str(directory / name(30, SWAP))
    assert (gap.position, gap.offset) == (len(b"".join(parts[:-1])), 57)
    assert one.code == "swap-left"
    assert covered == [OffsetSpan(30, 57)]


def test_zeros_at_the_end_of_a_swap_file_are_damage(directory: Path) -> None:
    write(directory, 30, SWAP, b"".join(batches(30, 60)) + bytes(100))
    (gap, one), _ = run_check(directory)
    assert (gap.code, gap.severity.value, gap.size_bytes) == ("zero-tail", "damage", 100)
    assert one.code == "swap-left"


def test_damage_in_a_swap_file_is_reported(directory: Path) -> None:
    parts = batches(30, 60)
    parts[3] = damage.flip(parts[3], 70)
    parts[7] = damage.flip(parts[7], 70)
    write(directory, 30, SWAP, b"".join(parts))
    (first, second, one), covered = run_check(directory)
    assert (first.code, first.offset, first.next_offset) == ("crc-mismatch", 39, 42)
    assert (second.code, second.offset, second.next_offset) == ("crc-mismatch", 51, 54)
    assert one.code == "swap-left"
    assert covered == [OffsetSpan(30, 60)]


def test_segments_replaced_by_several_swap_files(directory: Path) -> None:
    """From the lowest to the end of the highest."""
    write(directory, 0, SWAP, b"".join(batches(0, 21)))
    write(directory, 21, SWAP, batch(21))
    (one,), covered = run_check(directory)
    assert one.message == "A broker start replaces segment 0 by the .swap files of segment 0, 21."
    assert covered == [OffsetSpan(0, 21), OffsetSpan(21, 24)]
    write(directory, 21, SWAP, b"".join(batches(21, 63)))
    (one,), _ = run_check(directory)
    assert (
        one.message == "A broker start replaces segment 0, 60 by the .swap files of segment 0, 21."
    )


def test_start_completes_an_empty_swap_file(directory: Path) -> None:
    write(directory, 30, SWAP, b"")
    (one,), covered = run_check(directory)
    assert one.message.startswith(
        "The .swap files of segment 30 have offsets that no other segment has; a broker "
    )
    assert covered == [OffsetSpan(30, 30)]
