"""Every binary table of log entries. Index and checkpoint files: `storage.layout`.

The formats themselves, and the constants that the kernels need too, are in `kernels.layout`.
"""

from __future__ import annotations

import struct

from kdump.kernels.layout import *  # noqa: F403 for those above the kernels, all of it from here
from kdump.kernels.layout import FORMATS

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)

ENTRY_HEADER_V0 = struct.Struct(
    ">"
    "q"  #  0 offset
    "i"  #  8 size, counted from byte 12
    "I"  # 12 crc, CRC-32 of byte 16 to the end
    "b"  # 16 magic
    "b"  # 17 attributes
    "i"  # 18 key length, negative for null
)
assert ENTRY_HEADER_V0.size == FORMATS[0].header_size

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
assert ENTRY_HEADER_V1.size == FORMATS[1].header_size

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
assert BATCH_HEADER_V2.size == FORMATS[2].header_size

PRE08_LENGTH = struct.Struct(">i")  # counts everything after itself
