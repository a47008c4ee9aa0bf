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
  and gives the buffers back. While they are held, Python cannot resize what is under them.
- Nothing is bounds-checked by Cython, so every read is preceded by its own comparison with `end`.
- Arithmetic that may wrap is done on uint64_t; signed overflow is undefined in C.
- Output blocks are counted before they are allocated, so that their size is bounded by the bytes
  looked at, never by a number read from them, and are not zeroed.
- Text goes straight into the bytes objects that `write` gets: no copy, and none of them is touched
  again after it was handed over.
"""

from cpython.array cimport array, clone
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, _PyBytes_Resize
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF, PyObject
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from kdump.kernels.columns import DecodedRecords, RecordBatches


cdef extern from "_text.h" nogil:
    enum:
        KD_TEXT_SLACK
    char *kd_copy_escaped(char *at, const uint8_t **p, size_t n)


cdef extern from "_crc.h" nogil:
    void kd_crc_init()
    uint32_t kd_crc32c(uint32_t crc, const uint8_t *p, size_t n)
    uint32_t kd_crc32(uint32_t crc, const uint8_t *p, size_t n)
    const char *kd_crc_name()


cdef extern from *:
    """
    #if defined(__GNUC__)
    #define KD_LIKELY(x) __builtin_expect(!!(x), 1)
    #else
    #define KD_LIKELY(x) (x)
    #endif

    static inline uint16_t kd_be16(const uint8_t *p)
    {
        return (uint16_t)(p[0] << 8 | p[1]);
    }

    static inline uint32_t kd_be32(const uint8_t *p)
    {
        return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    }

    static inline uint64_t kd_be64(const uint8_t *p)
    {
        return (uint64_t)kd_be32(p) << 32 | kd_be32(p + 4);
    }

    #if defined(__GLIBC__)
    #include <malloc.h>
    static inline void kd_keep_freed_memory(void)
    {
        mallopt(M_MMAP_THRESHOLD, 32 << 20);
        mallopt(M_TRIM_THRESHOLD, 64 << 20);
    }
    #else
    static inline void kd_keep_freed_memory(void) {}
    #endif
    """
    bint likely "KD_LIKELY" (bint condition) nogil
    uint16_t be16 "kd_be16" (const uint8_t *p) nogil
    uint32_t be32 "kd_be32" (const uint8_t *p) nogil
    uint64_t be64 "kd_be64" (const uint8_t *p) nogil
    void kd_keep_freed_memory() nogil


# The same numbers as in reasons.py and columns.py; tests hold them together.
cdef enum:
    END = 0
    FULL = 1
    SHORT_TAIL = 2
    LENGTH_TOO_SMALL = 3
    CUT_SHORT = 4
    NOT_PLAIN = 5
    UNOPENED = 6
    OFFSET_RANGE = 7
    INDEX_FALLS = 8
    COUNT_NEGATIVE = 10
    RECORD_CUT_SHORT = 11
    VARINT_TOO_LONG = 12
    RECORD_LENGTH = 13
    KEY_LENGTH = 14
    VALUE_LENGTH = 15
    HEADER_COUNT = 16
    HEADER_KEY_LENGTH = 17
    HEADER_VALUE_LENGTH = 18
    RECORD_LENGTH_MISMATCH = 19
    RECORDS_REMAINING = 20
    RECORDS_MISSING = 21
    INNER_SIZE = 22
    INNER_COMPRESSED = 23
    INNER_EMPTY = 24
    WRAPPER_OFFSET = 25
    INNER_CUT_SHORT = 26

cdef enum:
    B_POSITION = 0
    B_SIZE = 1
    B_MAGIC = 2
    B_ATTRIBUTES = 3
    B_BASE_OFFSET = 4
    B_LAST_OFFSET = 5
    B_RECORDS_COUNT = 6
    B_CRC = 7
    B_COMPUTED_CRC = 8
    B_LEADER_EPOCH = 9
    B_BASE_TIMESTAMP = 10
    B_MAX_TIMESTAMP = 11
    B_PRODUCER_ID = 12
    B_PRODUCER_EPOCH = 13
    B_BASE_SEQUENCE = 14
    B_FLAGS = 15
    B_LAYOUT = 16
    BATCH_WIDTH = 17

cdef enum:
    CRC_BAD = 1
    MAGIC_UNKNOWN = 2
    TOO_SMALL = 4
    OFFSET_NOT_RISING = 8
    DELTA_COUNT = 16
    CODEC_UNKNOWN = 32
    WRAPPER = 64
    COMPRESSED = 128
    CONTROL = 256
    TRANSACTIONAL = 512
    RESERVED = 1024

cdef enum:
    R_BATCH = 0
    R_POSITION = 1
    R_SIZE = 2
    R_OFFSET = 3
    R_TIMESTAMP = 4
    R_KEY = 5
    R_KEY_SIZE = 6
    R_VALUE = 7
    R_VALUE_SIZE = 8
    R_HEADERS = 9
    R_HEADERS_COUNT = 10
    R_FLAGS = 11
    RECORD_WIDTH = 12
    INNER_CRC_BAD = 1
    INNER_MAGIC_OTHER = 2
    INNER_MAGIC_SHIFT = 8

cdef enum:
    BYTES_AUTO = 0
    BYTES_UTF8 = 1
    BYTES_HEX = 2
    BYTES_OBJECT = -1  # {"base64":"..."}; any other number: base64

cdef enum:
    LOG_OVERHEAD = 12
    UP_TO_MAGIC = 17
    OVERHEAD_V0 = 14
    OVERHEAD_V1 = 22
    SMALLEST_ENTRY = 26
    SMALLEST_RECORD = 7
    HEADER_V2 = 61
    HEADER_LOOKED_AT = 66  # of an entry that may be one: a header, and a first record's size
    CRC_FROM_V2 = 21
    CRC_FROM_LEGACY = 16

cdef enum:
    CODEC_BITS = 0x07
    LOG_APPEND_TIME = 0x08
    TRANSACTIONAL_BIT = 0x10
    CONTROL_BIT = 0x20
    DELETE_HORIZON_BIT = 0x40

kd_crc_init()
CRC_VARIANT = (<bytes>kd_crc_name()).decode()

cdef array template = array("q")


# Arguments and results ---------------------------------------------------------------------------


cdef struct Cols:
    int64_t *block
    Py_ssize_t stride
    Py_ssize_t count


cdef struct Rows:
    const int64_t *numbers  # NULL: all rows
    Py_ssize_t count


cdef inline int64_t cell(const Cols *columns, int k, Py_ssize_t row) noexcept nogil:
    return columns.block[k * columns.stride + row]


cdef inline void no_buffer(Py_buffer *buffer) noexcept nogil:
    """Make a buffer that may be released although it was never taken."""
    memset(buffer, 0, sizeof(Py_buffer))


cdef int open_columns(object columns, int width, Py_buffer *buffer, Cols *out) except -1:
    """Take the buffer of a Columns, whose block must have room for what it says."""
    cdef Py_ssize_t items
    cdef object block = columns.block
    out.stride = columns.stride
    out.count = columns.count
    PyObject_GetBuffer(block, buffer, PyBUF_SIMPLE)
    out.block = <int64_t *>buffer.buf
    items = buffer.len // 8
    if (
        buffer.itemsize != 8
        or out.count < 0
        or out.stride < out.count
        or out.stride > items // width
    ):
        PyBuffer_Release(buffer)
        raise ValueError(columns)
    return 0


cdef int open_rows(object rows, Py_ssize_t limit, Py_buffer *buffer, Rows *out) except -1:
    """Take the buffer of row numbers, each below `limit`; None means all rows, and no buffer."""
    cdef Py_ssize_t i
    no_buffer(buffer)
    out.numbers = NULL
    out.count = limit
    if rows is None:
        return 0
    PyObject_GetBuffer(rows, buffer, PyBUF_SIMPLE)
    if buffer.itemsize != 8:
        PyBuffer_Release(buffer)
        raise ValueError(rows)
    out.numbers = <const int64_t *>buffer.buf
    out.count = buffer.len // 8
    for i in range(out.count):
        if out.numbers[i] < 0 or out.numbers[i] >= limit:
            row = out.numbers[i]
            PyBuffer_Release(buffer)
            raise IndexError(row)
    return 0


cdef inline Py_ssize_t row_number(const Rows *rows, Py_ssize_t i) noexcept nogil:
    return i if rows.numbers is NULL else <Py_ssize_t>rows.numbers[i]


cdef inline void clamp(Py_ssize_t *start, Py_ssize_t *end, Py_ssize_t length) noexcept nogil:
    end[0] = max(<Py_ssize_t>0, min(end[0], length))
    start[0] = max(<Py_ssize_t>0, min(start[0], end[0]))


cdef array new_block(int width, Py_ssize_t count, Cols *out):
    """Make room for `count` rows, not zeroed.

    A stride of an odd number of cache lines: with a power of two all columns would compete for the
    same few lines of the cache.
    """
    cdef array block
    out.stride = max(<Py_ssize_t>1, count)
    if count >= 64:
        out.stride = ((count + 7) // 8 | 1) * 8
    out.count = 0
    block = clone(template, width * out.stride, False)
    out.block = <int64_t *>block.data.as_longlongs
    return block


cdef inline int64_t add(int64_t a, int64_t b) noexcept nogil:
    """Add as Java's long does."""
    return <int64_t>(<uint64_t>a + <uint64_t>b)


cdef inline int64_t subtract(int64_t a, int64_t b) noexcept nogil:
    return <int64_t>(<uint64_t>a - <uint64_t>b)


# Checksums ---------------------------------------------------------------------------------------


def keep_freed_memory():
    """See _pure.keep_freed_memory."""
    kd_keep_freed_memory()


def crc32(object data, Py_ssize_t start, Py_ssize_t end, object crc=0):
    """Return the CRC-32 (IEEE) of `data[start:end]`, continuing from `crc`."""
    cdef Py_buffer buffer
    cdef uint32_t running = crc & 0xFFFFFFFF
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    with nogil:
        clamp(&start, &end, buffer.len)
        running = kd_crc32(running, <const uint8_t *>buffer.buf + start, end - start)
    PyBuffer_Release(&buffer)
    return running


def crc32c(object data, Py_ssize_t start, Py_ssize_t end, object crc=0):
    """Return the CRC-32C (Castagnoli) of `data[start:end]`, continuing from `crc`."""
    cdef Py_buffer buffer
    cdef uint32_t running = crc & 0xFFFFFFFF
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    with nogil:
        clamp(&start, &end, buffer.len)
        running = kd_crc32c(running, <const uint8_t *>buffer.buf + start, end - start)
    PyBuffer_Release(&buffer)
    return running


cdef uint32_t[2] POLYNOMIALS = [0xEDB88320, 0x82F63B78]  # bits reflected
cdef uint32_t[2][63] POWERS  # what moves a CRC by 1, 2, 4 ... bytes


cdef uint32_t product(uint32_t a, uint32_t b, uint32_t polynomial) noexcept nogil:
    """Multiply two polynomials over GF(2), bits reflected, modulo a third."""
    cdef uint32_t result = 0
    while a:
        if a >> 31:
            result ^= b
        a <<= 1
        b = (b >> 1) ^ (polynomial & (0 - (b & 1)))
    return result


cdef void fill_powers() noexcept nogil:
    cdef int which, i
    for which in range(2):
        POWERS[which][0] = 1 << 23
        for i in range(1, 63):
            POWERS[which][i] = product(
                POWERS[which][i - 1], POWERS[which][i - 1], POLYNOMIALS[which]
            )


fill_powers()


cdef uint32_t moved(uint32_t crc, int64_t size, int which) noexcept nogil:
    cdef int power = 0
    while size > 0:
        if size & 1:
            crc = product(POWERS[which][power], crc, POLYNOMIALS[which])
        size >>= 1
        power += 1
    return crc


def crc32_joined(object first, object second, int64_t size):
    """Return the CRC-32 of two pieces joined, from those of each and the second's size."""
    return moved(first & 0xFFFFFFFF, size, 0) ^ <uint32_t>(second & 0xFFFFFFFF)


def crc32c_joined(object first, object second, int64_t size):
    """Return the CRC-32C of two pieces joined, from those of each and the second's size."""
    return moved(first & 0xFFFFFFFF, size, 1) ^ <uint32_t>(second & 0xFFFFFFFF)


# The walk over log entries -----------------------------------------------------------------------


cdef int count_entries(
    const uint8_t *p, Py_ssize_t start, Py_ssize_t end, Py_ssize_t most, Py_ssize_t *count
) noexcept nogil:
    """Count the entries that S6 frames, `most` at the most, and return why it ends there."""
    cdef Py_ssize_t left
    cdef int32_t size
    count[0] = 0
    while True:
        left = end - start
        if left == 0:
            return END
        if count[0] >= most:
            return FULL
        if left <= UP_TO_MAGIC:
            return SHORT_TAIL
        size = <int32_t>be32(p + start + 8)
        if size < OVERHEAD_V0:
            return LENGTH_TOO_SMALL
        if size > left - LOG_OVERHEAD:
            return CUT_SHORT
        count[0] += 1
        start += LOG_OVERHEAD + <Py_ssize_t>size


cdef inline int64_t put_legacy(
    const uint8_t *p, Py_ssize_t size, int64_t last_offset, bint check_crc, int layout,
    int64_t *out, Py_ssize_t stride,
) noexcept nogil:
    """Fill a row, but for its position, from a v0 or v1 message; return its flags."""
    cdef int64_t offset = <int64_t>be64(p)
    cdef uint32_t crc = be32(p + 12)
    cdef uint32_t computed = crc
    cdef int magic = <signed char>p[16]
    cdef int attributes = p[17]
    cdef int codec = attributes & CODEC_BITS
    cdef int64_t timestamp = -1
    cdef int64_t flags = 0
    if check_crc:
        computed = kd_crc32(0, p + CRC_FROM_LEGACY, size - CRC_FROM_LEGACY)
    if layout == 1:
        if size < LOG_OVERHEAD + OVERHEAD_V1:
            flags |= TOO_SMALL
        else:
            timestamp = <int64_t>be64(p + 18)
    if computed != crc:
        flags |= CRC_BAD
    if magic < 0 or magic > 1:
        flags |= MAGIC_UNKNOWN
    if offset <= last_offset:
        flags |= OFFSET_NOT_RISING
    if codec:
        flags |= WRAPPER | COMPRESSED
        if codec > 3:
            flags |= CODEC_UNKNOWN
    if attributes & (0xF0 if layout == 1 else 0xF8):
        flags |= RESERVED
    out[B_SIZE * stride] = size
    out[B_MAGIC * stride] = magic
    out[B_ATTRIBUTES * stride] = attributes
    out[B_BASE_OFFSET * stride] = -1 if codec else offset
    out[B_LAST_OFFSET * stride] = offset
    out[B_RECORDS_COUNT * stride] = -1 if codec else 1
    out[B_CRC * stride] = crc
    out[B_COMPUTED_CRC * stride] = computed
    out[B_LEADER_EPOCH * stride] = -1
    out[B_BASE_TIMESTAMP * stride] = timestamp
    out[B_MAX_TIMESTAMP * stride] = timestamp
    out[B_PRODUCER_ID * stride] = -1
    out[B_PRODUCER_EPOCH * stride] = -1
    out[B_BASE_SEQUENCE * stride] = -1
    out[B_FLAGS * stride] = flags
    out[B_LAYOUT * stride] = layout
    return flags


cdef inline int64_t put_v2(
    const uint8_t *p, Py_ssize_t size, int64_t last_offset, bint check_crc,
    int64_t *out, Py_ssize_t stride,
) noexcept nogil:
    """Fill a row, but for its position, from a v2 batch header; return its flags."""
    cdef int64_t base_offset = <int64_t>be64(p)
    cdef uint32_t crc = be32(p + 17)
    cdef uint32_t computed = crc
    cdef int magic = <signed char>p[16]
    cdef int attributes = be16(p + 21)
    cdef int codec = attributes & CODEC_BITS
    cdef int32_t delta
    cdef int32_t count
    cdef int64_t last
    cdef int64_t flags = 0
    if likely(size >= HEADER_V2):
        if check_crc:
            computed = kd_crc32c(0, p + CRC_FROM_V2, size - CRC_FROM_V2)
        delta = <int32_t>be32(p + 23)
        count = <int32_t>be32(p + 57)
        if count < 0 or delta < 0 or count > <int64_t>delta + 1:
            flags |= DELTA_COUNT
        out[B_RECORDS_COUNT * stride] = count
        out[B_BASE_TIMESTAMP * stride] = <int64_t>be64(p + 27)
        out[B_MAX_TIMESTAMP * stride] = <int64_t>be64(p + 35)
        out[B_PRODUCER_ID * stride] = <int64_t>be64(p + 43)
        out[B_PRODUCER_EPOCH * stride] = <signed short>be16(p + 51)
        out[B_BASE_SEQUENCE * stride] = <int32_t>be32(p + 53)
    else:
        flags |= TOO_SMALL | CRC_BAD
        computed = 0
        delta = <int32_t>be32(p + 23) if size >= 27 else 0
        out[B_RECORDS_COUNT * stride] = -1
        out[B_BASE_TIMESTAMP * stride] = <int64_t>be64(p + 27) if size >= 35 else -1
        out[B_MAX_TIMESTAMP * stride] = <int64_t>be64(p + 35) if size >= 43 else -1
        out[B_PRODUCER_ID * stride] = <int64_t>be64(p + 43) if size >= 51 else -1
        out[B_PRODUCER_EPOCH * stride] = <signed short>be16(p + 51) if size >= 53 else -1
        out[B_BASE_SEQUENCE * stride] = <int32_t>be32(p + 53) if size >= 57 else -1
    last = add(base_offset, delta)
    if computed != crc:
        flags |= CRC_BAD
    if magic != 2:
        flags |= MAGIC_UNKNOWN
    if base_offset <= last_offset or last < base_offset:
        flags |= OFFSET_NOT_RISING
    if codec:
        flags |= COMPRESSED
        if codec > 4:
            flags |= CODEC_UNKNOWN
    if attributes & CONTROL_BIT:
        flags |= CONTROL
    if attributes & TRANSACTIONAL_BIT:
        flags |= TRANSACTIONAL
    if attributes & 0xFF80:
        flags |= RESERVED
    out[B_SIZE * stride] = size
    out[B_MAGIC * stride] = magic
    out[B_ATTRIBUTES * stride] = attributes
    out[B_BASE_OFFSET * stride] = base_offset
    out[B_LAST_OFFSET * stride] = last
    out[B_CRC * stride] = crc
    out[B_COMPUTED_CRC * stride] = computed
    out[B_LEADER_EPOCH * stride] = <int32_t>be32(p + 12)
    out[B_FLAGS * stride] = flags
    out[B_LAYOUT * stride] = 2
    return flags


cdef int64_t walk_entries(
    const uint8_t *data, Py_ssize_t *position, int64_t base, int64_t last_offset, bint check_crc,
    Cols *out, Py_ssize_t count,
) noexcept nogil:
    """Fill `count` rows from entries already framed; return all their flags."""
    cdef const uint8_t *p
    cdef int64_t *row
    cdef int64_t flags
    cdef int64_t every = 0
    cdef Py_ssize_t size
    cdef Py_ssize_t i
    cdef int magic
    for i in range(count):
        p = data + position[0]
        row = out.block + i
        size = LOG_OVERHEAD + <Py_ssize_t><int32_t>be32(p + 8)
        magic = <signed char>p[16]
        row[B_POSITION * out.stride] = add(base, position[0])
        if likely(magic >= 2):
            flags = put_v2(p, size, last_offset, check_crc, row, out.stride)
            if (
                flags & CRC_BAD
                and check_crc
                and be32(p + 12) == kd_crc32(0, p + CRC_FROM_LEGACY, size - CRC_FROM_LEGACY)
            ):
                flags = put_legacy(p, size, last_offset, True, 0, row, out.stride)
        else:
            flags = put_legacy(p, size, last_offset, check_crc, magic == 1, row, out.stride)
        every |= flags
        last_offset = max(last_offset, row[B_LAST_OFFSET * out.stride])
        position[0] += size
    out.count = count
    return every


def walk(
    object data,
    Py_ssize_t start,
    Py_ssize_t end,
    int64_t base,
    int64_t last_offset,
    bint check_crc,
    Py_ssize_t max_batches,
):
    """Frame the log entries in `data[start:end]` as brokers do, `end` being the end of file (S6)."""
    cdef Py_buffer buffer
    cdef Cols out
    cdef Py_ssize_t count
    cdef int64_t flags
    cdef int reason
    cdef array block
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    try:
        with nogil:
            clamp(&start, &end, buffer.len)
            reason = count_entries(<const uint8_t *>buffer.buf, start, end, max_batches, &count)
        block = new_block(BATCH_WIDTH, count, &out)
        with nogil:
            flags = walk_entries(
                <const uint8_t *>buffer.buf, &start, base, last_offset, check_crc, &out, count
            )
    finally:
        PyBuffer_Release(&buffer)
    return RecordBatches(block, out.stride, out.count, flags), start, reason


# What verify asks of a run of headers -------------------------------------------------------------


cdef enum:
    NO_BATCH = 1
    PASSES_OVER = 2
    BELOW_BATCH = 3
    STARTS_LATE = 4
    OTHER_TIME = 5
    PROOF_STATE = 6


def tally(object batches):
    """Return (records, wrappers, compressed, newest) of all rows."""
    cdef Py_buffer buffer
    cdef Cols rows
    cdef Py_ssize_t i
    cdef int64_t records = 0
    cdef int64_t wrappers = 0
    cdef int64_t compressed = 0
    cdef int64_t newest = -1
    open_columns(batches, BATCH_WIDTH, &buffer, &rows)
    with nogil:
        for i in range(rows.count):
            records += max(cell(&rows, B_RECORDS_COUNT, i), <int64_t>0)
            newest = max(newest, cell(&rows, B_MAX_TIMESTAMP, i))
            wrappers += cell(&rows, B_FLAGS, i) & WRAPPER != 0
            compressed += cell(&rows, B_FLAGS, i) & COMPRESSED != 0
    PyBuffer_Release(&buffer)
    return records, wrappers, compressed, newest


cdef enum:
    PRODUCER_WIDTH = 6

cdef int64_t MAX_INT64 = 0x7FFFFFFFFFFFFFFF


cdef Py_ssize_t follow(
    const Cols *rows,
    Py_ssize_t row,
    Py_ssize_t end,
    int64_t *next_offset,
    int64_t *table,
    Py_ssize_t known,
) noexcept nogil:
    cdef int64_t base
    cdef int64_t last
    cdef int64_t producer_id
    cdef int64_t *producer = table
    cdef Py_ssize_t i
    while row < end:
        base = cell(rows, B_BASE_OFFSET, row)
        last = cell(rows, B_LAST_OFFSET, row)
        if (
            base != next_offset[0]
            or cell(rows, B_FLAGS, row) & (CONTROL | TRANSACTIONAL)
            or last == MAX_INT64
        ):
            break
        producer_id = cell(rows, B_PRODUCER_ID, row)
        if producer_id >= 0:
            if not known:
                break
            if producer[0] != producer_id:  # most often it is the one of the row before
                for i in range(known):
                    producer = table + i * PRODUCER_WIDTH
                    if producer[0] == producer_id:
                        break
                else:
                    break
            if (
                producer[1] != cell(rows, B_PRODUCER_EPOCH, row)
                or producer[2] < 0
                or cell(rows, B_BASE_SEQUENCE, row) == 0
                or cell(rows, B_BASE_SEQUENCE, row) != ((<uint64_t>producer[2] + 1) & 0x7FFFFFFF)
            ):
                break
            producer[4] = <int64_t>(<uint64_t>last - <uint64_t>base)
            producer[2] = <int64_t>(
                (<uint64_t>cell(rows, B_BASE_SEQUENCE, row) + <uint64_t>producer[4]) & 0x7FFFFFFF
            )
            producer[3] = last
            producer[5] = cell(rows, B_MAX_TIMESTAMP, row)
        next_offset[0] = last + 1
        row += 1
    return row


def follow_producers(
    object batches, Py_ssize_t first, Py_ssize_t end, int64_t next_offset, array table
):
    """Follow producers through the rows of [first, end) that hold no surprise (R7)."""
    cdef Py_buffer buffer
    cdef Cols rows
    cdef Py_ssize_t row
    cdef Py_ssize_t known = len(table) // PRODUCER_WIDTH
    open_columns(batches, BATCH_WIDTH, &buffer, &rows)
    with nogil:
        row = follow(
            &rows,
            max(first, <Py_ssize_t>0),
            min(end, rows.count),
            &next_offset,
            <int64_t *>table.data.as_longlongs,
            known,
        )
    PyBuffer_Release(&buffer)
    return row, next_offset


def rising_slots(object data, int size):
    """Count the whole slots of an index, from the first on, that rise as written entries do."""
    cdef Py_buffer buffer
    cdef const uint8_t *p
    cdef Py_ssize_t slot
    cdef Py_ssize_t slots
    cdef bint strict = size == 8
    cdef int64_t key = -1
    cdef int64_t value = 0
    cdef int64_t next_key
    cdef int64_t next_value
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    slots = buffer.len // (8 if strict else 12)
    slot = 0
    with nogil:
        while slot < slots:
            if strict:
                p = <const uint8_t *>buffer.buf + 8 * slot
                next_key = <int32_t>be32(p)
                next_value = <int32_t>be32(p + 4)
            else:
                p = <const uint8_t *>buffer.buf + 12 * slot
                next_key = <int64_t>be64(p)
                next_value = <int32_t>be32(p + 8)
            if next_key <= key or next_value < value or (strict and next_value == value):
                break
            key = next_key
            value = next_value
            slot += 1
    PyBuffer_Release(&buffer)
    return slot


cdef inline Py_ssize_t floor_of(
    const uint8_t *offsets, Py_ssize_t end, int32_t relative
) noexcept nogil:
    """Find the last of the first `end` slots at or below a relative offset, -1 for none."""
    cdef Py_ssize_t low = 0
    cdef Py_ssize_t middle
    while low < end:
        middle = low + (end - low) // 2
        if <int32_t>be32(offsets + 8 * middle) <= relative:
            low = middle + 1
        else:
            end = middle
    return low - 1


cdef struct Proof:
    const uint8_t *offsets
    const uint8_t *times
    Py_ssize_t offset_end
    Py_ssize_t time_end
    int64_t base_offset
    int64_t *state
    int64_t *marks
    int64_t *found
    Py_ssize_t room
    Py_ssize_t count


cdef inline void say(Proof *proof, int64_t why, int64_t slot, int64_t row) noexcept nogil:
    if proof.count < proof.room:
        proof.found[3 * proof.count] = why
        proof.found[3 * proof.count + 1] = slot
        proof.found[3 * proof.count + 2] = row
        proof.count += 1
    else:
        proof.state[5] += 1


cdef void prove(Proof *proof, const Cols *rows) noexcept nogil:
    cdef Py_ssize_t i
    cdef Py_ssize_t floor
    cdef Py_ssize_t offset_slot = proof.state[0]
    cdef Py_ssize_t time_slot = proof.state[1]
    cdef int64_t highest = proof.state[2]
    cdef int64_t newest = proof.state[3]
    cdef int64_t position
    cdef int64_t last
    cdef int64_t timestamp
    cdef int64_t offset
    cdef int64_t at
    cdef int64_t time
    cdef int32_t relative
    cdef const uint8_t *p
    for i in range(rows.count):
        position = cell(rows, B_POSITION, i)
        last = cell(rows, B_LAST_OFFSET, i)
        timestamp = cell(rows, B_MAX_TIMESTAMP, i)
        while offset_slot < proof.offset_end:
            p = proof.offsets + 8 * offset_slot
            at = <int32_t>be32(p + 4)
            if at > position:
                break
            offset = add(proof.base_offset, <int32_t>be32(p))
            if at < position:
                say(proof, NO_BATCH, offset_slot, i)
            elif offset <= highest:
                say(proof, PASSES_OVER, offset_slot, i)
            elif offset < cell(rows, B_BASE_OFFSET, i):
                say(proof, BELOW_BATCH, offset_slot, i)
            proof.marks[offset_slot] = newest
            offset_slot += 1
        while time_slot < proof.time_end:
            p = proof.times + 12 * time_slot
            relative = <int32_t>be32(p + 8)
            if add(proof.base_offset, relative) > last:
                break
            time = <int64_t>be64(p)
            floor = floor_of(proof.offsets, offset_slot, relative)
            if floor >= 0 and proof.marks[floor] >= time:
                say(proof, STARTS_LATE, time_slot, i)
            elif timestamp != time and cell(rows, B_LAYOUT, i) != 0:
                say(proof, OTHER_TIME, time_slot, i)
            time_slot += 1
        highest = max(highest, last)
        newest = max(newest, timestamp)
        if cell(rows, B_LAYOUT, i) == 0:
            proof.state[4] = 1
    proof.state[0] = offset_slot
    proof.state[1] = time_slot
    proof.state[2] = highest
    proof.state[3] = newest


def prove_entries(
    object batches,
    object offset_slots,
    object time_slots,
    int64_t base_offset,
    array state,
    array marks,
    Py_ssize_t most,
):
    """Hold index entries against the next run of headers of their log; all slots rise."""
    cdef Py_buffer buffer
    cdef Py_buffer offsets
    cdef Py_buffer times
    cdef Cols rows
    cdef Proof proof
    cdef array found = clone(template, 3 * max(most, <Py_ssize_t>1), False)
    cdef Py_ssize_t i
    open_columns(batches, BATCH_WIDTH, &buffer, &rows)
    PyObject_GetBuffer(offset_slots, &offsets, PyBUF_SIMPLE)
    PyObject_GetBuffer(time_slots, &times, PyBUF_SIMPLE)
    proof.offsets = <const uint8_t *>offsets.buf
    proof.times = <const uint8_t *>times.buf
    proof.offset_end = offsets.len // 8
    proof.time_end = times.len // 12
    proof.base_offset = base_offset
    proof.state = <int64_t *>state.data.as_longlongs
    proof.marks = <int64_t *>marks.data.as_longlongs
    proof.found = <int64_t *>found.data.as_longlongs
    proof.room = most
    proof.count = 0
    fits = len(state) >= PROOF_STATE and len(marks) >= proof.offset_end
    fits = fits and 0 <= proof.state[0] and 0 <= proof.state[1]
    if fits:
        with nogil:
            prove(&proof, &rows)
    PyBuffer_Release(&times)
    PyBuffer_Release(&offsets)
    PyBuffer_Release(&buffer)
    if not fits:
        raise ValueError(state)
    return [(found[3 * i], found[3 * i + 1], found[3 * i + 2]) for i in range(proof.count)]


# What reindex builds from a run of headers --------------------------------------------------------


cdef inline void put_be32(uint8_t *p, uint32_t value) noexcept nogil:
    p[0] = value >> 24
    p[1] = value >> 16 & 0xFF
    p[2] = value >> 8 & 0xFF
    p[3] = value & 0xFF


cdef struct Entries:
    uint8_t *offsets
    uint8_t *times
    Py_ssize_t offset_count
    Py_ssize_t time_count
    Py_ssize_t row
    int64_t base_offset
    int64_t interval
    bint first_offsets
    int64_t *state


cdef int put_entries(Entries *out, const Cols *rows) noexcept nogil:
    cdef int64_t *state = out.state
    cdef int64_t position
    cdef int64_t last
    cdef int64_t entry
    cdef int64_t timestamp
    cdef int64_t timestamp_offset
    cdef uint8_t *p
    while out.row < rows.count:
        position = cell(rows, B_POSITION, out.row)
        last = cell(rows, B_LAST_OFFSET, out.row)
        if not out.first_offsets and (
            last < out.base_offset or <uint64_t>subtract(last, out.base_offset) > 0x7FFFFFFF
        ):
            return OFFSET_RANGE
        timestamp = state[1]
        timestamp_offset = state[2]
        if cell(rows, B_MAX_TIMESTAMP, out.row) > timestamp:
            timestamp = cell(rows, B_MAX_TIMESTAMP, out.row)
            timestamp_offset = last
        if subtract(position, state[0]) > out.interval:
            entry = last
            if out.first_offsets:
                entry = cell(rows, B_BASE_OFFSET, out.row)
                if entry == -1 and cell(rows, B_FLAGS, out.row) & WRAPPER:
                    return UNOPENED
            if (state[3] and entry <= state[4]) or (state[5] and timestamp_offset < state[7]):
                return INDEX_FALLS
            p = out.offsets + 8 * out.offset_count
            put_be32(p, <uint32_t><uint64_t>subtract(entry, out.base_offset))
            put_be32(p + 4, <uint32_t><uint64_t>position)
            out.offset_count += 1
            state[0] = position
            state[3] += 1
            state[4] = entry
            if timestamp > state[6]:
                p = out.times + 12 * out.time_count
                put_be32(p, <uint32_t>(<uint64_t>timestamp >> 32))
                put_be32(p + 4, <uint32_t><uint64_t>timestamp)
                put_be32(p + 8, <uint32_t><uint64_t>subtract(timestamp_offset, out.base_offset))
                out.time_count += 1
                state[5] += 1
                state[6] = timestamp
                state[7] = timestamp_offset
                state[8] = state[3]
        state[1] = timestamp
        state[2] = timestamp_offset
        out.row += 1
    return END


def index_entries(
    object batches,
    Py_ssize_t first,
    int64_t base_offset,
    int64_t interval,
    bint first_offsets,
    array state,
):
    """Make the index entries that recovery writes for the rows from `first` on (R2)."""
    cdef Py_buffer buffer
    cdef Cols rows
    cdef Entries out
    cdef Py_ssize_t room
    cdef int reason
    if len(state) < 9:
        raise ValueError(state)
    open_columns(batches, BATCH_WIDTH, &buffer, &rows)
    out.row = max(first, <Py_ssize_t>0)
    room = max(rows.count - out.row, <Py_ssize_t>0)
    offsets = PyBytes_FromStringAndSize(NULL, 8 * room)
    times = PyBytes_FromStringAndSize(NULL, 12 * room)
    out.offsets = <uint8_t *>PyBytes_AS_STRING(offsets)
    out.times = <uint8_t *>PyBytes_AS_STRING(times)
    out.offset_count = 0
    out.time_count = 0
    out.base_offset = base_offset
    out.interval = interval
    out.first_offsets = first_offsets
    out.state = <int64_t *>state.data.as_longlongs
    with nogil:
        reason = put_entries(&out, &rows)
    PyBuffer_Release(&buffer)
    return offsets[: 8 * out.offset_count], times[: 12 * out.time_count], out.row, reason


cdef enum:
    OFFSET_OUTSIDE = 1
    OFFSET_ORDER = 2
    MAX_TIMESTAMP = 3
    INNER_SUM = 4
    LAST_OFFSET = 5
    RECORDS_STATE = 9


cdef struct Held:
    int64_t *state
    int64_t *found
    Py_ssize_t room
    Py_ssize_t count


cdef inline void tell(Held *held, int64_t why, int64_t batch, int64_t record) noexcept nogil:
    if held.count < held.room:
        held.found[3 * held.count] = why
        held.found[3 * held.count + 1] = batch
        held.found[3 * held.count + 2] = record
        held.count += 1
    else:
        held.state[8] += 1


cdef inline void close_batch(Held *held, const Cols *batches, int64_t record) noexcept nogil:
    cdef int64_t row = held.state[0]
    cdef int64_t layout
    cdef int64_t flags
    if row < 0 or row >= batches.count:
        return
    layout = cell(batches, B_LAYOUT, row)
    flags = cell(batches, B_FLAGS, row)
    if (
        (layout == 2 or (layout == 1 and flags & WRAPPER != 0))
        and cell(batches, B_ATTRIBUTES, row) & LOG_APPEND_TIME == 0
        and not held.state[3]
        and held.state[2] != cell(batches, B_MAX_TIMESTAMP, row)
    ):
        tell(held, MAX_TIMESTAMP, row, record)
    if (
        layout == 0
        and flags & WRAPPER != 0
        and held.state[1] != cell(batches, B_LAST_OFFSET, row)
    ):
        tell(held, LAST_OFFSET, row, record)


cdef void hold_records(Held *held, const Cols *batches, const Cols *records) noexcept nogil:
    cdef Py_ssize_t i
    cdef int64_t *state = held.state
    cdef int64_t batch
    cdef int64_t header_flags
    cdef int64_t flags
    cdef int64_t offset
    cdef int64_t lowest
    cdef int64_t key
    cdef int64_t value
    cdef int64_t layout
    cdef int64_t magic
    cdef int64_t fixed
    for i in range(records.count):
        batch = cell(records, R_BATCH, i)
        if batch != state[0]:
            close_batch(held, batches, i)
            state[0] = batch
            state[1] = -1
            state[2] = -1
            state[3] = 0
        header_flags = cell(batches, B_FLAGS, batch)
        flags = cell(records, R_FLAGS, i)
        offset = cell(records, R_OFFSET, i)
        lowest = -1 if header_flags & WRAPPER else cell(batches, B_BASE_OFFSET, batch)
        if offset < lowest or offset > cell(batches, B_LAST_OFFSET, batch):
            tell(held, OFFSET_OUTSIDE, batch, i)
        elif offset <= state[1] and offset >= 0:
            tell(held, OFFSET_ORDER, batch, i)
        state[1] = offset
        state[2] = max(state[2], cell(records, R_TIMESTAMP, i))
        if flags & INNER_CRC_BAD:
            tell(held, INNER_SUM, batch, i)
        if flags & INNER_MAGIC_OTHER:
            state[3] = 1
        key = cell(records, R_KEY_SIZE, i)
        if key < 0 and not header_flags & CONTROL:
            if not state[4]:
                state[5] = offset
            state[4] += 1
        layout = cell(batches, B_LAYOUT, batch)
        if layout < 2:
            value = cell(records, R_VALUE_SIZE, i)
            magic = layout
            if header_flags & WRAPPER:
                magic = flags >> INNER_MAGIC_SHIFT & 3
            fixed = LOG_OVERHEAD + (OVERHEAD_V1 if magic == 1 else OVERHEAD_V0)
            if cell(records, R_SIZE, i) > fixed + max(key, <int64_t>0) + max(value, <int64_t>0):
                if not state[6]:
                    state[7] = cell(batches, B_POSITION, batch)
                state[6] += 1


def prove_records(object batches, object records, array state, bint complete, Py_ssize_t most):
    """Hold records against the headers of their batches, in order."""
    cdef Py_buffer first
    cdef Py_buffer second
    cdef Cols rows
    cdef Cols columns
    cdef Held held
    cdef array found = clone(template, 3 * max(most, <Py_ssize_t>1), False)
    cdef Py_ssize_t i
    cdef int64_t batch
    fits = len(state) >= RECORDS_STATE
    open_columns(batches, BATCH_WIDTH, &first, &rows)
    open_columns(records, RECORD_WIDTH, &second, &columns)
    held.state = <int64_t *>state.data.as_longlongs
    held.found = <int64_t *>found.data.as_longlongs
    held.room = most
    held.count = 0
    for i in range(columns.count):
        batch = cell(&columns, R_BATCH, i)
        if batch < 0 or batch >= rows.count:
            fits = False
    if fits:
        with nogil:
            hold_records(&held, &rows, &columns)
            if complete:
                close_batch(&held, &rows, columns.count)
                held.state[0] = -1
    PyBuffer_Release(&second)
    PyBuffer_Release(&first)
    if not fits:
        raise ValueError(state)
    return [(found[3 * i], found[3 * i + 1], found[3 * i + 2]) for i in range(held.count)]


# Records of v2 -----------------------------------------------------------------------------------


cdef struct Batch:
    int64_t count
    int64_t base_offset
    int64_t base_timestamp
    int64_t max_timestamp
    bint append_time


cdef inline void read_batch(const Cols *batches, Py_ssize_t row, Batch *out) noexcept nogil:
    out.count = cell(batches, B_RECORDS_COUNT, row)
    out.base_offset = cell(batches, B_BASE_OFFSET, row)
    out.base_timestamp = cell(batches, B_BASE_TIMESTAMP, row)
    out.max_timestamp = cell(batches, B_MAX_TIMESTAMP, row)
    out.append_time = cell(batches, B_ATTRIBUTES, row) & LOG_APPEND_TIME != 0


cdef inline int varint(const uint8_t **at, const uint8_t *end, int32_t *out) noexcept nogil:
    """Read a zigzag int32 (F23); return 0 or a reason."""
    cdef const uint8_t *p = at[0]
    cdef uint32_t raw
    cdef uint32_t byte
    cdef int shift = 7
    if p >= end:
        return RECORD_LENGTH_MISMATCH
    raw = p[0]
    p += 1
    if raw >= 0x80:
        raw &= 0x7F
        while True:
            if p >= end:
                return RECORD_LENGTH_MISMATCH
            byte = p[0]
            p += 1
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift == 35:
                return VARINT_TOO_LONG
    at[0] = p
    out[0] = <int32_t>((raw >> 1) ^ (0 - (raw & 1)))
    return 0


cdef inline int varlong(const uint8_t **at, const uint8_t *end, int64_t *out) noexcept nogil:
    """Read a zigzag int64 (F23); return 0 or a reason."""
    cdef const uint8_t *p = at[0]
    cdef uint64_t raw
    cdef uint64_t byte
    cdef int shift = 7
    if p >= end:
        return RECORD_LENGTH_MISMATCH
    raw = p[0]
    p += 1
    if raw >= 0x80:
        raw &= 0x7F
        while True:
            if p >= end:
                return RECORD_LENGTH_MISMATCH
            byte = p[0]
            p += 1
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift == 70:
                return VARINT_TOO_LONG
    at[0] = p
    out[0] = <int64_t>((raw >> 1) ^ (0 - (raw & 1)))
    return 0


cdef struct Header:
    const uint8_t *key
    int32_t key_size
    const uint8_t *value
    int32_t value_size


cdef inline int read_header(const uint8_t **at, const uint8_t *end, Header *out) noexcept nogil:
    """Read one record header; return 0 or a reason."""
    cdef int reason
    reason = varint(at, end, &out.key_size)
    if reason:
        return reason
    if out.key_size < 0 or out.key_size > end - at[0]:
        return HEADER_KEY_LENGTH
    out.key = at[0]
    at[0] += out.key_size
    reason = varint(at, end, &out.value_size)
    if reason:
        return reason
    if out.value_size > end - at[0]:
        return HEADER_VALUE_LENGTH
    out.value = at[0]
    if out.value_size >= 0:
        at[0] += out.value_size
    return 0


cdef inline int read_record(
    const uint8_t *data, const uint8_t **at, const uint8_t *end, const Batch *batch, int64_t index,
    int64_t *out, Py_ssize_t stride,
) noexcept nogil:
    """Fill a row from the record at `at` and move on; or return a reason and stay (F24)."""
    cdef const uint8_t *p = at[0]
    cdef const uint8_t *key
    cdef const uint8_t *value
    cdef const uint8_t *headers
    cdef Header header
    cdef int64_t timestamp
    cdef int32_t size, offset_delta, key_size, value_size, headers_count, i
    cdef int reason
    reason = varint(&p, end, &size)
    if reason:
        return RECORD_CUT_SHORT if reason == RECORD_LENGTH_MISMATCH else reason
    if size < SMALLEST_RECORD - 1:
        return RECORD_LENGTH
    if size > end - p:
        return RECORD_CUT_SHORT
    end = p + size
    p += 1
    reason = varlong(&p, end, &timestamp)
    if reason:
        return reason
    reason = varint(&p, end, &offset_delta)
    if reason:
        return reason
    reason = varint(&p, end, &key_size)
    if reason:
        return reason
    key = data
    if key_size >= 0:
        if key_size > end - p:
            return KEY_LENGTH
        key = p
        p += key_size
    else:
        key_size = -1
    reason = varint(&p, end, &value_size)
    if reason:
        return reason
    value = data
    if value_size >= 0:
        if value_size > end - p:
            return VALUE_LENGTH
        value = p
        p += value_size
    else:
        value_size = -1
    reason = varint(&p, end, &headers_count)
    if reason:
        return reason
    if headers_count < 0 or headers_count > end - p:
        return HEADER_COUNT
    headers = p
    for i in range(headers_count):
        reason = read_header(&p, end, &header)
        if reason:
            return reason
    if p != end:
        return RECORD_LENGTH_MISMATCH
    if batch.append_time:
        timestamp = batch.max_timestamp
    else:
        timestamp = add(batch.base_timestamp, timestamp)
    out[R_BATCH * stride] = index
    out[R_POSITION * stride] = at[0] - data
    out[R_SIZE * stride] = end - at[0]
    out[R_OFFSET * stride] = add(batch.base_offset, offset_delta)
    out[R_TIMESTAMP * stride] = timestamp
    out[R_KEY * stride] = key - data
    out[R_KEY_SIZE * stride] = key_size
    out[R_VALUE * stride] = value - data
    out[R_VALUE_SIZE * stride] = value_size
    out[R_HEADERS * stride] = headers - data
    out[R_HEADERS_COUNT * stride] = headers_count
    out[R_FLAGS * stride] = 0
    at[0] = end
    return 0


cdef int read_records(
    const uint8_t *data, Py_ssize_t *position, Py_ssize_t end, const Batch *batch, int64_t index,
    int64_t done, Py_ssize_t most, Cols *out,
) noexcept nogil:
    """Add the records of one batch, up to `most` rows in all; return why it ends there."""
    cdef const uint8_t *p = data + position[0]
    cdef const uint8_t *behind = data + end
    cdef Py_ssize_t row = out.count
    cdef int reason = END
    if batch.count < 0:
        return COUNT_NEGATIVE
    while done < batch.count:
        if row >= most:
            reason = FULL
            break
        if p == behind:
            reason = RECORDS_MISSING
            break
        reason = read_record(data, &p, behind, batch, index, out.block + row, out.stride)
        if reason:
            break
        row += 1
        done += 1
    if reason == END and batch.count and p < behind:
        reason = RECORDS_REMAINING
    out.count = row
    position[0] = p - data
    return reason


def decode_records(
    object data,
    Py_ssize_t start,
    Py_ssize_t end,
    object batches,
    Py_ssize_t index,
    int64_t done,
    Py_ssize_t max_records,
):
    """Decode the plain records of v2 batch `index` from `data[start:end]`, which they must fill."""
    cdef Py_buffer buffer
    cdef Py_buffer batch_buffer
    cdef Cols columns
    cdef Cols out
    cdef Batch batch
    cdef array block
    cdef Py_ssize_t most
    cdef int reason
    open_columns(batches, BATCH_WIDTH, &batch_buffer, &columns)
    if 0 <= index < columns.count:
        read_batch(&columns, index, &batch)
    PyBuffer_Release(&batch_buffer)
    if not 0 <= index < columns.count:
        raise IndexError(index)
    done = max(<int64_t>0, done)
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    try:
        clamp(&start, &end, buffer.len)
        # No record takes less than 7 bytes: what the count claims beyond that needs no room.
        most = min(max(<Py_ssize_t>0, max_records), (end - start) // SMALLEST_RECORD)
        most = <Py_ssize_t>min(<int64_t>most, batch.count - done if batch.count > done else 0)
        block = new_block(RECORD_WIDTH, most, &out)
        with nogil:
            reason = read_records(
                <const uint8_t *>buffer.buf, &start, end, &batch, index, done, max_records, &out
            )
    finally:
        PyBuffer_Release(&buffer)
    return DecodedRecords(block, out.stride, out.count, 0), start, reason


cdef inline Py_ssize_t records_due(
    const Cols *batches, Py_ssize_t row, int64_t start, Py_ssize_t length
) noexcept nogil:
    """Return how many records a plain batch can give at the most; -1: it is not plain."""
    cdef int64_t layout = cell(batches, B_LAYOUT, row)
    cdef int64_t size = cell(batches, B_SIZE, row)
    cdef int64_t count = 1
    cdef int64_t smallest
    if cell(batches, B_FLAGS, row) & (COMPRESSED | CONTROL | CRC_BAD | TOO_SMALL):
        return -1
    if layout == 2:
        smallest = HEADER_V2
        count = cell(batches, B_RECORDS_COUNT, row)
        if count < 0:
            return -1
    else:
        smallest = LOG_OVERHEAD + (OVERHEAD_V1 if layout == 1 else OVERHEAD_V0)
    if size < smallest or size > length or start < 0 or start > length - size:
        return -1
    if layout == 2:
        count = min(count, (size - HEADER_V2) // SMALLEST_RECORD)
    return <Py_ssize_t>count


cdef Py_ssize_t count_due(
    const Cols *batches, Py_ssize_t first, int64_t base, Py_ssize_t length, Py_ssize_t most,
    Py_ssize_t *behind, int *reason,
) noexcept nogil:
    """Add up the records of plain batches from `first` on; say where and why that ends."""
    cdef Py_ssize_t total = 0
    cdef Py_ssize_t due
    cdef Py_ssize_t row = first
    reason[0] = END
    while row < batches.count:
        due = records_due(batches, row, subtract(cell(batches, B_POSITION, row), base), length)
        if due < 0:
            reason[0] = NOT_PLAIN
            break
        if due > most - total:
            reason[0] = FULL
            break
        total += due
        row += 1
    behind[0] = row
    return total


cdef int key_and_value(
    const uint8_t *data, Py_ssize_t start, Py_ssize_t end, int64_t layout,
    int64_t *out, Py_ssize_t stride,
) noexcept nogil:
    """Fill in key and value of a message entry that holds its fixed fields (F7)."""
    cdef Py_ssize_t at = start + LOG_OVERHEAD + (OVERHEAD_V1 if layout == 1 else OVERHEAD_V0) - 8
    cdef int32_t key_size = <int32_t>be32(data + at)
    cdef int32_t value_size
    cdef Py_ssize_t key = 0
    at += 4
    if key_size > end - at - 4:
        return KEY_LENGTH
    if key_size >= 0:
        key = at
        at += key_size
    else:
        key_size = -1
    value_size = <int32_t>be32(data + at)
    at += 4
    if value_size > end - at:
        return VALUE_LENGTH
    if value_size < 0:
        value_size = -1
        at = 0
    out[R_KEY * stride] = key
    out[R_KEY_SIZE * stride] = key_size
    out[R_VALUE * stride] = at
    out[R_VALUE_SIZE * stride] = value_size
    return 0


cdef int decode_batches(
    const uint8_t *data, int64_t base, const Cols *batches, Py_ssize_t *index, Py_ssize_t behind,
    Py_ssize_t *stop, Cols *out,
) noexcept nogil:
    """Decode batches `index` to `behind`, all plain; return END or what is wrong at `index`."""
    cdef Batch batch
    cdef Py_ssize_t start, end
    cdef int64_t *row
    cdef int64_t layout
    cdef int reason
    while index[0] < behind:
        start = <Py_ssize_t>subtract(cell(batches, B_POSITION, index[0]), base)
        end = start + <Py_ssize_t>cell(batches, B_SIZE, index[0])
        layout = cell(batches, B_LAYOUT, index[0])
        if layout == 2:
            read_batch(batches, index[0], &batch)
            stop[0] = start + HEADER_V2
            # Rows are bounded by the batch's own bytes, which were counted before.
            reason = read_records(
                data, stop, end, &batch, index[0], 0, (<Py_ssize_t>1) << 62, out
            )
        else:
            stop[0] = start
            row = out.block + out.count
            reason = key_and_value(data, start, end, layout, row, out.stride)
            if not reason:
                stop[0] = end
                row[R_BATCH * out.stride] = index[0]
                row[R_POSITION * out.stride] = start
                row[R_SIZE * out.stride] = end - start
                row[R_OFFSET * out.stride] = cell(batches, B_LAST_OFFSET, index[0])
                row[R_TIMESTAMP * out.stride] = cell(batches, B_MAX_TIMESTAMP, index[0])
                row[R_HEADERS * out.stride] = 0
                row[R_HEADERS_COUNT * out.stride] = 0
                row[R_FLAGS * out.stride] = 0
                out.count += 1
        if reason:
            return reason
        index[0] += 1
    return END


def decode_run(
    object data, int64_t base, object batches, Py_ssize_t first, Py_ssize_t max_records
):
    """Decode the records of batches `first` on, one after the other, while they are plain."""
    cdef Py_buffer buffer
    cdef Py_buffer batch_buffer
    cdef Cols columns
    cdef Cols out
    cdef array block
    cdef Py_ssize_t due, index, behind
    cdef Py_ssize_t stop = 0
    cdef int reason, ending
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    try:
        open_columns(batches, BATCH_WIDTH, &batch_buffer, &columns)
        try:
            index = max(<Py_ssize_t>0, min(first, columns.count))
            with nogil:
                due = count_due(
                    &columns, index, base, buffer.len, max(<Py_ssize_t>0, max_records),
                    &behind, &ending,
                )
            block = new_block(RECORD_WIDTH, due, &out)
            with nogil:
                reason = decode_batches(
                    <const uint8_t *>buffer.buf, base, &columns, &index, behind, &stop, &out
                )
            if not reason and ending:
                reason = ending
                stop_at = subtract(cell(&columns, B_POSITION, index), base)
            else:
                stop_at = stop
        finally:
            PyBuffer_Release(&batch_buffer)
    finally:
        PyBuffer_Release(&buffer)
    return DecodedRecords(block, out.stride, out.count, 0), index, stop_at, reason


# Messages of v0 and v1 ---------------------------------------------------------------------------


cdef inline int inner_size(
    const uint8_t *data, Py_ssize_t position, Py_ssize_t end, Py_ssize_t *size
) noexcept nogil:
    """Read the size field of an inner message; return 0 or a reason (F17)."""
    if end - position < LOG_OVERHEAD:
        return INNER_CUT_SHORT
    size[0] = <int32_t>be32(data + position + 8)
    if size[0] < OVERHEAD_V0:
        return INNER_SIZE
    if size[0] > end - position - LOG_OVERHEAD:
        return INNER_CUT_SHORT
    return 0


def inner_base(
    object data, Py_ssize_t start, Py_ssize_t end, int64_t wrapper_offset, int64_t wrapper_magic
):
    """Find what to add to the offset fields of a wrapper's messages, plain in `data[start:end]`."""
    cdef Py_buffer buffer
    cdef const uint8_t *p
    cdef int64_t last = -1
    cdef int64_t count = 0
    cdef int64_t base = 0
    cdef Py_ssize_t size
    cdef int reason = END
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    with nogil:
        clamp(&start, &end, buffer.len)
        p = <const uint8_t *>buffer.buf
        while start < end:
            reason = inner_size(p, start, end, &size)
            if reason:
                break
            last = <int64_t>be64(p + start)
            count += 1
            start += LOG_OVERHEAD + size
    PyBuffer_Release(&buffer)
    if wrapper_magic == 1 and count and wrapper_offset:
        base = subtract(wrapper_offset, last)
    if reason != INNER_SIZE:
        if not count:
            reason = INNER_EMPTY
        elif wrapper_magic == 1 and wrapper_offset and wrapper_offset < last:
            reason = WRAPPER_OFFSET
    return base, last, count, reason


cdef int read_messages(
    const uint8_t *data, Py_ssize_t *position, Py_ssize_t end, const Cols *batches,
    Py_ssize_t index, int64_t base, Py_ssize_t most, Cols *out,
) noexcept nogil:
    """Add the messages of one wrapper, up to `most` rows; return why it ends there."""
    cdef bint wrapper_time = (
        cell(batches, B_LAYOUT, index) == 1
        and cell(batches, B_ATTRIBUTES, index) & LOG_APPEND_TIME != 0
    )
    cdef int64_t wrapper_timestamp = cell(batches, B_MAX_TIMESTAMP, index)
    cdef int wrapper_magic = cell(batches, B_MAGIC, index) & 0xFF
    cdef Py_ssize_t stride = out.stride
    cdef const uint8_t *p
    cdef int64_t *row
    cdef int64_t timestamp, flags
    cdef Py_ssize_t size, behind
    cdef int magic, layout, reason
    while position[0] < end:
        if out.count >= most:
            return FULL
        reason = inner_size(data, position[0], end, &size)
        if reason:
            return reason
        p = data + position[0]
        behind = position[0] + LOG_OVERHEAD + size
        magic = p[16]
        layout = 1 if magic == 1 else 0
        if layout and size < OVERHEAD_V1:
            return INNER_SIZE
        if p[17] & CODEC_BITS:
            return INNER_COMPRESSED
        row = out.block + out.count
        reason = key_and_value(data, position[0], behind, layout, row, stride)
        if reason:
            return reason
        timestamp = -1
        if layout:
            timestamp = wrapper_timestamp if wrapper_time else <int64_t>be64(p + 18)
        flags = min(magic, 3) << INNER_MAGIC_SHIFT
        if be32(p + 12) != kd_crc32(0, p + CRC_FROM_LEGACY, size - 4):
            flags |= INNER_CRC_BAD
        if magic != wrapper_magic:
            flags |= INNER_MAGIC_OTHER
        row[R_BATCH * stride] = index
        row[R_POSITION * stride] = position[0]
        row[R_SIZE * stride] = LOG_OVERHEAD + size
        row[R_OFFSET * stride] = add(base, <int64_t>be64(p))
        row[R_TIMESTAMP * stride] = timestamp
        row[R_HEADERS * stride] = 0
        row[R_HEADERS_COUNT * stride] = 0
        row[R_FLAGS * stride] = flags
        out.count += 1
        position[0] = behind
    return END


cdef Py_ssize_t count_messages(
    const uint8_t *data, Py_ssize_t position, Py_ssize_t end, Py_ssize_t most
) noexcept nogil:
    cdef Py_ssize_t count = 0
    cdef Py_ssize_t size
    while position < end and count < most and not inner_size(data, position, end, &size):
        position += LOG_OVERHEAD + size
        count += 1
    return count


def decode_messages(
    object data,
    Py_ssize_t start,
    Py_ssize_t end,
    object batches,
    Py_ssize_t index,
    int64_t base,
    Py_ssize_t max_records,
):
    """Decode the messages inside wrapper `index`, plain in `data[start:end]`."""
    cdef Py_buffer buffer
    cdef Py_buffer batch_buffer
    cdef Cols columns
    cdef Cols out
    cdef array block
    cdef Py_ssize_t count
    cdef int reason
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    try:
        open_columns(batches, BATCH_WIDTH, &batch_buffer, &columns)
        try:
            if not 0 <= index < columns.count:
                raise IndexError(index)
            clamp(&start, &end, buffer.len)
            with nogil:
                count = count_messages(
                    <const uint8_t *>buffer.buf, start, end, max(<Py_ssize_t>0, max_records)
                )
            block = new_block(RECORD_WIDTH, count, &out)
            with nogil:
                reason = read_messages(
                    <const uint8_t *>buffer.buf, &start, end, &columns, index, base, max_records,
                    &out,
                )
        finally:
            PyBuffer_Release(&batch_buffer)
    finally:
        PyBuffer_Release(&buffer)
    return DecodedRecords(block, out.stride, out.count, 0), start, reason


# The search for the next entry -------------------------------------------------------------------


cdef Py_ssize_t first_not_zero(
    const uint8_t *data, Py_ssize_t position, Py_ssize_t end
) noexcept nogil:
    """Return the first index from `position` on that holds no zero; `end` for none."""
    cdef uint64_t words[4]
    while end - position >= 32:
        memcpy(words, data + position, 32)
        if words[0] | words[1] | words[2] | words[3]:
            break
        position += 32
    while position < end and not data[position]:
        position += 1
    return position


cdef inline bint batch_fits(
    const uint8_t *p, Py_ssize_t known, Py_ssize_t size, int64_t offset, int64_t max_offset
) noexcept nogil:
    """Whether a header of magic 2 says nothing that cannot be."""
    cdef const uint8_t *at = p + HEADER_V2
    cdef int attributes = be16(p + 21)
    cdef int32_t delta = <int32_t>be32(p + 23)
    cdef int32_t count = <int32_t>be32(p + 57)
    cdef int32_t length = 0
    cdef int64_t last = add(offset, delta)
    if attributes & ~0x7F or attributes & CODEC_BITS > 4:
        return False
    if count < 0 or count > <int64_t>delta + 1 or last < offset or last >= max_offset:
        return False
    if attributes & CODEC_BITS or count == 0:
        return True
    if varint(&at, p + min(min(size, known), HEADER_LOOKED_AT), &length):
        return False
    return length >= SMALLEST_RECORD - 1 and length <= p + size - at


cdef inline bint message_fits(
    const uint8_t *p, Py_ssize_t known, Py_ssize_t size, int magic
) noexcept nogil:
    """Whether a header of magic 0 or 1, its key and its value fit in its size."""
    cdef Py_ssize_t at = LOG_OVERHEAD + (OVERHEAD_V1 if magic else OVERHEAD_V0)
    cdef int attributes = p[17]
    cdef int32_t key_size
    cdef int32_t value_size
    if size < at or attributes & ~0x0F or attributes & CODEC_BITS > 3:
        return False
    key_size = <int32_t>be32(p + at - 8)
    if key_size < -1 or key_size > size - at:
        return False
    at += max(key_size, <int32_t>0) - 4
    if at + 4 > known:
        return True
    value_size = <int32_t>be32(p + at)
    return value_size >= -1 and value_size <= size - at - 4


cdef inline Py_ssize_t believable(
    const uint8_t *p, Py_ssize_t known, int64_t behind, int64_t min_offset, int64_t max_offset
) noexcept nogil:
    """Return the size of the entry that may start at `p`, or 0; its magic is 0 to 2.

    `known` bytes are at hand, 26 at least, and where others are `behind` them enough for a header.
    """
    cdef int magic = p[16]
    cdef int64_t offset = <int64_t>be64(p)
    cdef int64_t size = LOG_OVERHEAD + <int64_t><int32_t>be32(p + 8)
    if offset <= min_offset or offset >= max_offset:
        return 0
    if size < SMALLEST_ENTRY or size - known > behind:
        return 0
    if magic == 2:
        return size if size >= HEADER_V2 and batch_fits(p, known, size, offset, max_offset) else 0
    return size if message_fits(p, known, size, magic) else 0


cdef Py_ssize_t find_entry(
    const uint8_t *data, Py_ssize_t position, Py_ssize_t end, int64_t behind, int64_t min_offset,
    int64_t max_offset, int64_t summed, Py_ssize_t *stop, bint *right,
) noexcept nogil:
    cdef const uint8_t *p
    cdef Py_ssize_t size, covered
    stop[0] = max(position, end - (HEADER_LOOKED_AT if behind else SMALLEST_ENTRY) + 1)
    while position < stop[0]:
        p = data + position
        if likely(p[16] > 2):
            position += 1
            continue
        if be32(p + 8) == 0:
            position = first_not_zero(data, position + 12, end) - 11
            continue
        size = believable(p, end - position, behind, min_offset, max_offset)
        if size:
            covered = size - (CRC_FROM_V2 if p[16] == 2 else CRC_FROM_LEGACY)
            if covered > summed or size > end - position:
                stop[0] = position + size
                return position
            if p[16] == 2:
                right[0] = be32(p + 17) == kd_crc32c(0, p + CRC_FROM_V2, covered)
            else:
                right[0] = be32(p + 12) == kd_crc32(0, p + CRC_FROM_LEGACY, covered)
            if right[0]:
                stop[0] = position + size
                return position
        position += 1
    return -1


def resync(
    object data,
    Py_ssize_t start,
    Py_ssize_t end,
    int64_t behind,
    int64_t min_offset,
    int64_t max_offset,
    int64_t summed,
):
    """Find the first index in `data[start:end]` where a believable entry starts."""
    cdef Py_buffer buffer
    cdef Py_ssize_t found
    cdef Py_ssize_t stop = 0
    cdef bint right = False
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    with nogil:
        clamp(&start, &end, buffer.len)
        found = find_entry(
            <const uint8_t *>buffer.buf, start, end, max(<int64_t>0, behind), min_offset,
            max_offset, summed, &stop, &right,
        )
    PyBuffer_Release(&buffer)
    return found, stop, right


# JSON Lines --------------------------------------------------------------------------------------

cdef enum:
    PIECE = 1 << 18
    STRING_BLOCK = 1 << 13  # grows up to six times when escaped
    BINARY_BLOCK = 3 << 14  # a multiple of 3, so that base64 needs no padding inside
    NUMBERS = 1024  # more than all numbers and names of a row together

cdef const char *HEX = b"0123456789abcdef"
cdef const char *BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
cdef const char *DIGITS = (
    b"00010203040506070809101112131415161718192021222324252627282930313233343536373839"
    b"40414243444546474849505152535455565758596061626364656667686970717273747576777879"
    b"8081828384858687888990919293949596979899"
)
cdef const char *CODECS[8]
CODECS[:] = [
    b"none", b"gzip", b"snappy", b"lz4", b"zstd", b"unknown-5", b"unknown-6", b"unknown-7",
]


cdef struct Out:
    char *text  # inside the bytes object `piece`
    Py_ssize_t used
    PyObject *piece
    PyObject *write


cdef int new_piece(Out *out) except -1:
    cdef object piece = PyBytes_FromStringAndSize(NULL, PIECE)
    Py_INCREF(piece)
    out.piece = <PyObject *>piece
    out.text = PyBytes_AS_STRING(piece)
    out.used = 0
    return 0


cdef int open_out(Out *out, object write) except -1:
    out.piece = NULL
    out.write = <PyObject *>write
    return new_piece(out)


cdef int hand_over(Out *out) except -1:
    """Cut the piece to its length and give it to `write`; `out` has none afterwards."""
    cdef object piece
    if out.used:
        _PyBytes_Resize(&out.piece, out.used)  # on failure it frees the piece and leaves NULL
        piece = <object>out.piece
        Py_DECREF(piece)
        out.piece = NULL
        (<object>out.write)(piece)
    return 0


cdef int flush(Out *out) except -1 nogil:
    with gil:
        hand_over(out)
        if out.piece is NULL:
            new_piece(out)
    return 0


cdef inline int room(Out *out, Py_ssize_t size) except -1 nogil:
    """Make sure that `size` bytes fit, which must be less than a piece."""
    if PIECE - out.used < size:
        flush(out)
    return 0


cdef inline int put(Out *out, const void *text, Py_ssize_t size) except -1 nogil:
    """Add text of any length."""
    cdef const char *p = <const char *>text
    cdef Py_ssize_t part
    while PIECE - out.used < size:
        part = PIECE - out.used
        memcpy(out.text + out.used, p, part)
        out.used += part
        p += part
        size -= part
        flush(out)
    memcpy(out.text + out.used, p, size)
    out.used += size
    return 0


cdef inline char *add_text(char *at, const char *text, Py_ssize_t size) noexcept nogil:
    memcpy(at, text, size)
    return at + size


cdef inline char *add_name(char *at, const char *text) noexcept nogil:
    while text[0]:
        at[0] = text[0]
        at += 1
        text += 1
    return at


cdef inline char *add_number(char *at, int64_t number) noexcept nogil:
    cdef char digits[20]
    cdef char *p = digits + 20
    cdef uint64_t left = <uint64_t>number
    cdef uint64_t pair
    if number < 0:
        at[0] = b"-"
        at += 1
        left = 0 - left
    while left >= 100:
        pair = left % 100
        left //= 100
        p -= 2
        memcpy(p, DIGITS + 2 * pair, 2)
    if left >= 10:
        p -= 2
        memcpy(p, DIGITS + 2 * left, 2)
    else:
        p -= 1
        p[0] = <char>(48 + left)
    memcpy(at, p, digits + 20 - p)
    return at + (digits + 20 - p)


cdef inline char *add_optional(char *at, int64_t number, bint present) noexcept nogil:
    return add_number(at, number) if present else add_text(at, b"null", 4)


cdef inline char *add_bool(char *at, bint value) noexcept nogil:
    return add_text(at, b"true", 4) if value else add_text(at, b"false", 5)


cdef inline char *add_type(char *at, int64_t attributes, bint present) noexcept nogil:
    if not present:
        return add_text(at, b"null", 4)
    if attributes & LOG_APPEND_TIME:
        return add_text(at, b'"LogAppendTime"', 15)
    return add_text(at, b'"CreateTime"', 12)


cdef inline int utf8_step(const uint8_t *p, Py_ssize_t left) noexcept nogil:
    """Return the size of the character at `p`; minus the bytes to replace by one U+FFFD.

    These are the longest start of a character that could have been one, as in Python's decoder
    (Unicode, "maximal subpart").
    """
    cdef int lead = p[0]
    cdef int low = 0x80
    cdef int high = 0xBF
    cdef int size, i
    if lead < 0x80:
        return 1
    if lead < 0xC2:
        return -1
    if lead < 0xE0:
        size = 2
    elif lead < 0xF0:
        size = 3
        if lead == 0xE0:
            low = 0xA0
        elif lead == 0xED:
            high = 0x9F
    elif lead < 0xF5:
        size = 4
        if lead == 0xF0:
            low = 0x90
        elif lead == 0xF4:
            high = 0x8F
    else:
        return -1
    for i in range(1, size):
        if i >= left or p[i] < low or p[i] > high:
            return -i
        low = 0x80
        high = 0xBF
    return size


cdef bint is_utf8(const uint8_t *p, Py_ssize_t size) noexcept nogil:
    cdef const uint8_t *end = p + size
    cdef uint64_t words[2]
    cdef int step
    while p < end:
        while end - p >= 16:
            memcpy(words, p, 16)
            if (words[0] | words[1]) & <uint64_t>0x8080808080808080:
                break
            p += 16
        if p == end:
            break
        step = utf8_step(p, end - p)
        if step < 0:
            return False
        p += step
    return True


cdef inline char *add_escape(char *at, int code) noexcept nogil:
    at[0] = b"\\"
    at[1] = b"u"
    at[2] = HEX[code >> 12]
    at[3] = HEX[code >> 8 & 15]
    at[4] = HEX[code >> 4 & 15]
    at[5] = HEX[code & 15]
    return at + 6


cdef inline char *add_multibyte(char *at, const uint8_t *p, int size) noexcept nogil:
    """Add one valid character of two to four bytes, escaped where it steers a terminal."""
    cdef int code
    if size == 2:
        if p[0] == 0xC2 and p[1] < 0xA0:
            return add_escape(at, p[1])
        memcpy(at, p, 2)
        return at + 2
    if size == 3:
        if p[0] == 0xE2 and (p[1] == 0x80 or p[1] == 0x81):
            code = 0x2000 | (p[1] & 1) << 6 | (p[2] & 0x3F)
            if (
                code == 0x200E or code == 0x200F
                or 0x2028 <= code <= 0x202E
                or 0x2066 <= code <= 0x2069
            ):
                return add_escape(at, code)
        memcpy(at, p, 3)
        return at + 3
    memcpy(at, p, 4)
    return at + 4


cdef int put_string(Out *out, const uint8_t *p, Py_ssize_t size) except -1 nogil:
    """Add text, escaped, without its quotes; what is not UTF-8 becomes U+FFFD."""
    cdef const uint8_t *end = p + size
    cdef const uint8_t *stop
    cdef char *at
    cdef int step
    while p < end:
        stop = p + min(end - p, <Py_ssize_t>STRING_BLOCK)
        room(out, 6 * (stop - p) + 8 + KD_TEXT_SLACK)
        at = out.text + out.used
        while p < stop:
            at = kd_copy_escaped(at, &p, stop - p)
            if p == stop:
                break
            if p[0] < 0x80:
                at = add_escape(at, p[0])
                p += 1
                continue
            step = utf8_step(p, end - p)
            if step < 0:
                at = add_text(at, b"\xef\xbf\xbd", 3)
                p -= step
            else:
                at = add_multibyte(at, p, step)
                p += step
        out.used = at - out.text
    return 0


cdef bint put_valid(Out *out, const uint8_t *p, Py_ssize_t size) except -1 nogil:
    """Add a short text with its quotes if it is UTF-8; else add nothing and return False.

    One pass over the bytes: nearly all that is tried is valid.
    """
    cdef const uint8_t *end = p + size
    cdef char *at
    cdef int step
    room(out, 6 * size + 8 + KD_TEXT_SLACK)
    at = out.text + out.used
    at[0] = b'"'
    at += 1
    while True:
        at = kd_copy_escaped(at, &p, end - p)
        if p == end:
            break
        if p[0] < 0x80:
            at = add_escape(at, p[0])
            p += 1
            continue
        step = utf8_step(p, end - p)
        if step < 0:
            return False
        at = add_multibyte(at, p, step)
        p += step
    at[0] = b'"'
    out.used = at + 1 - out.text
    return True


cdef int put_hex(Out *out, const uint8_t *p, Py_ssize_t size) except -1 nogil:
    cdef char *at
    cdef Py_ssize_t part, i
    while size:
        part = min(size, <Py_ssize_t>BINARY_BLOCK)
        room(out, 2 * part)
        at = out.text + out.used
        for i in range(part):
            at[2 * i] = HEX[p[i] >> 4]
            at[2 * i + 1] = HEX[p[i] & 15]
        out.used += 2 * part
        p += part
        size -= part
    return 0


cdef int put_base64(Out *out, const uint8_t *p, Py_ssize_t size) except -1 nogil:
    cdef char *at
    cdef uint32_t bits
    cdef Py_ssize_t part
    while size:
        part = min(size, <Py_ssize_t>BINARY_BLOCK)
        size -= part
        room(out, (part + 2) // 3 * 4)
        at = out.text + out.used
        while part >= 3:
            bits = <uint32_t>p[0] << 16 | <uint32_t>p[1] << 8 | p[2]
            at[0] = BASE64[bits >> 18]
            at[1] = BASE64[bits >> 12 & 63]
            at[2] = BASE64[bits >> 6 & 63]
            at[3] = BASE64[bits & 63]
            at += 4
            p += 3
            part -= 3
        if part:
            bits = <uint32_t>p[0] << 16
            if part == 2:
                bits |= <uint32_t>p[1] << 8
            at[0] = BASE64[bits >> 18]
            at[1] = BASE64[bits >> 12 & 63]
            at[2] = BASE64[bits >> 6 & 63] if part == 2 else b"="
            at[3] = b"="
            at += 4
        out.used = at - out.text
    return 0


cdef int put_bytes(Out *out, const uint8_t *p, Py_ssize_t size, int mode) except -1 nogil:
    """Add bytes as a JSON string, or as the base64 object of BYTES_AUTO."""
    if mode == BYTES_AUTO:
        if size <= STRING_BLOCK:
            if put_valid(out, p, size):
                return 0
            mode = BYTES_OBJECT
        else:
            mode = BYTES_UTF8 if is_utf8(p, size) else BYTES_OBJECT
    if mode == BYTES_OBJECT:
        put(out, b'{"base64":"', 11)
    else:
        put(out, b'"', 1)
    if mode == BYTES_UTF8:
        put_string(out, p, size)
    elif mode == BYTES_HEX:
        put_hex(out, p, size)
    else:
        put_base64(out, p, size)
    if mode == BYTES_OBJECT:
        put(out, b'"}', 2)
    else:
        put(out, b'"', 1)
    return 0


cdef inline bint inside(int64_t position, int64_t size, Py_ssize_t length) noexcept nogil:
    return size >= 0 and position >= 0 and size <= length and position <= length - size


cdef inline int64_t sequence_of(int64_t base, int64_t delta) noexcept nogil:
    """Return base sequence + offset delta, which wraps from 2^31-1 to 0; -1 for none (F24)."""
    return -1 if base < 0 else add(base, delta) & 0x7FFFFFFF


# What is the same in all records of one batch, cut at the numbers that differ.
cdef struct Texts:
    Py_ssize_t batch
    bint timed
    bint modern
    int64_t base_offset
    int64_t base_sequence
    char *before_offset  # has room for the head and NUMBERS more
    Py_ssize_t head_size
    Py_ssize_t before_offset_size
    char before_sequence[NUMBERS]
    Py_ssize_t before_sequence_size
    char before_key[64]
    Py_ssize_t before_key_size


cdef void write_texts(
    const Cols *batches, Py_ssize_t batch, bint timed, Texts *out
) noexcept nogil:
    cdef int64_t attributes = cell(batches, B_ATTRIBUTES, batch)
    cdef int64_t layout = cell(batches, B_LAYOUT, batch)
    cdef char *at
    out.batch = batch
    out.timed = timed
    out.modern = layout == 2
    out.base_offset = cell(batches, B_BASE_OFFSET, batch)
    out.base_sequence = cell(batches, B_BASE_SEQUENCE, batch)

    at = out.before_offset + out.head_size
    at = add_text(at, b'"position":', 11)
    at = add_number(at, cell(batches, B_POSITION, batch))
    at = add_text(at, b',"magic":', 9)
    at = add_number(at, cell(batches, B_MAGIC, batch))
    at = add_text(at, b',"codec":"', 10)
    at = add_name(at, CODECS[attributes & CODEC_BITS])
    at = add_text(at, b'","offset":', 11)
    out.before_offset_size = at - out.before_offset

    at = out.before_sequence
    at = add_text(at, b',"timestamp_type":', 18)
    at = add_type(at, attributes, timed and (layout == 1 or layout == 2))
    at = add_text(at, b',"leader_epoch":', 16)
    at = add_optional(at, cell(batches, B_LEADER_EPOCH, batch), out.modern)
    at = add_text(at, b',"producer_id":', 15)
    at = add_optional(at, cell(batches, B_PRODUCER_ID, batch), out.modern)
    at = add_text(at, b',"producer_epoch":', 18)
    at = add_optional(at, cell(batches, B_PRODUCER_EPOCH, batch), out.modern)
    at = add_text(at, b',"sequence":', 12)
    out.before_sequence_size = at - out.before_sequence

    at = out.before_key
    at = add_text(at, b',"transactional":', 17)
    at = add_bool(at, out.modern and attributes & TRANSACTIONAL_BIT != 0)
    at = add_text(at, b',"control":null,"key":', 22)
    out.before_key_size = at - out.before_key


cdef inline bint has_time(const Cols *batches, Py_ssize_t batch, int64_t flags) noexcept nogil:
    """Say whether a record has a timestamp: its own magic decides inside a wrapper (F10, F15)."""
    cdef int64_t layout = cell(batches, B_LAYOUT, batch)
    if layout == 2:
        return True
    if cell(batches, B_FLAGS, batch) & WRAPPER:
        return (<uint64_t>flags >> INNER_MAGIC_SHIFT & 3) == 1
    return layout == 1


cdef int put_headers(
    Out *out, const uint8_t *data, Py_ssize_t length, const Cols *records, Py_ssize_t row, int mode
) except -1 nogil:
    cdef const uint8_t *p
    cdef const uint8_t *end
    cdef int64_t count = cell(records, R_HEADERS_COUNT, row)
    cdef int key_mode = BYTES_UTF8 if mode == BYTES_AUTO else mode
    cdef Header header
    cdef int64_t i
    if not open_headers(data, length, records, row, &p, &end):
        return 0
    for i in range(count):
        if read_header(&p, end, &header):
            break
        if i:
            put(out, b",", 1)
        put(out, b'{"key":', 7)
        put_bytes(out, header.key, header.key_size, key_mode)
        put(out, b',"value":', 9)
        if header.value_size < 0:
            put(out, b"null", 4)
        else:
            put_bytes(out, header.value, header.value_size, mode)
        put(out, b"}", 1)
    return 0


cdef inline bint open_headers(
    const uint8_t *data, Py_ssize_t length, const Cols *records, Py_ssize_t row,
    const uint8_t **start, const uint8_t **end,
) noexcept nogil:
    """Find where the headers of a record lie; False when its columns do not fit `data`."""
    cdef int64_t position = cell(records, R_POSITION, row)
    cdef int64_t size = cell(records, R_SIZE, row)
    cdef int64_t headers = cell(records, R_HEADERS, row)
    if not inside(position, size, length) or headers < 0 or headers > position + size:
        return False
    start[0] = data + headers
    end[0] = data + position + size
    return True


cdef int put_records(
    Out *out, const uint8_t *data, Py_ssize_t length, const Cols *batches, const Cols *records,
    const Rows *rows, Texts *texts, int mode,
) except -1 nogil:
    cdef Py_ssize_t i, row
    cdef int64_t batch, position, size
    cdef char *at
    cdef bint timed
    for i in range(rows.count):
        row = row_number(rows, i)
        batch = cell(records, R_BATCH, row)
        if batch < 0 or batch >= batches.count:
            with gil:
                raise IndexError(batch)
        timed = has_time(batches, batch, cell(records, R_FLAGS, row))
        if batch != texts.batch or timed != texts.timed:
            write_texts(batches, batch, timed, texts)
        put(out, texts.before_offset, texts.before_offset_size)

        room(out, NUMBERS + NUMBERS)
        at = out.text + out.used
        at = add_number(at, cell(records, R_OFFSET, row))
        at = add_text(at, b',"timestamp_ms":', 16)
        at = add_optional(at, cell(records, R_TIMESTAMP, row), timed)
        at = add_text(at, texts.before_sequence, texts.before_sequence_size)
        at = add_optional(
            at,
            sequence_of(
                texts.base_sequence, subtract(cell(records, R_OFFSET, row), texts.base_offset)
            ),
            texts.modern,
        )
        at = add_text(at, texts.before_key, texts.before_key_size)
        out.used = at - out.text

        position = cell(records, R_KEY, row)
        size = cell(records, R_KEY_SIZE, row)
        if inside(position, size, length):
            put_bytes(out, data + position, size, mode)
        else:
            put(out, b"null", 4)
        put(out, b',"value":', 9)
        position = cell(records, R_VALUE, row)
        size = cell(records, R_VALUE_SIZE, row)
        if inside(position, size, length):
            put_bytes(out, data + position, size, mode)
        else:
            put(out, b"null", 4)
        put(out, b',"headers":[', 12)
        if cell(records, R_HEADERS_COUNT, row) > 0:
            put_headers(out, data, length, records, row, mode)
        put(out, b"]}\n", 3)
    return 0


def format_records(
    object write,
    object data,
    object batches,
    object records,
    object rows,
    bytes head,
    int bytes_mode,
):
    """Write `record` rows as JSON Lines and return how many."""
    cdef bytes start = b'{"row":"record",' + (head + b"," if head else b"")
    cdef Py_buffer buffer, batch_buffer, record_buffer, row_buffer
    cdef Cols batch_columns, record_columns
    cdef Rows numbers
    cdef Texts texts
    cdef Out out
    texts.batch = -1
    texts.timed = False
    texts.head_size = len(start)
    texts.before_offset = <char *>malloc(texts.head_size + NUMBERS)
    if texts.before_offset is NULL:
        raise MemoryError
    memcpy(texts.before_offset, PyBytes_AS_STRING(start), texts.head_size)
    out.piece = NULL
    no_buffer(&buffer)
    no_buffer(&batch_buffer)
    no_buffer(&record_buffer)
    no_buffer(&row_buffer)
    try:
        PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
        open_columns(batches, BATCH_WIDTH, &batch_buffer, &batch_columns)
        open_columns(records, RECORD_WIDTH, &record_buffer, &record_columns)
        open_rows(rows, record_columns.count, &row_buffer, &numbers)
        open_out(&out, write)
        with nogil:
            put_records(
                &out, <const uint8_t *>buffer.buf, buffer.len, &batch_columns, &record_columns,
                &numbers, &texts, bytes_mode,
            )
        hand_over(&out)
    finally:
        free(texts.before_offset)
        Py_XDECREF(out.piece)
        PyBuffer_Release(&row_buffer)
        PyBuffer_Release(&record_buffer)
        PyBuffer_Release(&batch_buffer)
        PyBuffer_Release(&buffer)
    return numbers.count


cdef int put_batches(
    Out *out, const Cols *batches, const Rows *rows, const char *start, Py_ssize_t start_size
) except -1 nogil:
    cdef Py_ssize_t i, row
    cdef int64_t attributes, layout, flags
    cdef bint modern, timed, known, horizon
    cdef char *at
    for i in range(rows.count):
        row = row_number(rows, i)
        attributes = cell(batches, B_ATTRIBUTES, row)
        layout = cell(batches, B_LAYOUT, row)
        flags = cell(batches, B_FLAGS, row)
        modern = layout == 2
        timed = modern or layout == 1
        known = not (flags & WRAPPER and cell(batches, B_RECORDS_COUNT, row) < 0)
        horizon = modern and attributes & DELETE_HORIZON_BIT != 0
        put(out, start, start_size)
        room(out, NUMBERS)
        at = out.text + out.used
        at = add_text(at, b'"position":', 11)
        at = add_number(at, cell(batches, B_POSITION, row))
        at = add_text(at, b',"size_bytes":', 14)
        at = add_number(at, cell(batches, B_SIZE, row))
        at = add_text(at, b',"magic":', 9)
        at = add_number(at, cell(batches, B_MAGIC, row))
        at = add_text(at, b',"codec":"', 10)
        at = add_name(at, CODECS[attributes & CODEC_BITS])
        at = add_text(at, b'","base_offset":', 16)
        at = add_optional(at, cell(batches, B_BASE_OFFSET, row), known)
        at = add_text(at, b',"last_offset":', 15)
        at = add_number(at, cell(batches, B_LAST_OFFSET, row))
        at = add_text(at, b',"records_count":', 17)
        at = add_optional(at, cell(batches, B_RECORDS_COUNT, row), known)
        at = add_text(at, b',"crc":', 7)
        at = add_number(at, cell(batches, B_CRC, row))
        at = add_text(at, b',"crc_valid":', 13)
        at = add_bool(at, not flags & CRC_BAD)
        at = add_text(at, b',"timestamp_type":', 18)
        at = add_type(at, attributes, timed)
        at = add_text(at, b',"base_timestamp_ms":', 21)
        at = add_optional(at, cell(batches, B_BASE_TIMESTAMP, row), timed and not horizon)
        at = add_text(at, b',"max_timestamp_ms":', 20)
        at = add_optional(at, cell(batches, B_MAX_TIMESTAMP, row), timed)
        at = add_text(at, b',"leader_epoch":', 16)
        at = add_optional(at, cell(batches, B_LEADER_EPOCH, row), modern)
        at = add_text(at, b',"producer_id":', 15)
        at = add_optional(at, cell(batches, B_PRODUCER_ID, row), modern)
        at = add_text(at, b',"producer_epoch":', 18)
        at = add_optional(at, cell(batches, B_PRODUCER_EPOCH, row), modern)
        at = add_text(at, b',"base_sequence":', 17)
        at = add_optional(at, cell(batches, B_BASE_SEQUENCE, row), modern)
        at = add_text(at, b',"last_sequence":', 17)
        at = add_optional(
            at,
            sequence_of(
                cell(batches, B_BASE_SEQUENCE, row),
                subtract(cell(batches, B_LAST_OFFSET, row), cell(batches, B_BASE_OFFSET, row)),
            ),
            modern,
        )
        at = add_text(at, b',"transactional":', 17)
        at = add_bool(at, modern and attributes & TRANSACTIONAL_BIT != 0)
        at = add_text(at, b',"control":', 11)
        at = add_bool(at, modern and attributes & CONTROL_BIT != 0)
        at = add_text(at, b',"delete_horizon_ms":', 21)
        at = add_optional(at, cell(batches, B_BASE_TIMESTAMP, row), horizon)
        at = add_text(at, b"}\n", 2)
        out.used = at - out.text
    return 0


def format_batches(object write, object batches, object rows, bytes head):
    """Write `batch` rows as JSON Lines and return how many."""
    cdef bytes start = b'{"row":"batch",' + (head + b"," if head else b"")
    cdef const char *start_text = PyBytes_AS_STRING(start)
    cdef Py_ssize_t start_size = len(start)
    cdef Py_buffer batch_buffer, row_buffer
    cdef Cols columns
    cdef Rows numbers
    cdef Out out
    out.piece = NULL
    no_buffer(&batch_buffer)
    no_buffer(&row_buffer)
    try:
        open_columns(batches, BATCH_WIDTH, &batch_buffer, &columns)
        open_rows(rows, columns.count, &row_buffer, &numbers)
        open_out(&out, write)
        with nogil:
            put_batches(&out, &columns, &numbers, start_text, start_size)
        hand_over(&out)
    finally:
        Py_XDECREF(out.piece)
        PyBuffer_Release(&row_buffer)
        PyBuffer_Release(&batch_buffer)
    return numbers.count


# Totals ------------------------------------------------------------------------------------------


cdef enum:
    T_BATCHES = 0
    T_RECORDS = 1
    T_BYTES = 2
    T_CONTROL = 3
    T_UNOPENED = 4
    T_FIRST = 5
    T_LAST = 6
    T_ERROR = 7
    TOTALS_WIDTH = 10


cdef inline void spread(int64_t *sums, int64_t timestamp) noexcept nogil:
    if timestamp >= 0:
        if sums[T_FIRST] < 0 or timestamp < sums[T_FIRST]:
            sums[T_FIRST] = timestamp
        if timestamp > sums[T_LAST]:
            sums[T_LAST] = timestamp


def sum_batches(
    object batches, Py_ssize_t first, bint by_producer, bint by_codec, array sums, Py_ssize_t slot
):
    """Add batches to totals, as long as they belong together; return the row behind them."""
    cdef Py_buffer buffer
    cdef Cols rows
    cdef Py_ssize_t row = max(first, <Py_ssize_t>0)
    cdef int64_t *out
    cdef int64_t producer_id = 0
    cdef int64_t codec = 0
    cdef int64_t flags, count
    if slot < 0 or slot >= <Py_ssize_t>len(sums) // TOTALS_WIDTH:
        raise IndexError(slot)
    out = <int64_t *>sums.data.as_longlongs + slot * TOTALS_WIDTH
    open_columns(batches, BATCH_WIDTH, &buffer, &rows)
    with nogil:
        if row < rows.count:
            producer_id = cell(&rows, B_PRODUCER_ID, row)
            codec = cell(&rows, B_ATTRIBUTES, row)
        while row < rows.count:
            if by_producer and cell(&rows, B_PRODUCER_ID, row) != producer_id:
                break
            if by_codec and (cell(&rows, B_ATTRIBUTES, row) ^ codec) & CODEC_BITS:
                break
            flags = cell(&rows, B_FLAGS, row)
            count = cell(&rows, B_RECORDS_COUNT, row)
            out[T_BATCHES] += 1
            out[T_RECORDS] += max(count, <int64_t>0)
            out[T_BYTES] += cell(&rows, B_SIZE, row)
            out[T_CONTROL] += flags & CONTROL != 0
            out[T_UNOPENED] += flags & WRAPPER != 0 and count < 0
            spread(out, cell(&rows, B_MAX_TIMESTAMP, row))
            row += 1
    PyBuffer_Release(&buffer)
    return row


cdef inline int64_t headers_size(
    const uint8_t *data, Py_ssize_t length, const Cols *records, Py_ssize_t row
) noexcept nogil:
    """Add up the keys and values of a record's headers."""
    cdef const uint8_t *p
    cdef const uint8_t *end
    cdef Header header
    cdef int64_t size = 0
    cdef int64_t i
    if open_headers(data, length, records, row, &p, &end):
        for i in range(cell(records, R_HEADERS_COUNT, row)):
            if read_header(&p, end, &header):
                break
            size += header.key_size + max(header.value_size, 0)
    return size


def sum_keys(
    object data, object records, Py_ssize_t first, dict slots, array sums, int64_t floor,
    Py_ssize_t most, int64_t longest,
):
    """Add records to the totals of their keys; return the row at which that ended."""
    cdef Py_buffer buffer
    cdef Py_buffer record_buffer
    cdef Cols rows
    cdef Py_ssize_t row = max(first, <Py_ssize_t>0)
    cdef Py_ssize_t slot
    cdef int64_t key_size, key_at, size
    cdef int64_t *out
    cdef int64_t *all_sums = <int64_t *>sums.data.as_longlongs
    cdef object key, found
    most = min(most, <Py_ssize_t>(len(sums) // TOTALS_WIDTH))
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    try:
        open_columns(records, RECORD_WIDTH, &record_buffer, &rows)
        try:
            while row < rows.count:
                key_size = cell(&rows, R_KEY_SIZE, row)
                key_at = cell(&rows, R_KEY, row)
                key = None
                if inside(key_at, key_size, buffer.len):
                    if key_size > longest:
                        break
                    key = PyBytes_FromStringAndSize(<const char *>buffer.buf + key_at, key_size)
                found = slots.get(key)
                if found is None:
                    slot = len(slots)
                    if slot >= most:
                        break
                    slots[key] = slot
                    out = all_sums + slot * TOTALS_WIDTH
                    memset(out, 0, TOTALS_WIDTH * sizeof(int64_t))
                    out[T_FIRST] = out[T_LAST] = -1
                    out[T_ERROR] = floor
                else:
                    slot = found
                    if slot < 0 or slot >= most:
                        raise IndexError(slot)
                    out = all_sums + slot * TOTALS_WIDTH
                size = max(key_size, <int64_t>0) + max(cell(&rows, R_VALUE_SIZE, row), <int64_t>0)
                if cell(&rows, R_HEADERS_COUNT, row) > 0:
                    size += headers_size(<const uint8_t *>buffer.buf, buffer.len, &rows, row)
                out[T_RECORDS] += 1
                out[T_BYTES] += size
                spread(out, cell(&rows, R_TIMESTAMP, row))
                row += 1
        finally:
            PyBuffer_Release(&record_buffer)
    finally:
        PyBuffer_Release(&buffer)
    return row


# Buffers for Arrow -------------------------------------------------------------------------------

cdef enum:
    MAX_INT32 = 0x7FFFFFFF

cdef enum:
    G_POSITION = 0
    G_MAGIC = 1
    G_CODEC = 2
    G_OFFSET = 3
    G_TIMESTAMP = 4
    G_TIMESTAMP_TYPE = 5
    G_LEADER_EPOCH = 6
    G_PRODUCER_ID = 7
    G_PRODUCER_EPOCH = 8
    G_SEQUENCE = 9
    G_TRANSACTIONAL = 10
    G_MODERN = 11
    G_TIMED = 12
    G_KEY_ENDS = 13
    G_KEY_VALID = 14
    G_KEYS = 15
    G_VALUE_ENDS = 16
    G_VALUE_VALID = 17
    G_VALUES = 18
    G_LISTS = 19
    G_NAME_ENDS = 20
    G_NAMES = 21
    G_CONTENT_ENDS = 22
    G_CONTENT_VALID = 23
    G_CONTENTS = 24
    GATHERED_WIDTH = 25

cdef enum:
    N_ROWS = 0
    N_HEADERS = 1
    N_KEYS_NULL = 2
    N_VALUES_NULL = 3
    N_CONTENTS_NULL = 4
    N_OLD = 5
    N_UNTIMED = 6
    COUNTS = 7

cdef int BITS[GATHERED_WIDTH]
BITS[:] = [
    64, 8, 32, 64, 64, 32, 32, 64, 16, 32, 1, 1, 1, 32, 1, 0, 32, 1, 0, 32, 32, 0, 32, 1, 0,
]


cdef struct Room:
    uint8_t *at[GATHERED_WIDTH]
    Py_ssize_t size[GATHERED_WIDTH]
    Py_ssize_t rows
    Py_ssize_t headers
    int64_t counts[COUNTS]


cdef inline bint has_ends(int buffer) noexcept nogil:
    return (
        buffer == G_KEY_ENDS
        or buffer == G_VALUE_ENDS
        or buffer == G_LISTS
        or buffer == G_NAME_ENDS
        or buffer == G_CONTENT_ENDS
    )


cdef inline bint of_headers(int buffer) noexcept nogil:
    return buffer == G_NAME_ENDS or buffer == G_CONTENT_ENDS or buffer == G_CONTENT_VALID


cdef bint measure_room(Room *room) noexcept nogil:
    """Find how many rows and headers have room; False if there are more already."""
    cdef Py_ssize_t items
    cdef int k
    room.rows = room.headers = MAX_INT32
    for k in range(GATHERED_WIDTH):
        if BITS[k]:
            items = min(room.size[k], <Py_ssize_t>1 << 40) * 8 // BITS[k] - has_ends(k)
            if of_headers(k):
                room.headers = min(room.headers, items)
            else:
                room.rows = min(room.rows, items)
    return (
        0 <= room.counts[N_ROWS] <= room.rows and 0 <= room.counts[N_HEADERS] <= room.headers
    )


cdef inline void put_bit(uint8_t *bitmap, Py_ssize_t i, bint value) noexcept nogil:
    cdef uint8_t mask = <uint8_t>(1 << (i & 7))
    if value:
        bitmap[i >> 3] |= mask
    else:
        bitmap[i >> 3] &= ~mask


cdef inline Py_ssize_t start_of(Room *room, int ends, Py_ssize_t i) noexcept nogil:
    """Return where item `i` of a column of bytes starts."""
    if not i:
        (<int32_t *>room.at[ends])[0] = 0
    return (<int32_t *>room.at[ends])[i]


cdef inline bint put_item(
    Room *room, int buffer, int ends, Py_ssize_t i, const uint8_t *p, Py_ssize_t size
) noexcept nogil:
    """Add item `i` of a column of bytes; False: there is no room."""
    cdef Py_ssize_t start = start_of(room, ends, i)
    if start < 0 or size > min(room.size[buffer], <Py_ssize_t>MAX_INT32) - start:
        return False
    memcpy(room.at[buffer] + start, p, size)
    (<int32_t *>room.at[ends])[i + 1] = <int32_t>(start + size)
    return True


cdef Py_ssize_t put_utf8(
    uint8_t *at, Py_ssize_t most, const uint8_t *p, Py_ssize_t size
) noexcept nogil:
    """Write text with what is not UTF-8 replaced, and return its size, -1 if that is too much.

    `at` NULL: only measure.
    """
    cdef const uint8_t *end = p + size
    cdef Py_ssize_t used = 0
    cdef int step, length
    while p < end:
        step = utf8_step(p, end - p)
        length = step if step > 0 else 3
        if length > most - used:
            return -1
        if at is not NULL:
            memcpy(at + used, p if step > 0 else <const uint8_t *>b"\xef\xbf\xbd", length)
        used += length
        p += step if step > 0 else -step
    return used


cdef inline bint put_name(
    Room *room, Py_ssize_t i, const uint8_t *p, Py_ssize_t size
) noexcept nogil:
    cdef Py_ssize_t start = start_of(room, G_NAME_ENDS, i)
    cdef Py_ssize_t most
    if likely(is_utf8(p, size)):
        return put_item(room, G_NAMES, G_NAME_ENDS, i, p, size)
    most = min(room.size[G_NAMES], <Py_ssize_t>MAX_INT32) - start
    if start < 0 or most < 0:
        return False
    size = put_utf8(room.at[G_NAMES] + start, most, p, size)
    if size < 0:
        return False
    (<int32_t *>room.at[G_NAME_ENDS])[i + 1] = <int32_t>(start + size)
    return True


# What rows of one batch have in common.
cdef struct Common:
    int64_t batch
    int64_t position
    int64_t magic
    int64_t attributes
    int64_t base_offset
    int64_t base_sequence
    int64_t leader_epoch
    int64_t producer_id
    int64_t producer_epoch
    bint modern
    bint timed
    bint wrapper


cdef void read_common(const Cols *batches, Py_ssize_t batch, Common *out) noexcept nogil:
    cdef int64_t layout = cell(batches, B_LAYOUT, batch)
    out.batch = batch
    out.position = cell(batches, B_POSITION, batch)
    out.magic = cell(batches, B_MAGIC, batch)
    out.attributes = cell(batches, B_ATTRIBUTES, batch)
    out.base_offset = cell(batches, B_BASE_OFFSET, batch)
    out.modern = layout == 2
    out.timed = layout == 2 or layout == 1
    out.wrapper = not out.modern and cell(batches, B_FLAGS, batch) & WRAPPER != 0
    out.base_sequence = out.leader_epoch = out.producer_id = out.producer_epoch = -1
    if out.modern:
        out.base_sequence = cell(batches, B_BASE_SEQUENCE, batch)
        out.leader_epoch = cell(batches, B_LEADER_EPOCH, batch)
        out.producer_id = cell(batches, B_PRODUCER_ID, batch)
        out.producer_epoch = cell(batches, B_PRODUCER_EPOCH, batch)


cdef bint gather_headers(
    Room *room, const uint8_t *data, Py_ssize_t length, const Cols *records, Py_ssize_t row,
    Py_ssize_t *count, Py_ssize_t *nulls,
) noexcept nogil:
    """Add the headers of a record behind `count` others; False: there is no room."""
    cdef const uint8_t *at
    cdef const uint8_t *end
    cdef Header header
    cdef int64_t left = cell(records, R_HEADERS_COUNT, row)
    if not open_headers(data, length, records, row, &at, &end):
        return True
    while left > 0 and not read_header(&at, end, &header):
        if (
            count[0] == room.headers
            or not put_name(room, count[0], header.key, header.key_size)
            or not put_item(
                room, G_CONTENTS, G_CONTENT_ENDS, count[0],
                header.value, max(<Py_ssize_t>0, header.value_size),
            )
        ):
            return False
        put_bit(room.at[G_CONTENT_VALID], count[0], header.value_size >= 0)
        nulls[0] += header.value_size < 0
        count[0] += 1
        left -= 1
    return True


cdef Py_ssize_t gather_rows(
    Room *room, const uint8_t *data, Py_ssize_t length, const Cols *batches, const Cols *records,
    const Rows *rows, Py_ssize_t first,
) noexcept nogil:
    """Add rows while there is room; return the number behind the last one looked at.

    Where that is not the one behind the last one added, its batch does not exist.
    """
    cdef Common common
    cdef Py_ssize_t i, row, headers, nulls
    cdef Py_ssize_t n = <Py_ssize_t>room.counts[N_ROWS]
    cdef int64_t batch, position, size, key_size, offset
    cdef bint timed
    common.batch = -1
    for i in range(first, rows.count):
        row = row_number(rows, i)
        batch = cell(records, R_BATCH, row)
        if batch != common.batch or batch < 0:
            if batch < 0 or batch >= batches.count:
                return i + 1
            read_common(batches, <Py_ssize_t>batch, &common)
        if n == room.rows:
            return i
        position = cell(records, R_KEY, row)
        key_size = cell(records, R_KEY_SIZE, row)
        if not inside(position, key_size, length):
            position = 0
            key_size = -1
        if not put_item(
            room, G_KEYS, G_KEY_ENDS, n, data + position, max(<int64_t>0, key_size)
        ):
            return i
        position = cell(records, R_VALUE, row)
        size = cell(records, R_VALUE_SIZE, row)
        if not inside(position, size, length):
            position = 0
            size = -1
        if not put_item(
            room, G_VALUES, G_VALUE_ENDS, n, data + position, max(<int64_t>0, size)
        ):
            return i
        headers = <Py_ssize_t>room.counts[N_HEADERS]
        start_of(room, G_LISTS, n)
        if cell(records, R_HEADERS_COUNT, row) > 0:
            nulls = 0
            if not gather_headers(room, data, length, records, row, &headers, &nulls):
                return i
            room.counts[N_HEADERS] = headers
            room.counts[N_CONTENTS_NULL] += nulls
        (<int32_t *>room.at[G_LISTS])[n + 1] = <int32_t>headers
        put_bit(room.at[G_KEY_VALID], n, key_size >= 0)
        put_bit(room.at[G_VALUE_VALID], n, size >= 0)
        room.counts[N_KEYS_NULL] += key_size < 0
        room.counts[N_VALUES_NULL] += size < 0
        timed = common.timed
        if common.wrapper:
            timed = cell(records, R_FLAGS, row) >> INNER_MAGIC_SHIFT & 3 == 1
        offset = cell(records, R_OFFSET, row)
        (<int64_t *>room.at[G_POSITION])[n] = common.position
        (<int8_t *>room.at[G_MAGIC])[n] = <int8_t>common.magic
        (<int32_t *>room.at[G_CODEC])[n] = common.attributes & 7
        (<int64_t *>room.at[G_OFFSET])[n] = offset
        (<int64_t *>room.at[G_TIMESTAMP])[n] = cell(records, R_TIMESTAMP, row)
        (<int32_t *>room.at[G_TIMESTAMP_TYPE])[n] = common.attributes >> 3 & 1
        (<int32_t *>room.at[G_LEADER_EPOCH])[n] = <int32_t>common.leader_epoch
        (<int64_t *>room.at[G_PRODUCER_ID])[n] = common.producer_id
        (<int16_t *>room.at[G_PRODUCER_EPOCH])[n] = <int16_t>common.producer_epoch
        (<int32_t *>room.at[G_SEQUENCE])[n] = <int32_t>sequence_of(
            common.base_sequence, subtract(offset, common.base_offset)
        )
        put_bit(
            room.at[G_TRANSACTIONAL], n,
            common.modern and common.attributes & TRANSACTIONAL_BIT != 0,
        )
        put_bit(room.at[G_MODERN], n, common.modern)
        put_bit(room.at[G_TIMED], n, timed)
        room.counts[N_OLD] += not common.modern
        room.counts[N_UNTIMED] += not timed
        n += 1
        room.counts[N_ROWS] = n
    return rows.count


def gather(
    object gathered, object data, object batches, object records, object rows, Py_ssize_t first
):
    """Add records to the buffers of an Arrow record batch, from the `first`th row number on."""
    cdef Py_buffer held[GATHERED_WIDTH]
    cdef Py_buffer counts_buffer, buffer, batch_buffer, record_buffer, row_buffer
    cdef Cols of, columns
    cdef Rows numbers
    cdef Room room
    cdef Py_ssize_t taken = 0
    cdef Py_ssize_t seen = 0
    cdef Py_ssize_t had = 0
    cdef int k
    cdef int taken_buffers = 0
    cdef list buffers = gathered.buffers
    if len(buffers) != GATHERED_WIDTH:
        raise ValueError(gathered)
    no_buffer(&counts_buffer)
    no_buffer(&buffer)
    no_buffer(&batch_buffer)
    no_buffer(&record_buffer)
    no_buffer(&row_buffer)
    try:
        PyObject_GetBuffer(gathered.counts, &counts_buffer, PyBUF_WRITABLE)
        for k in range(GATHERED_WIDTH):
            PyObject_GetBuffer(buffers[k], &held[k], PyBUF_WRITABLE)
            taken_buffers = k + 1
            room.at[k] = <uint8_t *>held[k].buf
            room.size[k] = held[k].len
        PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
        open_columns(batches, BATCH_WIDTH, &batch_buffer, &of)
        open_columns(records, RECORD_WIDTH, &record_buffer, &columns)
        open_rows(rows, columns.count, &row_buffer, &numbers)
        if counts_buffer.len != 8 * COUNTS:
            raise ValueError(gathered)
        memcpy(room.counts, counts_buffer.buf, 8 * COUNTS)
        if not measure_room(&room):
            raise ValueError(gathered)
        had = <Py_ssize_t>room.counts[N_ROWS]
        first = max(<Py_ssize_t>0, first)
        with nogil:
            seen = gather_rows(
                &room, <const uint8_t *>buffer.buf, buffer.len, &of, &columns, &numbers, first
            )
        memcpy(counts_buffer.buf, room.counts, 8 * COUNTS)
        taken = <Py_ssize_t>room.counts[N_ROWS] - had
        if seen > first + taken:
            raise IndexError(seen - 1)
    finally:
        for k in range(taken_buffers):
            PyBuffer_Release(&held[k])
        PyBuffer_Release(&row_buffer)
        PyBuffer_Release(&record_buffer)
        PyBuffer_Release(&batch_buffer)
        PyBuffer_Release(&buffer)
        PyBuffer_Release(&counts_buffer)
    return taken


def room_for(object data, object records, Py_ssize_t row):
    """Return what `gather` needs for one record: headers; bytes of key, value, names, contents."""
    cdef Py_buffer buffer, record_buffer
    cdef Cols columns
    cdef Header header
    cdef const uint8_t *at
    cdef const uint8_t *end
    cdef int64_t left
    cdef int64_t headers = 0
    cdef int64_t names = 0
    cdef int64_t contents = 0
    cdef int64_t key_size, value_size
    no_buffer(&buffer)
    no_buffer(&record_buffer)
    try:
        PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
        open_columns(records, RECORD_WIDTH, &record_buffer, &columns)
        if not 0 <= row < columns.count:
            raise IndexError(row)
        with nogil:
            left = cell(&columns, R_HEADERS_COUNT, row)
            if left > 0 and open_headers(
                <const uint8_t *>buffer.buf, buffer.len, &columns, row, &at, &end
            ):
                while left > 0 and not read_header(&at, end, &header):
                    left -= 1
                    headers += 1
                    names += put_utf8(
                        NULL, (<Py_ssize_t>1) << 62, header.key, header.key_size
                    )
                    contents += max(header.value_size, 0)
            key_size = cell(&columns, R_KEY_SIZE, row)
            if not inside(cell(&columns, R_KEY, row), key_size, buffer.len):
                key_size = 0
            value_size = cell(&columns, R_VALUE_SIZE, row)
            if not inside(cell(&columns, R_VALUE, row), value_size, buffer.len):
                value_size = 0
    finally:
        PyBuffer_Release(&record_buffer)
        PyBuffer_Release(&buffer)
    return headers, key_size, value_size, names, contents
