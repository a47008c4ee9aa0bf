"""The result of decoding an entry."""

from __future__ import annotations

from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.kernels.columns import DecodedRecords
from kdump.tuples import NamedTuple


class DecodedPart(NamedTuple):
    """Some records of one entry.

    `data` holds their bytes (uncompressed, for a compressed entry); `stop` is the index in it
    where decoding went wrong when `reason` is neither END nor FULL; `detail` is a codec's own
    words.
    """

    data: bytes | bytearray | memoryview
    records: DecodedRecords
    reason: int
    stop: int
    detail: str

    @property
    def is_sound(self) -> bool:
        """Whether all that was asked for is there, and each message has a right checksum."""
        wrong = any(flags & c.INNER_CRC_BAD for flags in self.records.row_flags)
        return not wrong and self.reason in (reasons.END, reasons.FULL)


def empty_piece(data: bytes | bytearray | memoryview, reason: int, detail: str = "") -> DecodedPart:
    """Say that an entry gave no records, and why."""
    return DecodedPart(data, c.DecodedRecords.empty(c.RECORD_WIDTH), reason, 0, detail)
