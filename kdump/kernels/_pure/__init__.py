"""The pure kernel: what each kernel function means.

`_fast` holds the same functions, compiled; a test compares the two. What holds for all of them:

- They are total. On no bytes do they raise; they return the good part, where it ends and why
  (`reasons`). An exception means that the caller passed something that is no data: a row number
  outside its columns, say.
- `data` is any contiguous bytes-like object. `start` and `end` are indexes into it; both are cut to
  its length, and no byte at or past `end` is looked at.
- All integers are int64 and wrap as Java's long does.
- A `stop` is an index into `data`. A POSITION of a batch is a position in the file: `base` plus the
  index. Positions of records are indexes into the bytes they were decoded from.
"""

from kdump.kernels._pure.frames import hop, walk, walk_pre08
from kdump.kernels._pure.gathering import gather, room_for
from kdump.kernels._pure.messages import folded_changes, message_reader, message_writer
from kdump.kernels._pure.placing import count_placed
from kdump.kernels._pure.proofs import (
    follow_producers,
    index_entries,
    index_sectors,
    prove_entries,
    prove_records,
    rising_slots,
    tally,
)
from kdump.kernels._pure.records import (
    decode_messages,
    decode_records,
    decode_run,
    inner_base,
    same_records,
)
from kdump.kernels._pure.search import resync, select_records
from kdump.kernels._pure.sorting import (
    lay_out_keys,
    lay_out_records,
    merge_entries,
    sort_entries,
    span_keys,
)
from kdump.kernels._pure.sums import crc32, crc32_joined, crc32c, crc32c_joined, keep_freed_memory
from kdump.kernels._pure.text import format_batches, format_records
from kdump.kernels._pure.totals import bounds_of, keep_largest, sum_batches, sum_keys

__all__ = [
    "bounds_of", "count_placed", "crc32", "crc32_joined", "crc32c", "crc32c_joined",
    "decode_messages", "decode_records", "decode_run", "folded_changes", "follow_producers",
    "format_batches", "format_records", "gather", "hop", "index_entries", "index_sectors",
    "inner_base", "keep_freed_memory", "keep_largest", "lay_out_keys", "lay_out_records",
    "merge_entries", "message_reader", "message_writer", "prove_entries", "prove_records", "resync",
    "rising_slots", "room_for", "same_records", "select_records", "sort_entries", "span_keys",
    "sum_batches", "sum_keys", "tally", "walk", "walk_pre08",
]  # fmt: skip
