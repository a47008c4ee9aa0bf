"""What commands print of sample data, sound and damaged, is what was recorded, to the letter.

`recorded_outputs.txt` has a digest of each run. Where an output is meant to change, look at it
(a failing test prints it), then record anew: KDUMP_RECORD=1 pytest -n0 THIS_FILE. Times of files
and of the question are fixed; what a disk or a machine says of itself is left out. Half of them
are in colors.
"""

import os
import random
import re
import shlex
import shutil
import time
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple
from zlib import crc32

import pytest
from click.testing import CliRunner
from directory_blocks import ext4_block
from option_runs import OPTION_RUNS, RARE_DAMAGE, write_first_entries
from rights_log import write_rights

from kdump.cli import cli

SAMPLES = Path(__file__).parents[2] / "sample-data"
RECORDED = Path(__file__).with_name("recorded_outputs.txt")
RECORDS = "KDUMP_RECORD" in os.environ
NOW_S = 1_795_800_000
#: Columns of the terminal: which of a table's go first where there is no room is part of it.
WIDTHS = (60, 80, 110, 150)
WHOLE = (
    "clean/0.7.2 clean/0.8.2.2 clean/0.10.2.2 clean/2.8.2 clean/4.1.1 clean/4.4.0"
    " clean/4.4.0-transactions damaged/0.7.2 damaged/0.8.2.2 damaged/0.10.2.2 damaged/4.1.1-killed"
    " damaged/4.1.1-stopped damaged/4.4.0-three-nodes/n1"
).split()
#: None of them prints a table with the whole path of a file, whose length is another each time.
AGAINST_ORIGINAL = (
    "compare --format table ORIGINAL DIR",
    "compare DIR ORIGINAL",
    "elect DIR ORIGINAL",
    "salvage ORIGINAL DIR",
    "salvage --split-batches --format table DIR ORIGINAL",
)
COMMANDS = (
    "verify --format table DIR",
    "verify --deep --notes --summary-by broker,topic DIR",
    "predict DIR",
    "dump --format table --limit 40 DIR",
    "dump --format kafka --limit 60 DIR",
    "dump --hex --limit 8 DIR",
    "dump --batches --format csv DIR",
    "dump --entries --format table DIR",
    "dump --visible --isolation read_committed --format csv --limit 30 DIR",
    "find-offset --explain --check --format table DIR 100",
    "find-offset --none latest DIR 5000",
    "find-time --explain --check --format table DIR 1700040100000",
    "find-time --broker-version 0.10.0 DIR -- -1",
    "sequences --explained --format table DIR",
    "duplicates --by key,value --format table DIR",
    "usage --by topic,partition,producer,codec --format table DIR",
    "usage --by key --format markdown DIR",
    "placement --partitioner any --format table DIR",
    "why --rolls --cleaner DIR",
    "why --free 1MiB DIR",
    "why --broker-version 0.9 --format markdown --rows segment-fate DIR",
    "reindex --all --format table DIR",
    "reindex --all --only index,timeindex,txnindex,leader-epochs,checkpoints DIR",
    "salvage --format table DIR",
    "salvage --split-batches --mend-headers DIR",
    "groups --format table DIR",
    "groups --history --format table DIR",
    "transactions --format table DIR",
    "cluster --format table DIR",
    "cluster --history --format table DIR",
    "cluster --view zookeeper --format table DIR",
    "verify --quick --format markdown --rows finding DIR",
    "verify --nagios DIR",
    "predict --broker-version 2.8 --format table DIR",
    "predict --broker-version 3.3 --quick DIR",
    "dump --decode raw --limit 40 DIR",
    "dump --batches --deep --limit 100 DIR",
    "dump --from-offset 50 --to-offset 90 --records-only --limit 50 DIR",
    "dump --from-time 1700040100000 --format markdown --limit 30 DIR",
    "find-offset --isolation read_committed --broker-version 0.10.1 DIR 60",
    "find-offset --as-is --explain DIR 40",
    "find-time --list-offsets-version 1 --explain DIR 1700040200000",
    "find-time --format table DIR max-timestamp",
    "sequences DIR",
    "duplicates --by value --within 10m DIR",
    "usage --by codec,producer --top 3 DIR",
    "placement --partitioner murmur2 --partitions 4 DIR",
    "why --format table DIR",
    "why --broker-version 1.0 --cleaner --format table DIR",
    "why --config retention.ms=1000 --config segment.bytes=4096 DIR",
    "reindex --index-interval-bytes 512 --all DIR",
    "groups DIR",
    "groups --at 1795350085000 DIR",
    "transactions --open DIR",
    "cluster DIR",
    "salvage --retired --topic-map maps.csv DIR",
)
TOGETHER = (
    "predict --format table clean/4.1.1",
    "predict --format table damaged/4.1.1-killed",
    "why --rolls --cleaner --format table clean/4.4.0/d1",
    (
        "compare --format table damaged/4.4.0-three-nodes/n1 damaged/4.4.0-three-nodes/n2"
        " damaged/4.4.0-three-nodes/n3"
    ),
    (
        "elect --format table damaged/4.4.0-three-nodes/n1 damaged/4.4.0-three-nodes/n2"
        " damaged/4.4.0-three-nodes/n3"
    ),
    "compare clean/4.1.1/d1 damaged/one-bit",
    "compare --mirror --groups clean/4.1.1/d1 damaged/one-bit",
    "elect clean/4.1.1/d1 damaged/4.1.1-stopped/d1",
    "cluster --history damaged/4.4.0-three-nodes/n2",
    "schema --format table",
    (
        "sql --format table 'select topic, count(*), max(timestamp) from records group by 1"
        " order by 1' clean/4.1.1"
    ),
    "sql 'select code, count(*) from findings group by 1 order by 1' damaged/one-bit",
    "sql --explain 'select * from records where \"offset\"=7 order by all limit 3' clean/4.1.1/d1",
    "dump --hex --limit 3 clean/4.1.1/d2/clock.append-0",
    "dump --hex --limit 3 clean/4.1.1/d1/headers_all-0",
    "dump --hex --limit 3 clean/4.4.0-transactions/d2/customers-0",
    "dump --hex --limit 3 clean/0.8.2.2/sn-0",
    "dump --format table --control --limit 20 clean/4.4.0-transactions",
    "dump --producer-id 1025 --limit 20 clean/4.1.1",
    "dump --key k353 --format csv clean/4.1.1",
    "dump --grep k8[0-9] --from-time 2023-11-15T09:20Z --limit 20 clean/4.1.1",
    "groups --at 2026-11-22T12:21:30Z --format table clean/4.4.0",
    "groups --history --backwards --format table clean/4.4.0",
    "groups --format reset-csv clean/4.4.0",
    "transactions --at 2026-11-22T12:21:52Z --format table clean/4.4.0-transactions",
    "cluster --at 300 --format table clean/4.1.1/d1",
    "cluster --what configs,features --format markdown clean/4.1.1/d1",
    "find-time --list-offsets-version 0 --max-offsets 4 clean/0.8.2.2 1795000000000",
    "find-offset --format reset-csv clean/4.1.1 20",
    "verify --format reset-csv damaged/one-bit",
    "reindex --broker-version 0.9 --all damaged/4.1.1-stopped",
    "reindex --up-to-damage --format table damaged/0.10.2.2",
    "salvage --prefer longest --format table damaged/one-bit clean/4.1.1/d1/orders.zstd-0",
    "carve image",
    "carve --format table image clean/4.1.1/d1/orders.zstd-0",
    "carve --split-batches --mend-headers --format table image",
    *(
        f"why --cleaner --broker-version {version} --config cleanup.policy=compact --config"
        f" min.cleanable.dirty.ratio=0.001 {sample}"
        for version, sample in (
            ("0.9", "clean/0.8.2.2"),
            ("1.0", "clean/0.10.2.2"),
            ("4.1", "clean/2.8.2"),
            ("2.8", "clean/4.1.1"),
            ("4.1", "damaged/0.10.2.2"),
        )
    ),
    (
        "salvage --format table damaged/4.4.0-three-nodes/n1 damaged/4.4.0-three-nodes/n2"
        " damaged/4.4.0-three-nodes/n3"
    ),
    "dump --entries --format kafka clean/4.1.1",
    "dump --entries --format kafka clean/4.4.0-transactions",
    "dump --entries --format kafka damaged/4.1.1-killed",
    "dump --batches --format kafka clean/0.10.2.2",
    "dump --format kafka clean/4.1.1/d1/bootstrap.checkpoint",
    (
        "dump --format kafka clean/4.1.1/d1/__cluster_metadata-0/"
        "00000000000000000412-0000000001.checkpoint"
    ),
    "carve disk",
    "carve --format table disk",
    "carve --format csv --topic-map carved.csv disk damaged/4.4.0-three-nodes/n1",
    "verify --state state clean/4.1.1/d1",
    "verify --subset 1/2 clean/4.1.1",
    "verify --topic orders.* --partition 0 clean/4.1.1/d2",
    "groups --help",
    "verify --help",
    *(f"info --format table {sample}" for sample in WHOLE),
    "info --explain --sort name clean/2.8.2",
    "info --sort last --topic orders.* clean/4.1.1",
    "info --format table damaged",
    "clean/4.1.1/d1/orders.zstd-0",
    "usage --by topic,hour --format table clean/4.1.1",
    (
        "report --now 2026-11-28T00:00Z --format markdown --from 2026-11-21T00:30Z"
        " damaged/4.4.0-three-nodes/n1 damaged/4.4.0-three-nodes/n2 damaged/4.4.0-three-nodes/n3"
    ),
    "report --now 2026-11-28T00:00Z --records 2 --title Case damaged/one-bit",
    "report --now 2026-11-28T00:00Z --redact clean/4.4.0-transactions",
)
NODES = "damaged/4.4.0-three-nodes/n1 damaged/4.4.0-three-nodes/n2 damaged/4.4.0-three-nodes/n3"
#: Asked of the sample with remote storage, the first of copies with damage too; DIR has both parts.
TIER_CHECKS = (
    "verify --tier DIR/remote/kafka-tiered-storage DIR/d1",
    "verify --deep --notes --format table --tier DIR/remote/kafka-tiered-storage DIR/d1",
    "verify DIR/remote/kafka-tiered-storage",
    "why --tier DIR/remote/kafka-tiered-storage DIR/d1",
    "salvage --tier DIR/remote/kafka-tiered-storage DIR/d1",
)
TIERED = (
    *TIER_CHECKS,
    "salvage --format table --tier DIR/remote/kafka-tiered-storage",
    "why --format table --tier DIR/remote/kafka-tiered-storage DIR/d1",
    "dump --visible --batches --tier DIR/remote/kafka-tiered-storage DIR/d1",
    "dump --from-offset 560 --limit 90 --format csv --tier DIR/remote/kafka-tiered-storage DIR/d1",
    "find-offset --explain --check --tier DIR/remote/kafka-tiered-storage DIR/d1 100",
    "find-time --explain --tier DIR/remote/kafka-tiered-storage DIR/d1 1790000041900",
    "find-time --tier DIR/remote/kafka-tiered-storage DIR/d1 max-timestamp",
    "find-time --format table --tier DIR/remote/kafka-tiered-storage DIR/d1 latest-tiered",
)
#: A controller's directory with users, rights, quotas and tokens.
RIGHTS = (
    "cluster --format table rights",
    "cluster --history rights",
    "cluster --view zookeeper rights",
    "cluster --view zookeeper --what users,acls --format table rights",
    "cluster --at -1 --format table rights",
    "timeline --format table --detail rights",
    "report --now 2026-11-28T00:00Z --redact rights",
)
#: Where the times of files say nothing, as they are one.
TIMELINES = (
    "timeline clean/4.1.1",
    "timeline clean/4.4.0",
    "timeline --format table clean/4.4.0-transactions",
    "timeline --format table damaged/4.1.1-tiered/d1",
    f"timeline {NODES}",
    f"timeline --format table --detail --from 2026-11-23T00:00Z {NODES}",
    f"timeline --what leader,isr,config --format csv {NODES}",
)
#: Of these all files lie in the image `disk`.
ON_DISK = (
    *("clean/0.8.2.2", "clean/0.10.2.2", "clean/2.8.2", "clean/4.1.1/d1", "clean/4.4.0/d1"),
    *("clean/4.4.0-transactions/d2", "damaged/4.4.0-three-nodes/n1"),
)
BLOCK = 4096
DAMAGED = 90  # copies, each asked some of the commands
_OF_THE_MOMENT = re.compile(
    r'"(?:seconds|kernel|sha256|device|used_bytes|free_bytes|file_system|allocated_bytes)":[^,}]*|'
    r'"size_bytes":\d+(?=,"used)|[\d.,]+ (?:[KMGT]i)?B? ?(?:bytes )?on disk|'
    r"\bseconds=[\d.]+|_verify_seconds [\d.]+|"
    r" (?:in|stake\.) [\d.]+ m?s\b"
)
#: Words of a disk or a machine in tables: lines with them are left out.
_LINES = re.compile(
    r"^.*(?:on disk|free|data directory|kernel|data-directory).*\n|"
    r"^\S*(?:clean|damaged)/\S+ +[\d.]+ \w+ +[\d.]+ \w+ +[\d.]+ .*\n",
    re.MULTILINE,
)
#: One of them is in each line that these expressions change.
_WORDS = (
    *("seconds", "kernel", "sha256", "device", "file_system", "on disk", " in ", "stake."),
    *('"used', "free", "allocated_bytes", "data directory", "data-directory"),
    *("clean/", "damaged/"),
)
_COLORS = re.compile(r"\x1b\[[0-9;]*m")


class Run(NamedTuple):
    """Words of a command; `damage`: the seed of what is done to a copy before, -1: nothing."""

    words: str
    damage: int = -1


def runs() -> Iterator[Run]:
    rng = random.Random(7)
    for command in COMMANDS:
        for sample in WHOLE:
            if rng.random() < 0.4:
                yield Run(command.replace("DIR", sample))
    yield from map(Run, (*TOGETHER, *RIGHTS, *TIMELINES, *OPTION_RUNS))
    yield from (Run(words, seed) for seed, words in RARE_DAMAGE)
    rng_tiered = random.Random(17)
    for seed in (-1, *range(DAMAGED, DAMAGED + 6)):
        tiered = "damaged/4.1.1-tiered" if seed < 0 else f"damaged-{seed}/damaged/4.1.1-tiered"
        for command in TIERED if seed < 0 else rng_tiered.sample(TIER_CHECKS, 3):
            yield Run(command.replace("DIR", tiered), seed)
    for seed in range(DAMAGED):
        sample = rng.choice(WHOLE)
        for command in (*rng.sample(COMMANDS, 2), rng.choice(AGAINST_ORIGINAL)):
            words = command.replace("DIR", f"damaged-{seed}/{sample}")
            yield Run(words.replace("ORIGINAL", sample), seed)


RUNS = [*runs()]


@pytest.fixture(scope="module")
def samples() -> Iterator[Path]:
    """Lie on a disk: what a directory takes is counted, which in memory is less.

    The name has nothing that Markdown would interpret, and so escapes.
    """
    folder = Path("/var/tmp", f"kdump-tests-{token_hex(8)}")
    folder.mkdir(0o700)
    try:
        _write(folder / "in" / "its")
        yield folder / "in" / "its"
    finally:
        shutil.rmtree(folder)


def _write(root: Path) -> None:
    shutil.copytree(SAMPLES, root)
    _write_image(root)
    _write_disk(root)
    (root / "carved.csv").write_text("carved-2,renamed-7\ncarved-3,renamed-7\n")
    (root / "maps.csv").write_text("orders.zstd,renamed\n")
    (root / "broker.properties").write_text("log.dirs=clean/4.1.1/d1\nlog.retention.hours=1\n")
    (root / "orders.avsc").write_text('{"type": "record", "name": "Order", "fields": []}')
    shutil.copy(next((root / "clean/4.1.1/d1/orders.zstd-0").glob("*.log")), root / "named.log")
    write_first_entries(root / "sent")
    write_rights(root / "rights")
    shutil.copy(Path(__file__).parents[1] / "captures/clients.pcap.gz", root)
    _settle(root)


def _write_image(root: Path) -> None:
    """Write pieces of logs as a disk may have them, whole, torn, and with a bit flipped."""
    rng = random.Random(11)
    pieces = []
    for log in sorted((root / "clean").rglob("*.log")):
        data = log.read_bytes()
        pieces += [rng.randbytes(rng.randrange(600)), data[: rng.choice((len(data), 5000))]]
    image = bytearray(b"".join(pieces))
    for _ in range(6):
        image[rng.randrange(len(image))] ^= 1 << rng.randrange(8)
    (root / "image").write_bytes(image)


def _write_disk(root: Path) -> None:
    """Write files into blocks as a file system has them, some in pieces, some lost, and names."""
    rng = random.Random(13)
    parts = []
    for number, sample in enumerate(ON_DISK, 20):
        data_directory = root / sample
        inodes = {path: rng.randrange(11, 1 << 20) for path in sorted(data_directory.rglob("*"))}
        directories = [data_directory, *(path for path in inodes if path.is_dir())]
        for directory in directories:
            there = [(inodes.get(directory, number), b"."), (2, b"..")]
            there += [
                (inode, path.name.encode())
                for path, inode in inodes.items()
                if path.parent == directory
            ]
            parts.append(ext4_block(there))
        for path in inodes:
            if not path.is_file() or path.stat().st_size > 40 * BLOCK:
                continue
            data = path.read_bytes()
            cuts = {0, len(data)}
            for _ in range(rng.choice((0, 0, 1, 2))):
                cuts.add(rng.randrange(0, len(data) + 1, BLOCK))
            parts += [
                data[start:end] for start, end in pairwise(sorted(cuts)) if rng.random() < 0.9
            ]
    rng.shuffle(parts)
    image = bytearray(b"".join(part.ljust(-(-len(part) // BLOCK) * BLOCK, b"\0") for part in parts))
    for _ in range(20):
        image[rng.randrange(len(image))] ^= 1 << rng.randrange(8)
    (root / "disk").write_bytes(image)


def _settle(root: Path) -> None:
    """Give all files one time, the same on each machine."""
    for path in root.rglob("*"):
        os.utime(path, (NOW_S - 90_000, NOW_S - 90_000))


def _damage(samples: Path, run: Run) -> None:
    """Copy a sample, and do a few things to it that a seed decides."""
    rng = random.Random(f"damage {run.damage}")
    name = next(word for word in run.words.split() if word.startswith("damaged-"))
    name = name.partition("/remote/")[0]
    copy = samples / name
    if copy.exists():
        return
    shutil.copytree(samples / name.partition("/")[2], copy)
    files = sorted(path for path in copy.rglob("*") if path.is_file())
    for _ in range(rng.choice((1, 1, 2, 4))):
        path = rng.choice(files)
        data = bytearray(path.read_bytes()) if path.exists() else bytearray()
        at = rng.randrange(len(data)) if data else 0
        match rng.randrange(6):
            case 0 | 1 if data:
                data[at] ^= 1 << rng.randrange(8)
            case 2 if data:
                data[at : at + 40] = rng.randbytes(min(40, len(data) - at))
            case 3:
                del data[at:]
            case 4:
                data += bytes(rng.choice((7, 100)))
            case _:
                path.unlink(missing_ok=True)
                continue
        path.write_bytes(data)
    _settle(copy)


def run_and_normalize(samples: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what a run prints, and its status, but for what a machine says of itself."""
    if run.damage >= 0:
        _damage(samples, run)
    monkeypatch.chdir(samples)
    drawn = crc32(run.words.encode())
    monkeypatch.setenv("COLUMNS", str(WIDTHS[drawn % len(WIDTHS)]))
    monkeypatch.setenv("TERM", "xterm")
    for name in ("COLORTERM", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    if drawn // len(WIDTHS) % 2:
        monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("kdump.engine.info.run._room", lambda path: None)
    monkeypatch.setattr("sys.argv", ["kdump", *shlex.split(run.words)])
    monkeypatch.setattr(time, "time", lambda: float(NOW_S))
    monkeypatch.setattr(time, "time_ns", lambda: NOW_S * 10**9)
    result = CliRunner().invoke(cli, shlex.split(run.words), color=True)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    text = f"{result.exit_code}\n{result.stdout}\n{result.stderr}"
    if (out := re.search(r"--out (\S+)", run.words)) is not None:
        text += _written(samples / out[1])
    text = text.replace(str(samples), "ROOT")
    if (written := samples / "written").exists():
        text += written.read_text("utf-8")
        written.unlink()
    return "".join(map(_without_moment, text.splitlines(keepends=True)))


def _without_moment(line: str) -> str:
    plain = _COLORS.sub("", line)
    if not any(word in plain for word in _WORDS):
        return line
    kept = _LINES.sub("", _OF_THE_MOMENT.sub("", plain))
    return line if kept == plain else kept


def _written(out: Path) -> str:
    """Read all files that a run wrote; what is no text in hexadecimal."""
    found = sorted(path for path in out.rglob("*") if path.is_file())
    texts = (path.read_bytes() for path in found)
    shown = (one.decode() if one.isascii() and b"\0" not in one else one.hex() for one in texts)
    return "".join(f"{path}\n{text}\n" for path, text in zip(found, shown, strict=True))


def digest(text: str) -> str:
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def name_of(run: Run) -> str:
    return run.words


@pytest.mark.skipif(RECORDS, reason="they are recorded")
@pytest.mark.parametrize("run", RUNS, ids=name_of)
def test_outputs_match_the_record(samples: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    text = run_and_normalize(samples, run, monkeypatch)
    assert digest(text) == read_recorded()[run.words], text


@cache
def read_recorded() -> dict[str, str]:
    lines = RECORDED.read_text("utf-8").splitlines()
    return {words: known for known, _, words in (line.partition(" ") for line in lines)}


@pytest.mark.skipif(not RECORDS, reason="KDUMP_RECORD=1 records anew")
def test_record(samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        f"{digest(run_and_normalize(samples, run, monkeypatch))} {run.words}\n" for run in RUNS
    ]
    RECORDED.write_text("".join(lines), "utf-8")
