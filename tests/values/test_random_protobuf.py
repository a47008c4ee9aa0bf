"""Random Protobuf schemas and messages, read as Google's own classes read them.

KDUMP_FUZZ=long takes many more. Needs grpcio-tools, which has Google's compiler.
"""

import base64
import math
import random
from pathlib import Path
from typing import Any

import pytest
from long_runs import LONG, SEED

from kdump.values.schemas import wire
from kdump.values.schemas.errors import UndecodedError
from kdump.values.schemas.protobuf import Files

SCHEMAS = 5000 if LONG else 12
SCALARS = (
    "int32 int64 uint32 uint64 sint32 sint64 bool fixed32 fixed64 sfixed32 sfixed64 float double"
    " string bytes"
).split()
KEYS = [name for name in SCALARS if name not in ("float", "double", "bytes")]
#: Words of the language are names, too.
NAMES = "message string optional reserved to max import package map oneof rpc a b c x1 _y Z".split()
HEADS = {
    "proto2": 'syntax = "proto2";',
    "proto3": 'syntax = "proto3";',
    "2023": 'edition = "2023";',
}


class Writer:
    """Writes the text of a file, with what a text may have besides."""

    def __init__(self, rng: random.Random, package: str, known: list[str]) -> None:
        self.rng = rng
        self.syntax = rng.choice(tuple(HEADS))
        self.package = package
        self.known = list(known)  # full names of messages and enums
        self.count = 0

    def file(self, imports: list[str]) -> str:
        lines = [HEADS[self.syntax], f"package {self.package};", "option java_package = 'a.b';"]
        lines += [f'import {self.rng.choice(("", "public "))}"{name}";' for name in imports]
        for _ in range(self.rng.randrange(1, 4)):
            lines += self.message(self.package, 3)
        return "\n".join(lines)

    def message(self, scope: str, depth: int) -> list[str]:
        rng = self.rng
        self.count += 1
        name = f"M{self.count}"
        full = f"{scope}.{name}"
        lines = [f"message {name} {{ // {{ not a brace"]
        if depth and rng.random() < 0.5:
            lines += self.message(full, depth - 1)
        if rng.random() < 0.4:
            lines += self.enum(full)
        self.known.append("." + full)
        numbers = iter(sorted(rng.sample(range(1, 200), 16)))
        names = iter(rng.sample(NAMES, len(NAMES)))
        for _ in range(rng.randrange(6)):
            lines.append(self.field(next(names), next(numbers), scope))
        if rng.random() < 0.4:
            lines.append(f"oneof {next(names)} {{")
            for _ in range(rng.randrange(1, 4)):
                lines.append(f"{self.type()} {next(names)} = {next(numbers)};")
            lines.append("}")
        if rng.random() < 0.4:
            value = rng.choice((*SCALARS, self.type()))
            lines.append(f"map < {rng.choice(KEYS)} , {value} > {next(names)} = {next(numbers)};")
        if self.syntax == "proto2" and rng.random() < 0.3:
            lines += [f"optional group G{self.count} = {next(numbers)} {{"]
            lines += [f"optional {self.type()} inner = 1;", "}"]
        lines.append("reserved 1000 to 1010, 2000 to max; /* } */")
        return [*lines, "}"]

    def enum(self, scope: str) -> list[str]:
        self.count += 1
        name = f"E{self.count}"
        self.known.append(f".{scope}.{name}")
        alias = self.rng.random() < 0.3
        lines = [f"enum {name} {{", "option allow_alias = true;" if alias else ""]
        numbers = [0, *self.rng.sample(range(-5, 100), 3)]
        for at, number in enumerate(dict.fromkeys(numbers)):
            lines.append(f"V{self.count}_{at} = {number};")
        if alias:
            lines.append(f"V{self.count}_again = 0x0;")
        return [*lines, "}"]

    def type(self) -> str:
        if self.known and self.rng.random() < 0.4:
            name = self.rng.choice(self.known)
            inside = name.removeprefix(f".{self.package}.")
            return self.rng.choice((name, inside)) if inside != name else name
        return self.rng.choice(SCALARS)

    def field(self, name: str, number: int, scope: str) -> str:
        rng, type_ = self.rng, self.type()
        labels = {
            "proto2": ("optional", "optional", "repeated"),
            "proto3": ("", "", "optional", "repeated"),
            "2023": ("", "", "repeated"),
        }
        label = rng.choice(labels[self.syntax])
        options = ["deprecated = true"] if rng.random() < 0.2 else []
        if label == "repeated" and type_ in SCALARS[:13]:
            packed = rng.choice((True, False))
            features = ("EXPANDED", "PACKED")[packed]
            if self.syntax == "2023":
                options.append(f"features.repeated_field_encoding = {features}")
            else:
                options.append(f"packed = {str(packed).lower()}")
        elif not label and self.syntax == "2023" and type_ in SCALARS and rng.random() < 0.5:
            options.append("features.field_presence = IMPLICIT")
        shown = rng.choice((str(number), hex(number), oct(number).replace("o", "")))
        return (
            f"{label} {type_} {name} = {shown} {f'[{chr(44).join(options)}]' if options else ''};"
        )


def filled(message: Any, rng: random.Random, depth: int) -> Any:
    """Set fields of a message to random values."""
    for field in message.DESCRIPTOR.fields:
        if rng.random() < 0.35 or field.is_required:
            continue
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        target = getattr(message, field.name, None) if field.name.isidentifier() else None
        if is_map:
            key, value = field.message_type.fields
            for _ in range(rng.randrange(3)):
                at = scalar(key, rng)
                if value.message_type is not None:
                    if depth:
                        filled(target[at], rng, depth - 1)
                else:
                    target[at] = scalar(value, rng)
        elif field.message_type is not None:
            if depth and field.is_repeated:
                for _ in range(rng.randrange(3)):
                    filled(target.add(), rng, depth - 1)
            elif depth:
                target.SetInParent()
                filled(target, rng, depth - 1)
        elif field.is_repeated:
            target.extend(scalar(field, rng) for _ in range(rng.randrange(4)))
        else:
            setattr(message, field.name, scalar(field, rng))
    return message


def scalar(field: Any, rng: random.Random) -> Any:
    if field.enum_type is not None:
        return rng.choice(field.enum_type.values).number
    kind = field.type
    if kind in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return rng.choice((0.0, -0.0, 1.5, math.inf, -math.inf, -(2.0**70), 2.0**-20))
    if kind == field.TYPE_BOOL:
        return rng.random() < 0.5
    if kind == field.TYPE_STRING:
        return rng.choice(("", "k", "ü𝄞", "\0"))
    if kind == field.TYPE_BYTES:
        return rng.randbytes(rng.randrange(4))
    bits = 64 if field.cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64) else 32
    if field.cpp_type in (field.CPPTYPE_UINT32, field.CPPTYPE_UINT64):
        return rng.choice((0, 1, 300, (1 << bits) - 1))
    return rng.choice((0, 1, -1, 300, -(1 << bits - 1), (1 << bits - 1) - 1))


def shown(message: Any) -> dict[str, Any]:
    """Say what the fields that are set hold, in the form that kdump gives them."""
    found: dict[str, Any] = {}
    for field, value in message.ListFields():
        name = field.name
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            of = field.message_type.fields[1]
            found[name] = {key_text(key): plain(of, value[key]) for key in value}
        elif field.is_repeated:
            found[name] = [plain(field, one) for one in value]
        else:
            found[name] = plain(field, value)
    return found


def key_text(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def plain(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return shown(value)
    if field.enum_type is not None:
        known = field.enum_type.values
        return next((one.name for one in known if one.number == value), value)
    if isinstance(value, float):
        return wire.not_finite(value) if value - value != 0 else value
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def same(ours: Any, theirs: Any) -> bool:
    return repr(ordered(ours)) == repr(ordered(theirs))


def ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: ordered(value[name]) for name in sorted(value)}
    return [ordered(one) for one in value] if isinstance(value, list) else value


def classes(directory: Path, files: dict[str, str]) -> Any:
    """Compile files with Google's compiler, and give the classes of their messages by name."""
    protoc = pytest.importorskip("grpc_tools.protoc", reason="no grpcio-tools to compare with")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    for name, text in files.items():
        (directory / name).write_text(text)
    out = directory / "set.bin"
    status = protoc.main([
        "protoc", f"-I{directory}", f"--descriptor_set_out={out}", "--include_imports", *files
    ])  # fmt: skip
    if status != 0:
        return None  # an imported closed enum in an open message, say
    made = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in made.file:
        pool.Add(file)
    return message_factory.GetMessageClassesForFiles([file.name for file in made.file], pool)


def test_random_messages_match_google_protobuf(tmp_path: Path) -> None:
    messages = refused = mutated = compiled = 0
    for number in range(SCHEMAS):
        rng = random.Random(SEED * 100_000 + number)
        base = Writer(rng, "base", [])
        imported = base.file([])
        main = Writer(rng, rng.choice(("main", "base.sub")), base.known)
        text = main.file(["base.proto"])
        directory = tmp_path / str(number)
        directory.mkdir()
        made = classes(directory, {"base.proto": imported, "main.proto": text})
        if made is None:
            continue
        compiled += 1
        files = Files(text, [imported])
        top = [name for name in made if name.startswith(main.package + ".M")]
        for name in top:
            if name.count(".") > main.package.count(".") + 1:
                continue
            reader = files.message([path_of(made, main.package, name)])
            for _ in range(4):
                message = filled(made[name](), rng, 3)
                data = message.SerializeToString()
                assert same(wire.decode(reader, data, 0), shown(message)), (number, name, text)
                messages += 1
                for _ in range(5):
                    changed = bytearray(data)
                    if changed:
                        changed[rng.randrange(len(changed))] = rng.randrange(256)
                    try:
                        wire.decode(reader, bytes(changed), 0)
                    except UndecodedError:
                        refused += 1
                    mutated += 1
    assert compiled > SCHEMAS // 2
    assert messages >= 2 * SCHEMAS
    assert 0 < refused < mutated


def path_of(made: Any, package: str, name: str) -> int:
    """Give which of the messages of its file it is."""
    return list(made[name].DESCRIPTOR.file.message_types_by_name).index(name.rpartition(".")[2])
