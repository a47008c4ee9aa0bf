"""Small changes to the code, one at a time, and whether a test fails: the share that is caught.

    python tools/mutate/run.py --data DIR [--sample N] [--seed S] [MODULE ...]

Works on a copy of kdump/ and tests/ in DIR, so a run that is killed leaves the checkout as it was.
The changes are cosmic-ray's, statements removed and arguments swapped; one change a place is tried.
The tests of a module are those named as it is, and where these see nothing those that TESTS gives
it: none needs a broker or Spark. A change that no test notices is printed as a diff, and is to be
judged: either a test is missing, or the code is not needed, or nothing that is seen has changed.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cosmic_ray.plugins
from cosmic_ray.commands import init
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.operators.operator import Example, Operator
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec, TestOutcome, WorkerOutcome, WorkResult
from parso.python.tree import Keyword

if TYPE_CHECKING:
    from parso.tree import NodeOrLeaf

PROJECT = Path(__file__).parents[2]
DAMAGED = "tests/engine/reading"
WRITERS = "tests/engine/reindex"
CHECKS = "tests/engine/checks tests/engine/verify/test_partition.py"
MAKERS = "tests/engine/predict/test_recovery.py tests/engine/reindex/test_run.py"
LOOKUPS = (
    "tests/engine/find tests/broker/test_lookup.py tests/broker/test_lookup_reading.py"
    " tests/broker/test_lookup_search.py tests/broker/test_lookup_unclean.py"
)
PRODUCERS = (
    "tests/broker/test_producer_state.py tests/engine/sequences/test_run.py"
    " tests/engine/checks/test_producers.py tests/engine/checks/test_transaction_index.py"
    " tests/engine/checks/test_transaction_entries.py"
    " tests/engine/checks/test_transactions.py"
)
# The tests of a module, besides those named as it is: the entry with the longest part of its path.
TESTS = {
    "kdump/writing.py": f"{WRITERS} tests/output/test_target.py",
    "kdump/messages": "tests/messages",
    "kdump/replay": "tests/replay tests/engine/groups tests/engine/transactions",
    "kdump/engine/groups": "tests/engine/groups tests/cli/test_groups.py",
    "kdump/engine/transactions": "tests/engine/transactions tests/cli/test_transactions.py",
    "kdump/engine/coordinators": "tests/engine/groups tests/engine/transactions",
    "kdump/output/decoded.py": "tests/output/test_decoded.py",
    "kdump/engine/reindex": WRITERS,
    "kdump/engine/checks": CHECKS,
    "kdump/engine/checks/framing.py": f"{CHECKS} tests/engine/reading/test_reserved_bits.py",
    "kdump/storage": "tests/storage",
    "kdump/storage/after_damage.py": f"tests/storage {DAMAGED}",
    "kdump/storage/believed.py": f"tests/storage {DAMAGED}",
    "kdump/storage/file_records.py": f"tests/storage {DAMAGED}",
    "kdump/storage/offsets.py": f"tests/storage {DAMAGED}",
    "kdump/storage/time_index.py": "tests/storage tests/engine/checks/test_time_index.py",
    "kdump/broker": f"tests/broker/test_segment.py {MAKERS} {LOOKUPS}",
    "kdump/broker/index_search.py": f"{LOOKUPS} tests/engine/checks/test_offset_index.py",
    "kdump/broker/producer_state.py": f"{PRODUCERS} {MAKERS}",
    "kdump/broker/producer_events.py": f"{PRODUCERS} {MAKERS}",
    "kdump/broker/control_batch.py": f"{PRODUCERS} {MAKERS}",
    "kdump/broker/recovered_producers.py": f"tests/broker/test_segment.py {MAKERS}",
    "kdump/broker/visibility.py": (
        f"tests/broker/test_visibility_dump.py {LOOKUPS} tests/engine/advice/test_served.py"
    ),
}
MODULES = ("kdump/writing.py", "kdump/engine/reindex/replace.py", "kdump/storage",
           "kdump/broker", "kdump/engine/checks")  # fmt: skip
_MARKS = "not oracle and not spark and not broker"
# Files of a tebibyte that are a hole: on some file systems it takes a minute to look at them.
_SLOW = "tests/storage/test_sparse.py::test_a_tebibyte_takes_no_time"
PYTEST = (sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", _MARKS,
          "--deselect", _SLOW)  # fmt: skip
_NONE_RAN = re.compile(r"^(no tests ran|\d+ deselected) in ", re.MULTILINE)
TIMEOUT = 120  # seconds; a change that makes a loop endless counts as caught


class RemoveStatement(Operator):
    """Puts `pass` in the place of an assignment, a call or a raise."""

    KINDS = frozenset(("expr_stmt", "raise_stmt", "atom_expr", "del_stmt"))

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[tuple[Any, Any]]:
        """Yield the place of a whole statement that can go."""
        inside = node.parent is not None and node.parent.type == "simple_stmt"
        if inside and node.type in self.KINDS:
            yield node.start_pos, node.end_pos

    def mutate(self, node: NodeOrLeaf, index: int) -> NodeOrLeaf:
        """Return what stands there instead."""
        return Keyword("pass", node.start_pos, prefix=node.get_first_leaf().prefix)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Show one."""
        return (Example("a = f()", "pass"),)


class SwapArguments(Operator):
    """Swaps two arguments of a call that stand side by side and have no names."""

    SYMMETRIC = frozenset(("max", "min"))  # to these the order is all one

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[tuple[Any, Any]]:
        """Yield the place of each such pair."""
        for first, second in self._pairs(node):
            yield first.start_pos, second.end_pos

    def mutate(self, node: NodeOrLeaf, index: int) -> NodeOrLeaf:
        """Return the call with the two swapped."""
        first, second = [*self._pairs(node)][index]
        one, other = node.children.index(first), node.children.index(second)
        node.children[one], node.children[other] = second, first
        return node

    def _pairs(self, node: NodeOrLeaf) -> Iterator[tuple[NodeOrLeaf, NodeOrLeaf]]:
        called = node.parent and node.parent.get_previous_leaf()
        if node.type == "arglist" and not (called and called.value in self.SYMMETRIC):
            given = [child for child in node.children[::2] if child.type != "argument"]
            yield from pairwise(given)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Show one."""
        return (Example("f(a, b)", "f(b,a)"),)


OPERATORS: Mapping[str, type[Operator]] = {
    "RemoveStatement": RemoveStatement,
    "SwapArguments": SwapArguments,
}


def copied(data: Path) -> Path:
    """Copy what the tests need."""
    copy = data / "kdump-mutated"
    shutil.rmtree(copy, ignore_errors=True)
    skipped = shutil.ignore_patterns("__pycache__", "_fast.c")
    for name in ("kdump", "tests", "tools", "sample-data", "man", "docs"):
        shutil.copytree(PROJECT / name, copy / name, ignore=skipped)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy2(PROJECT / name, copy / name)
    return copy


def tests_of(module: Path) -> list[list[str]]:
    """Name the tests of a module: first those named as it is, then those that TESTS gives it."""
    name = f"test_{module.stem}.py"
    same_room = Path("tests", *module.parts[1:-1], name)
    own = [same_room] if same_room.exists() else sorted(Path("tests").rglob(name))
    known = [part for part in TESTS if module.is_relative_to(part)]
    rest = TESTS[max(known, key=len)].split()
    first = [str(path) for path in own if path.parts[1] != "spark"]
    return [tests for tests in (first, rest) if tests]


def modules_in(wanted: list[str]) -> list[Path]:
    """List the files of modules and packages."""
    found = []
    for name in wanted:
        path = Path(name)
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return found


def unseen_lines(tree: ast.AST) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield where no change can be seen: annotations, which nobody evaluates, and `__all__`."""
    for node in ast.walk(tree):
        parts = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            parts.append(node)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            parts.append(node)
        for part in parts:
            if part is not None:
                end = part.end_lineno, part.end_col_offset
                yield (part.lineno, part.col_offset), end


def one_a_place(items: WorkDB, rng: random.Random) -> list[MutationSpec]:
    """Choose one change of each place, in any order."""
    places: dict[tuple[Path, tuple[int, ...]], list[MutationSpec]] = {}
    unseen: dict[Path, list[tuple[tuple[int, int], tuple[int, int]]]] = {}
    for item in items.work_items:
        (change,) = item.mutations
        path = change.module_path
        if path not in unseen:
            unseen[path] = [*unseen_lines(ast.parse(path.read_text("utf-8")))]
        start = tuple(change.start_pos)
        if not any(low <= start < high for low, high in unseen[path]):
            places.setdefault((path, start), []).append(change)
    chosen = [
        rng.choice(sorted(changes, key=lambda change: (change.operator_name, change.occurrence)))
        for _, changes in sorted(places.items())
    ]
    rng.shuffle(chosen)
    return chosen


def run(changes: list[MutationSpec]) -> tuple[int, int]:
    """Try each change; print those that no test sees, and return (caught, tried)."""
    caught = tried = 0
    for number, change in enumerate(changes, 1):
        print(f"{number}/{len(changes)}: {change.module_path}", file=sys.stderr, flush=True)
        result = attempt(change)
        if result.worker_outcome != WorkerOutcome.NORMAL:
            print(f"not tried: {change}\n{result.output}", flush=True)
            continue
        tried += 1
        caught += result.test_outcome == TestOutcome.KILLED
        if result.test_outcome != TestOutcome.KILLED:
            print(result.diff, flush=True)
    return caught, tried


def attempt(change: MutationSpec) -> WorkResult:
    """Run the tests of a module that is changed; most changes are caught by the first of them."""
    for tests in tests_of(change.module_path):
        result = mutate_and_test([change], shlex.join([*PYTEST, *tests]), TIMEOUT)
        if result.test_outcome != TestOutcome.SURVIVED and not _NONE_RAN.search(
            result.output or ""
        ):
            break
    return result


def main() -> None:
    """Read the options and go."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="where the copy is made")
    parser.add_argument("--sample", type=int, help="how many changes to try (all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("modules", nargs="*", default=MODULES, help="files or packages")
    options = parser.parse_args()

    data = options.data.resolve()
    copy = copied(data)
    os.chdir(copy)
    os.environ["PYTHONPATH"] = str(copy)  # before the checkout that is installed
    os.environ.pop("KDUMP_SHARED", None)
    os.environ["KDUMP_FUZZ_COUNT"] = "20"
    cosmic_ray.plugins.OPERATOR_PROVIDERS["kdump"] = OPERATORS
    modules = modules_in(list(options.modules))
    every = sorted({test for module in modules for tests in tests_of(module) for test in tests})
    sound = subprocess.run([*PYTEST, *every], check=False, stdout=subprocess.PIPE, text=True)
    if sound.returncode:
        sys.exit(f"{sound.stdout}\nthe tests fail without any change")
    with use_db(str(data / "changes.sqlite")) as items:
        init(modules, items, {})
        changes = one_a_place(items, random.Random(options.seed))
    caught, tried = run(changes[: options.sample])
    print(f"{caught} of {tried} changes caught ({caught / max(tried, 1):.0%}), of {len(changes)}")


if __name__ == "__main__":
    main()
