# Add up bytes and records by group.

cdef enum:
    T_BATCHES, T_RECORDS, T_BYTES, T_CONTROL, T_UNOPENED, T_FIRST, T_LAST, T_ERROR,
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
    cdef Cols rows
    cdef Held held = hold_columns(batches, BATCH_WIDTH, &rows)
    cdef Py_ssize_t row = max(first, <Py_ssize_t>0)
    cdef int64_t *out
    cdef int64_t producer_id = 0
    cdef int64_t codec = 0
    cdef int64_t flags, count
    if slot < 0 or slot >= <Py_ssize_t>len(sums) // TOTALS_WIDTH:
        raise IndexError(slot)
    out = <int64_t *>sums.data.as_longlongs + slot * TOTALS_WIDTH
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
    cdef Cols rows
    cdef Held held = hold(data)
    cdef Held of_records = hold_columns(records, RECORD_WIDTH, &rows)
    cdef Py_ssize_t row = max(first, <Py_ssize_t>0)
    cdef Py_ssize_t slot
    cdef int64_t key_size, key_at, size
    cdef int64_t *out
    cdef int64_t *all_sums = <int64_t *>sums.data.as_longlongs
    cdef object key, found
    most = min(most, <Py_ssize_t>(len(sums) // TOTALS_WIDTH))
    while row < rows.count:
        if cell(&rows, R_FLAGS, row) & MARKER:
            row += 1
            continue
        key_size = cell(&rows, R_KEY_SIZE, row)
        key_at = cell(&rows, R_KEY, row)
        key = None
        if inside(key_at, key_size, held.size):
            if key_size > longest:
                break
            key = PyBytes_FromStringAndSize(<const char *>held.p + key_at, key_size)
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
            size += headers_size(held.p, held.size, &rows, row)
        out[T_RECORDS] += 1
        out[T_BYTES] += size
        spread(out, cell(&rows, R_TIMESTAMP, row))
        row += 1
    return row


cdef int64_t *open_totals(array sums, Py_ssize_t count) except? NULL:
    if count < 0 or count > <Py_ssize_t>len(sums) // TOTALS_WIDTH:
        raise IndexError(count)
    return <int64_t *>sums.data.as_longlongs


def bounds_of(array sums, Py_ssize_t count):
    """Say what each of the first `count` groups may come to at most: its BYTES and its ERROR."""
    cdef int64_t *at = open_totals(sums, count)
    cdef array found = clone(template, count, False)
    cdef int64_t *out = <int64_t *>found.data.as_longlongs
    cdef Py_ssize_t i
    with nogil:
        for i in range(count):
            out[i] = add(at[i * TOTALS_WIDTH + T_BYTES], at[i * TOTALS_WIDTH + T_ERROR])
    return found


def keep_largest(array sums, Py_ssize_t count, int64_t threshold, Py_ssize_t ties):
    """Move the groups that may come to more than `threshold` to the front, in their order."""
    cdef int64_t *at = open_totals(sums, count)
    cdef array dropped = clone(template, TOTALS_WIDTH, True)
    cdef int64_t *lost = <int64_t *>dropped.data.as_longlongs
    cdef object kept = PyByteArray_FromStringAndSize(NULL, count)
    cdef char *marks = PyByteArray_AS_STRING(kept)
    cdef int64_t floor = 0
    cdef int64_t *to = at
    cdef int64_t bound
    cdef Py_ssize_t i, k
    with nogil:
        for i in range(count):
            bound = add(at[T_BYTES], at[T_ERROR])
            marks[i] = bound > threshold or (bound == threshold and ties > 0)
            if marks[i]:
                ties -= bound == threshold
                memmove(to, at, TOTALS_WIDTH * sizeof(int64_t))
                to += TOTALS_WIDTH
            else:
                floor = max(floor, bound)
                for k in range(TOTALS_WIDTH):
                    lost[k] = add(lost[k], at[k])
            at += TOTALS_WIDTH
    return kept, floor, dropped
