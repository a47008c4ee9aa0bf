"""What `why` foretells of the recorded directory, and what the broker then did to it."""

import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from corpus import find_expected, find_shared

from kdump.engine.why.options import WhyOptions
from kdump.engine.why.run import why
from kdump.findings.rows import Row

CLOCK = ("actStart", "actStop")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack it with GNU tar: Python's sets some times a millisecond early."""
    root = find_shared()
    if root is None or shutil.which("tar") is None:
        pytest.skip("no corpora, or no tar")
    target = tmp_path_factory.mktemp("retention")
    archive = root / "corpus" / "retention" / "before.tar.xz"
    subprocess.run(["tar", "xJf", archive, "-C", target], check=True)
    return target / "d1"


@cache
def recorded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(find_expected(f"retention/{name}.json").read_text())
    return found


def rows_of(directory: Path, at: str = "actStart", **options: Any) -> list[Row]:
    now_ms = recorded("clock")[at]
    items = list(why([str(directory)], WhyOptions(now_ms=now_ms, **options)))
    assert all(isinstance(item, Row) for item in items)
    return [item for item in items if isinstance(item, Row)]


@pytest.mark.parametrize("at", CLOCK)
def test_deletions_have_the_recorded_order_and_reason(directory: Path, at: str) -> None:
    reasons = {"log-start": "log start", "retention.bytes": "size", "retention.ms": "time"}
    told: dict[Any, list[tuple[Any, str]]] = {}
    for row in rows_of(directory, at):
        if row.row == "segment-fate" and row.fields["verdict"] == "deletable":
            deletion = row.fields["segment"], reasons[str(row.fields["rule"])]
            told.setdefault(row.fields["topic"], []).append(deletion)
    count = 0
    for topic, known in recorded("topics").items():
        done = [
            (base, next(word for word in reasons.values() if word in event["reason"]))
            for event in known["events"]
            if event["event"] == "delete"
            for base in event["segments"]
        ]
        assert told.get(topic, []) == done, topic
        count += len(done)
    assert count == 69


def test_rolls_have_the_recorded_reason(directory: Path) -> None:
    """The broker rolls where a pass deletes the segment that is written to."""
    foretold = {
        row.fields["topic"]
        for row in rows_of(directory)
        if row.row == "segment-fate"
        and (row.fields["verdict"], row.fields["rolled_by"]) == ("deletable", "active")
    }
    done = {topic for topic, known in recorded("topics").items() if known["rolled"]}
    assert foretold == done
    assert len(done) == 5


def test_sums_match_du(directory: Path) -> None:
    summary = rows_of(directory)[-1].fields
    for option, member in (("-sb", "apparent_bytes"), ("-sB1", "allocated_bytes")):
        said = subprocess.run(
            ["du", option, directory], capture_output=True, text=True, check=True
        ).stdout
        assert summary[member] == int(said.split()[0]), member


def test_every_file_is_accounted_for(directory: Path) -> None:
    parts = ("log_bytes", "index_bytes", "other_bytes", "retired_bytes")
    sizes = sum(
        os.lstat(Path(at) / name).st_size
        for at, names, files in os.walk(directory)
        for name in (*names, *files)
    )
    spaces = [row.fields for row in rows_of(directory) if row.row == "partition-space"]
    total = sum(int(str(fields[part])) for fields in spaces for part in parts)
    assert total == sizes + directory.lstat().st_size


def test_pinning_record(directory: Path) -> None:
    pins = {
        (row.fields["topic"], row.fields["segment"]): row.fields["pinned_by"]
        for row in rows_of(directory)
        if row.row == "segment-fate" and row.fields["verdict"] == "pinned"
    }
    t0 = recorded("clock")["t0"]
    assert pins["future.mid", 6] == pins["future.mid", 12]
    pin = pins["future.mid", 6]
    assert 6 <= pin["offset"] < 12
    assert abs(pin["timestamp_ms"] - t0 - 30 * 86_400_000) < 60_000
    assert pin["records_ahead"] == 1


def test_rolls(directory: Path) -> None:
    settled = {
        row.fields["rolled_by"]
        for row in rows_of(directory, rolls=True)
        if row.row == "segment-fate" and row.fields["topic"] == "some-old"
    }
    assert settled == {"size", "active"}
