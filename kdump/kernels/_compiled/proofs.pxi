# Check headers and records for `verify`: checksums, index entries, sequences.

cdef enum:
    NO_BATCH = 1, PASSES_OVER, BELOW_BATCH, STARTS_LATE, OTHER_TIME
    PROOF_STATE = 6


def tally(object batches):
    """Return (records, wrappers, compressed, newest) of all rows."""
    cdef Cols rows
    cdef Held held = hold_columns(batches, BATCH_WIDTH, &rows)
    cdef Py_ssize_t i
    cdef int64_t records = 0
    cdef int64_t wrappers = 0
    cdef int64_t compressed = 0
    cdef int64_t newest = -1
    with nogil:
        for i in range(rows.count):
            records += max(cell(&rows, B_RECORDS_COUNT, i), <int64_t>0)
            newest = max(newest, cell(&rows, B_MAX_TIMESTAMP, i))
            wrappers += cell(&rows, B_FLAGS, i) & WRAPPER != 0
            compressed += cell(&rows, B_FLAGS, i) & COMPRESSED != 0
    return records, wrappers, compressed, newest


cdef enum:
    PRODUCER_WIDTH = 6

cdef int64_t MAX_INT64 = 0x7FFFFFFFFFFFFFFF


cdef Py_ssize_t follow(
    const Cols *rows,
    Py_ssize_t row,
    Py_ssize_t end,
    int64_t *next_offset,
    int64_t *table,
    Py_ssize_t known,
) noexcept nogil:
    cdef int64_t base, last, producer_id
    cdef int64_t *producer = table
    cdef Py_ssize_t i
    while row < end:
        base = cell(rows, B_BASE_OFFSET, row)
        last = cell(rows, B_LAST_OFFSET, row)
        if (
            base != next_offset[0]
            or cell(rows, B_FLAGS, row) & (CONTROL | TRANSACTIONAL)
            or last == MAX_INT64
        ):
            break
        producer_id = cell(rows, B_PRODUCER_ID, row)
        if producer_id >= 0:
            if not known:
                break
            if producer[0] != producer_id:  # most often it is the one of the row before
                for i in range(known):
                    producer = table + i * PRODUCER_WIDTH
                    if producer[0] == producer_id:
                        break
                else:
                    break
            if (
                producer[1] != cell(rows, B_PRODUCER_EPOCH, row)
                or producer[2] < 0
                or cell(rows, B_BASE_SEQUENCE, row) == 0
                or cell(rows, B_BASE_SEQUENCE, row) != ((<uint64_t>producer[2] + 1) & 0x7FFFFFFF)
            ):
                break
            producer[4] = <int64_t>(<uint64_t>last - <uint64_t>base)
            producer[2] = <int64_t>(
                (<uint64_t>cell(rows, B_BASE_SEQUENCE, row) + <uint64_t>producer[4]) & 0x7FFFFFFF
            )
            producer[3] = last
            producer[5] = cell(rows, B_MAX_TIMESTAMP, row)
        next_offset[0] = last + 1
        row += 1
    return row


def follow_producers(
    object batches, Py_ssize_t first, Py_ssize_t end, int64_t next_offset, array table
):
    """Follow producers through the rows of [first, end) that hold no surprise (R7)."""
    cdef Cols rows
    cdef Held held = hold_columns(batches, BATCH_WIDTH, &rows)
    cdef Py_ssize_t row
    cdef Py_ssize_t known = len(table) // PRODUCER_WIDTH
    with nogil:
        row = follow(
            &rows,
            max(first, <Py_ssize_t>0),
            min(end, rows.count),
            &next_offset,
            <int64_t *>table.data.as_longlongs,
            known,
        )
    return row, next_offset


cdef Py_ssize_t rising(const uint8_t *p, Py_ssize_t slots, bint strict) noexcept nogil:
    """Count the first slots that rise."""
    cdef Py_ssize_t slot = 0
    cdef int64_t key = -1
    cdef int64_t value = 0
    cdef int64_t next_key, next_value
    while slot < slots:
        if strict:
            next_key = <int32_t>be32(p)
            next_value = <int32_t>be32(p + 4)
        else:
            next_key = <int64_t>be64(p)
            next_value = <int32_t>be32(p + 8)
        if next_key <= key or next_value < value or (strict and next_value == value):
            break
        key = next_key
        value = next_value
        slot += 1
        p += 8 if strict else 12
    return slot


def rising_slots(object data, int size):
    """Count the whole slots of an index, from the first on, that rise as written entries do."""
    cdef Held held = hold(data)
    cdef bint strict = size == 8
    cdef Py_ssize_t slots
    with nogil:
        slots = rising(held.p, held.size // (8 if strict else 12), strict)
    return slots


def index_sectors(object data, Py_ssize_t start, Py_ssize_t size):
    """Find sectors that hold a piece of an offset index and nothing else."""
    cdef Held held = hold(data)
    cdef const uint8_t *p = held.p
    cdef Py_ssize_t at = max(start, 0)
    cdef Py_ssize_t end
    cdef list found = []
    while at <= held.size - size:
        end = at + 8 * rising(p + at, size // 8, True)
        if end - at >= 24:
            while end < at + size and not p[end]:
                end += 1
            if end == at + size:
                found.append(at)
        at += size
    return found


cdef inline Py_ssize_t floor_of(
    const uint8_t *offsets, Py_ssize_t end, int32_t relative
) noexcept nogil:
    """Find the last of the first `end` slots at or below a relative offset, -1 for none."""
    cdef Py_ssize_t low = 0
    cdef Py_ssize_t middle
    while low < end:
        middle = low + (end - low) // 2
        if <int32_t>be32(offsets + 8 * middle) <= relative:
            low = middle + 1
        else:
            end = middle
    return low - 1


# What is wrong: three numbers each while there is room, the rest is counted in the caller's state.
cdef struct Found:
    int64_t *numbers
    Py_ssize_t room, count
    int64_t *unsaid


cdef array open_found(Found *found, Py_ssize_t most, int64_t *unsaid):
    cdef array numbers = clone(template, 3 * max(most, <Py_ssize_t>1), False)
    found.numbers = <int64_t *>numbers.data.as_longlongs
    found.room = most
    found.count = 0
    found.unsaid = unsaid
    return numbers


cdef inline void say(Found *found, int64_t why, int64_t what, int64_t where) noexcept nogil:
    cdef int64_t *numbers = found.numbers + 3 * found.count
    if found.count < found.room:
        numbers[0] = why
        numbers[1] = what
        numbers[2] = where
        found.count += 1
    else:
        found.unsaid[0] += 1


cdef list all_found(const Found *found):
    numbers = [found.numbers[i] for i in range(3 * found.count)]
    return list(zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True))


cdef struct Proof:
    const uint8_t *offsets
    const uint8_t *times
    Py_ssize_t offset_end, time_end
    int64_t base_offset
    int64_t *state
    int64_t *marks
    Found found


cdef void prove(Proof *proof, const Cols *rows) noexcept nogil:
    cdef Py_ssize_t i, floor
    cdef Py_ssize_t offset_slot = proof.state[0]
    cdef Py_ssize_t time_slot = proof.state[1]
    cdef int64_t highest = proof.state[2]
    cdef int64_t newest = proof.state[3]
    cdef int64_t position, last, timestamp, offset, at, time
    cdef int32_t relative
    cdef const uint8_t *p
    for i in range(rows.count):
        position = cell(rows, B_POSITION, i)
        last = cell(rows, B_LAST_OFFSET, i)
        timestamp = cell(rows, B_MAX_TIMESTAMP, i)
        while offset_slot < proof.offset_end:
            p = proof.offsets + 8 * offset_slot
            at = <int32_t>be32(p + 4)
            if at > position:
                break
            offset = add(proof.base_offset, <int32_t>be32(p))
            if at < position:
                say(&proof.found, NO_BATCH, offset_slot, i)
            elif offset <= highest:
                say(&proof.found, PASSES_OVER, offset_slot, i)
            elif offset < cell(rows, B_BASE_OFFSET, i):
                say(&proof.found, BELOW_BATCH, offset_slot, i)
            proof.marks[offset_slot] = newest
            offset_slot += 1
        while time_slot < proof.time_end:
            p = proof.times + 12 * time_slot
            relative = <int32_t>be32(p + 8)
            if add(proof.base_offset, relative) > last:
                break
            time = <int64_t>be64(p)
            floor = floor_of(proof.offsets, offset_slot, relative)
            if floor >= 0 and proof.marks[floor] >= time:
                say(&proof.found, STARTS_LATE, time_slot, i)
            elif timestamp != time and format_at(cell(rows, B_LAYOUT, i)).has_timestamps:
                say(&proof.found, OTHER_TIME, time_slot, i)
            time_slot += 1
        highest = max(highest, last)
        newest = max(newest, timestamp)
        if not format_at(cell(rows, B_LAYOUT, i)).has_timestamps:
            proof.state[4] = 1
    proof.state[0] = offset_slot
    proof.state[1] = time_slot
    proof.state[2] = highest
    proof.state[3] = newest


def prove_entries(
    object batches,
    object offset_slots,
    object time_slots,
    int64_t base_offset,
    array state,
    array marks,
    Py_ssize_t most,
):
    """Hold index entries against the next run of headers of their log; all slots rise."""
    cdef Cols rows
    cdef Held held = hold_columns(batches, BATCH_WIDTH, &rows)
    cdef Held offsets = hold(offset_slots)
    cdef Held times = hold(time_slots)
    cdef Proof proof
    cdef array numbers
    proof.state = <int64_t *>state.data.as_longlongs
    numbers = open_found(&proof.found, most, proof.state + 5)
    proof.offsets = offsets.p
    proof.times = times.p
    proof.offset_end = offsets.size // 8
    proof.time_end = times.size // 12
    proof.base_offset = base_offset
    proof.marks = <int64_t *>marks.data.as_longlongs
    if (
        len(state) < PROOF_STATE
        or len(marks) < proof.offset_end
        or proof.state[0] < 0
        or proof.state[1] < 0
    ):
        raise ValueError(state)
    with nogil:
        prove(&proof, &rows)
    return all_found(&proof.found)


# What reindex builds from a run of headers --------------------------------------------------------


cdef inline void put_be32(uint8_t *p, uint32_t value) noexcept nogil:
    p[0] = value >> 24
    p[1] = value >> 16 & 0xFF
    p[2] = value >> 8 & 0xFF
    p[3] = value & 0xFF


cdef struct Entries:
    uint8_t *offsets
    uint8_t *times
    Py_ssize_t offset_count
    Py_ssize_t time_count
    Py_ssize_t row
    int64_t base_offset
    int64_t interval
    bint first_offsets
    int64_t *state


cdef int put_entries(Entries *out, const Cols *rows) noexcept nogil:
    cdef int64_t *state = out.state
    cdef int64_t position, last, entry, timestamp, timestamp_offset
    cdef uint8_t *p
    while out.row < rows.count:
        position = cell(rows, B_POSITION, out.row)
        last = cell(rows, B_LAST_OFFSET, out.row)
        if not out.first_offsets and (
            last < out.base_offset or <uint64_t>subtract(last, out.base_offset) > 0x7FFFFFFF
        ):
            return OFFSET_RANGE
        timestamp = state[1]
        timestamp_offset = state[2]
        if cell(rows, B_MAX_TIMESTAMP, out.row) > timestamp:
            timestamp = cell(rows, B_MAX_TIMESTAMP, out.row)
            timestamp_offset = last
        if subtract(position, state[0]) > out.interval:
            entry = last
            if out.first_offsets:
                entry = cell(rows, B_BASE_OFFSET, out.row)
                if entry == -1 and cell(rows, B_FLAGS, out.row) & WRAPPER:
                    return UNOPENED
            if (state[3] and entry <= state[4]) or (state[5] and timestamp_offset < state[7]):
                return INDEX_FALLS
            p = out.offsets + 8 * out.offset_count
            put_be32(p, <uint32_t><uint64_t>subtract(entry, out.base_offset))
            put_be32(p + 4, <uint32_t><uint64_t>position)
            out.offset_count += 1
            state[0] = position
            state[3] = add(state[3], 1)
            state[4] = entry
            if timestamp > state[6]:
                p = out.times + 12 * out.time_count
                put_be32(p, <uint32_t>(<uint64_t>timestamp >> 32))
                put_be32(p + 4, <uint32_t><uint64_t>timestamp)
                put_be32(p + 8, <uint32_t><uint64_t>subtract(timestamp_offset, out.base_offset))
                out.time_count += 1
                state[5] = add(state[5], 1)
                state[6] = timestamp
                state[7] = timestamp_offset
                state[8] = state[3]
        state[1] = timestamp
        state[2] = timestamp_offset
        out.row += 1
    return END


def index_entries(
    object batches,
    Py_ssize_t first,
    int64_t base_offset,
    int64_t interval,
    bint first_offsets,
    array state,
):
    """Make the index entries that recovery writes for the rows from `first` on (R2)."""
    cdef Cols rows
    cdef Held held = hold_columns(batches, BATCH_WIDTH, &rows)
    cdef Entries out
    cdef Py_ssize_t room
    cdef int reason
    if len(state) < 9:
        raise ValueError(state)
    out.row = max(first, <Py_ssize_t>0)
    room = max(rows.count - out.row, <Py_ssize_t>0)
    offsets = PyBytes_FromStringAndSize(NULL, 8 * room)
    times = PyBytes_FromStringAndSize(NULL, 12 * room)
    out.offsets = <uint8_t *>PyBytes_AS_STRING(offsets)
    out.times = <uint8_t *>PyBytes_AS_STRING(times)
    out.offset_count = 0
    out.time_count = 0
    out.base_offset = base_offset
    out.interval = interval
    out.first_offsets = first_offsets
    out.state = <int64_t *>state.data.as_longlongs
    with nogil:
        reason = put_entries(&out, &rows)
    return offsets[: 8 * out.offset_count], times[: 12 * out.time_count], out.row, reason


cdef enum:
    OFFSET_OUTSIDE = 1, OFFSET_ORDER, MAX_TIMESTAMP, INNER_CRC, LAST_OFFSET,
    RECORDS_STATE = 9


cdef inline void close_batch(
    Found *found, const int64_t *state, const Cols *batches, int64_t record
) noexcept nogil:
    cdef int64_t row = state[0]
    cdef const Format *read
    cdef bint wrapper
    if row < 0 or row >= batches.count:
        return
    read = format_at(cell(batches, B_LAYOUT, row))
    wrapper = cell(batches, B_FLAGS, row) & WRAPPER != 0
    if (
        read.has_timestamps
        and (wrapper or not read.is_legacy)
        and cell(batches, B_ATTRIBUTES, row) & LOG_APPEND_TIME == 0
        and not state[3]
        and state[2] != cell(batches, B_MAX_TIMESTAMP, row)
    ):
        say(found, MAX_TIMESTAMP, row, record)
    if (
        not read.relative_offsets
        and wrapper
        and state[1] != cell(batches, B_LAST_OFFSET, row)
    ):
        say(found, LAST_OFFSET, row, record)


cdef void hold_records(
    Found *found, int64_t *state, const Cols *batches, const Cols *records
) noexcept nogil:
    cdef Py_ssize_t i
    cdef int64_t batch, header_flags, flags, offset, lowest, key, value
    cdef int64_t of = -1
    cdef const Format *read = FORMATS
    cdef const Format *fixed
    for i in range(records.count):
        batch = cell(records, R_BATCH, i)
        if batch != state[0]:
            close_batch(found, state, batches, i)
            state[0] = batch
            state[1] = -1
            state[2] = -1
            state[3] = 0
        if batch != of:
            of = batch
            header_flags = cell(batches, B_FLAGS, batch)
            read = format_at(cell(batches, B_LAYOUT, batch))
        flags = cell(records, R_FLAGS, i)
        offset = cell(records, R_OFFSET, i)
        lowest = -1 if header_flags & WRAPPER else cell(batches, B_BASE_OFFSET, batch)
        if offset < lowest or offset > cell(batches, B_LAST_OFFSET, batch):
            say(found, OFFSET_OUTSIDE, batch, i)
        elif offset <= state[1] and offset >= 0:
            say(found, OFFSET_ORDER, batch, i)
        state[1] = offset
        state[2] = max(state[2], cell(records, R_TIMESTAMP, i))
        if flags & INNER_CRC_BAD:
            say(found, INNER_CRC, batch, i)
        if flags & INNER_MAGIC_OTHER:
            state[3] = 1
        key = cell(records, R_KEY_SIZE, i)
        if key < 0 and not header_flags & CONTROL:
            if not state[4]:
                state[5] = offset
            state[4] += 1
        if read.is_legacy:
            fixed = read
            value = max(cell(records, R_VALUE_SIZE, i), <int64_t>0)
            if header_flags & WRAPPER:
                fixed = message_format(flags >> INNER_MAGIC_SHIFT & 3)
            if cell(records, R_SIZE, i) > fixed.smallest_size + max(key, <int64_t>0) + value:
                if not state[6]:
                    state[7] = cell(batches, B_POSITION, batch)
                state[6] += 1


def prove_records(object batches, object records, array state, bint complete, Py_ssize_t most):
    """Hold records against the headers of their batches, in order."""
    cdef Cols rows, columns
    cdef Held first = hold_columns(batches, BATCH_WIDTH, &rows)
    cdef Held second = hold_columns(records, RECORD_WIDTH, &columns)
    cdef Found found
    cdef int64_t *numbers = <int64_t *>state.data.as_longlongs
    cdef array room = open_found(&found, most, numbers + 8)
    cdef Py_ssize_t i
    cdef int64_t batch
    fits = len(state) >= RECORDS_STATE
    for i in range(columns.count):
        batch = cell(&columns, R_BATCH, i)
        if batch < 0 or batch >= rows.count:
            fits = False
    if not fits:
        raise ValueError(state)
    with nogil:
        hold_records(&found, numbers, &rows, &columns)
        if complete:
            close_batch(&found, numbers, &rows, columns.count)
            numbers[0] = -1
    return all_found(&found)
