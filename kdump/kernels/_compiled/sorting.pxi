# Entries of bytes: made of records and keys, sorted, and merged (see entries.py).

cdef enum:
    BY_KEY = 1
    BY_VALUE = 2
    FRAME_BYTES = 4
    START_BYTES = 12
    WHERE_BYTES = 38
    SPAN_BYTES = 36
    PARTS_BYTES = 12  # of sizes before the parts that are compared, at most
    HIGH_BITS = 16  # by which entries are spread before they are sorted


cdef inline void put_be64(uint8_t *p, uint64_t value) noexcept nogil:
    put_be32(p, <uint32_t>(value >> 32))
    put_be32(p + 4, <uint32_t>value)


cdef inline uint8_t *put_compared(uint8_t *out, const uint8_t *part, int64_t size) noexcept nogil:
    put_be32(out, <uint32_t>size)
    if size > 0:
        memcpy(out + 4, part, size)
    return out + 4 + max(size, <int64_t>0)


cdef int64_t last_header(
    const uint8_t *data, Py_ssize_t length, const Cols *records, Py_ssize_t row,
    const uint8_t *name, Py_ssize_t name_size, const uint8_t **value,
) noexcept nogil:
    """Find the value of the last header of a name; return its size, -1 for none."""
    cdef const uint8_t *p
    cdef const uint8_t *end
    cdef Header header
    cdef int64_t i
    cdef int64_t found = -1
    if cell(records, R_HEADERS_COUNT, row) > 0 and open_headers(data, length, records, row, &p, &end):
        for i in range(cell(records, R_HEADERS_COUNT, row)):
            if read_header(&p, end, &header):
                break
            if header.key_size == name_size and not memcmp(header.key, name, name_size):
                value[0] = header.value
                found = max(header.value_size, -1)
    return found


cdef void put_where(
    uint8_t *out, const Cols *batches, const Cols *records, Py_ssize_t row, uint32_t partition,
    bint by_offset,
) noexcept nogil:
    cdef Py_ssize_t batch = cell(records, R_BATCH, row)
    cdef int64_t offset = cell(records, R_OFFSET, row)
    cdef uint64_t sign = <uint64_t>1 << 63
    cdef uint64_t time = <uint64_t>cell(records, R_TIMESTAMP, row) + sign
    cdef int64_t epoch = cell(batches, B_PRODUCER_EPOCH, batch)
    if by_offset:
        put_be32(out, partition)
        put_be64(out + 4, <uint64_t>offset + sign)
        put_be64(out + 12, time)
    else:
        put_be64(out, time)
        put_be32(out + 8, partition)
        put_be64(out + 12, <uint64_t>offset + sign)
    put_be64(out + 20, <uint64_t>cell(batches, B_PRODUCER_ID, batch))
    out[28] = epoch >> 8 & 0xFF
    out[29] = epoch & 0xFF
    put_be32(out + 30, <uint32_t>sequence_of(
        cell(batches, B_BASE_SEQUENCE, batch),
        subtract(offset, cell(batches, B_BASE_OFFSET, batch)),
    ))
    put_be32(out + 34, <uint32_t>cell(records, R_VALUE_SIZE, row))


def lay_out_records(
    object data, object batches, object records, object rows, uint32_t topic, uint32_t partition,
    int by, bytes header, bint by_offset, bint timed,
):
    """Lay out what is compared of records; return a block, and counts of records."""
    cdef Cols heads, cols
    cdef Rows numbers
    cdef Held held = hold(data)
    cdef Held of_batches = hold_columns(batches, BATCH_WIDTH, &heads)
    cdef Held of_records = hold_columns(records, RECORD_WIDTH, &cols)
    cdef Held of_rows = hold_rows(rows, cols.count, &numbers)
    cdef const uint8_t *name = NULL if header is None else <const uint8_t *>PyBytes_AS_STRING(header)
    cdef Py_ssize_t name_size = 0 if header is None else len(header)
    cdef int64_t room = 0
    cdef Py_ssize_t seen = 0
    cdef Py_ssize_t without = 0
    cdef Py_ssize_t untimed = 0
    cdef Py_ssize_t i, row
    cdef int64_t key, value, found
    cdef int64_t wrong = -1
    cdef const uint8_t *text = NULL
    cdef uint8_t *out
    cdef uint8_t *said
    cdef uint8_t *end
    cdef bytes block
    with nogil:
        for i in range(numbers.count):
            row = row_number(&numbers, i)
            room += FRAME_BYTES + START_BYTES + PARTS_BYTES + WHERE_BYTES
            if by & BY_KEY and inside(cell(&cols, R_KEY, row), cell(&cols, R_KEY_SIZE, row), held.size):
                room += cell(&cols, R_KEY_SIZE, row)
            if by & BY_VALUE and inside(
                cell(&cols, R_VALUE, row), cell(&cols, R_VALUE_SIZE, row), held.size
            ):
                room += cell(&cols, R_VALUE_SIZE, row)
            if name is not NULL:
                room += max(
                    last_header(held.p, held.size, &cols, row, name, name_size, &text), <int64_t>0
                )
    block = PyBytes_FromStringAndSize(NULL, room)
    out = <uint8_t *>PyBytes_AS_STRING(block)
    with nogil:
        for i in range(numbers.count):
            row = row_number(&numbers, i)
            if cell(&cols, R_FLAGS, row) & MARKER:
                continue
            seen += 1
            key = value = found = -1
            if by & BY_KEY and inside(cell(&cols, R_KEY, row), cell(&cols, R_KEY_SIZE, row), held.size):
                key = cell(&cols, R_KEY_SIZE, row)
            if by & BY_VALUE and inside(
                cell(&cols, R_VALUE, row), cell(&cols, R_VALUE_SIZE, row), held.size
            ):
                value = cell(&cols, R_VALUE_SIZE, row)
            if name is not NULL:
                found = last_header(held.p, held.size, &cols, row, name, name_size, &text)
            if key < 0 and value < 0 and found < 0:
                without += 1
                continue
            if timed and cell(&cols, R_TIMESTAMP, row) < 0:
                untimed += 1
                continue
            if <uint64_t>cell(&cols, R_BATCH, row) >= <uint64_t>heads.count:
                wrong = row
                break
            said = end = out + FRAME_BYTES + START_BYTES
            if by & BY_KEY:
                end = put_compared(end, held.p + (cell(&cols, R_KEY, row) if key > 0 else 0), key)
            if by & BY_VALUE:
                end = put_compared(end, held.p + (cell(&cols, R_VALUE, row) if value > 0 else 0), value)
            if name is not NULL:
                end = put_compared(end, text, found)
            put_be32(out, <uint32_t>(end - out - FRAME_BYTES + WHERE_BYTES))
            put_be32(out + 4, kd_crc32(topic, said, end - said))
            put_be32(out + 8, topic)
            put_be32(out + 12, <uint32_t>(end - said))
            put_where(end, &heads, &cols, row, partition, by_offset)
            out = end + WHERE_BYTES
    if wrong >= 0:
        raise IndexError(wrong)
    return block[: out - <uint8_t *>PyBytes_AS_STRING(block)], seen, without, untimed


def span_keys(
    object data, object records, object rows, Py_ssize_t first, dict slots, array spans,
    int64_t size, int64_t most,
):
    """Note the first and the last record of each key; return where that ended, and the size."""
    cdef Cols cols
    cdef Rows numbers
    cdef Held held = hold(data)
    cdef Held of_records = hold_columns(records, RECORD_WIDTH, &cols)
    cdef Held of_rows = hold_rows(rows, cols.count, &numbers)
    cdef Py_ssize_t room = len(spans)
    cdef int64_t *all_spans = <int64_t *>spans.data.as_longlongs
    cdef Py_ssize_t at = max(first, <Py_ssize_t>0)
    cdef Py_ssize_t row, slot
    cdef int64_t key_size
    cdef object key, found
    while at < numbers.count:
        row = row_number(&numbers, at)
        key_size = cell(&cols, R_KEY_SIZE, row)
        if not cell(&cols, R_FLAGS, row) & MARKER and inside(
            cell(&cols, R_KEY, row), key_size, held.size
        ):
            key = PyBytes_FromStringAndSize(
                <const char *>held.p + cell(&cols, R_KEY, row), key_size
            )
            found = slots.get(key)
            if found is None:
                slot = len(slots)
                if 4 * slot + 4 > room or (slot and size + key_size > most):
                    return at, size
                slots[key] = slot
                size += key_size
                all_spans[4 * slot] = cell(&cols, R_OFFSET, row)
                all_spans[4 * slot + 1] = cell(&cols, R_TIMESTAMP, row)
            else:
                slot = found
                if slot < 0 or 4 * slot + 4 > room:
                    raise IndexError(slot)
            all_spans[4 * slot + 2] = cell(&cols, R_OFFSET, row)
            all_spans[4 * slot + 3] = cell(&cols, R_TIMESTAMP, row)
        at += 1
    return numbers.count, size


def lay_out_keys(dict slots, array spans, uint32_t topic, uint32_t partition):
    """Lay out the keys that `span_keys` took, as a block of entries."""
    cdef const int64_t *all_spans = <const int64_t *>spans.data.as_longlongs
    cdef Py_ssize_t room = 0
    cdef Py_ssize_t slot, size
    cdef bytes key, block
    cdef uint8_t *out
    cdef int i
    for key in slots:
        room += FRAME_BYTES + START_BYTES + SPAN_BYTES + len(key)
    block = PyBytes_FromStringAndSize(NULL, room)
    out = <uint8_t *>PyBytes_AS_STRING(block)
    for key, slot in slots.items():
        if slot < 0 or 4 * slot + 4 > <Py_ssize_t>len(spans):
            raise IndexError(slot)
        size = len(key)
        put_be32(out, <uint32_t>(START_BYTES + size + SPAN_BYTES))
        put_be32(out + 4, kd_crc32(topic, <const uint8_t *>PyBytes_AS_STRING(key), size))
        put_be32(out + 8, topic)
        put_be32(out + 12, <uint32_t>size)
        out += FRAME_BYTES + START_BYTES
        memcpy(out, PyBytes_AS_STRING(key), size)
        put_be32(out + size, partition)
        for i in range(4):
            put_be64(out + size + 4 + 8 * i, <uint64_t>all_spans[4 * slot + i])
        out += size + SPAN_BYTES
    return block


cdef struct Entry:
    uint64_t head  # its first eight bytes, which mostly tell it from others
    const uint8_t *p  # its size, and what it is


cdef inline uint32_t entry_size(const Entry *entry) noexcept nogil:
    return be32(entry.p)


cdef inline bint read_entry(const uint8_t *p, Py_ssize_t left, Entry *out) noexcept nogil:
    """Read the entry at a place of a block; False where it is not there whole."""
    cdef uint32_t size, i
    if left < FRAME_BYTES:
        return False
    size = be32(p)
    if size > left - FRAME_BYTES:
        return False
    out.p = p
    out.head = 0
    if size >= 8:
        out.head = be64(p + FRAME_BYTES)
    else:
        for i in range(8):
            out.head = out.head << 8 | (p[FRAME_BYTES + i] if i < size else 0)
    return True


cdef inline int ordered(const Entry *a, const Entry *b) noexcept nogil:
    """Compare two entries as bytes: below, at or above zero."""
    cdef int found
    if a.head != b.head:
        return 1 if a.head > b.head else -1
    found = memcmp(a.p + FRAME_BYTES, b.p + FRAME_BYTES, min(entry_size(a), entry_size(b)))
    if found or entry_size(a) == entry_size(b):
        return found
    return 1 if entry_size(a) > entry_size(b) else -1


cdef void sort_part(Entry *part, Entry *spare, Py_ssize_t count) noexcept nogil:
    """Sort by merging, in n log n steps whatever the entries are."""
    cdef Py_ssize_t width = 1
    cdef Py_ssize_t start, a, b, half, end, to
    while width < count:
        start = 0
        while start < count:
            half = min(start + width, count)
            end = min(half + width, count)
            a = start
            b = half
            for to in range(start, end):
                if b >= end or (a < half and ordered(&part[a], &part[b]) <= 0):
                    spare[to] = part[a]
                    a += 1
                else:
                    spare[to] = part[b]
                    b += 1
            start = end
        memcpy(part, spare, count * sizeof(Entry))
        width *= 2


cdef void sort_all(Entry *from_, Entry *to, Py_ssize_t *ends, Py_ssize_t count) noexcept nogil:
    """Sort entries from one place to another: spread by their first bits, then each part."""
    cdef Py_ssize_t i, part, start
    cdef Py_ssize_t parts = <Py_ssize_t>1 << HIGH_BITS
    for i in range(count):
        ends[(from_[i].head >> (64 - HIGH_BITS)) + 1] += 1
    for part in range(parts):
        ends[part + 1] += ends[part]
    for i in range(count):
        part = from_[i].head >> (64 - HIGH_BITS)
        to[ends[part]] = from_[i]
        ends[part] += 1
    start = 0
    for part in range(parts):
        sort_part(to + start, from_, ends[part] - start)
        start = ends[part]


def sort_entries(object block, array starts):
    """Sort the entries of a block as bytes; return them, and where those above `starts` begin."""
    cdef Held held = hold(block)
    cdef Py_ssize_t starts_count = len(starts)
    cdef const int64_t *above = <const int64_t *>starts.data.as_longlongs
    cdef array places = clone(template, starts_count, False)
    cdef int64_t *bounds = <int64_t *>places.data.as_longlongs
    cdef Py_ssize_t count = 0
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t size, i
    cdef Py_ssize_t bound = 0
    cdef Entry entry
    cdef Entry *entries
    cdef Py_ssize_t *ends
    cdef bytes result
    cdef uint8_t *out
    with nogil:
        while read_entry(held.p + at, held.size - at, &entry):
            at += FRAME_BYTES + entry_size(&entry)
            count += 1
    entries = <Entry *>realloc(NULL, 2 * max(count, <Py_ssize_t>1) * sizeof(Entry))
    ends = <Py_ssize_t *>calloc((<Py_ssize_t>1 << HIGH_BITS) + 1, sizeof(Py_ssize_t))
    try:
        if entries is NULL or ends is NULL:
            raise MemoryError
        result = PyBytes_FromStringAndSize(NULL, at)
        out = <uint8_t *>PyBytes_AS_STRING(result)
        with nogil:
            at = 0
            for i in range(count):
                read_entry(held.p + at, held.size - at, &entries[i])
                at += FRAME_BYTES + entry_size(&entries[i])
            sort_all(entries, entries + count, ends, count)
            at = 0
            for i in range(count):
                while bound < starts_count and <int64_t>(entries[count + i].head >> 32) >= above[bound]:
                    bounds[bound] = at
                    bound += 1
                size = FRAME_BYTES + entry_size(&entries[count + i])
                memcpy(out + at, entries[count + i].p, size)
                at += size
            while bound < starts_count:
                bounds[bound] = at
                bound += 1
    finally:
        free(entries)
        free(ends)
    return result, places


cdef struct Window:
    const uint8_t *p
    Py_ssize_t size


cdef struct Merge:
    Entry *heads
    Py_ssize_t *heap  # numbers of runs, that with the lowest head first
    Py_ssize_t count
    Entry held
    uint8_t span[SPAN_BYTES]  # in place of that of the held entry, where entries are folded
    bint is_held
    bint repeated
    bint folds
    Py_ssize_t tail
    int64_t *keys
    Py_ssize_t topics


cdef inline bint before(const Merge *merge, Py_ssize_t a, Py_ssize_t b) noexcept nogil:
    cdef int found = ordered(&merge.heads[a], &merge.heads[b])
    return found < 0 or (found == 0 and a < b)


cdef void sink(Merge *merge, Py_ssize_t at) noexcept nogil:
    cdef Py_ssize_t number = merge.heap[at]
    cdef Py_ssize_t child
    while True:
        child = 2 * at + 1
        if child >= merge.count:
            break
        if child + 1 < merge.count and before(merge, merge.heap[child + 1], merge.heap[child]):
            child += 1
        if not before(merge, merge.heap[child], number):
            break
        merge.heap[at] = merge.heap[child]
        at = child
    merge.heap[at] = number


cdef inline int64_t span_number(const uint8_t *span, int k) noexcept nogil:
    return <int64_t>be64(span + 4 + 8 * k)


cdef void fold(uint8_t *span, const uint8_t *other) noexcept nogil:
    """Keep the earlier of two first records, and the later of two last ones."""
    if span_number(other, 1) < span_number(span, 1) or (
        span_number(other, 1) == span_number(span, 1)
        and span_number(other, 0) < span_number(span, 0)
    ):
        memcpy(span + 4, other + 4, 16)
    if span_number(other, 3) > span_number(span, 3):
        memcpy(span + 20, other + 20, 16)


cdef void keep(Merge *merge, const Entry *entry) noexcept nogil:
    cdef uint32_t size = entry_size(entry)
    merge.held = entry[0]
    merge.is_held = True
    if merge.folds and size >= SPAN_BYTES:
        memcpy(merge.span, entry.p + FRAME_BYTES + size - SPAN_BYTES, SPAN_BYTES)


cdef uint8_t *put_held(const Merge *merge, uint8_t *out) noexcept nogil:
    cdef Py_ssize_t size = FRAME_BYTES + entry_size(&merge.held)
    memcpy(out, merge.held.p, size)
    if merge.folds and size >= FRAME_BYTES + SPAN_BYTES:
        memcpy(out + size - SPAN_BYTES, merge.span, SPAN_BYTES)
    return out + size


cdef uint8_t *take(Merge *merge, const Entry *entry, uint8_t *out) noexcept nogil:
    """Take the next entry; what was held before it goes out when it is repeated."""
    cdef uint32_t size = entry_size(entry)
    cdef Py_ssize_t said = max(<Py_ssize_t>size - merge.tail, <Py_ssize_t>0)
    cdef uint32_t topic
    cdef const uint8_t *span
    if merge.is_held and entry_size(&merge.held) == size and not memcmp(
        merge.held.p + FRAME_BYTES, entry.p + FRAME_BYTES, said
    ):
        span = entry.p + FRAME_BYTES + size - SPAN_BYTES
        if merge.folds and size >= SPAN_BYTES and not memcmp(merge.span, span, 4):
            fold(merge.span, span)
            return out
        out = put_held(merge, out)
        keep(merge, entry)
        merge.repeated = True
        return out
    if merge.is_held and merge.repeated:
        out = put_held(merge, out)
    keep(merge, entry)
    merge.repeated = False
    if size >= 8:
        topic = <uint32_t>entry.head
        if topic < merge.topics:
            merge.keys[topic] += 1
    return out


cdef inline bint read_head(
    Merge *merge, const Window *window, Py_ssize_t number, int64_t at
) noexcept nogil:
    return read_entry(window.p + at, window.size - at, &merge.heads[number])


cdef Py_ssize_t merge_heads(
    Merge *merge, const Window *windows, int64_t *at, const int64_t *more, Py_ssize_t runs,
    uint8_t **out,
) noexcept nogil:
    """Merge until a run has no further entry; return its number, -1 where all have ended."""
    cdef Py_ssize_t number, i
    for number in range(runs):
        if read_head(merge, &windows[number], number, at[number]):
            merge.heap[merge.count] = number
            merge.count += 1
        elif more[number]:
            return number
    for i in range(merge.count // 2 - 1, -1, -1):
        sink(merge, i)
    while merge.count:
        number = merge.heap[0]
        at[number] += FRAME_BYTES + entry_size(&merge.heads[number])
        out[0] = take(merge, &merge.heads[number], out[0])
        if read_head(merge, &windows[number], number, at[number]):
            sink(merge, 0)
            continue
        merge.count -= 1
        if merge.count:
            merge.heap[0] = merge.heap[merge.count]
            sink(merge, 0)
        if more[number]:
            return number
    return -1


def merge_entries(
    list windows, array at, array more, Py_ssize_t tail, bint folds, tuple held, array keys
):
    """Merge sorted blocks; return what is repeated, which has to go on, and what is held."""
    cdef Py_ssize_t runs = len(windows)
    cdef int64_t *places = <int64_t *>at.data.as_longlongs
    cdef list buffers = [hold(window) for window in windows]
    cdef Held buffer
    cdef Merge merge
    cdef Window *views
    cdef Entry first
    cdef Py_ssize_t room = 0
    cdef Py_ssize_t number
    cdef bytes block, last, kept
    cdef uint8_t *out
    cdef uint8_t *end
    if <Py_ssize_t>len(at) < runs or <Py_ssize_t>len(more) < runs:
        raise IndexError(runs)
    memset(&merge, 0, sizeof(Merge))
    merge.tail = tail
    merge.folds = folds
    merge.keys = <int64_t *>keys.data.as_longlongs
    merge.topics = len(keys)
    if held is not None:
        last = (<Py_ssize_t>len(held[0])).to_bytes(FRAME_BYTES, "big") + held[0]
        read_entry(<const uint8_t *>PyBytes_AS_STRING(last), len(last), &first)
        keep(&merge, &first)
        merge.repeated = held[1]
        room = len(last)
    views = <Window *>calloc(runs + 1, sizeof(Window))
    merge.heads = <Entry *>calloc(runs + 1, sizeof(Entry))
    merge.heap = <Py_ssize_t *>calloc(runs + 1, sizeof(Py_ssize_t))
    try:
        if views is NULL or merge.heads is NULL or merge.heap is NULL:
            raise MemoryError
        for number in range(runs):
            buffer = buffers[number]
            if places[number] < 0 or places[number] > buffer.size:
                raise IndexError(places[number])
            views[number].p = buffer.p
            views[number].size = buffer.size
            room += buffer.size - places[number]
        block = PyBytes_FromStringAndSize(NULL, room)
        out = end = <uint8_t *>PyBytes_AS_STRING(block)
        with nogil:
            number = merge_heads(
                &merge, views, places, <const int64_t *>more.data.as_longlongs, runs, &end
            )
            if number < 0 and merge.is_held and merge.repeated:
                end = put_held(&merge, end)
        if number < 0 or not merge.is_held:
            return block[: end - out], number, None
        # What is held may still be `last`, which has to stay until it is copied.
        kept = PyBytes_FromStringAndSize(NULL, FRAME_BYTES + entry_size(&merge.held))
        put_held(&merge, <uint8_t *>PyBytes_AS_STRING(kept))
        return block[: end - out], number, (kept[FRAME_BYTES:], bool(merge.repeated))
    finally:
        free(views)
        free(merge.heads)
        free(merge.heap)
