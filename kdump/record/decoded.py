"""The result of decoding an entry."""

from __future__ import annotations

from typing import NamedTuple

from kdump.kernels import columns as c
from kdump.kernels.columns import DecodedRecords


class Decoded(NamedTuple):
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


def empty_piece(data: bytes | bytearray | memoryview, reason: int, detail: str = "") -> Decoded:
    """Say that an entry gave no records, and why."""
    return Decoded(data, c.DecodedRecords.empty(c.RECORD_WIDTH), reason, 0, detail)
