"""Try cases one after the other in one test, where a case takes less time than a test does.

pytest spends two to three milliseconds on each test that it collects, sends and reports.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

_SHOWN = 120  # characters of a case's values in a report
_Test = Callable[..., None]
_TESTS = Path(__file__).parents[1]
#: Where kernels are tested; elsewhere the pure one is asked a few cases of a test.
_OF_KERNELS = ("kernels", "record", "fuzz", "regressions")
_PURE_CASES = 3


def most_cases(path: Path) -> int:
    """Return how many cases of a test in this file are tried: all, but by the pure kernel."""
    is_whole = "KDUMP_PURE" not in os.environ or path.relative_to(_TESTS).parts[0] in _OF_KERNELS
    return sys.maxsize if is_whole else _PURE_CASES


def each(
    names: str | Sequence[str],
    cases: Iterable[Any],
    ids: Iterable[object] | Callable[[Any], object] | None = None,
) -> Callable[[_Test], _Test]:
    """Call a test for every case; takes what `pytest.mark.parametrize` takes, marks apart.

    All cases are tried: the first failure is raised, and names every case that failed. The test is
    skipped where all are. A case finds a `tmp_path` of its own.
    """
    columns = re.split(r"\s*,\s*", names) if isinstance(names, str) else list(names)
    listed = list(cases)
    assert listed, f"no case of {names}"
    if ids is None:
        titles: list[object] = [None] * len(listed)
    else:
        titles = [ids(case) for case in listed] if callable(ids) else list(ids)
    tried = [_case(columns, *one) for one in zip(listed, titles, strict=True)]

    def of_each(test: _Test) -> _Test:
        some = tried[: most_cases(Path(inspect.getfile(test)))]

        @functools.wraps(test)
        def all_cases(**fixtures: Any) -> None:
            failures, skips = [], []
            for number, (title, values) in enumerate(some):
                if "tmp_path" in fixtures:
                    values = {**values, "tmp_path": _own(fixtures["tmp_path"], number)}
                try:
                    test(**{**fixtures, **values})
                except pytest.skip.Exception as skip:
                    skips.append(skip)
                except (Exception, pytest.fail.Exception) as failure:
                    failures.append((title, failure))
            if failures:
                failed = "".join(f"\n  {title}" for title, _ in failures)
                failures[0][1].add_note(f"{len(failures)} of {len(some)} cases failed:{failed}")
                raise failures[0][1]
            if len(skips) == len(some):
                raise skips[0]

        signature = inspect.signature(test)
        left = [one for name, one in signature.parameters.items() if name not in columns]
        all_cases.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return all_cases

    return of_each


def _case(columns: list[str], case: Any, title: object) -> tuple[str, dict[str, Any]]:
    if isinstance(case, type(pytest.param())):
        assert not case.marks, "a case with marks is a test of its own"
        title = case.id if title is None else title
        values = tuple(case.values)
    else:
        values = (case,) if len(columns) == 1 else tuple(case)
    shown = ", ".join(map(repr, values)) if title is None else str(title)
    return shown[:_SHOWN], dict(zip(columns, values, strict=True))


def _own(folder: Path, number: int) -> Path:
    own = folder / str(number) / "own"
    own.mkdir(parents=True)
    return own
