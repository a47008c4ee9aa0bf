"""The parts that a segment with offsets too far above its base falls into."""

import struct
from pathlib import Path

from builders import batch, record

from kdump.broker.segment import Segment
from kdump.broker.segment_split import split
from kdump.broker.settings import Settings
from kdump.storage.file_records import HEADER_BLOCK_BYTES
from kdump.storage.names import Kind


def test_every_part_has_the_entries_of_its_batches(tmp_path: Path) -> None:
    """Those before and behind the first of a part, and in the blocks that are read after it."""
    log = tmp_path / f"{0:020}.log"
    one = batch([record(value=bytes(HEADER_BLOCK_BYTES // 5))])
    far = 1 << 32
    offsets = [0, 1, *range(far, far + 8)]
    log.write_bytes(b"".join(struct.pack(">q", at) + one[8:] for at in offsets))
    low, high = split(Segment(0, {Kind.LOG: str(log)}, (4, 1), Settings(index_interval_bytes=0)))
    assert (low.base_offset, low.extent) == (0, (0, 2 * len(one)))
    assert (high.base_offset, high.extent) == (far, (2 * len(one), 10 * len(one)))
    assert [entry for _, entry in low.offset_index().slots()] == [(1, len(one))]
    assert [entry for _, entry in high.offset_index().slots()] == [
        (far + at, at * len(one)) for at in range(1, 8)
    ]
