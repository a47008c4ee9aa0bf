"""Report attribute bits without a meaning in any format, which readers ignore."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.engine.reading.damage import BatchAt
from kdump.kernels import columns as c

if TYPE_CHECKING:
    from kdump.findings.finding import Finding
    from kdump.findings.rows import Place
    from kdump.kernels.columns import RecordBatches


def reserved_finding(batches: RecordBatches, row: int, place: Place, count: int = 1) -> Finding:
    """Say that reserved attribute bits are set, of the first batch of `count` in a segment."""
    attributes, meant = batches.attributes(row), batches.format(row).meant_bits
    return BatchAt(place, batches, row).finding(
        "attributes-reserved",
        expected=attributes & meant,
        actual=attributes,
        message=f"The attributes are 0x{attributes:02x}, of which bits 0x"
        f"{attributes & ~meant:02x} mean nothing in this format"
        + (f"; so in {count:,} batches of the segment." if count > 1 else "."),
    )


def reserved_rows(batches: RecordBatches) -> list[int]:
    """The rows whose attributes have reserved bits."""
    if not batches.flags & c.RESERVED:
        return []
    return [row for row, flags in enumerate(batches.row_flags) if flags & c.RESERVED]
