"""What carving an image costs: the whole first pass against a plain read with CRC.

    python tools/benchmarks/carving.py DIRECTORY [--mib 1024]

Images of noise, of text, of zeros and of logs, with large batches and with single records, are made
in DIRECTORY (and taken away). A process of its own reads each plainly and carves it, twice; a line
tells the processor seconds of the faster of both, their ratio, and the peak of its memory.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    sys.path[:0] = [str(here.parents[1] / "tests/support"), str(here)]
    sys.path.append(str(here.parent.parent))

import search

MIB = 1 << 20


def images(mib: int) -> dict[str, Iterator[bytes]]:
    """Name the images and give their bytes."""
    rng = random.Random(1)
    words = " ".join(f"{rng.choice('abcdef') * rng.randrange(1, 9)}{n}" for n in range(300_000))
    text = words.encode()[:MIB]
    size = mib * MIB
    return {
        "noise": (rng.randbytes(MIB) for _ in range(mib)),
        "text": (text for _ in range(mib)),
        "zeros": (bytes(MIB) for _ in range(mib)),
        "logs": (data for data, _ in search.batches(size, 100, 180)),
        "logs-single": (data for data, _ in search.batches(size, 1, 560)),
    }


def read(path: str) -> None:
    """Read one image, plainly and by carving, and say what it took."""
    from kdump import kernels
    from kdump.engine.salvage.carved_joins import Joins
    from kdump.engine.salvage.carving import carve
    from kdump.storage.file_records import DEFAULT_LIMIT
    from kdump.storage.source import Source

    view = memoryview(bytearray(search.BLOCK))
    plain, carving = [], []
    for _ in range(3):  # the first brings the file into the cache
        with Source(path) as source:
            started, position = time.process_time(), 0
            while size := source.read_into(view, position, search.BLOCK):
                kernels.crc32c(view, 0, size, 0)
                position += size
            plain.append(time.process_time() - started)
    for _ in range(2):
        started = time.process_time()
        joins = Joins([carve(path, lambda _: None, DEFAULT_LIMIT)])
        carving.append(time.process_time() - started)
    batches = sum(extent.batches for extent in joins.extents)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    told = {"plain": min(plain), "carve": min(carving), "batches": batches, "peak": peak}
    print(json.dumps(told | {"extents": len(joins.extents)}))


def main() -> None:
    """Make, read, tell."""
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--read", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.read:
        read(str(args.directory))
        return
    for name, parts in images(args.mib).items():
        path = args.directory / "disk.img"
        with path.open("wb") as file:
            file.writelines(parts)
        command = [sys.executable, __file__, str(path), "--read"]
        told = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        print(
            f"{name:12} {path.stat().st_size >> 20:5} MiB  plain {told['plain']:6.3f} s  carved "
            f"{told['carve']:6.3f} s  ratio {told['carve'] / told['plain']:4.2f}  "
            f"{told['batches']:,} batches in {told['extents']} extents  {told['peak']:.0f} MiB",
            flush=True,
        )
        path.unlink()


if __name__ == "__main__":
    main()
