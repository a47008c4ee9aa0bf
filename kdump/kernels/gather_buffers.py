"""Records as the buffers of one Arrow record batch: a kernel fills them, the output wraps them.

Buffers have room for so much and no more. They are filled, written and filled again: memory that
is touched for the first time costs more than what is copied into it.
"""

from __future__ import annotations

from array import array
from binascii import b2a_base64
from mmap import mmap

from kdump.tuples import NamedTuple

# Which buffer holds what; in the machine's byte order, bitmaps with the lowest bit first. Behind
# them follows a buffer for each `Copy`.
G_CODEC = 0  # int32
G_TIMESTAMP_TYPE = 1  # int32: 0 CreateTime, 1 LogAppendTime
G_SEQUENCE = 2  # int32; -1 for none (F24), or no producer fields
G_TRANSACTIONAL = 3  # bitmap
G_MODERN = 4  # bitmap: where it is of magic 2
G_TIMED = 5  # bitmap: where it has a timestamp; in a wrapper the message's own magic decides
G_KEY_ENDS = 6  # int32, one more than rows: 0, then where each key ends
G_KEY_VALID = 7  # bitmap: where the key is not null
G_KEYS = 8
G_VALUE_ENDS = 9
G_VALUE_VALID = 10
G_VALUES = 11
G_LISTS = 12  # int32, one more than rows: 0, then how many headers there are up to each row's last
G_NAME_ENDS = 13  # this and the next four: one for each header, not for each row
G_NAMES = 14  # header keys, which are never null; what is not UTF-8 is base64, marked
G_CONTENT_ENDS = 15
G_CONTENT_VALID = 16
G_CONTENTS = 17  # header values
G_CONTROL_ENDS = 18
G_CONTROL_VALID = 19  # bitmap: where it is a MARKER
G_CONTROLS = 20  # what a MARKER says, as JSON
GATHERED_WIDTH = 21

#: Bits that each row takes (each header, in those for headers); 0: bytes of any number. Buffers of
#: ends have 32 bits more.
BITS = (32, 32, 32, 1, 1, 1, 32, 1, 0, 32, 1, 0, 32, 32, 0, 32, 1, 0, 32, 1, 0)
ENDS = frozenset((G_KEY_ENDS, G_VALUE_ENDS, G_LISTS, G_NAME_ENDS, G_CONTENT_ENDS, G_CONTROL_ENDS))
OF_HEADERS = frozenset((G_NAME_ENDS, G_CONTENT_ENDS, G_CONTENT_VALID))
MOST_COPIES = 40
LONGEST_MARKER = len('{"type":"COMMIT","version":32767,"coordinator_epoch":-2147483648}')


class Copy(NamedTuple):
    """A column that is gathered as it stands: of the records, or of the batch of each.

    `bits`: 8, 16, 32 or 64, the lowest of each number.
    """

    column: int
    of_record: bool
    bits: int


# What is counted while they are filled.
N_ROWS = 0
N_HEADERS = 1
N_KEYS_NULL = 2
N_VALUES_NULL = 3
N_CONTENTS_NULL = 4
N_OLD = 5  # rows that are not of magic 2
N_UNTIMED = 6  # rows without a timestamp
N_CONTROLS_NULL = 7
COUNTS = 8


class GatherBuffers:
    """The buffers, by number, and the counts.

    Buffers are anonymous memory: a page costs nothing before it is used, and is given back at once.
    """

    __slots__ = ("bits", "buffers", "copies", "counts")

    def __init__(
        self,
        rows: int,
        headers: int,
        *,
        keys: int,
        values: int,
        names: int,
        contents: int,
        copies: tuple[Copy, ...] = (),
    ) -> None:
        """Make room for so many rows and headers, and so many bytes; at most MOST_COPIES."""
        self.copies = copies
        self.bits = (*BITS, *(copy.bits for copy in copies))
        sizes = {G_KEYS: keys, G_VALUES: values, G_NAMES: names, G_CONTENTS: contents}
        sizes[G_CONTROLS] = rows * LONGEST_MARKER
        for number, bits in enumerate(self.bits):
            if bits:
                count = headers if number in OF_HEADERS else rows
                sizes[number] = (bits * (count + (number in ENDS)) + 7) // 8
        self.counts = array("q", bytes(8 * COUNTS))
        self.buffers = [mmap(-1, max(1, sizes[number])) for number in range(len(self.bits))]

    def clear(self) -> None:
        """Forget what was gathered; the room stays."""
        self.counts[:] = array("q", bytes(8 * COUNTS))


def header_name(name: bytes | memoryview) -> bytes:
    """Return the name of a header as UTF-8; other bytes in base64, so that no two names are equal.

    They are marked as in a cell of CSV.
    """
    data = bytes(name)
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return b"base64:" + b2a_base64(data, newline=False)
    return data
