"""Salvages of copies made by hand, and what they come to."""

import random
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import damage
from comparing import Batch
from oracle import PROFILES, Oracle, OracleError

from kdump.engine.salvage.options import SalvageOptions
from kdump.engine.salvage.run import salvage
from kdump.errors import KdumpError
from kdump.findings.rows import Row


def items_of(*paths: Path, **options: Any) -> list[Row | KdumpError]:
    return list(salvage(list(map(str, paths)), SalvageOptions(**options)))


def row_of(*paths: Path, **options: Any) -> dict[str, Any]:
    (row,) = items_of(*paths, **options)
    assert isinstance(row, Row), row
    return row.fields


def build_salvage(tmp_path: Path, *paths: Path, **options: Any) -> tuple[dict[str, Any], bytes]:
    """Salvage to a directory; give the row, and the log there."""
    fields = row_of(*paths, out=str(tmp_path / "out"), **options)
    logs = sorted((tmp_path / "out").glob("*/*.log"))
    return fields, b"".join(log.read_bytes() for log in logs)


def data_of(log: list[Batch]) -> bytes:
    return b"".join(batch.data() for batch in log)


def break_batch(batch: Batch) -> bytes:
    return damage.flip_bit(batch.data(), 70, 3)


def remove_batches(log: list[Batch], *numbers: int) -> list[Batch | bytes]:
    return [break_batch(each) if number in numbers else each for number, each in enumerate(log)]


def epochs_file(*entries: tuple[int, int]) -> dict[str, str]:
    lines = [f"{epoch} {start}" for epoch, start in entries]
    return {"/leader-epoch-checkpoint": "\n".join(["0", str(len(lines)), *lines]) + "\n"}


class Entry(NamedTuple):
    """One batch of the log that all copies once were."""

    file: str
    position: int
    size: int
    first: int
    last: int
    magic: int
    data: bytes

    @property
    def end(self) -> int:
        return self.position + self.size


def make_log(asked: Oracle, seed: int, path: Path) -> list[Entry]:
    """Write a log, and say which batches it has."""
    rng = random.Random(f"log {seed}")
    profile = rng.choice([name for name in PROFILES if name != "metadata"])
    options = {"batches": rng.randrange(6, 120), "segmentBytes": rng.choice((20_000, 100_000))}
    try:
        asked.make(profile, seed, path, **options)
    except OracleError:  # a batch that is larger than the segment
        shutil.rmtree(path, ignore_errors=True)
        asked.make(profile, seed, path, **options | {"segmentBytes": 1 << 20})
    found = []
    for log in sorted(path.glob("*.log")):
        answer = asked.ask("batches", dir=path, segment=int(log.stem))
        data = log.read_bytes()
        for one in answer["batches"]:
            at, length = one["position"], one["sizeInBytes"]
            found.append(
                Entry(
                    log.name,
                    at,
                    length,
                    one["baseOffset"],
                    one["lastOffset"],
                    one["magic"],
                    data[at : at + length],
                )
            )
    return found
