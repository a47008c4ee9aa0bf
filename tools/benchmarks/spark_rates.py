"""Rates of the two drivers, in the same run: worker processes here, and a session of Spark.

    python tools/benchmarks/spark_rates.py --data DIRECTORY [--rounds N] [--json FILE]

Needs kdump[spark] and Java 17. Segments are generated if they are not there, and linked as often as
it takes to make partitions of them: what is read is in the page cache, and the disk is not
measured. Every round does the same work by as many worker processes as Spark has slots, then on
Spark, each with what a command does around it (the listing, the probe of executors, the commit).
The start of the session is printed apart, and a first job on each side warms it up.

Wall time, and processor seconds of the whole tree of processes, JVM and workers included; medians
with their range. The ratio is taken inside each round. Linux only: processor time and memory of the
tree are read from /proc. Run it on an idle machine.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.append(str(HERE.parent.parent))  # the checkout serves where kdump is not installed

import table_data  # noqa: E402
from generate import Case, generate  # noqa: E402
from measure import table  # noqa: E402

PARTS = ("first", "verify", "dump", "sql", "small", "memory")
BARS = {"verify": 0.7, "dump v2none": 0.8}
TERABYTE = 10**12
_TICK_SECONDS = 0.05
_HZ = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """What one run took."""

    wall: float
    cpu: float
    worker_mib: float  # the largest resident set of a worker, of Python, in either driver


# The tree of processes ---------------------------------------------------------------------------


def tree() -> list[int]:
    """This process and all that come from it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, todo = [], [os.getpid()]
    while todo:
        found.append(todo.pop())
        todo += children.get(found[-1], [])
    return found


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; none when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def cpu_seconds() -> float:
    """User and system time of the tree, with that of children which were waited for."""
    ticks = 0
    for pid in tree():
        if fields := _stat(pid):
            ticks += sum(map(int, fields[11:15]))
    return ticks / _HZ


class Memory(threading.Thread):
    """Watches how large workers grow: any process of Python's but this one."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most_kib = 0
        self._ended = threading.Event()
        for pid in tree():
            try:
                Path(f"/proc/{pid}/clear_refs").write_text("5")  # forget the highest so far
            except OSError:
                pass

    def run(self) -> None:
        while not self._ended.wait(_TICK_SECONDS):
            for pid in tree()[1:]:
                try:
                    if "python" not in Path(f"/proc/{pid}/exe").readlink().name:
                        continue
                    text = Path(f"/proc/{pid}/status").read_text()
                except OSError:
                    continue
                for line in text.splitlines():
                    if line.startswith("VmHWM:"):
                        self.most_kib = max(self.most_kib, int(line.split()[1]))

    def end(self) -> float:
        self._ended.set()
        self.join()
        return self.most_kib / 1024


def cost_of(work: Callable[[], object]) -> Cost:
    """Run once."""
    memory = Memory()
    memory.start()
    before, began = cpu_seconds(), time.perf_counter()
    work()
    wall, cpu = time.perf_counter() - began, cpu_seconds() - before
    return Cost(wall, cpu, memory.end())


# Data --------------------------------------------------------------------------------------------


def link_partitions(data: Path, case: Case, total_bytes: int, name: str) -> tuple[Path, int]:
    """Make a data directory whose partitions are links of one segment; give it and its size."""
    root = data / name
    shutil.rmtree(root, ignore_errors=True)
    count = max(1, -(-total_bytes // case.size_bytes))
    for number in range(count):
        partition = root / f"orders-{number}"
        partition.mkdir(parents=True)
        (partition / Path(case.path).name).hardlink_to(data / case.path)
    return root, count * case.size_bytes


def one_large_batch(data: Path) -> Path:
    """A data directory whose batches have 64 MiB of plain text."""
    sys.path.insert(0, str(HERE.parents[1] / "tests/support"))
    import builders

    partition = data / "large" / "orders-0"
    shutil.rmtree(partition.parent, ignore_errors=True)
    partition.mkdir(parents=True)
    value = bytes(range(256)) * 4096
    parts = [
        builders.batch(
            [builders.record(k, k, b"k%d" % k, value) for k in range(63)],
            base_offset=63 * number,
            attributes=1,
            compress=builders.gzip_bytes,
        )
        for number in range(4)
    ]
    (partition / f"{0:020}.log").write_bytes(b"".join(parts))
    return partition.parent


# What is measured --------------------------------------------------------------------------------


def verify(root: Path, driver: Any) -> None:
    """Verify a directory; anything but a sound one is a mistake of ours."""
    from kdump.engine.verify.options import VerifyOptions
    from kdump.engine.verify.run import verify as verified
    from kdump.findings.rows import Row

    last = None
    for item in verified([str(root)], VerifyOptions(), driver=driver):
        last = item
    if not isinstance(last, Row) or last.fields["findings"]["damage"]:
        raise SystemExit(f"{root}: {last}")


def dump(root: Path, out: Path, driver: Any, **options: Any) -> None:
    """Dump a directory to Parquet, and remove it."""
    from kdump.engine.reading.options import DumpOptions
    from kdump.output.bulk_dump import dump_parts
    from kdump.output.part_directory import PartDirectory
    from kdump.output.progress import WrittenRows

    directory = PartDirectory(str(out), [str(root)])
    for item in dump_parts([str(root)], DumpOptions(**options), directory, driver):
        if not isinstance(item, WrittenRows):
            raise SystemExit(f"{root}: {item}")
    shutil.rmtree(out)


class Bench:
    """The session, the data and the figures."""

    def __init__(self, arguments: argparse.Namespace, session: Any) -> None:
        self.data: Path = arguments.data.resolve()
        self.out: Path = (arguments.out or arguments.data).resolve() / "out"
        self.rounds: int = arguments.rounds
        self.processes: int = arguments.processes
        self.arguments = arguments
        self.session = session
        self.figures: dict[str, dict[str, list[Cost]]] = {}
        self.sizes: dict[str, int] = {}

    def compare(self, name: str, size: int, ways: dict[str, Callable[[], object]]) -> None:
        """Do each way once for a warm-up and then in turn, round by round."""
        self.sizes[name] = size
        costs: dict[str, list[Cost]] = {way: [] for way in ways}
        for number in range(self.rounds + 1):
            for way, work in ways.items():
                cost = cost_of(work)
                if number:
                    costs[way].append(cost)
        self.figures[name] = costs
        print(f"\n{name}, {size / (1 << 30):.2f} GiB of log\n{self.shown(name)}", flush=True)

    def shown(self, name: str) -> str:
        """Lay out the figures of one comparison."""
        heads = ["", "wall s", "range", "CPU s", "GB/s", "core-h/TB", "worker MiB"]
        rows = []
        size = self.sizes[name]
        for way, costs in self.figures[name].items():
            walls = [cost.wall for cost in costs]
            cpu = median(cost.cpu for cost in costs)
            rows.append([
                way,
                f"{median(walls):.2f}",
                f"{min(walls):.2f} to {max(walls):.2f}",
                f"{cpu:.2f}",
                f"{size / median(walls) / 1e9:.3f}",
                f"{cpu / 3600 * TERABYTE / size:.2f}",
                f"{max(cost.worker_mib for cost in costs):.0f}",
            ])  # fmt: skip
        lines = [table(heads, rows)]
        ours = self.figures[name].get("in process")
        theirs = self.figures[name].get("Spark")
        if ours and theirs:
            ratios = [one.wall / other.wall for one, other in zip(ours, theirs, strict=True)]
            bar = f", bar {BARS[name]}" if name in BARS else ""
            lines.append(
                f"Spark's rate / in process: {median(ratios):.2f} "
                f"({min(ratios):.2f} to {max(ratios):.2f}){bar}"
            )
        return "\n".join(lines)

    def verify(self, cases: dict[str, Case]) -> None:
        """Measure verify, in tasks of 1 GiB."""
        from kdump.engine.work.pipeline import Workers
        from kdump.spark.driver import SparkDriver

        size = int(self.arguments.verify_gib * (1 << 30))
        root, size = link_partitions(self.data, cases["v2none"], size, "verify")
        here, there = Workers(self.processes), SparkDriver(self.session)
        self.compare(
            "verify",
            size,
            {
                "in process": lambda: verify(root, here),
                "Spark": lambda: verify(root, there),
            },
        )

    def dump(self, cases: dict[str, Case]) -> None:
        """Measure dump to Parquet, in tasks of 256 MiB."""
        from kdump.engine.work.pipeline import Workers
        from kdump.spark.driver import SparkDriver

        size = int(self.arguments.dump_gib * (1 << 30))
        here, there = Workers(self.processes), SparkDriver(self.session, decodes=True)
        for name, case in cases.items():
            root, total = link_partitions(self.data, case, size, "dump")

            def by(driver: Any, root: Path = root) -> Callable[[], object]:
                return lambda: dump(root, self.out, driver)

            self.compare(f"dump {name}", total, {"in process": by(here), "Spark": by(there)})

    def sql(self, cases: dict[str, Case]) -> None:
        """Measure a query over records that Spark is handed."""
        root, size = link_partitions(self.data, cases["v2none"], 1 << 29, "sql")
        reader = self.session.read.format("kdump")

        def every() -> None:
            reader.load(str(root)).selectExpr("count(hash(*))").collect()

        def few() -> None:
            pruned = self.session.read.format("kdump").schema("key binary, offset bigint")
            pruned.load(str(root)).selectExpr("count(hash(*))").collect()

        self.compare("SQL over records", size, {"every column": every, "key and offset": few})

    def small(self) -> None:
        """Measure each view of 2,000 tiny partitions beside the command that gives its rows."""
        root = self.data / "small"
        if not root.exists():
            table_data.small(root)
        of_views = {
            "records": ["dump"],
            "batches": ["dump", "--batches"],
            "index-entries": ["dump", "--entries"],
            "findings": ["verify"],
        }
        size = sum(one.stat().st_size for one in root.glob("*/*.log"))
        for view, words in of_views.items():
            argv = [sys.executable, "-m", "kdump", *words, "--format", "jsonl", str(root)]
            frame = self.session.read.format("kdump").option("view", view)
            ways: dict[str, Callable[[], object]] = {
                "command": lambda argv=argv: subprocess.run(
                    argv, stdout=subprocess.DEVNULL, check=True
                ),
                "Spark": lambda frame=frame: frame.load(str(root)).toArrow(),
            }
            name = f"{view} of 2,000 tiny partitions"
            self.compare(name, size, ways)
            costs = self.figures[name]
            ratios = [
                spark.cpu / command.cpu
                for spark, command in zip(costs["Spark"], costs["command"], strict=True)
            ]
            print(
                f"Spark's CPU / the command's: {median(ratios):.2f} "
                f"({min(ratios):.2f} to {max(ratios):.2f}), bar 3",
                flush=True,
            )

    def memory(self) -> None:
        """Measure a worker that meets batches of 64 MiB."""
        from kdump.engine.work.pipeline import Workers
        from kdump.spark.driver import SparkDriver

        root = one_large_batch(self.data)
        here, there = Workers(2), SparkDriver(self.session, decodes=True)
        ways: dict[str, Callable[[], object]] = {
            "in process": lambda: dump(root, self.out, here),
            "Spark": lambda: dump(root, self.out, there),
        }
        self.compare("dump, batches of 64 MiB", 4 * 63 << 20, ways)


def first_byte(case: Path, rounds: int) -> None:
    """Time the first byte of a dump in process, and look at what was imported for it."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "kdump", "dump", str(case)]
    times = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
        assert process.stdout is not None
        process.stdout.read(1)
        times.append(time.perf_counter() - began)
        process.kill()
        process.stdout.close()
        process.wait()
    limited = [*command, "--limit", "1"]
    log = subprocess.run(
        [limited[0], "-X", "importtime", *limited[1:]],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    ).stderr
    modules = {line.rpartition("|")[2].strip().partition(".")[0] for line in log.splitlines()}
    spark = sorted(modules & {"pyspark", "py4j", "pyspark_kdump"})
    print(
        f"first byte in process: {median(times[1:]):.3f} s "
        f"({min(times[1:]):.3f} to {max(times[1:]):.3f}), bar 0.3; "
        f"imported of Spark: {', '.join(spark) or 'nothing'}",
        flush=True,
    )


@contextmanager
def start_session(processes: int) -> Iterator[Any]:
    """Start a session and run a first job of Python's, and say how long both took."""
    from kdump.spark.preflight import preflight
    from kdump.spark.session import spark_session

    began = time.perf_counter()
    with spark_session(f"local[{processes}]", None) as session:
        there = time.perf_counter()
        preflight(session, [])
        print(
            f"session of Spark: {there - began:.1f} s, its first Python task "
            f"{time.perf_counter() - there:.1f} s; in none of the figures below",
            flush=True,
        )
        began = time.perf_counter()
        preflight(session, [])
        print(f"probe of executors, in all of them: {time.perf_counter() - began:.2f} s")
        yield session


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, required=True, help="where the segments are, or are to be written")
    add("--out", type=Path, help="where dumps go, as in /dev/shm; default: --data")
    add("--size", type=int, default=256, metavar="MIB", help="of v2none; the others a quarter")
    add("--verify-gib", type=float, default=24, metavar="GIB", help="default: %(default)s")
    add("--dump-gib", type=float, default=2, metavar="GIB", help="default: %(default)s")
    add("--cases", default="v2none,v2lz4,v2zstd,v2snappy,v2gzip", help="default: %(default)s")
    add("--rounds", type=int, default=5, help="default: %(default)s")
    add("--processes", type=int, default=os.cpu_count(), help="default: one a processor")
    add("--only", default=",".join(PARTS), metavar="PARTS", help="of %(default)s")
    add("--json", type=Path, metavar="FILE", help="also write every figure there")
    return parser.parse_args()


def main() -> None:
    """Generate, start, measure, report."""
    arguments = parse_arguments()
    parts = arguments.only.split(",")
    arguments.data.mkdir(parents=True, exist_ok=True)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    names = tuple(dict.fromkeys(["v2none", *arguments.cases.split(",")]))
    cases = generate(arguments.data, arguments.size, names)
    cases = {name: cases[name] for name in names}
    for case in cases.values():
        (arguments.data / case.path).read_bytes()  # into the page cache
    from kdump.output.process_tuning import KERNEL

    print(
        f"{platform.python_version()}, {KERNEL} kernel, {arguments.processes} processes, "
        f"load {os.getloadavg()[0]:.1f}, {arguments.rounds} rounds",
        flush=True,
    )
    if "first" in parts:
        first_byte((arguments.data / cases["v2none"].path).parent, arguments.rounds)
    if parts == ["first"]:
        return
    with start_session(arguments.processes) as session:
        bench = Bench(arguments, session)
        if "verify" in parts:
            bench.verify(cases)
        if "dump" in parts:
            bench.dump(cases)
        if "sql" in parts:
            bench.sql(cases)
        if "small" in parts:
            bench.small()
        if "memory" in parts:
            bench.memory()
    if arguments.json:
        figures = {
            name: {way: [cost._asdict() for cost in costs] for way, costs in ways.items()}
            | {"bytes": bench.sizes[name]}
            for name, ways in bench.figures.items()
        }
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
