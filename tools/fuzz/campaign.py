"""A campaign: inputs by the thousand in worker processes, so that a crash names its input.

    python -m fuzz.campaign --seed 7 --count 100000 --jobs 2      (in tools/)
    python -m fuzz.campaign --seed 7 --only 4711 --keep DIRECTORY

A worker that dies, of a segmentation fault or of memory, or that hangs, is replaced by one that
goes on behind the input it died of. What was too slow or too large is judged once more in a
process of its own, since the machine may have been busy and memory may have been in pieces.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import pickle
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fuzz import cases
from fuzz.check import SANITIZED
from fuzz.seeds import Seeds, all_seeds

HANG_SECONDS = 300
#: All of a worker's address space: what runs away ends as a MemoryError, not as a dead machine.
ADDRESS_SPACE = 8 << 30
TWINS_EVERY = 6  # the pure kernel is many times slower
TWINS_BYTES = 24 << 10
TOOLS = Path(__file__).parents[1]
SUPPORT = TOOLS.parent / "tests/support"


class Task(NamedTuple):
    """What one worker is to do: numbers of random inputs, or names of traps, or the bombs."""

    kind: str  # random, traps, bombs, regressions
    seed: int
    numbers: list[int]
    trap_bytes: int = cases.TRAP_BYTES
    every_form: bool = True  # of each trap


class Outcome(NamedTuple):
    """What came of a campaign."""

    count: int
    seconds: float
    failures: list[dict[str, Any]]
    slowest: list[list[Any]]
    largest: list[list[Any]]


def cases_of(task: Task, seeds: Seeds) -> Iterator[tuple[int, cases.Case]]:
    """Make the inputs of a task."""
    if task.kind == "random":
        for number in task.numbers:
            yield number, cases.make(seeds, task.seed, number)
        return
    if task.kind == "traps":
        names = sorted(cases.TRAPS)
        for number in task.numbers:
            yield (
                number,
                cases.trap_case(names[number], task.trap_bytes, number, every_form=task.every_form),
            )
        return
    for case in cases.bomb_cases() if task.kind == "bombs" else cases.regression_cases():
        if case.number in task.numbers:
            yield case.number, case


# The worker --------------------------------------------------------------------------------------


def work(directory: Path) -> None:
    """Do the task that lies in a directory; lines of JSON on standard output are the report."""
    faulthandler.enable()
    if not SANITIZED:  # the sanitizers' map of memory is larger
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    fields, seeds = pickle.loads((directory / "task").read_bytes())
    task = Task(*fields)
    from fuzz.check import Checker

    root = directory / "data"
    root.mkdir(exist_ok=True)
    checker = Checker(root)
    checker.warm_up([cases.make(seeds, 0, number) for number in range(25)])
    state = os.open(directory / "state", os.O_WRONLY | os.O_CREAT)
    done = 0
    for number, case in cases_of(task, seeds):
        os.pwrite(state, b"%-20d" % number, 0)
        faulthandler.dump_traceback_later(HANG_SECONDS * (20 if SANITIZED else 1), exit=True)
        twins = task.kind == "random" and (
            number % TWINS_EVERY == 0 and case.size_bytes <= TWINS_BYTES and case.family != "bomb"
        )
        twins = twins or (task.kind == "regressions" and "bomb" not in case.family)
        failures = checker.check(case, twins=twins)
        faulthandler.cancel_dump_traceback_later()
        done += 1
        for failure in failures:
            _say({"failure": failure._asdict() | {"task": task.kind, "seed": task.seed}})
    os.pwrite(state, b"%-20d" % -1, 0)
    slowest = [list(one) for one in checker.slowest(10)]
    largest = [list(one) for one in checker.largest(10)]
    _say({"done": done, "slowest": slowest, "largest": largest})


def _say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line, default=str) + "\n")
    sys.stdout.flush()


# The parent --------------------------------------------------------------------------------------


class Worker:
    """One worker process and what it has said."""

    def __init__(self, task: Task, seeds: Seeds) -> None:
        self.task = task
        self._seeds = seeds
        self._directory = tempfile.TemporaryDirectory(prefix="kdump-fuzz-")
        self.directory = Path(self._directory.name)
        (self.directory / "task").write_bytes(pickle.dumps((tuple(task), seeds)))
        self._out = (self.directory / "out").open("wb")
        self._errors = (self.directory / "errors").open("wb")
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(
                filter(None, (str(TOOLS), str(SUPPORT), os.environ.get("PYTHONPATH")))
            )
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fuzz.campaign", "--work", str(self.directory)],
            stdout=self._out,
            stderr=self._errors,
            env=environment,
        )

    def wait(self) -> tuple[list[dict[str, Any]], Task | None]:
        """Wait for its end: what it said, and what is left to do if it died."""
        status = self.process.wait()
        self._out.close()
        self._errors.close()
        said = [json.loads(line) for line in (self.directory / "out").read_bytes().splitlines()]
        rest = None
        if not said or "done" not in said[-1]:
            state = self.directory / "state"
            number = int(state.read_bytes() or b"-1") if state.exists() else -1
            errors = (self.directory / "errors").read_text("utf-8", "replace")[-6000:]
            if number < 0:
                raise RuntimeError(f"a worker ended with status {status}:\n{errors}")
            said.append(
                {
                    "failure": {
                        "number": number, "family": "", "kind": "crash", "task": self.task.kind,
                        "seed": self.task.seed, "where": f"status {status}", "detail": errors,
                    }
                }
            )  # fmt: skip
            left = self.task.numbers[self.task.numbers.index(number) + 1 :]
            rest = self.task._replace(numbers=left) if left else None
        self._directory.cleanup()
        return said, rest


def run(tasks: list[Task], seeds: Seeds, jobs: int) -> Outcome:
    """Do all tasks, `jobs` at a time; judge what was slow or large a second time."""
    started = time.monotonic()
    failures: list[dict[str, Any]] = []
    slowest: list[list[Any]] = []
    largest: list[list[Any]] = []
    waiting = [task for task in tasks if task.numbers]
    count = sum(len(task.numbers) for task in waiting)
    while waiting:
        workers = [Worker(task, seeds) for task in waiting[:jobs]]
        del waiting[:jobs]
        for worker in workers:
            said, rest = worker.wait()
            if rest is not None:
                waiting.append(rest)
            for line in said:
                slowest += line.get("slowest", [])
                largest += line.get("largest", [])
                if "failure" in line:
                    failures.append(line["failure"])
    failures = [failure for failure in failures if _holds(failure, seeds, tasks[0].trap_bytes)]
    slowest.sort(key=lambda one: -one[0] / one[1])
    largest.sort(key=lambda one: -one[2])
    return Outcome(count, time.monotonic() - started, failures, slowest[:10], largest[:10])


def _holds(failure: dict[str, Any], seeds: Seeds, trap_bytes: int) -> bool:
    """Say whether a failure shows again in a process of its own; only measures may be chance."""
    if failure["kind"] not in ("slow", "memory"):
        return True
    task = Task(failure["task"], failure["seed"], [failure["number"]], trap_bytes)
    said, _ = Worker(task, seeds).wait()
    return any("failure" in line for line in said)


def shares(kind: str, seed: int, numbers: range, jobs: int, trap_bytes: int) -> list[Task]:
    """Divide numbers among workers."""
    tasks = [Task(kind, seed, list(numbers[job::jobs]), trap_bytes) for job in range(jobs)]
    return [task for task in tasks if task.numbers]


def keep(failure: dict[str, Any], seeds: Seeds, directory: Path) -> Path:
    """Write the files of a failed input to a directory."""
    task = Task(failure["task"], failure["seed"], [failure["number"]])
    for _, case in cases_of(task, seeds):
        at = directory / f"{task.kind}-{task.seed}-{case.number}"
        for path, data in case.files.items():
            file = at / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        (at / "about").write_text(
            f"{case.target}\n{failure['kind']}: {failure['where']}\n{failure['detail']}\n"
        )
        return at
    raise LookupError(failure)


def report(failures: list[dict[str, Any]]) -> Iterator[str]:
    """Yield lines about failures, each kind once; the first of a kind in full."""
    alike: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for failure in failures:
        places = re.findall(r'File ".*?/(kdump/[^"]+)", line (\d+)', failure["detail"])
        first = ":".join(places[-1]) if places else failure["family"]
        last = failure["detail"].strip().rpartition("\n")[2][:60] if places else ""
        alike.setdefault((failure["kind"], first, last), []).append(failure)
    for same in alike.values():
        one = same[0]
        numbers = ", ".join(str(failure["number"]) for failure in same[:8])
        yield f"{len(same)} x {one['kind']}: {one['task']} {numbers} ({one['family']})"
        yield f"{one['where']}\n{one['detail']}\n"


def main() -> None:
    """Run a campaign from a shell."""
    parser = argparse.ArgumentParser(description="random damage for every reader of kdump")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="the first number")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", type=int, action="append", help="this number alone")
    kinds = ("random", "traps", "bombs", "regressions")
    parser.add_argument("--kind", choices=kinds, default="random")
    parser.add_argument("--trap", action="append", help="this trap alone")
    parser.add_argument("--trap-bytes", type=int, default=cases.TRAP_BYTES)
    parser.add_argument("--corpora", action="store_true", help="seeds from KDUMP_SHARED too")
    parser.add_argument("--keep", type=Path, help="where to write inputs that fail")
    given = parser.parse_args()
    if given.work:
        work(given.work)
        return
    seeds = all_seeds(with_corpora=given.corpora)
    if given.kind == "traps":
        names = sorted(cases.TRAPS)
        numbers = [n for n, name in enumerate(names) if not given.trap or name in given.trap]
    elif given.kind == "bombs":
        numbers = given.only or [case.number for case in cases.bomb_cases()]
    elif given.kind == "regressions":
        numbers = given.only or [case.number for case in cases.regression_cases()]
    else:
        numbers = given.only or list(range(given.start, given.start + given.count))
    tasks = [
        Task(given.kind, given.seed, numbers[job :: given.jobs], given.trap_bytes)
        for job in range(given.jobs)
    ]
    outcome = run(tasks, seeds, given.jobs)
    for line in report(outcome.failures):
        print(line)
    for failure in outcome.failures if given.keep else ():
        print(f"kept in {keep(failure, seeds, given.keep)}")
    for word, rows in (("slowest", outcome.slowest), ("largest", outcome.largest)):
        print(word)
        for seconds, allowed, peak, where in rows:
            print(f"    {seconds:8.3f} s of {allowed:6.1f}  {peak / 2**20:7.1f} MiB  {where}")
    print(
        f"seed {given.seed}, {outcome.count} inputs in {outcome.seconds:.0f} s, "
        f"{len(outcome.failures)} failures"
    )
    raise SystemExit(bool(outcome.failures))


if __name__ == "__main__":
    main()
