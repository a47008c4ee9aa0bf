"""Draw messages of any kind and version, as the fields that they are read to."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from typing import Any

from long_runs import SEED
from message_writing import is_default

from kdump.messages.table import Field, message

_NUMBER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def value(rng: random.Random, kind: str) -> Any:
    """Draw a value of a type that is no structure, at its borders now and then."""
    if kind in _NUMBER_BITS:
        half = 1 << _NUMBER_BITS[kind] - 1
        return rng.choice((0, -1, half - 1, -half, rng.randrange(-half, half)))
    if kind in ("uint16", "uint32"):
        most = (1 << int(kind[4:])) - 1
        return rng.choice((0, most, rng.randint(0, most)))
    if kind == "float64":
        return rng.choice((0.0, -1.5, 1e300, rng.random()))
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "uuid":
        return base64.urlsafe_b64encode(rng.randbytes(16)).decode()[:22]
    size = rng.choice((0, 1, 5, 130, rng.randrange(300)))
    if kind == "string":
        return "".join(rng.choice("aä€😀\0 ") for _ in range(size))
    return rng.randbytes(size)


def fields(rng: random.Random, of: tuple[Field, ...], version: int) -> dict[str, Any]:
    """Draw the fields of a structure; tagged ones are left out now and then."""
    drawn = {}
    for field in of:
        if version not in field.versions:
            continue
        tagged = version in field.tagged
        if tagged and rng.random() < 0.3:
            continue
        held = one(rng, field, version)
        if not tagged or not is_default(field, version, held):
            drawn[field.name] = held
    return drawn


def one(rng: random.Random, field: Field, version: int) -> Any:
    if version in field.nullable and rng.random() < 0.3:
        return None
    element = field.element
    if element is None:
        return fields(rng, field.fields, version) if field.fields else value(rng, field.type)
    return [
        fields(rng, field.fields, version) if field.fields else value(rng, element)
        for _ in range(rng.choice((0, 1, 3)))
    ]


def draw_messages(name: str, version: int, rounds: int) -> Iterator[dict[str, Any]]:
    rng = random.Random(f"{SEED}/{name}/{version}")
    for _ in range(rounds):
        yield fields(rng, message(name).fields, version)
