# Small helpers for all rooms, and the formats as this kernel reads them.

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
    """
    bint likely "KD_LIKELY" (bint condition) nogil
    uint16_t be16 "kd_be16" (const uint8_t *p) nogil
    uint32_t be32 "kd_be32" (const uint8_t *p) nogil
    uint64_t be64 "kd_be64" (const uint8_t *p) nogil


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
    LOG_OVERHEAD = 12
    UP_TO_MAGIC = 17
    SMALLEST_MESSAGE = 14
    SMALLEST_ENTRY = 26
    SMALLEST_RECORD = 7
    CRC_FROM_LEGACY = 16
    MOST_FORMATS = 8

cdef enum:
    CODEC_BITS = 0x07
    LOG_APPEND_TIME = 0x08
    TRANSACTIONAL_BIT = 0x10
    CONTROL_BIT = 0x20
    DELETE_HORIZON_BIT = 0x40

cdef array template = array("q")


cdef struct Format:
    int magic
    bint is_legacy
    bint crc_is_castagnoli
    bint has_timestamps
    bint has_leader_epoch
    bint has_producer_fields
    bint relative_offsets
    int header_size
    int smallest_size
    int crc_position
    int crc_start
    int meant_bits
    int largest_codec
    # Where the fields of a batch header stand.
    int attributes
    int last_offset_delta
    int base_timestamp
    int max_timestamp
    int producer_id
    int producer_epoch
    int base_sequence
    int records_count


# The table of kernels/layout.py, and its answers about each magic byte.
cdef Format FORMATS[MOST_FORMATS]
cdef const Format *BY_MAGIC[256]
cdef int FORMATS_COUNT = len(layout.FORMATS)
cdef int LARGEST_HEADER = layout.LARGEST_HEADER


cdef int fill_formats() except -1:
    cdef Format *out
    cdef int number
    if FORMATS_COUNT > MOST_FORMATS:
        raise ValueError(layout.FORMATS)
    memset(FORMATS, 0, sizeof(FORMATS))
    for number, row in enumerate(layout.FORMATS):
        out = &FORMATS[number]
        out.magic = row.magic
        out.is_legacy = row.is_legacy
        out.crc_is_castagnoli = row.crc_kind == layout.CRC32C
        out.has_timestamps = row.has_timestamps
        out.has_leader_epoch = row.has_leader_epoch
        out.has_producer_fields = row.has_producer_fields
        out.relative_offsets = row.relative_offsets
        out.header_size = row.header_size
        out.smallest_size = row.smallest_size
        out.crc_position = row.crc_position
        out.crc_start = row.crc_start
        out.meant_bits = row.meant_bits
        out.largest_codec = row.largest_codec
        if row.fields is not None:
            (
                out.attributes, out.last_offset_delta, out.base_timestamp, out.max_timestamp,
                out.producer_id, out.producer_epoch, out.base_sequence, out.records_count,
            ) = row.fields
    for number in range(256):
        BY_MAGIC[number] = &FORMATS[layout.format_of(number).magic]
    return 0


fill_formats()


cdef inline const Format *format_at(int64_t number) noexcept nogil:
    """Return the format of a number in B_LAYOUT; what is none counts as 0."""
    return &FORMATS[number if 0 <= number < FORMATS_COUNT else 0]


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
