"""Runs `dump` on a path, and compares its rows with what a consumer was handed."""

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kdump.engine.dump.run import dump
from kdump.engine.reading.options import DumpOptions
from kdump.findings.finding import Finding
from kdump.kernels.columns import BYTES_HEX
from kdump.output.jsonl import JsonLines

LONGEST_IN_FULL = 400  # bytes; the recorded answers name longer values by hash and length

Json = dict[str, Any]


def run_dump(path: Path, **options: Any) -> tuple[list[Json], list[Finding]]:
    """Give the rows of `dump --format jsonl --bytes hex`, and the findings."""
    text = bytearray()
    sink = JsonLines(text.extend, BYTES_HEX)
    found: list[Finding] = []
    for item in dump([str(path)], DumpOptions(**options)):
        if isinstance(item, Exception):
            raise item
        if isinstance(item, Finding):
            found.append(item)
        else:
            sink.write(item)
    sink.finish()
    return json_lines(text), found


def json_lines(text: bytes | bytearray) -> list[Json]:
    """Read JSON Lines."""
    return [json.loads(line) for line in text.splitlines()]


def to_consumer_form(row: Json) -> Json:
    """Write a `record` row as the recorded consumers of modern brokers wrote theirs."""
    members: Json = {
        "offset": row["offset"],
        "timestamp": row["timestamp_ms"],
        "ts_type": row["timestamp_type"],
        "key": row["key"],
        "leader_epoch": row["leader_epoch"],
    }
    value = row["value"]
    if value is not None and len(value) > 2 * LONGEST_IN_FULL:
        plain = bytes.fromhex(value)
        members["value_sha256"] = hashlib.sha256(plain).hexdigest()
        members["value_len"] = len(plain)
    else:
        members["value"] = value
    if row["headers"]:
        members["headers"] = [
            [bytes.fromhex(header["key"]).decode(), header["value"]] for header in row["headers"]
        ]
    return members


def first_difference(ours: Iterable[Json], theirs: Iterable[Json]) -> str:
    """Say where two lists of objects differ first; empty if they do not."""
    ours, theirs = list(ours), list(theirs)
    for number, (left, right) in enumerate(zip(ours, theirs, strict=False)):
        if left != right:
            members = sorted(
                name for name in left.keys() | right.keys() if left.get(name) != right.get(name)
            )
            return f"row {number}: {members}: ours {left}, theirs {right}"[:600]
    if len(ours) != len(theirs):
        return f"{len(ours)} rows, theirs {len(theirs)}"
    return ""


def restore_times(root: Path, table: Path) -> None:
    """Give files the modification times (ms) that a `files.tsv` names; archives keep seconds."""
    for line in table.read_text().splitlines():
        size, _, time_ms, _, name = line.split("\t")
        if size != "dir":
            nanoseconds = int(time_ms) * 1_000_000
            os.utime(root / name, ns=(nanoseconds, nanoseconds))
