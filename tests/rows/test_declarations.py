"""What rows declare: each member has a type and a meaning, and real rows are as declared."""

import inspect
import json
from pathlib import Path

import pytest
from declared_rows import find_undeclared
from each import each
from every_command import RUNS, SAMPLES, run

from kdump import rows
from kdump.rows.declarations import MODULES, kinds, kinds_of, members
from kdump.rows.words import ColumnStorage

#: The words of a command, sample data that it has rows of, and words behind it.
MORE = (
    ("groups", "damaged/4.1.1-killed", ""),
    ("transactions --open", "clean/4.4.0-transactions", ""),
    ("cluster --history", "clean/4.1.1/d1", ""),
    ("cluster --view zookeeper", "clean/4.1.1/d1", ""),
    ("cluster --view zookeeper", "clean/2.8.2", ""),
    ("verify --quick --summary-by broker,topic", "damaged/4.1.1-stopped", ""),
    ("why --free 1MiB --cleaner", "clean/4.1.1", ""),
    ("compare", "damaged/4.4.0-three-nodes/n1", f"{SAMPLES}/damaged/4.4.0-three-nodes/n2"),
    ("elect", "damaged/4.4.0-three-nodes/n1", f"{SAMPLES}/damaged/4.4.0-three-nodes/n2"),
    ("salvage --split-batches", "damaged/4.1.1-stopped", ""),
)


def test_every_module_is_listed() -> None:
    found = {path.stem for path in Path(rows.__path__[0]).glob("*.py")}
    assert found - {"__init__", "declarations", "field", "row", "words"} == set(MODULES)


def test_kinds_have_different_names() -> None:
    assert len(kinds()) == sum(len(kinds_of(module)) for module in MODULES)


@each("name", kinds())
def test_kinds_and_members_are_described(name: str) -> None:
    kind = kinds()[name]
    assert inspect.cleandoc(kind.__doc__ or "").endswith(".")
    for field in members(kind):
        assert field.doc, field.name
        assert field.unit == "ms" or not field.name.endswith("_ms"), field.name
        assert field.omitted is (field.name in kind.omits)


def test_types_are_read_from_annotations() -> None:
    fields = {field.name: field for field in members(kinds()["committed-offset"])}
    assert fields["commit_ms"][1:2] == ("int64",)
    assert (fields["commit_ms"].role, fields["commit_ms"].null) == ("time", False)
    assert (fields["partition"].type, fields["lag"].type) == ("int32", "int64")
    assert (fields["lag"].null, fields["topic_id"].omitted) == (True, True)
    member = {field.name: field.type for field in members(kinds()["member"])}
    assert (member["subscription"], member["assignment"]) == ("list<string>", "json")
    assert ColumnStorage("int32") == ColumnStorage("int32", "", "")


@pytest.mark.parametrize(("words", "sample", "behind"), [*RUNS, *MORE])
def test_rows_match_their_declaration(words: str, sample: str, behind: str) -> None:
    found = [json.loads(line) for line in run(words, sample, behind).stdout.splitlines()]
    assert {row["row"] for row in found} <= {*kinds(), "batch"}
    assert not list(find_undeclared(found))
