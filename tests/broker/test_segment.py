"""One segment while a start is predicted, on logs made by hand."""

import os
import struct
from pathlib import Path
from typing import Any

import pytest
from builders import batch, record

from kdump.broker.index_builder import InvalidOffsetError
from kdump.broker.log_reader import BLOCK_BYTES
from kdump.broker.segment import Segment
from kdump.broker.settings import Settings
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
