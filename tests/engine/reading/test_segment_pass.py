"""One pass over a log: what is written meanwhile, whose word on offsets counts, parts of a log."""

import os
from pathlib import Path

import damage
import pytest
from damaged_segment import BASE, BATCHES, RECORDS, Segment, batch, first_of

from kdump.engine.reading import segment_pass
from kdump.engine.reading.segment_pass import SegmentPass, SplitPass
from kdump.engine.reading.split_edges import SplitEdges
from kdump.record.frames import Gap
from kdump.storage.offsets import Offsets
from kdump.storage.source import Source

END = BASE + RECORDS * BATCHES
LIMIT = 1 << 20


@pytest.mark.parametrize("joined", [False, True])
def test_concurrently_written_bytes_are_read_once(
    tmp_path: Path, segment: Segment, monkeypatch: pytest.MonkeyPatch, joined: bool
) -> None:
    """Also where headers of many blocks come as one: none is held back during the wait."""
    path = segment.write(tmp_path, damage.cut(segment.data, segment.starts[4] + 20))
    os.utime(path)
    seen: list[int] = []
    at_sleep: list[int] = []

    def write(seconds: float) -> None:
        at_sleep.append(offsets.last)
        path.write_bytes(segment.data)

    monkeypatch.setattr(segment_pass.time, "sleep", write)
    offsets = Offsets(BASE - 1, END + 1000)
    with Source(path) as source:
        log = SegmentPass(source, offsets, limit=LIMIT, next_base=None, active=True)
        for item in log.items(joins=(lambda _: True) if joined else None):
            assert not isinstance(item, Gap)
            seen.extend(item.batches.base_offsets)
            assert list(log.take(item)) == []
    assert seen == [first_of(number) for number in range(BATCHES)]
    assert at_sleep == [first_of(4) - 1]
    assert offsets.last == END - 1


def test_idle_log_is_not_waited_for(
    tmp_path: Path, segment: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = segment.write(tmp_path, damage.cut(segment.data, segment.starts[5] + 20))
    monkeypatch.setattr(segment_pass.time, "sleep", pytest.fail)
    with Source(path) as source:
        for active in (False, True):  # its file is old
            log = SegmentPass(
                source, Offsets(BASE - 1, END), limit=LIMIT, next_base=None, active=active
            )
            *_, last = log.items()
            assert isinstance(last, Gap)
            assert (last.position, last.to_end) == (segment.starts[5], True)


def test_gap_is_released_when_the_next_offset_is_known(tmp_path: Path, segment: Segment) -> None:
    path = segment.write(tmp_path, damage.flip(segment.data, segment.starts[1] + 70))
    with Source(path) as source:
        log = SegmentPass(source, Offsets(BASE - 1, END), limit=LIMIT, next_base=END)
        told = [one for item in log.items() for one in log.take(item)]
        told += log.offsets.release(END)
    (one,) = told
    assert (one.gap.position, one.last_offset) == (segment.starts[1], first_of(1) - 1)
    assert one.next_offset == first_of(2)


def edges(path: Path, start: int, end: int) -> SplitEdges:
    with Source(path) as source:
        log = SplitPass(source, limit=LIMIT, next_base=None)
        for _ in log.items(start, end, -1):
            assert not log.edges.sound  # nothing is said of what is not read yet
        return log.edges


def test_edges_of_a_part(tmp_path: Path, segment: Segment) -> None:
    path = segment.write(tmp_path)
    start, end = segment.starts[2], segment.starts[4]
    assert edges(path, start, end) == SplitEdges(start, end, first_of(2), first_of(4) - 1)
    assert not edges(path, start, end + 1).sound  # it ends within a batch
    assert not edges(path, start, start).sound


def test_part_with_damage_is_not_judged(tmp_path: Path, segment: Segment) -> None:
    path = segment.write(tmp_path, damage.flip(segment.data, segment.starts[3] + 70))
    assert not edges(path, segment.starts[2], segment.starts[5]).sound
    assert edges(path, segment.starts[4], segment.starts[6]).sound
    falling = Segment([batch(BASE + 10), batch(BASE)])
    assert not edges(falling.write(tmp_path), 0, falling.starts[2]).sound
