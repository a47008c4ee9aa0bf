"""What a row looks like as text: a cell for each member, and how bytes stand in them.

A form is all that sets JSON Lines, CSV, the lines of kafka-dump-log and a table's apart; one
writer, in `text` of each kernel, serves them all.
"""

from __future__ import annotations

from functools import lru_cache

from kdump.tuples import NamedTuple

JSON, CSV, KAFKA, TABLE = range(4)  # how the bytes of records are spelled

MOST_CELLS = 32
MOST_SHOWN = 1 << 13  # bytes of a key or a value that a cell of a table may ask for

_DAY_MS = 86_400_000
#: Year 0001 to 9999, what the calendar of ISO 8601 can name.
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999


class Cell(NamedTuple):
    """A member with the text around it, and what stands in place of all that where it is null.

    Members are those of the rows' schema and a few more: `said` is what a control record says, in
    KAFKA in place of its key and its value; `message_crc` the checksum of a message of magic 0 or
    1; `inner_crc_valid` and `inner_codec` the marks of a message inside a wrapper; `time` and
    `note` are what a table has of a record.

    In a table text is filled up with spaces to `width`, and a key or a value cut where it is longer
    than `most`, which is no less (0: never); `after` is what stands in place of all that where one
    is empty.
    """

    member: str
    before: bytes = b""
    after: bytes = b""
    without: bytes = b""
    width: int = 0
    most: int = 0


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


def time_text(timestamp_ms: int) -> str:
    """Write a time as ISO 8601 in UTC; a number outside the years 1 to 9999 stays a number."""
    if not _FIRST_MS <= timestamp_ms <= _LAST_MS:
        return str(timestamp_ms)
    if timestamp_ms == -1:  # the formats' own mark for "no time"; -1 as a time is never meant
        return "-1"
    days, within = divmod(timestamp_ms, _DAY_MS)
    hours, within = divmod(within, 3_600_000)
    minutes, within = divmod(within, 60_000)
    seconds, millis = divmod(within, 1000)
    return f"{_date_text(days)}T{hours:02}:{minutes:02}:{seconds:02}.{millis:03}Z"


@lru_cache(maxsize=4096)
def _date_text(days: int) -> str:
    from datetime import date

    return date.fromordinal(days + 719_163).isoformat()
