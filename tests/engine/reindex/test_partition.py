"""Randomly broken files through `reindex`: no traceback, no change to a log, and twice is as once.

The inputs are those of the fuzz tests of `dump`. KDUMP_FUZZ=long takes 3,000 of them;
KDUMP_FUZZ_COUNT any number, KDUMP_FUZZ_SEED others.
"""

import random
import shutil
import time
from pathlib import Path

import pytest
from fuzz import cases
from fuzz.seeds import all_seeds
from long_runs import SEED, how_many
from reindexing import items_of

from kdump.engine.reindex.options import DEFAULT_ONLY
from kdump.errors import KdumpError
from kdump.findings.finding import Finding
from kdump.findings.rows import Row
from kdump.storage.names import Kind

_COUNT = how_many(120, 3000)
SECONDS_A_MIB = 20  # far above what is taken, far below what a quadratic loop takes


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


@pytest.mark.fuzz
def test_broken_files(tmp_path: Path) -> None:
    seeds = all_seeds(with_corpora=False)
    written = 0
    for number in range(_COUNT):
        case = cases.make(seeds, SEED, number)
        rng = random.Random(f"reindex {SEED}/{number}")
        directory = tmp_path / str(number)
        directory.mkdir()
        for name, data in case.files.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        options = {
            "index_interval_bytes": rng.choice((0, 100, 4096)),
            "every": rng.random() < 0.5,
            "up_to_damage": rng.random() < 0.7,
            "broker_version": rng.choice(((0, 8), (0, 10, 2), (1, 1), (2, 8), (4, 1))),
            "decompress_limit": 1 << 20,
            "only": DEFAULT_ONLY | rng.choice((frozenset(), {Kind.LEADER_EPOCHS})),
        }
        before = contents(directory)
        started = time.process_time()
        items = items_of(directory / case.target.split("/")[0], **options)
        assert all(isinstance(item, (Row, Finding, KdumpError)) for item in items)
        assert contents(directory) == before, number
        for turn in range(2):
            items = items_of(directory / case.target.split("/")[0], write=True, **options)
            rows = [item.fields for item in items if isinstance(item, Row)]
            actions = {row["action"] for row in rows}
            allowed = {"keep", "refuse"} | ({"rebuilt", "created"} if not turn else set())
            assert actions <= allowed, (number, turn, [row for row in rows if row["backup"]])
            written += "created" in actions
        seconds = time.process_time() - started
        assert seconds < 5 + SECONDS_A_MIB * case.size_bytes / (1 << 20), number
        after = contents(directory)
        for name, data in before.items():
            if name.endswith((".log", ".kafka", ".checkpoint", ".snapshot")):
                assert after[name] == data, (number, name)
        shutil.rmtree(directory)
    assert written > _COUNT // 10
