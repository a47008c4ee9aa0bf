"""Small changes to the code, one at a time, and whether a test fails: the share that is caught.

    python -m mutate.run --data DIR [--count N] [--seed S] [--jobs N] [MODULE ...]

with tools/ in PYTHONPATH. Changes are drawn at random over the lines of the package, as many of
each part as it has lines of code. Each is tried by the tests that reach the line, the nearest and
fastest first, as long as they take together `--cpu` seconds or less: those of a clone, without
oracle, broker or Spark. The pure kernel's lines are tried with KDUMP_PURE=1. What is compiled
(`kdump/kernels/_compiled`) is no part of it. Of `kdump/spark`, lines that only a session of Spark
reaches are counted by themselves.

Works on copies in DIR, so a run that is killed leaves the checkout as it was; DIR keeps the map of
lines and tests and what was tried, and the same command goes on with it. `--again` tries once more
what no test noticed. Each such change is printed on one line; the figures of each part at the end.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from mutate import plan, reach
from mutate.changes import Change, Module, modules
from mutate.reach import Copy, Reach, Uses

PROJECT = Path(__file__).parents[2]
IDLE_SECONDS = 90  # processes that have used no processor for so long wait for each other
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_SPARK = "kdump/spark/"


class Outcome(NamedTuple):
    """What came of a change."""

    outcome: str  # caught, survived, unreached, spark
    by: str  # the test that caught it, or how its process ended
    tests: int
    cpu_seconds: float


def part_of(path: str) -> str:
    """Name the part of the package that a module lies in: of `engine` the folder in it."""
    folders = path.split("/")[:-1]
    return "/".join(folders[: 3 if folders[1:2] == ["engine"] else 2])


def draw_changes(all_modules: dict[str, Module], count: int, seed: int) -> list[Change]:
    """Draw changes: of each part as many as it has lines of code in proportion."""
    rng = random.Random(seed)
    lines: dict[str, list[tuple[str, int]]] = {}
    weights: Counter[str] = Counter()
    for path, module in sorted(all_modules.items()):
        part = part_of(path)
        weights[part] += len(module.code_lines)
        lines.setdefault(part, []).extend((path, line) for line in sorted(module.changes))
    whole = sum(weights.values())
    shares = {part: count * weight / whole for part, weight in weights.items()}
    quota = {part: int(share) for part, share in shares.items()}
    for part in sorted(shares, key=lambda part: quota[part] - shares[part]):
        if sum(quota.values()) < count:
            quota[part] += 1
    chosen = []
    for part, places in sorted(lines.items()):
        rng.shuffle(places)
        chosen += _sound(all_modules, places, quota[part], rng)
    rng.shuffle(chosen)
    return chosen


def _sound(
    all_modules: dict[str, Module], places: list[tuple[str, int]], count: int, rng: random.Random
) -> Iterator[Change]:
    for path, line in places:
        if count <= 0:
            return
        module = all_modules[path]
        kinds: dict[str, list[Change]] = {}
        for change in module.changes[line]:
            kinds.setdefault(change.kind, []).append(change)
        change = rng.choice(kinds[rng.choice(sorted(kinds))])
        if module.is_sound(change):
            count -= 1
            yield change


class Trial:
    """Tries changes in one copy."""

    def __init__(self, copy: Copy) -> None:
        self._copy = copy

    def run(self, module: Module, change: Change | None, rounds: list[plan.Round]) -> Outcome:
        """Run the tests of a change; without one, those tests as they are."""
        target = self._copy.path / module.path
        before = target.stat()
        count, cpu = 0, 0.0
        try:
            if change is not None:
                target.write_bytes(module.apply(change))
            for one in rounds:
                count += len(one.limits)
                by, took = self._round(one)
                cpu += took
                if by:
                    return Outcome("caught", by, count, cpu)
        finally:
            target.write_bytes(module.source)
            os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))
            self._copy.clear()
        return Outcome("survived", "", count, cpu)

    def _round(self, one: plan.Round) -> tuple[str, float]:
        chosen, log = self._copy.data / "tests.json", self._copy.data / "log"
        chosen.write_text(json.dumps({"limits": one.limits, "known": one.known}))
        environment = self._copy.environment(
            one.pure, MUTATE_TESTS=str(chosen), PYTHONDONTWRITEBYTECODE="1"
        )
        with log.open("wb") as out:
            process = reach.start_tests(self._copy, environment, out, "-x", *one.files)
            took = _wait(process)
        if took is None:
            return "it waits for ever", 0.0
        if process.returncode in (0, 5):
            return "", took
        text = log.read_text("utf-8", "replace")
        if process.returncode == 1:
            return " ".join(_FAILED.findall(text)[:1]) or "a test fails", took
        if process.returncode == 4 and "ImportError while loading conftest" in text:
            return "the package cannot be imported", took
        if process.returncode == 2 or process.returncode < 0:
            return f"status {process.returncode}", took
        raise RuntimeError(f"pytest ended with {process.returncode}:\n{text[-3000:]}")


def _wait(process: subprocess.Popen[bytes]) -> float | None:
    """Wait for a process: what it used of the processor; None if for long it used nothing."""
    took = None
    used, since, next_look = -1, time.monotonic(), time.monotonic() + 1
    while time.monotonic() - since < IDLE_SECONDS:
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        if ended:
            process.returncode = os.waitstatus_to_exitcode(status)
            took = usage.ru_utime + usage.ru_stime
            break
        time.sleep(0.05)
        if time.monotonic() > next_look:
            next_look += 1
            now = _session_ticks(process.pid)
            if now != used:
                used, since = now, time.monotonic()
    reach.end_session(process)
    return took


def _session_ticks(session: int) -> int:
    """Sum up what the processes of a session have used of the processor."""
    ticks = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session:
                ticks += sum(map(int, fields[11:15]))
    return ticks


class Campaign:
    """Changes, and what came of those that were tried."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        data: Path = given.data.resolve()
        data.mkdir(parents=True, exist_ok=True)
        self._copies = [Copy(PROJECT, data / f"copy-{job}") for job in range(given.jobs)]
        self.modules = modules(self._copies[0].path)
        self.reach = Reach(data / "reach.sqlite")
        for pure in (False, True):
            self.reach.measure(self._copies, pure)
        for name in self.reach.failed_tests():
            print(f"fails while it is measured, and is not asked: {name}", flush=True)
        wanted = {
            path: module
            for path, module in self.modules.items()
            if not given.modules or any(Path(path).is_relative_to(one) for one in given.modules)
        }
        self.changes = draw_changes(wanted, given.count, given.seed)
        sources = b"".join(module.source for module in self.modules.values())
        digest = hashlib.sha256(sources).hexdigest()
        only = "".join(f"-{Path(one).stem}" for one in given.modules)
        self._file = data / f"tried-{given.seed}-{given.count}{only}-{digest[:12]}.jsonl"
        self._uses = Uses(self.modules)
        self.tried: dict[str, Outcome] = {}
        self._is_over = False
        if self._file.exists():
            for line in self._file.read_text("utf-8").splitlines():
                key, *rest = json.loads(line)
                self.tried[key] = Outcome(*rest)

    def run(self) -> None:
        """Try what was not tried."""
        free = [Trial(copy) for copy in self._copies]
        waiting = [
            change
            for change in self.changes
            if change.key not in self.tried
            or (self._given.again and self.tried[change.key].outcome in ("survived", "unreached"))
        ]
        print(f"{len(waiting)} of {len(self.changes)} changes to try", file=sys.stderr, flush=True)

        def attempt(change: Change) -> None:
            trial = free.pop()
            try:
                outcome = self._attempt(trial, change)
            finally:
                free.append(trial)
            if self._is_over:
                return
            self.tried[change.key] = outcome
            with self._file.open("a", encoding="utf-8") as out:
                out.write(json.dumps([change.key, *outcome]) + "\n")
            if outcome.outcome in ("survived", "unreached"):
                self._show(change, outcome)
            print(
                f"{len(self.tried)}/{len(self.changes)} {change.path}:{change.line} "
                f"{outcome.outcome} {outcome.by} {outcome.cpu_seconds:.1f} s",
                file=sys.stderr, flush=True,
            )  # fmt: skip

        with ThreadPoolExecutor(len(free)) as pool:
            try:
                for _ in pool.map(attempt, waiting):
                    pass
            except KeyboardInterrupt:
                self._is_over = True
                reach.end_all()
                pool.shutdown(cancel_futures=True)

    def _show(self, change: Change, outcome: Outcome) -> None:
        why = "" if outcome.outcome == "survived" else " (no test reaches it)"
        print(f"{self.modules[change.path].diff(change)}  [{change.kind}]{why}", flush=True)

    def _attempt(self, trial: Trial, change: Change) -> Outcome:
        pure = change.path.startswith("kdump/kernels/_pure/")
        found = reach.find_reaching(self.reach, self.modules, self._uses, change, pure)
        if not found:
            kind = "spark" if change.path.startswith(_SPARK) else "unreached"
            return Outcome(kind, "", 0, 0.0)
        rounds = plan.rounds(self.reach, change.path, found, pure, self._given.cpu)
        module = self.modules[change.path]
        outcome = trial.run(module, change, rounds)
        if outcome.by and self._given.control and random.random() < self._given.control:
            alone = trial.run(module, None, rounds)
            if alone.by:
                print(f"fails without any change: {alone.by}", flush=True)
        return outcome

    def report(self) -> None:
        """Print the figures: of each part, and of all."""
        asked: Counter[str] = Counter()
        caught: Counter[str] = Counter()
        spark = 0
        for change in self.changes:
            outcome = self.tried.get(change.key)
            if outcome is not None and outcome.outcome == "spark":
                spark += 1
            elif outcome is not None:
                asked[part_of(change.path)] += 1
                caught[part_of(change.path)] += outcome.outcome == "caught"
        for part in sorted(asked):
            print(
                f"{part:28} {caught[part]:4} of {asked[part]:4}  {caught[part] / asked[part]:5.0%}"
            )
        tried, seen = asked.total(), caught.total()
        print(
            f"seed {self._given.seed}: {seen} of {tried} changes caught "
            f"({seen / max(tried, 1):.1%}); {spark} more need Spark, "
            f"{len(self.changes) - tried - spark} were not tried; "
            f"{sum(one.cpu_seconds for one in self.tried.values()):.0f} s of processor"
        )

    def show_survivors(self) -> None:
        """Print what no test noticed so far."""
        for change in self.changes:
            outcome = self.tried.get(change.key)
            if outcome is not None and outcome.outcome in ("survived", "unreached"):
                self._show(change, outcome)


def main() -> None:
    """Read the options and go."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add: Any = parser.add_argument
    add("--data", type=Path, required=True, help="where copies and results are kept")
    add("--count", type=int, default=400, help="how many changes to try")
    add("--seed", type=int, default=1)
    add("--jobs", type=int, default=2)
    add("--cpu", type=float, default=60, help="processor seconds of the tests of one change")
    add("--again", action="store_true", help="try once more what no test noticed")
    add(
        "--control", type=float, default=0.02, help="share of changes whose tests run unchanged too"
    )
    add("--list", action="store_true", help="only print what was found so far")
    add("modules", nargs="*", help="files or packages")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began = time.monotonic()
    campaign = Campaign(given)
    if given.list:
        campaign.show_survivors()
    else:
        campaign.run()
    campaign.report()
    print(f"{time.monotonic() - began:.0f} s, {given.jobs} processes")


if __name__ == "__main__":
    main()
