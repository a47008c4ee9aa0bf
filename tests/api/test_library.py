"""The library: the examples of its page, the rows of the commands, and what it leaves behind."""

import doctest
import gc
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from every_command import OF_THE_MOMENT, RUNS, SAMPLES, rows_of

import kdump
from kdump.engine.registry import COMMANDS
from kdump.engine.why.volumes import FreeRequest
from kdump.findings.escape import json_text
from kdump.output.jsonl import row_members
from kdump.output.values import AUTO
from kdump.rows.declared import kinds

ROOT = SAMPLES.parent
CLEAN = SAMPLES / "clean" / "4.4.0"


def test_the_examples_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(ROOT)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    page = str(ROOT / "docs/library.md")
    assert doctest.testfile(page, module_relative=False, optionflags=flags).failed == 0


def test_every_public_name_is_there() -> None:
    assert all(getattr(kdump, name) is not None for name in kdump.__all__)
    with pytest.raises(AttributeError):
        kdump.nothing  # noqa: B018
    text = (ROOT / "docs/library.md").read_text()
    assert {"Data", "Partition", "RecordRow", "BatchRow", "Field", "Severity", "__version__"} >= {
        name for name in kdump.__all__ if f"kdump.{name}" not in text
    }


#: Options of commands by their words on the command line.
OPTIONS: dict[str, dict[str, Any]] = {
    "--history": {"history": True},
    "--explained": {"explained": True},
    "--by key": {"by": ("key",), "top": 20},
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
    "--check --explain": {"check": True, "explain": True},
    "--check --explain --none earliest": {"check": True, "explain": True, "none": "earliest"},
}


@pytest.mark.parametrize(("words", "sample", "behind"), RUNS)
def test_rows_are_those_of_the_command(words: str, sample: str, behind: str) -> None:
    command, _, option = words.partition(" ")
    if option == "--batches":
        pytest.skip("headers are read by batches()")
    data = kdump.open(SAMPLES / sample)
    given = OPTIONS[option] if option else {}
    found: dict[str, list[Any]] = {}
    for row in data.rows(command, *map(int, behind.split()), **given):
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


def test_records_and_headers_are_those_of_dump() -> None:
    part = kdump.open(CLEAN)["orders", 0]
    records = [one for one in part.records() if isinstance(one, kdump.RecordRow)]
    shown = rows_of("dump", "clean/4.4.0/d1/orders-0", "")["record"]
    assert [one.offset for one in records] == [one["offset"] for one in shown]
    assert [(one.value or b"").decode() for one in records] == [one["value"] for one in shown]
    batches = [one for one in part.batches() if isinstance(one, kdump.BatchRow)]
    shown = rows_of("dump --batches", "clean/4.4.0/d1/orders-0", "")["batch"]
    assert [one._asdict() for one in batches] == shown


ASKED: dict[str, tuple[dict[str, Any], str]] = {
    "groups": ({"group": "billing"}, "committed-offset"),
    "commits": ({"group": "billing", "backwards": True}, "offset-commit"),
    "cluster": ({}, "cluster-summary"),
    "predict": ({}, "node-start"),
    "why": ({}, "segment-fate"),
    "usage": ({}, "usage"),
    "entries": ({}, "property"),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_question_gives_rows_of_its_kind(name: str) -> None:
    options, kind = ASKED[name]
    found = getattr(kdump.open(CLEAN), name)(**options)
    assert kind in {row.row for row in found if isinstance(row, kdump.Row)}


def test_times_are_texts_or_numbers() -> None:
    data = kdump.open(SAMPLES / "clean/4.4.0-transactions")
    told = data.transactions(at="2026-11-22T12:21:52Z")
    same = data.transactions(at=1795350112000)
    assert [*told] == [*same] != [*data.transactions()]
    with pytest.raises(kdump.KdumpError, match="last week"):
        data.records(from_time="last week")


def test_decoded_values_are_what_they_say() -> None:
    part = kdump.open(CLEAN)["__consumer_offsets", 0]
    record = next(part.records(limit=1, decode=True))
    assert isinstance(record, kdump.DecodedRow)
    assert record.key["type"] == "offset_commit"
    assert type(next(part.records(limit=1))) is kdump.RecordRow


def test_every_kind_of_row_belongs_to_a_command() -> None:
    made = {kind for command in COMMANDS.values() for kind in command.kinds}
    assert made - {"record", "batch"} == {*kinds()} - {"schema-field"}


def test_errors_come_when_all_else_was_given(tmp_path: Path) -> None:
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
def test_a_column_or_a_kind_that_there_is_not_is_wrong_usage(name: str) -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises(kdump.KdumpError, match=r"unknown row kind|have no such"):
        kdump.open(CLEAN).table(name, columns=["offset", "nonsense"])


def _open_files() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def test_abandoned_iterators_leave_nothing_open() -> None:
    data = kdump.open(CLEAN)
    next(data.records())
    gc.collect()
    before, threads = _open_files(), threading.active_count()
    for number in range(100):
        given: Any = data.records() if number % 2 else data.rows("groups", history=True)
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


def test_import_brings_nothing() -> None:
    code = (
        "import sys; before = set(sys.modules); import kdump; "
        "print(sorted(set(sys.modules) - before)); kdump.open; "
        "print(sorted({'pyarrow', 'rich', 'click', 'pyspark'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["['kdump']", "[]"]
