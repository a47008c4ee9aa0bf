"""Random damage for verify, its predictions, the plan of reindex, lookups and sums: no traceback.

The inputs are those of the campaign for dump; here only the engine is called, and nothing but an
exception of ours or too much time is a failure. `KDUMP_FUZZ=long` takes 20,000 of them.
"""

from __future__ import annotations

import random
import shutil
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from fuzz import cases
from fuzz.seeds import all_seeds
from long_runs import LONG, SEED, how_many

from kdump import kernels
from kdump.engine.find import run as find
from kdump.engine.groups.options import GroupOptions
from kdump.engine.groups.run import groups
from kdump.engine.reindex.options import ReindexOptions
from kdump.engine.reindex.run import reindex
from kdump.engine.sequences.run import SequenceOptions, sequences
from kdump.engine.transactions.run import TransactionOptions, transactions
from kdump.engine.usage.run import usage
from kdump.engine.usage.step import UsageOptions
from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.run import verify

_PURE = kernels.NAME == "pure"
_COUNT = how_many(60, 20_000)
_LIMIT = 4 << 20
_BROKERS = ((4, 1), (2, 8), (1, 0), (0, 10, 2), (0, 8, 2))
_SECONDS = 2.0  # an input, and as much again for each MiB

pytestmark = pytest.mark.fuzz


def asked(path: str, number: int) -> Iterator[object]:
    """Ask everything of one file or directory."""
    rng = random.Random(f"{SEED}/{number}/asked")
    broker = rng.choice(_BROKERS)
    deep = rng.random() < 0.5
    options = VerifyOptions(
        deep=deep, quick=not deep and rng.random() < 0.3, decompress_limit=_LIMIT
    )
    yield from verify([path], options._replace(predict=True, broker_version=broker))
    plan = ReindexOptions(
        broker_version=broker,
        every=rng.random() < 0.5,
        up_to_damage=rng.random() < 0.5,
        decompress_limit=_LIMIT,
    )
    yield from reindex([path], plan)
    lookup = find.FindOptions(
        broker_version=broker,
        check=True,
        explain=True,
        isolation=rng.choice(("read_uncommitted", "read_committed")),
        decompress_limit=_LIMIT,
    )
    yield from find.find_offset([path], rng.choice((0, 1, 100, 1 << 40)), lookup)
    when = rng.choice((-1, -2, -3, 0, 1_700_000_000_000))
    yield from find.find_time([path], when, lookup)
    by = rng.choice((("topic",), ("partition", "producer", "codec"), ("topic", "key")))
    counted = UsageOptions(by=by, deep=deep, decompress_limit=_LIMIT)
    yield from usage([path], counted, split_bytes=rng.choice((None, 1, 4096)), groups_kept=50)
    yield from sequences([path], SequenceOptions(explained=True))
    at_ms = rng.choice((None, 1_795_350_100_000))
    asked_groups = GroupOptions(at_ms=at_ms, history=deep, decompress_limit=_LIMIT)
    yield from groups([path], asked_groups)
    asked_transactions = TransactionOptions(at_ms=at_ms, decompress_limit=_LIMIT)
    yield from transactions([path], asked_transactions)


def test_no_input_breaks_the_engine(tmp_path: Path) -> None:
    seeds = all_seeds(with_corpora=LONG)
    failures: list[str] = []
    for number in range(min(_COUNT, 100) if _PURE else _COUNT):
        case = cases.make(seeds, SEED, number)
        if _PURE and case.size_bytes > 64 << 10:
            continue
        root = tmp_path / str(number)
        root.mkdir()
        for path, data in case.files.items():
            at = root / path
            at.parent.mkdir(parents=True, exist_ok=True)
            at.write_bytes(data)
        start = time.process_time()
        try:
            for _ in asked(str(root / case.target), number):
                pass
        except Exception:
            failures.append(f"input {number} of seed {SEED}:\n{traceback.format_exc()}")
        spent = time.process_time() - start
        if not _PURE and spent > _SECONDS * (1 + case.size_bytes / (1 << 20)):
            failures.append(f"input {number} of seed {SEED}: {spent:.1f} s")
        shutil.rmtree(root)
    assert not failures, f"{len(failures)} failures, first:\n" + "\n".join(failures[:3])
