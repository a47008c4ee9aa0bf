# cython: language_level=3
# cython: boundscheck=False
# cython: wraparound=False
# cython: cdivision=True
# cython: nonecheck=False
# cython: initializedcheck=False
# cython: embedsignature=True
# cython: binding=False
"""The compiled kernel. `_pure` says what each function means; this one is only faster.

How it is kept safe and fast:

- Each function asks for the buffer of each argument once, works on plain pointers without the GIL,
  and gives the buffers back when it ends. While they are held, Python cannot resize what is under
  them.
- Nothing is bounds-checked by Cython, so every read is preceded by its own comparison with `end`.
- Arithmetic that may wrap is done on uint64_t; signed overflow is undefined in C.
- Output blocks are counted before they are allocated, so that their size is bounded by the bytes
  looked at, never by a number read from them, and are not zeroed.
- Text goes straight into the bytes objects that `write` gets: no copy, and none of them is touched
  again after it was handed over.

Its rooms lie in `_compiled/` and have the names of the pure twin's. They are included here, each
after those that it builds on, and are one module and one unit of compilation: a call from room to
room is inlined as any other.

    layout     columns' numbers, the table of formats; arguments taken, results made; Java's arithmetic
    sums       crc32, crc32c, crc32_joined, crc32c_joined, keep_freed_memory
    frames     hop, walk, walk_pre08
    proofs     tally, follow_producers, rising_slots, index_sectors, prove_entries, index_entries, prove_records
    records    decode_records, decode_run, inner_base, decode_messages, same_records
    spelling   bytes and text as JSON, CSV, base64 or hex spell them
    text       format_records, format_batches, in any form
    search     resync, select_records
    sorting    lay_out_records, span_keys, lay_out_keys, sort_entries, merge_entries
    placing    count_placed
    totals     sum_batches, sum_keys, bounds_of, keep_largest
    gathering  gather, room_for
    messages   message_reader, message_writer, folded_changes
"""

from cython cimport final, freelist

from cpython.array cimport array, clone
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, _PyBytes_Resize
from cpython.unicode cimport PyUnicode_DecodeASCII, PyUnicode_DecodeUTF8
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF, PyObject
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdint cimport INT64_MIN
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy, memmove, memset

from kdump.kernels.columns import DecodedRecords, RecordBatches

include "_compiled/layout.pxi"
include "_compiled/sums.pxi"
include "_compiled/frames.pxi"
include "_compiled/proofs.pxi"
include "_compiled/records.pxi"
include "_compiled/spelling.pxi"
include "_compiled/text.pxi"
include "_compiled/search.pxi"
include "_compiled/sorting.pxi"
include "_compiled/placing.pxi"
include "_compiled/totals.pxi"
include "_compiled/gathering.pxi"
include "_compiled/messages.pxi"
