"""What a row looks like as text: a cell for each member, and how bytes stand in them.

A form is all that sets JSON Lines, CSV and the lines of kafka-dump-log apart; one writer, in
`text` of each kernel, serves them all.
"""

from __future__ import annotations

from typing import NamedTuple

JSON, CSV, KAFKA = range(3)  # how the bytes of records are spelled

#: What a cell may hold: members of a batch, then, from `offset` on, those of each record.
#: `said`: what a control record says, in KAFKA in place of its key and its value; `message_crc`:
#: the sum of a message of magic 0 or 1.
MEMBERS = (
    *("position", "size_bytes", "magic", "codec", "base_offset", "last_offset", "records_count"),
    *("crc", "crc_valid", "timestamp_type", "base_timestamp_ms", "max_timestamp_ms"),
    *("leader_epoch", "producer_id", "producer_epoch", "base_sequence", "last_sequence"),
    *("transactional", "control", "delete_horizon_ms"),
    *("offset", "timestamp_ms", "sequence"),
    *("message_crc", "message_crc_valid", "key_size", "value_size"),
    *("key", "value", "headers", "header_names", "said"),
)
MOST_CELLS = 32


class Cell(NamedTuple):
    """A member with the text around it, and what stands in place of all that where it is null."""

    member: str
    before: bytes = b""
    after: bytes = b""
    without: bytes = b""


class TextForm(NamedTuple):
    """How rows are written. Messages of magic 0 and 1 have cells of their own.

    `shown`: a terminal reads it, so that control characters are spelled out (JSON does so always).
    `safe`: in CSV, text that a spreadsheet would take for a formula gets an apostrophe before it.
    """

    style: int
    bytes_mode: int
    record: tuple[Cell, ...]
    message: tuple[Cell, ...]
    batch: tuple[Cell, ...]
    message_batch: tuple[Cell, ...]
    shown: bool = False
    safe: bool = False
