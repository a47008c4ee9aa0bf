"""Which tests a change is tried with, in which order: of those that reach it the nearest first.

Most changes are caught by the first few, so these run by themselves. The rest follows as far as the
bound of processor time goes, and behind it tests of the same files that do not reach the line: what
they look at may have been made by one that does.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mutate.reach import Reach, Test

#: Files of tests that look at what the package is as a whole: all outputs, kinds of rows, findings,
#: manual pages. They run last, whatever they reach: lines that run at import are reached by none.
NETS = (
    "tests/cli/test_recorded_outputs.py",
    "tests/rows/test_recorded_schema.py",
    "tests/manuals/test_manual_pages.py",
    "tests/findings/test_catalogue.py",
    "tests/findings/test_damaged_catalogue.py",
)
FIRST_FILES = 4
FIRST_SECONDS = 5.0
ALIKE = 3  # of one function with parameters, in the first round


class Round(NamedTuple):
    """One run of pytest."""

    files: list[str]
    limits: dict[str, float]  # processor seconds each test may take, in order
    known: list[str]  # all tests there are in these files
    pure: bool


def _limit(test: Test) -> float:
    return round(5 + 10 * test.cpu_seconds, 1)


def _by_file(tests: set[Test]) -> dict[str, list[Test]]:
    found: dict[str, list[Test]] = {}
    for test in sorted(tests, key=lambda test: (test.cpu_seconds, test.name)):
        found.setdefault(test.file, []).append(test)
    return found


def _distance(module: str, file: str) -> int:
    """Say how far a test file is from a module: named alike, in the folder named alike, or not."""
    own, its = PurePosixPath(module), PurePosixPath(file)
    if its.name == f"test_{own.stem}.py":
        return 0
    return 1 if its.parts[1:-1] == own.parts[1:-1] else 2


def rounds(
    reach: Reach, module: str, found: set[Test], pure: bool, most_seconds: float
) -> list[Round]:
    """Plan the runs for a change to a module that some tests reach."""
    files = _by_file(found)
    order = sorted(
        files,
        key=lambda file: (_distance(module, file), files[file][0].cpu_seconds, -len(files[file])),
    )
    first: list[Test] = []
    seconds = 0.0
    for file in order[:FIRST_FILES]:
        alike: dict[str, int] = {}
        for test in files[file]:
            alike[test.function] = alike.get(test.function, 0) + 1
            if alike[test.function] <= ALIKE and (
                not first or seconds + test.cpu_seconds <= FIRST_SECONDS
            ):
                first.append(test)
                seconds += test.cpu_seconds
    taken = set(first)
    rest: list[Test] = []
    for file in order:
        for test in files[file]:
            if test not in taken and seconds + test.cpu_seconds <= most_seconds:
                rest.append(test)
                seconds += test.cpu_seconds
    taken |= set(rest)
    for file in order:
        for test in sorted(reach.of_file(file, pure), key=lambda test: test.cpu_seconds):
            if test not in taken and seconds + test.cpu_seconds <= most_seconds:
                rest.append(test)
                taken.add(test)
                seconds += test.cpu_seconds
    nets = [test for file in NETS for test in reach.of_file(file, pure) if test not in taken]
    return [_round(reach, tests, pure) for tests in (first, rest, nets) if tests]


def _round(reach: Reach, tests: list[Test], pure: bool) -> Round:
    files = list(dict.fromkeys(test.file for test in tests))
    known = [test.name for file in files for test in reach.of_file(file, pure)]
    return Round(files, {test.name: _limit(test) for test in tests}, known, pure)
