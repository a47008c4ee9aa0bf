"""A sound partition of two segments, and how tests spoil it."""

from pathlib import Path

import damage
from segments import (
    batches,
    entries,
    read,
    write,
    write_partition,
)

SEALED, ACTIVE = 0, 60


def sound_partition(tmp_path: Path) -> Path:
    return write_partition(
        tmp_path, {SEALED: batches(SEALED, ACTIVE), ACTIVE: batches(ACTIVE, ACTIVE + 30)}
    )


def positions(directory: Path, base: int = SEALED) -> list[int]:
    return [entry.position for entry in entries(read(directory, base, "log"))]


def change(directory: Path, base: int, position: int, new: bytes) -> None:
    write(directory, base, "log", damage.put(read(directory, base, "log"), position, new))
