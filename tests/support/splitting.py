"""Reads directories as splits, one after the other, and puts the results together again."""

from pathlib import Path
from typing import Any

from dumped import Json, json_lines

from kdump.engine.dump.split_reader import SplitReader
from kdump.engine.reading.options import DumpOptions
from kdump.engine.reading.split_edges import SplitEdges
from kdump.engine.work.splits import Split, plan, splits_to_reread
from kdump.findings.finding import Finding
from kdump.kernels.columns import BYTES_HEX
from kdump.output.jsonl import JsonLines

Rows = tuple[list[Json], list[Finding]]


def split_up(path: Path, split_bytes: int | None, **options: Any) -> list[Split]:
    """Plan, where no path is in error."""
    planned = list(plan([str(path)], DumpOptions(**options), split_bytes))
    return [split for split in planned if isinstance(split, Split)]


def read_split(
    split: Split, by: type[SplitReader] = SplitReader, **options: Any
) -> tuple[Rows, SplitEdges | None]:
    """Give what one worker finds."""
    text = bytearray()
    sink = JsonLines(text.extend, BYTES_HEX)
    found: list[Finding] = []
    reader = by(split, DumpOptions(**options))
    for item in reader.items():
        if isinstance(item, Exception):
            raise item
        if isinstance(item, Finding):
            found.append(item)
        else:
            sink.write(item)
    sink.finish()
    return (json_lines(text), found), reader.seam


def read_splits(path: Path, split_bytes: int | None, **options: Any) -> tuple[Rows, int]:
    """Give rows and findings as `dumped` does, and how many logs had to be read again as one."""
    splits = split_up(path, split_bytes, **options)
    results = {split.number: read_split(split, **options) for split in splits}
    again = splits_to_reread(splits, {number: seam for number, (_, seam) in results.items()})
    for of_log in again:
        for split in of_log:
            del results[split.number]
        results[of_log[0].number] = read_split(of_log[0].uncut(), **options)
    assert not splits_to_reread(splits, {number: seam for number, (_, seam) in results.items()})
    rows: list[Json] = []
    found: list[Finding] = []
    for number in sorted(results):
        rows += results[number][0][0]
        found += results[number][0][1]
    return (rows, found), len(again)
