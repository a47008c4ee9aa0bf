"""What a row of the performance table is made of: two commands, and where their data is."""

import argparse
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))

from generate import load  # noqa: E402
from measure import Command, Sample, run  # noqa: E402
from table_peers import PEERS  # noqa: E402

ENTRY = "from kdump.cli import main; main()"


class SkippedError(Exception):
    """A peer that this machine has not, or that fails."""


@dataclass
class Pair:
    """Two commands to be held against each other, and the ratio to reach, where one was set.

    `of` is "cpu", "wall" or "memory"; of memory `most` is in MiB, and no peer counts. Instructions
    say nothing of a peer that leaves its work to the system, nor of one that compiles itself.
    `counted_as` is counted in place of ours: the same without what valgrind does in another way
    than the processor.
    """

    work: str
    ours: list[str]
    against: str
    peer: list[str] | None
    most: float | None
    of: str = "cpu"
    pure: bool = False
    counted: bool = True
    counted_as: list[str] | None = None
    samples: list[tuple[Sample, Sample | None]] = field(default_factory=list)

    def figures(self) -> tuple[float, float | None, float]:
        """Give ours, the peer's, and the ratio; of memory the most, and no peer's."""
        if self.of == "memory":
            most = max(ours.memory_mib for ours, _ in self.samples)
            return most, None, most
        seconds = [(getattr(ours, self.of), getattr(peer, self.of)) for ours, peer in self.samples]
        ours, peers = zip(*seconds, strict=True)
        return median(ours), median(peers), median(mine / other for mine, other in seconds)

    @property
    def key(self) -> str:
        """Name the pair in the file of instructions."""
        return f"{self.work} / {self.against}"

    def verdict(self, counts: dict[str, list[int]]) -> str:
        """Say whether the ratio is reached: by seconds, by instructions, or by both."""
        if self.most is None:
            return ""
        seconds = self.figures()[2] <= self.most
        ours, peer = counts.get(self.key, (seconds, 1))
        counted = ours / peer <= self.most if self.key in counts else seconds
        if seconds == counted:
            return "yes" if seconds else "no"
        return "by seconds" if seconds else "by instructions"

    def line(self, counts: dict[str, list[int]]) -> str:
        """Write one line of the table."""
        ours, peer, ratio = self.figures()
        reached = self.verdict(counts)
        if peer is None:
            return f"| {self.work} | {ours:.0f} MiB | | | | | < {self.most:.0f} MiB | {reached} |"
        seconds = " s wall" if self.of == "wall" else " s"
        shown = f"{ours:.2f}{seconds} | {self.against} {peer:.2f}{seconds} | {ratio:.2f}"
        many = " | "
        if self.of == "cpu" and self.key in counts:
            mine, theirs = counts[self.key]
            many = f"{mine / 1e9:.2f} : {theirs / 1e9:.2f} | {mine / theirs:.2f}"
        most = "" if self.most is None else f"≤ {self.most:.2g}"
        return f"| {self.work} | {shown} | {many} | {most} | {reached} |"


class Bench:
    """Where the data is, how kdump is started, and which peers were named."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.data: Path = arguments.data.resolve()
        self.kdump = shlex.split(arguments.kdump or "") or [sys.executable, "-c", ENTRY]
        self._dump_log: str | None = arguments.dump_log
        self._rust: str | None = arguments.rust
        self._broker: str | None = arguments.broker
        self._counted: dict[tuple[str, ...], int] = {}
        self._measured: dict[tuple[tuple[str, ...], ...], list[tuple[Sample, Sample | None]]] = {}
        self.environment = dict(os.environ)
        # Compiled modules are kept, as they are where kdump is installed.
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self.environment.pop("KDUMP_PURE", None)
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.environment["PYTHONPATH"] = os.pathsep.join(paths)

    def case(self, name: str) -> str:
        """Name a segment of `generate.py`."""
        self._write("generate.py", "--cases", name)
        return str(self.data / load(self.data)[name].path)

    def directory(self, name: str) -> str:
        """Name a directory of `table_data.py`."""
        self._write("table_data.py", name)
        return str(self.data / name)

    def _write(self, script: str, *words: str) -> None:
        """Write what is missing, in another process: memory of this one counts for its children."""
        argv = [sys.executable, str(HERE / script), str(self.data), *words]
        subprocess.run(argv, check=True)

    def run(self, *words: str) -> list[str]:
        """Make a command of kdump."""
        return [*self.kdump, *words]

    def shell(self, line: str, *words: str) -> list[str]:
        """Make a command of a line of sh, in which `kdump` is kdump."""
        kdump = shlex.join(self.kdump)
        return ["sh", "-c", f'kdump() {{ {kdump} "$@"; }}; {line}', "sh", *words]

    def python(self, text: str, *words: str) -> list[str]:
        """Make a command of a few lines of Python."""
        return [sys.executable, "-c", text, *words]

    def peer(self, name: str, *words: str) -> list[str]:
        """Make a command of a peer in `table_data.PEERS`, which needs packages."""
        needs, text = PEERS[name]
        for package in needs:
            if find_spec(package) is None:
                raise SkippedError(f"{package} is not installed")
        return self.python(text, *words)

    def dump_log(self, *words: str) -> list[str]:
        """Make a command of the broker's dump tool."""
        if not self._dump_log:
            raise SkippedError("no kafka-dump-log was named (--dump-log)")
        return [*shlex.split(self._dump_log), *words]

    def rust(self, path: str) -> list[str]:
        """Make a command of a reader in Rust."""
        if not self._rust:
            raise SkippedError("no reader in Rust was named (--rust)")
        return [*shlex.split(self._rust), path]

    def broker(self) -> str:
        """Give the address of a broker."""
        if not self._broker:
            raise SkippedError("no broker was named (--broker)")
        return self._broker

    def count_pair(self, pair: Pair) -> list[int]:
        """Count the instructions of both commands."""
        assert pair.peer is not None
        return [self.count(pair.counted_as or pair.ours), self.count(pair.peer)]

    def count(self, words: list[str]) -> int:
        """Count the instructions of a command and of what it starts, when modules are compiled.

        What was counted before is taken.
        """
        if tuple(words) in self._counted:
            return self._counted[tuple(words)]
        subprocess.run(words, env=self.environment, capture_output=True, check=False)
        tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
        environment = self.environment | {"PYTHONHASHSEED": "0"}
        done = subprocess.run(
            [*tool, "--trace-children=yes", *words],
            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False,
        )  # fmt: skip
        found = re.findall(rb"Collected : (\d+)", done.stderr)
        if not found:
            raise SystemExit(f"{shlex.join(words)}: valgrind counted nothing")
        self._counted[tuple(words)] = sum(map(int, found))
        return self._counted[tuple(words)]

    def measure(self, pair: Pair, rounds: int) -> None:
        """Run both in turn; the first round warms up. What was measured so before is taken."""
        key = tuple(pair.ours), tuple(pair.peer or ()), (str(pair.pure),)
        if key in self._measured:
            pair.samples = self._measured[key]
            return
        self._measured[key] = pair.samples
        environment = self.environment | ({"KDUMP_PURE": "1"} if pair.pure else {})
        with Path(os.devnull).open("wb") as errors:
            for number in range(rounds + 1):
                mine = run(Command("", pair.ours), environment, None, errors)
                theirs = pair.peer and run(Command("", pair.peer), environment, None, errors)
                if mine.status not in (0, 3):
                    raise SystemExit(f"{pair.work}: status {mine.status}")
                if theirs and theirs.status not in (0, 3):
                    raise SkippedError(f"{pair.work}: {pair.against} has status {theirs.status}")
                if number:
                    pair.samples.append((mine, theirs or None))
