"""Run kdump as a program of its own in a fork of this process, which has imported it already.

Standard files, environment, exit and what is removed at the exit are those of a new process; only
what this process holds in memory (caches of modules) is there before. A tenth of what a new Python
takes. Where the start itself is the subject, or PyArrow's threads are, take a subprocess.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import NamedTuple

import kdump.cli
import kdump.engine
import kdump.output
from kdump.cli import main
from kdump.stores.unpacking import scratch_directory


class Done(NamedTuple):
    """What a run came to."""

    returncode: int
    stdout: bytes
    stderr: bytes


@cache
def warm() -> None:
    """Import once what a run would import, in each fork anew."""
    for package in (kdump.cli, kdump.engine, kdump.output):
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)
    for name in ("rich.console", "rich.table", "rich.text", "rich.box", "json"):
        import_module(name)
    gc.collect()
    gc.freeze()


def run(
    *words: str | bytes,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    before: Callable[[], object] | None = None,
) -> Done:
    """Run kdump with files for its standard files, and return what it wrote.

    `before` is called in the new process, first of all.
    """
    with ExitStack() as files:
        given, out, err = (files.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        given.write(stdin)
        given.seek(0)
        process = start(words, (given.fileno(), out.fileno(), err.fileno()), env, before)
        _, status = os.waitpid(process, 0)
        out.seek(0)
        err.seek(0)
        return Done(os.waitstatus_to_exitcode(status), out.read(), err.read())


def start(
    words: Sequence[str | bytes],
    files: tuple[int, int, int],
    env: Mapping[str, str] | None = None,
    before: Callable[[], object] | None = None,
) -> int:
    """Start kdump with open files for its standard files; return the process."""
    warm()
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if not process:
        status = 1
        try:
            if before is not None:
                before()
            status = _become(words, files, env)
        finally:
            os._exit(status)
    return process


def _become(
    words: Sequence[str | bytes], files: tuple[int, int, int], env: Mapping[str, str] | None
) -> int:
    for number, file in enumerate([os.dup(file) for file in files]):
        os.dup2(file, number)
    os.closerange(3, 1024)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", errors="backslashreplace", closefd=False)  # noqa: SIM115
    if env is not None:
        os.environ.clear()
        os.environ.update(env)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.argv = ["kdump", *map(os.fsdecode, words)]
    atexit._clear()
    scratch_directory.cache_clear()
    status: object = 0
    try:
        main([os.fsdecode(word) for word in words])
    except SystemExit as left:
        status = left.code
    except BaseException:
        traceback.print_exc()
        status = 1
    atexit._run_exitfuncs()
    for file in (sys.stdout, sys.stderr):
        file.flush()
    return status if isinstance(status, int) else int(status is not None)
