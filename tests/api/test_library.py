"""The library: the examples of its page, the rows of the commands, and what it leaves behind."""

import doctest
import gc
import inspect
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest
from commands import run
from every_command import OF_THE_MOMENT, RUNS, SAMPLES, TIER, rows_of

import kdump
from kdump.cli import cli
from kdump.engine.registry import COMMANDS
from kdump.engine.why.volumes import FreeRequest
from kdump.findings.escape import json_text
from kdump.output.jsonl import row_members
from kdump.output.values import AUTO
from kdump.rows.declarations import kinds

ROOT = SAMPLES.parent
CLEAN = SAMPLES / "clean" / "4.4.0"


def test_examples_of_the_page_run(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(ROOT)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    page = str(ROOT / "docs/library.md")
    assert doctest.testfile(page, module_relative=False, optionflags=flags).failed == 0


def test_every_public_name_exists() -> None:
    assert all(getattr(kdump, name) is not None for name in kdump.__all__)
    with pytest.raises(AttributeError):
        kdump.nothing  # noqa: B018
    text = (ROOT / "docs/library.md").read_text()
    assert {"Data", "Partition", "RecordRow", "BatchRow", "Field", "Severity", "__version__"} >= {
        name for name in kdump.__all__ if f"kdump.{name}" not in text
    }


#: Options about how results are written or shown, and where work is done.
WRITTEN = set(
    "all_findings archive bytes_mode csv_safe detail engine fail_on force form h manifest master"
    " nagios no_pager notes output propose_map quiet remote rows textfile utc_offset"
    " wide redact title".split()
)
#: What commands make of some words: the option that says the same.
OTHERWISE = {
    **dict.fromkeys(("as_hex", "batches", "entries", "records_only"), "mode"),
    "diff": "diff_from",
    "no_hashes": "hashes",
    "bytes_per_second": "recovery_rate",
    "topic_map": "names",
    "within": "within_ms",
    "client_properties": "client_settings",
}
#: Options of commands by their words on the command line.
OPTIONS: dict[str, dict[str, Any]] = {
    "--history": {"history": True},
    "--explained": {"explained": True},
    "--explain": {"explain": True},
    "--partitions": {"partitions": True},
    "--explain --partitions": {"explain": True, "partitions": True},
    "--by key": {"by": ("key",), "top": 20},
    "--by day,codec": {"by": ("day", "codec")},
    "--rolls": {"rolls": True},
    "--entries": {"mode": "entries"},
    "--by topic,partition,producer,codec": {
        "by": ("topic", "partition", "producer", "codec"),
        "top": 20,
    },
    "--partitioner any": {},
    "--partitioner murmur2": {"partitioner": "murmur2"},
    "--by key,value": {"by": ("key", "value")},
    "--by header:trace": {"by": ("header",), "header": b"trace"},
    "--free 1MiB --cleaner --now 2026-11-25T00:00Z": {
        "free": (FreeRequest(1 << 20),),
        "cleaner": True,
        "now_ms": 1_795_564_800_000,
    },
    f"--tier {TIER}": {"tier": TIER},
    f"--now 2026-11-28 --tier {TIER}": {"now_ms": 1_795_824_000_000, "tier": TIER},
    "--check --explain": {"check": True, "explain": True},
    "--check --explain --none earliest": {"check": True, "explain": True, "none": "earliest"},
}


@pytest.mark.parametrize(("words", "sample", "behind"), RUNS)
def test_rows_equal_those_of_the_command(words: str, sample: str, behind: str) -> None:
    command, _, option = words.partition(" ")
    if option == "--batches":
        pytest.skip("headers are read by batches()")
    more = [Path(behind)] if behind.startswith("/") else []
    data = kdump.open(SAMPLES / sample, *more)
    given = OPTIONS[option] if option else {}
    found: dict[str, list[Any]] = {}
    for row in data.rows(command, *([] if more else map(int, behind.split())), **given):
        if isinstance(row, kdump.Row):
            fields = json.loads(json_text(row_members(row, AUTO)))
            del fields["row"]
            shown = {name: fields[name] for name in fields if name not in OF_THE_MOMENT}
            found.setdefault(row.row, []).append(shown)
    expected = rows_of(words, sample, behind)
    for each in (found, expected):  # a file without entries tells its version elsewhere
        for kind in ("finding", "property"):
            each.pop(kind, None)
    assert found == expected


def test_records_and_headers_equal_those_of_dump() -> None:
    part = kdump.open(CLEAN)["orders", 0]
    records = [one for one in part.records() if isinstance(one, kdump.RecordRow)]
    shown = rows_of("dump", "clean/4.4.0/d1/orders-0", "")["record"]
    assert [one.offset for one in records] == [one["offset"] for one in shown]
    assert [(one.value or b"").decode() for one in records] == [one["value"] for one in shown]
    batches = [one for one in part.batches() if isinstance(one, kdump.BatchRow)]
    shown = rows_of("dump --batches", "clean/4.4.0/d1/orders-0", "")["batch"]
    assert [one._asdict() for one in batches] == shown


def test_rows_of_dump_are_unchanged() -> None:
    part = kdump.open(CLEAN)["orders", 0]
    rows: list[Any] = list(part._data.rows("dump"))
    assert rows == list(part.records())
    assert list(part._data.rows("dump", mode="batches")) == list(part.batches())
    decoded = kdump.open(CLEAN).rows("dump", decode=True, limit=1)
    assert isinstance(next(decoded), kdump.DecodedRow)


def test_every_command_and_option_is_available() -> None:
    """But for what `open` takes, and how results are written, shown and divided among processes."""
    context = click.Context(cli)
    assert {*cli.list_commands(context)} == {*COMMANDS, "schema", "sql"}
    taken = {*inspect.signature(kdump.open).parameters} | {"server_properties"}
    for name, command in COMMANDS.items():
        of_command = cli.get_command(context, name)
        assert of_command is not None
        module, _, member = command.options_class.partition(":")
        made = getattr(import_module(f"kdump.engine.{module}"), member)
        known = {*getattr(made, "_fields", ())}
        known |= {"state"} if name == "verify" else set()  # an argument of `Data.verify`
        known |= {one for base in made.__mro__ for one in vars(base).get("__annotations__", ())}
        asked = {str(one.name) for one in of_command.params} - taken - WRITTEN
        assert {OTHERWISE.get(one, one) for one in asked} <= known, name


def test_as_kind_sets_the_kind_of_an_unnamed_file(tmp_path: Path) -> None:
    file = tmp_path / "piece"
    file.write_bytes((CLEAN / "d1" / "orders-0" / f"{0:020}.log").read_bytes())
    data = kdump.open(file, as_kind="log", topic_name="shop", partition_number=3, base_offset=0)
    rows = [one for one in data.records(limit=2) if isinstance(one, kdump.RecordRow)]
    assert [(one.topic, one.partition, one.offset) for one in rows] == [
        ("shop", 3, 0),
        ("shop", 3, 1),
    ]


ASKED: dict[str, tuple[dict[str, Any], str]] = {
    "groups": ({"group": "billing"}, "committed-offset"),
    "commits": ({"group": "billing", "backwards": True}, "offset-commit"),
    "cluster": ({}, "cluster-summary"),
    "predict": ({}, "node-start"),
    "why": ({}, "segment-fate"),
    "usage": ({}, "usage"),
    "timeline": ({"group": "billing"}, "event"),
    "entries": ({}, "property"),
}


@pytest.mark.parametrize("name", ASKED)
def test_commands_yield_rows_of_their_kind(name: str) -> None:
    options, kind = ASKED[name]
    found = getattr(kdump.open(CLEAN), name)(**options)
    assert kind in {row.row for row in found if isinstance(row, kdump.Row)}


def test_times_may_be_texts_or_numbers() -> None:
    data = kdump.open(SAMPLES / "clean/4.4.0-transactions")
    told = data.transactions(at="2026-11-22T12:21:52Z")
    same = data.transactions(at=1795350112000)
    assert [*told] == [*same] != [*data.transactions()]
    with pytest.raises(kdump.KdumpError, match="last week"):
        data.records(from_time="last week")


def test_decoded_values_have_their_declared_types() -> None:
    part = kdump.open(CLEAN)["__consumer_offsets", 0]
    record = next(part.records(limit=1, decode=True))
    assert isinstance(record, kdump.DecodedRow)
    assert record.key["type"] == "offset_commit"
    assert type(next(part.records(limit=1))) is kdump.RecordRow


def test_every_kind_of_row_belongs_to_a_command() -> None:
    made = {kind for command in COMMANDS.values() for kind in command.kinds}
    assert made - {"record", "batch"} == {*kinds()} - {"schema-field"}


def test_errors_are_raised_after_all_rows(tmp_path: Path) -> None:
    data = kdump.open(tmp_path / "gone", CLEAN, tmp_path / "gone too")
    given = data.rows("groups")
    rows = []
    with pytest.raises(kdump.KdumpError, match="gone: No such file") as raised:
        rows.extend(given)
    assert len(rows) > 30
    assert [note for note in raised.value.__notes__ if "gone too" in note]
    with pytest.raises(KeyError, match="orders-99"):
        kdump.open(CLEAN)["orders", 99]


@pytest.mark.parametrize("name", ["nothing", "record"])
def test_unknown_column_or_kind_is_a_usage_error(name: str) -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises(kdump.KdumpError, match=r"unknown row kind|have no such"):
        kdump.open(CLEAN).table(name, columns=["offset", "nonsense"])


def _open_files() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


ABANDONED: tuple[Callable[[kdump.Data], Iterator[Any]], ...] = (
    lambda data: data.records(),
    lambda data: data.batches(),
    lambda data: data.entries(),
    lambda data: data.rows("groups", history=True),
    lambda data: data.cluster(),
    lambda data: data.find_offset(3),
    lambda data: data.rows("verify", deep=True),
    lambda data: data.rows("sequences"),
    lambda data: data.usage(),
    lambda data: data.why(),
)


def test_abandoned_iterators_close_their_files() -> None:
    data = kdump.open(CLEAN)
    next(data.records())
    gc.collect()
    before, threads = _open_files(), threading.active_count()
    for number in range(3 * len(ABANDONED)):
        given: Any = ABANDONED[number % len(ABANDONED)](data)
        next(given)
        del given
    gc.collect()
    assert (_open_files(), threading.active_count()) == (before, threads)


def test_threads_and_forks_get_the_same_rows() -> None:
    data = kdump.open(CLEAN)

    def offsets(_: object) -> list[int]:
        return [one.offset for one in data.records() if isinstance(one, kdump.RecordRow)]

    expected = offsets(None)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(offsets, range(8))) == [expected] * 8
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.write(write, b"same" if offsets(None) == expected else b"other")
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        assert answer.read() == b"same"


def test_verification_state_is_kept(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "sample-data/damaged/4.1.1-killed", tmp_path / "d")
    state = tmp_path / "state"
    data = kdump.open(tmp_path / "d", jobs=2)
    first = list(data.verify(state=state))
    assert [one.code for one in first] == [one.code for one in kdump.open(tmp_path / "d").verify()]
    command = run("verify", "--state", state, tmp_path / "d")
    summary = json.loads(command.stdout.splitlines()[-1])
    assert summary["not_checked"]["segments_verified_before"] > 0
    assert [one.code for one in data.verify(state=state)] == [one.code for one in first]
    state.write_bytes(state.read_bytes()[:-1])
    with pytest.warns() as warned:
        list(data.verify(state=state))
    assert {one.filename for one in warned} == {__file__}
    state.write_bytes(b"{}\n")
    with pytest.raises(kdump.KdumpError, match="is not an earlier output"):
        data.verify(state=state)
    with pytest.raises(kdump.KdumpError, match="is inside an input directory"):
        data.verify(state=tmp_path / "d" / "state")
    data.verify(state=tmp_path / "other").close()  # type: ignore[attr-defined]
    next(data.verify(state=tmp_path / "early"))


def test_import_loads_no_other_modules() -> None:
    code = (
        "import sys; before = set(sys.modules); import kdump; "
        "print(sorted(set(sys.modules) - before)); kdump.open; "
        "print(sorted({'pyarrow', 'rich', 'click', 'pyspark'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["['kdump']", "[]"]


def test_missing_pyarrow_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    data = kdump.open(SAMPLES / "clean/4.1.1/d1/orders.zstd-0")
    with pytest.raises(kdump.KdumpError, match=r"pip install 'kdump\[arrow\]'"):
        data.reader("record")
