"""Measure kdump beside its peers, row by row, and write the table of `docs/performance.md`.

    python tools/benchmarks/table.py --data DIRECTORY [--only TEXT] [--write FILE]

Each function under ROWS is one piece of work: it names kdump's command, what that is measured
against, and the ratio to reach. Both run in turn, round by round; a figure is the median of
processor time, user and system, of whole processes, a ratio that of the rounds' ratios. Where wall
time or memory counts the row says so; wall time means something on an idle machine alone. Why a row
is missed is said under the table (REASONS), and what was not measured for want of a peer. The data
is written at the first run and takes 4 GiB.

Beside seconds stand instructions, which do not depend on how busy a machine is: `--count` counts
them with valgrind, forty times slower, and records them in `table_counts.json`; other runs take
them from there.
"""

import argparse
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from textwrap import fill

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))

from generate import START_MS, load  # noqa: E402
from measure import Command, Sample, run  # noqa: E402
from table_data import PEERS  # noqa: E402

ENTRY = "from kdump.cli import main; main()"
RECORDED = HERE / "table_counts.json"


class SkippedError(Exception):
    """A peer that this machine has not, or that fails."""


@dataclass
class Pair:
    """Two commands to be held against each other, and the ratio to reach, where one was set.

    `of` is "cpu", "wall" or "memory"; of memory `most` is in MiB, and no peer counts. Instructions
    say nothing of a peer that leaves its work to the system, nor of one that compiles itself.
    """

    work: str
    ours: list[str]
    against: str
    peer: list[str] | None
    most: float | None
    of: str = "cpu"
    pure: bool = False
    counted: bool = True
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

    def count(self, words: list[str]) -> int:
        """Count the instructions of a command and of what it starts, when modules are compiled."""
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
        return sum(map(int, found))

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


def of_records(bench: Bench) -> Iterator[Pair]:
    """Each record as a line of text."""
    path = bench.case("v2none")
    floor, looped = "loop of Python over the records", bench.peer("values", path)
    for form, most in (("jsonl", 1.0), ("csv", 1.5), ("table", 1.5), ("kafka", 1.0)):
        ours = bench.run("dump", "--format", form, path)
        yield Pair(f"dump --format {form}, 256 MiB", ours, floor, looped, most)
    ours = bench.run("dump", "--key", "000000000001", path)
    yield Pair("dump --key, 256 MiB", ours, floor, looped, 0.5)


def kafka_text(bench: Bench) -> Iterator[Pair]:
    """The broker's dump tool."""
    path, against = bench.case("v2none"), "kafka-dump-log"
    ours = bench.run("dump", "--format", "kafka", path)
    tool = bench.dump_log("--print-data-log", "--files", path)
    yield Pair("dump --format kafka, 256 MiB", ours, against, tool, 1 / 15, counted=False)
    shallow = bench.dump_log("--files", path)
    yield Pair("verify, 256 MiB", bench.run("verify", path), against, shallow, 0.1, counted=False)


def copied(bench: Bench) -> Iterator[Pair]:
    """What reads everything, and writes a copy."""
    path, out = bench.directory("copies"), str(bench.data / "out")
    one = f"{path}/1"
    files = bench.shell('cat "$1"/*/*.log >/dev/null', one)
    yield Pair("verify, 256 MiB", bench.run("verify", one), "cat", files, None, counted=False)
    ours = bench.shell('rm -rf "$2"; kdump salvage --out "$2" "$1"', one, out)
    peer = bench.shell('rm -rf "$2"; cp -r "$1" "$2"', one, out)
    yield Pair("salvage --out, 256 MiB", ours, "cp -r", peer, None, counted=False)


def arrow(bench: Bench) -> Iterator[Pair]:
    """Arrow and Parquet."""
    path, made = bench.case("v2none"), bench.data / "made.arrow"
    bench.peer("arrow")
    if not made.exists():
        argv = bench.run("dump", "--format", "arrow", "--output", str(made), path)
        subprocess.run(argv, env=bench.environment, check=True)
    for form, most in (("arrow", 1.3), ("parquet", 1.15)):
        target = str(bench.data / f"out.{form}")
        ours = bench.shell(
            'rm -f "$2"; kdump dump --format "$3" --output "$2" "$1"', path, target, form
        )
        peer = bench.peer(form, str(made), target)
        yield Pair(f"dump --format {form}", ours, "bare pyarrow writer", peer, most)


def search(bench: Bench) -> Iterator[Pair]:
    """Filters by content."""
    path = bench.case("v2none")
    for what, pattern, grep, most in (
        ("literal", "priority region", "-cF", 0.5),
        ("regex", "prior[a-z]+ reg", "-cE", 1.0),
    ):
        ours = bench.run("dump", "--grep", pattern, path)
        peer = bench.shell('kdump dump "$1" | grep "$2" "$3"', path, grep, pattern)
        yield Pair(f"dump --grep, {what}", ours, "dump \\| grep", peer, most)


def narrow(bench: Bench) -> Iterator[Pair]:
    """Filters that leave little."""
    path = f"{bench.directory('large')}/large-0"
    end_ms = START_MS + max(int(log.stem) for log in Path(path).glob("*.log"))
    ours = bench.run("dump", "--from-time", str(end_ms - 100), "--to-time", str(end_ms), path)
    click = bench.python("import click")
    yield Pair("dump --from-time, the end of 1 GiB", ours, "import click", click, 1.6)


def gzip(bench: Bench) -> Iterator[Pair]:
    """Compressed by gzip: batches, and wrappers of old messages."""
    for what, path, most in (
        ("gzip, v2", bench.case("v2gzip"), 0.5),
        ("gzip, v1 wrappers", f"{bench.directory('wrappers')}/wrappers-0", 0.8),
    ):
        log = path if path.endswith(".log") else f"{path}/{0:020d}.log"
        peer = bench.peer("aiokafka", log)
        yield Pair(what, bench.run("dump", "--format", "jsonl", path), "aiokafka", peer, most)


def codecs(bench: Bench) -> Iterator[Pair]:
    """Each codec, in 64 MiB of plain bytes and in sixteen times as much."""
    for codec in ("none", "lz4", "gzip", "snappy", "zstd"):
        path = bench.case(f"v2{codec}")
        ours = bench.run("dump", "--format", "jsonl", path)
        work = "no codec" if codec == "none" else codec
        yield Pair(work, ours, "Rust crate", bench.rust(path), 1.2)
        if codec != "none":
            path = f"{bench.directory('codecs')}/{codec}-0/{0:020d}.log"
            ours = bench.run("dump", "--format", "jsonl", path)
            yield Pair(f"{codec}, 1 GiB", ours, "Rust crate", bench.rust(path), 1.2)


def markers(bench: Bench) -> Iterator[Pair]:
    """Transaction markers."""
    ours = bench.run("dump", "--format", "jsonl", f"{bench.directory('markers')}/with-0")
    peer = bench.run("dump", "--format", "jsonl", f"{bench.directory('markers')}/without-0")
    yield Pair("100,000 transaction markers", ours, "the same log without", peer, 1.3)


def pre08(bench: Bench) -> Iterator[Pair]:
    """Files of 0.7."""
    ours = bench.run("dump", "--format", "jsonl", f"{bench.directory('pre08')}/old-0")
    peer = bench.run("dump", "--format", "jsonl", f"{bench.directory('pre08')}/v1-0")
    yield Pair("0.7 files, 64 MiB", ours, "v1 of the same bytes", peer, 3)


def small(bench: Bench) -> Iterator[Pair]:
    """Many small partitions."""
    path = bench.directory("small")
    reads = bench.peer("files", path)
    ours = bench.run("verify", path)
    yield Pair("verify 2,000 small partitions", ours, "open and read each file", reads, 4)


def jobs(bench: Bench) -> Iterator[Pair]:
    """Two workers."""
    large = bench.directory("large")
    for path, what in (
        (bench.directory("small"), "many small"),
        (large, "two of 1 GiB"),
        (f"{large}/large-0", "one of 1 GiB"),
    ):
        ours, peer = bench.run("verify", "-j", "2", path), bench.run("verify", path)
        for of, most in (("wall", 0.6), ("cpu", 1.1)):
            yield Pair(f"verify -j 2, {what}, {of}", ours, "-j 1", peer, most, of)


def keys(bench: Bench) -> Iterator[Pair]:
    """Totals by key."""
    path, made = bench.directory("keys"), str(bench.data / "keys.arrow")
    ours = bench.run("usage", "--by", "key", path)
    group = shlex.join(bench.peer("keys", made))
    line = f'rm -f "$2"; kdump dump --format arrow --output "$2" "$1" && {group}'
    peer = bench.shell(line, path, made)
    for what, of, most in ((", memory", "memory", 256), ("", "cpu", 0.7)):
        work = f"usage --by key, 5 million keys{what}"
        yield Pair(work, ours, "dump to Arrow, group_by", peer, most, of)


def alike(bench: Bench) -> Iterator[Pair]:
    """Ten million keys in 1 GiB, of which one in a thousand comes twice."""
    path = bench.directory("alike")
    segments = [str(segment) for segment in sorted(Path(path).rglob("*.log"))]
    peer = bench.peer("values", *segments)
    floor = "loop of Python over the records"
    by_key, by_both = (("duplicates", "--by", by, path) for by in ("key", "key,value"))
    any_one, named = ("placement", path), ("placement", "--partitioner", "murmur2", path)
    for words, most in ((by_key, 1.5), (by_both, 2.5), (any_one, 2), (named, 1.5)):
        work = f"{' '.join(words[:-1])}, 10 million keys"
        yield Pair(work, bench.run(*words), floor, peer, most)
        yield Pair(f"{work}, memory", bench.run(*words), floor, peer, 256, "memory")


def internal(bench: Bench) -> Iterator[Pair]:
    """Internal topics, decoded."""
    metadata, offsets = (
        f"{bench.directory('internal')}/{topic}-0/{0:020d}.log"
        for topic in ("__cluster_metadata", "__consumer_offsets")
    )
    where = str(Path(metadata).parent)
    jsonl = ("dump", "--format", "jsonl")
    for work, words, path, most in (
        ("dump of cluster metadata", (*jsonl, where), metadata, 3.5),
        ("dump of offsets", (*jsonl, str(Path(offsets).parent)), offsets, 3.5),
        ("cluster", ("cluster", "--format", "jsonl", where), metadata, 4.5),
        ("groups", ("groups", "--format", "jsonl", str(Path(offsets).parent)), offsets, None),
    ):
        peer = bench.peer("values", path)
        floor = "loop of Python over the records"
        yield Pair(f"{work}, 1 million records", bench.run(*words), floor, peer, most)


def compare(bench: Bench) -> Iterator[Pair]:
    """Replicas that differ everywhere."""
    different, equal = bench.directory("different"), bench.directory("equal")
    both = [bench.run("compare", f"{path}/a", f"{path}/b") for path in (different, equal)]
    yield Pair("compare, every batch differs, 256 MiB", both[0], "compare equal", both[1], 5)
    peer = bench.run("verify", f"{equal}/a", f"{equal}/b")
    yield Pair("compare equal, 256 MiB", both[1], "verify of the same", peer, None)


def merge(bench: Bench) -> Iterator[Pair]:
    """Copies merged."""
    path = bench.directory("copies")
    ours, peer = bench.run("salvage", path), bench.run("verify", path)
    # Valgrind's processor has no SHA-256, which takes three quarters of what is counted.
    work = "salvage of three copies of 256 MiB"
    yield Pair(work, ours, "verify of the same", peer, 2, counted=False)


def foretold(bench: Bench) -> Iterator[Pair]:
    """Forecasts."""
    for work, words, path, most in (
        ("predict, 2,000 small partitions", ("predict",), bench.directory("small"), 1.2),
        ("elect, 2 x 2,000 small partitions", ("elect",), bench.directory("replicas"), 1),
    ):
        paths = [path] if "small" in path else [f"{path}/{node}" for node in (1, 2)]
        ours, peer = bench.run(*words, *paths), bench.run("verify", *paths)
        yield Pair(work, ours, "verify of the same", peer, most)


def entries(bench: Bench) -> Iterator[Pair]:
    """A time index in the form of kafka-dump-log."""
    path = f"{bench.directory('large')}/large-0/{0:020d}.timeindex"
    ours = bench.run("dump", "--entries", "--format", "kafka", path)
    peer = bench.dump_log("--files", path)
    work = "--entries of a time index, 1 GiB log"
    yield Pair(work, ours, "kafka-dump-log", peer, 1 / 5, counted=False)


def headers(bench: Bench) -> Iterator[Pair]:
    """What asks for headers of batches alone, or for their checksums."""
    log, floor = bench.case("v2none"), "loop of Python over the headers"
    path, marked = str(Path(log).parent), f"{bench.directory('markers')}/with-0"
    summed = "loop of Python, crc32c"
    for words, where, against in (
        (("verify",), path, summed),
        (("reindex",), path, summed),
        (("usage",), path, floor),
        (("info",), path, floor),
        (("sql", "SELECT count(*) FROM records"), path, floor),
        (("sequences",), marked, floor),
        (("transactions",), marked, floor),
    ):
        peer = bench.peer("headers" if against == floor else "checksums", f"{where}/{0:020d}.log")
        what = "256 MiB" if where == path else "200,000 batches"
        yield Pair(f"{words[0]}, {what}", bench.run(*words, where), against, peer, None)


def whole(bench: Bench) -> Iterator[Pair]:
    """What answers about a whole data directory."""
    path = bench.directory("small")
    reads = bench.peer("files", path)
    page = str(bench.data / "report.html")
    for words in (("info",), ("why",), ("timeline",), ("report", "--force", "--output", page)):
        work = f"{words[0]}, 2,000 small partitions"
        yield Pair(work, bench.run(*words, path), "open and read each file", reads, None)


def start(bench: Bench) -> Iterator[Pair]:
    """Start-up."""
    path = f"{bench.directory('small')}/small-0"
    click = bench.python("import click")
    yield Pair(
        "verify of one small partition", bench.run("verify", path), "import click", click, 1.5
    )
    alone = f"{bench.directory('medium')}/medium-0"
    for words in (("find-offset", "1"), ("find-time", "latest")):
        yield Pair(
            f"{words[0]} in one partition", bench.run(*words, alone), "import click", click, 1.4
        )
    target = str(bench.data / "small.arrow")
    line = 'rm -f "$2"; kdump dump --format arrow --output "$2" "$1"'
    peer = bench.peer("import")
    ours = bench.shell(line, path, target)
    yield Pair("arrow of one small partition", ours, "import pyarrow.parquet", peer, 1.3)


def pure(bench: Bench) -> Iterator[Pair]:
    """The kernel in Python."""
    path = f"{bench.directory('medium')}/medium-0"
    ours, peer = (bench.run("dump", "--format", form, path) for form in ("jsonl", "csv"))
    yield Pair("pure kernel, JSON Lines of 4 MiB", ours, "pure csv", peer, 1, pure=True)


def noise(bench: Bench) -> Iterator[Pair]:
    """Memory on noise."""
    for where in ("a log", "the files next to a log"):
        path = bench.directory("noise" if where == "a log" else "noise_beside")
        ours = bench.run("verify", path)
        yield Pair(f"verify, noise in {where}, memory", ours, "", None, 64, "memory")


ROWS: tuple[Callable[[Bench], Iterator[Pair]], ...] = (
    *(of_records, kafka_text, copied, arrow, search, narrow, gzip, codecs, markers, pre08, small),
    *(jobs, keys, alike, internal, headers, whole, compare, merge, foretold, entries, start),
    *(pure, noise),
)  # fmt: skip


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


#: Why a row is missed, by how its work begins: what profiles show, and what would be needed.
REASONS = """
- dump --format arrow: half of the time the system copies what is written, which the other has too;
  a fifth it copies the log that is read, where the other maps a file; gathering columns is a
  thirtieth, checksums and decoding are a hundredth; the rest is start-up, and Python for each run
  of batches.
- dump --format parquet: nearly all of it is pyarrow's own encoding and zstd; what is above the
  other is reading and checksums, as of arrow.
- dump --grep, regex: a pattern that is no plain text is asked of each key and value alone, by
  Python's `re`; a compiled search over a whole block would be needed.
- dump --from-time: start-up is nearly all of it; see `verify of one small partition`.
- gzip, v2: inflating is a third of the time, and writing JSON, which the other does not do, nearly
  as much; start-up is a quarter, and has to become half of it to reach the ratio.
- gzip, v1 wrappers: inflating is half of the time, start-up a fifth; the rest is some 50 calls of
  Python for each wrapper; the kernel inflating one wrapper after the other would be needed.
- lz4, 1 GiB: a batch takes 247,000 instructions, 1.22 times the other's 202,000: 57,000 are the
  codec's, as of the other, 75,000 write JSON, which the other does not do, 17,000 decode.
- lz4: start-up is 300 million instructions of 1,311; without it the ratio is 1.22, see the row of
  1 GiB.
- snappy, 1 GiB: a batch takes 280,000 instructions, 1.69 times the other's 166,000: 68,000 are the
  codec's, 17,000 zero its buffer, 75,000 write JSON, which the other does not do, 17,000 decode.
- snappy: start-up is 300 million instructions of 1,449; without it the ratio is 1.69, see the row
  of 1 GiB.
- no codec: writing JSON, which the other does not do, is more than half of the instructions,
  start-up a seventh.
- gzip: inflating is what both do; start-up and writing JSON are all of the difference.
- verify 2,000 small partitions: some 1,200 calls of Python a partition, 2.3 million instructions:
  six files are listed, asked for and opened, each by five system calls, and ten checks see each
  segment begin and end; no call is over 4 % of it. A shorter way for partitions of one small
  segment would be needed, and be a second way to verify.
- verify -j 2, many small: start-up and the checks of the whole data directory are done by one
  process.
- verify -j 2, two: start-up, 0.1 s, is a sixth of the time of one process.
- verify -j 2, one: one process reads it. In pieces by two it took more of both: the headers that
  they found are packed, sent and judged by one, in the time of the walk itself, which reads from
  the page cache; judging by pieces would be needed.
- usage --by key: six tenths of the time is the kernel's table of keys, the rest groups kept and
  ordered in Python; the ratio moves by a fifth with how fast Arrow groups in the same run.
- placement --partitioner murmur2, 10 million keys: one partitioner takes three quarters of the time
  of all: as each key is another, most goes into the dictionary of keys, and into scratch files that
  are sorted and merged.
- dump of cluster metadata: one record in twenty is a setting, which may be a secret, and is left to
  the interpreter: that takes as long as all others.
- compare, every batch differs: some 300 calls of Python for each pair of batches, to pair them and
  to report the record that differs; the kernel comparing the columns of many pairs would be needed.
- salvage of three copies: the checksum of the result, which verify has not, is a quarter of it,
  0.15 s of 256 MiB; it is known only once the copies were compared which batches are in it. The
  other half above the ratio is each of them, read once more to see that it opens.
- predict, 2,000 small partitions: some 1,300 calls a partition more than verify's 1,270, most of
  them of C: a start reads each log three times, by its own rules, and builds its indexes again, for
  which seven files more are opened; where the release is not known, the small files are looked at
  by the rules of the oldest one, too. Of 200 partitions it takes 1,274 million instructions, 1.60
  times verify's 795 million.
- elect, 2 x 2,000 small partitions: each replica is started by the model and read once more.
- --entries of a time index: reading, checksums and decoding of 1 GiB are a quarter of the time, the
  rest is some 70 calls of Python for each of 66,000 entries; the kernel looking up all entries
  that fall into a run of batches would be needed.
- find-: 320 million instructions against 192. 115 to 118 modules of kdump are imported, at a
  million each: a quarter of that to find and to read one, the rest to make its functions and
  classes. The command with its options is 28 million, the lookup itself 10; 77 million are left by
  the ratio: the answer goes through more than 60 modules, as the broker that is asked is chosen by
  its directory, and what it would do at its start is followed.
- verify of one small partition: 150 modules of kdump are imported, at a million each, and none of
  them is over a thirtieth of it; 41 million instructions list and read what is said of its 1,999
  neighbors: alone it takes 380 million. To reach the ratio half of the modules would have to be
  imported only after damage was seen: each of the checks would be apart from what it says of a
  finding.
- arrow of one small partition: click and 99 modules of kdump are imported besides pyarrow.
- pure kernel: both forms call the same functions and take the same time within a tenth; which is
  the faster changes from run to run.
"""


def counts() -> dict[str, list[int]]:
    """Read the instructions that were recorded, of kdump and of the other."""
    return json.loads(RECORDED.read_text("utf-8")) if RECORDED.exists() else {}


def record(bench: Bench, row: Callable[[Bench], Iterator[Pair]], most_seconds: float) -> None:
    """Count the instructions of a row's pairs, and keep them; not of what takes too long."""
    for pair in row(bench):
        if pair.of != "cpu" or pair.peer is None or pair.pure or not pair.counted:
            continue
        bench.measure(pair, 1)
        if sum(sample.cpu for both in pair.samples for sample in both if sample) > most_seconds:
            continue
        both = [bench.count(pair.ours), bench.count(pair.peer)]
        print(f"{pair.key}: {both[0]:,} : {both[1]:,}, {both[0] / both[1]:.2f}", flush=True)
        kept = counts() | {pair.key: both}
        RECORDED.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", "utf-8")


def reason_of(pair: Pair) -> str:
    """Say why a row is missed, as far as that is known."""
    for work, _, why in (each.partition(": ") for each in REASONS.split("\n- ")[1:]):
        if pair.work.startswith(work):
            return " ".join(why.split())
    return "the reason is not known."


HEAD = """# Performance

How long kdump takes compared with others that do the same work, or with its own best form:
processor seconds, user and system, of whole processes, where nothing else is said; a ratio is
kdump's figure by the other's.
`python tools/benchmarks/table.py --data DIRECTORY --write docs/performance.md` writes this page.

Instructions, in thousands of millions, are those of the same processes, kdump's first, counted by
valgrind: they are the same on a busy machine, but the system's own work, as copying what is read
and written, is not in them. They are not counted of the JVM, of `cp` and `cat`, of salvage, whose
SHA-256 valgrind does in another way, and of what takes many seconds.
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
    add("--kdump", metavar="COMMAND", help="an installed kdump instead of this checkout")
    add("--write", type=Path, metavar="FILE", help="write the page there, too")
    add("--count", action="store_true", help="count instructions and record them, and no more")
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
                record(bench, row, arguments.longest)
                continue
            for pair in row(bench):
                bench.measure(pair, arguments.rounds)
                page.append(pair.line(recorded))
                print(page[-1], flush=True)
                if pair.verdict(recorded) in ("no", "by seconds", "by instructions"):
                    why = f"- {pair.work}: {reason_of(pair)}"
                    missed.append(fill(why, 100, subsequent_indent="  ", break_on_hyphens=False))
        except SkippedError as why:
            skipped.append(f"- Not measured: {str(row.__doc__).rstrip('.').lower()}; {why}.")
            print(skipped[-1], flush=True)
    if missed:
        page += ["", "## Why rows are missed", "", *missed]
    page += ["", *skipped] if skipped else []
    print(f"{(time.monotonic() - started) / 60:.1f} minutes", *missed, sep="\n")
    text = "\n".join(page) + "\n"
    if arguments.write:
        arguments.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
