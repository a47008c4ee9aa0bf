"""Decode the keys and values of a topic by the schemas that they say they were written by.

In this order: a program of the user's; a file that the user gave for the topic; a header of the
record; a frame, 00 and an id, or 01 and a GUID. What claims none is plain. A value is decoded when
all its bytes are used: any number may begin like a frame.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kdump.findings.escape import json_text
from kdump.values.schemas.errors import BAD_SCHEMA, UndecodedError
from kdump.values.schemas.json_document import document
from kdump.values.schemas.registry import Registry, Schema, choose, plain_subject

if TYPE_CHECKING:
    from kdump.findings.rows import RecordChunk
    from kdump.values.schemas.command import Command

_ID_BYTES, _GUID_BYTES = 5, 17  # with the byte before them
_LONG_BYTES = 8
_HEADERS = (b"__key_schema_id", b"__value_schema_id")
_SIDES = ("key", "value")
#: Schemas that are kept ready to be read by; beyond it all are made again.
_MOST_READY = 1 << 11
_MOST_REFERRED = 1 << 10
#: Ids and GUIDs of a side that are looked up once; of numbers that look like frames each has one.
_MOST_NAMED = 1 << 14
_MOST_NAMES = 5  # in a sentence

Bytes = bytes | None
#: An id or a GUID; what has the indexes of a Protobuf message, and where; where the value starts.
Claim = tuple["int | bytes", bytes, int, int]


class Schemas:
    """The schemas found for some paths, and which of their values could not be read."""

    def __init__(
        self,
        registry: Registry | None,
        files: dict[str, Schema],
        command: Command | None = None,
        *,
        reports_missing: bool = False,
        as_latest: bool = False,
    ) -> None:
        """`files`: schemas by topic; `command`: a program that decodes.

        `reports_missing`: a frame is reported where there is no registry. `as_latest`: Avro is
        read as the newest version of its subject.
        """
        self._as_latest = as_latest
        self.command = command
        self._registry = registry
        self._files = files
        self._reports_missing = reports_missing
        self._ready: dict[Schema, Any] = {}
        #: Topics with the subjects of schemas that are not those of the topic.
        self.unfitting: dict[str, None] = {}
        #: How many keys and values could not be read, by reason.
        self.undecoded: Counter[str] = Counter()

    def of(self, topic: str) -> Topic | None:
        """Return what decodes a topic; None: nothing does."""
        file = self._files.get(topic)
        if self._registry is None and not (file or self._reports_missing or self.command):
            return None
        return Topic(self, topic, file)

    def sentences(self) -> Iterator[str]:
        """Say what was not decoded, and what is wrong with the registry."""
        if self.undecoded:
            counts = ", ".join(f"{count} {what}" for what, count in self.undecoded.most_common())
            yield f"keys and values not decoded: {counts}"
        if self.unfitting:
            first = ", ".join([*self.unfitting][:_MOST_NAMES])
            more = len(self.unfitting) - _MOST_NAMES
            rest = f" and {more} more" if more > 0 else ""
            yield f"written with schemas whose subject does not belong to the topic: {first}{rest}"
        if self._registry is not None and (unread := self._registry.unread):
            yield f"records of the registry's topic that cannot be read: {unread}"
        if self._registry is not None and (damaged := self._registry.damaged):
            yield f"the registry's topic is damaged, so schemas may be missing: {damaged} findings"

    @property
    def registry(self) -> Registry | None:
        """The registry, where there is one."""
        return self._registry

    def find(self, name: int | bytes) -> list[Schema]:
        """Return the schemas that an id or a GUID names."""
        if self._registry is None:
            raise UndecodedError("no registry")
        if isinstance(name, bytes):
            return self._registry.with_guid(name)
        return self._registry.with_id(name)

    def ready(self, schema: Schema, *, framed: bool = True) -> Any:
        """Return what reads values of a schema, which is made once. Raises Undecoded."""
        made = self._ready.get(schema)
        if made is None:
            if len(self._ready) >= _MOST_READY:
                self._ready.clear()
            try:
                made = self._make(schema, framed=framed)
            except UndecodedError as error:
                made = error
            self._ready[schema] = made
        if isinstance(made, UndecodedError):
            raise made.with_traceback(None)
        return made

    def _make(self, schema: Schema, *, framed: bool) -> Any:
        if schema.type == "avro":
            from kdump.values.schemas import avro

            tree = avro.parse(schema.text)
            referred = [avro.parse(each.text) for _, each in self.list_references(schema)]
            return avro.reader(tree, referred, framed=framed), avro.record_name(tree)
        if schema.type == "protobuf":
            from kdump.values.schemas.protobuf import Files

            return Files(schema.text, [each.text for _, each in self.list_references(schema)]), None
        if schema.type == "json":
            from kdump.values.schemas import json_document

            return None, json_document.title(schema.text)
        raise UndecodedError("unknown type of schema", schema.type[:40])

    def latest(self, schema: Schema) -> Schema | None:
        """Return the version as which a schema's values are to be read; None: as written."""
        if not self._as_latest or self._registry is None or schema.type != "avro":
            return None
        found = self._registry.latest(schema.subject)
        return None if found is None or found.type != "avro" else found

    def make_resolver(self, schema: Schema, reader: Schema) -> Any:
        """Return what reads values of one schema as another one's. Raises Undecoded."""
        from kdump.values.schemas import avro, avro_resolution

        trees = [avro.parse(one.text) for one in (schema, reader)]
        of_each = [
            [avro.parse(each.text) for _, each in self.list_references(one)]
            for one in (schema, reader)
        ]
        return avro_resolution.make_resolver(trees[0], of_each[0], trees[1], of_each[1])

    def list_references(self, schema: Schema) -> list[tuple[str, Schema]]:
        """Return what a schema refers to, with the names for it, each after what it needs itself.

        Raises Undecoded where one is missing, or they go in a circle.
        """
        found: dict[Schema, str] = {}
        self._walk(schema, found, [])
        found.pop(schema)
        return [(name, each) for each, name in found.items()]

    def _walk(self, schema: Schema, found: dict[Schema, str], above: list[Schema]) -> None:
        if schema in above:
            raise UndecodedError(BAD_SCHEMA, "its references are circular")
        if len(above) > 100 or len(found) > _MOST_REFERRED:
            raise UndecodedError(BAD_SCHEMA, "too many references")
        for name, subject, version in schema.references:
            each = None
            if self._registry is not None:
                each = self._registry.find_reference(schema, subject, version)
            if each is None:
                raise UndecodedError("reference is missing", f"{subject} version {version}"[:200])
            if each not in found:
                self._walk(each, found, [*above, schema])
            found[each] = name
        found.setdefault(schema, "")


class Topic:
    """Decodes the keys and values of one topic."""

    def __init__(self, schemas: Schemas, topic: str, file: Schema | None) -> None:
        self._schemas, self._topic, self._file = schemas, topic, file
        self._sides = [_Side(schemas, topic, side) for side in _SIDES]

    def claims(self, chunk: RecordChunk) -> bool:
        """Whether a record of a chunk may have been written by a schema."""
        records, data = chunk.records, chunk.data
        if self._file or self._schemas.command or any(records.headers_counts):
            return True
        view = memoryview(data)
        for positions, sizes in (
            (records.value_positions, records.value_sizes),
            (records.key_positions, records.key_sizes),
        ):
            for at, size in zip(positions, sizes, strict=True):
                if size >= _ID_BYTES and view[at] < 2:
                    return True
        return False

    def texts(
        self, chunk: RecordChunk, number: int, key: Bytes, value: Bytes
    ) -> tuple[Bytes, Bytes]:
        """Return what a key and a value hold as JSON, or why it is not known; None: plain bytes."""
        headers: tuple[Bytes, Bytes] = (None, None)
        if count := chunk.records.headers_count(number):
            start = chunk.records.headers_position(number)
            headers = schema_headers(chunk.data, start, count)
        of_key, of_value = self._sides
        return (
            None if key is None else self._text(of_key, key, headers[0], None),
            None if value is None else self._text(of_value, value, headers[1], self._file),
        )

    @staticmethod
    def forms(text: Bytes) -> tuple[bytes, ...]:
        """Return what else a decoded key is asked for by: its data, a text also without quotes."""
        data = b"" if text is None else text.partition(b'},"data":')[2][:-1]
        if data[:1] != b'"':
            return (data,) if data else ()
        from json import loads

        return data, loads(data).encode("utf-8", "surrogatepass")

    def _text(self, side: _Side, data: bytes, header: Bytes, file: Schema | None) -> Bytes:
        claim = None
        command = self._schemas.command
        try:
            if command is not None:
                shown = command.text(self._topic, side.name, data)
                if shown is not None:
                    return b'{%s,"data":%s}' % (command.said, shown.encode())
            if file is not None:
                text = self._by_file(side, data, file)
                if text is not None:
                    return text
            claim = claim_of(data, header)
            if claim is None:
                if file is not None:
                    raise UndecodedError("not a value of the given schema")
                return None
            writer = side.writer(claim[0])
            if writer is None:
                if claim[1] is data and (claim[0] != 0 or len(data) == _LONG_BYTES):
                    return None  # a number, or other bytes that only begin so
                raise UndecodedError("unknown id", _spell(claim[0]))
            return writer.text(data, claim)
        except UndecodedError as error:
            self._schemas.undecoded[error.reason] += 1
            return undecoded_text(data, error, side.schema_member(claim))

    def _by_file(self, side: _Side, data: bytes, file: Schema) -> Bytes:
        """Decode by the file of a topic, with the frame or without it."""
        writer = side.of_file(file)
        for at in (0, _ID_BYTES) if data[:1] == b"\0" and len(data) >= _ID_BYTES else (0,):
            try:
                indexes = data if at else b"\0"
                text: Bytes = writer.text(data, (0, indexes, at, at))
            except UndecodedError as error:
                if error.reason == BAD_SCHEMA or error.reason.startswith("kdump["):
                    raise
            else:
                return text
        return None


class _Side:
    """The keys of a topic, or its values."""

    def __init__(self, schemas: Schemas, topic: str, side: str) -> None:
        self._schemas, self.topic, self.name = schemas, topic, side
        self._writers: dict[int | bytes, _Writer | UndecodedError | None] = {}
        self._file: _Writer | None = None

    def names(self, record: str | None) -> list[str]:
        """Return the subjects that this side of the topic may have, by the three strategies."""
        found = [f"{self.topic}-{self.name}"]
        return found if record is None else [*found, f"{self.topic}-{record}", record]

    def writer(self, name: int | bytes) -> _Writer | None:
        """Return what an id or a GUID names; None for bytes that only look like one."""
        try:
            found = self._writers[name]
        except KeyError:
            if len(self._writers) >= _MOST_NAMED:
                self._writers.clear()
            try:
                found = self._find_writer(name)
            except UndecodedError as error:
                found = error
            self._writers[name] = found
        if isinstance(found, UndecodedError):
            raise found.with_traceback(None)
        return found

    def _find_writer(self, name: int | bytes) -> _Writer | None:
        schemas = self._schemas.find(name)
        if not schemas and (name == 0 or isinstance(name, bytes)):  # registries count from 1
            return None
        schema = choose(schemas, self.names(None))
        if schema is None:  # there is none, or another context has it
            raise UndecodedError("unknown id", _spell(name))
        return _Writer(self._schemas, schemas, schema, self)

    def of_file(self, file: Schema) -> _Writer:
        """Return what reads values by a file's schema."""
        if self._file is None:
            self._file = _Writer(self._schemas, [file], file, self, is_file=True)
        return self._file

    def schema_member(self, claim: Claim | None) -> bytes:
        """Return the JSON member of the schema that a value claims, empty where none is known."""
        found = None if claim is None else self._writers.get(claim[0])
        return found.said if isinstance(found, _Writer) else b""


class _Writer:
    """A schema by which values were written: what makes JSON text of them."""

    def __init__(
        self,
        schemas: Schemas,
        same: list[Schema],
        schema: Schema,
        side: _Side,
        *,
        is_file: bool = False,
    ) -> None:
        self._schemas, self._same, self._side = schemas, same, side
        self._schema, self._is_file = schema, is_file
        self.said = self._describe(schema, None)
        self._read: Any = None
        self._is_ready = False
        self._failed: UndecodedError | None = None
        self._messages: dict[str, bytes] = {}

    def text(self, data: bytes, claim: Claim) -> bytes:
        """Return a value with its schema as JSON text. Raises Undecoded."""
        if self._failed is None and not self._is_ready:
            try:
                self._prepare()
            except UndecodedError as error:
                self._failed = error
        if self._failed is not None:
            raise self._failed.with_traceback(None)
        said = self.said
        if self._schema.type == "json":
            shown = document(data, claim[3])
        elif self._schema.type == "protobuf":
            said, shown = self._message(data, claim)
        else:
            shown = json_text(self._read(data, claim[3]))
        return b'{%s,"data":%s}' % (said, shown.encode())

    def _message(self, data: bytes, claim: Claim) -> tuple[bytes, str]:
        """Return what is said of a Protobuf message, and the message."""
        from kdump.values.schemas import wire

        _, named_in, at, start = claim
        path, end = wire.indexes(named_in, at)
        if named_in is data:
            start = end
        elif end != len(named_in):
            raise UndecodedError("malformed header")
        message = self._read.message(path)
        said = self._messages.get(message.full)
        if said is None:
            schema = self._schema
            if not self._is_file:
                schema = self._choose(message.full)
            said = self._messages[message.full] = self._describe(schema, message.full)
        return said, json_text(wire.decode(message, data, start))

    def _prepare(self) -> None:
        self._read, record = self._schemas.ready(self._schema, framed=not self._is_file)
        if not self._is_file:
            self._schema = self._schema if self._schema.type == "protobuf" else self._choose(record)
            self.said = self._describe(self._schema, None)
            reader = self._schemas.latest(self._schema)
            if reader is not None and reader.text != self._schema.text:
                self._read = self._schemas.make_resolver(self._schema, reader)
        self._is_ready = True

    def _choose(self, record: str | None) -> Schema:
        """Return the schema of the subject that fits the topic, and note where none does."""
        names = self._side.names(record)
        schema = choose(self._same, names) or self._schema
        if plain_subject(schema.subject) not in names:
            self._schemas.unfitting.setdefault(f"{self._side.topic} by {schema.subject}"[:200])
        return schema

    def _describe(self, schema: Schema, message: str | None) -> bytes:
        if self._is_file:
            members: dict[str, object] = {"file": schema.subject, "type": schema.type}
        else:
            members = {
                "id": schema.id,
                "subject": schema.subject,
                "version": schema.version,
                "type": schema.type,
            }
        if message is not None:
            members["message"] = message
        return b'"schema":' + json_text(members).encode()


def _spell(name: int | bytes) -> str:
    return str(name) if isinstance(name, int) else name.hex()


def undecoded_text(data: bytes, error: UndecodedError, said: bytes) -> bytes:
    """Write bytes that stay as they are as JSON, with the reason."""
    members = {"base64": b2a_base64(data, newline=False).decode("ascii"), "why": str(error)}
    text = json_text(members).encode()
    return b"{%s,%s" % (said, text[1:]) if said else text


def claim_of(data: bytes, header: Bytes) -> Claim | None:
    """Return which schema bytes say that they were written by; None: they say nothing."""
    if header is not None:
        if header[:1] == b"\1" and len(header) >= _GUID_BYTES:
            return header[1:_GUID_BYTES], header, _GUID_BYTES, 0
        if header[:1] == b"\0" and len(header) >= _ID_BYTES:
            return int.from_bytes(header[1:_ID_BYTES], "big"), header, _ID_BYTES, 0
        raise UndecodedError("malformed header")
    first = data[:1]
    if first == b"\0" and len(data) >= _ID_BYTES:
        return int.from_bytes(data[1:_ID_BYTES], "big"), data, _ID_BYTES, _ID_BYTES
    if first == b"\1" and len(data) >= _GUID_BYTES:
        return data[1:_GUID_BYTES], data, _GUID_BYTES, _GUID_BYTES
    return None


def schema_headers(data: Any, at: int, count: int) -> tuple[Bytes, Bytes]:
    """Return the headers of a record that name the schema of its key and of its value."""
    view = memoryview(data)
    found: list[Bytes] = [None, None]
    try:
        for _ in range(count):
            size, at = _varint(view, at)
            name, at = bytes(view[at : at + size]), at + size
            size, at = _varint(view, at)
            if name in _HEADERS:
                found[_HEADERS.index(name)] = bytes(view[at : at + max(size, 0)])
            at += max(size, 0)
    except IndexError:
        pass
    return found[0], found[1]


def _varint(view: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = view[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value >> 1 ^ -(value & 1), at
        shift += 7
