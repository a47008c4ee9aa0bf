# Walk over log entries: where each is, what its header says, whether it is sound.

cdef enum:
    HOP = 61  # the header of a batch; legacy messages have less

cdef int count_entries(
    const uint8_t *p, Py_ssize_t start, Py_ssize_t end, Py_ssize_t most, Py_ssize_t *count
) noexcept nogil:
    """Count the entries that S6 frames, `most` at the most, and return why it ends there."""
    cdef Py_ssize_t left
    cdef int32_t size
    count[0] = 0
    while True:
        left = end - start
        if left == 0:
            return END
        if count[0] >= most:
            return FULL
        if left <= UP_TO_MAGIC:
            return SHORT_TAIL
        size = <int32_t>be32(p + start + 8)
        if size < SMALLEST_MESSAGE:
            return LENGTH_TOO_SMALL
        if size > left - LOG_OVERHEAD:
            return CUT_SHORT
        count[0] += 1
        start += LOG_OVERHEAD + <Py_ssize_t>size


cdef inline int64_t put_message(
    const uint8_t *p, Py_ssize_t size, int64_t last_offset, bint check_crc, const Format *read,
    int64_t *out, Py_ssize_t stride,
) noexcept nogil:
    """Fill a row, but for its position, from a v0 or v1 message; return its flags."""
    cdef int64_t offset = <int64_t>be64(p)
    cdef uint32_t crc = be32(p + 12)
    cdef uint32_t computed = crc
    cdef int magic = <signed char>p[16]
    cdef int attributes = p[17]
    cdef int codec = attributes & CODEC_BITS
    cdef int64_t timestamp = -1
    cdef int64_t flags = 0
    if check_crc:
        computed = kd_crc32(0, p + CRC_FROM_LEGACY, size - CRC_FROM_LEGACY)
    if size < read.smallest_size:
        flags |= TOO_SMALL
    elif read.has_timestamps:
        timestamp = <int64_t>be64(p + 18)
    if computed != crc:
        flags |= CRC_BAD
    if magic != read.magic:
        flags |= MAGIC_UNKNOWN
    if offset <= last_offset:
        flags |= OFFSET_NOT_RISING
    if codec:
        flags |= WRAPPER | COMPRESSED
        if codec > read.largest_codec:
            flags |= CODEC_UNKNOWN
    if attributes & ~read.meant_bits:
        flags |= RESERVED
    out[B_SIZE * stride] = size
    out[B_MAGIC * stride] = magic
    out[B_ATTRIBUTES * stride] = attributes
    out[B_BASE_OFFSET * stride] = -1 if codec else offset
    out[B_LAST_OFFSET * stride] = offset
    out[B_RECORDS_COUNT * stride] = -1 if codec else 1
    out[B_CRC * stride] = crc
    out[B_COMPUTED_CRC * stride] = computed
    out[B_LEADER_EPOCH * stride] = -1
    out[B_BASE_TIMESTAMP * stride] = timestamp
    out[B_MAX_TIMESTAMP * stride] = timestamp
    out[B_PRODUCER_ID * stride] = -1
    out[B_PRODUCER_EPOCH * stride] = -1
    out[B_BASE_SEQUENCE * stride] = -1
    out[B_FLAGS * stride] = flags
    out[B_LAYOUT * stride] = read.magic
    return flags


cdef const uint8_t *whole_fields(
    const uint8_t *fields, Py_ssize_t size, uint8_t *out
) noexcept nogil:
    """Return the fields of a header cut short in `out`: -1, or an offset delta of 0, if not whole."""
    cdef int *starts = [LAST_OFFSET_DELTA, BASE_TIMESTAMP, NEWEST_TIMESTAMP, PRODUCER_ID,
                        PRODUCER_EPOCH, BASE_SEQUENCE, RECORDS_COUNT]
    cdef Py_ssize_t whole = 0
    cdef int i
    for i in range(7):
        if starts[i] <= size:
            whole = starts[i]
    memset(out, 0xFF, FIELDS_SIZE)
    memset(out + LAST_OFFSET_DELTA, 0, 4)
    memcpy(out, fields, whole)
    return out


cdef inline int64_t put_batch(
    const uint8_t *p, Py_ssize_t size, int64_t last_offset, bint check_crc, const Format *read,
    int64_t *out, Py_ssize_t stride,
) noexcept nogil:
    """Fill a row, but for its position, from the header of a record batch; return its flags."""
    cdef int64_t base_offset = <int64_t>be64(p)
    cdef uint32_t crc = be32(p + read.crc_position)
    cdef uint32_t computed = crc
    cdef int magic = <signed char>p[16]
    cdef const uint8_t *fields = p + read.crc_start
    cdef int attributes = be16(fields)
    cdef int codec = attributes & CODEC_BITS
    cdef uint8_t present[FIELDS_SIZE]
    cdef int64_t delta, count, last
    cdef int64_t flags = 0
    if size < read.header_size:
        flags |= TOO_SMALL | CRC_BAD
        computed = 0
        fields = whole_fields(fields, p + size - fields, present)
    delta = <int32_t>be32(fields + LAST_OFFSET_DELTA)
    count = <int32_t>be32(fields + RECORDS_COUNT)
    if likely(size >= read.header_size):
        if check_crc:
            computed = kd_crc32c(0, fields, p + size - fields)
        if count < 0 or delta < 0 or count > delta + 1:
            flags |= DELTA_COUNT
    last = add(base_offset, delta)
    if computed != crc:
        flags |= CRC_BAD
    if magic != read.magic:
        flags |= MAGIC_UNKNOWN
    if base_offset <= last_offset or last < base_offset:
        flags |= OFFSET_NOT_RISING
    if codec:
        flags |= COMPRESSED
        if codec > read.largest_codec:
            flags |= CODEC_UNKNOWN
    if attributes & CONTROL_BIT:
        flags |= CONTROL
    if attributes & TRANSACTIONAL_BIT:
        flags |= TRANSACTIONAL
    if attributes & ~read.meant_bits:
        flags |= RESERVED
    out[B_SIZE * stride] = size
    out[B_MAGIC * stride] = magic
    out[B_ATTRIBUTES * stride] = attributes
    out[B_BASE_OFFSET * stride] = base_offset
    out[B_LAST_OFFSET * stride] = last
    out[B_RECORDS_COUNT * stride] = count
    out[B_CRC * stride] = crc
    out[B_COMPUTED_CRC * stride] = computed
    out[B_LEADER_EPOCH * stride] = <int32_t>be32(p + 12)
    out[B_BASE_TIMESTAMP * stride] = <int64_t>be64(fields + BASE_TIMESTAMP)
    out[B_MAX_TIMESTAMP * stride] = <int64_t>be64(fields + NEWEST_TIMESTAMP)
    out[B_PRODUCER_ID * stride] = <int64_t>be64(fields + PRODUCER_ID)
    out[B_PRODUCER_EPOCH * stride] = <signed short>be16(fields + PRODUCER_EPOCH)
    out[B_BASE_SEQUENCE * stride] = <int32_t>be32(fields + BASE_SEQUENCE)
    out[B_FLAGS * stride] = flags
    out[B_LAYOUT * stride] = read.magic
    return flags


cdef inline int64_t put_either(
    const uint8_t *p, Py_ssize_t size, int64_t last_offset, bint check_crc,
    int64_t *out, Py_ssize_t stride,
) noexcept nogil:
    """Fill a row, but for its position, from an entry, in the format of its magic."""
    cdef int64_t flags
    if likely(<signed char>p[16] >= MAGIC_V2):
        # The only format of batches. As a constant: read from memory, its numbers cost 8 % of
        # a walk over small batches.
        flags = put_batch(p, size, last_offset, check_crc, &FORMATS[MAGIC_V2], out, stride)
        if (
            flags & CRC_BAD
            and check_crc
            and be32(p + 12) == kd_crc32(0, p + CRC_FROM_LEGACY, size - CRC_FROM_LEGACY)
        ):
            flags = put_message(p, size, last_offset, True, FORMATS, out, stride)
        return flags
    return put_message(p, size, last_offset, check_crc, format_of(p[16]), out, stride)


cdef int64_t walk_entries(
    const uint8_t *data, Py_ssize_t *position, int64_t base, int64_t last_offset, bint check_crc,
    Cols *out, Py_ssize_t count,
) noexcept nogil:
    """Fill `count` rows from entries already framed; return all their flags."""
    cdef const uint8_t *p
    cdef int64_t *row
    cdef int64_t every = 0
    cdef Py_ssize_t size, i
    for i in range(count):
        p = data + position[0]
        row = out.block + i
        size = LOG_OVERHEAD + <Py_ssize_t><int32_t>be32(p + 8)
        row[B_POSITION * out.stride] = add(base, position[0])
        every |= put_either(p, size, last_offset, check_crc, row, out.stride)
        last_offset = max(last_offset, row[B_LAST_OFFSET * out.stride])
        position[0] += size
    out.count = count
    return every


def walk(
    object data,
    Py_ssize_t start,
    Py_ssize_t end,
    int64_t base,
    int64_t last_offset,
    bint check_crc,
    Py_ssize_t max_batches,
):
    """Frame the log entries in `data[start:end]` as brokers do, `end` being the end of file (S6)."""
    cdef Held held = hold(data)
    cdef Cols out
    cdef Py_ssize_t count
    cdef int64_t flags
    cdef int reason
    cdef array block
    with nogil:
        clamp(&start, &end, held.size)
        reason = count_entries(held.p, start, end, max_batches, &count)
    block = new_block(BATCH_WIDTH, count, &out)
    with nogil:
        flags = walk_entries(held.p, &start, base, last_offset, check_crc, &out, count)
    return RecordBatches(block, out.stride, out.count, flags), start, reason


cdef extern from *:
    """
    #include <sys/uio.h>
    /* What lies in memory already; -1 where this system has no such read. */
    static inline Py_ssize_t kd_read_cached(int fd, void *to, size_t size, int64_t position) {
    #ifdef RWF_NOWAIT
        struct iovec into = {to, size};
        return preadv2(fd, &into, 1, position, RWF_NOWAIT);
    #else
        return -1;
    #endif
    }
    """
    Py_ssize_t read_cached "kd_read_cached" (int fd, void *to, size_t size, int64_t position) nogil


cdef int64_t hop_entries(
    int fd, int64_t *position, int64_t end, int64_t smallest, Cols *out, Py_ssize_t most
) noexcept nogil:
    """Fill up to `most` rows from headers that are read one by one; return all their flags."""
    cdef uint8_t header[HOP]
    cdef int64_t *row
    cdef int64_t size
    cdef int64_t every = 0
    cdef int64_t last_offset = -1
    while out.count < most and end - position[0] >= HOP:
        if read_cached(fd, header, HOP, position[0]) != HOP:
            break
        size = LOG_OVERHEAD + <int64_t><int32_t>be32(header + 8)
        if size < smallest or size > end - position[0]:
            break
        row = out.block + out.count
        row[B_POSITION * out.stride] = position[0]
        every |= put_either(header, size, last_offset, False, row, out.stride)
        last_offset = max(last_offset, row[B_LAST_OFFSET * out.stride])
        position[0] += size
        out.count += 1
    return every


def hop(int fd, int64_t position, int64_t end, int64_t smallest, Py_ssize_t max_batches):
    """Frame entries of a file by their headers alone, as far as these need no wait."""
    cdef Cols out
    cdef int64_t flags
    cdef array block
    smallest = max(smallest, <int64_t>HOP)
    if position < 0 or position >= end:
        max_batches = 0
    max_batches = max(<Py_ssize_t>0, min(max_batches, <Py_ssize_t>((end - position) // smallest)))
    block = new_block(BATCH_WIDTH, max_batches, &out)
    with nogil:
        flags = hop_entries(fd, &position, end, smallest, &out, max_batches)
    return RecordBatches(block, out.stride, out.count, flags), position


cdef inline Py_ssize_t pre08_size(const uint8_t *p, Py_ssize_t left, uint8_t magic) noexcept nogil:
    """Return the size of the sound, plain message of 0.6 or 0.7 at `p`, 0 where there is none."""
    cdef int64_t size
    cdef Py_ssize_t payload = 4 + PRE08_SMALLEST + magic
    if left < payload or p[4] != magic:
        return 0
    size = <int64_t>4 + <int32_t>be32(p)
    if size > left or size < payload or (magic and p[5] & PRE08_CODEC_BITS):
        return 0
    return size if be32(p + payload - 4) == kd_crc32(0, p + payload, size - payload) else 0


def walk_pre08(
    object data, Py_ssize_t start, Py_ssize_t end, int64_t base, int64_t segment,
    Py_ssize_t max_records,
):
    """Frame and decode the messages of 0.6 or 0.7 in `data[start:end]`, while they are plain (S1)."""
    cdef Held held = hold(data)
    cdef const uint8_t *p = held.p
    cdef Cols batches, records
    cdef int64_t entry[BATCH_WIDTH]
    cdef int64_t record[RECORD_WIDTH]
    cdef int64_t crc, offset
    cdef Py_ssize_t k, payload, size
    cdef Py_ssize_t at, count = 0
    cdef uint8_t magic = 0
    cdef array batch_block, record_block
    clamp(&start, &end, held.size)
    at = start
    if end - start > 4:
        magic = p[start + 4]
    with nogil:
        while magic < 2 and count < max_records:
            size = pre08_size(p + at, end - at, magic)
            if not size:
                break
            at += size
            count += 1
    batch_block = new_block(BATCH_WIDTH, count, &batches)
    record_block = new_block(RECORD_WIDTH, count, &records)
    payload = 4 + PRE08_SMALLEST + magic
    for at in range(count):
        size = 4 + <Py_ssize_t>be32(p + start)
        offset = add(segment, add(base, start))
        crc = be32(p + start + payload - 4)
        entry[:] = [
            add(base, start), size, magic, 0, offset, add(offset, size), 1, crc, crc,
            -1, -1, -1, -1, -1, -1, 0, 0,
        ]
        record[:] = [
            at, start, size, offset, -1, 0, -1, start + payload, size - payload, 0, 0, 0,
        ]
        for k in range(BATCH_WIDTH):
            batches.block[k * batches.stride + at] = entry[k]
        for k in range(RECORD_WIDTH):
            records.block[k * records.stride + at] = record[k]
        start += size
    return (
        RecordBatches(batch_block, batches.stride, count, 0),
        DecodedRecords(record_block, records.stride, count, 0),
    )
