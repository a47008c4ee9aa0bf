"""One segment while a start is predicted, on logs made by hand."""

import os
import struct
from pathlib import Path
from typing import Any

import pytest
from builders import batch, control_record, message, record

from kdump.broker.index_builder import InvalidOffsetError
from kdump.broker.log_reader import BLOCK_BYTES, RefusalError
from kdump.broker.recovered_producers import Producers, Snapshots
from kdump.broker.segment import Segment
from kdump.broker.settings import Settings
from kdump.broker.versions import Version
from kdump.storage.names import Kind
from kdump.storage.source import Source


def test_emptied_segment_has_empty_indexes(tmp_path: Path) -> None:
    """Recovery had made entries before the one that would not rise; none of them stays (I19)."""
    log = tmp_path / f"{0:020}.log"
    records = [record(0), record(1)]
    log.write_bytes(b"".join(batch(records, base_offset=at) for at in (0, 2, 4, 2)))
    segment = Segment(0, {Kind.LOG: str(log)}, (4, 1), Settings(index_interval_bytes=0))
    with pytest.raises(InvalidOffsetError):
        segment.recover(None)
    assert len(segment.offset_index()) > 0
    assert len(segment.time_index()) > 0
    assert segment.truncate_to_base() == log.stat().st_size
    assert (segment.size_bytes, len(segment.offset_index()), len(segment.time_index())) == (0, 0, 0)
    assert segment.position_of(4) == 0


def test_log_that_shrinks_under_recovery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no longer there ends the reading; it is not asked for again and again."""
    log = tmp_path / f"{0:020}.log"
    one = batch([record(0, value=bytes(BLOCK_BYTES // 2))])
    log.write_bytes(b"".join(struct.pack(">q", at) + one[8:] for at in range(6)))
    reads = 0
    read_into = Source.read_into

    def shrinking(source: Source, *arguments: Any) -> int:
        nonlocal reads
        reads += 1
        if reads == 2:
            os.truncate(log, 0)
        assert reads < 100
        return read_into(source, *arguments)

    monkeypatch.setattr(Source, "read_into", shrinking)
    segment = Segment(0, {Kind.LOG: str(log)}, (4, 1), Settings())
    segment.recover(None)
    assert segment.valid_end == 1
    assert segment.size_bytes == len(one)


def recovered(path: Path, log: bytes, broker: Version, index_bytes: int) -> Segment:
    path.write_bytes(log)
    settings = Settings(index_interval_bytes=0, index_size_max_bytes=index_bytes)
    segment = Segment(0, {Kind.LOG: str(path)}, broker, settings)
    segment.recover(Producers(Snapshots(())))
    return segment


@pytest.mark.parametrize(
    ("broker", "index_bytes", "most", "full"),
    [
        ((4, 1), 8, 0, "time index"),
        ((4, 1), 24, 1, "time index"),
        ((4, 1), 60, 4, "time index"),
        ((0, 10), 24, 3, "offset index"),
    ],
)
def test_index_that_is_too_small(
    broker: Version, index_bytes: int, most: int, full: str, tmp_path: Path
) -> None:
    """An entry for each batch but the first; one slot of a time index is kept (I13)."""
    path = tmp_path / f"{0:020}.log"
    if broker < (0, 11):
        log = [message(at, timestamp=at) for at in range(most + 2)]
    else:
        log = [batch([record()], base_offset=at, max_timestamp=at) for at in range(most + 2)]
    segment = recovered(path, b"".join(log[:-1]), broker, index_bytes)
    assert len(segment.offset_index()) == most
    with pytest.raises(RefusalError, match=f"the {full} is full"):
        recovered(path, b"".join(log), broker, index_bytes)


@pytest.mark.parametrize("index_bytes", [10_000, 60])
def test_index_ends_where_a_marker_ends_recovery(index_bytes: int, tmp_path: Path) -> None:
    """The broken marker has its entry and stays; that the index would be full later is not met."""
    producer = {"producer_id": 7, "producer_epoch": 0}
    first = batch([record()], attributes=0x10, base_sequence=0, **producer)
    marker = batch([control_record(0, b"short")], base_offset=1, attributes=0x30, **producer)
    behind = [batch([record()], base_offset=at, max_timestamp=1 << 60) for at in range(2, 20)]
    log = b"".join((first, marker, *behind))
    segment = recovered(tmp_path / f"{0:020}.log", log, (4, 1), index_bytes)
    assert segment.end == len(first + marker)
    assert [entry for _, entry in segment.offset_index().slots()] == [(1, len(first))]
    assert segment.last_time().timestamp_ms < 1 << 60
