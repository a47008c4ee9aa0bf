"""What the search after damage costs: walks over damaged logs against a plain read with CRC.

    python tools/benchmarks/search.py DIRECTORY [--mib 1024] [--only NAME ...]

Each log is made in DIRECTORY (and taken away), then read by a process of its own: all of it in
blocks with the sum of each (the plain read), then the walk. A line tells the processor seconds of
both, their ratio, what was found of what is sound, and the peak of the process's memory.
"""

import argparse
import json
import random
import resource
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    sys.path.insert(0, str(here.parents[1] / "tests/support"))
    sys.path.append(str(here.parent.parent))  # the checkout serves where kdump is not installed

import builders

BLOCK = 1 << 18


class Case(NamedTuple):
    """A log: its parts, and how many records lie in batches that nothing broke."""

    parts: Iterator[tuple[bytes, int]]


def batches(size: int, records: int, value: int) -> Iterator[tuple[bytes, int]]:
    """Yield batches that come to about `size` bytes, with their number of records."""
    rng = random.Random(1)
    payloads = [
        b"".join(builders.record(n, value=rng.randbytes(value)) for n in range(records))
        for _ in range(16)
    ]
    sample = builders.batch([b""] * records, payload=payloads[0])
    for number in range(max(size // len(sample), 1)):
        sealed = _SEALED.get((records, number % 16))
        if sealed is None:
            sealed = builders.batch([b""] * records, payload=payloads[number % 16])
            _SEALED[records, number % 16] = sealed
        yield struct.pack(">q", number * records) + sealed[8:], records


_SEALED: dict[tuple[int, int], bytes] = {}  # the offset is not under the sum


def flip_bit(batch: bytes, at: int, bit: int) -> bytes:
    """Flip one bit."""
    return batch[:at] + bytes([batch[at] ^ 1 << bit]) + batch[at + 1 :]


def break_batches(
    parts: Iterator[tuple[bytes, int]], chosen: Callable[[int], bool], *, length: bool = False
) -> Iterator[tuple[bytes, int]]:
    """Flip a bit in each batch chosen: of what the sum covers, or of its length."""
    rng = random.Random(2)
    for number, (batch, count) in enumerate(parts):
        if not chosen(number):
            yield batch, count
        elif length:
            yield flip_bit(batch, 8 + rng.randrange(4), rng.randrange(8)), 0
        else:
            yield flip_bit(batch, rng.randrange(21, len(batch)), rng.randrange(8)), 0


def anywhere(parts: Iterator[tuple[bytes, int]]) -> Iterator[tuple[bytes, int]]:
    """Flip a bit of each batch wherever it falls; a sum tells of it or not."""
    rng = random.Random(3)
    for batch, count in parts:
        at = rng.randrange(len(batch))
        beside = 0 <= at < 8 or 12 <= at < 16  # the base offset, the leader epoch
        yield flip_bit(batch, at, rng.randrange(8)), count if beside else 0


def noise(size: int) -> Iterator[tuple[bytes, int]]:
    """Yield random bytes."""
    rng = random.Random(4)
    for _ in range(0, size, BLOCK):
        yield rng.randbytes(BLOCK), 0


def zeros(size: int) -> Iterator[tuple[bytes, int]]:
    """Yield zeros, then a batch: a search has to look behind them."""
    yield b"\1", 0
    for _ in range(0, size, BLOCK):
        yield bytes(BLOCK), 0
    yield builders.batch(base_offset=5), 1


def bait(size: int) -> Iterator[tuple[bytes, int]]:
    """Yield headers that are believed and claim megabytes, packed as densely as they go."""
    rng = random.Random(5)
    for number in range(size // BLOCK):
        block = bytearray()
        while len(block) < BLOCK - 26:
            claim = rng.randrange(1 << 12, 1 << 24)
            block += struct.pack(">qiIbBii", number, claim, 1, 0, 0, -1, 0)
        yield bytes(block.ljust(BLOCK, b"\0")), 0


def _some(size: int) -> set[int]:
    del size
    return set(random.Random(6).sample(range(6147), 1000))


def cases(size: int) -> dict[str, Callable[[], Iterator[tuple[bytes, int]]]]:
    """Name the logs; those of the issue keep their own sizes."""
    mib = 1 << 20
    return {
        "sound": lambda: batches(size, 100, 180),
        "sound-single": lambda: batches(size, 1, 560),
        "some": lambda: break_batches(batches(128 * mib, 100, 209), _some(size).__contains__),
        "singles-then-sound": lambda: break_batches(
            batches(67 * mib, 1, 560), lambda number: 100 <= number < 100 + 1_780_000 // 630
        ),
        "second-length": lambda: break_batches(
            batches(128 * mib, 1, 607), lambda number: number % 2 == 1, length=True
        ),
        "flips": lambda: break_batches(batches(size, 100, 180), lambda number: True),
        "flips-single": lambda: break_batches(batches(size, 1, 560), lambda number: True),
        "anywhere": lambda: anywhere(batches(size, 1, 560)),
        "lengths": lambda: break_batches(batches(size, 100, 180), lambda number: True, length=True),
        "lengths-single": lambda: break_batches(
            batches(size, 1, 560), lambda number: True, length=True
        ),
        "noise": lambda: noise(size),
        "zeros": lambda: zeros(size),
        "bait": lambda: bait(size),
    }


def read(path: str) -> None:
    """Read one log, plainly and by the walk, and say what it took."""
    from kdump import kernels
    from kdump.record.frames import Gap
    from kdump.storage.file_records import FileRecords
    from kdump.storage.source import Source

    def peak() -> float:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    view = memoryview(bytearray(BLOCK))
    records = gaps = position = crc = 0
    gave_up = False
    with Source(path) as source:
        for _ in range(2):  # the first brings the file into the cache
            started, position = time.process_time(), 0
            while size := source.read_into(view, position, BLOCK):
                crc = kernels.crc32c(view, 0, size, crc)
                position += size
            plain = time.process_time() - started
        before = peak()
        started = time.process_time()
        for item in FileRecords(source).walk():
            if isinstance(item, Gap):
                gaps += 1
                gave_up = gave_up or item.reason == "search-given-up"
            else:
                records += sum(item.batches.records_counts)
        walked = time.process_time() - started
    told = {"plain": plain, "walk": walked, "records": records, "gaps": gaps}
    print(json.dumps(told | {"gave_up": gave_up, "before": before, "peak": peak()}))


def main() -> None:
    """Make, read, tell."""
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--read", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.read:
        read(str(args.directory))
        return
    for name, parts in cases(args.mib << 20).items():
        if args.only and name not in args.only:
            continue
        path = args.directory / "00000000000000000000.log"
        sound = 0
        with path.open("wb") as file:
            for data, records in parts():
                file.write(data)
                sound += records
        command = [sys.executable, __file__, str(path), "--read"]
        told = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        print(
            f"{name:20} {path.stat().st_size >> 20:5} MiB  plain {told['plain']:6.2f} s  "
            f"walk {told['walk']:7.2f} s  ratio {told['walk'] / told['plain']:6.1f}  "
            f"{told['records']:,} of {sound:,} records  {told['gaps']:,} gaps  "
            f"{told['peak']:.0f} MiB (before {told['before']:.0f})"
            + ("  GAVE UP" if told["gave_up"] else ""),
            flush=True,
        )
        path.unlink()


if __name__ == "__main__":
    main()
