"""Every command in every form, read back and held to its JSON Lines: values and types."""

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from corpus import corpus
from declared_rows import make_row as row_made
from each import each
from every_command import OF_THE_MOMENT, RUNS, SAMPLES, rows_of, run
from long_runs import LONG

from kdump.cli import cli
from kdump.output.values import AUTO, bytes_json
from kdump.rows.declarations import kinds, members, types_of


def plain(value: Any) -> Any:
    """Write what is nested as JSON text, as columns have it; bytes as they are in JSON."""
    if isinstance(value, bytes):
        return plain(bytes_json(value, AUTO))
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return value


def declared(kind: str) -> dict[str, str]:
    """Give the members of a kind, with their types."""
    return types_of(members(kinds()[kind])) if kind in kinds() else {}


@pytest.mark.parametrize(("words", "sample", "behind"), RUNS)
@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_columns_contain_the_values_of_json(
    words: str, sample: str, behind: str, form: str, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow")
    expected = rows_of(words, sample, behind)
    folder = tmp_path / "out"
    if not words.startswith("dump") and expected.keys() <= kinds().keys():
        run(words, sample, behind, "--format", form, "--output", f"{folder}/")
        assert {path.stem for path in folder.iterdir()} == expected.keys()
    for kind, rows in expected.items():
        if kind not in kinds() and kind != "batch":
            continue
        file = folder / f"{kind}.{form}"
        if not file.exists() or kind == min(expected):  # a kind that is asked for alone
            file = tmp_path / file.name
            run(words, sample, behind, "--format", form, "--rows", kind, "--output", str(file))
        table = _read(file)
        names = declared(kind)
        for row, made in zip(rows, table.to_pylist(), strict=True):
            made = {name: made[name] for name in made if name not in OF_THE_MOMENT}
            texts = {name for name in row if names.get(name) == "json" and row[name] is not None}
            assert {name: plain(made[name]) for name in row} == {
                name: str(plain(value)) if name in texts else plain(value)
                for name, value in row.items()
            }
            assert all(made[name] is None for name in made.keys() - row.keys())
            assert not names or made.keys() <= names.keys()


#: What real brokers left: of every format, sound, live, killed, and damaged; the first are small.
CORPORA = (
    *("old/v07-072.hole.before", "old/damage-0822.all.before", "old/damage-01022.full.before"),
    *("modern/data/killed", "modern/recovery/killed-norp/before", "old/mixed-282.killed"),
    *("old/v1-01022.live", "values/data/killed", "tiered/data/killed"),
)


@each("number", range(len(RUNS)))
def test_forms_agree_on_real_data(number: int, tmp_path: Path) -> None:
    words, _, behind = RUNS[number]
    for name in CORPORA if LONG else (CORPORA[number % 3],):
        root = str(corpus(name))
        test_csv_contains_the_values_of_json(words, root, behind)
        for form in ("parquet", "arrow"):
            folder = tmp_path / name / form
            folder.mkdir(parents=True)
            test_columns_contain_the_values_of_json(words, root, behind, form, folder)
        test_markdown_has_a_line_for_each_row(words, root, behind)


def _read(path: Path) -> Any:
    if path.suffix == ".arrow":
        from pyarrow import ipc

        return ipc.open_file(path).read_all()
    from pyarrow import parquet

    return parquet.read_table(path)


@pytest.mark.parametrize(("words", "sample", "behind"), RUNS)
def test_csv_contains_the_values_of_json(words: str, sample: str, behind: str) -> None:
    for kind, rows in rows_of(words, sample, behind).items():
        text = run(words, sample, behind, "--format", "csv", "--rows", kind).stdout
        names, *lines = csv.reader(io.StringIO(text))
        for row, line in zip(rows, _as_dicts(names, lines), strict=True):
            assert line.pop("row") == kind
            line = {name: line[name] for name in line if name not in OF_THE_MOMENT}
            assert line == {name: _cell(value) for name, value in row.items()}


def _as_dicts(names: list[str], lines: list[list[str]]) -> Iterator[dict[str, str]]:
    for line in lines:
        if line[0] == "row":  # of a kind whose rows differ in their members
            names = line
        else:
            yield dict(zip(names, line, strict=True))


def _cell(value: Any) -> str:
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return f"base64:{value['base64']}"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(plain(value))


@pytest.mark.parametrize(("words", "sample", "behind"), RUNS)
def test_markdown_has_a_line_for_each_row(words: str, sample: str, behind: str) -> None:
    for kind, rows in rows_of(words, sample, behind).items():
        text = run(words, sample, behind, "--format", "markdown", "--rows", kind).stdout
        tables = re.findall(r"^\|(?: --[-:] \|)+$", text, re.MULTILINE)
        lines = [line for line in text.splitlines() if line.startswith("|")]
        assert not tables or len(lines) - 2 * len(tables) == len(rows)
        cells = {len(re.findall(r"(?<!\\)\|", line)) for line in lines}
        assert len(cells) <= len(tables), cells
        assert tables or text


def test_markdown_syntax_is_escaped() -> None:
    from kdump.output.markdown import Markdown

    written: list[bytes] = []
    Markdown(written.append, 0).write(row_made("property", name="a|b", value="<i>*_`&x"))
    assert b"".join(written).decode().splitlines()[-1] == r"| a\|b | \<i\>\*\_\`&amp;x |"


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_one_file_has_one_kind(form: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    result = run("groups", "clean/4.4.0", "", "--format", form, "-o", f"{tmp_path}/rows.{form}")
    assert result.exit_code == 2
    assert "--rows KIND" in result.output
    assert not list(tmp_path.iterdir())
    result = run("groups", "clean/4.4.0", "", "--rows", "group", "-o", f"{tmp_path}/rows.{form}")
    assert result.exit_code == 0
    assert _read(tmp_path / f"rows.{form}").num_rows == 13


def test_nonempty_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    words = ("--format", "csv", "-o", str(tmp_path))
    assert run("groups", "clean/4.4.0", "", *words).exit_code == 5
    assert run("groups", "clean/4.4.0", "", *words, "--force").exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "committed-offset.csv",
        "group.csv",
        "mine",
    ]


def test_files_are_not_written_into_a_data_directory(tmp_path: Path) -> None:
    (tmp_path / "d" / "orders-0").mkdir(parents=True)
    (tmp_path / "d" / "orders-0" / f"{0:020}.log").write_bytes(b"")
    words = ("--format", "csv", "-o", f"{tmp_path}/d/orders-0/out/")
    assert run("groups", "clean/4.4.0", "", *words).exit_code == 5
    assert not (tmp_path / "d" / "orders-0" / "out").exists()


def test_unknown_kind_is_a_usage_error() -> None:
    result = run("groups", "clean/4.4.0", "", "--rows", "gruop")
    assert result.exit_code == 2
    assert "gruop" in result.output


@each("command", ["groups", "find-time 1700000000000", "verify", "predict"])
@each("more", [("--rows", "finding"), ("--output", "{}/new/")])
def test_single_file_forms_have_no_kinds(
    command: str, more: tuple[str, ...], tmp_path: Path
) -> None:
    name, *behind = command.split()
    words = [one.replace("{}", str(tmp_path)) for one in more]
    result = CliRunner().invoke(
        cli, [name, "--format", "reset-csv", *words, str(SAMPLES / "clean/4.4.0"), *behind]
    )
    assert result.exit_code == 2, result.output
    assert "--format reset-csv contains one kind of row, in one file" in result.stderr
