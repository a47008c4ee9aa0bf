"""Measure kdump beside its peers, row by row, and write the table of `docs/performance.md`.

    python tools/benchmarks/table.py --data DIRECTORY [--only ROWS] [--write FILE]

Each function in `table_rows.py` is one piece of work: it names kdump's command, what that is
measured against, and the ratio to reach. Both run in turn, round by round; a figure is the median
of processor time, user and system, of whole processes, a ratio that of the rounds' ratios. Where
wall time or memory counts the row says so; wall time means something on an idle machine alone. Why
a row is missed is said under the table (`table_reasons.py`), and what was not measured for want of
a peer. The data is written at the first run and takes 5 GiB.

Beside seconds stand instructions, which do not depend on how busy a machine is: `--count` counts
them with valgrind, forty times slower, and records them in `table_counts.json`; other runs take
them from there. With `--lacking`, what is recorded is not counted again.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import fill

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import per_record  # noqa: E402
from table_bench import Bench, Pair, SkippedError  # noqa: E402
from table_reasons import reason_of  # noqa: E402
from table_rows import ROWS  # noqa: E402

RECORDED = HERE / "table_counts.json"


def processor() -> str:
    """Name the processor, as far as the system says."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), "")


def about(bench: Bench, rounds: int) -> str:
    """Say on what was measured."""
    answer = subprocess.run(
        bench.run("--version"), env=bench.environment, capture_output=True, text=True, check=True
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{answer.stdout.strip()}, Python {platform.python_version()}; {processor()}, "
        f"{os.cpu_count()} processors, {memory:.0f} GiB; files in the page cache; median of "
        f"{rounds} rounds; load average at the start {load}."
    )


def counts() -> dict[str, list[int]]:
    """Read the instructions that were recorded, of kdump and of the other."""
    return json.loads(RECORDED.read_text("utf-8")) if RECORDED.exists() else {}


def record(
    bench: Bench, row: Callable[[Bench], Iterator[Pair]], most_seconds: float, lacking: bool
) -> None:
    """Count the instructions of a row's pairs, and keep them; not of what takes too long."""
    for pair in row(bench):
        if pair.of != "cpu" or pair.peer is None or pair.pure or not pair.counted:
            continue
        if lacking and pair.key in counts():
            continue
        bench.measure(pair, 1)
        if sum(sample.cpu for both in pair.samples for sample in both if sample) > most_seconds:
            continue
        both = bench.count_pair(pair)
        print(f"{pair.key}: {both[0]:,} : {both[1]:,}, {both[0] / both[1]:.2f}", flush=True)
        kept = counts() | {pair.key: both}
        RECORDED.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", "utf-8")


HEAD = """# Performance

How long kdump takes compared with others that do the same work, or with its own best form:
processor seconds, user and system, of whole processes, where nothing else is said; a ratio is
kdump's figure by the other's.
`python tools/benchmarks/table.py --data DIRECTORY --write docs/performance.md` writes this page.

Instructions, in thousands of millions, are those of the same processes, kdump's first, counted by
valgrind: they are the same on a busy machine, but the system's own work, as copying what is read
and written, is not in them. They are not counted of the JVM, of `cp` and `cat`, and of what takes
many seconds; of salvage they are without SHA-256, which valgrind does in another way.
"""

HEADINGS = "| work | kdump | against | ratio | instructions | ratio | to reach | reached |"


def main() -> None:
    """Measure the rows that were asked for, and print or write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, required=True, help="where the data is, or is to be written")
    add("--rounds", type=int, default=3, help="default: %(default)s")
    names = ",".join(row.__name__ for row in ROWS)
    add("--only", default=names, metavar="ROWS", help="of %(default)s")
    add("--dump-log", metavar="COMMAND", help="kafka-dump-log(.sh), to measure it beside kdump")
    add("--rust", metavar="COMMAND", help="a reader in Rust (tools/benchmarks/rust, by cargo)")
    add("--broker", metavar="ADDRESS", help="a broker with a topic `copy` of one partition")
    add("--kdump", metavar="COMMAND", help="an installed kdump instead of this checkout")
    add("--write", type=Path, metavar="FILE", help="write the page there, too")
    add("--count", action="store_true", help="count instructions and record them, and no more")
    add("--lacking", action="store_true", help="count only what is not recorded")
    add("--longest", type=float, default=6.0, metavar="SECONDS", help="counted; %(default)s")
    arguments = parser.parse_args()
    bench = Bench(arguments)
    bench.data.mkdir(parents=True, exist_ok=True)
    page = [HEAD, about(bench, arguments.rounds) + "\n"]
    page += [HEADINGS, "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    skipped, missed, started, recorded = [], [], time.monotonic(), counts()
    for row in ROWS:
        if row.__name__ not in arguments.only.split(","):
            continue
        try:
            if arguments.count:
                record(bench, row, arguments.longest, arguments.lacking)
                continue
            for pair in row(bench):
                bench.measure(pair, arguments.rounds)
                page.append(pair.line(recorded))
                print(page[-1], flush=True)
                if pair.verdict(recorded) in ("no", "by seconds", "by instructions"):
                    why = f"- {pair.work}: {reason_of(pair.work)}"
                    missed.append(fill(why, 100, subsequent_indent="  ", break_on_hyphens=False))
        except SkippedError as why:
            skipped.append(f"- Not measured: {str(row.__doc__).rstrip('.').lower()}; {why}.")
            print(skipped[-1], flush=True)
    page += per_record.lines()
    if missed:
        page += ["", "## Why rows are missed", "", *missed]
    page += ["", *skipped] if skipped else []
    print(f"{(time.monotonic() - started) / 60:.1f} minutes", *missed, sep="\n")
    text = "\n".join(page) + "\n"
    if arguments.write:
        arguments.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
