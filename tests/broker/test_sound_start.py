"""How much of an index is written while a broker has it open, and where it leads."""

import struct
from pathlib import Path

import pytest
from builders import batch, record

from kdump.broker.sound_start import sound_start, written_slots
from kdump.storage.offset_index import OffsetIndex
from kdump.storage.source import Source

ONE = batch([record()])
LOG = b"".join(batch([record()], base_offset=at) for at in range(5))
SLOTS = [(at, at * len(ONE)) for at in range(1, 5)]


def index_of(*slots: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">ii", *slot) for slot in slots)


@pytest.mark.parametrize(
    ("slots", "written"),
    [
        (SLOTS, 4),
        ([*SLOTS[:3], *[(0, 0)] * 500], 3),
        ([*SLOTS[:3], SLOTS[0], *[(0, 0)] * 500], 3),  # left by a truncation
        ([(0, 0)] * 500, 0),
    ],
)
def test_written_slots_end_at_zeros_or_where_they_fall(
    slots: list[tuple[int, int]], written: int, tmp_path: Path
) -> None:
    data = index_of(*slots)
    assert written_slots(OffsetIndex(data, 0)) == written
    log, index = tmp_path / f"{0:020}.log", tmp_path / f"{0:020}.index"
    log.write_bytes(LOG)
    index.write_bytes(data)
    with Source(str(log)) as source:
        assert sound_start(source, 0, str(index)) == written * len(ONE)
        assert sound_start(source, 0, None) == 0
