"""Where the search for an offset ends, release by release: the entry found, or the error."""

import shutil
import struct
from contextlib import closing
from pathlib import Path

import builders
import pytest
from partitions import view_of, write_segment

from kdump.broker.log_reader import Entries
from kdump.broker.lookup_records import BrokerError
from kdump.broker.versions import NEWEST, Version
from kdump.storage.source import Source

SAMPLES = Path(__file__).parents[2] / "sample-data"
BY_LAST_OFFSETS = (3, 9)


def batch(first: int, last: int) -> bytes:
    records = [builders.record(at) for at in range(last - first + 1)]
    return builders.batch(records, base_offset=first)


def log_of(directory: Path, *ranges: tuple[int, int]) -> Path:
    write_segment(directory, 0, b"".join(batch(*offsets) for offsets in ranges))
    return directory


def fetch_position(
    directory: Path, offset: int, broker: Version = NEWEST, **how: bool
) -> int | None:
    """The position that a fetch leads to."""
    with closing(view_of(directory, broker=broker, **how)) as view:
        found = view.fetch(offset)
        return None if found is None else found.position


def test_second_copy_of_a_repeated_batch_is_served(tmp_path: Path) -> None:
    log = log_of(tmp_path / "t-0", (0, 9), (10, 19), (10, 19), (20, 29))
    size = len(batch(0, 9))
    assert fetch_position(log, 12) == 2 * size
    assert fetch_position(log, 10) == size  # its base offset ends the search at once
    assert fetch_position(log, 12, BY_LAST_OFFSETS) == size


def test_batch_with_a_lower_offset_hides_the_batch_before(tmp_path: Path) -> None:
    log = log_of(tmp_path / "t-0", (0, 9), (10, 19), (5, 8), (20, 29))
    behind = 2 * len(batch(0, 9)) + len(batch(5, 8))
    assert fetch_position(log, 12) == behind
    assert fetch_position(log, 12, BY_LAST_OFFSETS) == len(batch(0, 9))


def test_next_header_is_read(tmp_path: Path) -> None:
    log = tmp_path / "orders.zstd-0"
    shutil.copytree(SAMPLES / "clean/4.1.1/d1/orders.zstd-0", log)
    with (log / f"{293:020d}.log").open("ab") as file:
        file.write(bytes(64))
    for as_is in (True, False):
        with pytest.raises(BrokerError, match=r"^CorruptRecordException: .* in .*0293\.log$"):
            fetch_position(log, 616, as_is=as_is)
    assert fetch_position(log, 616, BY_LAST_OFFSETS, as_is=True) == 19_038
    assert fetch_position(log, 400) == fetch_position(log, 400, BY_LAST_OFFSETS, as_is=True)


def test_wrapper_is_opened_for_its_base_offset(tmp_path: Path) -> None:
    inner = [builders.message(at) for at in range(3)]
    sound = builders.wrapper(inner, 2)
    broken = builders.wrapper(inner, 5, compress=lambda plain: plain)
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(sound + broken)
    (directory / f"{0:020d}.index").write_bytes(b"")
    assert fetch_position(directory, 0, as_is=True) == 0
    assert fetch_position(directory, 1, BY_LAST_OFFSETS, as_is=True) == 0
    with pytest.raises(BrokerError):  # the one behind is opened before this one is taken
        fetch_position(directory, 1, as_is=True)


def test_truncated_header_fails_only_searches_that_reach_it(tmp_path: Path) -> None:
    log = batch(0, 9)
    short = struct.pack(">qiib", 10, 14, 0, 2) + bytes(9)
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(log + short)
    with Source(str(path)) as source:
        entries = Entries(source, BY_LAST_OFFSETS, 0, source.size)
        found = entries.search(0, 4)
        assert found is not None
        assert (found.position, found.scanned) == (0, 1)


def test_entries_are_counted_from_the_start_of_the_search(tmp_path: Path) -> None:
    """In the oldest brokers' search, too, which reads twelve bytes of each."""
    log = b"".join(builders.message(at) for at in range(5))
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(log)
    with Source(str(path)) as source:
        for broker in ((0, 10, 1), BY_LAST_OFFSETS, NEWEST):
            found = Entries(source, broker, 0, source.size).search(len(log) // 5, 3)
            assert found is not None
            assert (found.position, found.scanned) == (len(log) // 5 * 3, 3)
