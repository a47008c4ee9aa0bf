"""`kdump sql`: its tables and views, what is out of reach, its outputs, and the prompt."""

import io
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import segments
from click.testing import CliRunner, Result
from commands import modules_after
from corpus import corpus
from registry_log import frame, schema_record, topic

import kdump
from kdump.cli import cli

if TYPE_CHECKING:
    from kdump.api.sql import Session

pytest.importorskip("duckdb", reason="DuckDB is not installed")

SAMPLES = Path(__file__).parents[2] / "sample-data"
CLEAN = SAMPLES / "clean/4.4.0"
BOTH = (CLEAN / "d1", CLEAN / "d2")
#: Statements that would write, or read what is not given; NAME is a place for a file.
OUT_OF_REACH = """
copy records to 'NAME'
copy (select 1) to 'NAME' (format parquet)
explain analyze copy (select 1) to 'NAME'
select * from query('copy (select 1) to ''NAME''')
export database 'NAME'
attach 'NAME'
create table t as select 1
create view v as select 1
insert into records select * from records
delete from records
update records set topic = 'x'
drop view records
set enable_external_access = true
reset lock_configuration
pragma enable_logging
call enable_logging()
install httpfs
load httpfs
create secret (type s3)
select * from '/etc/passwd'
select * from read_text('/etc/passwd')
select * from read_blob('/etc/*')
select * from read_csv('/etc/passwd')
select * from read_csv('/dev/stdin')
select * from read_json_auto('/etc/passwd')
select * from sniff_csv('/etc/passwd')
select * from glob('/etc/*')
select * from query_table('/etc/passwd')
select * from read_parquet('http://127.0.0.1:1/x.parquet')
select * from parquet_metadata('s3://bucket/x.parquet')
select getenv('HOME')
select * from frame
""".strip().splitlines()


def sql(query: str, *words: object, stdin: str | None = None) -> Result:
    result = CliRunner().invoke(cli, ["sql", query, *map(str, words)], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return result


def rows(query: str, *words: object) -> list[dict[str, Any]]:
    result = sql(query, *words)
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_query_may_be_first_or_last() -> None:
    query = "select count(*) as n from records"
    assert rows(query, *BOTH) == [{"row": "answer", "n": 418}]
    last = CliRunner().invoke(cli, ["sql", *map(str, BOTH), query])
    assert json.loads(last.stdout)["n"] == 418
    read = CliRunner().invoke(cli, ["sql", *map(str, BOTH)], input=query)
    assert json.loads(read.stdout)["n"] == 418


@pytest.fixture(scope="module")
def asked() -> "Iterator[Session]":
    from kdump.api.sql import session

    with session(kdump.open(CLEAN / "d1").scan_target, memory_bytes=1 << 28) as opened:
        yield opened


def test_every_kind_is_a_table(asked: "Session") -> None:
    names = asked.ask("show tables").read_all()["name"].to_pylist()
    assert len(names) > 60
    assert {"records", "batches", "findings", "committed_offsets", "leader_epochs"} < {*names}
    assert "orders" in names
    for name in names:
        of_kind = asked.ask(f'select count(*) as n from "{name}"').read_all()
        assert of_kind["n"][0].as_py() >= 0, name
    words = [str(error) for error in asked.drain_reports() if isinstance(error, kdump.KdumpError)]
    assert all("no two of the directories" in text for text in words)  # what compares needs two


def test_a_topic_is_a_view() -> None:
    query = "select count(*) as n from {} where partition = 0"
    assert rows(query.format("orders"), *BOTH) == rows(query.format("topics.orders"), *BOTH)
    assert rows(query.format('"__consumer_offsets"'), *BOTH)[0]["n"] == 113


def test_topics_of_any_name(tmp_path: Path) -> None:
    name = 'it\'s; drop "records" --'
    for number, named in enumerate((name, "records", "Twice", "twice", "a b")):
        segments.write_partition(tmp_path, {0: segments.batches(0, 10 * (number + 1))}, named)
    every = rows("select topic, count(*) as n from records group by topic order by n", tmp_path)
    assert [row["topic"] for row in every] == [name, "records", "Twice", "twice", "a b"]
    counts = [row["n"] for row in every]
    quoted = name.replace('"', '""')
    for view, count in ((quoted, counts[0]), ("a b", counts[4])):
        assert rows(f'select count(*) as n from "{view}"', tmp_path)[0]["n"] == count
    assert rows("select count(*) as n from topics.records", tmp_path)[0]["n"] == counts[1]
    assert sql("select count(*) from twice", tmp_path).exit_code == 2


@pytest.mark.parametrize("query", OUT_OF_REACH)
def test_nothing_else_is_in_reach(
    asked: "Session", query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = [1]  # a variable, which DuckDB would find
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kdump.KdumpError):
        asked.ask(query.replace("NAME", str(tmp_path / "out"))).read_all()
    assert (list(tmp_path.iterdir()), frame) == ([], [1])


def test_statement_other_than_select_is_a_usage_error(tmp_path: Path) -> None:
    result = sql(f"copy records to '{tmp_path / 'out'}'", CLEAN / "d1")
    assert (result.exit_code, result.stdout, list(tmp_path.iterdir())) == (2, "", [])
    assert "Error: use one SELECT statement" in result.stderr


def test_a_list_of_tables_has_those_that_the_query_does_not_read() -> None:
    for listed in (
        "select count(*) as n from duckdb_views() where not internal",
        "select count(*) as n from information_schema.tables where table_schema = 'main'",
        "select count(*) as n from information_schema.tables, (select count(*) from records)",
    ):
        assert rows(listed, *BOTH)[0]["n"] > 40, listed
    named = "select count(*) as n from query_table('batches'), (select count(*) from records)"
    assert rows(named, *BOTH)[0]["n"] > 0


@pytest.mark.parametrize("query", ["selec 1", "select nope from records", "select 1; select 2"])
def test_wrong_query(query: str) -> None:
    result = sql(query, CLEAN / "d1")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error" in result.stderr


def test_error_while_rows_are_made() -> None:
    query = (
        "select cast(decode(key) as int) from records where key is not null and topic = 'orders'"
    )
    result = sql(query, *BOTH)
    assert result.exit_code == 2
    assert "Conversion Error" in result.stderr


def test_damage_is_reported_after_the_rows() -> None:
    result = sql("select count(key) as n from records", SAMPLES / "damaged/one-bit")
    assert (result.exit_code, json.loads(result.stdout)["n"] > 900) == (3, True)
    assert json.loads(result.stderr.splitlines()[-1])["code"] == "crc-mismatch"
    never = sql("select count(key) from records", "--fail-on", "never", SAMPLES / "damaged/one-bit")
    assert never.exit_code == 0


def test_count_uses_batch_headers() -> None:
    counted, read = (
        sql(f"select count({what}) as n from records", SAMPLES / "damaged/one-bit")
        for what in ("*", "magic")
    )
    assert (counted.exit_code, read.exit_code) == (0, 3)
    assert json.loads(counted.stdout)["n"] == json.loads(read.stdout)["n"] + 17


def test_unreadable_files_are_reported(tmp_path: Path) -> None:
    result = sql("select count(*) from records", tmp_path / "none", CLEAN / "d1")
    assert result.exit_code == 1
    assert "No such file" in result.stderr
    assert json.loads(result.stdout)["count_star()"] == 306


def test_values_in_lines() -> None:
    (row,) = rows(
        "select 1::hugeint as a, 1.5 as b, 'nan'::double as c,"
        " timestamptz '2026-01-02 03:04:05Z' as d, date '2026-01-02' as e, [1, null] as f,"
        " {'g': '\\xFF'::blob} as g, '\\xFF'::blob as h, null as i, true as j,"
        " interval 1 day as k, 1 as a from orders limit 1",
        *BOTH,
    )
    assert list(row.values())[1:10] == [
        1, 1.5, "nan", "2026-01-02T03:04:05Z", "2026-01-02", [1, None], {"g": {"base64": "/w=="}},
        {"base64": "/w=="}, None,
    ]  # fmt: skip
    assert list(row)[-1] == "a_11"


@pytest.mark.parametrize("form", ["table", "csv", "markdown"])
def test_forms_of_text(form: str) -> None:
    result = sql("select topic, count(*) as n from records group by 1", "--format", form, *BOTH)
    assert result.exit_code == 0
    assert "orders" in result.stdout


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_files_of_arrow_have_the_types_of_the_answer(form: str, tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    read = parquet.read_table if form == "parquet" else lambda at: pa.ipc.open_file(at).read_all()
    for where, count in (("true", 418), ("false", 0)):
        path = tmp_path / f"{where}.{form}"
        query = f'select topic, "offset", timestamp, [1.5] as list from records where {where}'
        result = sql(query, "-o", path, *BOTH)
        assert (result.exit_code, f"{count} row" in result.stderr) == (0, True)
        table = read(path)
        assert (len(table), table.column_names[1]) == (count, "offset")
        assert table.schema.field("timestamp").type == pa.timestamp("us", tz="UTC")
    assert sql("select 1 as a from orders", "-o", f"{tmp_path}/dir/", "--format", form, *BOTH)
    assert len(read(tmp_path / f"dir/answer.{form}")) == 102


def test_output_is_tried_first(tmp_path: Path) -> None:
    result = sql("select 1", "-o", tmp_path / "none/out", CLEAN / "d1")
    assert (result.exit_code, "No such file" in result.stderr) == (1, True)
    inside = sql("select 1", "-o", CLEAN / "d1/out.csv", CLEAN / "d1")
    assert inside.exit_code == 5
    words = ["sql", "selec 1", "-o", str(tmp_path / "out.csv"), str(CLEAN / "d1")]
    wrong = subprocess.run(
        [sys.executable, "-m", "kdump", *words], capture_output=True, check=False
    )
    assert (wrong.returncode, list(tmp_path.iterdir())) == (2, [])


def test_what_was_skipped_is_explained() -> None:
    query = """select count(value) from "orders.plain" where "offset" >= 900"""
    result = sql(query, "--explain", SAMPLES / "clean/4.1.1")
    lines = result.stderr.splitlines()
    assert any("orders.gzip-0 skipped: a different topic or partition" in line for line in lines)
    other = [line for line in lines if line.endswith("skipped: other offsets")]
    assert 1 <= len(other) <= 3
    assert all("orders.plain-0/0000" in line for line in other)
    time = "timestamp > '2023-11-15 20:00Z'"
    result = sql(f'select count(value) from "orders.plain" where {time}', "--explain", *[
        SAMPLES / "clean/4.1.1"
    ])  # fmt: skip
    assert "skipped: earlier times" in result.stderr


def test_memory_and_scratch(tmp_path: Path) -> None:
    many = "select distinct i, repeat('x', 100) || i as x from range({}) t(i)"
    query = f"select max(x) as m from ({many})"
    words = ("--memory", "60MB", "--scratch", tmp_path, "-j", 1, CLEAN / "d1")
    assert rows(query.format(300_000), *words)[0]["m"].endswith("99999")
    assert list(tmp_path.iterdir()) == []
    shutil.copytree(CLEAN / "d1", tmp_path / "data")
    result = sql("select 1", "--scratch", tmp_path / "data", CLEAN / "d1")
    assert result.exit_code == 5


def test_too_little_memory_is_reported() -> None:
    query = "select list(repeat('x', 1000) || i) from range(200000) t(i)"
    result = sql(query, "--memory", "20MB", CLEAN / "d1")
    assert (result.exit_code, "see --memory" in result.stderr) == (1, True)


def test_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = iter((
        *("", ".tables", ".schema orders", "select count(*) as n", "from orders;", "selec 1;"),
        *("select 2 as two;", ".quit"),
    ))  # fmt: skip
    prompts: list[str] = []
    monkeypatch.setattr("builtins.input", lambda prompt: prompts.append(prompt) or next(typed))
    monkeypatch.setattr("kdump.output.escape.is_terminal", lambda file: file is sys.stdin)
    result = CliRunner().invoke(cli, ["sql", "--format", "csv", *map(str, BOTH)])
    assert result.exit_code == 0
    assert "answer,orders" in result.stdout
    assert "answer,timestamp,TIMESTAMP WITH TIME ZONE" in result.stdout
    assert "row,n\nanswer,102\n" in result.stdout
    assert "Parser Error" in result.stderr
    assert prompts.count("   ...> ") == 1


def test_end_of_input_ends_the_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(prompt: str) -> str:
        raise EOFError

    monkeypatch.setattr("builtins.input", ended)
    monkeypatch.setattr("kdump.output.escape.is_terminal", lambda file: file is sys.stdin)
    assert CliRunner().invoke(cli, ["sql", str(CLEAN / "d1")]).exit_code == 0


def test_without_the_extra_a_line_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdump.api.sql.find_spec", lambda name: None)
    result = sql("select 1", CLEAN / "d1")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith("not installed: pip install 'kdump[sql]'\n")


def test_other_commands_load_nothing_of_it() -> None:
    for words in (["--help"], ["sql", "--help"], ["dump", "-n", "1", str(CLEAN / "d1")]):
        loaded = modules_after(*words)
        assert not {"duckdb", "polars", "pyarrow", "kdump.api.sql", "kdump.api.scanning"} & loaded


@pytest.mark.parametrize("turn", range(3))
def test_limit_ends_with_status_0(turn: int) -> None:
    words = ["sql", 'select "offset", value from records limit 3', str(SAMPLES / "clean/4.1.1")]
    done = subprocess.run(
        [sys.executable, "-m", "kdump", *words], capture_output=True, text=True, check=False
    )
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 3), done.stderr
    assert io.StringIO(done.stdout).readline().startswith('{"row":"answer","offset":')


def test_values_are_decoded_by_schema(tmp_path: Path) -> None:
    order = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    topic(tmp_path, "_schemas", [schema_record("orders-value", 1, 7, order)])
    topic(tmp_path, "orders", [(b"k", frame(7, bytes((2 * number,)))) for number in range(5)])
    query = """
        select r.offset from orders r
        where cast(json_extract(value_json, '$.data.id') as int) > 2 order by r.offset
    """
    assert [row["offset"] for row in rows(query, tmp_path)] == [3, 4]


def test_data_has_the_types_of_its_schemas(tmp_path: Path) -> None:
    fields = [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "map", "values": "int"}},
    ]
    order = {"type": "record", "name": "Order", "fields": fields}
    topic(tmp_path, "_schemas", [schema_record("orders-value", 1, 7, order)])
    sent = [(b"k", frame(7, bytes((2 * number, 2, 2, 97, 4, 0)))) for number in range(5)]
    topic(tmp_path, "orders", [*sent, (b"k", b"plain")])
    topic(tmp_path, "plain", [(b"k", b"v")])
    query = """
        select o.value_data.id as id, o.value_data.at.a as a from orders o
        where o.value_data.id > 2 or o.value_data is null order by id
    """
    assert [(row["id"], row["a"]) for row in rows(query, tmp_path)] == [
        (3, 2),
        (4, 2),
        (None, None),
    ]
    named = {row["column_name"] for row in rows("describe topics.plain", tmp_path)}
    assert "value_json" in named
    assert "value_data" not in named


def agree(shown: Any, typed: Any) -> bool:
    """Whether data with types is what its JSON says, but for fields that no schema names."""
    if shown is None or isinstance(shown, dict):
        found = json.loads(typed) if isinstance(typed, str) else typed
        if shown is None or not isinstance(found, dict):
            return found == shown or shown == {}
        return all(agree(one, found[name]) for name, one in shown.items() if name in found)
    if isinstance(shown, list):
        found = json.loads(typed) if isinstance(typed, str) else typed
        return len(found) == len(shown) and all(map(agree, shown, found))
    if isinstance(shown, str):  # NaN, Infinity
        return str(typed).lower()[:3] == shown.lower()[:3]
    if isinstance(typed, str):
        return bool(json.loads(typed) == shown)
    return bool(typed == shown or float(shown) == typed)


def test_corpus_data_equals_its_json() -> None:
    from kdump.api.sql import session

    data = corpus("values/data/clean") / "data"
    compared = 0
    with session(kdump.open(data).scan_target, memory_bytes=1 << 30) as opened:
        opened.ask("select 1 from topics.orders limit 0").read_all()
        found = """select table_name as topic, column_name as name from duckdb_columns()
            where schema_name = 'topics' and suffix(column_name, '_data')"""
        for of in opened.ask(found).read_all().to_pylist():
            side = of["name"].removesuffix("_data")
            query = f"""select {side}_json as shown, to_json({of["name"]}) as typed
                from topics."{of["topic"]}" where {side}_json like '%"data":%'"""
            for row in opened.ask(query).read_all().to_pylist():
                shown = json.loads(row["shown"])
                if "data" not in shown:
                    continue
                typed = None if row["typed"] is None else json.loads(row["typed"])
                if typed is None and "message" in shown["schema"]:
                    continue  # a message within another
                assert agree(shown["data"], typed), (of, shown, typed)
                compared += 1
    assert compared > 7000
