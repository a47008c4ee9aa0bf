"""Names, types, nullability and defaults of all rows and options are as recorded: a promise.

A member that is added is recorded: KDUMP_RECORD=1 pytest -n0 THIS_FILE. One that is renamed,
removed, or changes its type breaks whoever reads it.
"""

import json
import os
from pathlib import Path

import pytest
from commands import run

from kdump.engine.registry import COMMANDS
from kdump.output.arrow_schema import arrow_type, types_of_kind
from kdump.rows.declarations import kinds

RECORDED = Path(__file__).with_name("recorded_schema.txt")
_TYPES = "__annotations__"
RECORDS = "KDUMP_RECORD" in os.environ


def asked(*words: str) -> str:
    return run("schema", *words).stdout


def schema_lines() -> list[str]:
    known, lines = kinds(), []
    for row in map(json.loads, asked().splitlines()):
        kind, name = row["kind"], row["field"]
        null = " or null" if row["null"] else ""
        column = arrow_type(types_of_kind(known[kind])[name]) if kind in known else "-"
        also = " ".join(filter(None, (row["unit"], row["role"], "omitted" * row["omitted"])))
        lines.append(f"{kind}.{name}: {row['type']}{null} {also} ({column})")
    schemas = (json.loads(asked("--format", "json-schema", kind)) for kind in known)
    lines += [f"{kind}: {json.dumps(schema)}" for kind, schema in zip(known, schemas, strict=True)]
    for kind, row in known.items():
        usual = {name: value for name, value in row._field_defaults.items() if value is not None}
        lines += [f"{kind}, unless said: {usual}"] if usual else []
    for name, command in COMMANDS.items():
        options = command.options()
        annotated = (one for kind in type(options).mro() for one in kind.__dict__.get(_TYPES, ()))
        told = []
        for member in dict.fromkeys(annotated):
            usual = getattr(options, member, None)
            if usual and member != "now_ms":
                shown = sorted(map(str, usual)) if isinstance(usual, frozenset) else usual
                told.append(f"{member}={shown}")
        lines.append(f"{name}, unless asked: {' '.join(told)}")
    return lines


@pytest.mark.skipif(RECORDS, reason="it is recorded")
def test_schema_matches_the_record() -> None:
    pytest.importorskip("pyarrow")
    assert schema_lines() == RECORDED.read_text("utf-8").splitlines()


@pytest.mark.skipif(not RECORDS, reason="KDUMP_RECORD=1 records anew")
def test_record() -> None:
    RECORDED.write_text("".join(f"{line}\n" for line in schema_lines()), "utf-8")
