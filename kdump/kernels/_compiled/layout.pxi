# Small helpers for all rooms, and the fields that every batch header has.

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

    typedef struct {
        uint8_t magic, is_legacy, header_size, smallest_size, crc_position, crc_start;
        uint8_t crc_is_castagnoli, meant_bits, largest_codec;
        uint8_t has_timestamps, has_leader_epoch, has_producer_fields, relative_offsets;
    } kd_format;

    static const kd_format KD_FORMATS[] = {
        {0, 1, 22, 26, 12, 16, 0, 0x07, 3, 0, 0, 0, 0},
        {1, 1, 30, 34, 12, 16, 0, 0x0F, 3, 1, 0, 0, 1},
        {2, 0, 61, 61, 17, 21, 1, 0x7F, 4, 1, 1, 1, 1},
    };
    enum { KD_FORMATS_COUNT = sizeof KD_FORMATS / sizeof KD_FORMATS[0] };
    """
    bint likely "KD_LIKELY" (bint condition) nogil
    uint16_t be16 "kd_be16" (const uint8_t *p) nogil
    uint32_t be32 "kd_be32" (const uint8_t *p) nogil
    uint64_t be64 "kd_be64" (const uint8_t *p) nogil

    # The table of kernels/layout.py; a test holds one to the other.
    ctypedef struct Format "kd_format":
        uint8_t magic, is_legacy, header_size, smallest_size, crc_position, crc_start
        uint8_t crc_is_castagnoli, meant_bits, largest_codec
        uint8_t has_timestamps, has_leader_epoch, has_producer_fields, relative_offsets
    const Format FORMATS "KD_FORMATS" []
    enum: FORMATS_COUNT "KD_FORMATS_COUNT"


# In the order of reasons.py and columns.py, so with their numbers; tests hold them together.
cdef enum:
    END, FULL, SHORT_TAIL, LENGTH_TOO_SMALL, CUT_SHORT, NOT_PLAIN, UNOPENED, OFFSET_RANGE,
    INDEX_FALLS,
    COUNT_NEGATIVE = 10, RECORD_CUT_SHORT, VARINT_TOO_LONG, RECORD_LENGTH, KEY_LENGTH,
    VALUE_LENGTH, HEADER_COUNT, HEADER_KEY_LENGTH, HEADER_VALUE_LENGTH, RECORD_LENGTH_MISMATCH,
    RECORDS_REMAINING, RECORDS_MISSING, INNER_SIZE, INNER_COMPRESSED, INNER_EMPTY, WRAPPER_OFFSET,
    INNER_CUT_SHORT

cdef enum:
    B_POSITION, B_SIZE, B_MAGIC, B_ATTRIBUTES, B_BASE_OFFSET, B_LAST_OFFSET, B_RECORDS_COUNT,
    B_CRC, B_COMPUTED_CRC, B_LEADER_EPOCH, B_BASE_TIMESTAMP, B_MAX_TIMESTAMP, B_PRODUCER_ID,
    B_PRODUCER_EPOCH, B_BASE_SEQUENCE, B_FLAGS, B_LAYOUT, BATCH_WIDTH

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
    R_BATCH, R_POSITION, R_SIZE, R_OFFSET, R_TIMESTAMP, R_KEY, R_KEY_SIZE, R_VALUE, R_VALUE_SIZE,
    R_HEADERS, R_HEADERS_COUNT, R_FLAGS, RECORD_WIDTH

cdef enum:
    INNER_CRC_BAD = 1
    INNER_MAGIC_OTHER = 2
    MARKER = 4
    INNER_CODEC_SHIFT = 4
    INNER_MAGIC_SHIFT = 8
    INNER_MARKS = 1 | 7 << 4
    KEY_JSON = 1 << 10
    VALUE_JSON = 1 << 11

cdef enum:
    LOG_OVERHEAD = 12
    UP_TO_MAGIC = 17
    SMALLEST_MESSAGE = 14
    SMALLEST_ENTRY = 26
    SMALLEST_RECORD = 7
    PRE08_SMALLEST = 5
    PRE08_CODEC_BITS = 0x03
    CRC_FROM_LEGACY = 16
    MAGIC_V2 = 2

# Where the fields lie that the checksum of a batch header covers in every format, from CRC_START on
# (F20).
cdef enum:
    LAST_OFFSET_DELTA = 2
    BASE_TIMESTAMP = 6
    NEWEST_TIMESTAMP = 14
    PRODUCER_ID = 22
    PRODUCER_EPOCH = 30
    BASE_SEQUENCE = 32
    RECORDS_COUNT = 36
    FIELDS_SIZE = 40

cdef enum:
    CODEC_BITS = 0x07
    LOG_APPEND_TIME = 0x08
    TRANSACTIONAL_BIT = 0x10
    CONTROL_BIT = 0x20
    DELETE_HORIZON_BIT = 0x40

cdef array template = array("q")

COMPILED_FORMATS = [FORMATS[number] for number in range(FORMATS_COUNT)]  # for a test
cdef int LARGEST_HEADER = max([read["header_size"] for read in COMPILED_FORMATS])


cdef inline const Format *format_of(uint8_t magic) noexcept nogil:
    """Return the format brokers read an entry in, by its magic byte (S6)."""
    return &FORMATS[0 if magic > 127 else min(<int>magic, <int>FORMATS_COUNT - 1)]


cdef inline const Format *format_at(int64_t layout) noexcept nogil:
    """Return the format of a number in B_LAYOUT; what is none counts as 0."""
    return &FORMATS[layout if <uint64_t>layout < FORMATS_COUNT else 0]


cdef inline const Format *message_format(int64_t magic) noexcept nogil:
    """Return the format of a message inside a wrapper: 1 if that is its magic, else 0 (F15)."""
    return &FORMATS[magic == 1]


cdef struct Cols:
    int64_t *block
    Py_ssize_t stride
    Py_ssize_t count


cdef struct Rows:
    const int64_t *numbers  # NULL: all rows
    Py_ssize_t count


cdef inline int64_t cell(const Cols *columns, int k, Py_ssize_t row) noexcept nogil:
    return columns.block[k * columns.stride + row]


@final
@freelist(8)
cdef class Held:
    """The buffer of an argument, which is given back at the end of the function that holds it."""

    cdef Py_buffer buffer
    cdef uint8_t *p
    cdef Py_ssize_t size

    def __dealloc__(self):
        PyBuffer_Release(&self.buffer)


cdef Held hold(object data, int flags=PyBUF_SIMPLE):
    cdef Held held = Held.__new__(Held)
    PyObject_GetBuffer(data, &held.buffer, flags)
    held.p = <uint8_t *>held.buffer.buf
    held.size = held.buffer.len
    return held


cdef Held hold_columns(object columns, int width, Cols *out):
    """Take the buffer of a Columns, whose block must have room for what it says."""
    cdef Held held = hold(columns.block)
    out.stride = columns.stride
    out.count = columns.count
    out.block = <int64_t *>held.p
    if (
        held.buffer.itemsize != 8
        or out.count < 0
        or out.stride < out.count
        or out.stride > held.size // 8 // width
    ):
        raise ValueError(columns)
    return held


cdef Held hold_rows(object rows, Py_ssize_t limit, Rows *out):
    """Take the buffer of row numbers, each below `limit`; None means all rows, and no buffer."""
    cdef Held held
    cdef Py_ssize_t i
    out.numbers = NULL
    out.count = limit
    if rows is None:
        return None
    held = hold(rows)
    if held.buffer.itemsize != 8:
        raise ValueError(rows)
    out.numbers = <const int64_t *>held.p
    out.count = held.size // 8
    for i in range(out.count):
        if out.numbers[i] < 0 or out.numbers[i] >= limit:
            raise IndexError(out.numbers[i])
    return held


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


cdef inline bint inside(int64_t position, int64_t size, Py_ssize_t length) noexcept nogil:
    return size >= 0 and position >= 0 and size <= length and position <= length - size


cdef inline int64_t add(int64_t a, int64_t b) noexcept nogil:
    """Add as Java's long does."""
    return <int64_t>(<uint64_t>a + <uint64_t>b)


cdef inline int64_t subtract(int64_t a, int64_t b) noexcept nogil:
    return <int64_t>(<uint64_t>a - <uint64_t>b)
