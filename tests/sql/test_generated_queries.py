"""Generated queries: what is pushed into a scan gives the rows that JSON Lines loaded whole give.

`KDUMP_FUZZ_COUNT` and `KDUMP_FUZZ_SEED` take other numbers.
"""

import base64
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from long_runs import SEED, how_many

import kdump
from kdump.cli import cli
from kdump.findings.escape import json_text

duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
pa = pytest.importorskip("pyarrow", reason="PyArrow is not installed")

SAMPLES = Path(__file__).parents[2] / "sample-data"
DATA = (
    "clean/4.1.1 clean/4.4.0 clean/4.4.0-transactions clean/0.10.2.2 clean/0.8.2.2 clean/0.7.2"
    " damaged/one-bit damaged/4.1.1-killed"
).split()
#: Tables, the commands whose JSON Lines they are, and the rows of those.
TABLES = {
    "records": ("dump --bytes base64", "record"),
    "batches": ("dump --batches", "batch"),
    "offset_index_entries": ("dump --entries", "offset-index-entry"),
    "leader_epochs": ("dump --entries", "leader-epoch"),
    "committed_offsets": ("groups", "committed-offset"),
    "usages": ("usage", "usage"),
}
JOINS = (
    ("records", "batches", ("topic", "partition", "position")),
    ("records", "records", ("topic", "offset")),
    ("committed_offsets", "records", ("topic", "partition", "offset")),
    ("records", "leader_epochs", ("topic", "partition", "leader_epoch = epoch")),
)
#: Numbers at the ends of types, and what stands for none.
ODD_NUMBERS = (-1, 0, 1, 127, 1 << 31, (1 << 63) - 1, -(1 << 63))


def loaded(sample: str, name: str, schema: Any) -> Any:
    """Make a table of the lines that a command writes."""
    words, kind = TABLES[name]
    lines = CliRunner().invoke(cli, [*words.split(), "--format", "jsonl", str(SAMPLES / sample)])
    rows = [json.loads(line) for line in lines.stdout.splitlines()]
    columns: dict[str, list[Any]] = {field.name: [] for field in schema}
    for row in rows:
        if row["row"] == kind:
            for field in schema:
                columns[field.name].append(value_of(row, field))
    return pa.table([pa.array(columns[one.name], one.type) for one in schema], schema=schema)


def value_of(row: dict[str, Any], field: Any) -> Any:
    value = row.get(field.name)
    if field.name == "timestamp":
        time_ms = row["timestamp_ms"]
        return None if time_ms is None else time_ms * 1000
    if field.name == "headers":
        pairs = ((base64.b64decode(one["key"]).decode(), one["value"]) for one in value)
        return [
            {"key": key, "value": None if data is None else base64.b64decode(data)}
            for key, data in pairs
        ]
    if field.name in ("key", "value") and isinstance(value, str):
        return base64.b64decode(value)
    return (
        json_text(value) if isinstance(value, (dict, list)) and field.name == "control" else value
    )


class Queries:
    """Makes up queries about some tables from what stands in them."""

    def __init__(self, draw: random.Random, tables: dict[str, Any], *, is_sound: bool) -> None:
        self.draw, self.tables, self.is_sound = draw, tables, is_sound

    def constant(self, name: str, column: str) -> str:
        """Write a value of a column, or one near it."""
        table, draw = self.tables[name], self.draw
        field = table.schema.field(column)
        value = table[column][draw.randrange(len(table))].as_py() if len(table) else None
        if pa.types.is_timestamp(field.type):
            micros = 0 if value is None else table[column].cast("int64")[0].as_py()
            return f"make_timestamptz({micros + draw.choice((0, 0, 1, -1000, 500, 60_000_000))})"
        if pa.types.is_integer(field.type):
            near = (value or 0) + draw.choice((0, 0, 1, -1, 3))
            odd = [n for n in ODD_NUMBERS if -(1 << 63) <= n < 1 << 63]
            return str(draw.choice((near, near, near, draw.choice(odd))))
        if pa.types.is_boolean(field.type):
            return draw.choice(("true", "false"))
        if pa.types.is_floating(field.type):
            return str(value or 0.5)
        if pa.types.is_binary(field.type):
            data = value if isinstance(value, bytes) else b""
            return "'" + "".join(f"\\x{byte:02X}" for byte in data) + "'::blob"
        text = str(value if value is not None else "")
        text = draw.choice((text, text, text + "x", text[:3]))
        return "'" + text.replace("'", "''") + "'"

    def predicate(self, name: str, depth: int = 2) -> str:
        """Write a condition on columns of a table called t."""
        draw, schema = self.draw, self.tables[name].schema
        if depth and draw.random() < 0.5:
            parts = [self.predicate(name, depth - 1) for _ in range(draw.choice((2, 2, 3)))]
            joined = draw.choice((" and ", " or ")).join(f"({part})" for part in parts)
            return f"not ({joined})" if draw.random() < 0.2 else joined
        plain = [one.name for one in schema if not pa.types.is_nested(one.type)]
        often = [one for one in ("topic", "partition", "offset", "timestamp") if one in plain]
        column = draw.choice(draw.choice((plain, often or plain)))
        quoted, one = f't."{column}"', self.constant(name, column)
        two = self.constant(name, column)
        forms = [
            f"{quoted} {draw.choice('= <> < <= > >='.split())} {one}",
            f"{quoted} {draw.choice('= < >='.split())} {one}",
            f"{quoted} is {draw.choice(('', 'not '))}null",
            f"{quoted} {draw.choice(('', 'not '))}in ({one}, {two}, {self.constant(name, column)})",
            f"{quoted} {draw.choice(('', 'not '))}between {one} and {two}",
            f"{quoted} is {draw.choice(('', 'not '))}distinct from {one}",
            f"{quoted} {draw.choice(('=', '<'))} null",
        ]
        if pa.types.is_string(schema.field(column).type):
            pattern = one[:-1] + "%'"
            forms += [f"{quoted} {draw.choice(('', 'not '))}like {pattern}"] * 2
            forms += [f"length({quoted}) > {draw.randrange(12)}"]
        if pa.types.is_integer(schema.field(column).type):
            forms += [f"{quoted} % 3 = {draw.randrange(3)}"]
        return draw.choice(forms)

    def query(self) -> str:
        """Write a query; its rows come in no order but with `top`."""
        draw = self.draw
        name = draw.choice(("records", "records", "records", "batches", *self.tables))
        where = f" where ({self.predicate(name)})" if draw.random() < 0.9 else " where true"
        if name == "records" and not self.is_sound:
            where += " and t.position >= 0"  # else headers count what cannot be read
        names = self.tables[name].schema.names
        some = ", ".join(f't."{one}"' for one in draw.sample(names, draw.randint(1, 4)))
        form = draw.randrange(7)
        if form == 0:
            return f"select count(*) from {name} t{where}"
        if form == 1:
            return f"select {some}, count(*) from {name} t{where} group by all"
        if form == 2:
            return f"select {some} from {name} t{where} order by all limit {draw.randint(1, 9)}"
        if form == 3:
            left, right, on = draw.choice(JOINS)
            pairs = (one.split(" = ") for one in on)
            both = " and ".join(f't."{pair[0]}" = u."{pair[-1]}"' for pair in pairs)
            if left in self.tables and right in self.tables:
                return (
                    f"select count(*), sum(t.partition) from {left} t join {right} u on {both}"
                    f" where {self.predicate(left)}"
                )
        if form == 4:
            return f"select count(*) from (select {some} from {name} t{where} limit 3)"
        if form == 5:
            return f"select distinct {some} from {name} t{where}"
        return f"select {draw.choice((some, some, '*'))} from {name} t{where}"


def rows_of(connection: Any, query: str) -> Counter[str]:
    return Counter(map(repr, connection.sql(query).to_arrow_table().to_pylist()))


@pytest.mark.parametrize("sample", DATA)
def test_rows_are_those_of_json_lines(sample: str) -> None:
    data = kdump.open(SAMPLES / sample)
    pushed, whole = duckdb.connect(), duckdb.connect()
    tables = {}
    for name in TABLES:
        one = data.dataset(name)
        rows = loaded(sample, name, one.schema)
        if not len(rows):
            continue
        tables[name] = rows
        whole.register(name, tables[name])
        pushed.register(name, one)
    assert len(tables["records"]) > 30
    draw = random.Random(f"{sample} {SEED}")
    queries = Queries(draw, tables, is_sound=sample.startswith("clean"))
    for _ in range(how_many(20, 1000)):
        query = queries.query()
        got, expected = (rows_of(one, query) for one in (pushed, whole))
        assert got == expected, query
