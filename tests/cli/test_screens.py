"""What commands show on a terminal: no line is wider, no name is broken, nothing is repeated."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from each import each
from every_command import RUNS, SAMPLES
from rich.cells import cell_len
from terminals import in_process

from kdump.output.compare_table import CompareTable
from kdump.output.report import Page
from kdump.rows.compare import CompareSummary

#: Printed commands stay whole, to be copied; an error is one line, to be searched for.
_WHOLE = re.compile(r" *(→|kdump:|Error:) | +(kdump|kafka-[a-z]+\.sh|rm|cp) ")
#: A name with its number: __consumer_offsets-0 or orders.zstd-0.
_BROKEN_NAME = re.compile(r"^(__[a-z]+_|[a-z]+\.)\s.*\n\s*([a-z]+-\d+)\s", re.MULTILINE)
_CLEAN = SAMPLES / "clean/4.1.1"


def screen(*words: str | Path, width: int) -> list[str]:
    """Return the lines of a command's screen."""
    status, written = in_process(*map(str, words), width=width)
    assert status in (0, 3, 4), (words, status, written[-500:])
    return written.decode().replace("\r\n", "\n").split("\n")


_MORE = (
    ("sql", "select * from batches", "limit 5"),
    ("report --format table", "damaged/4.1.1-killed", ""),
    ("verify --quick", "clean/4.1.1", ""),
    ("predict --quick", "damaged/4.4.0-three-nodes/n1", ""),
    ("elect", "damaged/4.4.0-three-nodes/n1", str(SAMPLES / "damaged/4.4.0-three-nodes/n2")),
    ("cluster --history", "clean/4.1.1", ""),
    ("dump --limit 5", "clean/4.4.0/d1/__consumer_offsets-0", ""),
    ("dump --hex --limit 1", "clean/4.1.1/d1/orders.lz4-0", ""),
)


@pytest.mark.parametrize("width", [80, 120])
@each(("words", "sample", "behind"), [*RUNS, *_MORE])
def test_lines_fit_the_terminal(
    width: int, words: str, sample: str, behind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(SAMPLES)  # paths are as long wherever the checkout is
    if words == "sql":
        given: list[str | Path] = ["sql", f"{sample} {behind}", _CLEAN]
    else:
        given = [*words.split(), sample, *behind.replace(f"{SAMPLES}/", "").split()]
    lines = screen(*given, width=width)
    wide = [line for line in lines if cell_len(line) > width and not _WHOLE.match(line)]
    assert [line for line in wide if len(line.split()) > 1] == []  # a path stays whole
    assert not _BROKEN_NAME.search("\n".join(lines))


def test_tables_omit_repeated_facts() -> None:
    """Sound indexes, evidence of the same node, topics with one partition."""
    lines = screen("reindex", _CLEAN, width=80)
    assert not any(" keep " in line for line in lines)
    assert any(re.match(r"Not listed: \d+ files that are kept", line) for line in lines)
    assert any(" keep " in line for line in screen("reindex", "--wide", _CLEAN, width=80))
    assert any(" keep " in line for line in screen("reindex", _CLEAN / "d1/orders.lz4-0", width=80))
    facts = [
        line
        for line in screen("info", "--explain", _CLEAN / "d1", _CLEAN / "d2", width=120)
        if line.startswith(("from ", "exactly "))
    ]
    assert len(facts) > 10
    assert len({*facts}) == len(facts)
    lines = screen("report", "--format", "table", "--no-hashes", _CLEAN, width=120)
    assert sum("it has meta.properties" in line for line in lines) == 1
    assert not any("internal error" in line for line in lines)
    lines = screen("placement", _CLEAN, width=80)
    assert sum("one partition" in line for line in lines) == 1
    lines = screen("placement", "--topic", "orders.lz4", _CLEAN, width=80)
    assert sum("one partition" in line for line in lines) == 1


def test_verdicts_of_a_comparison_are_wrapped() -> None:
    """Many verdicts, with words that are not broken."""
    verdicts = ("behind", "compacted-differently", "damaged", "equal", "start-differs", "truncated")
    row = CompareSummary(verdicts=dict.fromkeys(verdicts, 25))
    written: list[bytes] = []
    CompareTable(Page(written.append, 80), quiet=False).write(row)
    assert all(len(line) <= 80 for line in b"".join(written).decode().splitlines())


_RAW_TIME = re.compile(r"(?<![\w.-])1[4-9]\d{11}(?![\w-])")


@each("sample", ["damaged/4.1.1-killed", "damaged/4.1.1-stopped", "damaged/0.10.2.2"])
def test_messages_have_no_raw_milliseconds(sample: str) -> None:
    for words in (("verify", "--deep", "--all"), ("cluster", "--history"), ("reindex",)):
        written = in_process(*words, str(SAMPLES / sample), width=200)[1].decode()
        lines = written.splitlines()
        assert [line for line in lines if _RAW_TIME.search(line) and "→" not in line] == []
