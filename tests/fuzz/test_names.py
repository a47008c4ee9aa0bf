"""Random directories of hostile names and odd entries, through every command and form.

Held: no traceback, an end in time, the sound partition read, rows that programs can read, a reset
plan of nothing but topics that Kafka allows, nothing that a terminal would obey, and no file
changed. `KDUMP_FUZZ=long` takes 1,500 directories, KDUMP_FUZZ_COUNT any number, KDUMP_FUZZ_SEED
others.
"""

from __future__ import annotations

import csv
import io
import json
import os
import random
import re
import shutil
import socket
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from directories import DataDirectory, batches, write_segment
from long_runs import SEED, how_many
from terminals import find_controls

from kdump import kernels
from kdump.cli import cli, results

_COUNT = how_many(12, 1500)
_COMMANDS_EACH = 8
#: Of CPU, and of pauses that a command asks for.
_SECONDS = 5.0 if kernels.NAME == "compiled" else 30.0
_PAUSES = 2.0

COMMANDS = [
    f"{command} --format {form}"
    for command, forms in (
        ("dump", "table jsonl csv kafka"),
        ("dump --batches", "table jsonl csv kafka"),
        ("dump --entries --retired", "table jsonl csv kafka"),
        ("verify --deep --notes --summary-by broker,topic", "table jsonl csv reset-csv"),
        ("predict --notes", "table jsonl csv reset-csv"),
        ("verify --quick", "table jsonl csv"),
        ("find-offset --retired", "table jsonl csv reset-csv"),
        ("find-time --isolation read_committed", "table jsonl csv reset-csv"),
        ("find-offset --explain --check", "table jsonl"),
        ("reindex --all", "table jsonl csv"),
        ("usage --by topic,partition --retired", "table jsonl csv"),
        ("usage --by key", "table jsonl csv"),
        ("sequences --explained", "table jsonl csv"),
        ("groups --retired", "table jsonl csv reset-csv"),
        ("groups --history", "table jsonl csv"),
        ("transactions --retired", "table jsonl csv"),
        ("compare", "table jsonl csv"),
    )
    for form in forms.split()
] + ["verify --nagios", "dump --hex --limit 3 --format table"]

_BITS = (
    b"\x1b]52;c;aGk=\x07", b"\x1b[2J", b"\x9b1m", b"\xc2\x9b", b"\n", b"\r", b"\t", b"\x7f",
    b"\xff", b"\xed\xa0\x80", "\u202e".encode(), "\u2028".encode(), b"\\", b"\\n", b",", b'"',
    b"=1+1", b"'", b"%0A", b"[red]", b"-", b".", b"..", b"-0", b" ", b"a", b"orders",
    "é".encode(), b"{}", b"|", b"x" * 200,
)  # fmt: skip
_ENDINGS = (
    b"-0", b"-1", b"-07", b"-2147483648", b"", b".0123456789abcdef0123456789abcdef-delete",
    b"-0.0123456789abcdef0123456789abcdef-future", b"-1.x-stray", b".log", b".checkpoint", b".tmp",
    b".kdump-tmp", b"-checkpoint", b".swap", b".bak-20260101T000000.000000Z",
)  # fmt: skip
_FILES = (
    b"00000000000000000000.log", b"00000000000000000000.index", b"00000000000000000007.timeindex",
    b"00000000000000000020.txnindex", b"00000000000000000020.snapshot", b"3.kafka", b"-1.log",
    b"leader-epoch-checkpoint", b"partition.metadata", b"meta.properties", b".lock",
    b"replication-offset-checkpoint", b"recovery-point-offset-checkpoint", b".kafka_cleanshutdown",
    b"00000000000000000020-0000000001.checkpoint", b"00000000000000000009.log.deleted",
)  # fmt: skip

pytestmark = pytest.mark.fuzz


def name_of(rng: random.Random) -> str:
    """Make a name: of hostile bits, or one that is known."""
    if rng.random() < 0.35:
        return os.fsdecode(rng.choice(_FILES))
    bits = b"".join(rng.choices(_BITS, k=rng.randrange(1, 4)))
    return os.fsdecode((bits + rng.choice(_ENDINGS))[:255].replace(b"/", b"") or b"x")


def plant(rng: random.Random, directory: Path, depth: int = 0) -> None:
    """Put an entry of any kind in a directory."""
    at = directory / name_of(rng)
    if at.name in (".", "..") or os.path.lexists(at):
        return
    kind = rng.randrange(9 if depth else 12)
    if kind == 0:
        at.symlink_to(at.name)
    elif kind == 1:
        at.symlink_to(os.fsdecode(b"nowhere" + rng.choice(_BITS)))
    elif kind == 2:
        at.symlink_to("..")
    elif kind == 3:
        os.mkfifo(at)
    elif kind == 4 and len(os.fsencode(at)) < 100:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(os.fsencode(at))
    elif kind == 5:
        at.mkdir()
    elif kind == 6:
        at.write_bytes(rng.randbytes(rng.randrange(200)))
    elif kind == 7:
        at.write_bytes(b"0\n1\n" + rng.choice(_BITS) + b" 0 7\n")
    elif kind == 8:
        at.touch()
    else:
        log = bytearray(batches(0, 10))
        if rng.random() < 0.5:
            log[rng.randrange(len(log))] ^= 1 << rng.randrange(8)
        write_segment(at, rng.choice((0, 0, 20)), bytes(log), next_offset=20)
        for _ in range(rng.randrange(4)):
            plant(rng, at, depth + 1)


def make(rng: random.Random, parent: Path) -> Path:
    root = parent / name_of(rng).replace(".", "_")
    data = DataDirectory(root)
    data.partition("sound", 0)
    data.stop(clean=rng.random() < 0.5)
    for _ in range(rng.randrange(1, 8)):
        plant(rng, root)
    return root


def shape(root: Path) -> dict[str, tuple[int, int, int]]:
    found = {}
    for directory, below, files in os.walk(root):
        for name in (*below, *files):
            status = os.lstat(os.path.join(directory, name))  # noqa: PTH118
            found[f"{directory}/{name}"] = status.st_ino, status.st_size, status.st_mtime_ns
    return found


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Collect the seconds of each pause; nobody writes to these files, so none is made."""
    asked: list[float] = []
    monkeypatch.setattr(time, "sleep", asked.append)
    return asked


def run(command: str, root: Path, copy: Path, pauses: list[float], *, terminal: bool) -> str | None:
    """Run a command and say what is wrong with what it does and writes."""
    words = [*command.split(), str(root)]
    if command.startswith("compare"):
        words.append(str(copy))
    elif command.startswith("find-offset"):
        words.append("3")
    elif command.startswith("find-time"):
        words.append("earliest")
    pauses.clear()
    began = time.process_time()
    result = CliRunner(env={"NO_COLOR": "1", "TERM": "dumb"}).invoke(cli, words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return f"{result.exception!r}"
    if time.process_time() - began > _SECONDS:
        return "took too long"
    if sum(pauses) > _PAUSES:
        return f"paused {len(pauses)} times"
    if result.exit_code not in range(6):
        return f"status {result.exit_code}"
    if found := find_controls(result.stderr_bytes):
        return f"standard error: {found}"
    if command.startswith(_TELL_TOPICS) and b"sound" not in result.stdout_bytes:
        return f"the sound partition was not read: {result.stderr[:300]}"
    if terminal and (found := find_controls(result.stdout_bytes)):
        return f"on a terminal: {found}"
    return form_of(command, result.stdout_bytes)


def form_of(command: str, out: bytes) -> str | None:
    """Say what is wrong with rows that programs read."""
    if command.endswith("reset-csv"):
        odd = [line for line in out.splitlines() if not _PLAN.fullmatch(line)]
        return f"reset plan: {odd}" if odd else None
    if command.endswith(("kafka", "table")) or "--nagios" in command:
        found = find_controls(out)
        return f"text: {found}" if found else None
    if command.endswith("jsonl"):
        for line in out.decode().splitlines():
            assert "row" in json.loads(line)
        return None
    rows = list(csv.reader(io.StringIO(out.decode("utf-8", "surrogateescape"), newline="")))
    widths = {len(row) for row in rows if row and row[0] == "row"}
    odd_rows = [row for row in rows if len(row) not in widths]
    return f"CSV: {odd_rows}" if odd_rows else None


#: These have something to say of every partition.
_TELL_TOPICS = (
    "dump --batches --format jsonl",
    "dump --batches --format csv",
    "dump --batches --format kafka",
    "usage --by topic,partition",
    "reindex",
)
_PLAN = re.compile(rb"[A-Za-z0-9._-]+,[0-9]+,-?[0-9]+")


@pytest.mark.parametrize("terminal", [False, True], ids=["pipe", "terminal"])
def test_hostile_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pauses: list[float], terminal: bool
) -> None:
    failures = []
    for number in range(_COUNT):
        rng = random.Random(f"{SEED}/{number}/{terminal}")
        parent = tmp_path / str(number)
        parent.mkdir()
        root = make(rng, parent)
        copy = parent / "copy"
        DataDirectory(copy).partition("sound", 0, (0, 12))
        before = shape(root)
        for command in rng.sample(COMMANDS, _COMMANDS_EACH):
            if terminal:
                monkeypatch.setattr(results, "is_terminal", lambda file: file is not None)
            wrong = run(command, root, copy, pauses, terminal=terminal)
            if wrong is not None:
                failures.append(f"{SEED}/{number} {command}: {wrong}")
        if shape(root) != before:
            failures.append(f"{SEED}/{number}: something was changed")
        shutil.rmtree(parent)
    assert not failures, "\n".join(failures[:10])
