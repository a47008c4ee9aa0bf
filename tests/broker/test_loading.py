"""What a start makes of a partition, step by step, on directories made by hand."""

import struct
from pathlib import Path
from typing import Any

import pytest
from builders import batch, message, record
from partitions import write_segment
from producing import data, snapshot
from segments import offset_index, time_index

from kdump.broker.loading import LogLoader
from kdump.broker.log_reader import RefusalError
from kdump.broker.settings import Settings
from kdump.broker.shutdown_state import Stop
from kdump.broker.versions import Version
from kdump.storage.local_log import LocalLog

NEW: Version = (4, 1)
CLEAN = Stop(clean=True)
UNCLEAN = Stop(clean=False)
FAR = 1 << 32


def at(base: int, count: int = 1, **fields: Any) -> bytes:
    return batch([record(n) for n in range(count)], base_offset=base, **fields)


def break_batch(base: int) -> bytes:
    one = bytearray(at(base))
    one[-1] ^= 1
    return bytes(one)


class Partition:
    """A directory, and what a start makes of it."""

    def __init__(self, path: Path) -> None:
        self.path = path / "t-0"
        self.path.mkdir()

    def write(self, base: int, suffix: str, content: bytes) -> None:
        (self.path / f"{base:020}.{suffix}").write_bytes(content)

    def segment(
        self, base: int, *batches: bytes, index: bytes | None = b"", times: bytes | None = b""
    ) -> None:
        write_segment(self.path, base, b"".join(batches), index, times)

    def started(self, stop: Stop = UNCLEAN, broker: Version = NEW) -> LogLoader:
        log = LocalLog(str(self.path), [path.name for path in self.path.iterdir()])
        loading = LogLoader(log, broker, Settings(index_interval_bytes=0), stop)
        loading.run()
        return loading

    def refusal(self, stop: Stop = UNCLEAN, broker: Version = NEW) -> str:
        with pytest.raises(RefusalError) as raised:
            self.started(stop, broker)
        return str(raised.value)


@pytest.fixture
def partition(tmp_path: Path) -> Partition:
    return Partition(tmp_path)


def bases(loading: LogLoader) -> list[int]:
    return sorted(loading.segments)


@pytest.mark.parametrize(
    ("point", "recovered"),
    [(0, [0, 3, 6]), (2, [0, 3, 6]), (3, [3, 6]), (5, [3, 6]), (6, [6]), (99, [6])],
)
def test_recovery_starts_at_the_segment_of_the_recovery_point(
    partition: Partition, point: int, recovered: list[int]
) -> None:
    for base in (0, 3, 6):
        partition.segment(base, *map(message, range(base, base + 3)))
    found = partition.started(Stop(clean=False, recovery_point=point))
    assert (found.recovered, found.log_end, bases(found)) == (recovered, 9, [0, 3, 6])
    assert (found.cut, found.deleted, found.rebuilt, found.at_load) == (None, [], [], [])
    assert (found.split, found.hidden, found.above_log_start) == ([], {}, True)
    for old in ((0, 10), (0, 8, 2)):
        assert (
            partition.started(Stop(clean=False, recovery_point=point), old).recovered == recovered
        )
    clean = partition.started(Stop(clean=True, recovery_point=point))
    assert (clean.recovered, clean.log_end) == ([], 9)


def test_truncation_deletes_later_segments(partition: Partition) -> None:
    partition.segment(0, at(0), break_batch(1), at(2))
    partition.segment(3, at(3))
    partition.segment(4, at(4))
    for at_offset in (0, 3, 4, 5):
        partition.write(at_offset, "snapshot", snapshot())
    found = partition.started()
    assert (bases(found), found.log_end, found.recovered) == ([0], 1, [0])
    assert [segment.base_offset for segment in found.deleted] == [3, 4]
    assert found.cut is found.segments[0]
    assert found.cut.end == len(at(0))
    assert found.cut.why_cut == "a checksum mismatch"
    assert sorted(found.files.snapshots.kept) == [1]


def test_emptied_segment_has_a_reason(partition: Partition) -> None:
    partition.segment(0, at(0, 3))
    partition.segment(3, at(3), at(5), at(4))
    partition.segment(6, at(6))
    found = partition.started()
    assert (bases(found), found.log_end) == ([0, 3], 3)
    assert found.cut is found.segments[3]
    words = "would decrease from offset 5 to 4"
    assert found.cut.why_cut == f"the index entry due at {2 * len(at(0))} {words}"


@pytest.mark.parametrize(
    ("broker", "rebuilt"),
    [
        ((0, 8, 1), "the offset index is missing"),
        ((0, 9), None),
        ((0, 10, 0, 1), None),
        ((0, 10, 1), "the offset index is missing"),
        (NEW, "the offset index is missing"),
    ],
)
def test_missing_offset_index_is_rebuilt(
    partition: Partition, broker: Version, rebuilt: str | None
) -> None:
    partition.segment(0, message(0), message(1, crc=1), index=None)
    partition.segment(2, message(2))
    found = partition.started(CLEAN, broker)
    assert found.rebuilt == ([(0, rebuilt)] if rebuilt else [])
    assert [segment.base_offset for segment in found.at_load] == ([0] if rebuilt else [])
    assert (found.cut, found.log_end, bases(found)) == (None, 3, [0, 2])
    partition.segment(0, message(0), message(1), index=None)
    (partition.path / f"{0:020}.index").unlink(missing_ok=True)
    found = partition.started(CLEAN, broker)
    assert (found.rebuilt, found.at_load) == ([(0, rebuilt)] if rebuilt else [], [])
    assert "a log without its offset index" in partition.refusal(CLEAN, (0, 8))


ZEROS = bytes(8)
AT_BASE = offset_index([(0, 60)])
FALLING = time_index([(9, 1), (5, 1)])


@pytest.mark.parametrize(
    ("index", "times", "brokers"),
    [
        (ZEROS, b"", {(0, 9): True, (1, 1): True, (2, 0): False, (2, 2): False, (2, 3): False}),
        (AT_BASE, b"", {(0, 9): True, (1, 1): True, (2, 0): False, (2, 3): False}),
        (bytes(5), b"", {(0, 9): True, (2, 2): True, (2, 3): False, NEW: False}),
        (b"", bytes(7), {(0, 10): False, (0, 10, 1): True, (2, 2): True, (2, 3): False}),
        (b"", None, {(0, 10, 1): False, (2, 2): False}),
        (bytes(5), bytes(7), {(0, 10): True, (0, 10, 1): True}),
    ],
)
def test_failing_index_check_rebuilds_the_index(
    partition: Partition, index: bytes, times: bytes | None, brokers: dict[Version, bool]
) -> None:
    partition.segment(0, message(0), message(1), index=index, times=times)
    partition.segment(2, message(2))
    for broker, expected in brokers.items():
        assert bool(partition.started(CLEAN, broker).rebuilt) == expected, broker


def test_wrong_index_stops_an_old_broker(partition: Partition) -> None:
    """Those that were recovered are sound; bytes over at the end of the newest do not count."""
    first, last = (message(0), message(1)), (message(2),)
    for broker in ((0, 8, 1), (0, 8, 2, 2)):
        partition.segment(0, *first, index=ZEROS)
        partition.segment(2, *last)
        words = "IllegalArgumentException: corrupt index: "
        assert partition.refusal(CLEAN, broker).startswith(words)
        assert bases(partition.started(UNCLEAN, broker)) == [0, 2]
        partition.segment(0, *first, index=bytes(5))
        assert partition.refusal(CLEAN, broker).startswith(words)
        partition.segment(0, *first)
        partition.segment(2, *last, index=bytes(5))
        assert bases(partition.started(CLEAN, broker)) == [0, 2]
        partition.segment(2, *last, index=ZEROS)
        assert partition.refusal(CLEAN, broker).startswith(words)
    assert bases(partition.started(CLEAN, (0, 8))) == [0, 2]


def test_wrong_transaction_index_causes_recovery(partition: Partition) -> None:
    partition.segment(0, at(0))
    for content, reason in (
        (struct.pack(">hqqqq", 0, 7, 0, 0, 1), False),
        (bytes(5), False),
        (struct.pack(">hqqqq", 0, 7, -5, -1, 1), True),
    ):
        partition.write(0, "txnindex", content)
        assert bool(partition.started(CLEAN).rebuilt) == reason, content
    assert partition.started(CLEAN, (0, 10, 2)).rebuilt == []


def test_log_end_below_the_log_start_is_handled(partition: Partition) -> None:
    partition.segment(0, at(0, 3))
    partition.segment(3, at(3, 2))
    for broker, start, expected in (
        (NEW, 5, ([0, 3], 5, True)),
        (NEW, 6, ([6], 6, False)),
        ((2, 3), 6, ([6], 6, False)),
        ((2, 2), 6, ([0, 3], 5, True)),
    ):
        found = partition.started(Stop(True, log_start=start), broker)
        assert (bases(found), found.log_end, found.above_log_start) == expected
        gone = [] if found.above_log_start else [0, 3]
        assert [segment.base_offset for segment in found.deleted] == gone
    found = partition.started(Stop(False, log_start=9, recovers=False))
    assert (bases(found), found.log_end, found.recovered) == ([0, 3], 0, [])


def test_partition_without_a_segment(partition: Partition) -> None:
    for broker, end in ((NEW, 7), ((2, 3), 7), ((2, 2), 0)):
        found = partition.started(Stop(False, log_start=7), broker)
        assert (bases(found), found.log_end) == ([end], end)
        assert found.segments[end].size_bytes == 0
    assert bases(partition.started(Stop(False, log_start=7, recovers=False))) == [0]


@pytest.mark.parametrize("stop", [UNCLEAN, CLEAN])
@pytest.mark.parametrize("low", [0, 2])
def test_oversized_offset_range_splits_the_segment(
    partition: Partition, low: int, stop: Stop
) -> None:
    """It is split where recovery meets the offset; a part of another base takes the name along."""
    index = b"" if stop is UNCLEAN else None
    partition.segment(0, at(low), at(FAR), at(FAR + 1), index=index)
    partition.segment(FAR + 2, at(FAR + 2))
    found = partition.started(stop)
    assert (bases(found), found.log_end) == ([low, FAR, FAR + 2], FAR + 3)
    assert (found.split, found.hidden) == ([0], {})
    assert found.recovered == ([low, FAR, FAR + 2] if stop is UNCLEAN else [])
    assert found.rebuilt == ([] if index == b"" else [(0, "the offset index is missing")])
    assert found.segments[FAR].size_bytes == 2 * len(at(0))


@pytest.mark.parametrize("unclean", [True, False])
def test_part_of_the_base_of_what_was_split(partition: Partition, unclean: bool) -> None:
    partition.segment(100, at(100), at(40), at(FAR), index=b"" if unclean else None)
    found = partition.started(UNCLEAN if unclean else CLEAN)
    assert found.split
    assert bases(found) == ([40, FAR] if unclean else [40, 100, FAR])
    assert [*found.hidden] == ([100] if unclean else [])


def test_swapped_segment_until_2_8(partition: Partition) -> None:
    partition.segment(0, at(0), at(1))
    partition.segment(2, at(2))
    partition.segment(3, at(3))
    partition.write(2, "log.swap", at(2))
    found = partition.started(CLEAN, (2, 8))
    assert (bases(found), found.files.replaced, found.deleted) == ([0, 2, 3], [2], [])
    assert found.segments[2].path.endswith(".log.swap")
    partition.write(2, "log.swap", at(2, 2))
    found = partition.started(CLEAN, (2, 8))
    assert (bases(found), found.files.replaced) == ([0, 2], [2, 3])
    (partition.path / f"{2:020}.log.swap").unlink()
    partition.write(1, "log.swap", at(1))
    found = partition.started(CLEAN, (2, 8))
    assert (bases(found), found.files.replaced) == ([1, 2, 3], [])
    assert [segment.base_offset for segment in found.deleted] == [0]
    assert found.bytes_read > 0
    partition.write(1, "log.swap", b"")
    for broker, gone in (((0, 10, 2), [0]), ((0, 11), []), ((1, 1), [])):
        found = partition.started(CLEAN, broker)
        assert [segment.base_offset for segment in found.deleted] == gone
        assert bases(found) == sorted({0, 1, 2, 3} - {*gone})


OPEN = data(0, 7, 0, transactional=True)


def test_snapshots_and_segments_are_replayed(partition: Partition) -> None:
    partition.segment(0, OPEN, at(1))
    partition.segment(2, at(2))
    partition.segment(3, at(3), at(4))
    found = partition.started(CLEAN)
    assert (found.replayed, sorted(found.files.snapshots.kept)) == ([], [2, 3, 5])
    assert partition.started(CLEAN, (0, 10)).replayed == []
    partition.write(2, "snapshot", snapshot((7, 0, 0, 0, 0, -1, 0, 0)))
    found = partition.started(CLEAN)
    assert (found.replayed, sorted(found.files.snapshots.kept)) == ([2, 3], [2, 3, 5])
    found = partition.started(Stop(True, log_start=2))
    assert (found.replayed, sorted(found.files.snapshots.kept)) == ([2, 3], [3, 5])
    found = partition.started(Stop(True, log_start=4))
    assert (found.replayed, sorted(found.files.snapshots.kept)) == ([3], [5])
    partition.write(5, "snapshot", snapshot())
    assert partition.started(CLEAN).replayed == []
    (partition.path / f"{2:020}.snapshot").unlink()
    found = partition.started(Stop(False, recovery_point=5))
    assert found.replayed == [0, 2]
    assert sorted(found.files.snapshots.kept) == [2, 3, 5]


def test_empty_segment_is_not_replayed(partition: Partition) -> None:
    partition.segment(0, at(0))
    partition.segment(1)
    partition.segment(1 + 1, at(2))
    partition.write(1, "snapshot", snapshot())
    found = partition.started(CLEAN)
    assert (found.replayed, found.log_end) == ([2], 3)


def test_offsets_that_give_a_negative_size_to_read(partition: Partition) -> None:
    """The index leads further for where the replay begins than for where it ends."""
    index = offset_index([(1, 2 * len(at(0))), (4, 0)])
    partition.segment(0, at(5), at(1), at(4), index=index)
    partition.write(1, "snapshot", snapshot())
    assert "give a negative size to read" in partition.refusal(CLEAN, (4, 0))
    partition.segment(0, at(5), at(1), at(4), index=index[:8])
    assert partition.started(CLEAN, (4, 0)).log_end == 5
