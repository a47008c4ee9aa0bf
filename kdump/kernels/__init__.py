"""The hot loop: CRCs, the walk over log entries, decoding of records, and text made from columns.

There are two twins with the same functions. `_pure` is the specification; `_fast` is the same,
compiled. One is chosen here, once; `NAME` says which. `KDUMP_PURE=1` in the environment asks for
the pure one. Each function is described in `_pure`.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType


def pick(pure_wanted: bool) -> tuple[ModuleType, str]:
    """Return (kernel, name). The only place that knows there are two."""
    if not pure_wanted:
        try:
            from kdump.kernels import _fast
        except ImportError:
            pass
        else:
            return _fast, "compiled"
    from kdump.kernels import _pure

    return _pure, "pure"


NAME: str
if TYPE_CHECKING:
    from kdump.kernels import _pure as _kernel
else:
    _kernel, NAME = pick(os.environ.get("KDUMP_PURE", "0") not in ("", "0"))

bounds_of = _kernel.bounds_of
count_placed = _kernel.count_placed
crc32 = _kernel.crc32
crc32_joined = _kernel.crc32_joined
crc32c = _kernel.crc32c
crc32c_joined = _kernel.crc32c_joined
decode_messages = _kernel.decode_messages
decode_records = _kernel.decode_records
decode_run = _kernel.decode_run
folded_changes = _kernel.folded_changes
follow_producers = _kernel.follow_producers
format_batches = _kernel.format_batches
format_records = _kernel.format_records
gather = _kernel.gather
hop = _kernel.hop
index_entries = _kernel.index_entries
index_sectors = _kernel.index_sectors
inner_base = _kernel.inner_base
keep_freed_memory = _kernel.keep_freed_memory
keep_largest = _kernel.keep_largest
lay_out_keys = _kernel.lay_out_keys
lay_out_records = _kernel.lay_out_records
merge_entries = _kernel.merge_entries
message_reader = _kernel.message_reader
message_writer = _kernel.message_writer
prove_entries = _kernel.prove_entries
prove_records = _kernel.prove_records
resync = _kernel.resync
rising_slots = _kernel.rising_slots
room_for = _kernel.room_for
same_records = _kernel.same_records
select_records = _kernel.select_records
sort_entries = _kernel.sort_entries
span_keys = _kernel.span_keys
sum_batches = _kernel.sum_batches
sum_keys = _kernel.sum_keys
tally = _kernel.tally
walk = _kernel.walk
walk_pre08 = _kernel.walk_pre08
