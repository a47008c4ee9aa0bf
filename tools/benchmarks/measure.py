"""Run whole processes one after the other, round by round, and compare what they cost.

The figure is processor time, user and system, of the process and all it waited for (wait4). A
ratio is taken inside a round, where both sides saw the same machine, and the median of the rounds
is quoted.
"""

import os
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import IO

SLACK_BYTES = 256


@dataclass(frozen=True)
class Sample:
    """What one run cost."""

    cpu: float
    wall: float
    memory_mib: float  # the largest resident set, mapped pages of files included
    written: int | None  # bytes handed to write(), where the system tells
    status: int


@dataclass
class Command:
    """One thing to measure. The first of a section's references is what it is compared with."""

    label: str
    argv: list[str]
    kind: str = ""  # how check.py reads the output; empty: nothing to check
    piped: bool = False  # timed into a pipe that is read, not into /dev/null
    output: Path | None = None  # where it writes when not to standard output
    failed: str = ""
    checked: Sample | None = None  # the run whose output was read
    samples: list[Sample] = field(default_factory=list)


def _bytes_written(pid: int) -> int | None:
    """Ask Linux what the process, ended but not yet waited for, has written."""
    try:
        text = Path(f"/proc/{pid}/io").read_text()
    except OSError:
        return None
    return next(int(line[7:]) for line in text.splitlines() if line.startswith("wchar: "))


def run(
    command: Command, environment: dict[str, str], output: IO[bytes] | None, errors: IO[bytes]
) -> Sample:
    """Run once, with standard output to a file, a pipe that is emptied, or nowhere."""
    target = output or (subprocess.PIPE if command.piped else subprocess.DEVNULL)
    began = time.perf_counter()
    process = subprocess.Popen(
        command.argv, stdin=subprocess.DEVNULL, stdout=target, stderr=errors, env=environment
    )
    if process.stdout is not None:
        while os.read(process.stdout.fileno(), 1 << 16):
            pass
        process.stdout.close()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    written = _bytes_written(process.pid)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    return Sample(
        cpu=usage.ru_utime + usage.ru_stime,
        wall=wall,
        memory_mib=usage.ru_maxrss / 1024,
        written=written,
        status=process.returncode,
    )


def _as_much(one: Sample, other: Sample) -> bool:
    """Compare what two runs wrote; seconds on standard error may differ in length."""
    if one.written is None or other.written is None:
        return True
    return abs(one.written - other.written) <= SLACK_BYTES


def rounds(commands: list[Command], count: int, environment: dict[str, str]) -> None:
    """Run every command that still works once a round; one that fails is out."""
    with Path(os.devnull).open("wb") as errors:
        for _ in range(count):
            for command in commands:
                if command.failed:
                    continue
                sample = run(command, environment, None, errors)
                before = command.checked or sample
                if sample.status != 0:
                    command.failed = f"status {sample.status}"
                elif not _as_much(sample, before):
                    command.failed = f"wrote {before.written} bytes, then {sample.written}"
                command.samples.append(sample)


def cpu(command: Command) -> list[float]:
    """Return the processor seconds of each round."""
    return [sample.cpu for sample in command.samples]


def ratio(one: list[float], other: list[float]) -> float | None:
    """Return the median over the rounds of one's cost in units of the other's."""
    pairs = [a / b for a, b in zip(one, other, strict=False) if b > 0]
    return median(pairs) if pairs else None


def table(heads: list[str], rows: list[list[str]]) -> str:
    """Lay out text: the first column to the left, figures to the right."""
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(len(heads))]
    lines = [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [heads, ["-" * width for width in widths], *rows]
    ]
    return "\n".join(lines)


def figure(value: float | None) -> str:
    """Three digits that count."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def report(commands: list[Command], references: list[str], slower: list[str]) -> str:
    """Show one section: each cost, in units of each reference, and how often it fits in `slower`.

    The memory of a process is shown as no less than that of the one which started it.
    """
    known = {command.label: command for command in commands}
    compared = [known[label] for label in references if label in known and cpu(known[label])]
    beaten = [known[label] for label in slower if label in known and cpu(known[label])]
    heads = ["", "CPU ms", "min", "wall ms", "MiB", "written"]
    heads += [f"/ {reference.label}" for reference in compared]
    heads += [f"{reference.label} /" for reference in beaten]
    rows = []
    for command in commands:
        if command.failed or not command.samples:
            continue
        times = cpu(command)
        written = command.samples[0].written
        row = [
            command.label,
            f"{1000 * median(times):.1f}",
            f"{1000 * min(times):.1f}",
            f"{1000 * median(sample.wall for sample in command.samples):.1f}",
            f"{max(sample.memory_mib for sample in command.samples):.0f}",
            "-" if written is None else f"{written:,}",
        ]
        row += [figure(ratio(times, cpu(reference))) for reference in compared]
        row += [figure(ratio(cpu(reference), times)) for reference in beaten]
        rows.append(row)
    lines = [table(heads, rows)] if rows else []
    lines += [
        f"{command.label}: FAILED, {command.failed}" for command in commands if command.failed
    ]
    return "\n".join(lines)
