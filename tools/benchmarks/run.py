"""Measure kdump against C, against Python's own start-up and against the broker's dump tool.

    python tools/benchmarks/run.py --data DIRECTORY [--dump-log PATH] [--json FILE]

Generates the segments if they are not there, builds the floors with a C compiler, checks once that
every reader finds what was written, and then runs all of them in turn, round by round. Figures are
processor time, user and system, of whole processes; a ratio is taken inside each round and its
median is shown. The last part, `own`, times the kernels inside one process. Run it on an idle
machine; differences under 15 % are noise. The kernel must have been compiled, unless --pure.
"""

import argparse
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))

from generate import CASES, Case, load  # noqa: E402
from measure import Command, report, rounds, run  # noqa: E402

SECTIONS = ("start", "walk", "dump", "own")
WALKED = ("v2none", "tiny", "v1none")
PRINTED = "dump-log --print-data-log"
SHALLOW = "dump-log"
RECOVERED = "LogSegment.recover"
# What a run without --kdump starts: this checkout, as the installed entry point would start it.
ENTRY = "from kdump.cli import main; main()"


class Bench:
    """What is measured, with what, and where."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.data: Path = arguments.data.resolve()
        self.rounds: int = arguments.rounds
        self.dump_log = shlex.split(arguments.dump_log) if arguments.dump_log else []
        self.oracle = shlex.split(arguments.oracle) if arguments.oracle else []
        self.environment = dict(os.environ)
        self.environment.pop("KDUMP_PURE", None)
        if arguments.pure:
            self.environment["KDUMP_PURE"] = "1"
        if arguments.kdump:
            self.kdump = shlex.split(arguments.kdump)
        else:
            self.kdump = [sys.executable, "-c", ENTRY]
            paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
            self.environment["PYTHONPATH"] = os.pathsep.join(paths)
        self.floors = self.build_floors(shlex.split(arguments.cc))
        self.cases: dict[str, Case] = {}

    def build_floors(self, compiler: list[str]) -> Path | None:
        """Build floors.c with the checksums of this checkout."""
        self.data.mkdir(parents=True, exist_ok=True)
        target = self.data / "floors"
        kernels = ROOT / "kdump" / "kernels"
        sources = [HERE / "floors.c", kernels / "_crc.c"]
        if not shutil.which(compiler[0]):
            print(f"no C compiler {compiler[0]}: no floors", file=sys.stderr)
            return None
        flags = ["-O2", "-std=c99", f"-I{kernels}"]
        subprocess.run([*compiler, *flags, *map(str, sources), "-o", str(target)], check=True)
        return target

    def generate(self, size: int, names: list[str]) -> None:
        """Write what is missing, in a process of its own, and have it in the page cache."""
        script = str(HERE / "generate.py")
        options = ["--size", str(size), "--cases", ",".join(names)]
        subprocess.run([sys.executable, script, str(self.data), *options], check=True)
        cases = load(self.data)
        self.cases = {name: cases[name] for name in names}
        for case in self.cases.values():
            with (self.data / case.path).open("rb", buffering=0) as file:
                while file.read(1 << 20):
                    pass

    def path(self, case: Case) -> str:
        """Name the segment of a case."""
        return str(self.data / case.path)

    def start(self) -> list[Command]:
        """What every start costs."""
        python = [sys.executable, "-c"]
        commands = [
            Command("python -c pass", [*python, "pass"]),
            Command('python -c "import click"', [*python, "import click"]),
            Command("kdump --help", [*self.kdump, "--help"]),
            Command("kdump --version", [*self.kdump, "--version"]),
        ]
        case = next(iter(self.cases.values()))
        commands.append(
            Command(
                "kdump dump --limit 1",
                [*self.kdump, "dump", "--limit", "1", self.path(case)],
                kind="lines",
                piped=True,
            )
        )
        return commands

    def walk(self, case: Case) -> list[Command]:
        """Headers and checksums of every batch, and indexes made of them."""
        version = 1 if case.magic < 2 else 2
        path = self.path(case)
        modes = {"read": "read", "read, CRC": f"walk{version}", "mmap, CRC": f"map{version}"}
        commands = [
            Command(f"C floor: {label}", [str(self.floors), mode, path])
            for label, mode in modes.items()
            if self.floors
        ]
        batches = [*self.kdump, "dump", "--batches", "--format"]
        commands += [
            Command(
                "kdump dump --batches --format jsonl",
                [*batches, "jsonl", path],
                kind="jsonl-batches",
            ),
            Command(
                "kdump dump --batches --format kafka",
                [*batches, "kafka", path],
                kind="dump-log-batches",
            ),
            Command(
                "kdump verify",
                [*self.kdump, "verify", "--format", "jsonl", path],
                kind="jsonl-batches",
            ),
            Command("kdump reindex", [*self.kdump, "reindex", "--format", "jsonl", path]),
        ]
        if self.oracle:
            where = {"dir": str(Path(path).parent), "segment": 0, "mode": "segment"}
            query = json.dumps({"q": "recover", **where})
            commands.append(Command(RECOVERED, [*self.oracle, "query", query]))
        if self.dump_log:
            argv = [*self.dump_log, "--files", path]
            commands.append(Command(SHALLOW, argv, kind="dump-log-batches"))
        return commands

    def dump(self, case: Case) -> list[Command]:
        """Every record, printed or as Arrow."""
        path = self.path(case)
        target = self.data / "dump.arrow"
        commands = [
            Command(
                "kdump dump --format jsonl",
                [*self.kdump, "dump", "--format", "jsonl", path],
                kind="jsonl",
            ),
            Command(
                "kdump dump --format kafka",
                [*self.kdump, "dump", "--format", "kafka", path],
                kind="dump-log",
            ),
            Command(
                "kdump dump --format arrow",
                [*self.kdump, "dump", "--format", "arrow", "--output", str(target), path],
                kind="arrow",
                output=target,
            ),
        ]
        if self.dump_log:
            argv = [*self.dump_log, "--print-data-log", "--files", path]
            commands.append(Command(PRINTED, argv, kind="dump-log"))
        return commands

    def check(self, command: Command, case: Case) -> None:
        """Run a command once, untimed, and look at all it says."""
        printed, errors = self.data / "checked.out", self.data / "checked.err"
        if command.output:
            command.output.unlink(missing_ok=True)
        with printed.open("wb") as output, errors.open("wb") as complaints:
            sample = run(command, self.environment, output, complaints)
        command.checked = sample
        if sample.status != 0:
            lines = errors.read_text(errors="replace").strip().splitlines() or [""]
            command.failed = f"status {sample.status}: {lines[-1]}"
        elif command.kind:
            self.compare(command, case, command.output or printed)
        printed.unlink()
        errors.unlink()

    def compare(self, command: Command, case: Case, output: Path) -> None:
        """Compare what was printed with what was written."""
        argv = [sys.executable, str(HERE / "check.py"), command.kind, str(output)]
        answer = subprocess.run(argv, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            command.failed = f"unreadable output: {answer.stderr.strip().splitlines()[-1]}"
            return
        found = json.loads(answer.stdout)
        wanted = {"bad": 0}
        if command.kind == "lines":
            wanted["records"] = 1
        elif command.kind.endswith("batches"):
            wanted["batches"] = case.batches
            if command.kind.startswith("jsonl"):  # the dump tool counts no v1 message as a record
                wanted["records"] = case.records
        else:
            wanted |= {
                "records": case.records,
                "keys_crc": case.keys_crc,
                "values_crc": case.values_crc,
            }
        wrong = {name: found[name] for name, value in wanted.items() if found[name] != value}
        if wrong:
            command.failed = f"found {wrong}, written were {wanted}"

    def section(self, commands: list[Command], case: Case) -> None:
        """Check, then time."""
        for command in commands:
            self.check(command, case)
        rounds(commands, self.rounds, self.environment)

    def own(self, names: list[str], target: Path) -> bool:
        """Time the kernels in a process of their own."""
        argv = [sys.executable, str(HERE / "own.py"), str(self.data), "--json", str(target)]
        argv += ["--cases", ",".join(names), "--rounds", str(self.rounds)]
        if self.floors:
            argv += ["--floors", str(self.floors)]
        status = subprocess.run(argv, env=self.environment, check=False).returncode
        if status != 0:
            print(f"own: FAILED, status {status}", flush=True)
        return status == 0

    def version(self) -> str:
        """Ask kdump what it is and which kernel runs."""
        answer = subprocess.run(
            [*self.kdump, "--version"],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return " ".join(answer.stdout.split()) or "kdump does not start"


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, required=True, help="where the segments are, or are to be written")
    add(
        "--size", type=int, default=256, metavar="MIB", help="of v2none; the others a quarter of it"
    )
    add("--rounds", type=int, default=5, help="default: %(default)s")
    add("--only", default=",".join(SECTIONS), metavar="SECTIONS", help="of %(default)s")
    add("--cases", default=",".join(CASES), help="of %(default)s")
    add("--dump-log", metavar="COMMAND", help="kafka-dump-log(.sh), to measure it beside kdump")
    add("--oracle", metavar="COMMAND", help="broker classes that recover, beside kdump reindex")
    add("--kdump", metavar="COMMAND", help="an installed kdump instead of this checkout")
    add("--pure", action="store_true", help="run the pure Python kernel")
    add("--cc", default=os.environ.get("CC", "cc"), metavar="COMMAND", help="default: %(default)s")
    add("--json", type=Path, metavar="FILE", help="also write every figure there")
    return parser.parse_args()


# What a section's figures are shown in units of.
REFERENCES = {
    "start": ["python -c pass", 'python -c "import click"'],
    "walk": ["C floor: read, CRC"],
    "dump": [],
}


def processes(bench: Bench, sections: list[str]) -> dict[str, list[Command]]:
    """Measure whole processes, section by section, and show each when it is done."""
    results: dict[str, list[Command]] = {}

    def one(section: str, title: str, commands: list[Command], case: Case) -> None:
        bench.section(commands, case)
        results[title] = commands
        shown = report(commands, REFERENCES[section], [SHALLOW, PRINTED, RECOVERED])
        print(f"\n{title}\n{shown}", flush=True)

    if "start" in sections:
        one("start", "start", bench.start(), next(iter(bench.cases.values())))
    for name, case in bench.cases.items():
        counts = f"{case.size_bytes:,} bytes, {case.batches:,} batches, {case.records:,} records"
        if "walk" in sections and name in WALKED:
            one("walk", f"walk {name}, {counts}", bench.walk(case), case)
        if "dump" in sections:
            one("dump", f"dump {name}, {counts}", bench.dump(case), case)
    return results


def main() -> None:
    """Generate, build, check, measure, report."""
    arguments = parse_arguments()
    sections = [name for name in SECTIONS if name in arguments.only.split(",")]
    names = [name for name in CASES if name in arguments.cases.split(",")]
    if not sections or not names:
        raise SystemExit("nothing to measure")
    bench = Bench(arguments)
    bench.generate(arguments.size, names)
    about = {
        "version": bench.version(),
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} processors",
        "load": " ".join(f"{value:.1f}" for value in os.getloadavg()),
        "rounds": str(bench.rounds),
    }
    print("; ".join(f"{name} {value}" for name, value in about.items()))
    results = processes(bench, sections)
    own_figures = bench.data / "own.json"
    own_worked = "own" not in sections or bench.own(names, own_figures)
    if arguments.json:
        document = {
            **about,
            "cases": {name: asdict(case) for name, case in bench.cases.items()},
            "processes": {
                title: {
                    command.label: {
                        "failed": command.failed,
                        "samples": [asdict(sample) for sample in command.samples],
                    }
                    for command in commands
                }
                for title, commands in results.items()
            },
        }
        if "own" in sections and own_worked:
            document["own"] = json.loads(own_figures.read_text())
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")
    failed = any(command.failed for commands in results.values() for command in commands)
    raise SystemExit(1 if failed or not own_worked else 0)


if __name__ == "__main__":
    main()
