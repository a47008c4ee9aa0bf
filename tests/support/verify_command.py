"""`kdump verify` on a directory of two small partitions."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import builders
import commands
import damage
from click.testing import Result

TIME = 1_700_000_000_000
BASES = (0, 10, 20)


def log(base: int) -> bytes:
    return b"".join(
        builders.batch(
            [builders.record(n, 0, b"k", b"v" * 20) for n in range(2)],
            base_offset=base + more,
            base_timestamp=TIME,
            max_timestamp=TIME,
        )
        for more in range(0, 10, 2)
    )


def write_partition(directory: Path) -> Path:
    """Write three segments with all that belongs to them."""
    directory.mkdir(parents=True)
    for base in BASES:
        path = directory / f"{base:020}.log"
        path.write_bytes(log(base))
        path.with_suffix(".index").write_bytes(b"")
        path.with_suffix(".timeindex").write_bytes(TIME.to_bytes(8) + (1).to_bytes(4))
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    return directory


def break_batch(data: Path) -> None:
    path = data / "orders-1" / f"{10:020}.log"
    path.write_bytes(damage.flip(path.read_bytes(), len(log(0)) // 5 + 70))


def break_index(data: Path) -> None:
    (data / "orders-0" / f"{0:020}.index").unlink()


run = partial(commands.run, "verify")


def names_in(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def rows(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def rows_but_seconds(result: Result) -> list[dict[str, Any]]:
    found = rows(result)
    del found[-1]["seconds"]
    return found


predict = partial(commands.run, "predict")
