"""Which tests reach a line: measured once with code that marks what runs, and kept.

Tests run in shares of some files each, and after each test its marks are read (`marks`). The map is
an SQLite file: tests with their processor seconds, and of each module and test the lines. A test
file that was changed is measured again; all of them where the package or what tests share was
changed.
"""

from __future__ import annotations

import ast
import compileall
import hashlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from mutate import marks

if TYPE_CHECKING:
    from mutate.changes import Change, Module

MARKS = "not oracle and not spark and not broker"
SHARE_FILES = 24
SHARE_SECONDS = 3600  # a share that hangs is given up after that long
_TABLES = """
create table if not exists meta (name text primary key, value text);
create table if not exists files (pure int, file text, digest text, primary key (pure, file));
create table if not exists tests (id integer primary key, pure int, file text, name text,
    outcome text, cpu real);
create index if not exists by_file on tests (pure, file);
create table if not exists reach (module text, test int, bits blob);
create index if not exists by_module on reach (module);
create index if not exists by_test on reach (test);
"""
_ADD_TEST = "insert into tests (pure, file, name, outcome, cpu) values (?, ?, ?, ?, ?)"


class Test(NamedTuple):
    """A test and what it takes."""

    name: str  # as pytest names it
    file: str
    cpu_seconds: float

    @property
    def function(self) -> str:
        """Name it without its parameters."""
        return self.name.partition("[")[0]


class Copy:
    """A copy of the project that may be changed."""

    def __init__(self, project: Path, path: Path) -> None:
        self.path = path
        if path.exists():
            shutil.rmtree(path)
        skipped = shutil.ignore_patterns(
            ".git", ".venv", ".tox", ".*_cache", ".hypothesis", "build", "_fast.c", "__pycache__"
        )
        shutil.copytree(project, path, ignore=skipped, symlinks=True)
        self.data = path.with_name(f"{path.name}.data")
        self.data.mkdir(exist_ok=True)

    def environment(self, pure: bool, **more: str) -> dict[str, str]:
        """Give the environment that its tests run in: those of a clone, and the fixed seeds."""
        left_out = ("KDUMP_", "PYTEST_", "PYTHON", "MUTATE_")
        environ = {name: v for name, v in os.environ.items() if not name.startswith(left_out)}
        temporary = self.data / "tmp"
        temporary.mkdir(exist_ok=True)
        environ |= {
            "PYTHONPATH": os.pathsep.join((str(self.path), str(self.path / "tools"))),
            "KDUMP_SHARED": "/nonexistent",
            "TMPDIR": str(temporary),
        }
        # Random rounds are what compares the pure kernel with the compiled one: all of a clone's.
        kernel = {"KDUMP_PURE": "1"} if pure else {"KDUMP_FUZZ_COUNT": "20"}
        return environ | kernel | more

    def pytest(self, *arguments: str) -> list[str]:
        """Give the command that runs tests in it."""
        return [
            *(
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                "-p",
                "mutate.plugin",
            ),
            *("-o", "addopts=--import-mode=importlib --strict-markers", "-m", MARKS),
            *(f"--basetemp={self.data}/basetemp", "--tb=short", *arguments),
        ]

    def clear(self) -> None:
        """Remove what tests left."""
        for name in ("tmp", "basetemp"):
            shutil.rmtree(self.data / name, ignore_errors=True)


def digest_of(paths: Iterable[Path]) -> str:
    """Sum up files."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(str(path).encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def bits_of(lines: set[int]) -> bytes:
    """Write lines as a bit each, the lowest first."""
    bits = bytearray(max(lines) // 8 + 1)
    for line in lines:
        bits[line // 8] |= 1 << line % 8
    return bytes(bits)


def test_files(project: Path) -> list[str]:
    """List the files that have tests."""
    return sorted(str(path.relative_to(project)) for path in project.glob("tests/**/test_*.py"))


class Reach:
    """The map of a project."""

    def __init__(self, database: Path) -> None:
        self._path = database
        with self._open() as db:
            db.executescript(_TABLES)

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=600)

    def measure(self, copies: list[Copy], pure: bool) -> None:
        """Measure what has changed since, in as many processes as there are copies."""
        root = copies[0].path
        shared = [
            *root.glob("kdump/**/*.py"), *root.glob("tests/support/*.py"),
            *root.glob("tools/fuzz/*.py"), root / "tests/conftest.py",
        ]  # fmt: skip
        os.chdir(root)
        digest = digest_of(path.relative_to(root) for path in shared)
        name = f"shared{pure:d}"
        with self._open() as db:
            known = dict(db.execute("select name, value from meta"))
            if known.get(name) != digest:
                db.execute("delete from files where pure = ?", (pure,))
                db.execute("insert or replace into meta values (?, ?)", (name, digest))
            measured = dict(db.execute("select file, digest from files where pure = ?", (pure,)))
        now = {file: digest_of([Path(file)]) for file in test_files(root)}
        with self._open() as db:
            for file in [file for file in measured if now.get(file) != measured[file]]:
                self._drop(db, pure, file)
        wanted = [file for file in now if measured.get(file) != now[file]]
        shares = [wanted[at : at + SHARE_FILES] for at in range(0, len(wanted), SHARE_FILES)]
        free = list(copies)

        def share(files: list[str]) -> None:
            copy = free.pop()
            try:
                self._share(copy, pure, files, now)
            finally:
                free.append(copy)
            done.extend(files)
            print(f"measured {len(done)} of {len(wanted)} test files", file=sys.stderr, flush=True)

        done: list[str] = []
        if shares:
            for copy in copies:
                self._blocks = marks.compile_package(copy.path)
            with ThreadPoolExecutor(len(copies)) as pool:
                list(pool.map(share, shares))
        for copy in copies:  # without marks again
            compileall.compile_dir(copy.path / "kdump", quiet=1, force=True)

    def _drop(self, db: sqlite3.Connection, pure: bool, file: str) -> None:
        chosen = "select id from tests where pure = ? and file = ?"
        db.execute(f"delete from reach where test in ({chosen})", (pure, file))
        db.execute("delete from tests where pure = ? and file = ?", (pure, file))
        db.execute("delete from files where pure = ? and file = ?", (pure, file))

    def _share(self, copy: Copy, pure: bool, files: list[str], digests: dict[str, str]) -> None:
        data = copy.data / "measured"
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir()
        marked, times = data / "marks", data / "times"
        marked.write_bytes(bytes(len(self._blocks.modules)))
        environment = copy.environment(pure, MUTATE_MARKS=str(marked), MUTATE_TIMES=str(times))
        environment["PYTHONPATH"] += f"{os.pathsep}{copy.path}/tools/mutate/start"
        with (data / "log").open("wb") as log:
            process = start_tests(copy, environment, log, *files)
            try:
                process.wait(SHARE_SECONDS)
            except subprocess.TimeoutExpired:
                print(f"given up after an hour: {' '.join(files)}", flush=True)
            end_session(process)
        if process.returncode not in (0, 1, 5):
            print(f"not measured whole: {' '.join(files)}\n{tail(data / 'log')}", flush=True)
        with self._open() as db:
            for file in files:
                self._drop(db, pure, file)
            self._store(db, pure, times)
            rows = [(pure, file, digests[file]) for file in files]
            db.executemany("insert into files values (?, ?, ?)", rows)
        copy.clear()

    def _store(self, db: sqlite3.Connection, pure: bool, times: Path) -> None:
        for line in times.read_text("utf-8").splitlines() if times.exists() else ():
            name, outcome, cpu, marked = json.loads(line)
            row = (pure, name.partition("::")[0], name, outcome, cpu)
            number = db.execute(_ADD_TEST, row).lastrowid
            lines: dict[str, set[int]] = {}
            for block in marks.unpack(marked):
                lines.setdefault(self._blocks.modules[block], set()).update(
                    self._blocks.lines[block]
                )
            _add_lines(db, number, lines)

    def add(self, name: str, seconds: float, modules: dict[str, set[int]]) -> None:
        """Put in a test that passed, and the lines it reaches."""
        with self._open() as db:
            row = (False, name.partition("::")[0], name, "passed", seconds)
            _add_lines(db, db.execute(_ADD_TEST, row).lastrowid, modules)

    # What is asked of it -------------------------------------------------------------------------

    @cached_property
    def _tests(self) -> dict[int, tuple[bool, Test]]:
        with self._open() as db:
            rows = db.execute(
                "select id, pure, name, file, cpu from tests where outcome = 'passed'"
            )
            return {row[0]: (bool(row[1]), Test(*row[2:])) for row in rows}

    def failed_tests(self) -> list[str]:
        """Name the tests that failed without any change: they are not asked."""
        with self._open() as db:
            rows = db.execute("select distinct name from tests where outcome = 'failed'")
            return [name for (name,) in rows]

    def of_file(self, file: str, pure: bool) -> list[Test]:
        """List a file's tests."""
        return self._by_file.get((pure, file), [])

    @cached_property
    def _by_file(self) -> dict[tuple[bool, str], list[Test]]:
        found: dict[tuple[bool, str], list[Test]] = {}
        for pure, test in self._tests.values():
            found.setdefault((pure, test.file), []).append(test)
        return found

    def find_tests(self, module: str, lines: set[int], pure: bool) -> set[Test]:
        """Find the tests that reach one of some lines."""
        mask = bits_of(lines)
        with self._open() as db:
            query = "select test, bits from reach where module = ?"
            numbers = {
                number
                for number, bits in db.execute(query, (module,))
                if any(one & other for one, other in zip(bits, mask, strict=False))
            }
        known = [self._tests[number] for number in numbers if number in self._tests]
        return {test for its, test in known if its == pure}


def _add_lines(db: sqlite3.Connection, test: int | None, modules: dict[str, set[int]]) -> None:
    rows = [(module, test, bits_of(lines)) for module, lines in modules.items()]
    db.executemany("insert into reach values (?, ?, ?)", rows)


def tail(path: Path, count: int = 3000) -> str:
    """Give the end of a log."""
    return path.read_text("utf-8", "replace")[-count:]


_RUNNING: dict[int, subprocess.Popen[bytes]] = {}


def start_tests(
    copy: Copy, environment: dict[str, str], log: BinaryIO, *arguments: str
) -> subprocess.Popen[bytes]:
    """Start tests in a copy, in a session of their own."""
    process = subprocess.Popen(
        copy.pytest(*arguments), cwd=copy.path, env=environment, stdin=subprocess.DEVNULL,
        stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    _RUNNING[process.pid] = process
    return process


def end_session(process: subprocess.Popen[bytes]) -> None:
    """End what is left of a process and of those it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    _RUNNING.pop(process.pid, None)


def end_all() -> None:
    """End whatever runs."""
    for process in [*_RUNNING.values()]:
        os.killpg(process.pid, signal.SIGKILL)


# What runs when a module is imported -------------------------------------------------------------


class Uses:
    """Where names are used: tests of a constant are those that reach a line that names it."""

    def __init__(self, modules: dict[str, Module]) -> None:
        self._lines: dict[str, dict[str, set[int]]] = {}
        for path, module in modules.items():
            for node in ast.walk(module.tree):
                name = getattr(node, "id", getattr(node, "attr", None))
                if isinstance(node, ast.keyword):
                    name = node.arg
                if isinstance(name, str) and module.function_at(node.lineno) is not None:
                    of_name = self._lines.setdefault(name, {})
                    of_name.setdefault(path, set()).add(node.lineno)

    def of(self, names: Iterable[str]) -> Iterator[tuple[str, set[int]]]:
        """Yield modules and their lines."""
        for name in sorted(names):
            yield from self._lines.get(name, {}).items()


def find_reaching(
    reach: Reach, modules: dict[str, Module], uses: Uses, change: Change, pure: bool
) -> set[Test]:
    """Find the tests that could notice a change."""
    module = modules[change.path]
    lines = module.lines_of(change)
    found = reach.find_tests(change.path, lines, pure)
    if module.function_at(change.line) is not None:
        return found
    names = module.names_at(change.line)
    for path, used in uses.of(names):
        found |= reach.find_tests(path, used, pure)
    return found or reach.find_tests(change.path, module.code_lines, pure)
