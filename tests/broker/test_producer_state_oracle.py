"""The replay of producer state, against the broker's own recovery.

KDUMP_FUZZ=long takes more seeds of the oracle's histories, from KDUMP_FUZZ_SEED on.
"""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import transactional
from each import each
from long_runs import LONG, SEED
from oracle import oracle

from kdump.broker.producer_events import TransactionEnd
from kdump.broker.producer_state import ProducerStates
from kdump.storage.file_records import FileRecords
from kdump.storage.layout import ABORTED_TRANSACTION
from kdump.storage.local_log import LocalLog
from kdump.storage.producer_snapshot import ProducerSnapshot, ProducerState
from kdump.storage.source import Source

SEEDS = range(SEED, SEED + (40 if LONG else 2))
#: In the first two a producer is known by an empty control batch alone.
HISTORIES = (4731, 4734, *range(SEED, SEED + (1000 if LONG else 10)))


def recover(directory: Path) -> dict[str, bytes]:
    """What the broker writes when it recovers every segment."""
    answer = oracle().ask("recover", dir=directory, now=transactional.START_MS)
    return {
        name: base64.b64decode(file["base64"])
        for name, file in answer["files"].items()
        if name.endswith((".txnindex", ".snapshot"))
    }


def items(log: LocalLog) -> Iterator[tuple[int, Any]]:
    """Yield what each segment holds, and None at its start."""
    for segment in log.logs:
        yield segment.base_offset, None
        assert segment.log is not None
        with Source(segment.log) as source:
            for item in FileRecords(source).walk():
                yield segment.base_offset, item


def check(directory: Path) -> tuple[int, int]:
    """Hold the replay against recovery; return how many entries of both kinds it came to."""
    theirs = recover(directory)
    states = ProducerStates()
    ours: dict[str, bytes] = {}
    at: dict[int, list[ProducerState]] = {}
    for base, item in items(LocalLog.open(str(directory))):
        if item is None:
            at[base] = states.producers_at_end()
            states.reload()
            continue
        for event in states.replay(item):
            if isinstance(event, TransactionEnd) and (entry := event.aborted_entry()) is not None:
                name = f"{base:020}.txnindex"
                ours[name] = ours.get(name, b"") + ABORTED_TRANSACTION.pack(*entry)
    at.setdefault(states.next_offset, states.producers_at_end())
    indexes = {n: data for n, data in theirs.items() if n.endswith(".txnindex") and data}
    assert ours == indexes
    producers = 0
    for name, data_ in theirs.items():
        if name.endswith(".snapshot"):
            entries = sorted(ProducerSnapshot(data_))
            assert at.get(int(name[:20]), []) == entries, name
            producers += len(entries)
    return sum(map(len, ours.values())) // 34, producers


@pytest.mark.oracle
@each("profile", ["txn", "compacted", "restarts", "group-offsets"])
@each("seed", SEEDS)
def test_replay_equals_recovery(tmp_path: Path, profile: str, seed: int) -> None:
    check(oracle().make(profile, seed, tmp_path / f"{profile}-0"))


@pytest.mark.oracle
def test_replay_equals_recovery_of_ten_transactional_logs(tmp_path: Path) -> None:
    entries = producers = 0
    for seed in range(SEED, SEED + 10):
        directory = tmp_path / f"txn{seed}-0"
        asked = oracle().make("txn", seed, directory, segmentBytes=60_000)
        found = check(asked)
        entries += found[0]
        producers += found[1]
    assert entries > 100
    assert producers > 100


@pytest.mark.oracle
def test_replay_equals_recovery_of_random_histories(tmp_path: Path) -> None:
    entries = 0
    for seed in HISTORIES:
        directory = tmp_path / f"history{seed}-0"
        compacted, crash = seed % 3 == 0, seed % 2 == 0
        recipe = transactional.recipe(seed, directory, compacted=compacted, crash=crash)
        oracle().ask("make", recipe=recipe)
        entries += check(directory)[0]
    assert entries > len(HISTORIES)
