"""Every binary table and constant of log entries. Index and checkpoint files: `storage.layout`."""

from __future__ import annotations

import struct

LOG_OVERHEAD = 12  # offset and size, in front of every entry since 0.8 (F6)
HEADER_SIZE_UP_TO_MAGIC = 17
SMALLEST_MESSAGE = 14  # RECORD_OVERHEAD_V0: no size field of a sound entry is smaller (F7, S6)
BATCH_OVERHEAD_V2 = 61
CRC_START_V2 = 21  # CRC-32C covers from here to the end (F20)
CRC_START_LEGACY = 16  # CRC-32 covers from the magic byte to the end (F7)
CRC_POSITION_V2 = 17
CRC_POSITION_LEGACY = 12

MAGIC_V0, MAGIC_V1, MAGIC_V2 = 0, 1, 2

CODEC_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40
MEANT_BITS = (0x07, 0x0F, 0x7F)  # attribute bits with a meaning, by magic; the others are reserved
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

ENTRY_HEADER_V0 = struct.Struct(
    ">"
    "q"  #  0 offset
    "i"  #  8 size, counted from byte 12
    "I"  # 12 crc, CRC-32 of byte 16 to the end
    "b"  # 16 magic
    "b"  # 17 attributes
    "i"  # 18 key length, negative for null
)
assert ENTRY_HEADER_V0.size == 22

ENTRY_HEADER_V1 = struct.Struct(
    ">"
    "q"  #  0 offset
    "i"  #  8 size, counted from byte 12
    "I"  # 12 crc, CRC-32 of byte 16 to the end
    "b"  # 16 magic
    "b"  # 17 attributes
    "q"  # 18 timestamp, milliseconds, -1 for none
    "i"  # 26 key length, negative for null
)
assert ENTRY_HEADER_V1.size == 30

BATCH_HEADER_V2 = struct.Struct(
    ">"
    "q"  #  0 baseOffset
    "i"  #  8 batchLength, counted from byte 12
    "i"  # 12 partitionLeaderEpoch, outside the CRC: the broker rewrites it
    "b"  # 16 magic
    "I"  # 17 crc, CRC-32C of byte 21 to the end
    "h"  # 21 attributes
    "i"  # 23 lastOffsetDelta, kept by compaction; never records_count - 1
    "q"  # 27 baseTimestamp, or the delete horizon when attribute bit 6 is set
    "q"  # 35 maxTimestamp
    "q"  # 43 producerId, -1 for none
    "h"  # 51 producerEpoch
    "i"  # 53 baseSequence
    "i"  # 57 recordsCount
)
assert BATCH_HEADER_V2.size == BATCH_OVERHEAD_V2

PRE08_LENGTH = struct.Struct(">i")  # counts everything after itself
PRE08_SMALLEST = 5  # magic and crc: Message.MinHeaderSize of 0.6 and 0.7 (F2)
PRE08_CODEC_MASK = 0x03


def int64(value: int) -> int:
    """Wrap a sum to 64 bits, as Java's long does."""
    return ((value + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)
