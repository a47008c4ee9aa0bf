# Write records and batches as JSON Lines.

cdef extern from "_text.h" nogil:
    enum:
        KD_TEXT_SLACK
    char *kd_copy_escaped(char *at, const uint8_t **p, size_t n)


cdef enum:
    BYTES_AUTO = 0
    BYTES_UTF8 = 1
    BYTES_HEX = 2
    BYTES_OBJECT = -1  # {"base64":"..."}; any other number: base64


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


cdef char *add_marker(char *at, const Marker *marker) noexcept nogil:
    """Add what a transaction marker says, as JSON of less than NUMBERS bytes."""
    at = add_name(at, b'{"type":"COMMIT' if marker.commit else b'{"type":"ABORT')
    at = add_text(at, b'","version":', 12)
    at = add_number(at, marker.version)
    at = add_text(at, b',"coordinator_epoch":', 21)
    at = add_number(at, marker.coordinator_epoch)
    return add_text(at, b"}", 1)


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


cdef inline int64_t sequence_of(int64_t base, int64_t delta) noexcept nogil:
    """Return base sequence + offset delta, which wraps from 2^31-1 to 0; -1 for none (F24)."""
    return -1 if base < 0 else add(base, delta) & 0x7FFFFFFF


# What is the same in all records of one batch, cut at the numbers that differ.
cdef struct Texts:
    Py_ssize_t batch
    bint timed
    bint wrapper
    bint produced
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
    cdef const Format *read = format_at(cell(batches, B_LAYOUT, batch))
    cdef char *at
    out.batch = batch
    out.timed = timed
    out.wrapper = read.is_legacy and cell(batches, B_FLAGS, batch) & WRAPPER != 0
    out.produced = read.has_producer_fields
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
    at = add_type(at, attributes, timed and read.has_timestamps)
    at = add_text(at, b',"leader_epoch":', 16)
    at = add_optional(at, cell(batches, B_LEADER_EPOCH, batch), read.has_leader_epoch)
    at = add_text(at, b',"producer_id":', 15)
    at = add_optional(at, cell(batches, B_PRODUCER_ID, batch), out.produced)
    at = add_text(at, b',"producer_epoch":', 18)
    at = add_optional(at, cell(batches, B_PRODUCER_EPOCH, batch), out.produced)
    at = add_text(at, b',"sequence":', 12)
    out.before_sequence_size = at - out.before_sequence

    at = out.before_key
    at = add_text(at, b',"transactional":', 17)
    at = add_bool(at, attributes & read.meant_bits & TRANSACTIONAL_BIT != 0)
    at = add_text(at, b',"control":', 11)
    out.before_key_size = at - out.before_key


cdef inline bint has_time(const Cols *batches, Py_ssize_t batch, int64_t flags) noexcept nogil:
    """Say whether a record has a timestamp: its own magic decides inside a wrapper (F10, F15)."""
    cdef const Format *read = format_at(cell(batches, B_LAYOUT, batch))
    if read.is_legacy and cell(batches, B_FLAGS, batch) & WRAPPER:
        read = message_format(<uint64_t>flags >> INNER_MAGIC_SHIFT & 3)
    return read.has_timestamps


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
    cdef Marker marker
    cdef char *at
    cdef bint timed
    for i in range(rows.count):
        row = row_number(rows, i)
        batch = cell(records, R_BATCH, row)
        if batch < 0 or batch >= batches.count:
            with gil:
                raise IndexError(batch)
        if batch != texts.batch or texts.wrapper:
            timed = has_time(batches, batch, cell(records, R_FLAGS, row))
            if batch != texts.batch or timed != texts.timed:
                write_texts(batches, batch, timed, texts)
        put(out, texts.before_offset, texts.before_offset_size)

        room(out, NUMBERS + NUMBERS)
        at = out.text + out.used
        at = add_number(at, cell(records, R_OFFSET, row))
        at = add_text(at, b',"timestamp_ms":', 16)
        at = add_optional(at, cell(records, R_TIMESTAMP, row), texts.timed)
        at = add_text(at, texts.before_sequence, texts.before_sequence_size)
        at = add_optional(
            at,
            sequence_of(
                texts.base_sequence, subtract(cell(records, R_OFFSET, row), texts.base_offset)
            ),
            texts.produced,
        )
        at = add_text(at, texts.before_key, texts.before_key_size)
        if cell(records, R_FLAGS, row) & MARKER and read_marker(
            data, length, records.block + row, records.stride, &marker
        ):
            at = add_marker(at, &marker)
        else:
            at = add_text(at, b"null", 4)
        at = add_text(at, b',"key":', 7)
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
    texts.timed = texts.wrapper = False
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
    cdef const Format *read
    cdef int64_t attributes, meant, flags
    cdef bint produced, timed, known, horizon
    cdef char *at
    for i in range(rows.count):
        row = row_number(rows, i)
        attributes = cell(batches, B_ATTRIBUTES, row)
        flags = cell(batches, B_FLAGS, row)
        read = format_at(cell(batches, B_LAYOUT, row))
        meant = attributes & read.meant_bits
        produced = read.has_producer_fields
        timed = read.has_timestamps
        known = not (flags & WRAPPER and cell(batches, B_RECORDS_COUNT, row) < 0)
        horizon = meant & DELETE_HORIZON_BIT != 0
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
        at = add_optional(at, cell(batches, B_LEADER_EPOCH, row), read.has_leader_epoch)
        at = add_text(at, b',"producer_id":', 15)
        at = add_optional(at, cell(batches, B_PRODUCER_ID, row), produced)
        at = add_text(at, b',"producer_epoch":', 18)
        at = add_optional(at, cell(batches, B_PRODUCER_EPOCH, row), produced)
        at = add_text(at, b',"base_sequence":', 17)
        at = add_optional(at, cell(batches, B_BASE_SEQUENCE, row), produced)
        at = add_text(at, b',"last_sequence":', 17)
        at = add_optional(
            at,
            sequence_of(
                cell(batches, B_BASE_SEQUENCE, row),
                subtract(cell(batches, B_LAST_OFFSET, row), cell(batches, B_BASE_OFFSET, row)),
            ),
            produced,
        )
        at = add_text(at, b',"transactional":', 17)
        at = add_bool(at, meant & TRANSACTIONAL_BIT != 0)
        at = add_text(at, b',"control":', 11)
        at = add_bool(at, meant & CONTROL_BIT != 0)
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
