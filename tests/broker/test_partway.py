"""A partition that is loaded only as far as a lookup needs."""

from pathlib import Path

import pytest
from builders import batch, record
from partitions import write_segment
from segments import offset_index

from kdump.broker.loading import LazyLogLoader
from kdump.broker.log_reader import RefusalError
from kdump.broker.settings import Settings
from kdump.broker.shutdown_state import Stop
from kdump.broker.versions import Version
from kdump.storage.file_records import DEFAULT_LIMIT
from kdump.storage.local_log import LocalLog

NEW: Version = (4, 1)
CLEAN, UNCLEAN = Stop(clean=True), Stop(clean=False)
FAR = 1 << 32


def at(base: int) -> bytes:
    return batch([record()], base_offset=base)


def write(path: Path, base: int, *log: bytes, index: bytes | None = b"") -> None:
    write_segment(path, base, b"".join(log), index, index)


def open_partition(path: Path, stop: Stop, broker: Version = NEW) -> LazyLogLoader:
    log = LocalLog(str(path), [file.name for file in path.iterdir()])
    return LazyLogLoader(log, broker, Settings(index_interval_bytes=0), stop, limit=DEFAULT_LIMIT)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give four segments of two batches each."""
    path = tmp_path / "t-0"
    for base in (0, 2, 4, 6):
        write(path, base, at(base), at(base + 1))
    return path


def test_clean_stop_settles_a_segment_alone(path: Path) -> None:
    start = open_partition(path, CLEAN)
    assert sorted(start.segments) == [0, 2, 4, 6]
    assert not start.settle(4)
    assert [start.is_settled(base) for base in (0, 2, 4, 6)] == [False, False, True, False]
    assert (start.recovered, start.rebuilt) == ([], [])
    write(path, 2, at(2), at(3), index=None)
    (path / f"{2:020}.index").unlink()
    start = open_partition(path, CLEAN)
    assert start.settle(2)
    assert start.rebuilt == [(2, "the offset index is missing")]
    assert not start.settle(2)
    assert not start.settle(3)  # no segment's base
    assert not start.is_settled(3)


def test_unclean_stop_recovers_earlier_segments_first(path: Path) -> None:
    start = open_partition(path, Stop(clean=False, recovery_point=3))
    assert not start.settle(0)
    assert (start.recovered, start.is_settled(0), start.is_settled(2)) == ([], True, False)
    assert start.settle(4)
    assert start.recovered == [2, 4]
    assert [start.is_settled(base) for base in (2, 4, 6)] == [True, True, True]
    assert not start.settle(2)
    assert start.settle(6)
    assert start.recovered == [2, 4, 6]
    assert not start.settle(6)


def test_truncation_settles_all_segments(path: Path) -> None:
    write(path, 2, at(2), at(3)[:-1])
    start = open_partition(path, UNCLEAN)
    assert start.settle(0)
    assert start.recovered == [0]
    assert start.settle(6)
    assert (start.recovered, sorted(start.segments)) == ([0, 2], [0, 2])
    assert not start.settle(6)


def test_failed_start_is_retried(path: Path) -> None:
    """Below what failed all is as it was."""
    write(path, 4, at(4), at(FAR), bytes(20))
    start = open_partition(path, UNCLEAN)
    for _ in range(2):
        with pytest.raises(RefusalError) as raised:
            start.settle(4)
        first = raised.value
        with pytest.raises(RefusalError) as raised:
            start.settle(6)
        assert raised.value is first
        assert not start.settle(0)


@pytest.mark.parametrize("stop", [CLEAN, UNCLEAN])
def test_split_segment_is_settled(path: Path, stop: Stop) -> None:
    write(path, 6, at(6), at(FAR), index=b"" if stop is UNCLEAN else None)
    if stop is CLEAN:
        (path / f"{6:020}.index").unlink()
    start = open_partition(path, stop)
    assert start.settle(6)
    assert sorted(start.segments) == [0, 2, 4, 6, FAR]
    assert start.split
    assert start.is_settled(6)
    if stop is UNCLEAN:
        assert start.settle(FAR)
        assert start.recovered[-2:] == [6, FAR]


@pytest.mark.parametrize("broker", [(2, 8), (3, 0)])
def test_swap_files_need_a_complete_load(path: Path, broker: Version) -> None:
    (path / f"{4:020}.log.swap").write_bytes(at(4) + at(5))
    (path / f"{4:020}.index.swap").write_bytes(offset_index([]))
    start = open_partition(path, UNCLEAN, broker)
    assert all(start.is_settled(base) for base in (0, 2, 4, 6))
    assert start.recovered == [0, 2, 4, 6]
    assert start.segments[4].path.endswith(".swap")
    assert not start.settle(4)
