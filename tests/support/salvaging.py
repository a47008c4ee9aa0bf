"""Salvages of copies made by hand, and what they come to."""

from pathlib import Path
from typing import Any

import damage
from comparing import Batch

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


def built(tmp_path: Path, *paths: Path, **options: Any) -> tuple[dict[str, Any], bytes]:
    """Salvage to a directory; give the row, and the log there."""
    fields = row_of(*paths, out=str(tmp_path / "out"), **options)
    logs = sorted((tmp_path / "out").glob("*/*.log"))
    return fields, b"".join(log.read_bytes() for log in logs)


def data_of(log: list[Batch]) -> bytes:
    return b"".join(batch.data() for batch in log)


def broken(batch: Batch) -> bytes:
    return damage.flip_bit(batch.data(), 70, 3)


def holed(log: list[Batch], *numbers: int) -> list[Batch | bytes]:
    return [broken(each) if number in numbers else each for number, each in enumerate(log)]


def epochs_file(*entries: tuple[int, int]) -> dict[str, str]:
    lines = [f"{epoch} {start}" for epoch, start in entries]
    return {"/leader-epoch-checkpoint": "\n".join(["0", str(len(lines)), *lines]) + "\n"}
