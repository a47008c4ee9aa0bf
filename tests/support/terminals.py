"""A command on a pseudo terminal, and what of its output a terminal would act upon."""

import gc
import os
import pty
import re
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import forked

from kdump.cli import main

#: Escape sequences of our own: colours, and what a progress bar moves the cursor with.
_OURS = re.compile(r"\x1b\[(?:[0-9;]*m|\?25[lh]|[0-9]*[AK])")
_CONTROLS = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
_HOSTILE = re.compile(f"[{_CONTROLS}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def on_terminal(*words: str | bytes, colour: bool = False, width: int = 100) -> tuple[int, bytes]:
    """Run kdump with both its outputs on a terminal; return its status and what it wrote."""
    environment = {
        **os.environ,
        "COLUMNS": str(width),
        "TERM": "xterm-256color" if colour else "dumb",
    }
    if not colour:
        environment["NO_COLOR"] = "1"
    return run_on(pty.openpty(), words, environment)


def in_process(*words: str, width: int = 100) -> tuple[int, bytes]:
    """Run kdump in this process with both its outputs on a terminal without colours.

    For what is shown there; what is written at a program's end needs `on_terminal`.
    """
    ours, theirs = pty.openpty()
    environment = {"COLUMNS": str(width), "TERM": "dumb", "NO_COLOR": "1"}
    status: object = 0
    with (
        ThreadPoolExecutor(1) as reader,
        mock.patch.dict(os.environ, environment),
        Path(os.devnull).open() as nothing,
    ):
        written = reader.submit(_read_all, ours)
        with (
            os.fdopen(theirs, "w") as out,
            os.fdopen(theirs, "w", errors="backslashreplace", closefd=False) as err,
            mock.patch.multiple(sys, stdin=nothing, stdout=out, stderr=err),
            mock.patch.object(sys, "argv", ["kdump", *words]),
        ):
            try:
                main([*words])
            except SystemExit as left:
                status = left.code
            finally:
                gc.enable()  # which a program leaves to its end
        assert isinstance(status, int)
        return status, written.result()


def run_on(
    ends: tuple[int, int],
    words: Sequence[str | bytes],
    env: Mapping[str, str],
    *,
    stdin: bool = False,
) -> tuple[int, bytes]:
    """Run kdump with both outputs, and standard input if so, on an open terminal; close it."""
    ours, theirs = ends
    nothing = os.open(os.devnull, os.O_RDONLY)
    process = forked.start(words, (theirs if stdin else nothing, theirs, theirs), env)
    os.close(nothing)
    os.close(theirs)
    written = _read_all(ours)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), written


def _read_all(ours: int) -> bytes:
    pieces = []
    try:
        while piece := os.read(ours, 1 << 16):
            pieces.append(piece)
    except OSError:  # what reading the end of a terminal is
        pass
    os.close(ours)
    return b"".join(pieces)


def find_controls(written: bytes, *, colour: bool = False) -> list[str]:
    """List what a terminal would act upon: controls, bytes that are no UTF-8, turns of writing."""
    text = written.decode("utf-8", "surrogateescape")
    if colour:
        text = _OURS.sub("", text)
    text = re.sub("\r+\n", "\n", text)  # what a terminal's driver makes of a line's end
    found: Sequence[re.Match[str]] = [
        *_HOSTILE.finditer(text),
        *re.finditer("[\r\ud800-\udfff]", text),
    ]
    return [repr(text[max(one.start() - 30, 0) : one.end() + 30]) for one in found]
