"""What a walk over a file yields: runs of sound entries, and gaps between them.

The parts always add up to the whole: every byte of the walked range lies in an entry of a run, in
an oversize entry, or in a gap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.kernels.columns import RecordBatches


class Run(NamedTuple):
    """Consecutive entries with right checksums. Entry k lies at `data[POSITION - base]`.

    The rows may still carry flags for what a checksum does not prove (offset not rising, unknown
    magic or codec, count against delta). `data` is valid until the next item is asked for.
    """

    data: bytearray
    base: int
    batches: RecordBatches


class Oversize(NamedTuple):
    """One entry with a right checksum that is too large to be held in memory."""

    batches: RecordBatches


class Gap(NamedTuple):
    """`size_bytes` bytes from `position` on that hold no usable entry.

    `reason` is one of GAP_REASONS. `header` is the one row of batch columns that could still be
    read there, if any: the damaged thing stays visible; `data` then holds its bytes from
    `position` on, as far as they were read. `to_end`: no valid entry follows in this file.
    """

    position: int
    size_bytes: int
    reason: str
    header: RecordBatches | None
    data: bytes
    to_end: bool


GAP_REASONS = tuple(
    "crc-mismatch batch-too-small length-too-small cut-short short-tail zeros"
    " search-given-up".split()
)
