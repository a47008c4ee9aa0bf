# Write records and batches as text, in any form.

cdef extern from "_text.h" nogil:
    enum:
        KD_TEXT_SLACK
        KD_JSON
        KD_SHOWN
        KD_DOUBLED
    ptrdiff_t kd_find(
        const uint8_t *data, ptrdiff_t start, ptrdiff_t end, const uint8_t *sought, ptrdiff_t n
    )
    ptrdiff_t kd_candidate(const uint8_t *data, ptrdiff_t at, ptrdiff_t stop, uint8_t newest)
    char *kd_copy_short(char *at, const char *text, size_t n)
    char *kd_copy_text(char *at, const uint8_t **p, size_t n, int spelling)


cdef enum:
    BYTES_AUTO = 0
    BYTES_UTF8 = 1
    BYTES_HEX = 2
    BYTES_BASE64 = 3
    BYTES_OBJECT = -1  # {"base64":"..."}


cdef enum:
    PIECE = 1 << 18
    STRING_BLOCK = 1 << 13  # grows up to six times when escaped
    BINARY_BLOCK = 3 << 14  # a multiple of 3, so that base64 needs no padding inside
    WORD = 24  # the longest of all numbers and names
    NUMBERS = 1024  # more than all that a transaction marker says
    MOST_SHOWN = 1 << 13  # bytes of a key or a value in a cell of a table

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
    bint refused  # the row being written is one that a table leaves to the caller


cdef int new_piece(Out *out) except -1:
    cdef object piece = PyBytes_FromStringAndSize(NULL, PIECE)
    Py_INCREF(piece)
    out.piece = <PyObject *>piece
    out.text = PyBytes_AS_STRING(piece)
    out.used = 0
    return 0


cdef int open_out(Out *out, object write) except -1:
    out.piece = NULL
    out.refused = False
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


cdef inline char *add_bool(char *at, bint value) noexcept nogil:
    return add_text(at, b"true", 4) if value else add_text(at, b"false", 5)


cdef inline char *add_time(char *at, int64_t ms) noexcept nogil:
    """Add a time as time_text does, from a calendar whose years start in March (Hinnant)."""
    cdef uint32_t days, of_era, year, of_year, month, within, i
    cdef uint32_t pairs[7]
    if ms == -1 or not -62135596800000LL <= ms <= 253402300799999LL:
        return add_number(at, ms)
    ms += 62162035200000LL  # since March of the year 0
    days = ms // 86400000
    within = ms % 86400000
    of_era = days % 146097
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    pairs[2] = of_year - (153 * month + 2) // 5 + 1
    pairs[1] = month + 3 if month < 10 else month - 9
    year += days // 146097 * 400 + (month >= 10)
    pairs[0] = year % 100
    pairs[3] = within // 3600000
    pairs[4] = within // 60000 % 60
    pairs[5] = within // 1000 % 60
    pairs[6] = within % 1000 // 10
    memcpy(at, b"0000-00-00T00:00:00.000Z", 24)
    memcpy(at, DIGITS + 2 * (year // 100), 2)
    for i in range(7):
        memcpy(at + 2 + 3 * i, DIGITS + 2 * pairs[i], 2)
    at[22] += within % 10
    return at + 24


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


cdef inline char *add_escape(char *at, int code, int spelling) noexcept nogil:
    at[0] = b"\\"
    if code < 0x100 and not spelling & KD_JSON:
        at[1] = b"x"
        at += 2
    else:
        at[1] = b"u"
        at[2] = HEX[code >> 12]
        at[3] = HEX[code >> 8 & 15]
        at += 4
    at[0] = HEX[code >> 4 & 15]
    at[1] = HEX[code & 15]
    return at + 2


cdef inline char *add_multibyte(char *at, const uint8_t *p, int size, int spelling) noexcept nogil:
    """Add one valid character of two to four bytes, escaped where it steers a terminal."""
    cdef int code
    if spelling & (KD_JSON | KD_SHOWN):
        if size == 2:
            if p[0] == 0xC2 and p[1] < 0xA0:
                return add_escape(at, p[1], spelling)
            if spelling & KD_SHOWN and p[0] == 0xD8 and p[1] == 0x9C:
                return add_escape(at, 0x61C, spelling)
        elif size == 3 and p[0] == 0xE2 and (p[1] == 0x80 or p[1] == 0x81):
            code = 0x2000 | (p[1] & 1) << 6 | (p[2] & 0x3F)
            if (
                code == 0x200E or code == 0x200F
                or 0x2028 <= code <= 0x202E
                or 0x2066 <= code <= 0x2069
            ):
                return add_escape(at, code, spelling)
    memcpy(at, p, size)
    return at + size


cdef inline int java_step(const uint8_t *p, Py_ssize_t left) noexcept nogil:
    """As utf8_step, but all of a surrogate is one malformed sequence, as Java's decoder has it."""
    cdef int step = utf8_step(p, left)
    if step < 0 and p[0] == 0xED and left > 1 and 0xA0 <= p[1] <= 0xBF:
        return -3 if left > 2 and 0x80 <= p[2] <= 0xBF else -2
    return step


cdef int put_text(
    Out *out, const uint8_t *p, Py_ssize_t size, int spelling, bint as_java=False,
    bint strict=False,
) except -1 nogil:
    """Add text in a spelling; what is not UTF-8 becomes U+FFFD, or, if `strict`, ends it: 1."""
    cdef const uint8_t *end = p + size
    cdef const uint8_t *stop
    cdef char *at
    cdef int step
    while p < end:
        stop = p + min(end - p, <Py_ssize_t>STRING_BLOCK)
        room(out, 6 * (stop - p) + 8 + KD_TEXT_SLACK)
        at = out.text + out.used
        while p < stop:
            at = kd_copy_text(at, &p, stop - p, spelling)
            if p == stop:
                break
            if p[0] < 0x80:
                at = add_escape(at, p[0], spelling)
                p += 1
                continue
            step = java_step(p, end - p) if as_java else utf8_step(p, end - p)
            if step > 0:
                at = add_multibyte(at, p, step, spelling)
            elif strict:
                return 1
            else:
                at = add_text(at, b"\xef\xbf\xbd", 3)
            p += abs(step)
        out.used = at - out.text
    return 0


cdef inline char *add_quote(char *at, int spelling) noexcept nogil:
    """Add a quote of JSON's own, which is two in a cell of CSV."""
    at[0] = b'"'
    at[1] = b'"'
    return at + (2 if spelling & KD_DOUBLED else 1)


cdef bint put_valid(Out *out, const uint8_t *p, Py_ssize_t size, int spelling) except -1 nogil:
    """Add a short text with its quotes if it is UTF-8; else add nothing and return False.

    One pass over the bytes: nearly all that is tried is valid.
    """
    cdef Py_ssize_t start
    room(out, 6 * size + 24 + 2 * KD_TEXT_SLACK)  # no less than all that follows asks for
    start = out.used
    put_quote(out, spelling)
    if put_text(out, p, size, spelling, False, True):
        out.used = start
        return False
    put_quote(out, spelling)
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


cdef int put_bytes(
    Out *out, const uint8_t *p, Py_ssize_t size, int mode, int spelling
) except -1 nogil:
    """Add bytes as a JSON string, or as the base64 object of BYTES_AUTO."""
    if mode == BYTES_AUTO:
        if size <= STRING_BLOCK:
            if put_valid(out, p, size, spelling):
                return 0
            mode = BYTES_OBJECT
        else:
            mode = BYTES_UTF8 if is_utf8(p, size) else BYTES_OBJECT
    if mode == BYTES_OBJECT:
        put_word(out, b'{""base64"":' if spelling & KD_DOUBLED else b'{"base64":')
    put_quote(out, spelling)
    if mode == BYTES_UTF8:
        put_text(out, p, size, spelling)
    elif mode == BYTES_HEX:
        put_hex(out, p, size)
    else:
        put_base64(out, p, size)
    put_quote(out, spelling)
    if mode == BYTES_OBJECT:
        put(out, b"}", 1)
    return 0


cdef inline int put_word(Out *out, const char *text) except -1 nogil:
    room(out, WORD)
    out.used = add_name(out.text + out.used, text) - out.text
    return 0


cdef inline int put_quote(Out *out, int spelling) except -1 nogil:
    room(out, 2)
    out.used = add_quote(out.text + out.used, spelling) - out.text
    return 0


cdef bint needs_quotes(const uint8_t *p, Py_ssize_t size, bint shown) noexcept nogil:
    """Whether a cell of CSV has to be quoted; line ends that are spelled out need none."""
    cdef Py_ssize_t i
    for i in range(size):
        if p[i] == b'"' or p[i] == b",":
            return True
        if (p[i] == b"\n" or p[i] == b"\r") and not shown:
            return True
    return False


cdef bint begins_formula(const uint8_t *p, Py_ssize_t size, bint shown) noexcept nogil:
    """Whether a spreadsheet may take text for a formula; the marks may be wide (U+FF1D)."""
    if p[0] == b"=" or p[0] == b"+" or p[0] == b"-" or p[0] == b"@":
        return True
    if p[0] == b"\t" or p[0] == b"\r" or p[0] == b"\n":
        return not shown
    if size < 3 or p[0] != 0xEF or p[1] != 0xBC:
        return False
    return p[2] == 0x9D or p[2] == 0x8B or p[2] == 0x8D or p[2] == 0xA0


cdef int put_csv(
    Out *out, const uint8_t *p, Py_ssize_t size, int mode, bint shown, bint safe
) except -1 nogil:
    """Add bytes as a cell of CSV; an empty one is quoted, to tell it from null."""
    cdef bint quoted
    if size == 0:
        return put(out, b'""', 2)
    if mode == BYTES_AUTO:
        mode = BYTES_UTF8
        if not is_utf8(p, size):
            put(out, b"base64:", 7)
            return put_base64(out, p, size)
    if mode == BYTES_HEX:
        return put_hex(out, p, size)
    if mode == BYTES_BASE64:
        if safe and p[0] >> 2 == 62:  # a plus
            put(out, b"'", 1)
        return put_base64(out, p, size)
    quoted = needs_quotes(p, size, shown)
    if quoted:
        put(out, b'"', 1)
    if safe and begins_formula(p, size, shown):
        put(out, b"'", 1)
    put_text(out, p, size, (KD_SHOWN if shown else 0) | (KD_DOUBLED if quoted else 0))
    if quoted:
        put(out, b'"', 1)
    return 0


cdef inline int64_t sequence_of(int64_t base, int64_t delta) noexcept nogil:
    """Return base sequence + offset delta, which wraps from 2^31-1 to 0; -1 for none (F24)."""
    return -1 if base < 0 else add(base, delta) & 0x7FFFFFFF


# In the order of MEMBERS in text_form.py, so with their numbers; a test holds them together.
cdef enum:
    M_POSITION, M_SIZE, M_MAGIC, M_CODEC, M_BASE_OFFSET, M_LAST_OFFSET, M_RECORDS_COUNT, M_CRC,
    M_CRC_VALID, M_TIMESTAMP_TYPE, M_BASE_TIMESTAMP, M_MAX_TIMESTAMP, M_LEADER_EPOCH,
    M_PRODUCER_ID, M_PRODUCER_EPOCH, M_BASE_SEQUENCE, M_LAST_SEQUENCE, M_TRANSACTIONAL, M_CONTROL,
    M_DELETE_HORIZON,
    M_OFFSET, M_TIMESTAMP, M_TIME, M_SEQUENCE, M_MESSAGE_CRC, M_MESSAGE_CRC_VALID, M_KEY_SIZE,
    M_VALUE_SIZE, M_KEY, M_VALUE, M_HEADERS, M_HEADER_NAMES, M_SAID, M_NOTE, M_END

cdef enum:
    STYLE_JSON, STYLE_CSV, STYLE_KAFKA, STYLE_TABLE
    MOST_CELLS = 32

cdef dict MEMBER_NUMBERS = {name: number for number, name in enumerate(MEMBERS)}


# The columns of members that are numbers as they stand.
cdef int COLUMNS[20]
COLUMNS[:] = [
    B_POSITION, B_SIZE, B_MAGIC, -1, B_BASE_OFFSET, B_LAST_OFFSET, B_RECORDS_COUNT, B_CRC, -1, -1,
    B_BASE_TIMESTAMP, B_MAX_TIMESTAMP, B_LEADER_EPOCH, B_PRODUCER_ID, B_PRODUCER_EPOCH,
    B_BASE_SEQUENCE, -1, -1, -1, B_BASE_TIMESTAMP,
]


cdef struct Part:
    const char *text
    Py_ssize_t size


cdef struct Cell:
    int member
    Part before
    Part after
    Part without
    Py_ssize_t width
    Py_ssize_t most


cdef struct Cells:
    int count
    Py_ssize_t most_text  # of all of them together, data aside
    Cell cells[MOST_CELLS]


cdef struct Form:
    int style
    int mode
    int spelling
    bint shown
    bint safe
    PyObject *said  # a list parallel to the records, or NULL
    char *texts  # of all cells, with room to read behind them
    Py_ssize_t line  # the room that a line of a table takes, so that it can be taken back
    Cells record
    Cells message
    Cells batch
    Cells message_batch


cdef char *open_part(bytes text, char *at, Part *out) except NULL:
    out.text = at
    out.size = len(text)
    return add_text(at, PyBytes_AS_STRING(text), out.size)


cdef char *open_cells(tuple cells, char *at, Cells *out) except NULL:
    """Take the cells of a row, with their texts copied to `at`, and return the end of these."""
    cdef Cell *each
    out.count = len(cells)
    out.most_text = 0
    if out.count > MOST_CELLS:
        raise ValueError(cells)
    for i, (member, before, after, without, width, most) in enumerate(cells):
        each = &out.cells[<int>i]
        each.member = MEMBER_NUMBERS[member]
        each.width = width
        each.most = most
        at = open_part(without, open_part(after, open_part(before, at, &each.before), &each.after),
                       &each.without)
        out.most_text += each.before.size + each.after.size + each.without.size + WORD
        out.most_text += each.width + 4 * min(each.most, <Py_ssize_t>MOST_SHOWN)
    return at


cdef Py_ssize_t size_of(tuple cells) except -1:
    cdef Py_ssize_t size = 0
    for _, before, after, without, _, _ in cells:
        size += len(before) + len(after) + len(without)
    return size


cdef int open_form(object form, list said, Form *out) except -1:
    """Take a form; its `texts` are the caller's to free, and NULL before."""
    cdef tuple record = form.record
    cdef tuple message = form.message
    cdef tuple batch = form.batch
    cdef tuple message_batch = form.message_batch
    cdef char *at
    out.said = NULL if said is None else <PyObject *>said
    out.style = form.style
    out.mode = form.bytes_mode
    out.shown = form.shown
    out.safe = form.safe
    out.spelling = KD_SHOWN if out.shown else 0
    if out.style == STYLE_JSON:
        out.spelling |= KD_JSON
    at = out.texts = <char *>malloc(
        size_of(record) + size_of(message) + size_of(batch) + size_of(message_batch)
        + KD_TEXT_SLACK
    )
    if at is NULL:
        raise MemoryError
    at = open_cells(record, at, &out.record)
    at = open_cells(message, at, &out.message)
    at = open_cells(batch, at, &out.batch)
    open_cells(message_batch, at, &out.message_batch)
    out.line = 0
    if out.style == STYLE_TABLE:
        out.line = max(out.record.most_text, out.message.most_text) + 8 * MOST_SHOWN
    if out.line > PIECE:
        raise ValueError(form)
    return 0


cdef inline char *add_part(char *at, const Part *part) noexcept nogil:
    return kd_copy_short(at, part.text, part.size)


cdef char *add_member(
    char *at, const Cols *batches, Py_ssize_t row, int member, bint timed
) noexcept nogil:
    """Add what the header of an entry says of a member; NULL where it says nothing."""
    cdef int64_t attributes = cell(batches, B_ATTRIBUTES, row)
    cdef int64_t flags = cell(batches, B_FLAGS, row)
    cdef const Format *read = format_at(cell(batches, B_LAYOUT, row))
    cdef int64_t meant = attributes & read.meant_bits
    cdef bint known = not (flags & WRAPPER and cell(batches, B_RECORDS_COUNT, row) < 0)
    cdef bint horizon = meant & DELETE_HORIZON_BIT != 0
    cdef int64_t number
    if member == M_CODEC:
        return add_name(at, CODECS[attributes & CODEC_BITS])
    if member == M_CRC_VALID:
        return add_bool(at, not flags & CRC_BAD)
    if member == M_TRANSACTIONAL:
        return add_bool(at, meant & TRANSACTIONAL_BIT != 0)
    if member == M_CONTROL:
        return add_bool(at, meant & CONTROL_BIT != 0)
    if member == M_TIMESTAMP_TYPE:
        if not (timed and read.has_timestamps):
            return NULL
        return add_name(at, b"LogAppendTime" if attributes & LOG_APPEND_TIME else b"CreateTime")
    if member == M_LAST_SEQUENCE:
        if not read.has_producer_fields:
            return NULL
        number = subtract(cell(batches, B_LAST_OFFSET, row), cell(batches, B_BASE_OFFSET, row))
        return add_number(at, sequence_of(cell(batches, B_BASE_SEQUENCE, row), number))
    if member == M_BASE_OFFSET or member == M_RECORDS_COUNT:
        if not known:
            return NULL
    elif member == M_BASE_TIMESTAMP:
        if horizon or not read.has_timestamps:
            return NULL
    elif member == M_DELETE_HORIZON:
        if not horizon:
            return NULL
    elif member == M_MAX_TIMESTAMP:
        if not read.has_timestamps:
            return NULL
    elif member == M_LEADER_EPOCH:
        if not read.has_leader_epoch:
            return NULL
    elif member >= M_PRODUCER_ID and not read.has_producer_fields:
        return NULL
    return add_number(at, cell(batches, COLUMNS[member], row))


# What is the same in all records of one batch, cut at the members that differ.
cdef struct Piece:
    Py_ssize_t start
    Py_ssize_t size
    int member  # that stands behind the text; M_END: none
    const Cell *cell


cdef struct Rendered:
    Py_ssize_t batch
    bint timed
    bint wrapper
    int64_t base_offset
    int64_t base_sequence
    char *text
    Piece pieces[MOST_CELLS + 1]


cdef void render(
    const Cells *cells, const Cols *batches, Py_ssize_t batch, bint timed, bint says, Rendered *out
) noexcept nogil:
    """Write all that an entry's header says of its rows into `text`, which has room for it."""
    cdef const Format *read = format_at(cell(batches, B_LAYOUT, batch))
    cdef Piece *piece = out.pieces
    cdef const Cell *each
    cdef char *at = out.text
    cdef char *start = at
    cdef char *end
    cdef bint known
    cdef int i
    out.batch = batch
    out.timed = timed
    out.wrapper = read.is_legacy and cell(batches, B_FLAGS, batch) & WRAPPER != 0
    out.base_offset = cell(batches, B_BASE_OFFSET, batch)
    out.base_sequence = cell(batches, B_BASE_SEQUENCE, batch)
    for i in range(cells.count):
        each = &cells.cells[i]
        if each.member < M_OFFSET:
            end = add_part(at, &each.before)
            end = add_member(end, batches, batch, each.member, timed)
            at = add_part(at, &each.without) if end is NULL else add_part(end, &each.after)
            continue
        known = True
        if each.member == M_TIMESTAMP or each.member == M_TIME:
            known = timed
        elif each.member == M_SEQUENCE:
            known = read.has_producer_fields
        elif each.member == M_SAID:
            known = says or cell(batches, B_ATTRIBUTES, batch) & read.meant_bits & CONTROL_BIT
        if not known:
            at = add_part(at, &each.without)
            continue
        if each.member <= M_SEQUENCE:
            at = add_part(at, &each.before)
        piece.start = start - out.text
        piece.size = at - start
        piece.member = each.member
        piece.cell = each
        piece += 1
        start = at
        if each.member <= M_SEQUENCE:
            at = add_part(at, &each.after)
    piece.start = start - out.text
    piece.size = at - start
    piece.member = M_END


cdef inline bint has_time(const Cols *batches, Py_ssize_t batch, int64_t flags) noexcept nogil:
    """Say whether a record has a timestamp: its own magic decides inside a wrapper (F10, F15)."""
    cdef const Format *read = format_at(cell(batches, B_LAYOUT, batch))
    if read.is_legacy and cell(batches, B_FLAGS, batch) & WRAPPER:
        read = message_format(<uint64_t>flags >> INNER_MAGIC_SHIFT & 3)
    return read.has_timestamps


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


cdef inline int put_short(Out *out, const char *text, Py_ssize_t size) except -1 nogil:
    """Add text, mostly short, that may be read for KD_TEXT_SLACK bytes behind its end."""
    if PIECE - out.used < size + KD_TEXT_SLACK:
        return put(out, text, size)
    out.used = kd_copy_short(out.text + out.used, text, size) - out.text
    return 0


cdef inline int put_part(Out *out, const Part *part) except -1 nogil:
    return put_short(out, part.text, part.size)


cdef inline int put_digits(Out *out, int64_t number) except -1 nogil:
    room(out, WORD)
    out.used = add_number(out.text + out.used, number) - out.text
    return 0


cdef inline int put_data(
    Out *out, const uint8_t *p, Py_ssize_t size, const Form *form
) except -1 nogil:
    """Add a key or a value in the form's style."""
    if form.style == STYLE_JSON:
        return put_bytes(out, p, size, form.mode, form.spelling)
    if form.style == STYLE_CSV:
        return put_csv(out, p, size, form.mode, form.shown, form.safe)
    return put_text(out, p, size, form.spelling, True)


cdef int fit(Out *out, Py_ssize_t start, const Cell *each) except -1 nogil:
    """Cut what a cell of a table has from `start` on, or fill it up; else refuse the row."""
    cdef char *text = out.text + start
    cdef Py_ssize_t size = out.used - start
    cdef Py_ssize_t i
    cdef uint8_t every = 0
    for i in range(size):
        every |= <uint8_t>text[i]
    out.refused = out.refused or every >= 0x80 or (size > each.width and not each.most)
    if size > each.most > 0:
        out.used = add_text(text + each.most - 1, b"\xe2\x80\xa6", 3) - out.text
    elif size < each.width:
        if each.member == M_OFFSET:
            memmove(text + each.width - size, text, size)
            text -= size
        memset(text + size, b" ", each.width - size)
        out.used = start + each.width
    return 0


cdef int put_shown(
    Out *out, const uint8_t *p, Py_ssize_t size, const Form *form, const Cell *each
) except -1 nogil:
    """Add as much of a key or a value as a table may show; what looks like a mark is refused."""
    cdef Py_ssize_t start = out.used
    size = min(size, (each.most // 3 + 1) * 3)  # base64 has no padding inside
    if size > MOST_SHOWN or (size < 3 and (p[0] == b"?" or p[0] == b"'")):
        out.refused = True
        return 0
    if form.mode == BYTES_HEX:
        put_hex(out, p, size)
    elif form.mode == BYTES_BASE64:
        put_base64(out, p, size)
    else:
        put_text(out, p, size, form.spelling)
    return fit(out, start, each)


cdef int put_note(
    Out *out, const Cols *batches, const Cols *records, Py_ssize_t row, const Cell *each
) except -1 nogil:
    cdef int64_t batch = cell(records, R_BATCH, row)
    cdef const Format *read = format_at(cell(batches, B_LAYOUT, batch))
    cdef Py_ssize_t start = out.used
    cdef int64_t headers = cell(records, R_HEADERS_COUNT, row)
    if cell(batches, B_ATTRIBUTES, batch) & read.meant_bits & TRANSACTIONAL_BIT:
        put_word(out, b"txn " if headers > 0 else b"txn")
    if headers > 0:
        put_digits(out, headers)
        put_word(out, b"h")
    return fit(out, start, each)


cdef int put_header(
    Out *out, const Header *header, int64_t number, const Form *form, bint named
) except -1 nogil:
    """Add a header as JSON, or its name alone; as it is a cell of CSV, quotes are doubled."""
    cdef int mode = BYTES_UTF8 if form.mode == BYTES_AUTO else form.mode
    cdef int spelling = KD_JSON | form.spelling
    if number:
        put(out, b",", 1)
    if named:
        return put_text(out, header.key, header.key_size, form.spelling, True)
    if form.style == STYLE_CSV:
        spelling |= KD_DOUBLED
    put_word(out, b'{""key"":' if spelling & KD_DOUBLED else b'{"key":')
    put_bytes(out, header.key, header.key_size, mode, spelling)
    put_word(out, b',""value"":' if spelling & KD_DOUBLED else b',"value":')
    if header.value_size < 0:
        put(out, b"null", 4)
    else:
        put_bytes(out, header.value, header.value_size, form.mode, spelling)
    return put(out, b"}", 1)


cdef int put_headers(
    Out *out, const uint8_t *data, Py_ssize_t length, const Cols *records, Py_ssize_t row,
    const Form *form, const Cell *each,
) except -1 nogil:
    cdef const uint8_t *p
    cdef const uint8_t *end
    cdef int64_t count = cell(records, R_HEADERS_COUNT, row)
    cdef Header header
    cdef int64_t i
    if count <= 0 or not open_headers(data, length, records, row, &p, &end):
        return put_part(out, &each.without)
    put_part(out, &each.before)
    for i in range(count):
        if read_header(&p, end, &header):
            break
        put_header(out, &header, i, form, each.member == M_HEADER_NAMES)
    return put_part(out, &each.after)


cdef int put_marker(Out *out, const Marker *marker, const Form *form) except -1 nogil:
    """Add what a transaction marker says."""
    cdef char text[NUMBERS]
    cdef char *at = text
    if form.style == STYLE_KAFKA:
        at = add_name(at, b"endTxnMarker: COMMIT" if marker.commit else b"endTxnMarker: ABORT")
        at = add_name(at, b" coordinatorEpoch: ")
        at = add_number(at, marker.coordinator_epoch)
    else:
        at = add_marker(at, marker)
    if form.style == STYLE_CSV:
        return put_csv(out, <const uint8_t *>text, at - text, BYTES_UTF8, False, False)
    return put(out, text, at - text)


cdef inline bint marker_here(
    const uint8_t *data, Py_ssize_t length, const Cols *batches, const Cols *records,
    Py_ssize_t row, Marker *marker,
) noexcept nogil:
    cdef int64_t batch = cell(records, R_BATCH, row)
    cdef const Format *read = format_at(cell(batches, B_LAYOUT, batch))
    if not cell(records, R_FLAGS, row) & MARKER:
        return False
    if not cell(batches, B_ATTRIBUTES, batch) & read.meant_bits & CONTROL_BIT:
        return False
    return read_marker(data, length, records.block + row, records.stride, marker)


cdef int put_cell(
    Out *out, const uint8_t *data, Py_ssize_t length, const Cols *batches, const Cols *records,
    Py_ssize_t row, const Form *form, const Cell *each,
) except -1 nogil:
    """Add a member that each record has for itself, or what stands there in its absence."""
    cdef int64_t position, size, flags
    cdef PyObject *word
    cdef const char *text
    cdef Marker marker
    cdef bint bad
    if each.member == M_KEY or each.member == M_VALUE:
        if form.style == STYLE_KAFKA and (
            form.said is not NULL or marker_here(data, length, batches, records, row, &marker)
        ):
            return put_part(out, &each.without)  # what is said stands in place of the bytes
        position = R_KEY if each.member == M_KEY else R_VALUE
        size = cell(records, position + 1, row)
        position = cell(records, position, row)
        if not inside(position, size, length):
            return put_part(out, &each.without)
        if form.style == STYLE_TABLE:
            if size == 0:
                return put_part(out, &each.after)
            put_part(out, &each.before)
            return put_shown(out, data + position, size, form, each)
        put_part(out, &each.before)
        put_data(out, data + position, size, form)
        return put_part(out, &each.after)
    if each.member == M_NOTE:
        put_part(out, &each.before)
        return put_note(out, batches, records, row, each)
    if each.member == M_HEADERS or each.member == M_HEADER_NAMES:
        return put_headers(out, data, length, records, row, form, each)
    if each.member == M_MESSAGE_CRC:
        position = cell(records, R_POSITION, row)
        if not inside(position, SMALLEST_MESSAGE + 2, length):
            return put_part(out, &each.without)
        put_part(out, &each.before)
        put_digits(out, be32(data + position + LOG_OVERHEAD))
    elif each.member == M_MESSAGE_CRC_VALID:
        flags = cell(batches, B_FLAGS, cell(records, R_BATCH, row))
        bad = flags & CRC_BAD != 0
        if flags & WRAPPER:
            bad = cell(records, R_FLAGS, row) & INNER_CRC_BAD != 0
        put_part(out, &each.before)
        put_word(out, b"false" if bad else b"true")
    elif each.member == M_SAID:
        if form.said is NULL:
            if not marker_here(data, length, batches, records, row, &marker):
                return put_part(out, &each.without)
            put_part(out, &each.before)
            put_marker(out, &marker, form)
        else:
            with gil:
                word = <PyObject *>(<list>form.said)[row]  # the list holds it
                text = PyBytes_AS_STRING(<bytes>word)
                size = len(<bytes>word)
            put_part(out, &each.before)
            put(out, text, size)
    else:
        position = R_KEY if each.member == M_KEY_SIZE else R_VALUE
        size = cell(records, position + 1, row)
        if not inside(cell(records, position, row), size, length):
            return put_part(out, &each.without)
        put_part(out, &each.before)
        put_digits(out, size)
    return put_part(out, &each.after)


cdef int put_records(
    Out *out, const uint8_t *data, Py_ssize_t length, const Cols *batches, const Cols *records,
    const Rows *rows, Py_ssize_t *at, int64_t only, const Form *form, Rendered *texts,
) except -1 nogil:
    """Add records from the `at`th row on, as far as they belong to batch `only`; -1: all."""
    cdef bint is_table = form.style == STYLE_TABLE
    cdef Py_ssize_t start = 0
    cdef Py_ssize_t begun, row
    cdef int64_t batch, offset
    cdef const Piece *piece
    cdef char *end
    cdef bint timed
    while at[0] < rows.count:
        row = row_number(rows, at[0])
        batch = cell(records, R_BATCH, row)
        if only >= 0 and batch != only:
            return 0
        if is_table:
            out.refused = cell(records, R_FLAGS, row) & MARKER != 0
            room(out, form.line)
            start = out.used
        at[0] += 1
        if batch < 0 or batch >= batches.count:
            with gil:
                raise IndexError(batch)
        if batch != texts.batch or texts.wrapper:
            timed = has_time(batches, batch, cell(records, R_FLAGS, row))
            if batch != texts.batch or timed != texts.timed:
                render(
                    record_cells(form, batches, batch), batches, batch, timed,
                    form.said is not NULL, texts,
                )
        piece = texts.pieces
        offset = cell(records, R_OFFSET, row)
        while True:
            if is_table and piece.member == M_END:
                while out.used > start and out.text[out.used - 1] == b" ":
                    out.used -= 1
                out.text[out.used] = b"\n"
                out.used += 1
                break
            if PIECE - out.used < piece.size + WORD + KD_TEXT_SLACK:
                put(out, texts.text + piece.start, piece.size)
                room(out, WORD)
                end = out.text + out.used
            else:
                end = kd_copy_short(out.text + out.used, texts.text + piece.start, piece.size)
            begun = end - out.text
            if piece.member == M_OFFSET:
                end = add_number(end, offset)
            elif piece.member == M_TIMESTAMP:
                end = add_number(end, cell(records, R_TIMESTAMP, row))
            elif piece.member == M_TIME:
                end = add_time(end, cell(records, R_TIMESTAMP, row))
            elif piece.member == M_SEQUENCE:
                end = add_number(
                    end, sequence_of(texts.base_sequence, subtract(offset, texts.base_offset))
                )
            out.used = end - out.text
            if is_table and piece.member <= M_SEQUENCE:
                fit(out, begun, piece.cell)
            if piece.member > M_SEQUENCE:
                if piece.member == M_END:
                    break
                put_cell(out, data, length, batches, records, row, form, piece.cell)
            piece += 1
        if out.refused:
            out.used = start
            at[0] -= 1
            return 0
    return 0


cdef inline const Cells *record_cells(
    const Form *form, const Cols *batches, Py_ssize_t batch
) noexcept nogil:
    if format_at(cell(batches, B_LAYOUT, batch)).is_legacy:
        return &form.message
    return &form.record


cdef int put_entry(
    Out *out, const Cols *batches, Py_ssize_t row, const Form *form, Rendered *texts
) except -1 nogil:
    cdef const Format *read = format_at(cell(batches, B_LAYOUT, row))
    cdef const Cells *cells = &form.message_batch if read.is_legacy else &form.batch
    render(cells, batches, row, read.has_timestamps, False, texts)
    return put_short(out, texts.text, texts.pieces[0].size)


cdef int open_texts(Form *form, Rendered *out) except -1:
    """Make room for all that a batch may say, whichever cells it is asked for."""
    cdef Py_ssize_t records = max(form.record.most_text, form.message.most_text)
    cdef Py_ssize_t batches = max(form.batch.most_text, form.message_batch.most_text)
    out.batch = -1
    out.timed = out.wrapper = False
    out.text = <char *>malloc(max(records, batches) + KD_TEXT_SLACK)
    if out.text is NULL:
        raise MemoryError
    return 0


def format_records(
    object write,
    object data,
    object batches,
    object records,
    object rows,
    object form,
    list said=None,
    object headed=None,
):
    """Write the rows of records and return how many."""
    cdef Py_buffer buffer, batch_buffer, record_buffer, row_buffer, head_buffer
    cdef Cols batch_columns, record_columns
    cdef Rows numbers, heads
    cdef Rendered texts, head_texts
    cdef Form cells
    cdef Out out
    cdef Py_ssize_t i, row
    cdef Py_ssize_t at = 0
    cdef bint has_heads = headed is not None
    if said is not None and len(said) < records.count:
        raise ValueError(said)
    cells.texts = texts.text = head_texts.text = NULL
    out.piece = NULL
    no_buffer(&buffer)
    no_buffer(&batch_buffer)
    no_buffer(&record_buffer)
    no_buffer(&row_buffer)
    no_buffer(&head_buffer)
    try:
        open_form(form, said, &cells)
        open_texts(&cells, &texts)
        open_texts(&cells, &head_texts)
        PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
        open_columns(batches, BATCH_WIDTH, &batch_buffer, &batch_columns)
        open_columns(records, RECORD_WIDTH, &record_buffer, &record_columns)
        open_rows(rows, record_columns.count, &row_buffer, &numbers)
        if has_heads:
            open_rows(headed, batch_columns.count, &head_buffer, &heads)
        open_out(&out, write)
        with nogil:
            if not has_heads:
                put_records(
                    &out, <const uint8_t *>buffer.buf, buffer.len, &batch_columns,
                    &record_columns, &numbers, &at, -1, &cells, &texts,
                )
            else:
                for i in range(heads.count):
                    row = row_number(&heads, i)
                    put_entry(&out, &batch_columns, row, &cells, &head_texts)
                    put_records(
                        &out, <const uint8_t *>buffer.buf, buffer.len, &batch_columns,
                        &record_columns, &numbers, &at, row, &cells, &texts,
                    )
        hand_over(&out)
    finally:
        free(cells.texts)
        free(texts.text)
        free(head_texts.text)
        Py_XDECREF(out.piece)
        PyBuffer_Release(&head_buffer)
        PyBuffer_Release(&row_buffer)
        PyBuffer_Release(&record_buffer)
        PyBuffer_Release(&batch_buffer)
        PyBuffer_Release(&buffer)
    return at


NO_RECORDS = DecodedRecords.empty(RECORD_WIDTH)


def format_batches(object write, object batches, object rows, object form):
    """Write the rows of batches and return how many."""
    if rows is None:
        rows = array("q", range(batches.count))
    format_records(write, b"", batches, NO_RECORDS, None, form, None, rows)
    return len(rows)
