"""The choice and the work of the log cleaner, against the broker's own classes.

KDUMP_FUZZ=long asks about more directories, from KDUMP_FUZZ_SEED on.
"""

import random
from pathlib import Path

import pytest
import transactional
from cleaned import Json, Question, ours, theirs
from each import each
from long_runs import LONG, SEED
from oracle import oracle

SEEDS = range(SEED, SEED + (600 if LONG else 10))
QUESTIONS = 4  # about each directory
DAY_MS = 86_400_000
CODECS = ("none", "none", "none", "gzip", "snappy", "lz4", "zstd")


def make_keyed(rng: random.Random, directory: Path) -> Json:
    """Make a recipe: few keys, tombstones, several codecs and formats, segments of all sizes."""
    ops: list[Json] = []
    magic = rng.choice((0, 1, 2, 2, 2, 2))
    now = transactional.START_MS
    retention_ms = str(rng.choice((0, 50, DAY_MS)))
    for _ in range(rng.choice((4, 12, 40))):
        now += rng.randrange(DAY_MS // 8)
        codec = rng.choice(CODECS)
        op: Json = {
            "op": "append", "magic": magic,
            "codec": "none" if magic < 2 and codec == "zstd" else codec,
            "count": rng.randrange(1, 30), "keySize": [4, 12],
            "valueSize": rng.choice((0, 20, 300)),
            "tsBase": now, "tsStep": rng.choice((0, 5, 4000)),
            "nullValue": rng.choice((0, 0.2, 0.8)),
            "nullKey": rng.choice((0, 0, 0.1)), "keySpace": rng.choice((3, 20, 200)),
            "random": True, "rseed": rng.randrange(1 << 30), "headerCount": [0, rng.choice((0, 2))],
        }  # fmt: skip
        if magic == 2 and rng.random() < 0.2:
            op |= {"timestampType": "LogAppendTime", "logAppendTime": now}
        ops.append(op)
        if rng.random() < 0.2:
            ops.append({"op": "roll"})
        if magic == 2 and rng.random() < 0.05:
            ops += [{"op": "clock", "ms": now}, {"op": "compact"}]
    return {
        "dir": str(directory), "seed": 1, "clock": transactional.START_MS, "engine": "follower",
        "segmentBytes": 1 << 20, "indexIntervalBytes": 256, "keepGoing": True, "ops": ops,
        "config": {"cleanup.policy": "compact", "delete.retention.ms": retention_ms},
    }  # fmt: skip


def make_directory(rng: random.Random, seed: int, directory: Path) -> bool:
    """Write a directory of some kind; return whether there are transactions in it."""
    kind = rng.choice(("keyed", "keyed", "transactional", "compacted", "txn", "mixed-all"))
    if kind == "keyed":
        oracle().ask("make", recipe=make_keyed(rng, directory))
    elif kind == "transactional":
        oracle().ask("make", recipe=transactional.recipe(seed, directory))
    else:
        sizes = {"segmentBytes": rng.choice((60_000, 1 << 20)), "batches": rng.choice((10, 40))}
        oracle().make(kind, seed, directory, **sizes)
    return kind in ("transactional", "txn")


def draw_question(rng: random.Random, directory: Path, *, transactions: bool) -> Question:
    """Draw a moment, settings and checkpoints.

    What was decided above a high watermark the oracle has forgotten, so that none is given then.
    """
    listed = oracle().ask("segments", dir=directory)
    start, end = listed[0]["baseOffset"], listed[-1]["nextOffset"]
    span = max(1, end - start)
    configs = {
        "cleanup.policy": rng.choice(("compact", "compact,delete")),
        "min.cleanable.dirty.ratio": str(rng.choice((0, 0.3, 0.5, 0.9, 1))),
        "delete.retention.ms": str(rng.choice((0, 1000, DAY_MS))),
        "min.compaction.lag.ms": str(rng.choice((0, 0, 0, 1000, DAY_MS))),
    }
    if rng.random() < 0.4:
        lag = max(int(configs["min.compaction.lag.ms"]), rng.choice((1, DAY_MS, 30 * DAY_MS)))
        configs["max.compaction.lag.ms"] = str(lag)
    bases = [one["baseOffset"] for one in listed]
    places = (start + rng.randrange(span + 1), rng.choice(bases), end + rng.choice((0, 1)))
    log_start = rng.choice((None, None, rng.choice(places[:2])))
    mark = None
    if not transactions and rng.random() < 0.3:
        least = start if log_start is None else log_start
        mark = least + rng.randrange(end - least + 1)
    days = rng.choice((0, 0, 3, 40, 1170))
    return Question(
        directory,
        transactional.START_MS + days * DAY_MS + rng.randrange(DAY_MS),
        configs,
        checkpoint=rng.choice((None, *places)),
        log_start=log_start,
        high_watermark=mark,
        dedupe_buffer=rng.choice((1 << 20, 1 << 20, 24 * rng.randrange(3, 200))),
    )  # fmt: skip


@pytest.mark.fuzz
@each("seed", SEEDS)
def test_cleaning_matches_the_broker(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    directory = tmp_path / "t-0"
    transactions = make_directory(rng, seed, directory)
    for number in range(QUESTIONS):
        question = draw_question(rng, directory, transactions=transactions)
        compare(question)
        left = tmp_path / str(number) / "t-0"
        answer = question.ask("clean", out=left)
        if answer["ok"] and rng.random() < 0.5:
            # A log that was cleaned before, as the cleaner's checkpoint says or not.
            directory = next(left.parent.rglob("*.log")).parent


def compare(question: Question) -> None:
    """Hold the choice and the cleaning against the oracle's."""
    view = question.view()
    choice, cleaned = ours(question, view)
    view.close()
    answer = question.ask("cleanable")
    told = f"{question}\n{choice}\n{answer}"
    if not answer["ok"]:
        assert cleaned is None, told
        return
    result = answer["result"]
    assert choice.cleanable == result["chosen"], told
    assert choice.first_dirty_offset == result["firstDirtyOffset"], told
    assert choice.first_uncleanable_offset == result["firstUncleanableDirtyOffset"], told
    assert choice.end_offset == result["firstUncleanableSegment"], told
    assert choice.forced == result["forceUpdateCheckpoint"], told
    assert (choice.clean_bytes, choice.dirty_bytes) == (
        result["cleanBytes"], result["cleanableBytes"],
    ), told  # fmt: skip
    real = theirs(question)
    if real is None or cleaned is None:
        assert real == cleaned, told + repr(question.ask("clean"))
        return
    told += f"\n{cleaned.dead ^ real.dead} {cleaned} {real}"
    assert (cleaned.dead, cleaned.checkpoint) == (real.dead, real.checkpoint), told
    # What gzip and zstd compressed anew differs by some bytes, as their releases do.
    assert abs(cleaned.bytes_left - real.bytes_left) <= 0.005 * real.bytes_left, told
