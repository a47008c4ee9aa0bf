"""Small partitions for lookups, and the rows of their answers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import builders
import partitions
import pytest
from declared_rows import find_undeclared

from kdump.engine.find.options import FindOptions
from kdump.engine.find.run import find_offset, find_time
from kdump.findings.finding import Finding
from kdump.findings.rows import Row

Fields = dict[str, Any]
TIME = 1_700_000_000_000


def batches(*bases: int, time_ms: int = TIME) -> bytes:
    """Write a batch of two records at each of some offsets; the time is the offset's."""
    return b"".join(
        builders.batch(
            [builders.record(n, n, b"k", b"v") for n in range(2)],
            base_offset=base,
            base_timestamp=time_ms + base,
            max_timestamp=time_ms + base + 1,
        )
        for base in bases
    )


SIZE = len(batches(0))


def write_segment(
    directory: Path,
    base: int,
    log: bytes,
    index: list[tuple[int, int]] | None = None,
    times: list[tuple[int, int]] | None = None,
) -> None:
    packed = None if index is None else builders.offset_index(index)
    stamps = None if times is None else builders.time_index(times)
    partitions.write_segment(directory, base, log, packed, stamps)


def split(items: Iterator[object]) -> tuple[list[Fields], list[str]]:
    """Return the rows' members, and the codes of findings, notes on the high watermark aside."""
    rows: list[Fields] = []
    codes = []
    for item in items:
        if isinstance(item, Row):
            rows.append({"row": item.row, **item.fields})
        elif isinstance(item, Finding):
            codes.append(item.code)
        else:
            pytest.fail(f"no row and no finding: {item!r}")
    assert not list(find_undeclared(rows))
    return rows, [code for code in codes if code != "high-watermark-unknown"]


def at_offset(path: Path, target: int, **options: object) -> Fields:
    rows, _ = split(find_offset([str(path)], target, FindOptions(**options)))  # type: ignore[arg-type]
    (row,) = rows
    return row


def at_time(path: Path, target: int, **options: object) -> Fields:
    rows, _ = split(find_time([str(path)], target, FindOptions(**options)))  # type: ignore[arg-type]
    (row,) = rows
    return row
