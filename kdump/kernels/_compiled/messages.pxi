# Read messages of internal topics, and write them as JSON text.

cdef enum:
    MOST_FIELDS = 48  # of a structure
    MOST_READ = 1 << 14  # elements of arrays and tagged fields in a message
    MOST_NUMBERED = 64  # record types, and versions of each
    MOST_VERSIONS = 16
    LONGEST_STRING = 0x7FFF
    MOST_WRITTEN = 1 << 20  # bytes of a key or a value
    FRAME_VERSION = 1

cdef enum:
    K_INT8, K_INT16, K_UINT16, K_INT32, K_UINT32, K_INT64, K_FLOAT64, K_BOOL, K_UUID, K_STRING,
    K_BYTES, K_STRUCT

cdef dict KIND_NUMBERS = {
    "int8": K_INT8, "int16": K_INT16, "uint16": K_UINT16, "int32": K_INT32, "uint32": K_UINT32,
    "int64": K_INT64, "float64": K_FLOAT64, "bool": K_BOOL, "uuid": K_UUID, "string": K_STRING,
    "bytes": K_BYTES, "records": K_BYTES,
}
cdef int WIDTHS[9]
WIDTHS[:] = [1, 2, 2, 4, 4, 8, 8, 1, 16]
cdef const char *URL_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


cdef struct Member:
    int kind
    bint is_array
    bint nullable
    int tag  # -1: none
    int held  # the structure that it or its elements are
    const char *name  # as in JSON, with a comma before and a colon behind
    Py_ssize_t name_size
    PyObject *key


cdef struct Structure:
    bint flexible
    int first
    int count


cdef struct Wire:
    const uint8_t *p
    const uint8_t *end
    int left  # elements that may still be read


cdef struct Text:
    char *at
    Py_ssize_t used
    Py_ssize_t size


cdef inline bint make_room(Text *out, Py_ssize_t more) noexcept nogil:
    """Make sure that `more` bytes fit, and some that are written behind them."""
    cdef char *at
    more += out.used + 2 * KD_TEXT_SLACK
    if more <= out.size:
        return True
    more *= 2
    at = <char *>realloc(out.at, more)
    if at is NULL:
        return False
    out.at = at
    out.size = more
    return True


cdef inline int64_t wire_varint(Wire *wire) noexcept nogil:
    """Read an unsigned varint of at most five bytes; -1: there is none."""
    cdef int64_t number = 0
    cdef uint8_t byte
    cdef int shift
    for shift in range(0, 35, 7):
        if wire.p >= wire.end:
            return -1
        byte = wire.p[0]
        wire.p += 1
        number |= <int64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            return number
    return -1


cdef inline int64_t wire_number(const uint8_t *p, int kind) noexcept nogil:
    cdef uint64_t number = 0
    cdef int i
    for i in range(WIDTHS[kind]):
        number = number << 8 | p[i]
    if kind == K_INT8:
        return <int8_t>number
    if kind == K_INT16:
        return <int16_t>number
    if kind == K_INT32:
        return <int32_t>number
    return <int64_t>number


cdef inline bint wire_length(Wire *wire, bint flexible, int width, int64_t *out) noexcept nogil:
    """Read a length, which is negative for null."""
    if flexible:
        out[0] = wire_varint(wire)
        if out[0] < 0:
            return False
        out[0] -= 1
        return True
    if wire.end - wire.p < width:
        return False
    out[0] = wire_number(wire.p, K_INT16 if width == 2 else K_INT32)
    wire.p += width
    return True


@final
cdef class MessageReader:
    """One version of a message: reads what is sound, and leaves all else to the interpreter."""

    cdef tuple layout
    cdef list names  # what the pointers of members point into
    cdef Member *members
    cdef Structure *structures
    cdef int members_count
    cdef int structures_count

    def __cinit__(self, tuple layout):
        self.layout = layout
        self.names = []
        self._measure(layout)
        self.members = <Member *>calloc(self.members_count + 1, sizeof(Member))
        self.structures = <Structure *>calloc(self.structures_count, sizeof(Structure))
        if self.members is NULL or self.structures is NULL:
            raise MemoryError
        self.members_count = self.structures_count = 0
        self._take(layout)

    def __dealloc__(self):
        free(self.members)
        free(self.structures)

    cdef int _measure(self, tuple layout) except -1:
        self.structures_count += 1
        self.members_count += len(layout[1])
        if len(layout[1]) > MOST_FIELDS:
            raise ValueError(layout)
        for field in layout[1]:
            if field[4] is not None:
                self._measure(field[4])
        return 0

    cdef int _take(self, tuple layout) except -1:
        """Lay a structure out, and those inside it behind it; return its number."""
        cdef int number = self.structures_count
        cdef int first = self.members_count
        cdef Member *member
        cdef bytes said
        self.structures_count += 1
        self.members_count += len(layout[1])
        self.structures[number].flexible = layout[0]
        self.structures[number].first = first
        self.structures[number].count = len(layout[1])
        for i, (name, kind, nullable, tag, held) in enumerate(layout[1]):
            said = b',"%s":' % name.encode("ascii")
            self.names.append(said)
            member = &self.members[first + <int>i]
            member.is_array = kind.startswith("[]")
            member.kind = K_STRUCT if held is not None else KIND_NUMBERS[kind.removeprefix("[]")]
            member.nullable = nullable
            member.tag = -1 if tag is None else tag
            member.name = said
            member.name_size = len(said)
            member.key = <PyObject *>name
            if held is not None:
                member.held = self._take(held)
        return number

    def __call__(self, bytes data, Py_ssize_t start):
        """Read a message that begins at `start`: its fields and where it ends, or None."""
        cdef Wire wire
        if start < 0 or start > len(data):
            return None
        wire.p = <const uint8_t *>PyBytes_AS_STRING(data) + start
        wire.end = wire.p + (len(data) - start)
        wire.left = MOST_READ
        cdef dict fields = self._fields(&wire, 0)
        if fields is None:
            return None
        return fields, wire.p - <const uint8_t *>PyBytes_AS_STRING(data)

    cdef dict _fields(self, Wire *wire, int number):
        """Read a structure; None: what is there is not sound, or more than is read here."""
        cdef const Structure *structure = &self.structures[number]
        cdef const Member *members = self.members + structure.first
        cdef const uint8_t *end = wire.end
        cdef dict found = {}
        cdef dict ordered
        cdef int64_t count, tag, size, i
        cdef int newest = -1
        cdef bint rising = True
        for i in range(structure.count):
            if members[i].tag < 0:
                if not self._put_field(wire, &members[i], structure.flexible, found):
                    return None
                newest = <int>i
        if not structure.flexible:
            return found
        count = wire_varint(wire)
        if count == 0:
            return found
        if count < 0 or count > wire.left:
            return None
        wire.left -= <int>count
        while count:
            count -= 1
            tag = wire_varint(wire)
            size = wire_varint(wire)
            i = 0
            while i < structure.count and members[i].tag != tag:
                i += 1
            if tag < 0 or i == structure.count or size < 0 or size > end - wire.p:
                return None
            rising = rising and i > newest
            newest = <int>i
            wire.end = wire.p + size
            if not self._put_field(wire, &members[i], structure.flexible, found):
                return None
            if wire.p != wire.end:
                return None
            wire.end = end
        if rising:
            return found
        ordered = {}
        for i in range(structure.count):
            name = <object>members[i].key
            if name in found:
                ordered[name] = found[name]
        return ordered

    cdef bint _put_field(
        self, Wire *wire, const Member *member, bint flexible, dict found
    ) except -1:
        cdef int64_t count
        cdef list values
        if not member.is_array:
            if member.kind == K_STRUCT and member.nullable:
                count = self._presence(wire, member)
                if count < 0:
                    return False
                if count == 0:
                    found[<object>member.key] = None
                    return True
            value = self._value(wire, member, flexible)
            if value is self:
                return False
            found[<object>member.key] = value
            return True
        if not wire_length(wire, flexible, 4, &count):
            return False
        if count < 0:
            found[<object>member.key] = None
            return member.nullable
        if count > wire.left or count > wire.end - wire.p:
            return False
        wire.left -= <int>count
        values = []
        while count:
            count -= 1
            value = self._value(wire, member, flexible)
            if value is self:
                return False
            values.append(value)
        found[<object>member.key] = values
        return True

    cdef int _presence(self, Wire *wire, const Member *member) noexcept nogil:
        """Whether a structure that may be null is there; -1: nothing says so."""
        cdef int64_t said
        if member.tag >= 0:
            said = wire_varint(wire)
            return -1 if said < 0 else said > 0
        if wire.p >= wire.end:
            return -1
        said = wire.p[0]
        wire.p += 1
        return said < 0x80

    cdef object _value(self, Wire *wire, const Member *member, bint flexible):
        """Read a value, or an element of an array; the reader itself: it cannot be read."""
        cdef int kind = member.kind
        cdef const uint8_t *p = wire.p
        cdef char text[22]
        cdef int64_t size
        cdef double number
        cdef uint64_t bits
        if kind <= K_UUID:
            if wire.end - p < WIDTHS[kind]:
                return self
            wire.p += WIDTHS[kind]
            if kind == K_BOOL:
                return p[0] != 0
            if kind == K_UUID:
                add_uuid(text, p)
                return PyUnicode_DecodeASCII(text, 22, NULL)
            if kind == K_FLOAT64:
                bits = <uint64_t>wire_number(p, K_INT64)
                memcpy(&number, &bits, 8)
                return number
            return wire_number(p, kind)
        if kind == K_STRUCT:
            fields = self._fields(wire, member.held)
            return self if fields is None else fields
        if not wire_length(wire, flexible, 2 if kind == K_STRING else 4, &size):
            return self
        if size < 0:
            return None if member.nullable and not member.is_array else self
        if size > wire.end - wire.p or (kind == K_STRING and size > LONGEST_STRING):
            return self
        p = wire.p
        wire.p += size
        if kind == K_STRING:
            return PyUnicode_DecodeUTF8(<const char *>p, size, "surrogateescape")
        return PyBytes_FromStringAndSize(<const char *>p, size)

    cdef bint _put_struct(self, Text *out, Wire *wire, int number) noexcept nogil:
        """Write a structure as JSON; False: it is left to the interpreter."""
        cdef const Structure *structure = &self.structures[number]
        cdef const Member *members = self.members + structure.first
        cdef const uint8_t *end = wire.end
        cdef Py_ssize_t start = out.used
        cdef int64_t count = 0
        cdef int64_t tag, size, i
        cdef int newest = -1
        for i in range(structure.count):
            if members[i].tag < 0:
                if not self._put_member(out, wire, &members[i], structure.flexible):
                    return False
                newest = <int>i
        if structure.flexible:
            count = wire_varint(wire)
            if count < 0 or count > wire.left:
                return False
            wire.left -= <int>count
        while count:
            count -= 1
            tag = wire_varint(wire)
            size = wire_varint(wire)
            i = newest + 1  # fields are written as they come: in the order of the layout, or not
            while i < structure.count and members[i].tag != tag:
                i += 1
            if tag < 0 or i == structure.count or size < 0 or size > end - wire.p:
                return False
            newest = <int>i
            wire.end = wire.p + size
            if not self._put_member(out, wire, &members[i], structure.flexible):
                return False
            if wire.p != wire.end:
                return False
            wire.end = end
        if not make_room(out, 3):
            return False
        if out.used == start:
            out.at[out.used] = b"{"
            out.used += 1
        else:
            out.at[start] = b"{"  # in the place of the first comma
        out.at[out.used] = b"}"
        out.used += 1
        return True

    cdef bint _put_member(
        self, Text *out, Wire *wire, const Member *member, bint flexible
    ) noexcept nogil:
        cdef int64_t count = 0
        cdef int64_t i
        cdef bint is_null = False
        if not make_room(out, member.name_size + 8):
            return False
        out.used = add_text(out.at + out.used, member.name, member.name_size) - out.at
        if not member.is_array:
            if member.kind == K_STRUCT and member.nullable:
                count = self._presence(wire, member)
                if count < 0:
                    return False
                is_null = count == 0
            if not is_null:
                return self._put_value(out, wire, member, flexible)
        else:
            if not wire_length(wire, flexible, 4, &count):
                return False
            is_null = count < 0
            if is_null and not member.nullable:
                return False
        if is_null:
            out.used = add_text(out.at + out.used, b"null", 4) - out.at
            return True
        if count > wire.left or count > wire.end - wire.p:
            return False
        wire.left -= <int>count
        out.at[out.used] = b"["
        out.used += 1
        for i in range(count):
            if not make_room(out, 1):
                return False
            if i:
                out.at[out.used] = b","
                out.used += 1
            if not self._put_value(out, wire, member, flexible):
                return False
        if not make_room(out, 1):
            return False
        out.at[out.used] = b"]"
        out.used += 1
        return True

    cdef bint _put_value(
        self, Text *out, Wire *wire, const Member *member, bint flexible
    ) noexcept nogil:
        cdef int kind = member.kind
        cdef const uint8_t *p = wire.p
        cdef char *at
        cdef int64_t size
        if kind == K_STRUCT:
            return self._put_struct(out, wire, member.held)
        if kind <= K_UUID:
            if wire.end - p < WIDTHS[kind] or kind == K_FLOAT64 or not make_room(out, WORD):
                return False
            wire.p += WIDTHS[kind]
            at = out.at + out.used
            if kind == K_BOOL:
                at = add_bool(at, p[0] != 0)
            elif kind == K_UUID:
                at[0] = b'"'
                add_uuid(at + 1, p)
                at[23] = b'"'
                at += 24
            else:
                at = add_number(at, wire_number(p, kind))
            out.used = at - out.at
            return True
        if not wire_length(wire, flexible, 2 if kind == K_STRING else 4, &size):
            return False
        if size < 0:
            if not member.nullable or member.is_array or not make_room(out, 4):
                return False
            out.used = add_text(out.at + out.used, b"null", 4) - out.at
            return True
        if size > wire.end - wire.p or (kind == K_STRING and size > LONGEST_STRING):
            return False
        if not make_room(out, 3 * size + 4):
            return False
        p = wire.p
        wire.p += size
        at = out.at + out.used
        at[0] = b'"'
        if kind == K_STRING:
            at = kd_copy_text(at + 1, &p, size, KD_JSON)
            if p != wire.p:
                return False
        else:
            at = add_base64(at + 1, p, size)
        at[0] = b'"'
        out.used = at + 1 - out.at
        return True


cdef inline void add_uuid(char *at, const uint8_t *p) noexcept nogil:
    """Write 22 characters of URL-safe base64, as Kafka writes an id."""
    cdef uint32_t bits
    cdef int i
    for i in range(5):
        bits = <uint32_t>p[3 * i] << 16 | <uint32_t>p[3 * i + 1] << 8 | p[3 * i + 2]
        at[4 * i] = URL_BASE64[bits >> 18]
        at[4 * i + 1] = URL_BASE64[bits >> 12 & 63]
        at[4 * i + 2] = URL_BASE64[bits >> 6 & 63]
        at[4 * i + 3] = URL_BASE64[bits & 63]
    at[20] = URL_BASE64[p[15] >> 2]
    at[21] = URL_BASE64[p[15] << 4 & 63]


def message_reader(tuple layout):
    """Make what reads one version of a message; None: nothing here does. See _pure."""
    return MessageReader(layout)


cdef struct Known:
    PyObject *reader
    const char *before
    Py_ssize_t size


@final
cdef class MessageWriter:
    """The messages of one topic, by record type and version; see `message_writer`."""

    cdef bint framed
    cdef list kept
    cdef Known keys[MOST_NUMBERED]
    cdef Known values[MOST_NUMBERED][MOST_VERSIONS]

    def __cinit__(self, bint framed, dict keys, dict values):
        cdef MessageReader reader
        cdef bytes before
        cdef Known *known
        self.framed = framed
        self.kept = []
        memset(self.keys, 0, sizeof(self.keys))
        memset(self.values, 0, sizeof(self.values))
        for number, (before, layout) in keys.items():
            if 0 <= number < MOST_NUMBERED:
                self._keep(&self.keys[<int>number], before, layout)
        for (number, version), (before, layout) in values.items():
            if 0 <= number < MOST_NUMBERED and 0 <= version < MOST_VERSIONS:
                self._keep(&self.values[<int>number][<int>version], before, layout)

    cdef int _keep(self, Known *known, bytes before, tuple layout) except -1:
        reader = MessageReader(layout)
        self.kept.append((reader, before))
        known.reader = <PyObject *>reader
        known.before = before
        known.size = len(before)
        return 0

    def __call__(
        self, data, records, rows, Py_ssize_t shift, Py_ssize_t start, Py_ssize_t most, spell
    ):
        """Write and place keys and values of rows; return how many rows were, and the text."""
        cdef Cols cols
        cdef Rows some
        cdef Held held = hold(data)
        cdef Held block = hold_columns(records, RECORD_WIDTH, &cols)
        cdef Held numbers = hold_rows(rows, cols.count, &some)
        cdef Text out
        cdef Py_ssize_t i = 0
        cdef Py_ssize_t row
        cdef int k
        memset(&out, 0, sizeof(out))
        start += shift
        try:
            while i < some.count and out.used < most:
                row = row_number(&some, i)
                i += 1
                if self._put_record(&out, held, &cols, row, start):
                    continue
                for k, text in zip((R_KEY, R_VALUE), spell(row)):
                    if text is not None:
                        put_whole(&out, text, len(text))
                        place(&cols, row, k, start + out.used - <Py_ssize_t>len(text), len(text))
            for k in (R_POSITION, R_KEY, R_VALUE, R_HEADERS):
                for row in range(cols.count):
                    cols.block[k * cols.stride + row] = subtract(cell(&cols, k, row), shift)
            return i, PyBytes_FromStringAndSize(out.at, out.used)
        finally:
            free(out.at)

    cdef bint _put_record(
        self, Text *out, Held held, const Cols *cols, Py_ssize_t row, Py_ssize_t start
    ) except -1:
        """Write and place what a record says; False: it is left to the interpreter."""
        cdef int64_t key = cell(cols, R_KEY, row)
        cdef int64_t key_size = cell(cols, R_KEY_SIZE, row)
        cdef int64_t value = cell(cols, R_VALUE, row)
        cdef int64_t size = cell(cols, R_VALUE_SIZE, row)
        cdef Py_ssize_t used = out.used
        cdef Py_ssize_t middle
        cdef int64_t number = 0
        cdef int64_t version = 0
        cdef Wire wire
        if cell(cols, R_FLAGS, row) & MARKER or key_size > MOST_WRITTEN or size > MOST_WRITTEN:
            return False
        if self.framed:
            if key_size >= 0:
                return False
        else:
            if key_size < 2 or not inside(key, key_size, held.size):
                return False
            wire.p = held.p + key
            wire.end = wire.p + key_size
            number = wire_number(wire.p, K_INT16)
            wire.p += 2
            if not 0 <= number < MOST_NUMBERED or not put_known(out, &wire, &self.keys[number]):
                out.used = used
                return False
        middle = out.used
        if size >= 0:
            if not inside(value, size, held.size):
                out.used = used
                return False
            wire.p = held.p + value
            wire.end = wire.p + size
            if self.framed:
                if wire_varint(&wire) != FRAME_VERSION:
                    return False
                number = wire_varint(&wire)
                version = wire_varint(&wire)
            elif size >= 2:
                version = wire_number(wire.p, K_INT16)
                wire.p += 2
            else:
                version = -1
            if (
                not 0 <= number < MOST_NUMBERED
                or not 0 <= version < MOST_VERSIONS
                or not put_known(out, &wire, &self.values[number][version])
            ):
                out.used = used
                return False
            place(cols, row, R_VALUE, start + middle, out.used - middle)
        if not self.framed:
            place(cols, row, R_KEY, start + used, middle - used)
        return True


cdef int put_whole(Text *out, bytes text, Py_ssize_t size) except -1:
    if not make_room(out, size):
        raise MemoryError
    out.used = add_text(out.at + out.used, PyBytes_AS_STRING(text), size) - out.at
    return 0


cdef bint put_known(Text *out, Wire *wire, const Known *known) except -1:
    """Write a message to the end of its bytes, with what stands around it."""
    cdef MessageReader reader
    if known.reader is NULL:
        return False
    reader = <MessageReader>known.reader
    wire.left = MOST_READ
    if not make_room(out, known.size):
        return False
    out.used = add_text(out.at + out.used, known.before, known.size) - out.at
    if not reader._put_struct(out, wire, 0) or wire.p != wire.end or not make_room(out, 1):
        return False
    out.at[out.used] = b"}"
    out.used += 1
    return True


cdef inline void place(
    const Cols *cols, Py_ssize_t row, int k, int64_t start, int64_t size
) noexcept nogil:
    """Let a key or a value be JSON text that lies somewhere else."""
    cols.block[k * cols.stride + row] = start
    cols.block[(k + 1) * cols.stride + row] = size
    cols.block[R_FLAGS * cols.stride + row] |= KEY_JSON if k == R_KEY else VALUE_JSON


def message_writer(bint framed, dict keys, dict values):
    """Make what writes the messages of a topic as JSON; None: nothing here does. See _pure."""
    return MessageWriter(framed, keys, values)


cdef enum:
    CHANGE_TYPE = 5  # PARTITION_CHANGE_RECORD
    CHANGE_VERSIONS = 3
    CHANGE_KEY = 20  # bytes of the partition and of the id of its topic
    CHANGE_TAGS = 9
    TAG_LEADER = 1
    TAG_REPLICAS = 2
    TAG_RECOVERY = 5
    TAG_DIRECTORIES = 8
    LEADER_AS_BEFORE = -2

cdef int CHANGE_LAST_TAG[CHANGE_VERSIONS]
CHANGE_LAST_TAG[:] = [5, 8, 8]


cdef struct Change:
    const uint8_t *key
    int version
    const uint8_t *said[CHANGE_TAGS]  # NULL: nothing is said of it, or that it is as before
    Py_ssize_t sizes[CHANGE_TAGS]


cdef bint open_change(const uint8_t *p, Py_ssize_t size, Change *out) noexcept nogil:
    """Take the change of a partition apart; False: it is not sound, or none."""
    cdef Wire wire
    cdef int64_t count, tag, length
    cdef int newest = -1
    cdef int i, width
    if size < 4 + CHANGE_KEY or p[0] != FRAME_VERSION or p[1] != CHANGE_TYPE:
        return False
    out.version = p[2]
    if out.version >= CHANGE_VERSIONS:
        return False
    out.key = p + 3
    for i in range(CHANGE_TAGS):
        out.said[i] = NULL
    wire.p = p + 3 + CHANGE_KEY
    wire.end = p + size
    count = wire_varint(&wire)
    while count > 0:
        count -= 1
        tag = wire_varint(&wire)
        length = wire_varint(&wire)
        if not newest < tag <= CHANGE_LAST_TAG[out.version] or length < 1:
            return False
        if (tag == 6 or tag == 7) and out.version < 2 or length > wire.end - wire.p:
            return False
        newest = <int>tag
        out.said[newest] = wire.p
        out.sizes[newest] = length
        if tag == TAG_LEADER:
            if length != 4:
                return False
            if wire_number(wire.p, K_INT32) == LEADER_AS_BEFORE:
                out.said[newest] = NULL
            wire.p += 4
        elif tag == TAG_RECOVERY:
            if length != 1:
                return False
            if wire.p[0] == 0xFF:
                out.said[newest] = NULL
            wire.p += 1
        else:
            width = 16 if tag == TAG_DIRECTORIES else 4
            if wire.p[0] == 0:
                out.said[newest] = NULL
            if not skip_list(&wire, width, out.sizes[newest]):
                return False
    return count == 0 and wire.p == wire.end


cdef bint skip_list(Wire *wire, int width, Py_ssize_t size) noexcept nogil:
    """Go over an array of values of a width, null or not, that takes `size` bytes."""
    cdef const uint8_t *end = wire.p + size
    cdef int64_t count = wire_varint(wire)
    if count < 0 or count > MOST_READ or wire.p > end:
        return False
    if count > 0:
        count -= 1
    if count * width != end - wire.p:
        return False
    wire.p = end
    return True


@final
@freelist(64)
cdef class Fold:
    """What several changes of one partition come to."""

    cdef int64_t count, leader_changes, first_offset, last_offset, last_ms, placed_ms
    cdef list said


@final
cdef class FoldedChanges:
    """Changes of partitions, of each partition one; see `folded_changes`."""

    cdef dict folds
    cdef readonly int64_t last_ms

    def __cinit__(self):
        self.folds = {}
        self.last_ms = -1

    def __len__(self):
        return len(self.folds)

    def take(
        self, data, records, Py_ssize_t first, Py_ssize_t last, int64_t least_offset,
        int64_t most_offset, int64_t most_ms,
    ):
        """Take up records while they are such changes, or say nothing; return the next one."""
        cdef Cols cols
        cdef Held held = hold(data)
        cdef Held block = hold_columns(records, RECORD_WIDTH, &cols)
        cdef Change change
        cdef int64_t value, size, offset, time_ms
        cdef const uint8_t *p
        if first < 0 or last > cols.count:
            raise IndexError(last)
        while first < last:
            value = cell(&cols, R_VALUE, first)
            size = cell(&cols, R_VALUE_SIZE, first)
            offset = cell(&cols, R_OFFSET, first)
            time_ms = cell(&cols, R_TIMESTAMP, first)
            if not least_offset <= offset <= most_offset or time_ms > most_ms:
                break
            if size < 4 or not inside(value, size, held.size):
                break
            p = held.p + value
            if size != 4 or memcmp(p, b"\x01\x14\x00\x00", 4):
                if not open_change(p, size, &change):
                    break
                self._fold(&change, offset, time_ms)
            self.last_ms = max(self.last_ms, time_ms)
            first += 1
        return first

    cdef int _fold(self, const Change *change, int64_t offset, int64_t time_ms) except -1:
        cdef bytes key = PyBytes_FromStringAndSize(<const char *>change.key, CHANGE_KEY)
        cdef Fold fold = <Fold>self.folds.get(key)
        cdef int i
        if fold is None:
            fold = Fold.__new__(Fold)
            fold.count = fold.leader_changes = 0
            fold.placed_ms = time_ms
            fold.first_offset = offset
            fold.said = [None] * CHANGE_TAGS
            self.folds[key] = fold
        fold.count += 1
        fold.last_offset = offset
        fold.last_ms = time_ms
        if change.said[TAG_LEADER] is not NULL:
            fold.leader_changes += 1
        if change.said[TAG_REPLICAS] is not NULL or change.said[TAG_DIRECTORIES] is not NULL:
            fold.placed_ms = time_ms
        for i in range(CHANGE_TAGS):
            if change.said[i] is not NULL:
                fold.said[i] = PyBytes_FromStringAndSize(
                    <const char *>change.said[i], change.sizes[i]
                )
        return 0

    def drain(self):
        """Give what was folded, in the order of the first changes, and forget it."""
        cdef Fold fold
        cdef list found = []
        for key, fold in self.folds.items():
            said = [(tag, each) for tag, each in enumerate(fold.said) if each is not None]
            message = bytearray((FRAME_VERSION, CHANGE_TYPE, CHANGE_VERSIONS - 1))
            message += key
            message.append(len(said))
            for tag, each in said:
                size = len(each)
                message.append(tag)
                while size >= 0x80:
                    message.append(size & 0x7F | 0x80)
                    size >>= 7
                message.append(size)
                message += each
            found.append((
                bytes(message), fold.count, fold.leader_changes, fold.first_offset,
                fold.last_offset, fold.last_ms, fold.placed_ms,
            ))
        self.folds = {}
        return found


def folded_changes():
    """Make what folds changes of partitions; None: nothing here does. See _pure."""
    return FoldedChanges()
