# Gather records into buffers that become Arrow columns.

cdef enum:
    MAX_INT32 = 0x7FFFFFFF

# In the order of gathered.py, so with its numbers.
cdef enum:
    G_CODEC, G_TIMESTAMP_TYPE, G_SEQUENCE, G_TRANSACTIONAL, G_MODERN, G_TIMED, G_KEY_ENDS,
    G_KEY_VALID, G_KEYS, G_VALUE_ENDS, G_VALUE_VALID, G_VALUES, G_LISTS, G_NAME_ENDS, G_NAMES,
    G_CONTENT_ENDS, G_CONTENT_VALID, G_CONTENTS, G_CONTROL_ENDS, G_CONTROL_VALID, G_CONTROLS,
    GATHERED_WIDTH

cdef enum:
    MOST_COPIES = 40
    MOST_BUFFERS = 61

cdef enum:
    N_ROWS, N_HEADERS, N_KEYS_NULL, N_VALUES_NULL, N_CONTENTS_NULL, N_OLD, N_UNTIMED,
    N_CONTROLS_NULL, COUNTS


cdef struct Copy:
    int column
    bint of_record


cdef struct Room:
    uint8_t *at[MOST_BUFFERS]
    Py_ssize_t size[MOST_BUFFERS]
    int bits[MOST_BUFFERS]
    Copy copies[MOST_COPIES]
    int copies_count
    Py_ssize_t rows
    Py_ssize_t headers
    int64_t counts[COUNTS]


cdef enum:  # a bit for each buffer
    ENDS = (
        1 << G_KEY_ENDS | 1 << G_VALUE_ENDS | 1 << G_LISTS | 1 << G_NAME_ENDS
        | 1 << G_CONTENT_ENDS | 1 << G_CONTROL_ENDS
    )
    OF_HEADERS = 1 << G_NAME_ENDS | 1 << G_CONTENT_ENDS | 1 << G_CONTENT_VALID


cdef inline bint among(uint64_t buffers, int k) noexcept nogil:
    return buffers >> k & 1


cdef bint measure_room(Room *room) noexcept nogil:
    """Find how many rows and headers have room; False if there are more already."""
    cdef Py_ssize_t items
    cdef int k
    room.rows = room.headers = MAX_INT32
    for k in range(GATHERED_WIDTH + room.copies_count):
        if room.bits[k]:
            items = min(room.size[k], <Py_ssize_t>1 << 40) * 8 // room.bits[k] - among(ENDS, k)
            if among(OF_HEADERS, k):
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


cdef inline Py_ssize_t name_size(const uint8_t *p, Py_ssize_t size) noexcept nogil:
    """Return the size of a header's name as text: as it is, or marked and in base64."""
    return size if likely(is_utf8(p, size)) else 7 + (size + 2) // 3 * 4


cdef inline bint put_name(
    Room *room, Py_ssize_t i, const uint8_t *p, Py_ssize_t size
) noexcept nogil:
    cdef Py_ssize_t start = start_of(room, G_NAME_ENDS, i)
    cdef Py_ssize_t end
    cdef char *at
    if likely(is_utf8(p, size)):
        return put_item(room, G_NAMES, G_NAME_ENDS, i, p, size)
    end = start + name_size(p, size)
    if start < 0 or end > min(room.size[G_NAMES], <Py_ssize_t>MAX_INT32):
        return False
    at = <char *>room.at[G_NAMES] + start
    memcpy(at, b"base64:", 7)
    add_base64(at + 7, p, size)
    (<int32_t *>room.at[G_NAME_ENDS])[i + 1] = <int32_t>end
    return True


# What rows of one batch have in common.
cdef struct Common:
    int64_t batch
    int64_t attributes
    int64_t base_offset
    int64_t base_sequence
    bint modern
    bint timed
    bint transactional
    bint wrapper


cdef void read_common(const Cols *batches, Py_ssize_t batch, Common *out) noexcept nogil:
    cdef const Format *read = format_at(cell(batches, B_LAYOUT, batch))
    out.batch = batch
    out.attributes = cell(batches, B_ATTRIBUTES, batch)
    out.base_offset = cell(batches, B_BASE_OFFSET, batch)
    out.modern = read.has_producer_fields
    out.timed = read.has_timestamps
    out.transactional = out.attributes & read.meant_bits & TRANSACTIONAL_BIT != 0
    out.wrapper = read.is_legacy and cell(batches, B_FLAGS, batch) & WRAPPER != 0
    out.base_sequence = cell(batches, B_BASE_SEQUENCE, batch) if out.modern else -1


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
    cdef Marker marker
    cdef char text[NUMBERS]
    cdef Py_ssize_t i, row, headers, nulls, told
    cdef Py_ssize_t n = <Py_ssize_t>room.counts[N_ROWS]
    cdef int64_t batch, position, size, key_size
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
        told = 0
        if cell(records, R_FLAGS, row) & MARKER and read_marker(
            data, length, records.block + row, records.stride, &marker
        ):
            told = add_marker(text, &marker) - text
        if not put_item(room, G_CONTROLS, G_CONTROL_ENDS, n, <const uint8_t *>text, told):
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
        put_bit(room.at[G_CONTROL_VALID], n, told > 0)
        room.counts[N_CONTROLS_NULL] += told == 0
        room.counts[N_KEYS_NULL] += key_size < 0
        room.counts[N_VALUES_NULL] += size < 0
        timed = common.timed
        if common.wrapper:
            timed = cell(records, R_FLAGS, row) >> INNER_MAGIC_SHIFT & 3 == 1
        (<int32_t *>room.at[G_CODEC])[n] = common.attributes & CODEC_BITS
        (<int32_t *>room.at[G_TIMESTAMP_TYPE])[n] = common.attributes & LOG_APPEND_TIME != 0
        (<int32_t *>room.at[G_SEQUENCE])[n] = <int32_t>sequence_of(
            common.base_sequence, subtract(cell(records, R_OFFSET, row), common.base_offset)
        )
        put_bit(room.at[G_TRANSACTIONAL], n, common.transactional)
        put_bit(room.at[G_MODERN], n, common.modern)
        put_bit(room.at[G_TIMED], n, timed)
        room.counts[N_OLD] += not common.modern
        room.counts[N_UNTIMED] += not timed
        n += 1
        room.counts[N_ROWS] = n
    return rows.count


cdef inline void put_number(uint8_t *out, int bits, Py_ssize_t i, int64_t value) noexcept nogil:
    if bits == 64:
        (<int64_t *>out)[i] = value
    elif bits == 32:
        (<int32_t *>out)[i] = <int32_t>value
    elif bits == 16:
        (<int16_t *>out)[i] = <int16_t>value
    else:
        (<int8_t *>out)[i] = <int8_t>value


cdef void copy_columns(
    Room *room, const Cols *batches, const Cols *records, const Rows *rows, Py_ssize_t first,
    Py_ssize_t had, Py_ssize_t taken,
) noexcept nogil:
    """Copy columns as they stand for `taken` rows, column by column, behind those there were."""
    cdef const int64_t *of_batch = records.block + R_BATCH * records.stride
    cdef const int64_t *values
    cdef uint8_t *out
    cdef int k, column, bits
    cdef Py_ssize_t i
    for k in range(room.copies_count):
        column = room.copies[k].column
        bits = room.bits[GATHERED_WIDTH + k]
        out = room.at[GATHERED_WIDTH + k] + had * (bits // 8)
        if not room.copies[k].of_record:
            values = batches.block + column * batches.stride
            for i in range(taken):
                put_number(out, bits, i, values[of_batch[row_number(rows, first + i)]])
            continue
        values = records.block + column * records.stride
        if rows.numbers is NULL and bits == 64:
            memcpy(out, values + first, 8 * taken)
            continue
        for i in range(taken):
            put_number(out, bits, i, values[row_number(rows, first + i)])


cdef int open_room(object gathered, Room *room) except -1:
    """Take over what there is to copy, and how many bits an item of each buffer has."""
    cdef int k, width
    room.copies_count = len(gathered.copies)
    if (
        room.copies_count > MOST_COPIES
        or len(gathered.buffers) != GATHERED_WIDTH + room.copies_count
        or len(gathered.bits) != GATHERED_WIDTH + room.copies_count
    ):
        raise ValueError(gathered)
    for k, bits in enumerate(gathered.bits):
        room.bits[k] = bits
    for k, (column, of_record, bits) in enumerate(gathered.copies):
        width = RECORD_WIDTH if of_record else BATCH_WIDTH
        if not 0 <= column < width or bits not in (8, 16, 32, 64):
            raise ValueError(gathered)
        room.copies[k].column = column
        room.copies[k].of_record = of_record
    return 0


def gather(
    object gathered, object data, object batches, object records, object rows, Py_ssize_t first
):
    """Add records to the buffers of an Arrow record batch, from the `first`th row number on."""
    cdef Cols of, columns
    cdef Rows numbers
    cdef Held held = hold(data)
    cdef Held of_batches = hold_columns(batches, BATCH_WIDTH, &of)
    cdef Held of_records = hold_columns(records, RECORD_WIDTH, &columns)
    cdef Held of_rows = hold_rows(rows, columns.count, &numbers)
    cdef Held counts = hold(gathered.counts, PyBUF_WRITABLE)
    cdef list buffers = [hold(each, PyBUF_WRITABLE) for each in gathered.buffers]
    cdef Room room
    cdef Py_ssize_t taken, seen, had
    cdef Held buffer
    cdef int k
    open_room(gathered, &room)
    for k, buffer in enumerate(buffers):
        room.at[k] = buffer.p
        room.size[k] = buffer.size
    if counts.size != 8 * COUNTS:
        raise ValueError(gathered)
    memcpy(room.counts, counts.p, 8 * COUNTS)
    if not measure_room(&room):
        raise ValueError(gathered)
    had = <Py_ssize_t>room.counts[N_ROWS]
    first = max(<Py_ssize_t>0, first)
    with nogil:
        seen = gather_rows(&room, held.p, held.size, &of, &columns, &numbers, first)
        taken = <Py_ssize_t>room.counts[N_ROWS] - had
        copy_columns(&room, &of, &columns, &numbers, first, had, taken)
    memcpy(counts.p, room.counts, 8 * COUNTS)
    if seen > first + taken:
        raise IndexError(seen - 1)
    return taken


def room_for(object data, object records, Py_ssize_t row):
    """Return what `gather` needs for one record: headers; bytes of key, value, names, contents."""
    cdef Cols columns
    cdef Held held = hold(data)
    cdef Held of_records = hold_columns(records, RECORD_WIDTH, &columns)
    cdef Header header
    cdef const uint8_t *at
    cdef const uint8_t *end
    cdef int64_t left
    cdef int64_t headers = 0
    cdef int64_t names = 0
    cdef int64_t contents = 0
    cdef int64_t key_size, value_size
    if not 0 <= row < columns.count:
        raise IndexError(row)
    with nogil:
        left = cell(&columns, R_HEADERS_COUNT, row)
        if left > 0 and open_headers(held.p, held.size, &columns, row, &at, &end):
            while left > 0 and not read_header(&at, end, &header):
                left -= 1
                headers += 1
                names += name_size(header.key, header.key_size)
                contents += max(header.value_size, 0)
        key_size = cell(&columns, R_KEY_SIZE, row)
        if not inside(cell(&columns, R_KEY, row), key_size, held.size):
            key_size = 0
        value_size = cell(&columns, R_VALUE_SIZE, row)
        if not inside(cell(&columns, R_VALUE, row), value_size, held.size):
            value_size = 0
    return headers, key_size, value_size, names, contents
