"""A campaign over the commands: damaged directories and archives, many in a process.

    python -m fuzz.commands --seed 7 --count 100000 --jobs 2 --seconds 600
    python -m fuzz.commands --seed 7 --only 4711 --keep DIRECTORY

with tools/ and tests/support/ in PYTHONPATH.

An input is a data directory of which some files are damaged, exchanged, cut, or are none (links to
nothing, FIFOs, other names), or an archive of one with damage of its own. What must hold: no
exception, an exit status that there is, 10 s of processor time, and 300 MiB of memory.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import io
import json
import lzma
import os
import random
import shutil
import signal
import sys
import tarfile
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import zstandard
from click.testing import CliRunner
from fuzz.mutations import mutate
from fuzz.seeds import Seeds, all_seeds

from kdump.cli import cli
from kdump.stores import unpacking

CPU_SECONDS, WALL_SECONDS = 10, 120
MEMORY_KIB = 300 << 10
BATCH = 40  # inputs of one process
STATUSES = frozenset(range(6))
_FORMS = ("table", "jsonl")
COMMANDS: dict[str, tuple[str, ...]] = {
    "info": ("", "--explain", "--sort last"),
    "verify": (
        *("", "--deep", "--quick", "--nagios", "--summary-by topic", "-j 2", "--tier OTHER"),
        *("--append LOG --explain", "--append LOG --follower --broker-version 2.0"),
    ),
    "dump": ("", "--batches", "--entries", "--hex", "--format kafka", "--format csv", "--visible"),
    "find-offset": (
        "3",
        "--check 7",
        "--as-is 100",
        "--broker-version 0.10.2 3",
        "--explain 9",
        "--max-bytes 300 3",
    ),
    "find-time": ("1700050000000", "--check 1700050000000", "-- -1", "--explain -- -3"),
    "predict": ("", "--quick", "--nagios"),
    "sequences": ("", "--explained"),
    "duplicates": ("", "--by key"),
    "placement": ("", "--partitioner murmur2"),
    "usage": ("", "--by key", "--by topic,partition,producer,codec"),
    "why": ("", "--rolls", "--cleaner", "--free 1MiB", "--broker-version 0.8.2"),
    "reindex": ("", "--all", "--only leader-epochs", "--only checkpoints"),
    "salvage": ("", "--split-batches", "--out OUT", "--split-batches --out OUT"),
    "carve": ("", "--split-batches --out OUT"),
    "report": ("", "--format markdown --redact", "--format jsonl --no-hashes --records 2"),
    "timeline": ("", "--detail", "--skew none --group *", "--what roll,leader,time-jump"),
    "transactions": ("", "--at 2024-01-01T00:00:00Z"),
    "groups": ("", "--history --explain", "--history --backwards"),
    "cluster": ("", "--history", "--view zookeeper"),
    "compare": ("OTHER", "--mirror --groups OTHER"),
    "elect": ("OTHER",),
    "sql": tuple(f"QUERY{number}" for number in range(5)),
}
_QUERIES = (
    "select topic, partition, count(*), max(offset) from records group by all",
    "select count(*) from records where offset between 3 and 40 and timestamp is not null",
    "select * from batches where codec <> 'none' limit 7",
    "select code, count(*) from findings group by 1",
    "select max(timestamp) from records full join index_entries using (topic, partition)",
)
#: What is asked of a capture of requests, or of a file of them.
_OF_CAPTURES = (
    *("dump", "dump --rows frame", "dump --batches", "dump --hex"),
    *("verify --deep", "sequences", "sequences --explained"),
)
_CAPTURE = Path(__file__).parents[2] / "tests/captures/clients.pcap.gz"
_HAVE_FORMS = frozenset(COMMANDS) - {"dump"}
_NAMES = ("orders-0", "lost+found", "x\udcff-1", "a\x1b[2J-3", "-delete", f"{5:020}.log")


def make(seeds: Seeds, seed: int, number: int, root: Path) -> list[str]:
    """Make an input under a folder; return the words of the command on it."""
    rng = random.Random(f"{seed} {number}")
    if random.Random(f"{seed} {number} capture").random() < 1 / len(COMMANDS):
        return _of_a_capture(rng, root)
    files = dict(rng.choice(seeds.directories).files)
    names = sorted(files)
    others = cycle([files[rng.choice(names)] for _ in range(4)])
    for _ in range(rng.choice((1, 1, 2, 5))):
        name = rng.choice(names)
        files[name] = mutate(rng, name, files[name], others)
    place = root / "data"
    for name, data in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    if rng.random() < 0.3:
        _odd_file(rng, place, [place / name for name in names])
    command = rng.choice(sorted(COMMANDS))
    words = rng.choice(COMMANDS[command])
    path = str(place)
    if rng.random() < 0.4:
        path = str(_archive(rng, place, root))
    elif rng.random() < 0.2:
        path = str(place / rng.choice(names))
    target = words.split()
    words_in_front = target[:-1] if command.startswith("find-") else target
    behind = target[-1:] if command.startswith("find-") else []
    if "--" in words_in_front:
        words_in_front.remove("--")
        behind = ["--", path, *behind]
    else:
        behind = [path, *behind]
    asked = [command, *words_in_front, *behind]
    if command in _HAVE_FORMS and "--nagios" not in asked:
        asked[1:1] = ["--format", rng.choice(_FORMS)]
    queries = {f"QUERY{number}": query for number, query in enumerate(_QUERIES)}
    made = queries | {
        "OUT": str(root / "out"),
        "OTHER": str(place),
        "LOG": str(place / rng.choice(names)),
    }
    return [made.get(word, word) for word in asked]


def _of_a_capture(rng: random.Random, root: Path) -> list[str]:
    """Damage a capture, or read a piece of one as requests that follow each other."""
    data = bytearray(gzip.decompress(_CAPTURE.read_bytes()))
    start = 0
    as_frames = rng.random() < 0.3
    if as_frames:
        start = data.index(b"\0\0\0", rng.randrange(len(data) // 2))
    data = data[start : start + rng.randrange(1000, len(data))]
    for _ in range(rng.choice((0, 1, 5, 50, 500))):
        at = rng.randrange(len(data))
        data[at : at + rng.choice((1, 4))] = rng.randbytes(rng.choice((0, 1, 4, 4)))
    path = root / "captured"
    path.write_bytes(bytes(data))
    kind = ["--as", "frames"] if as_frames else []
    return [*rng.choice(_OF_CAPTURES).split(), *kind, str(path)]


def _odd_file(rng: random.Random, place: Path, files: list[Path]) -> None:
    """Put something in the place of a file that is no file, or give it another name."""
    path = rng.choice(files)
    try:
        match rng.randrange(7):
            case 0:
                path.unlink()
                os.mkfifo(path)
            case 1:
                path.unlink()
                path.symlink_to("gone")
            case 2:
                path.unlink()
                path.mkdir()
            case 3:
                path.rename(path.with_name(rng.choice(_NAMES)))
            case 4:
                swap = Path(f"{path}{rng.choice(('.swap', '.deleted', '.cleaned'))}")
                swap.write_bytes(path.read_bytes() + bytes(rng.choice((0, 100))))
            case 5:
                path.unlink()
                path.symlink_to(path.name)
            case _:
                shutil.copytree(path.parent, place / rng.choice(_NAMES), dirs_exist_ok=True)
    except OSError:
        pass  # it is a directory, or another of that name is there


def _archive(rng: random.Random, place: Path, root: Path) -> Path:
    """Pack a directory, and damage what was packed, before it is compressed or behind that."""
    form = rng.choice(("tar", "tar.gz", "tar.xz", "tar.zst", "zip"))
    made = io.BytesIO()
    if form == "zip":
        with zipfile.ZipFile(made, "w", rng.choice((0, 8, 12, 14))) as packed:
            for path in sorted(place.rglob("*")):
                if path.is_file():
                    name = str(path.relative_to(place)).encode("utf-8", "replace").decode()
                    packed.writestr(name, path.read_bytes())
    else:
        with tarfile.open(fileobj=made, mode="w", format=rng.randrange(3)) as tar:
            for path in sorted(place.rglob("*")):
                try:
                    tar.add(path, str(path.relative_to(place)), recursive=False)
                except (OSError, ValueError):
                    continue
    data = bytearray(made.getvalue())
    if form != "zip" and rng.random() < 0.7:
        _damage_header(rng, data)
    for _ in range(rng.choice((0, 0, 1, 8))):
        data[rng.randrange(len(data))] = rng.randrange(256)
    packed_data = bytes(data)
    if form == "tar.gz":
        packed_data = gzip.compress(packed_data, 1)
    elif form == "tar.xz":
        packed_data = lzma.compress(packed_data, preset=0)
    elif form == "tar.zst":
        packed_data = zstandard.compress(packed_data, 1)
    if rng.random() < 0.2:
        packed_data = packed_data[: rng.randrange(len(packed_data))]
    path = root / f"packed.{form}"
    path.write_bytes(packed_data)
    return path


def _damage_header(rng: random.Random, data: bytearray) -> None:
    """Change a field of a tar header, and make its checksum fit."""
    at = 512 * rng.randrange(len(data) // 512)
    start, end = rng.choice(((0, 100), (124, 136), (136, 148), (156, 157), (157, 257), (345, 500)))
    kind = rng.randrange(4)
    size = end - start
    random_bytes = rng.randbytes(size)
    field = (b"\xff" * size, b"\x80" + random_bytes[1:], b"7" * size, random_bytes)[kind]
    if size == 1:
        field = bytes([rng.choice(b"0123567LKxgSXVMD\0\xff")])
    data[at + start : at + end] = field
    data[at + 148 : at + 156] = b" " * 8
    data[at + 148 : at + 156] = b"%06o\0 " % sum(data[at : at + 512])


def run_batch(
    seeds: Seeds, seed: int, numbers: list[int], room: Path
) -> tuple[list[dict[str, Any]], list[str], int]:
    """Run inputs in a process of their own, one after the other.

    Returns what went wrong, the commands that were run, and the memory that the process took.
    """
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        with os.fdopen(write, "w", encoding="utf-8", errors="backslashreplace") as report:
            os.environ["TMPDIR"] = str(room)
            tempfile.tempdir = None
            signal.signal(signal.SIGPROF, _out_of_time)
            for number in numbers:
                root = Path(tempfile.mkdtemp(dir=room))
                words = make(seeds, seed, number, root)
                print(json.dumps({"number": number, "words": words}), file=report, flush=True)
                os.chdir(root)
                signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
                signal.alarm(WALL_SECONDS)
                try:
                    _call(words)
                except BaseException:
                    wrong = traceback.format_exc()[-4000:]
                    print(json.dumps({"wrong": wrong}), file=report, flush=True)
                signal.setitimer(signal.ITIMER_PROF, 0)
                os.chdir(room)
                shutil.rmtree(root, ignore_errors=True)
            if unpacking.scratch_directory.cache_info().currsize:
                shutil.rmtree(unpacking.scratch_directory(), ignore_errors=True)
            print(json.dumps({"end": True}), file=report)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as report:
        lines = [json.loads(line) for line in report]
    _, status, used = os.wait4(child, 0)
    failures, done = [], []
    at: dict[str, Any] = {}
    for line in lines:
        if "number" in line:
            at = line
            done.append(line["words"][0])
        elif "wrong" in line:
            failures.append(at | line)
    if not lines or "end" not in lines[-1]:
        failures.append(at | {"wrong": f"the process ended with {status}"})
    if used.ru_maxrss > MEMORY_KIB:
        wrong = f"memory: {used.ru_maxrss >> 10} MiB, by one of {numbers}"
        failures.append({"number": numbers[0], "words": [], "wrong": wrong})
    return failures, done, used.ru_maxrss


def _out_of_time(number: int, frame: object) -> None:
    raise TimeoutError(f"more than {CPU_SECONDS} s of processor time")


def _call(words: list[str]) -> None:
    result = CliRunner().invoke(cli, words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if result.exit_code not in STATUSES:
        raise AssertionError(f"status {result.exit_code}")
    if "internal-error" in result.output:
        raise AssertionError(result.output[-2000:])


def _load(seeds: Seeds, room: Path) -> None:
    """Run each command once in this process, so that its forks need not import it."""
    for number in range(4 * len(COMMANDS)):
        root = Path(tempfile.mkdtemp(dir=room))
        with suppress(Exception):
            CliRunner().invoke(cli, make(seeds, 0, number, root))
        shutil.rmtree(root, ignore_errors=True)
    unpacking.scratch_directory.cache_clear()  # each fork makes its own
    gc.collect()
    gc.freeze()


def work(seed: int, numbers: Iterator[int], until: float, room: Path) -> Iterator[dict[str, Any]]:
    """Run inputs until there are no more, or no time."""
    seeds = all_seeds(with_corpora=False)
    _load(seeds, room)
    done: Counter[str] = Counter()
    largest = 0
    while batch := list(islice(numbers, BATCH)):
        if time.monotonic() > until:
            break
        failures, commands, memory = run_batch(seeds, seed, batch, room)
        largest = max(largest, memory)
        done.update(commands)
        yield from failures
    yield {"done": dict(done), "largest_kib": largest}


def main() -> int:
    """Run a campaign, or one input of it."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--count", type=int, default=1000)
    asked.add_argument("--jobs", type=int, default=1)
    asked.add_argument("--seconds", type=float, default=1e9)
    asked.add_argument("--only", type=int)
    asked.add_argument("--keep", type=Path)
    given = asked.parse_args()
    os.environ["KDUMP_TRACEBACK"] = "1"
    if given.only is not None:
        root = (given.keep or Path(tempfile.mkdtemp())).absolute()
        root.mkdir(parents=True, exist_ok=True)
        words = make(all_seeds(with_corpora=False), given.seed, given.only, root)
        print(" ".join(words), flush=True)
        _call(words)
        return 0
    until = time.monotonic() + given.seconds
    started = time.monotonic()
    room = Path(tempfile.mkdtemp(prefix="fuzz-"))
    children = []
    for job in range(given.jobs):
        child = os.fork()
        if not child:
            with (room / f"report-{job}").open("w") as out:
                numbers = iter(range(job, given.count, given.jobs))
                for line in work(given.seed, numbers, until, room):
                    out.write(json.dumps(line) + "\n")
                    out.flush()
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    done: Counter[str] = Counter()
    failures, largest = [], 0
    for report in sorted(room.glob("report-*")):
        for line in map(json.loads, report.read_text().splitlines()):
            if "done" in line:
                done.update(line["done"])
                largest = max(largest, line["largest_kib"])
            else:
                failures.append(line)
    shutil.rmtree(room, ignore_errors=True)
    for line in failures:
        print(json.dumps(line))
    seconds = time.monotonic() - started
    print(f"{done.total():,} inputs, seed {given.seed}, {seconds:.0f} s, {largest >> 10} MiB")
    print(dict(sorted(done.items())), f"{len(failures)} failed")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
