# Find the next believable entry behind damage, and the records asked for.

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
    const uint8_t *p, Py_ssize_t known, Py_ssize_t size, int64_t offset, int64_t max_offset,
    const Format *read,
) noexcept nogil:
    """Whether the header of a batch says nothing that cannot be."""
    cdef const uint8_t *at = p + read.header_size
    cdef const uint8_t *fields = p + read.crc_start
    cdef int attributes = be16(fields)
    cdef int64_t delta = <int32_t>be32(fields + LAST_OFFSET_DELTA)
    cdef int64_t count = <int32_t>be32(fields + RECORDS_COUNT)
    cdef int32_t length = 0
    cdef int64_t last = add(offset, delta)
    if attributes & ~read.meant_bits or attributes & CODEC_BITS > read.largest_codec:
        return False
    if count < 0 or count > delta + 1 or last < offset or last >= max_offset:
        return False
    if attributes & CODEC_BITS or count == 0:
        return True
    if varint(&at, p + min(min(size, known), <Py_ssize_t>LARGEST_HEADER + 5), &length):
        return False
    return length >= SMALLEST_RECORD - 1 and length <= p + size - at


cdef inline bint message_fits(
    const uint8_t *p, Py_ssize_t known, Py_ssize_t size, const Format *read
) noexcept nogil:
    """Whether a message's header, its key and its value fit in its size."""
    cdef Py_ssize_t at = read.smallest_size
    cdef int attributes = p[17]
    cdef int32_t key_size, value_size
    if attributes & ~(CODEC_BITS | LOG_APPEND_TIME) or attributes & CODEC_BITS > read.largest_codec:
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
    """Return the size of the entry that may start at `p`, or 0; its magic is known.

    `known` bytes are at hand, 26 at least, and where others are `behind` them enough for a header.
    """
    cdef const Format *read = format_of(p[16])
    cdef int64_t offset = <int64_t>be64(p)
    cdef int64_t size = LOG_OVERHEAD + <int64_t><int32_t>be32(p + 8)
    if offset <= min_offset or offset >= max_offset:
        return 0
    if size < read.smallest_size or size - known > behind:
        return 0
    if read.is_legacy:
        return size if message_fits(p, known, size, read) else 0
    return size if batch_fits(p, known, size, offset, max_offset, read) else 0


cdef Py_ssize_t find_entry(
    const uint8_t *data, Py_ssize_t position, Py_ssize_t end, int64_t behind, int64_t min_offset,
    int64_t max_offset, int64_t summed, Py_ssize_t *stop, bint *right,
) noexcept nogil:
    cdef const uint8_t *p
    cdef const Format *read
    cdef Py_ssize_t size, covered
    cdef uint8_t newest = FORMATS_COUNT - 1
    stop[0] = max(position, end - (LARGEST_HEADER + 5 if behind else SMALLEST_ENTRY) + 1)
    while position < stop[0]:
        position = kd_candidate(data, position, stop[0], newest)
        if position >= stop[0]:
            break
        p = data + position
        if be32(p + 8) == 0:
            position = first_not_zero(data, position + 12, end) - 11
            continue
        size = believable(p, end - position, behind, min_offset, max_offset)
        if size:
            read = format_of(p[16])
            covered = size - read.crc_start
            if covered > summed or size > end - position:
                stop[0] = position + size
                return position
            if read.crc_is_castagnoli:
                right[0] = be32(p + read.crc_position) == kd_crc32c(0, p + read.crc_start, covered)
            else:
                right[0] = be32(p + read.crc_position) == kd_crc32(0, p + read.crc_start, covered)
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
    cdef Held held = hold(data)
    cdef Py_ssize_t found
    cdef Py_ssize_t stop = 0
    cdef bint right = False
    with nogil:
        clamp(&start, &end, held.size)
        found = find_entry(
            held.p, start, end, max(<int64_t>0, behind), min_offset, max_offset, summed, &stop,
            &right,
        )
    return found, stop, right


cdef struct Bounds:
    int64_t low
    int64_t high
    bint has_high


cdef inline bint within(const Bounds *bounds, int64_t number) noexcept nogil:
    return number >= bounds.low and (number < bounds.high or not bounds.has_high)


cdef int open_bounds(object low, object high, Bounds *out) except -1:
    out.low = INT64_MIN if low is None else low
    out.has_high = high is not None
    out.high = high if out.has_high else 0
    return 0


cdef struct Sought:
    const uint8_t *text  # NULL: anything
    Py_ssize_t size


cdef int open_sought(bytes text, Sought *out) except -1:
    out.text = NULL if text is None else <const uint8_t *>PyBytes_AS_STRING(text)
    out.size = 0 if text is None else len(text)
    return 0


cdef Py_ssize_t choose(
    const uint8_t *data, Py_ssize_t length, const Cols *records, const uint8_t *admitted,
    Py_ssize_t batches, const Bounds *offsets, const Bounds *times, const Sought *key,
    const Sought *part, int64_t *rows,
) noexcept nogil:
    """Put the numbers of the records asked for into `rows` and return how many."""
    cdef Py_ssize_t row
    cdef Py_ssize_t count = 0
    cdef int64_t batch, position, end
    cdef int64_t hit = -1
    cdef int64_t last = 0
    if records.count:
        row = records.count - 1
        last = min(add(cell(records, R_POSITION, row), cell(records, R_SIZE, row)), <int64_t>length)
    for row in range(records.count):
        batch = cell(records, R_BATCH, row)
        if admitted is not NULL and not (0 <= batch < batches and admitted[batch]):
            continue
        if not within(offsets, cell(records, R_OFFSET, row)):
            continue
        if not within(times, cell(records, R_TIMESTAMP, row)):
            continue
        if key.text is not NULL:
            position = cell(records, R_KEY, row)
            if cell(records, R_KEY_SIZE, row) != key.size or not inside(position, key.size, length):
                continue
            if memcmp(data + position, key.text, key.size):
                continue
        if part.text is not NULL:
            position = cell(records, R_POSITION, row)
            if not inside(position, cell(records, R_SIZE, row), length):
                continue
            end = position + cell(records, R_SIZE, row)
            if hit < position:  # the next one, however far away, is looked for once
                hit = kd_find(data, position, max(position, last), part.text, part.size)
                if hit < 0:
                    break
            if hit > end - part.size:
                continue
        rows[count] = row
        count += 1
    return count


def select_records(
    object data, object records, object admitted, tuple offsets, tuple times, bytes key, bytes part
):
    """Return the numbers of the records asked for."""
    cdef Cols columns
    cdef Held held = hold(data)
    cdef Held of_records = hold_columns(records, RECORD_WIDTH, &columns)
    cdef Held of_batches = None if admitted is None else hold(admitted)
    cdef const uint8_t *marks = NULL if admitted is None else of_batches.p
    cdef Py_ssize_t batches = 0 if admitted is None else of_batches.size
    cdef Bounds of_offsets, of_times
    cdef array rows = clone(template, max(<Py_ssize_t>1, columns.count), False)
    cdef Py_ssize_t count
    cdef Sought of_key, of_part
    open_bounds(offsets[0], offsets[1], &of_offsets)
    open_bounds(times[0], times[1], &of_times)
    open_sought(key, &of_key)
    open_sought(part, &of_part)
    if part == b"":
        raise ValueError(part)
    with nogil:
        count = choose(
            held.p, held.size, &columns, marks, batches, &of_offsets, &of_times, &of_key, &of_part,
            <int64_t *>rows.data.as_longlongs,
        )
    return rows[:count]
