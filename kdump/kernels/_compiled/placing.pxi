# Count the keys that are on another partition than their hashes say.

cdef enum:
    P_RECORDS, P_MISPLACED, P_FACTOR, P_FIRST_OFFSET, P_FIRST_TIME, P_LAST_OFFSET, P_LAST_TIME,
    PLACED_WIDTH

# In the order of kernels/partitioners.py; a test holds one to the other.
cdef enum:
    MURMUR2, CONSISTENT_RANDOM, CRC32, FNV1A, FNV1A_REFERENCE, FNV1A_UNSIGNED, JAVA_HASH,
    JAVA_HASH_OLD, BYTE_ARRAY_HASH, BYTE_ARRAY_HASH_OLD, KAFKAJS_LEGACY, PARTITIONERS_COUNT

cdef enum:
    MURMUR_SEED = 0x9747B28C
    MURMUR_M = 0x5BD1E995
    POSITIVE = 0x7FFFFFFF


cdef inline uint32_t le_bytes(const uint8_t *p, Py_ssize_t size) noexcept nogil:
    """Read up to four bytes, the lowest first."""
    cdef uint32_t number = 0
    while size > 0:
        size -= 1
        number = number << 8 | p[size]
    return number


cdef inline uint32_t le32(const uint8_t *p) noexcept nogil:
    return p[0] | <uint32_t>p[1] << 8 | <uint32_t>p[2] << 16 | <uint32_t>p[3] << 24


cdef inline uint32_t murmur2(const uint8_t *p, Py_ssize_t size) noexcept nogil:
    cdef uint32_t m = MURMUR_M
    cdef uint32_t number = <uint32_t>MURMUR_SEED ^ <uint32_t>size
    cdef uint32_t mixed
    while size >= 4:
        mixed = le32(p) * m
        number = (number * m) ^ ((mixed ^ mixed >> 24) * m)
        p += 4
        size -= 4
    if size:
        number = (number ^ le_bytes(p, size)) * m
    number = (number ^ number >> 13) * m
    return number ^ number >> 15


cdef inline int64_t in_doubles(uint32_t number) noexcept nogil:
    """Multiply as JavaScript does: with a sign, and without the lowest bits of a large product."""
    return <int64_t>(<double><int32_t>number * <double>MURMUR_M)


cdef inline uint32_t murmur2_in_doubles(const uint8_t *p, Py_ssize_t size) noexcept nogil:
    cdef uint32_t number = <uint32_t>MURMUR_SEED ^ <uint32_t>size
    cdef Py_ssize_t at = 0
    cdef uint32_t mixed
    while at < size:
        mixed = <uint32_t>in_doubles(le_bytes(p + at, min(size - at, <Py_ssize_t>4)))
        mixed = <uint32_t>in_doubles(mixed ^ mixed >> 24)
        number = <uint32_t>in_doubles(number) ^ mixed
        at += 4
    if size & 3:
        at = size - (size & 3)
        number = <uint32_t>in_doubles(number ^ le_bytes(p + at, size & 3))
    number = <uint32_t>in_doubles(number ^ number >> 13)
    return number ^ number >> 15


cdef inline uint32_t fnv1a(const uint8_t *p, Py_ssize_t size) noexcept nogil:
    cdef uint32_t number = 0x811C9DC5
    cdef Py_ssize_t i
    for i in range(size):
        number = (number ^ p[i]) * <uint32_t>0x01000193
    return number


cdef inline uint32_t byte_array_hash(const uint8_t *p, Py_ssize_t size) noexcept nogil:
    cdef uint32_t number = 1
    cdef Py_ssize_t i
    for i in range(size):
        number = number * 31 + <uint32_t><int32_t><int8_t>p[i]
    return number


cdef inline int64_t string_hash(const uint8_t *p, Py_ssize_t size) noexcept nogil:
    """Return what Java's `String.hashCode` is, as 32 bits; -1 where it is no text."""
    cdef const uint8_t *end = p + size
    cdef uint32_t number = 0
    cdef uint32_t code
    cdef int step, i
    while p < end:
        step = utf8_step(p, end - p)
        if step < 0:
            return -1
        code = p[0] if step == 1 else p[0] & (0x7F >> step)
        for i in range(1, step):
            code = code << 6 | (p[i] & 0x3F)
        if code >= 0x10000:
            number = number * 31 + (0xD7C0 + (code >> 10))
            code = 0xDC00 | (code & 0x3FF)
        number = number * 31 + code
        p += step
    return number


cdef inline uint32_t absolute(uint32_t number) noexcept nogil:
    """Return the absolute value of a number of 32 bits with a sign."""
    return 0 - number if number >> 31 else number


cdef inline int64_t scala_absolute(int64_t number) noexcept nogil:
    return number if number < 0 else absolute(<uint32_t>number) & POSITIVE


cdef int64_t number_of(int partitioner, const uint8_t *p, Py_ssize_t size) noexcept nogil:
    """Return the number that is divided by the count of partitions; -1 for none."""
    cdef int64_t text
    if partitioner == MURMUR2:
        return murmur2(p, size) & POSITIVE
    if partitioner == CONSISTENT_RANDOM or partitioner == CRC32:
        return -1 if not size and partitioner == CONSISTENT_RANDOM else kd_crc32(0, p, size)
    if partitioner == FNV1A:
        return absolute(fnv1a(p, size))
    if partitioner == FNV1A_REFERENCE:
        return fnv1a(p, size) & POSITIVE
    if partitioner == FNV1A_UNSIGNED:
        return fnv1a(p, size)
    if partitioner == JAVA_HASH:
        return scala_absolute(string_hash(p, size))
    if partitioner == JAVA_HASH_OLD:
        text = string_hash(p, size)
        return text if text < 0 else text & POSITIVE
    if partitioner == BYTE_ARRAY_HASH:
        return scala_absolute(byte_array_hash(p, size))
    if partitioner == BYTE_ARRAY_HASH_OLD:
        return byte_array_hash(p, size) & POSITIVE
    return murmur2_in_doubles(p, size) & POSITIVE


cdef inline uint64_t common_factor(uint64_t factor, uint64_t number) noexcept nogil:
    """Return the greatest common divisor; most often the factor is one already, or divides."""
    cdef uint64_t rest
    if factor == 1:
        return 1
    while factor:
        rest = number % factor
        number = factor
        factor = rest
    return number


cdef void add_placed(
    int64_t *sum, int64_t number, int64_t lies, int64_t count, const Cols *records, Py_ssize_t row
) noexcept nogil:
    sum[P_RECORDS] += 1
    if number % count == lies:
        return
    if not sum[P_MISPLACED]:
        sum[P_FIRST_OFFSET] = cell(records, R_OFFSET, row)
        sum[P_FIRST_TIME] = cell(records, R_TIMESTAMP, row)
    sum[P_MISPLACED] += 1
    number = subtract(number, lies)
    sum[P_FACTOR] = <int64_t>common_factor(<uint64_t>sum[P_FACTOR], <uint64_t>(
        number if number >= 0 else subtract(0, number)
    ))
    sum[P_LAST_OFFSET] = cell(records, R_OFFSET, row)
    sum[P_LAST_TIME] = cell(records, R_TIMESTAMP, row)


def count_placed(
    object data, object batches, object records, object rows, Py_ssize_t first, bytes which,
    int64_t lies, int64_t count, dict producers, array sums, int64_t others, Py_ssize_t most,
):
    """Count where the keys of records belong; return where that ended, and counts of records."""
    cdef Cols headers, cols
    cdef Rows numbers
    cdef Held held = hold(data)
    cdef Held of_batches = hold_columns(batches, BATCH_WIDTH, &headers)
    cdef Held of_records = hold_columns(records, RECORD_WIDTH, &cols)
    cdef Held of_rows = hold_rows(rows, cols.count, &numbers)
    cdef const uint8_t *names = <const uint8_t *>PyBytes_AS_STRING(which)
    cdef int names_count = len(which)
    cdef Py_ssize_t width = names_count * PLACED_WIDTH
    cdef Py_ssize_t room = len(sums)
    cdef int64_t *all_sums = <int64_t *>sums.data.as_longlongs
    cdef int64_t *out = NULL
    cdef Py_ssize_t at = max(first, <Py_ssize_t>0)
    cdef Py_ssize_t seen = 0
    cdef Py_ssize_t without = 0
    cdef Py_ssize_t row, slot
    cdef int64_t size, position, batch, producer, number
    cdef int64_t known = 0
    cdef const uint8_t *key
    cdef int i
    if count < 1:
        raise IndexError(count)
    for i in range(names_count):
        if names[i] >= PARTITIONERS_COUNT:
            raise IndexError(names[i])
    while at < numbers.count:
        row = row_number(&numbers, at)
        at += 1
        if cell(&cols, R_FLAGS, row) & MARKER:
            continue
        size = cell(&cols, R_KEY_SIZE, row)
        position = cell(&cols, R_KEY, row)
        if not inside(position, size, held.size):
            seen += 1
            without += 1
            continue
        batch = cell(&cols, R_BATCH, row)
        if batch < 0 or batch >= headers.count:
            raise IndexError(batch)
        producer = cell(&headers, B_PRODUCER_ID, batch)
        if out is NULL or producer != known:
            known = producer
            if <Py_ssize_t>len(producers) >= most and producer not in producers:
                producer = others
            slot = producers.get(producer, len(producers))
            if slot < 0 or (slot + 1) * width > room:
                return at - 1, seen, without
            producers[producer] = slot
            out = all_sums + slot * width
        seen += 1
        key = held.p + position
        for i in range(names_count):
            number = number_of(names[i], key, size)
            if number >= 0:
                add_placed(out + i * PLACED_WIDTH, number, lies, count, &cols, row)
    return numbers.count, seen, without
