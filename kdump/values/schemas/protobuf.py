"""Read `.proto` texts: the messages in them, with what their bytes are read by.

Read here, strictly: a text that is not understood as a whole decodes nothing. The one parser for
Python takes what is left of a broken text, and writes to standard error what was wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kdump.values.schemas.errors import BAD_SCHEMA, MOST_SCHEMA_BYTES, TOO_DEEP, UndecodedError

_TOKENS = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/
    |(\.?[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*                       # a name, qualified or not
    |[0-9](?:[\w.]|(?<=[eE])[+-])*|\.[0-9](?:[\w.]|(?<=[eE])[+-])*
    |"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'
    |[][{}()<>=;,:+/.-])""",
    re.DOTALL | re.VERBOSE | re.ASCII,
)
_MOST_DEPTH = 64
_LABELS = ("optional", "required", "repeated")
_OPEN, _CLOSED = frozenset("{[<("), frozenset("}]>)")
SCALARS = frozenset(
    "double float int32 int64 uint32 uint64 sint32 sint64 fixed32 fixed64 sfixed32 sfixed64 bool"
    " string bytes".split()
)
#: What every registry knows without being told, and has no schema of.
_KNOWN = """
syntax = "proto3"; package google.protobuf;
message Timestamp { int64 seconds = 1; int32 nanos = 2; }
message Duration { int64 seconds = 1; int32 nanos = 2; }
message DoubleValue { double value = 1; } message FloatValue { float value = 1; }
message Int64Value { int64 value = 1; } message UInt64Value { uint64 value = 1; }
message Int32Value { int32 value = 1; } message UInt32Value { uint32 value = 1; }
message BoolValue { bool value = 1; } message StringValue { string value = 1; }
message BytesValue { bytes value = 1; } message Empty {}
message Struct { map<string, Value> fields = 1; }
message Value { oneof kind { NullValue null_value = 1; double number_value = 2;
  string string_value = 3; bool bool_value = 4; Struct struct_value = 5;
  ListValue list_value = 6; } }
enum NullValue { NULL_VALUE = 0; }
message ListValue { repeated Value values = 1; }
message Any { string type_url = 1; bytes value = 2; }
message FieldMask { repeated string paths = 1; }
"""
_KNOWN_TYPES = """
syntax = "proto3"; package google.type;
message Date { int32 year = 1; int32 month = 2; int32 day = 3; }
message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }
message Money { string currency_code = 1; int64 units = 2; int32 nanos = 3; }
message LatLng { double latitude = 1; double longitude = 2; }
"""
_KNOWN_DECIMAL = """
syntax = "proto3"; package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
"""


class Field:
    """A field of a message. `type` is a scalar's name, or the message or enum once it is found."""

    __slots__ = ("entry", "has_presence", "is_group", "name", "number", "oneof", "repeated",
                 "scope", "type", "wanted")  # fmt: skip

    def __init__(self, name: str, number: int, type_: str, scope: str) -> None:
        self.name, self.number, self.wanted, self.scope = name, number, type_, scope
        self.type: str | Message | Enum = type_
        self.repeated = self.is_group = False
        self.has_presence = True
        self.oneof: object = None
        self.entry: tuple[Field, Field] | None = None  # key and value of a map


class Message:
    """A message. `nested` are those in it, without the entries of maps; `all_nested` with them."""

    __slots__ = ("all_nested", "fields", "full", "nested", "oneofs")

    def __init__(self, full: str) -> None:
        self.full = full
        self.fields: dict[int, Field] = {}
        self.nested: list[Message] = []
        self.all_nested: list[Message] = []
        self.oneofs: dict[object, list[int]] = {}


class Enum:
    """An enum: names by number; a closed one takes no other number."""

    __slots__ = ("closed", "full", "names")

    def __init__(self, full: str) -> None:
        self.full, self.closed = full, False
        self.names: dict[int, str] = {}


class Files:
    """What a text declares, and those that it imports."""

    def __init__(self, text: str, imported: list[str]) -> None:
        """Raises Undecoded for what cannot be read."""
        self._types: dict[str, Message | Enum] = {}
        self._fields: list[Field] = []
        self._extends: list[tuple[str, str, Field]] = []
        self.messages: list[Message] = []
        try:
            for each in (_KNOWN, _KNOWN_TYPES, _KNOWN_DECIMAL, *imported):
                _Parser(each, self).file()
            self.messages = _Parser(text, self).file()
            self._link()
        except RecursionError:
            raise UndecodedError(BAD_SCHEMA, TOO_DEEP) from None
        except (ValueError, IndexError) as error:
            raise UndecodedError(BAD_SCHEMA, str(error)) from None

    def message(self, path: list[int]) -> Message:
        """Return the message at a path of indexes, outermost first."""
        for name in ("nested", "all_nested"):  # clients differ in whether entries of maps count
            found, within = None, self.messages
            for index in path:
                if not 0 <= index < len(within):
                    break
                found = within[index]
                within = getattr(found, name)
            else:
                if found is not None:
                    return found
        raise UndecodedError("no such message", str(path)[:80])

    def declare(self, one: Message | Enum) -> None:
        """Take a type by its name."""
        if one.full in self._types and not one.full.startswith("google."):
            raise ValueError(f"{one.full[:80]} is declared twice")
        self._types[one.full] = one

    def need(self, field: Field) -> None:
        """Take a field whose type is found when all is read."""
        if field.wanted not in SCALARS:
            self._fields.append(field)

    def extend(self, target: str, scope: str, field: Field) -> None:
        """Take a field of a message that is declared elsewhere."""
        self._extends.append((target, scope, field))

    def _link(self) -> None:
        for field in self._fields:
            field.type = self._find(field.wanted, field.scope)
            if isinstance(field.type, Message):
                field.has_presence = not field.repeated
            else:
                field.is_group = False
        for target, scope, field in self._extends:
            message = self._find(target, scope)
            if isinstance(message, Message):
                message.fields.setdefault(field.number, field)

    def _find(self, name: str, scope: str) -> Message | Enum:
        if name.startswith("."):
            within, name = "", name[1:]
        else:
            within = scope
        while True:
            found = self._types.get(f"{within}.{name}" if within else name)
            if found is not None:
                return found
            if not within:
                raise ValueError(f"unknown type {name[:80]}")
            within = within.rpartition(".")[0]


def _tokens(text: str) -> list[str]:
    if len(text) > MOST_SCHEMA_BYTES:
        raise ValueError("too large")
    found, at, size = [], 0, len(text)
    match = _TOKENS.match
    while at < size:
        one = match(text, at)
        if one is None:
            raise ValueError(f"unexpected {text[at : at + 20]!r}")
        if one[1] is not None:
            found.append(one[1])
        at = one.end()
    found.append("")
    return found


class _Parser:
    """Reads one text, a token after another."""

    def __init__(self, text: str, files: Files) -> None:
        self._left = _tokens(text.removeprefix("\ufeff"))
        self._left.reverse()
        self._files = files
        self._syntax = "proto2"
        self._features = {"enum_type": "CLOSED", "field_presence": "EXPLICIT"}

    def file(self) -> list[Message]:
        """Read to the end; return the messages at the top."""
        messages: list[Message] = []
        package = ""
        while (word := self._next()) != "":
            if word in ("syntax", "edition"):
                self._expect("=")
                self._syntax = self._next()[1:-1]
                self._expect(";")
                if self._syntax == "proto3":
                    self._features |= {"enum_type": "OPEN", "field_presence": "IMPLICIT"}
                elif word == "edition":
                    self._features["enum_type"] = "OPEN"
            elif word == "package":
                package = self._name()
                self._expect(";")
            elif word == "import":
                while self._next() != ";":
                    pass
            elif word == "option":
                self._features |= self._option(";")
            elif word == "service":
                self._name()
                self._skip_block()
            elif word != ";":
                self._read_declaration(word, package, messages, None, 0)
        return messages

    def _read_declaration(
        self, word: str, scope: str, messages: list[Message], within: Message | None, depth: int
    ) -> bool:
        """Read a declaration that may stand in a file and in a message; False: it is none."""
        if word == "message" and self._left[-2] == "{":
            name = self._name()
            made = Message(f"{scope}.{name}" if scope else name)
            messages.append(made)
            if within is not None:
                within.all_nested.append(made)
            self._message(made, depth + 1)
        elif word == "enum" and self._left[-2] == "{":
            self._enum(scope)
        elif word == "extend" and self._left[-2] == "{":
            target = self._name()
            self._expect("{")
            while (inner := self._next()) != "}":
                if inner != ";":
                    for field in self._field(inner, scope, within, depth, messages):
                        field.name = f"[{scope}.{field.name}]" if scope else f"[{field.name}]"
                        self._files.extend(target, scope, field)
        elif within is None:
            raise ValueError(f"unexpected {word[:40]!r}")
        else:
            return False
        return True

    def _message(self, message: Message, depth: int) -> None:
        if depth > _MOST_DEPTH:
            raise ValueError(TOO_DEEP)
        self._files.declare(message)
        self._expect("{")
        while (word := self._next()) != "}":
            follows = self._left[-1]
            if word == ";":
                pass
            elif word == "option":
                self._option(";")
            elif word in ("reserved", "extensions") and self._left[-2] != "=":
                while self._next() != ";":
                    pass
            elif word == "oneof" and self._left[-2] == "{":
                self._oneof(message, depth)
            elif word == "map" and follows == "<":
                self._map(message)
            elif not self._read_declaration(word, message.full, message.nested, message, depth):
                for field in self._field(word, message.full, message, depth, message.nested):
                    self._add(message, field)

    @staticmethod
    def _add(message: Message, field: Field) -> None:
        if field.number in message.fields or not 0 < field.number < 1 << 29:
            raise ValueError(f"field number {field.number} of {message.full[:80]}")
        message.fields[field.number] = field

    def _field(
        self, word: str, scope: str, within: Message | None, depth: int, nested: list[Message]
    ) -> Iterator[Field]:
        """Read a field or a group, of which `word` is the first."""
        label = ""
        if word in _LABELS and self._left[-1] != "=" and self._left[-2] != "=":
            label, word = word, self._next()
        if word == "group" and self._left[-2] == "=":
            yield self._group(label, scope, within, depth, nested)
            return
        if not _is_name(word):
            raise ValueError(f"unexpected {word[:40]!r}")
        field = Field(self._name(), self._number("="), word, scope)
        features = self._features | self._options()
        self._expect(";")
        field.repeated = label == "repeated"
        presence = label in ("optional", "required") or features["field_presence"] != "IMPLICIT"
        field.has_presence = presence and not field.repeated
        field.is_group = features.get("message_encoding") == "DELIMITED"
        self._files.need(field)
        yield field

    def _group(
        self, label: str, scope: str, within: Message | None, depth: int, nested: list[Message]
    ) -> Field:
        name = self._name()
        full = f"{scope}.{name}" if scope else name
        field = Field(name.lower(), self._number("="), f".{full}", scope)
        self._options()
        field.repeated, field.is_group = label == "repeated", True
        self._files.need(field)
        made = Message(full)
        (nested if within is None else within.all_nested).append(made)
        self._message(made, depth + 1)
        return field

    def _oneof(self, message: Message, depth: int) -> None:
        one = object()
        self._name()
        self._expect("{")
        while (word := self._next()) != "}":
            if word == "option":
                self._option(";")
            elif word != ";":
                for field in self._field(word, message.full, message, depth, message.nested):
                    field.oneof, field.has_presence = one, True
                    self._add(message, field)
                    message.oneofs.setdefault(one, []).append(field.number)

    def _map(self, message: Message) -> None:
        self._expect("<")
        key = Field("key", 1, self._name(), message.full)
        self._expect(",")
        value = Field("value", 2, self._name(), message.full)
        self._expect(">")
        field = Field(self._name(), self._number("="), "map", message.full)
        if key.wanted not in SCALARS or key.wanted in ("float", "double", "bytes"):
            raise ValueError(f"a map key cannot be {key.wanted[:40]}")
        self._options()
        self._expect(";")
        field.repeated, field.has_presence, field.entry = True, False, (key, value)
        self._files.need(value)
        message.all_nested.append(Message(f"{message.full}.{field.name}Entry"))
        self._add(message, field)

    def _enum(self, scope: str) -> None:
        name = self._name()
        made = Enum(f"{scope}.{name}" if scope else name)
        self._files.declare(made)
        self._expect("{")
        features = self._features
        while (word := self._next()) != "}":
            if word == "option" and self._left[-1] != "=":
                features = features | self._option(";")
            elif word == "reserved" and self._left[-1] != "=":
                while self._next() != ";":
                    pass
            elif word != ";":
                number = self._number("=")
                self._options()
                self._expect(";")
                made.names.setdefault(number, word)
        made.closed = features["enum_type"] == "CLOSED"

    def _options(self) -> dict[str, str]:
        """Read options in brackets, if they come; return the features among them."""
        found: dict[str, str] = {}
        if self._left[-1] == "[":
            self._next()
            while True:
                found |= self._option("]", ",")
                if self._last == "]":
                    break
        return found

    def _option(self, *ends: str) -> dict[str, str]:
        """Read an option to one of the tokens that end it; return the features that it sets."""
        words: list[str] = []
        depth = 0
        while depth or self._left[-1] not in ends:
            word = self._next()
            if word == "":
                raise ValueError("ends in an option")
            depth += (word in _OPEN) - (word in _CLOSED)
            words.append(word)
        self._last = self._next()
        if words[0] == "features":
            pairs = zip(words, words[1:], words[2:], strict=False)
            return {name: value for name, colon, value in pairs if colon == ":"}
        if words[0].startswith("features.") and len(words) == 3:
            return {words[0].removeprefix("features."): words[2]}
        return {}

    def _skip_block(self) -> None:
        self._expect("{")
        depth = 1
        while depth:
            word = self._next()
            if word == "":
                raise ValueError("ends in a block")
            depth += (word in _OPEN) - (word in _CLOSED)

    def _next(self) -> str:
        """Take the next token; empty at the end, which only a file takes twice."""
        word = self._left.pop()
        if word == "":
            self._left.append("")
            self._ends += 1
            if self._ends > 2:
                raise ValueError("ends too early")
        return word

    _ends = 0
    _last = ""

    def _expect(self, word: str) -> None:
        found = self._next()
        if found != word:
            raise ValueError(f"{word!r} expected, not {found[:40]!r}")

    def _name(self) -> str:
        word = self._next()
        if not _is_name(word):
            raise ValueError(f"a name expected, not {word[:40]!r}")
        return word

    def _number(self, before: str) -> int:
        self._expect(before)
        word = self._next()
        sign = 1
        if word == "-":
            sign, word = -1, self._next()
        is_octal = len(word) > 1 and word[0] == "0" and word.isdigit()
        return sign * int(word, 8 if is_octal else 0)


def _is_name(word: str) -> bool:
    return word[:1].isalpha() or (word[:1] in ("_", ".") and len(word) > 1)
