"""Read what one of Avro's schemas wrote as another one has it: aliases, defaults, wider numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from struct import pack
from typing import Any

from kdump.values.schemas.avro import (
    Budget,
    Read,
    Type,
    TypeBuilder,
    base64,
    full_name,
    raw_bytes,
    read_long,
    whole,
)
from kdump.values.schemas.errors import BAD_SCHEMA, MALFORMED, TOO_DEEP, UndecodedError

NO_RESOLUTION = "no resolution"
_WIDER = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
#: A schema, and the namespace that it stands in.
_Tree = tuple[Any, str]


def make_resolver(
    writer: Any, of_writer: list[Any], reader: Any, of_reader: list[Any]
) -> Callable[[bytes, int], Any]:
    """Return what reads a whole value of the writer's schema as the reader's; each with those that
    it refers to.
    """
    budget = Budget()
    try:
        made = _Resolver(_Side(writer, of_writer, budget), _Side(reader, of_reader, budget))
        return whole(made.type((writer, ""), (reader, "")), budget)
    except RecursionError:
        raise UndecodedError(BAD_SCHEMA, TOO_DEEP) from None
    except (TypeError, KeyError, ValueError, AttributeError, IndexError) as error:
        raise UndecodedError(BAD_SCHEMA, str(error)) from None


class _Side:
    """A schema, with its types and their trees by name."""

    def __init__(self, schema: Any, referred: list[Any], budget: Budget) -> None:
        self.making = TypeBuilder(budget, again=True)
        self._trees: dict[str, _Tree] = {}
        for each in (*referred, schema):
            self.making.type(each, "")
            self._collect(each, "")

    def _collect(self, tree: Any, namespace: str) -> None:
        if isinstance(tree, list):
            for each in tree:
                self._collect(each, namespace)
        if not isinstance(tree, dict):
            return
        if "name" in tree and isinstance(tree["type"], str):
            full, namespace = _split_name(tree, namespace)
            self._trees.setdefault(full, (tree, namespace))
        for each in (*(one["type"] for one in tree.get("fields", ())), tree["type"]):
            self._collect(each, namespace)
        self._collect(tree.get("items", tree.get("values")), namespace)

    def open(self, tree: Any, namespace: str) -> _Tree:
        """Return a schema itself, where there is its name or a schema of nothing but it."""
        while isinstance(tree, dict) and not isinstance(tree["type"], str):
            tree = tree["type"]
        name = tree["type"] if isinstance(tree, dict) and "name" not in tree else tree
        if isinstance(name, str):
            for full in (full_name(name, namespace)[0], name):
                if full in self._trees:
                    return self._trees[full]
        return tree, namespace


def _split_name(tree: dict[str, Any], namespace: str) -> tuple[str, str]:
    given = tree.get("namespace")
    return full_name(tree["name"], namespace if given is None else given)


def _kind(tree: Any) -> str:
    kind = tree if isinstance(tree, str) else "union" if isinstance(tree, list) else tree["type"]
    return "record" if kind == "error" else str(kind)


class _Resolver:
    """Makes types that read what the writer wrote."""

    def __init__(self, writer: _Side, reader: _Side) -> None:
        self._writer, self._reader = writer, reader
        self.making = writer.making
        self._open: dict[tuple[int, int], list[Type]] = {}

    def type(self, written: _Tree, wanted: _Tree) -> Type:
        """Make the type that reads one schema as another."""
        writer, reader = self._writer.open(*written), self._reader.open(*wanted)
        if isinstance(writer[0], list):
            return self._of_union(writer, reader)
        if isinstance(reader[0], list):
            return self._to_union(writer, reader)
        of, to = _kind(writer[0]), _kind(reader[0])
        if of == to == "array":
            item = self.type((writer[0]["items"], writer[1]), (reader[0]["items"], reader[1]))
            return self.making.array(item)
        if of == to == "map":
            item = self.type((writer[0]["values"], writer[1]), (reader[0]["values"], reader[1]))
            return self.making.map(item)
        if of == to and of in ("record", "enum", "fixed"):
            self._same_name(writer, reader)
            if of == "record":
                return self._record(writer, reader)
            if of == "enum":
                return self._enum(writer, reader)
            if writer[0]["size"] != reader[0]["size"]:
                raise UndecodedError(NO_RESOLUTION, "sizes differ")
        elif of != to and to not in _WIDER.get(of, ()):
            raise UndecodedError(NO_RESOLUTION, f"{of} as {to}")
        return self._plain(of, to, self._reader.making.type(*reader))

    def _plain(self, of: str, to: str, reader: Type) -> Type:
        read = self.making.type(of, "").read if of != "fixed" else reader.read
        if of == to or (of, to) == ("int", "long"):
            read = reader.read
        elif to in ("float", "double"):
            read = _after(read, lambda value: value if isinstance(value, str) else float(value))
        elif to == "bytes":
            read = _after(raw_bytes, base64)
        elif to == "string":
            read = _after(raw_bytes, bytes.decode)
        return reader._replace(read=read)

    @staticmethod
    def _same_name(writer: _Tree, reader: _Tree) -> None:
        full = full_name(writer[0]["name"], writer[1])[0]
        names = [full_name(reader[0]["name"], reader[1])[0], *reader[0].get("aliases", ())]
        if full.rpartition(".")[2] not in [str(name).rpartition(".")[2] for name in names]:
            raise UndecodedError(NO_RESOLUTION, f"{full} as {names[0]}"[:200])

    def _record(self, writer: _Tree, reader: _Tree) -> Type:
        key = id(writer[0]), id(reader[0])
        again = self._open.get(key)
        branch, budget = full_name(reader[0]["name"], reader[1])[0], self.making.budget
        if again:
            return again[0]
        if again is not None:

            def read_again(data: bytes, at: int) -> tuple[Any, int]:
                made = self._open[key][0]
                budget.take(made.weight)
                return made.read(data, at)

            return Type(read_again, branch, 1)
        held = self._open[key] = list[Type]()
        left = {field["name"]: field for field in reader[0]["fields"]}
        members: list[tuple[str | None, Read]] = []
        weight = 1 + len(left)
        for field in writer[0]["fields"]:
            name = field["name"]
            to = next((one for one in left.values() if name in _names_of(one)), None)
            if to is None:
                inner = self._writer.making.type(field["type"], writer[1])
            else:
                del left[to["name"]]
                inner = self.type((field["type"], writer[1]), (to["type"], reader[1]))
            weight += inner.weight
            members.append((None if to is None else to["name"], inner.read))
        defaults = {name: self._default(field, reader[1]) for name, field in left.items()}

        def read(data: bytes, at: int) -> tuple[Any, int]:
            value = dict(defaults)
            for name, read_member in members:
                member, at = read_member(data, at)
                if name is not None:
                    value[name] = member
            return value, at

        held.append(Type(read, branch, weight))
        return held[0]

    def _default(self, field: dict[str, Any], namespace: str) -> Any:
        if "default" not in field:
            raise UndecodedError(NO_RESOLUTION, f"no default for {field['name']}"[:200])
        written = self._write(field["type"], namespace, field["default"])
        return self._reader.making.type(field["type"], namespace).read(written, 0)[0]

    def _write(self, tree: Any, namespace: str, value: Any) -> bytes:
        """Write a default, so that it is shown as a value is."""
        self.making.budget.take(1)
        tree, namespace = self._reader.open(tree, namespace)
        kind = _kind(tree)
        if kind == "union":  # a default is one of the first branch
            return b"\0" + self._write(tree[0], namespace, value)
        if kind in ("int", "long"):
            return _number(value)
        if kind in ("float", "double"):
            return pack("<f" if kind == "float" else "<d", float(value))
        if kind in ("bytes", "fixed"):
            raw: bytes = value.encode("latin-1")
            return raw if kind == "fixed" else _number(len(raw)) + raw
        if kind == "string":
            return _text(value)
        if kind == "enum":
            return _number(tree["symbols"].index(value))
        if kind == "array":
            items = [self._write(tree["items"], namespace, each) for each in value]
        elif kind == "map":
            items = [
                _text(key) + self._write(tree["values"], namespace, each)
                for key, each in value.items()
            ]
        elif kind == "record":
            return b"".join(
                self._write(one["type"], namespace, value.get(one["name"], one.get("default")))
                for one in tree["fields"]
            )
        else:
            return b"" if kind == "null" else bytes([value])
        return (_number(len(items)) + b"".join(items) if items else b"") + b"\0"

    def _enum(self, writer: _Tree, reader: _Tree) -> Type:
        made, known = self._writer.making.type(*writer), frozenset(reader[0]["symbols"])
        default = reader[0].get("default")

        def shown(symbol: str) -> str:
            if symbol not in known and default not in known:
                raise UndecodedError(NO_RESOLUTION, f"no symbol {symbol}"[:200])
            return symbol if symbol in known else default

        return made._replace(read=_after(made.read, shown))

    def _of_union(self, writer: _Tree, reader: _Tree) -> Type:
        """Read a union: a branch that cannot be resolved is one of the values that have it."""
        branches: list[Type] = []
        for each in writer[0]:
            try:
                branches.append(self.type((each, writer[1]), reader))
            except UndecodedError as error:
                branches.append(Type(_make_failing(error), "", 1))
        reads = [each.read for each in branches]

        def read(data: bytes, at: int) -> tuple[Any, int]:
            which, at = read_long(data, at)
            if not 0 <= which < len(reads):
                raise UndecodedError(MALFORMED, "no such branch of a union")
            return reads[which](data, at)

        return Type(read, "union", 1 + max((each.weight for each in branches), default=0))

    def _to_union(self, writer: _Tree, reader: _Tree) -> Type:
        others = [each for each in reader[0] if each != "null"]
        kind = _kind(writer[0])
        alike = [_kind(self._reader.open(each, reader[1])[0]) == kind for each in reader[0]]
        for _, each in sorted(zip(alike, reader[0], strict=True), key=lambda one: not one[0]):
            try:
                made = self.type(writer, (each, reader[1]))
            except UndecodedError:
                continue
            if len(others) < 2 or made.branch == "null":
                return made
            branch = self._reader.making.type(each, reader[1]).branch
            return made._replace(read=_after(made.read, partial(_in_branch, branch)))
        raise UndecodedError(NO_RESOLUTION, f"{kind} matches no branch of the union")


def _in_branch(branch: str, value: Any) -> dict[str, Any]:
    return {branch: value}


def _names_of(field: dict[str, Any]) -> list[str]:
    return [field["name"], *field.get("aliases", ())]


def _after(read: Read, change: Callable[[Any], Any]) -> Read:
    def read_changed(data: bytes, at: int) -> tuple[Any, int]:
        value, at = read(data, at)
        return change(value), at

    return read_changed


def _make_failing(error: UndecodedError) -> Read:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        raise error.with_traceback(None)

    return read


def _number(value: int) -> bytes:
    left = (value << 1 ^ value >> 63) & (1 << 64) - 1
    made = bytearray()
    while left > 0x7F:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes((*made, left))


def _text(value: str) -> bytes:
    raw = value.encode()
    return _number(len(raw)) + raw
