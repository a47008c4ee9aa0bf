"""The binary tables in the files next to the log, and one record known by its bytes."""

from __future__ import annotations

import struct

OFFSET_INDEX_ENTRY = struct.Struct(
    ">"
    "i"  #  0 relative offset; negative only where brokers before 2.0 let it wrap (I8)
    "i"  #  4 position of a batch in the .log; never 0 in a written entry (I3)
)
assert OFFSET_INDEX_ENTRY.size == 8

TIME_INDEX_ENTRY = struct.Struct(
    ">"
    "q"  #  0 timestamp, the largest of the segment so far (I12)
    "i"  #  8 relative offset of where it was seen
)
assert TIME_INDEX_ENTRY.size == 12

ABORTED_TRANSACTION = struct.Struct(
    ">"
    "h"  #  0 version, 0: until 4.3 brokers looked at the first of its two bytes only (I21)
    "q"  #  2 producerId
    "q"  # 10 firstOffset of the transaction in this partition
    "q"  # 18 lastOffset, that of the ABORT marker
    "q"  # 26 lastStableOffset at that moment (I23)
)
assert ABORTED_TRANSACTION.size == 34

SNAPSHOT_HEADER = struct.Struct(
    ">"
    "h"  #  0 version, 1
    "I"  #  2 crc, CRC-32C of byte 6 to the end
    "i"  #  6 entry count
)
assert SNAPSHOT_HEADER.size == 10
SNAPSHOT_CRC_START = 6

SNAPSHOT_ENTRY = struct.Struct(
    ">"
    "q"  #  0 producerId
    "h"  #  8 producerEpoch
    "i"  # 10 lastSequence, -1 for none
    "q"  # 14 lastOffset, -1 where no data batch is known
    "i"  # 22 offsetDelta of the last batch: its first offset is lastOffset - offsetDelta
    "q"  # 26 timestamp
    "i"  # 34 coordinatorEpoch, -1 for none
    "q"  # 38 currentTxnFirstOffset, -1 for none
)
assert SNAPSHOT_ENTRY.size == 46

#: The value of a record that an idle controller writes twice a second: version 1 of the frame, type
#: 20, version 0, no tagged fields.
NO_OP_RECORD = b"\x01\x14\x00\x00"
