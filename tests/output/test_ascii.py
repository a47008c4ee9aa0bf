"""Terminals without Unicode get lines, bars and signs in ASCII."""

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kdump.engine.work.pace import Progress
from kdump.output.escape import encode, encoding_of
from kdump.output.progress import Bar, PlannedTally

SAMPLES = Path(__file__).parents[2] / "sample-data"


def test_ascii_signs_have_the_same_width() -> None:
    text = "a · b \u2026 ✓✗→∅×█▌▏─–"
    assert len(encode(text, "ascii")) == len(text)
    assert encode(text, "latin-1").isascii()
    assert encode(text, "utf-8") == text.encode()
    assert encode("é", "ascii") == b"\\xe9"


def test_non_terminal_keeps_its_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    assert encoding_of(io.TextIOWrapper(io.BytesIO(), "utf-8")) == "utf-8"
    assert encoding_of(io.TextIOWrapper(io.BytesIO(), "latin-1")) == "latin-1"
    assert encoding_of(None) == "utf-8"


@pytest.mark.parametrize(
    ("words", "locale"),
    [
        ("usage --by hour clean/4.1.1/d1", "C"),
        ("verify damaged/one-bit", "C"),
        ("elect damaged/4.4.0-three-nodes/n1 damaged/4.4.0-three-nodes/n2", "C"),
        ("find-offset 460 clean/4.1.1/d1/orders.zstd-0", "C.UTF-8"),
    ],
)
def test_c_locale_gets_ascii(words: str, locale: str) -> None:
    here = [str(SAMPLES / word) if "/" in word else word for word in words.split()]
    ours, theirs = pty.openpty()
    env = {**os.environ, "LC_ALL": locale, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    run = subprocess.Popen(
        [sys.executable, "-m", "kdump", *here, "--no-pager"],
        stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=env,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    run.wait()
    assert len(shown) > 200
    assert shown.isascii() is (locale == "C")
    assert not re.search(rb"\\\\[xu][0-9a-f]{2}", shown)


def test_progress_bar_is_ascii_in_the_c_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w", encoding="utf-8") as terminal:
        progress = Progress()
        progress.planned_bytes, progress.slots = 1 << 20, [1 << 21]
        tally = PlannedTally(progress)
        tally._started -= 5
        bar = Bar(terminal, tally, ())
        bar.tick()
        bar.clear()
        terminal.flush()
        drawn = b""
        while b"100%" not in drawn:  # the terminal passes on what is written piece by piece
            drawn += os.read(ours, 1 << 16)
    os.close(ours)
    assert b"100%" in drawn
    assert b"1.0 MiB of 1.0 MiB" in drawn  # and not two
    assert drawn.isascii()
