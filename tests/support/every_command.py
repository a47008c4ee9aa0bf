"""Runs of every command over sample data, and their rows of JSON Lines."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import commands
from click.testing import Result
from reused_results import results_reused

SAMPLES = Path(__file__).parents[2] / "sample-data"
#: What is another each time.
OF_THE_MOMENT = ("seconds", "used_bytes", "free_bytes", "now_ms")
NODES = ("damaged/4.4.0-three-nodes/n1", "damaged/4.4.0-three-nodes/n2")
TIERED = "damaged/4.1.1-tiered/d1"
TIER = str(SAMPLES / "damaged/4.1.1-tiered/remote/kafka-tiered-storage")
#: Words of commands, the sample data, and words behind it.
RUNS = (
    ("groups", "clean/4.4.0", ""),
    ("groups --history", "clean/4.4.0", ""),
    ("transactions", "clean/4.4.0-transactions", ""),
    ("cluster", "clean/4.4.0", ""),
    ("timeline", "damaged/4.4.0-three-nodes", ""),
    ("sequences --explained", "clean/4.1.1", ""),
    ("info --explain --partitions", "clean/4.1.1", ""),
    ("info", "damaged/4.4.0-three-nodes", ""),
    ("usage", "clean/4.1.1", ""),
    ("usage --by key", "clean/4.1.1", ""),
    ("usage --by day,codec", "clean/4.1.1", ""),
    ("usage --by topic,partition,producer,codec", "clean/4.1.1", ""),
    ("placement --partitioner any", "clean/4.4.0", ""),
    ("placement --partitioner murmur2", "clean/4.4.0", ""),
    ("duplicates --by key,value", "clean/4.1.1", ""),
    ("duplicates --by header:trace", "clean/4.1.1", ""),
    ("transactions", "clean/4.4.0", ""),
    ("find-offset --check --explain", "clean/4.1.1", "100"),
    ("find-time --check --explain --none earliest", "clean/4.1.1", "1700000000000"),
    ("verify", "damaged/4.1.1-killed", ""),
    ("predict", "damaged/4.1.1-killed", ""),
    ("why --rolls", "clean/4.1.1", ""),
    ("why --free 1MiB --cleaner --now 2026-11-25T00:00Z", "clean/4.1.1", ""),
    ("reindex", "damaged/4.1.1-killed", ""),
    ("find-offset", "clean/4.1.1", "100"),
    ("find-time", "clean/4.1.1", "1700000000000"),
    ("salvage", "damaged/4.1.1-killed", ""),
    ("carve", "damaged/one-bit/orders.zstd-0/00000000000000000293.log", ""),
    ("compare", NODES[0], str(SAMPLES / NODES[1])),
    ("elect", NODES[0], str(SAMPLES / NODES[1])),
    (f"verify --tier {TIER}", TIERED, ""),
    (f"why --now 2026-11-28 --tier {TIER}", TIERED, ""),
    ("dump --batches", "clean/4.1.1/d1/orders.lz4-0", ""),
    ("dump --entries", "clean/4.1.1/d1/orders.lz4-0", ""),
    ("dump --entries", "clean/4.4.0-transactions", ""),
)


def run(words: str, sample: str, behind: str, *more: str) -> Result:
    """Run a command; what the engine found for the same words is written again in other forms."""
    given = [*words.split(), *more, str(SAMPLES / sample), *behind.split()]
    with results_reused():
        return commands.run(*given)


@cache
def rows_of(words: str, sample: str, behind: str) -> dict[str, list[dict[str, Any]]]:
    """Return the rows by kind without what differs each time: the same object for all forms."""
    found: dict[str, list[dict[str, Any]]] = {}
    for line in run(words, sample, behind).stdout.splitlines():
        row = json.loads(line)
        for name in OF_THE_MOMENT:
            row.pop(name, None)
        found.setdefault(row.pop("row"), []).append(row)
    return found
