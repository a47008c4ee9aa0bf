"""A table that is longer than the terminal is shown in a pager."""

import fcntl
import os
import pty
import struct
import termios
from pathlib import Path

import builders
import pytest
from terminals import run_on

from kdump.output import pager
from kdump.output.pager import PagedStream

LINES = 10
MARKS = {"KDUMP_PAGER": "sed s/^/P:/"}


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Give a partition with 30 records and a torn tail."""
    (tmp_path / "orders-0").mkdir()
    log = b"".join(builders.batch([builders.record()], base_offset=n) for n in range(30))
    (tmp_path / "orders-0" / f"{0:020}.log").write_bytes(log + log[:70])
    return tmp_path / "orders-0"


def run_on_terminal(
    *words: object, lines: int = LINES, stdin: bool = True, **env: str
) -> tuple[int, str]:
    """Run kdump on a terminal with so many lines; return its status and what is shown."""
    ends = pty.openpty()
    fcntl.ioctl(ends[1], termios.TIOCSWINSZ, struct.pack("HHHH", lines, 100, 0, 0))
    given = {**os.environ, "TERM": "xterm", "NO_COLOR": "1", **env}
    status, written = run_on(ends, [str(word) for word in words], given, stdin=stdin)
    return status, written.decode().replace("\r\n", "\n")


def test_long_table_and_its_findings_are_paged(partition: Path) -> None:
    status, text = run_on_terminal("dump", partition, **MARKS)
    lines = [line for line in text.splitlines() if "the pure Python kernel" not in line]
    assert status == 3
    assert all(line.startswith("P:") for line in lines)
    records = [n for n, line in enumerate(lines) if "2023-11-14T" in line]
    assert len(records) == 30
    assert [n > records[-1] for n, line in enumerate(lines) if "torn-tail" in line] == [True]
    assert "30 records" in lines[-1]


def test_table_of_a_plan_is_paged(partition: Path) -> None:
    _, text = run_on_terminal("usage", "--by", "partition", partition, lines=3, **MARKS)
    assert "P:orders" in text


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (("--no-pager",), MARKS),
        (("--format", "jsonl"), MARKS),
        ((), MARKS | {"TERM": "dumb"}),
        ((), {"KDUMP_PAGER": "", "PAGER": "sed s/^/P:/"}),
        ((), {"KDUMP_PAGER": "/nonesuch"}),
        ((), {"KDUMP_PAGER": "'"}),
    ],
)
def test_pager_may_be_disabled(
    partition: Path, words: tuple[str, ...], given: dict[str, str]
) -> None:
    status, text = run_on_terminal("dump", partition, *words, **given)
    assert status == 3
    assert "P:" not in text
    assert "torn-tail" in text
    assert text.count("offset") >= 1


def test_short_table_is_not_paged(partition: Path) -> None:
    assert "P:" not in run_on_terminal("dump", "--limit", "3", partition, **MARKS)[1]


def test_no_pager_without_an_interactive_terminal(partition: Path) -> None:
    assert "P:" not in run_on_terminal("dump", partition, stdin=False, **MARKS)[1]


def test_pager_may_quit_early(partition: Path) -> None:
    for command, lines in (("head -n 2", 2), ("true", 0)):
        status, text = run_on_terminal("dump", partition, KDUMP_PAGER=command)
        assert status in (1, 3)  # 1 where it is left before everything is written
        assert len(text.splitlines()) == lines


def test_slow_output_is_not_buffered(monkeypatch: pytest.MonkeyPatch) -> None:
    class Raw:
        def __init__(self) -> None:
            self.pieces: list[bytes] = []

        def write(self, data: bytes | memoryview, /) -> int:
            self.pieces.append(bytes(data))
            return len(data)

    now = [100.0]
    monkeypatch.setattr(pager.time, "monotonic", lambda: now[0])
    raw = Raw()
    stream = PagedStream(raw, "standard output", 10, lambda: None)
    stream.write(b"one\n")
    stream.flush()
    assert raw.pieces == []
    now[0] += 1
    stream.flush()
    assert raw.pieces == [b"one\n"]
    stream.write(b"more\n" * 20)
    stream.end()
    assert raw.pieces[1:] == [b"more\n" * 20]
