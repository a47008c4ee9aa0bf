"""What every format of log entries has, and where: the one table, and the constants behind it.

A format has the number that `B_LAYOUT` gives of an entry. That is its magic, but where brokers
read an entry otherwise than its magic byte says (see `format_of` and `walk` in _pure).
"""

from __future__ import annotations

from kdump.tuples import NamedTuple

LOG_OVERHEAD = 12  # offset and size, in front of every entry since 0.8 (F6); size counts from here
HEADER_SIZE_UP_TO_MAGIC = 17
SMALLEST_MESSAGE = 14  # no size field of a sound entry is smaller (F7, S6)
SMALLEST_RECORD = 7  # a length, six one-byte fields
BATCH_OVERHEAD_V2 = 61
CRC_START_V2 = 21  # CRC-32C covers from here to the end (F20)
LAST_OFFSET_DELTA = 2  # in every header of a batch, counted from where the checksum starts
CRC_START_LEGACY = 16  # CRC-32 covers from the magic byte to the end (F7)
PRE08_SMALLEST = 5  # magic and crc: Message.MinHeaderSize of 0.6 and 0.7 (F2)
PRE08_CODEC_MASK = 0x03
CRC32, CRC32C = "crc-32", "crc-32c"
MAGIC_V2 = 2

CODEC_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

MAX_INT32 = (1 << 31) - 1
MAX_INT64 = (1 << 63) - 1


class Format(NamedTuple):
    """One format; positions and sizes in bytes from the entry's start.

    `header_size` ends behind the key's length in a message, where the records start in a batch.
    Attribute bits outside `meant_bits` are reserved, and zero. `relative_offsets`: what a
    compressed entry holds is numbered from the entry's own offset (F13, F14). `lz4_header_wrong`:
    writers hashed the wrong bytes for the header of an LZ4 stream (F34). The checksum of a batch
    covers it from its attributes on, which seven other fields follow (F20); then come those, if
    any, that magic 2 does not have.
    """

    magic: int
    is_legacy: bool  # a message, wrapper or not, in place of a record batch
    header_size: int
    crc_position: int
    crc_start: int
    crc_kind: str
    meant_bits: int
    largest_codec: int
    has_timestamps: bool
    has_leader_epoch: bool
    has_producer_fields: bool
    relative_offsets: bool
    lz4_header_wrong: bool

    @property
    def smallest_size(self) -> int:
        """The size of an entry that has its fixed fields: a message's end with a value's length."""
        return self.header_size + (4 if self.is_legacy else 0)


# fmt: off
FORMATS = (
    # magic, legacy, header, crc at, crc from, kind, meant bits, largest codec,
    # timestamps, leader epoch, producer fields, relative offsets, wrong lz4 header
    Format(0, True, 22, 12, CRC_START_LEGACY, CRC32, CODEC_MASK, 3,
           False, False, False, False, True),
    Format(1, True, 30, 12, CRC_START_LEGACY, CRC32, CODEC_MASK | TIMESTAMP_TYPE_BIT, 3,
           True, False, False, True, False),
    Format(MAGIC_V2, False, BATCH_OVERHEAD_V2, 17, CRC_START_V2, CRC32C, 0x7F, 4,
           True, True, True, True, False),
)
# fmt: on
NEWEST_MAGIC = FORMATS[-1].magic
LARGEST_HEADER = max(each.header_size for each in FORMATS)


def format_of(magic: int) -> Format:
    """Which format brokers read an entry in, by its magic byte, signed or not (S6)."""
    return FORMATS[min(magic, NEWEST_MAGIC) if 0 <= magic <= 127 else 0]


def format_at(layout: int) -> Format:
    """The format of a number in B_LAYOUT; what is none, which no walk writes, counts as 0."""
    return FORMATS[layout if 0 <= layout < len(FORMATS) else 0]


def message_format(magic: int) -> Format:
    """The format of a message inside a wrapper: 1 if that is its magic, else 0 (F15)."""
    return FORMATS[magic == 1]


def int64(value: int) -> int:
    """Wrap to int64 as Java's long does."""
    return ((value + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)
