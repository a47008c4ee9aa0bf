"""Holes of a sparse file are zeros that nobody reads: the same results, whatever their size.

`KDUMP_FUZZ=long` takes 2,000 files made at random; each is read with and without asking for holes.
"""

import errno
import os
import random
from pathlib import Path
from typing import Any

import commands
import pytest
from directories import batches
from each import each
from long_runs import LONG, SEED

from kdump.record.frames import Gap, Oversize, Run
from kdump.storage import source as source_module
from kdump.storage.file_records import FileRecords
from kdump.storage.source import Source

_COUNT = 2000 if LONG else 60
TIB = 1 << 40
NAME = f"{0:020}.log"
IO = Path("/proc/self/io")
COMMANDS = [
    "dump",
    "dump --batches",
    "dump --format kafka",
    "verify --quick",
    "verify --deep",
    "predict",
    "usage",
    "sequences",
    "reindex",
]
# Every command over a file that has data behind a hole; the others go by the same walk.
FAMILIES = [
    *(("middle", command) for command in COMMANDS),
    *(
        (family, command)
        for family in ("hole", "tail", "old")
        for command in (COMMANDS[0], "reindex")
    ),
    ("noise", "dump"),
]


def write_sparse(path: Path, pieces: list[tuple[int, bytes]], size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for position, data in pieces:
            file.seek(position)
            file.write(data)
        try:
            file.truncate(size)
        except OSError as error:
            pytest.skip(f"the file system takes no file of that size: {error}")
    if path.stat().st_blocks * 512 > 1 << 24:
        path.unlink()
        pytest.skip("the file system has no sparse files")


def bytes_read() -> int:
    """Return how many bytes this process got from `read` and its like."""
    counts = dict(line.split(": ") for line in IO.read_text().splitlines())
    return int(counts["rchar"])


def has_holes(path: Path) -> bool:
    write_sparse(path, [], 1 << 20)
    with Source(path) as source:
        return source.next_data(0) == source.size


@pytest.mark.parametrize(("family", "command"), FAMILIES)
def test_tebibyte_of_holes_is_not_read(tmp_path: Path, family: str, command: str) -> None:
    if not has_holes(tmp_path / "probe"):
        pytest.skip("the file system does not tell where its holes are")
    if not IO.exists():
        pytest.skip("the system does not count what a process reads")
    rng = random.Random(SEED)
    first, last = batches(0, 50), batches(1000, 5)
    # Noise claims entries of up to 2 GiB, which are read to sum them, by each pass.
    size = 1 << 28 if family == "noise" and not LONG else TIB
    pieces = {
        "hole": [],
        "old": [],
        "tail": [(0, first)],
        "middle": [(0, first), (TIB - 9000, last)],
        "noise": [(0, first + rng.randbytes(200)), (size // 2, rng.randbytes(100))],
    }[family]
    path = (tmp_path / "orders-0" / NAME).with_suffix(".kafka" if family == "old" else ".log")
    write_sparse(path, pieces, size)
    before = bytes_read()
    result = commands.run(*command.split(), path.parent)
    assert bytes_read() - before < (1 << 34 if family == "noise" else 64 << 20)
    if family == "middle" and command.startswith("dump"):
        assert "offset: 1000 " in result.stdout or 'offset":1000,' in result.stdout


def told(path: Path) -> list[tuple[Any, ...]]:
    """Say what a walk finds."""
    found: list[tuple[Any, ...]] = []
    with Source(path) as source:
        for item in FileRecords(source).walk():
            if isinstance(item, Gap):
                found.append((item.position, item.size_bytes, item.reason, item.to_end))
            else:
                assert isinstance(item, (Run, Oversize))
                columns = item.batches
                found += [
                    tuple(columns.block[row :: columns.stride]) for row in range(columns.count)
                ]
    return found


@pytest.mark.fuzz
def test_holes_are_read_as_zeros(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / NAME
    if not has_holes(path):
        pytest.skip("the file system does not tell where its holes are")
    gaps = 0
    for number in range(_COUNT):
        rng = random.Random(f"{SEED}/{number}")
        pieces, position, base = [], 0, 0
        for _ in range(rng.randrange(1, 6)):
            log = batches(base, rng.randrange(1, 40))
            base += 1000
            if rng.random() < 0.3:
                log = rng.randbytes(rng.randrange(1, 9000)) + log
            if rng.random() < 0.3:
                log = log[: rng.randrange(len(log))]
            pieces.append((position, log))
            position += len(log)
            if rng.random() < 0.8:
                position += rng.choice((0, 1, 4095, 4096, 4100, rng.randrange(1 << 20)))
                # So that the zeros before a base offset and a size may lie in the hole.
                position -= position % 4096 if rng.random() < 0.3 else 0
                position = max(position, pieces[-1][0] + len(log))
        write_sparse(path, pieces, position + rng.choice((0, 1 << 16, rng.randrange(1 << 19))))
        with monkeypatch.context() as patched:
            patched.setattr(Source, "next_data", lambda self, position: position)
            expected = told(path)
        assert told(path) == expected, f"{SEED}/{number}"
        gaps += len(expected) > 1
    assert gaps > _COUNT // 4


@each("zeros", range(12))
def test_entry_may_start_in_a_hole(tmp_path: Path, zeros: int) -> None:
    """Where offset and size are small, an entry's first bytes are zeros that a hole may hold."""
    path = tmp_path / NAME
    log = batches(0, 3)
    assert not any(log[:zeros])
    write_sparse(path, [(0, b"\xff" * 40), (8 << 16, log[zeros:])], 9 << 16)
    with Source(path) as source:
        runs = [item for item in FileRecords(source).walk() if isinstance(item, Run)]
    assert [run.batches.count for run in runs] == [3]


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_file_system_without_holes_is_supported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    path = tmp_path / NAME
    write_sparse(path, [(0, batches(0, 2)), (1 << 20, batches(10, 3))], 1 << 21)
    expected = told(path)

    class Blind:
        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

        def lseek(self, *_: int) -> int:
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(source_module, "os", Blind())
    with Source(path) as source:
        assert source.next_data(5000) == 5000
    assert told(path) == expected
