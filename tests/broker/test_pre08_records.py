"""What a 0.7.2 broker's own consumer was handed, against ours: values and next offsets in order."""

import json
import lzma
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from corpus import corpus, files, find_expected

from kdump.engine.dump.pre08 import RECORDS, pre08_items
from kdump.findings.finding import Finding
from kdump.findings.rows import Place, RecordRow
from kdump.storage.source import Source

STATES = ("clean", "damaged-marker.after", "damaged-unclean.after")
# What was done to d-KIND in the damaged sets, and what that is called; "after" a start without
# recovery the damage is all there, after one with it only that of the first segment.
CODES = {
    "d-fliplast-0": "crc-mismatch",
    "d-flipmid-0": "crc-mismatch",
    "d-flipold-0": "crc-mismatch",
    "d-gzflip-0": "crc-mismatch",
    "d-none-0": None,
    "d-small-0": "batch-length",
    "d-tornhead-0": "torn-tail",
    "d-tornmsg-0": "torn-tail",
    "d-zeros-0": "preallocated-tail",
}


def read(directory: Path) -> tuple[list[RecordRow], list[Finding]]:
    """Give the records and the findings of a partition directory."""
    rows: list[RecordRow] = []
    found: list[Finding] = []
    for path in files(directory, "*.kafka"):
        place = Place(directory.name[:-2], int(directory.name[-1]), int(path.stem), str(path))
        with Source(path) as source:
            for item in pre08_items(source, place, mode=RECORDS, limit=64 << 20):
                if isinstance(item, RecordRow):
                    rows.append(item)
                elif isinstance(item, Finding):
                    found.append(item)
    return rows, found


def read_consumed(state: str) -> dict[str, list[dict[str, Any]]]:
    """Give what the consumer was handed, for each partition."""
    told: dict[str, list[dict[str, Any]]] = defaultdict(list)
    with lzma.open(find_expected(f"old/v07-072.{state}.records.jsonl.xz"), "rt") as lines:
        for line in lines:
            record = json.loads(line)
            told[record["partition"]].append(record)
    return told


@pytest.mark.parametrize("state", STATES)
def test_records_equal_those_of_the_consumer(state: str) -> None:
    data = corpus(f"old/v07-072.{state}") / "data"
    told = read_consumed(state)
    directories = sorted(path for path in data.iterdir() if path.is_dir())
    assert {path.name for path in directories} >= told.keys()
    for directory in directories:
        rows, found = read(directory)
        records = told[directory.name]
        ours = [(row.magic, (row.value or b"").hex(), row.next_offset) for row in rows]
        theirs = [
            (record["magic"], record["value"], record["next_offset"])
            for record in records
            if "value" in record
        ]
        # Their consumer dies at damage; ours goes on behind it.
        assert ours[: len(theirs)] == theirs, directory.name
        stopped = [record["position"] for record in records if "exception" in record]
        assert len(found) == len(stopped) or directory.name == "d-tornhead-0"
        for finding, position in zip(found, stopped, strict=False):
            assert finding.offset == position
            assert finding.code == CODES[directory.name]
        if not found:
            assert len(ours) == len(theirs)


@pytest.mark.parametrize("state", ["damaged-marker.before", "damaged-unclean.before"])
def test_each_damage_has_one_finding(state: str) -> None:
    data = corpus(f"old/v07-072.{state}") / "data"
    seen = set()
    for directory in sorted(path for path in data.iterdir() if path.is_dir()):
        rows, found = read(directory)
        code = CODES[directory.name]
        assert [finding.code for finding in found] == ([code] if code else []), directory.name
        whole = 300
        lost = code in ("crc-mismatch", "torn-tail")
        assert whole - 10 <= len(rows) <= whole - lost
        seen.add(directory.name)
    assert seen == CODES.keys()
