"""What pytest does for `mutate`: it says which test runs, or runs some tests only, in an order.

`MUTATE_TIMES` names a file: a line of JSON for each test, with what it marked (`marks`).
`MUTATE_TESTS` names a file of test ids, each with the processor seconds it may take: these alone
are run, as listed.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import json
import math
import os
import pkgutil
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest
from mutate import marks

_TIMES = os.environ.get("MUTATE_TIMES")
_TESTS = os.environ.get("MUTATE_TESTS")
#: All of a process's address space: what runs away ends as a MemoryError, not as a dead machine.
_ADDRESS_SPACE = 8 << 30
_NEW_SECONDS = 30.0  # for a test that is only there since the change


def pytest_configure(config: pytest.Config) -> None:
    """Register what was asked for."""
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, resource.RLIM_INFINITY))
    if _TIMES:
        config.pluginmanager.register(Recorder(Path(_TIMES)))
    if _TESTS:
        config.pluginmanager.register(Selection(Path(_TESTS)))


def cpu_seconds() -> float:
    """Give what this process and its finished children have used."""
    return sum(os.times()[:4])


class Recorder:
    """Notes of each test how it ended, what it took, and what it marked."""

    def __init__(self, path: Path) -> None:
        self._out = path.open("a", encoding="utf-8")
        self._failed: set[str] = set()
        self._skipped: set[str] = set()
        self._caches: list[Any] = []
        self._modules = 0

    def pytest_collection_finish(self) -> None:
        """Import all of the package, so that no test seems to reach what an import runs."""
        import kdump

        for module in pkgutil.walk_packages(kdump.__path__, "kdump."):
            if not module.name.endswith("__main__"):
                try:
                    importlib.import_module(module.name)
                except ImportError:
                    pass  # it needs what is not installed

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Run one test."""
        marked = builtins.__mutate__  # type: ignore[attr-defined]
        self._forget()
        marked[:] = bytes(len(marked))
        began = cpu_seconds()
        result = yield
        took = cpu_seconds() - began
        told = "failed" if item.nodeid in self._failed else "passed"
        told = "skipped" if item.nodeid in self._skipped else told
        row = [item.nodeid, told, round(took, 4), marks.pack(marked[:])]
        self._out.write(json.dumps(row) + "\n")
        self._out.flush()
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how it ended."""
        if report.failed:
            self._failed.add(report.nodeid)
        if report.skipped:
            self._skipped.add(report.nodeid)

    def _forget(self) -> None:
        """Empty the package's caches: what they hold was computed by another test."""
        if len(sys.modules) != self._modules:
            self._modules = len(sys.modules)
            self._caches = [*_caches()]
        for one in self._caches:
            one.cache_clear()


def _caches() -> Iterator[Any]:
    for name, module in [*sys.modules.items()]:
        if name.partition(".")[0] == "kdump":
            for value in _values(module):
                if isinstance(value, functools._lru_cache_wrapper):
                    yield value


def _values(module: ModuleType) -> Iterator[object]:
    for value in [*vars(module).values()]:
        yield value
        if isinstance(value, type) and not isinstance(value, FunctionType):
            yield from [*vars(value).values()]


class Selection:
    """Runs the tests that are listed, each with a limit of its own."""

    def __init__(self, path: Path) -> None:
        given = json.loads(path.read_text("utf-8"))
        self._limits: dict[str, float] = given["limits"]
        self._known = set(given["known"])

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Choose and order; where the change has given tests other names, these are run too."""
        order = {name: number for number, name in enumerate(self._limits)}
        gone = order.keys() - {item.nodeid for item in items}
        functions = {name.partition("[")[0] for name in gone}
        for item in items:
            name = item.nodeid
            if name not in self._known and name.partition("[")[0] in functions:
                order[name] = len(order)
                self._limits[name] = _NEW_SECONDS
        items[:] = [item for item in items if item.nodeid in order]
        items.sort(key=lambda item: order[item.nodeid])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """End the process if a test takes far more than it should: a loop has no end."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        most = used.ru_utime + used.ru_stime + self._limits[item.nodeid]
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(most), resource.RLIM_INFINITY))
        return (yield)
