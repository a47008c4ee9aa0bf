"""Make rows of the answers of DuckDB, with values as JSON has them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, time
from decimal import Decimal
from math import isfinite
from typing import Any

from kdump.output.values import bytes_json
from kdump.rows.row import Row
from kdump.rows.words import Json


class Answer(Row, kind="answer", streamed=True):
    """A row of an answer: its columns as they are called in the question."""

    columns: Json

    @property
    def fields(self) -> dict[str, Any]:
        """Its columns by name."""
        found: dict[str, Any] = self.columns
        return found


def answers_of(batch: Any, mode: int) -> Iterator[Answer]:
    """Yield the rows of a record batch; bytes inside lists are written under `mode`."""
    names: dict[str, None] = {}
    for number, name in enumerate(batch.schema.names):
        names[f"{name}_{number}" if name in names else name] = None  # none is lost
    for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
        cells = (each if isinstance(each, bytes) else _plain(each, mode) for each in row)
        yield Answer(dict(zip(names, cells, strict=True)))


def _plain(value: Any, mode: int) -> Any:
    """Return a value as JSON has it: times in ISO 8601, what JSON lacks as text."""
    if isinstance(value, bytes):
        return bytes_json(value, mode)
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, dict):
        return {str(key): _plain(each, mode) for key, each in value.items()}
    if type(value) in (list, tuple):
        return [_plain(each, mode) for each in value]
    if isinstance(value, (date, time)):
        return value.isoformat().replace("+00:00", "Z")
    is_plain = value is None or isinstance(value, (str, int, float))
    is_plain = is_plain and not (isinstance(value, float) and not isfinite(value))
    return value if is_plain else str(value)
