"""Sorting and merging entries: both twins, and what plain Python makes of the same entries."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from array import array
from collections import Counter, defaultdict
from types import ModuleType
from typing import Any

import pytest
from long_runs import SEED, how_many
from twins import _fast

from kdump.kernels import _pure, entries
from kdump.kernels.partitioners import PARTITIONERS

COUNT = how_many(150, 100_000)
TWINS = (_pure, _fast)


def some_entries(rng: random.Random) -> list[bytes]:
    """Make entries that often begin alike, as those of keys or of any bytes."""
    if rng.random() < 0.5:
        few = [rng.randbytes(rng.choice((0, 1, 3, 4, 7, 8, 9, 40))) for _ in range(3)]
        return [rng.choice(few) + rng.choice((b"", b"\0", *few)) for _ in range(rng.randrange(40))]
    return [
        entries.lay_out_key(
            rng.randrange(2),
            b"k" * rng.randrange(3) + b"%d" % rng.randrange(2),
            rng.randrange(3),
            [rng.choice((-1, 0, 1, 1 << 40)) for _ in range(4)],
        )
        for _ in range(rng.randrange(60))
    ]


def merged_by(
    kernel: ModuleType, seed: int, runs: list[list[bytes]], tail: int, folds: bool
) -> tuple[bytes, list[int], list[Any]]:
    """Merge runs through windows of any size; give what came out, counts of keys, and the steps."""
    rng = random.Random(seed)
    blocks = [b"".join(map(entries.framed, sorted(run))) for run in runs]
    read = [0] * len(runs)
    windows = [b""] * len(runs)
    at, keys = array("q", [0] * len(runs)), array("q", [0] * 2)
    held, out, steps = None, [], []
    while True:
        more = array("q", (read[k] < len(block) for k, block in enumerate(blocks)))
        block, short, held = kernel.merge_entries(windows, at, more, tail, folds, held, keys)
        out.append(block)
        steps.append((short, held, list(at)))
        if short < 0:
            return b"".join(out), list(keys), steps
        more_bytes = rng.choice((1, 5, 50, 500))
        windows[short] = (
            windows[short][at[short] :] + blocks[short][read[short] : read[short] + more_bytes]
        )
        read[short] += more_bytes
        at[short] = 0


@pytest.mark.fuzz
def test_entries_are_sorted_and_merged() -> None:
    seen = 0
    for seed in range(SEED, SEED + COUNT):
        rng = random.Random(seed)
        some = some_entries(rng)
        block = b"".join(map(entries.framed, some)) + rng.randbytes(rng.randrange(5))
        starts = array("q", sorted(rng.getrandbits(32) for _ in range(rng.randrange(4))))
        results = [kernel.sort_entries(block, starts) for kernel in TWINS]
        assert results[0] == results[1], seed
        whole = list(entries.entries_of(block))
        assert list(entries.entries_of(results[0][0])) == sorted(whole), seed

        runs: list[list[bytes]] = [[] for _ in range(rng.randrange(4))]
        for entry in some if runs else []:
            rng.choice(runs).append(entry)
        folds = rng.random() < 0.5
        tail = entries.SPAN_BYTES if folds or rng.random() < 0.6 else rng.randrange(6)
        told = [merged_by(kernel, seed, runs, tail, folds) for kernel in TWINS]
        assert told[0] == told[1], seed
        if not folds:
            given = sorted(entry for run in runs for entry in run)
            alike = Counter((len(one), one[: max(len(one) - tail, 0)]) for one in given)
            wanted = [one for one in given if alike[len(one), one[: max(len(one) - tail, 0)]] > 1]
            # Entries that differ in length alone lie between equal ones; those of kdump do not.
            if tail == entries.SPAN_BYTES and min(map(len, given), default=0) >= 48:
                assert list(entries.entries_of(told[0][0])) == wanted, seed
                seen += bool(wanted)
        elif min((len(one) for run in runs for one in run), default=0) >= 48:
            assert moved(told[0][0]) == moved_in(runs), seed
    assert seen


def test_memory_views_last_until_copied() -> None:
    """An entry that no window goes on from comes back as it was, and not from freed memory."""
    program = """
from array import array
from kdump.kernels import _fast
held = bytes(range(48)), True
at, more = array("q", [0]), array("q", [1])
print(_fast.merge_entries([b""], at, more, 36, False, held, array("q", [0]))[2] == held)
"""
    filled = {**os.environ, "PYTHONMALLOC": "debug"}  # what is freed is overwritten
    told = subprocess.run(
        [sys.executable, "-c", program], env=filled, capture_output=True, text=True, check=True
    )
    assert told.stdout == "True\n"


def moved(block: bytes) -> dict[bytes, dict[int, tuple[int, ...]]]:
    """Give the keys of a merge with the first and last record on each partition."""
    found: dict[bytes, dict[int, tuple[int, ...]]] = defaultdict(dict)
    for entry in entries.entries_of(block):
        partition, offset, first, _, last = entries.span_of(entry)
        assert partition not in found[entries.topic_and_key(entry)]
        found[entries.topic_and_key(entry)][partition] = first, offset, last
    return found


def moved_in(runs: list[list[bytes]]) -> dict[bytes, dict[int, tuple[int, ...]]]:
    """Find the same without a merge."""
    found: dict[bytes, dict[int, list[tuple[int, ...]]]] = defaultdict(lambda: defaultdict(list))
    for entry in (entry for run in runs for entry in run):
        partition, offset, first, _, last = entries.span_of(entry)
        found[entries.topic_and_key(entry)][partition].append((first, offset, last))
    return {
        key: {
            partition: (*min(spans)[:2], max(span[2] for span in spans))
            for partition, spans in of_key.items()
        }
        for key, of_key in found.items()
        if len(of_key) > 1
    }


def test_entries_with_common_prefixes_are_sorted() -> None:
    some = [b"same" * 4 + b"%06d" % (number * 7919 % 100_000) for number in range(100_000)]
    block = b"".join(map(entries.framed, some))
    result, _ = _fast.sort_entries(block, array("q"))
    assert list(entries.entries_of(result)) == sorted(some)


def test_partitioners_have_their_numbers() -> None:
    """One record, each partitioner alone: the numbers of the compiled kernel are the names'."""
    import builders

    keys = [b"", b"a", b"customer-1", b"\xff\xfe", "Łódź😀".encode(), bytes(range(67))]
    log = builders.batch([builders.record(at, 0, key, b"") for at, key in enumerate(keys)])
    batches, _, _ = _fast.walk(log, 0, len(log), 0, -1, True, 1)
    records, *_ = _fast.decode_run(log, 0, batches, 0, 100)
    count = (1 << 31) - 1
    for number, (name, function) in enumerate(PARTITIONERS.items()):
        for row, key in enumerate(keys):
            sums = array("q", bytes(8 * 7))
            rows = array("q", [row])
            _fast.count_placed(
                log, batches, records, rows, 0, bytes([number]), 0, count, {}, sums, -2, 9
            )
            wanted = function(key)
            assert sums[0] == (wanted is not None), (name, key)
            assert sums[2] == (0 if wanted is None or wanted % count == 0 else wanted), (name, key)
