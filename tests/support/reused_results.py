"""Run a command of the engine once, and write what it found in every form.

Neither the form nor the kinds of rows asked for are among the options that the engine receives:
what it yields for some paths and options is kept, and given to the next run with the same ones.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

from kdump.engine import registry

_KEPT = 64  # runs: more than one test has, so that the test of the next form finds them
_NOW_NS = time.time_ns()  # an option of some commands
#: dump yields views of memory that is used again; the options of the others cannot be compared.
_AS_THEY_ARE = ("dump.run:dump", "salvage.run:salvage")
_found: dict[bytes, list[Any]] = {}
_run = registry.Command.run


@contextmanager
def results_reused() -> Iterator[None]:
    """Let most commands find again what they found with the same paths and options."""
    with (
        mock.patch.object(registry.Command, "run", property(_reusing)),
        mock.patch.object(registry, "time", SimpleNamespace(time_ns=lambda: _NOW_NS)),
    ):
        yield


def _reusing(command: registry.Command) -> Callable[..., Iterator[Any]]:
    run: Callable[..., Iterator[Any]] = _run.__get__(command)

    def reuse(*given: Any, **named: Any) -> Iterator[Any]:
        shown = {name: named[name] for name in named if name not in ("driver", "progress")}
        key = pickle.dumps((command.function, given, shown))
        return iter(_found[key]) if key in _found else _keep(key, run(*given, **named))

    return run if command.function in _AS_THEY_ARE else reuse


def _keep(key: bytes, items: Iterator[Any]) -> Iterator[Any]:
    kept = []
    for item in items:
        kept.append(item)
        yield item
    if len(_found) == _KEPT:
        del _found[next(iter(_found))]
    _found[key] = kept
