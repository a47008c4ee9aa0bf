# Spell bytes and text as a form of rows wants them, in pieces of bounded size.

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
    char *kd_copy_row(char *at, const char *text, size_t n)
    char *kd_copy_text(char *at, const uint8_t **p, size_t n, int spelling)
    char *kd_copy_json(char *at, const uint8_t **p, const uint8_t *end, const uint8_t *limit)


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

cdef const char *HEX = b"0123456789abcdef"
cdef const char *BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
cdef const char *DIGITS = (
    b"00010203040506070809101112131415161718192021222324252627282930313233343536373839"
    b"40414243444546474849505152535455565758596061626364656667686970717273747576777879"
    b"8081828384858687888990919293949596979899"
)


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


cdef struct Number:
    int64_t number  # that was written last
    int64_t hundreds  # of it, where there are any; else 0
    int64_t shown  # what ends at `place`
    char *place
    int size
    char text[WORD]


cdef inline char *add_near(char *at, Number *last, int64_t number) noexcept nogil:
    """Add a number that is mostly that before, or close to it, in room for a WORD."""
    cdef uint64_t within = <uint64_t>number - <uint64_t>last.hundreds
    if number != last.number:
        last.number = number
        if within < 100 and last.hundreds > 0:
            memcpy(last.text + last.size - 2, DIGITS + 2 * within, 2)
        else:
            last.size = <int>(add_number(last.text, number) - last.text)
            # Not near the largest number, behind which wrapped ones go on.
            last.hundreds = number - number % 100 if 100 <= number < <int64_t>1 << 62 else 0
    memcpy(at, last.text, WORD)
    return at + last.size


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


cdef char *add_spelled(
    char *at, const uint8_t **text, const uint8_t *stop, const uint8_t *end, int spelling,
    bint as_java, bint strict,
) noexcept nogil:
    """Add text up to `stop`, in room for six times as much and a character; move on in it.

    What is not UTF-8 becomes U+FFFD, or, if `strict`, ends it: NULL. The text goes on to `end`.
    """
    cdef const uint8_t *p = text[0]
    cdef int step
    while p < stop:
        if p[0] < 0x80:
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
            return NULL
        else:
            at = add_text(at, b"\xef\xbf\xbd", 3)
        p += abs(step)
    text[0] = p
    return at


cdef int put_text(
    Out *out, const uint8_t *p, Py_ssize_t size, int spelling, bint as_java=False,
    bint strict=False,
) except -1 nogil:
    """Add text in a spelling; what is not UTF-8 becomes U+FFFD, or, if `strict`, ends it: 1."""
    cdef const uint8_t *end = p + size
    cdef const uint8_t *stop
    cdef char *at
    while p < end:
        stop = p + min(end - p, <Py_ssize_t>STRING_BLOCK)
        room(out, 6 * (stop - p) + 8 + KD_TEXT_SLACK)
        at = kd_copy_text(out.text + out.used, &p, stop - p, spelling)
        if p < stop:
            at = add_spelled(at, &p, stop, end, spelling, as_java, strict)
        if at is NULL:
            return 1
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


cdef char *add_base64(char *at, const uint8_t *p, Py_ssize_t size) noexcept nogil:
    """Write base64 where there is room for it, and return the place behind it."""
    cdef uint32_t bits
    while size >= 3:
        bits = <uint32_t>p[0] << 16 | <uint32_t>p[1] << 8 | p[2]
        at[0] = BASE64[bits >> 18]
        at[1] = BASE64[bits >> 12 & 63]
        at[2] = BASE64[bits >> 6 & 63]
        at[3] = BASE64[bits & 63]
        at += 4
        p += 3
        size -= 3
    if size:
        bits = <uint32_t>p[0] << 16
        if size == 2:
            bits |= <uint32_t>p[1] << 8
        at[0] = BASE64[bits >> 18]
        at[1] = BASE64[bits >> 12 & 63]
        at[2] = BASE64[bits >> 6 & 63] if size == 2 else b"="
        at[3] = b"="
        at += 4
    return at


cdef int put_base64(Out *out, const uint8_t *p, Py_ssize_t size) except -1 nogil:
    cdef Py_ssize_t part
    while size:
        part = min(size, <Py_ssize_t>BINARY_BLOCK)
        size -= part
        room(out, (part + 2) // 3 * 4)
        out.used = add_base64(out.text + out.used, p, part) - out.text
        p += part
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
