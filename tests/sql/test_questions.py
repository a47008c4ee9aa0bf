"""The questions of docs/sql.md: what each statement answers on sample data is what the page shows.

Where an answer is meant to change: KDUMP_RECORD=1 pytest -n0 THIS_FILE.
"""

import os
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kdump.cli import cli

pytest.importorskip("duckdb", reason="DuckDB is not installed")

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/sql.md"
QUESTION = re.compile(
    r"^## (\d+)\. (.*)\n\n```sql\n-- (.*)\n((?:.*\n)*?)```\n\n```text\n((?:.*\n)*?)```$",
    re.MULTILINE,
)
QUESTIONS = QUESTION.findall(PAGE.read_text("utf-8"))


def test_there_are_twenty() -> None:
    assert [int(number) for number, *_ in QUESTIONS] == [*range(1, 21)]


@pytest.mark.parametrize(("number", "title", "path", "query", "answer"), QUESTIONS)
def test_answer_is_that_of_the_page(
    number: str, title: str, path: str, query: str, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "110")
    result = CliRunner().invoke(cli, ["sql", "--format", "table", query, path])
    assert (result.exit_code, result.stdout != "") == (0, True), result.stderr
    if "KDUMP_RECORD" in os.environ:
        text = PAGE.read_text("utf-8")
        at = text.index("```text\n", text.index(f"## {number}. {title}\n")) + len("```text\n")
        PAGE.write_text(text[:at] + result.stdout + text[at + len(answer) :], "utf-8")
    else:
        assert result.stdout == answer


def test_the_program_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("polars", reason="Polars is not installed")
    (program,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {}
    exec(program, names)
    assert names["late"][0][0] > 0
    assert names["three"].height == 3
