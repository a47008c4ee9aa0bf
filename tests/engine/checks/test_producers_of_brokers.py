"""What brokers wrote is sound, and each damage of the corpora that concerns producers is found.

KDUMP_FUZZ=long takes more seeds of the oracle's directories, from KDUMP_FUZZ_SEED on.
"""

import random
from collections import Counter
from pathlib import Path

import damage
import pytest
import transactional
from corpus import corpus, find_shared
from corpus import names as archives
from each import each
from long_runs import LONG, SEED
from oracle import oracle
from producing import run_checks

from kdump.findings.finding import Finding, Severity

SEEDS = range(SEED, SEED + (60 if LONG else 1))
HISTORIES = range(SEED, SEED + (1500 if LONG else 8))
FLIPS = 20_000 if LONG else 150

SOUND = (
    *(f"modern/data/{state}" for state in ("clean", "killed", "live", "recovered")),
    "modern/extras/future-killed",
    "modern/extras/future-live",
    "modern/extras/metadata-torn-after",
    *(name for name in archives("old") if name.endswith((".clean", ".killed", ".live"))),
)
# Topics of the old sets that were sent deliberately wrong requests.
BAD_TOPICS = ("bad", "badc", "badkey")

PROFILES = (
    "txn", "compacted", "restarts", "leader-v2", "mixed-v0", "mixed-v1", "mixed-v2", "mixed-all",
    "txn-state", "group-offsets", "metadata", "share-state",
)  # fmt: skip


def data_directories(root: Path) -> list[Path]:
    """The directories under a corpus that hold partitions."""
    return sorted({path.parent.parent for path in root.rglob("*") if path.suffix == ".log"})


def serious(found: list[Finding]) -> list[Finding]:
    return [one for one in found if one.severity is not Severity.NOTE]


@each("name", SOUND)
def test_sound_directories_have_no_findings(name: str) -> None:
    found = [one for path in data_directories(corpus(name)) for one in run_checks(path)]
    unexpected = [one for one in found if one.code not in ("transaction-open", "preallocated-tail")]
    assert [one for one in unexpected if one.topic not in BAD_TOPICS] == []


def test_open_transactions_of_the_live_copy() -> None:
    """As the broker itself listed them."""
    found = [
        one for path in data_directories(corpus("modern/data/live")) for one in run_checks(path)
    ]
    at = {(one.topic, one.partition, one.offset) for one in found if one.offset is not None}
    assert at == {
        ("__consumer_offsets", 2, 269),
        ("ledger.compact", 0, 628),
        ("ledger.txn", 0, 435),
        ("ledger.txn", 0, 439),
    }


# Of each case: topic -> code, with how many; what the kind of stop hides is in the comments.
FOUND = {
    "rv-txn-torn": {"torn-tail": 1},
    "rv-txn-no-txnindex": {"transaction-index-missing": 3},  # one for each segment
    # Its version's second byte stops brokers from 4.4 on.
    "rv-txn-bad-txnindex": {"transaction-index-size": 1, "transaction-index-version": 1},
    "rv-no-snapshots": {"snapshot-missing": 1},
    "rv-bad-snapshot": {"snapshot-crc": 1},
    "rv-flip-epoch-last": {"leader-epoch-odd": 1},
    "rv-flip-epoch-old": {"leader-epoch-odd": 1},
    "rv-no-epoch-cache": {"leader-epochs-missing": 1},
    "rv-ok": {},
}


@pytest.mark.parametrize("case", ["killed", "clean", "killed-norp"])
def test_corpora_have_the_expected_damage(case: str) -> None:
    root = corpus(f"modern/recovery/{case}/before")
    for topic, expected in FOUND.items():
        (path,) = root.rglob(f"{topic}-0")
        assert Counter(one.code for one in run_checks(path)) == expected, topic


@pytest.mark.parametrize("case", ["killed", "clean", "killed-norp"])
def test_other_damage_makes_no_producer_findings(case: str) -> None:
    """One damage, one finding: of framing, where a log was damaged."""
    if find_shared() is None:
        pytest.skip("no corpora: KDUMP_SHARED names none, and there is no ../shared")
    theirs = (
        "torn-tail", "crc-mismatch", "batch-length", "batch-count", "magic-unknown",
        "offset-not-rising", "log-end-astray", "preallocated-tail",
    )  # fmt: skip
    for directory in data_directories(corpus(f"modern/recovery/{case}/before")):
        for one in run_checks(directory):
            # Of the log that was emptied, a snapshot is all that is left.
            if one.topic not in FOUND and (one.topic, one.code) != (
                "rv-empty-log-active",
                "snapshot-stray",
            ):
                assert one.code in theirs, one


# Written by the oracle


@pytest.mark.oracle
@each("profile", PROFILES)
@each("crash", [False, True])
def test_generated_directories_have_no_findings(tmp_path: Path, profile: str, crash: bool) -> None:
    for seed in SEEDS:
        directory = tmp_path / f"{profile}{seed}-0"
        oracle().make(profile, seed, directory, crash=crash)
        found = run_checks(directory)
        assert {one.code for one in found} <= {"transaction-open", "preallocated-tail"}, seed


def history(parent: Path, seed: int) -> Path:
    """Write a random history of producers, with the checkpoint of its log start."""
    directory = parent / "orders-0"
    compacted, crash = seed % 3 == 0, seed % 2 == 0
    recipe = transactional.recipe(seed, directory, compacted=compacted, crash=crash)
    start = oracle().ask("make", recipe=recipe)["logStartOffset"]
    (parent / "log-start-offset-checkpoint").write_text(f"0\n1\norders 0 {start}\n")
    return directory


@pytest.mark.oracle
def test_random_histories_have_no_findings(tmp_path: Path) -> None:
    """Nothing but notes: a truncated log may lack sequence numbers."""
    for seed in HISTORIES:
        parent = tmp_path / str(seed)
        parent.mkdir()
        directory = history(parent, seed)
        assert serious(run_checks(directory)) == [], seed
        bases = [int(log.stem) for log in directory.glob("*.log")]
        left_out = random.Random(seed).sample(bases, len(bases) // 2)
        assert serious(run_checks(directory, left_out=left_out)) == [], (seed, left_out)


@pytest.mark.oracle
def test_flipped_bits_of_transaction_indexes_are_found(tmp_path: Path) -> None:
    """In logs without holes each is one finding, but for bits that no broker looks at."""
    rng = random.Random(SEED)
    directory = tmp_path / "orders-0"
    oracle().make("txn", SEED, directory, segmentBytes=60_000)
    assert serious(run_checks(directory)) == []
    indexes = sorted(directory.glob("*.txnindex"))
    for _ in range(FLIPS):
        path = rng.choice(indexes)
        whole = path.read_bytes()
        position, bit = rng.randrange(len(whole)), rng.randrange(8)
        path.write_bytes(damage.flip_bit(whole, position, bit))
        silent = (position % 34, bit) == (0, 7)
        found = serious(run_checks(directory))
        assert len(found) == (0 if silent else 1), (path.name, position, bit, found)
        assert silent or found[0].path == str(path)
        path.write_bytes(whole)
