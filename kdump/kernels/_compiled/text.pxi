# Write records and batches as text, in any form.

cdef enum:
    STYLE_JSON, STYLE_CSV, STYLE_KAFKA, STYLE_TABLE
    MOST_CELLS = 32
    NUMBERS = 1024  # more than all that a transaction marker says
    MOST_SHOWN = 1 << 13  # bytes of a key or a value in a cell of a table
    MOST_HEADERS = 16  # of a record that add_record writes
    MOST_PLAIN = 32 * MOST_HEADERS + 4 * KD_TEXT_SLACK  # around its headers, and behind its end

cdef const char *CODECS[8]
CODECS[:] = [
    b"none", b"gzip", b"snappy", b"lz4", b"zstd", b"unknown-5", b"unknown-6", b"unknown-7",
]


cdef char *add_marker(char *at, const Marker *marker) noexcept nogil:
    """Add what a transaction marker says, as JSON of less than NUMBERS bytes."""
    at = add_name(at, b'{"type":"COMMIT' if marker.commit else b'{"type":"ABORT')
    at = add_text(at, b'","version":', 12)
    at = add_number(at, marker.version)
    at = add_text(at, b',"coordinator_epoch":', 21)
    at = add_number(at, marker.coordinator_epoch)
    return add_text(at, b"}", 1)


cdef inline int64_t sequence_of(int64_t base, int64_t delta) noexcept nogil:
    """Return base sequence + offset delta, which wraps from 2^31-1 to 0; -1 for none (F24)."""
    return -1 if base < 0 else add(base, delta) & 0x7FFFFFFF


# The members that a cell may hold: first those of a batch, then those that each record has.
cdef enum:
    M_POSITION, M_SIZE, M_MAGIC, M_CODEC, M_BASE_OFFSET, M_LAST_OFFSET, M_RECORDS_COUNT, M_CRC,
    M_CRC_VALID, M_TIMESTAMP_TYPE, M_BASE_TIMESTAMP, M_MAX_TIMESTAMP, M_LEADER_EPOCH,
    M_PRODUCER_ID, M_PRODUCER_EPOCH, M_BASE_SEQUENCE, M_LAST_SEQUENCE, M_TRANSACTIONAL, M_CONTROL,
    M_DELETE_HORIZON,
    M_OFFSET, M_TIMESTAMP, M_TIME, M_SEQUENCE, M_MESSAGE_CRC, M_MESSAGE_CRC_VALID, M_KEY_SIZE,
    M_VALUE_SIZE, M_KEY, M_VALUE, M_HEADERS, M_HEADER_NAMES, M_SAID, M_NOTE,
    M_INNER_CRC_VALID, M_INNER_CODEC, M_END

cdef tuple MEMBERS = (
    "position", "size_bytes", "magic", "codec", "base_offset", "last_offset", "records_count", "crc",
    "crc_valid", "timestamp_type", "base_timestamp_ms", "max_timestamp_ms", "leader_epoch",
    "producer_id", "producer_epoch", "base_sequence", "last_sequence", "transactional", "control",
    "delete_horizon_ms",
    "offset", "timestamp_ms", "time", "sequence", "message_crc", "message_crc_valid", "key_size",
    "value_size", "key", "value", "headers", "header_names", "said", "note",
    "inner_crc_valid", "inner_codec",
)
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
    Py_ssize_t plain  # the room that add_record needs besides bytes; 0: it cannot write this form
    PyObject *said  # a list parallel to the records, or NULL
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


cdef bint is_plain(const Cells *cells) noexcept nogil:
    """Whether add_record knows all cells of records: numbers first, and each once."""
    cdef uint64_t seen = 0
    cdef int i, member
    for i in range(cells.count):
        member = cells.cells[i].member
        if member < M_OFFSET:
            continue
        if seen >> member & 1 or (member <= M_SEQUENCE and seen >> (M_SEQUENCE + 1)):
            return False
        if member in (M_TIME, M_MESSAGE_CRC, M_MESSAGE_CRC_VALID, M_KEY_SIZE, M_VALUE_SIZE):
            return False
        if member == M_HEADER_NAMES or member == M_NOTE:
            return False
        seen |= <uint64_t>1 << member
    return True


cdef bytes open_form(object form, list said, Form *out):
    """Take a form; return what holds the texts of its cells, with room to read behind them."""
    cdef tuple record = form.record
    cdef tuple message = form.message
    cdef tuple batch = form.batch
    cdef tuple message_batch = form.message_batch
    cdef bytes texts = PyBytes_FromStringAndSize(
        NULL,
        size_of(record) + size_of(message) + size_of(batch) + size_of(message_batch)
        + KD_TEXT_SLACK,
    )
    cdef char *at = PyBytes_AS_STRING(texts)
    out.said = NULL if said is None else <PyObject *>said
    out.style = form.style
    out.mode = form.bytes_mode
    out.shown = form.shown
    out.safe = form.safe
    out.spelling = KD_SHOWN if out.shown else 0
    if out.style == STYLE_JSON:
        out.spelling |= KD_JSON
    at = open_cells(record, at, &out.record)
    at = open_cells(message, at, &out.message)
    at = open_cells(batch, at, &out.batch)
    open_cells(message_batch, at, &out.message_batch)
    out.plain = 0
    if out.style == STYLE_JSON and out.mode == BYTES_AUTO and out.spelling == KD_JSON:
        if said is None and is_plain(&out.record) and is_plain(&out.message):
            out.plain = max(out.record.most_text, out.message.most_text) + MOST_PLAIN
    if out.plain > PIECE >> 2:
        out.plain = 0
    out.line = 0
    if out.style == STYLE_TABLE:
        out.line = max(out.record.most_text, out.message.most_text) + 8 * MOST_SHOWN
    if out.line > PIECE:
        raise ValueError(form)
    return texts


cdef class OpenForm:
    """A form that was taken, and what holds its texts."""

    cdef object form
    cdef bytes texts
    cdef Form cells


cdef OpenForm LAST_FORM = None  # pieces of a log are written in the same form one after the other


cdef OpenForm take_form(object form, list said):
    """Return a form for the kernel: the last one again, if it is the same object."""
    global LAST_FORM
    cdef OpenForm taken = LAST_FORM
    if said is None and taken is not None and taken.form is form:
        return taken
    taken = OpenForm()
    taken.form = form
    taken.texts = open_form(form, said, &taken.cells)
    if said is None:
        LAST_FORM = taken
    return taken


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
    const char *text
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
    Number offset, timestamp, sequence
    char *row  # how add_record's last row begins, up to what stands behind its numbers
    Py_ssize_t row_size
    const Piece *behind  # the piece that stands there; NULL while there is no such row
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
    out.behind = NULL
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
        piece.text = start
        piece.size = at - start
        piece.member = each.member
        piece.cell = each
        piece += 1
        start = at
        if each.member <= M_SEQUENCE:
            at = add_part(at, &each.after)
    piece.text = start
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
    Out *out, const uint8_t *p, Py_ssize_t size, const Form *form, bint is_json
) except -1 nogil:
    """Add a key or a value in the form's style; `is_json`: it is JSON text already."""
    if form.style == STYLE_JSON:
        if is_json:
            return put(out, p, size)
        return put_bytes(out, p, size, form.mode, form.spelling)
    if form.style == STYLE_CSV:
        return put_csv(out, p, size, BYTES_AUTO if is_json else form.mode, form.shown, form.safe)
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
    Out *out, const uint8_t *p, Py_ssize_t size, const Form *form, const Cell *each, bint is_json
) except -1 nogil:
    """Add as much of a key or a value as a table may show; what looks like a mark is refused."""
    cdef Py_ssize_t start = out.used
    size = min(size, (each.most // 3 + 1) * 3)  # base64 has no padding inside
    if size > MOST_SHOWN or (size < 3 and (p[0] == b"?" or p[0] == b"'")):
        out.refused = True
        return 0
    if form.mode == BYTES_HEX and not is_json:
        put_hex(out, p, size)
    elif form.mode == BYTES_BASE64 and not is_json:
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
    cdef int spelling = KD_JSON | form.spelling
    if number:
        put(out, b",", 1)
    if named:
        return put_text(out, header.key, header.key_size, form.spelling, True)
    if form.style == STYLE_CSV:
        spelling |= KD_DOUBLED
    put_word(out, b'{""key"":' if spelling & KD_DOUBLED else b'{"key":')
    put_bytes(out, header.key, header.key_size, form.mode, spelling)
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
        flags = cell(records, R_FLAGS, row) & (KEY_JSON if each.member == M_KEY else VALUE_JSON)
        position = R_KEY if each.member == M_KEY else R_VALUE
        size = cell(records, position + 1, row)
        position = cell(records, position, row)
        if not inside(position, size, length):
            return put_part(out, &each.without)
        if form.style == STYLE_TABLE:
            if size == 0:
                return put_part(out, &each.after)
            put_part(out, &each.before)
            return put_shown(out, data + position, size, form, each, flags != 0)
        put_part(out, &each.before)
        put_data(out, data + position, size, form, flags != 0)
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
    elif each.member == M_INNER_CRC_VALID:
        if not cell(records, R_FLAGS, row) & INNER_CRC_BAD:
            return put_part(out, &each.without)
        put_part(out, &each.before)
        put_word(out, b"false")
    elif each.member == M_INNER_CODEC:
        flags = cell(records, R_FLAGS, row) >> INNER_CODEC_SHIFT & CODEC_BITS
        if not flags:
            return put_part(out, &each.without)
        put_part(out, &each.before)
        put_word(out, CODECS[flags])
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


cdef inline char *add_string(
    char *at, const uint8_t *p, Py_ssize_t size, const uint8_t *limit
) noexcept nogil:
    """Add bytes as a string of JSON; NULL where they are not UTF-8. All up to `limit` is readable."""
    cdef const uint8_t *end = p + size
    at[0] = b'"'
    at = kd_copy_json(at + 1, &p, end, limit)
    if p != end:
        at = add_spelled(at, &p, end, end, KD_JSON, False, True)
        if at is NULL:
            return NULL
    at[0] = b'"'
    return at + 1


cdef inline char *add_bytes(
    char *at, const uint8_t *data, Py_ssize_t length, int64_t position, int64_t size,
    const Cell *each,
) noexcept nogil:
    """Add a key or a value; NULL where it is not UTF-8."""
    if not inside(position, size, length):
        return add_part(at, &each.without)
    at = add_part(at, &each.before)
    at = add_string(at, data + position, size, data + length)
    return at if at is NULL or not each.after.size else add_part(at, &each.after)


cdef char *add_headers(
    char *at, const uint8_t *data, Py_ssize_t length, const Cols *records, Py_ssize_t row,
    const Cell *each,
) noexcept nogil:
    """Add the headers of a record; NULL where one is not UTF-8."""
    cdef const uint8_t *p
    cdef const uint8_t *end
    cdef Header header
    cdef int64_t i
    if not open_headers(data, length, records, row, &p, &end):
        return add_part(at, &each.without)
    at = add_part(at, &each.before)
    for i in range(cell(records, R_HEADERS_COUNT, row)):
        if read_header(&p, end, &header):
            break
        at = add_text(at, b',{"key":', 8) if i else add_text(at, b'{"key":', 7)
        at = add_string(at, header.key, header.key_size, data + length)
        if at is NULL:
            return NULL
        at = add_text(at, b',"value":', 9)
        if header.value_size < 0:
            at = add_text(at, b"null", 4)
        else:
            at = add_string(at, header.value, header.value_size, data + length)
            if at is NULL:
                return NULL
        at = add_text(at, b"}", 1)
    return add_part(at, &each.after)


cdef inline Py_ssize_t room_of(
    const Cols *records, Py_ssize_t row, const Form *form
) noexcept nogil:
    """Return the room that add_record needs for a record; 0 for one that it cannot write."""
    cdef int64_t key = max(<int64_t>0, cell(records, R_KEY_SIZE, row))
    cdef int64_t value = max(<int64_t>0, cell(records, R_VALUE_SIZE, row))
    cdef int64_t headers = cell(records, R_HEADERS_COUNT, row)
    cdef int64_t size = 0
    if cell(records, R_FLAGS, row) & (MARKER | INNER_MARKS | KEY_JSON | VALUE_JSON):
        return 0
    if headers > 0:
        size = cell(records, R_SIZE, row)
    if key > STRING_BLOCK or value > STRING_BLOCK or headers > MOST_HEADERS:
        return 0
    if not 0 <= size <= STRING_BLOCK:
        return 0
    return form.plain + 6 * (key + value + size)


cdef inline char *add_renewable(char *at, Number *last, int64_t number) noexcept nogil:
    """Add a number that is to be renewed where it stands."""
    last.shown = number
    last.place = add_near(at, last, number)
    return last.place


cdef inline bint renew(Number *last, int64_t number) noexcept nogil:
    """Put a number in place of that before; False where more than two digits may differ."""
    cdef uint64_t within = <uint64_t>number - <uint64_t>last.hundreds
    if last.place is NULL or number == last.shown:
        return True
    if within >= 100 or last.hundreds <= 0:
        return False
    last.shown = number
    memcpy(last.place - 2, DIGITS + 2 * within, 2)
    return True


cdef void begin_row(
    Rendered *texts, int64_t offset, int64_t timestamp, int64_t sequence
) noexcept nogil:
    """Write the beginning of a row, which mostly differs by few digits from the next one's."""
    cdef const Piece *piece = texts.pieces
    cdef char *at = texts.row
    texts.offset.place = texts.timestamp.place = texts.sequence.place = NULL
    while True:
        at = kd_copy_short(at, piece.text, piece.size)
        if piece.member == M_OFFSET:
            at = add_renewable(at, &texts.offset, offset)
        elif piece.member == M_TIMESTAMP:
            at = add_renewable(at, &texts.timestamp, timestamp)
        elif piece.member == M_SEQUENCE:
            at = add_renewable(at, &texts.sequence, sequence)
        else:
            break
        piece += 1
    texts.behind = piece
    texts.row_size = at - texts.row


cdef char *add_record(
    char *at, const uint8_t *data, Py_ssize_t length, const Cols *records, Py_ssize_t row,
    Rendered *texts,
) noexcept nogil:
    """Add a row of JSON in the room that it needs; NULL where bytes are not UTF-8."""
    cdef const Piece *piece
    cdef const int64_t *record = records.block + row
    cdef Py_ssize_t stride = records.stride
    cdef int64_t offset = record[R_OFFSET * stride]
    cdef int64_t timestamp = record[R_TIMESTAMP * stride]
    cdef int64_t sequence = sequence_of(texts.base_sequence, subtract(offset, texts.base_offset))
    if texts.behind is NULL or not (
        renew(&texts.offset, offset)
        and renew(&texts.timestamp, timestamp)
        and renew(&texts.sequence, sequence)
    ):
        begin_row(texts, offset, timestamp, sequence)
    at = kd_copy_row(at, texts.row, texts.row_size)
    piece = texts.behind
    while piece.member != M_END:
        if piece.member == M_KEY:
            at = add_bytes(
                at, data, length, record[R_KEY * stride], record[R_KEY_SIZE * stride], piece.cell
            )
        elif piece.member == M_VALUE:
            at = add_bytes(
                at, data, length, record[R_VALUE * stride], record[R_VALUE_SIZE * stride],
                piece.cell,
            )
        elif piece.member == M_HEADERS and record[R_HEADERS_COUNT * stride] > 0:
            at = add_headers(at, data, length, records, row, piece.cell)
        else:
            at = add_part(at, &piece.cell.without)
        if at is NULL:
            return NULL
        piece += 1
        if piece.size:
            at = kd_copy_short(at, piece.text, piece.size)
    return at


cdef int put_records(
    Out *out, const uint8_t *data, Py_ssize_t length, const Cols *batches, const Cols *records,
    const Rows *rows, Py_ssize_t *at, int64_t only, const Form *form, Rendered *texts,
) except -1 nogil:
    """Add records from the `at`th row on, as far as they belong to batch `only`; -1: all."""
    cdef bint is_table = form.style == STYLE_TABLE
    cdef Py_ssize_t start = 0
    cdef Py_ssize_t begun, needed, row
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
            out.refused = cell(records, R_FLAGS, row) & (MARKER | INNER_MARKS) != 0
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
        needed = room_of(records, row, form) if form.plain else 0
        if needed:
            room(out, needed)
            end = add_record(out.text + out.used, data, length, records, row, texts)
            if end is not NULL:
                out.used = end - out.text
                continue
        texts.behind = NULL
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
                put(out, piece.text, piece.size)
                room(out, WORD)
                end = out.text + out.used
            else:
                end = kd_copy_short(out.text + out.used, piece.text, piece.size)
            begun = end - out.text
            if piece.member == M_OFFSET:
                end = add_near(end, &texts.offset, offset)
            elif piece.member == M_TIMESTAMP:
                end = add_near(end, &texts.timestamp, cell(records, R_TIMESTAMP, row))
            elif piece.member == M_TIME:
                end = add_time(end, cell(records, R_TIMESTAMP, row))
            elif piece.member == M_SEQUENCE:
                offset = sequence_of(texts.base_sequence, subtract(offset, texts.base_offset))
                end = add_near(end, &texts.sequence, offset)
                offset = cell(records, R_OFFSET, row)
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


cdef bytes open_texts(const Form *form, Rendered *out):
    """Make room for all that a batch may say, whichever cells it is asked for, and return it."""
    cdef Py_ssize_t records = max(form.record.most_text, form.message.most_text)
    cdef Py_ssize_t batches = max(form.batch.most_text, form.message_batch.most_text)
    cdef Py_ssize_t most = max(records, batches) + 2 * KD_TEXT_SLACK
    cdef bytes text = PyBytes_FromStringAndSize(NULL, 2 * most)
    out.batch = -1
    out.behind = NULL
    out.timed = out.wrapper = False
    out.offset.number = out.timestamp.number = out.sequence.number = 0
    out.offset.hundreds = out.timestamp.hundreds = out.sequence.hundreds = 0
    out.offset.size = out.timestamp.size = out.sequence.size = 1
    out.offset.text[0] = out.timestamp.text[0] = out.sequence.text[0] = b"0"
    out.text = PyBytes_AS_STRING(text)
    out.row = out.text + most
    return text


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
    cdef Cols batch_columns, record_columns
    cdef Held held = hold(data)
    cdef Held of_batches = hold_columns(batches, BATCH_WIDTH, &batch_columns)
    cdef Held of_records = hold_columns(records, RECORD_WIDTH, &record_columns)
    cdef Rows numbers, heads
    cdef Held of_rows = hold_rows(rows, record_columns.count, &numbers)
    cdef Held of_heads = hold_rows(headed, batch_columns.count, &heads)
    cdef Rendered texts, head_texts
    cdef OpenForm taken = take_form(form, said)
    cdef const Form *cells = &taken.cells
    cdef bytes room_of_records = open_texts(cells, &texts)
    cdef bytes room_of_heads = open_texts(cells, &head_texts)
    cdef Out out
    cdef Py_ssize_t i, row
    cdef Py_ssize_t at = 0
    cdef bint has_heads = headed is not None
    if said is not None and len(said) < records.count:
        raise ValueError(said)
    open_out(&out, write)
    try:
        with nogil:
            if not has_heads:
                put_records(
                    &out, held.p, held.size, &batch_columns, &record_columns, &numbers, &at, -1,
                    cells, &texts,
                )
            else:
                for i in range(heads.count):
                    row = row_number(&heads, i)
                    put_entry(&out, &batch_columns, row, cells, &head_texts)
                    put_records(
                        &out, held.p, held.size, &batch_columns, &record_columns, &numbers, &at,
                        row, cells, &texts,
                    )
        hand_over(&out)
    finally:
        Py_XDECREF(out.piece)
    return at


NO_RECORDS = DecodedRecords.empty(RECORD_WIDTH)


def format_batches(object write, object batches, object rows, object form):
    """Write the rows of batches and return how many."""
    if rows is None:
        rows = array("q", range(batches.count))
    format_records(write, b"", batches, NO_RECORDS, None, form, None, rows)
    return len(rows)
