# Decode records and inner messages into columns.

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


cdef inline int raw_varint(
    const uint8_t **at, const uint8_t *end, int bits, uint64_t *out
) noexcept nogil:
    """Read a varint of at most `bits` bits, before its zigzag is undone; return 0 or a reason."""
    cdef const uint8_t *p = at[0]
    cdef uint64_t raw, byte
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
            if shift == bits:
                return VARINT_TOO_LONG
    at[0] = p
    out[0] = raw
    return 0


cdef inline int varint(const uint8_t **at, const uint8_t *end, int32_t *out) noexcept nogil:
    """Read a zigzag int32 (F23); return 0 or a reason."""
    cdef uint64_t raw = 0
    cdef int reason = raw_varint(at, end, 35, &raw)
    if not reason:
        out[0] = <int32_t>((<uint32_t>raw >> 1) ^ (0 - (<uint32_t>raw & 1)))
    return reason


cdef inline int varlong(const uint8_t **at, const uint8_t *end, int64_t *out) noexcept nogil:
    """Read a zigzag int64 (F23); return 0 or a reason."""
    cdef uint64_t raw = 0
    cdef int reason = raw_varint(at, end, 70, &raw)
    if not reason:
        out[0] = <int64_t>((raw >> 1) ^ (0 - (raw & 1)))
    return reason


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
    """Decode the plain records of batch `index` from `data[start:end]`, which they must fill."""
    cdef Cols columns, out
    cdef Held of_batches = hold_columns(batches, BATCH_WIDTH, &columns)
    cdef Held held = hold(data)
    cdef Batch batch
    cdef array block
    cdef Py_ssize_t most
    cdef int reason
    if not 0 <= index < columns.count:
        raise IndexError(index)
    read_batch(&columns, index, &batch)
    done = max(<int64_t>0, done)
    clamp(&start, &end, held.size)
    # No record takes less than 7 bytes: what the count claims beyond that needs no room.
    most = min(max(<Py_ssize_t>0, max_records), (end - start) // SMALLEST_RECORD)
    most = <Py_ssize_t>min(<int64_t>most, batch.count - done if batch.count > done else 0)
    block = new_block(RECORD_WIDTH, most, &out)
    with nogil:
        reason = read_records(held.p, &start, end, &batch, index, done, max_records, &out)
    return DecodedRecords(block, out.stride, out.count, 0), start, reason


cdef struct Marker:  # of a transaction (F29)
    bint commit
    int64_t version
    int64_t coordinator_epoch


cdef bint read_marker(
    const uint8_t *data, Py_ssize_t length, const int64_t *record, Py_ssize_t stride, Marker *out
) noexcept nogil:
    """Say whether a decoded record is a sound transaction marker, and what it says."""
    cdef int64_t key = record[R_KEY * stride]
    cdef int64_t value = record[R_VALUE * stride]
    cdef int64_t key_size = record[R_KEY_SIZE * stride]
    cdef int64_t value_size = record[R_VALUE_SIZE * stride]
    cdef int kind
    if key_size < 4 or value_size < 6:
        return False
    if not inside(key, key_size, length) or not inside(value, value_size, length):
        return False
    out.version = <int16_t>be16(data + key)
    out.coordinator_epoch = <int32_t>be32(data + value + 2)
    kind = be16(data + key + 2)
    out.commit = kind == 1
    return kind <= 1 and out.version >= 0 and <int16_t>be16(data + value) >= 0


cdef bint is_marker(
    const uint8_t *data, const Cols *batches, Py_ssize_t row, Py_ssize_t start, Py_ssize_t end
) noexcept nogil:
    """Say whether `data[start:end]` is one record, and that a sound transaction marker."""
    cdef int64_t record[RECORD_WIDTH]
    cdef const uint8_t *p = data + start
    cdef Batch batch
    cdef Marker marker
    read_batch(batches, row, &batch)
    if batch.count != 1 or read_record(data, &p, data + end, &batch, 0, record, 1):
        return False
    return p == data + end and read_marker(data, end, record, 1, &marker)


cdef inline Py_ssize_t records_due(
    const uint8_t *data, const Cols *batches, Py_ssize_t row, int64_t start, Py_ssize_t length
) noexcept nogil:
    """Return how many records a plain batch can give at the most; -1: it is not plain."""
    cdef const Format *read = format_at(cell(batches, B_LAYOUT, row))
    cdef int64_t size = cell(batches, B_SIZE, row)
    cdef int64_t count = 1
    cdef int64_t flags = cell(batches, B_FLAGS, row)
    if flags & (COMPRESSED | CRC_BAD | TOO_SMALL):
        return -1
    if size < read.smallest_size or size > length or start < 0 or start > length - size:
        return -1
    if flags & CONTROL and (
        read.is_legacy or not is_marker(data, batches, row, start + read.header_size, start + size)
    ):
        return -1
    if not read.is_legacy:
        count = cell(batches, B_RECORDS_COUNT, row)
        if count < 0:
            return -1
        count = min(count, (size - read.header_size) // SMALLEST_RECORD)
    return <Py_ssize_t>count


cdef Py_ssize_t count_due(
    const uint8_t *data, const Cols *batches, Py_ssize_t first, int64_t base, Py_ssize_t length,
    Py_ssize_t most, Py_ssize_t *behind, int *reason,
) noexcept nogil:
    """Add up the records of plain batches from `first` on; say where and why that ends."""
    cdef Py_ssize_t total = 0
    cdef Py_ssize_t due
    cdef Py_ssize_t row = first
    reason[0] = END
    while row < batches.count:
        due = records_due(
            data, batches, row, subtract(cell(batches, B_POSITION, row), base), length
        )
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
    const uint8_t *data, Py_ssize_t start, Py_ssize_t end, const Format *read,
    int64_t *out, Py_ssize_t stride,
) noexcept nogil:
    """Fill in key and value of a message entry that holds its fixed fields (F7)."""
    cdef Py_ssize_t at = start + read.header_size - 4
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
    Py_ssize_t *stop, Cols *out, int64_t *flags,
) noexcept nogil:
    """Decode batches `index` to `behind`, all plain; return END or what is wrong at `index`.

    `flags`: of all records.
    """
    cdef Batch batch
    cdef Py_ssize_t start, end
    cdef int64_t *row
    cdef const Format *read
    cdef int reason
    while index[0] < behind:
        start = <Py_ssize_t>subtract(cell(batches, B_POSITION, index[0]), base)
        end = start + <Py_ssize_t>cell(batches, B_SIZE, index[0])
        read = format_at(cell(batches, B_LAYOUT, index[0]))
        if not read.is_legacy:
            read_batch(batches, index[0], &batch)
            stop[0] = start + read.header_size
            # Rows are bounded by the batch's own bytes, which were counted before.
            reason = read_records(
                data, stop, end, &batch, index[0], 0, (<Py_ssize_t>1) << 62, out
            )
            if not reason and batch.count == 1 and cell(batches, B_FLAGS, index[0]) & CONTROL:
                out.block[R_FLAGS * out.stride + out.count - 1] = MARKER
                flags[0] = MARKER
        else:
            stop[0] = start
            row = out.block + out.count
            reason = key_and_value(data, start, end, read, row, out.stride)
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
    cdef Cols columns, out
    cdef Held held = hold(data)
    cdef Held of_batches = hold_columns(batches, BATCH_WIDTH, &columns)
    cdef array block
    cdef Py_ssize_t index = max(<Py_ssize_t>0, min(first, columns.count))
    cdef Py_ssize_t due, behind
    cdef Py_ssize_t stop = 0
    cdef int64_t flags = 0
    cdef int reason, ending
    with nogil:
        due = count_due(
            held.p, &columns, index, base, held.size, max(<Py_ssize_t>0, max_records), &behind,
            &ending,
        )
    block = new_block(RECORD_WIDTH, due, &out)
    with nogil:
        reason = decode_batches(held.p, base, &columns, &index, behind, &stop, &out, &flags)
    stop_at = stop
    if not reason and ending:
        reason = ending
        stop_at = subtract(cell(&columns, B_POSITION, index), base)
    return DecodedRecords(block, out.stride, out.count, flags), index, stop_at, reason


# Messages of v0 and v1 ---------------------------------------------------------------------------


cdef inline int inner_size(
    const uint8_t *data, Py_ssize_t position, Py_ssize_t end, Py_ssize_t *size
) noexcept nogil:
    """Read the size field of an inner message; return 0 or a reason (F17)."""
    if end - position < LOG_OVERHEAD:
        return INNER_CUT_SHORT
    size[0] = <int32_t>be32(data + position + 8)
    if size[0] < SMALLEST_MESSAGE:
        return INNER_SIZE
    if size[0] > end - position - LOG_OVERHEAD:
        return INNER_CUT_SHORT
    return 0


def inner_base(
    object data, Py_ssize_t start, Py_ssize_t end, int64_t wrapper_offset, int64_t wrapper_magic
):
    """Find what to add to the offset fields of a wrapper's messages, plain in `data[start:end]`."""
    cdef Held held = hold(data)
    cdef const uint8_t *p = held.p
    cdef int64_t last = -1
    cdef int64_t count = 0
    cdef int64_t base = 0
    cdef Py_ssize_t size
    cdef bint relative = message_format(wrapper_magic).relative_offsets
    cdef int reason = END
    with nogil:
        clamp(&start, &end, held.size)
        while start < end:
            reason = inner_size(p, start, end, &size)
            if reason:
                break
            last = <int64_t>be64(p + start)
            count += 1
            start += LOG_OVERHEAD + size
    if relative and count and wrapper_offset:
        base = subtract(wrapper_offset, last)
    if reason != INNER_SIZE:
        if not count:
            reason = INNER_EMPTY
        elif relative and wrapper_offset and wrapper_offset < last:
            reason = WRAPPER_OFFSET
    return base, last, count, reason


cdef int read_messages(
    const uint8_t *data, Py_ssize_t *position, Py_ssize_t end, const Cols *batches,
    Py_ssize_t index, int64_t base, Py_ssize_t most, Cols *out, int64_t *all_flags,
) noexcept nogil:
    """Add the messages of one wrapper, up to `most` rows; return why it ends there."""
    cdef const Format *read = message_format(cell(batches, B_LAYOUT, index))
    cdef bint wrapper_time = (
        cell(batches, B_ATTRIBUTES, index) & read.meant_bits & LOG_APPEND_TIME != 0
    )
    cdef int64_t wrapper_timestamp = cell(batches, B_MAX_TIMESTAMP, index)
    cdef int wrapper_magic = cell(batches, B_MAGIC, index) & 0xFF
    cdef Py_ssize_t stride = out.stride
    cdef const uint8_t *p
    cdef int64_t *row
    cdef int64_t timestamp, flags
    cdef Py_ssize_t size, behind
    cdef int magic, reason
    while position[0] < end:
        if out.count >= most:
            return FULL
        reason = inner_size(data, position[0], end, &size)
        if reason:
            return reason
        p = data + position[0]
        behind = position[0] + LOG_OVERHEAD + size
        magic = p[16]
        read = message_format(magic)
        if LOG_OVERHEAD + size < read.smallest_size:
            return INNER_SIZE
        if p[17] & CODEC_BITS:
            return INNER_COMPRESSED
        row = out.block + out.count
        reason = key_and_value(data, position[0], behind, read, row, stride)
        if reason:
            return reason
        timestamp = -1
        if read.has_timestamps:
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
        all_flags[0] |= flags
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
    cdef Cols columns, out
    cdef Held held = hold(data)
    cdef Held of_batches = hold_columns(batches, BATCH_WIDTH, &columns)
    cdef array block
    cdef Py_ssize_t count
    cdef int64_t flags = 0
    cdef int reason
    if not 0 <= index < columns.count:
        raise IndexError(index)
    clamp(&start, &end, held.size)
    with nogil:
        count = count_messages(held.p, start, end, max(<Py_ssize_t>0, max_records))
    block = new_block(RECORD_WIDTH, count, &out)
    with nogil:
        reason = read_messages(
            held.p, &start, end, &columns, index, base, max_records, &out, &flags
        )
    return DecodedRecords(block, out.stride, out.count, flags), start, reason


cdef inline bint same_bytes(
    Held data, int64_t at, int64_t size, Held others, int64_t other_at, int64_t other_size
) noexcept nogil:
    if size < 0 and other_size < 0:
        return True
    if size != other_size or not inside(at, size, data.size):
        return False
    if not inside(other_at, other_size, others.size):
        return False
    return not memcmp(data.p + at, others.p + other_at, <size_t>size)


cdef bint same_record(
    Held data, const Cols *records, Py_ssize_t row, Held other_data, const Cols *others,
    Py_ssize_t other,
) noexcept nogil:
    cdef const uint8_t *start
    cdef const uint8_t *end
    cdef const uint8_t *other_start
    cdef const uint8_t *other_end
    if (
        cell(records, R_OFFSET, row) != cell(others, R_OFFSET, other)
        or cell(records, R_TIMESTAMP, row) != cell(others, R_TIMESTAMP, other)
        or cell(records, R_KEY_SIZE, row) != cell(others, R_KEY_SIZE, other)
        or cell(records, R_VALUE_SIZE, row) != cell(others, R_VALUE_SIZE, other)
        or cell(records, R_HEADERS_COUNT, row) != cell(others, R_HEADERS_COUNT, other)
    ):
        return False
    if not same_bytes(
        data, cell(records, R_KEY, row), cell(records, R_KEY_SIZE, row),
        other_data, cell(others, R_KEY, other), cell(others, R_KEY_SIZE, other),
    ):
        return False
    if not same_bytes(
        data, cell(records, R_VALUE, row), cell(records, R_VALUE_SIZE, row),
        other_data, cell(others, R_VALUE, other), cell(others, R_VALUE_SIZE, other),
    ):
        return False
    if cell(records, R_HEADERS_COUNT, row) <= 0:
        return True
    if not open_headers(data.p, data.size, records, row, &start, &end):
        return False
    if not open_headers(
        other_data.p, other_data.size, others, other, &other_start, &other_end
    ):
        return False
    if end - start != other_end - other_start:
        return False
    return not memcmp(start, other_start, <size_t>(end - start))


def same_records(
    object data, object records, Py_ssize_t row,
    object other_data, object others, Py_ssize_t other_row,
):
    """Count the records from two rows on that are the same, one by one."""
    cdef Cols rows, other_rows
    cdef Held mine = hold(data)
    cdef Held theirs = hold(other_data)
    cdef Held first = hold_columns(records, RECORD_WIDTH, &rows)
    cdef Held second = hold_columns(others, RECORD_WIDTH, &other_rows)
    cdef Py_ssize_t most
    cdef Py_ssize_t number = 0
    cdef int64_t last = -1
    row = max(row, <Py_ssize_t>0)
    other_row = max(other_row, <Py_ssize_t>0)
    with nogil:
        most = min(rows.count - row, other_rows.count - other_row)
        while number < most:
            if cell(&rows, R_OFFSET, row + number) <= last or not same_record(
                mine, &rows, row + number, theirs, &other_rows, other_row + number
            ):
                break
            last = cell(&rows, R_OFFSET, row + number)
            number += 1
    return number
