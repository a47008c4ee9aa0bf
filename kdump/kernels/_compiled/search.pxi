# Find the next believable entry behind damage.

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
    const uint8_t *p, Py_ssize_t known, Py_ssize_t size, int64_t offset, int64_t max_offset
) noexcept nogil:
    """Whether a header of magic 2 says nothing that cannot be."""
    cdef const uint8_t *at = p + HEADER_V2
    cdef int attributes = be16(p + 21)
    cdef int32_t delta = <int32_t>be32(p + 23)
    cdef int32_t count = <int32_t>be32(p + 57)
    cdef int32_t length = 0
    cdef int64_t last = add(offset, delta)
    if attributes & ~0x7F or attributes & CODEC_BITS > 4:
        return False
    if count < 0 or count > <int64_t>delta + 1 or last < offset or last >= max_offset:
        return False
    if attributes & CODEC_BITS or count == 0:
        return True
    if varint(&at, p + min(min(size, known), HEADER_LOOKED_AT), &length):
        return False
    return length >= SMALLEST_RECORD - 1 and length <= p + size - at


cdef inline bint message_fits(
    const uint8_t *p, Py_ssize_t known, Py_ssize_t size, int magic
) noexcept nogil:
    """Whether a header of magic 0 or 1, its key and its value fit in its size."""
    cdef Py_ssize_t at = LOG_OVERHEAD + (OVERHEAD_V1 if magic else OVERHEAD_V0)
    cdef int attributes = p[17]
    cdef int32_t key_size
    cdef int32_t value_size
    if size < at or attributes & ~0x0F or attributes & CODEC_BITS > 3:
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
    """Return the size of the entry that may start at `p`, or 0; its magic is 0 to 2.

    `known` bytes are at hand, 26 at least, and where others are `behind` them enough for a header.
    """
    cdef int magic = p[16]
    cdef int64_t offset = <int64_t>be64(p)
    cdef int64_t size = LOG_OVERHEAD + <int64_t><int32_t>be32(p + 8)
    if offset <= min_offset or offset >= max_offset:
        return 0
    if size < SMALLEST_ENTRY or size - known > behind:
        return 0
    if magic == 2:
        return size if size >= HEADER_V2 and batch_fits(p, known, size, offset, max_offset) else 0
    return size if message_fits(p, known, size, magic) else 0


cdef Py_ssize_t find_entry(
    const uint8_t *data, Py_ssize_t position, Py_ssize_t end, int64_t behind, int64_t min_offset,
    int64_t max_offset, int64_t summed, Py_ssize_t *stop, bint *right,
) noexcept nogil:
    cdef const uint8_t *p
    cdef Py_ssize_t size, covered
    stop[0] = max(position, end - (HEADER_LOOKED_AT if behind else SMALLEST_ENTRY) + 1)
    while position < stop[0]:
        p = data + position
        if likely(p[16] > 2):
            position += 1
            continue
        if be32(p + 8) == 0:
            position = first_not_zero(data, position + 12, end) - 11
            continue
        size = believable(p, end - position, behind, min_offset, max_offset)
        if size:
            covered = size - (CRC_FROM_V2 if p[16] == 2 else CRC_FROM_LEGACY)
            if covered > summed or size > end - position:
                stop[0] = position + size
                return position
            if p[16] == 2:
                right[0] = be32(p + 17) == kd_crc32c(0, p + CRC_FROM_V2, covered)
            else:
                right[0] = be32(p + 12) == kd_crc32(0, p + CRC_FROM_LEGACY, covered)
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
    cdef Py_buffer buffer
    cdef Py_ssize_t found
    cdef Py_ssize_t stop = 0
    cdef bint right = False
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    with nogil:
        clamp(&start, &end, buffer.len)
        found = find_entry(
            <const uint8_t *>buffer.buf, start, end, max(<int64_t>0, behind), min_offset,
            max_offset, summed, &stop, &right,
        )
    PyBuffer_Release(&buffer)
    return found, stop, right
