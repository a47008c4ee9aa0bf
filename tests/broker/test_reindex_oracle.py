"""Rebuilt indexes against the broker's own recovery, of 4.1, 2.8 and 1.0, byte for byte.

On real directories and on ones that the broker's append code writes from a seed, sound and damaged.
KDUMP_FUZZ=long takes all states of the corpora, 500 sound directories and 1,000 damaged ones;
KDUMP_FUZZ_COUNT any number of both, KDUMP_FUZZ_SEED others.
"""

import base64
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from corpus import corpus, find_expected, find_shared
from each import each
from long_runs import LONG, SEED, how_many
from oracle import PROFILES, Oracle, old_oracle, oracle
from reindexing import differences, items_of, rebuilt, recovered_indexes, rows_of

from kdump.broker.versions import NEWEST
from kdump.errors import RefusedError
from kdump.findings.rows import Row
from kdump.storage.names import Kind

pytestmark = pytest.mark.oracle

_COUNT = how_many(12, 500)
_DAMAGED = 2 * _COUNT if LONG else _COUNT

MODERN = ("clean", "recovered", "killed", "live")
OLD = ("v0-0822", "v0-0901", "v1-01022", "mixed-282")
OLD_INTERVAL = 1024  # log.index.interval.bytes of all old brokers
# Messages of any magic byte, which brokers before 0.11 took and later ones cut (S12).
OF_ANY_MAGIC = ("bad-0",)
NOW = 1_700_000_000_000


def of_oracle(
    asked: Oracle, directory: Path, interval: int, **members: Any
) -> dict[str, bytes] | None:
    """The indexes that a recovery leaves, None where the broker's code raises."""
    answer = asked.answer("recover", dir=directory, indexIntervalBytes=interval, **members)
    return recovered_indexes(answer["result"]["files"]) if answer["ok"] else None


def comparable(files: dict[str, bytes], failed: set[int]) -> dict[str, bytes]:
    """What can be held against an old oracle's files.

    It recovers segment by segment, without the transactions open before. 1.0 raises where the epoch
    of a transaction coordinator falls, as it does in made directories; such segments are left out.
    """
    return {
        name: data
        for name, data in files.items()
        if not name.endswith(".txnindex") and int(name.split(".")[0]) not in failed
    }


def compare_with_old(directory: Path, out: Path, interval: int, **options: Any) -> int:
    """Compare with 2.8 and 1.0 and return how many of them answered; 1.0 knows no zstd."""
    compared = 0
    for words, version in (("2.8", (2, 8)), ("1.0", (1, 0))):
        answer = old_oracle(words).answer("recover", dir=directory, indexIntervalBytes=interval)
        if not answer["ok"]:
            assert words == "1.0", answer
            continue
        segments = answer["result"]["segments"]
        errors = {one["baseOffset"]: one["error"] for one in segments if "error" in one}
        for error in errors.values():
            assert words == "1.0", error
            assert "CoordinatorFenced" in error["class"] or "zstd" in str(error).lower(), error
        ours = rebuilt(
            directory,
            out / words,
            index_interval_bytes=interval,
            broker_version=version,
            **options,
        )
        theirs = comparable(recovered_indexes(answer["result"]["files"]), set(errors))
        assert not differences(comparable(ours, set(errors)), theirs), words
        compared += len(errors) < len(segments)
    return compared


def partitions(directory: Path) -> list[Path]:
    """The live partitions under data directories."""
    found = {log.parent for log in directory.rglob("*.log")}
    return sorted(
        path for path in found if not path.name.endswith(("-delete", "-future", "-stray"))
    )


def settings_of_modern(name: str) -> tuple[int, int]:
    """The index interval of a partition's topic, and how large its indexes may be."""
    root = find_shared()
    assert root is not None
    profile = json.loads((root / "corpus/modern/expected/profile.json").read_text())
    for topic in profile["topics"]:
        if topic["name"] == name.rpartition("-")[0]:
            configs = topic["configs"]
            return (
                int(configs.get("index.interval.bytes", 4096)),
                int(configs.get("segment.index.bytes", 10_485_760)),
            )
    return 4096, 10_485_760


@pytest.mark.parametrize("state", MODERN if LONG else MODERN[:1])
def test_rebuilt_directories_match_4_1(state: str, tmp_path: Path) -> None:
    asked = oracle()
    compared = 0
    for directory in partitions(corpus(f"modern/data/{state}")):
        interval, most = settings_of_modern(directory.name)
        theirs = of_oracle(asked, directory, interval, maxIndexSize=most)
        settings = {"index_interval_bytes": interval, "max_index_bytes": most}
        if theirs is None:
            # `tiny-index` rolled because its index was full: a recovery finds it too small.
            refused = [
                item
                for item in items_of(
                    directory, write=True, out=str(tmp_path), every=True, **settings
                )
                if isinstance(item, RefusedError)
            ]
            assert "a broker cannot recover it" in str(refused[0])
            continue
        ours = rebuilt(directory, tmp_path / str(compared), **settings)
        assert not differences(ours, theirs), directory.name
        compared += 1
    assert compared > 40


@pytest.mark.parametrize(
    ("name", "answers", "least"),
    [
        ("modern/data/clean", "modern/clean/topics.json", 40),
        ("modern/data/recovered", "modern/recovered/topics.json", 40),
        ("newest/data/clean", "newest/moments.jsonl", 15),
        ("newest/data/killed", "newest/moments.jsonl", 15),
        ("retention/before", "retention/topics.json", 60),
    ][:: 1 if LONG else 5],
)
def test_topic_settings_are_optional(name: str, answers: str, least: int, tmp_path: Path) -> None:
    asked = oracle()
    intervals = read_intervals(answers)
    compared = 0
    for directory in partitions(corpus(name)):
        interval = int(intervals.get(directory.name.rpartition("-")[0], 4096))
        theirs = of_oracle(asked, directory, interval)
        if theirs is None or directory.name.startswith(("tiny-index", "damaged")):
            continue  # a recovery finds the index too small, or cuts the log
        ours = rebuilt(directory, tmp_path / str(compared))
        assert not differences(ours, theirs), directory.name
        compared += 1
    assert compared > least


def read_intervals(name: str) -> dict[str, str]:
    """The index intervals that topics had of their own, as the admin client was told last."""
    text = find_expected(name).read_text()
    told = json.loads(text.splitlines()[-1] if name.endswith(".jsonl") else text)
    topics = told.get("topics", told)
    return {
        topic: found["configs"]["index.interval.bytes"]
        for topic, found in topics.items()
        if "index.interval.bytes" in found.get("configs", {})
    }


@pytest.mark.parametrize("name", OLD if LONG else OLD[2:])
def test_rebuilt_directories_match_old_brokers(name: str, tmp_path: Path) -> None:
    asked = oracle()
    directories = partitions(corpus(f"old/{name}.clean"))
    directories = [path for path in directories if path.name not in OF_ANY_MAGIC]
    for number, directory in enumerate(directories):
        out = tmp_path / str(number)
        if LONG or number % 5 == 0:
            settings = {"index_interval_bytes": OLD_INTERVAL, "broker_version": NEWEST}
            ours = rebuilt(directory, out / "4.1", **settings)
            theirs = of_oracle(asked, directory, OLD_INTERVAL)
            assert theirs is not None
            assert not differences(ours, theirs), directory.name
        if LONG or number % 5 == 1:
            assert compare_with_old(directory, out, OLD_INTERVAL) == 2, directory.name
    assert directories


def test_unknown_magic_truncates_only_in_new_brokers(tmp_path: Path) -> None:
    directory = corpus("old/v0-0822.clean") / "data" / "bad-0"
    interval = OLD_INTERVAL
    every = rebuilt(directory, tmp_path, index_interval_bytes=interval, broker_version=(0, 8, 2))
    assert set(every) == {"00000000000000000000.index"}
    asked = {"out": str(tmp_path / "none"), "broker_version": NEWEST}
    items = items_of(directory, write=True, every=True, **asked)
    assert any("a checksum mismatch at position 838" in str(item) for item in items)
    assert compare_with_old(directory, tmp_path, interval, up_to_damage=True) == 2


def make_directory(asked: Oracle, parent: Path, number: int) -> tuple[Path, int, str]:
    """Write directory `number`; its profile goes round, sizes and the interval are drawn."""
    rng = random.Random(f"reindex directory {number}")
    profile = PROFILES[number % len(PROFILES)]
    interval = rng.choice((0, 100, 200, 1000, 4096))
    directory = parent / f"{profile}-0"
    asked.ask(
        "make",
        profile=profile,
        seed=number,
        dir=directory,
        options={
            "indexIntervalBytes": str(interval),
            "segmentBytes": str(rng.choice((32 << 10, 64 << 10, 1 << 20))),
            "batches": str(rng.choice((20, 60, 120))),
        },
        close=rng.choice(("clean", "clean", "crash")),
    )
    return directory, interval, f"directory {number} ({profile}, interval {interval})"


@each("number", range(SEED, SEED + _COUNT))
def test_rebuilt_generated_directories_match_the_broker(number: int, tmp_path: Path) -> None:
    asked = oracle()
    directory, interval, words = make_directory(asked, tmp_path, number)
    theirs = of_oracle(asked, directory, interval, now=NOW)
    assert theirs is not None, words
    ours = rebuilt(directory, tmp_path / "4.1", index_interval_bytes=interval)
    assert not differences(ours, theirs), words
    if LONG or number % 4 == 0:
        assert compare_with_old(directory, tmp_path, interval) >= 1, words
    written = {"write": True, "every": True, "index_interval_bytes": interval}
    first = {row["action"] for row in rows_of(directory, **written)}
    assert first <= {"keep", "rebuilt", "created"}, words
    there = {path.name: path.read_bytes() for path in directory.iterdir()}
    assert not differences({n: d for n, d in there.items() if n in ours}, ours), words
    assert {row["action"] for row in rows_of(directory, **written)} <= {"keep"}, words
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == there, words


@each("number", range(SEED, SEED + len(PROFILES)))
def test_rebuilt_leader_epochs_match_the_broker(number: int, tmp_path: Path) -> None:
    asked = oracle()
    directory, interval, words = make_directory(asked, tmp_path, number)
    deleted = ["index", "timeindex", "txnindex", "snapshot", "leader-epoch-checkpoint"]
    answer = asked.ask(
        "recover", dir=directory, indexIntervalBytes=interval, now=NOW, delete=deleted
    )
    theirs = base64.b64decode(answer["files"]["leader-epoch-checkpoint"]["base64"])
    (directory / "leader-epoch-checkpoint").unlink(missing_ok=True)
    row = rows_of(directory, write=True, only=frozenset({Kind.LEADER_EPOCHS}))[-1]
    assert row["action"] == "created", words
    assert (directory / "leader-epoch-checkpoint").read_bytes() == theirs, words


def damage_log(log: Path, rng: random.Random) -> str:
    """Break a log in one way that a recovery may meet."""
    data = bytearray(log.read_bytes())
    at = rng.randrange(len(data))
    kind = rng.choice(("flip", "flip", "cut", "zero", "tail", "zeros", "double"))
    if kind == "flip":
        data[at] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        del data[at:]
    elif kind == "zero":
        data[at : at + 512] = bytes(len(data[at : at + 512]))
    elif kind == "tail":
        data += rng.randbytes(rng.choice((5, 17, 18, 300)))
    elif kind == "zeros":
        data += bytes(rng.choice((5, 17, 18, 4096)))
    else:
        data += data[rng.choice((0, at)) :]
    log.write_bytes(data)
    os.utime(log, (NOW // 1000, NOW // 1000))  # else its tail may be one that is being written
    return f"{kind} at {at} of {log.name}"


@each("number", range(SEED, SEED + _DAMAGED))
def test_rebuilt_damaged_directories_match_up_to_the_truncation(
    number: int, tmp_path: Path
) -> None:
    """The indexes up to the damage are those of the segment that recovery cut.

    Where the broker's code does not cut but empties the segment, splits it or gives up, we refuse,
    and say which.
    """
    asked = oracle()
    rng = random.Random(f"reindex damage {number}")
    directory, interval, words = make_directory(asked, tmp_path, number)
    logs = [log for log in sorted(directory.glob("*.log")) if log.stat().st_size]
    log = rng.choice(logs)
    words = f"{words}: {damage_log(log, rng)}"
    for path in directory.iterdir():
        if path.suffix in (".index", ".timeindex", ".txnindex", ".snapshot"):
            path.unlink()
    base = int(log.stem)
    answer = asked.answer("recover", dir=directory, indexIntervalBytes=interval, now=NOW, delete=[])
    options = {"write": True, "index_interval_bytes": interval}
    items = items_of(directory, out=str(tmp_path / "refused"), **options)
    refused = [item for item in items if isinstance(item, RefusedError)]
    cut = answer["ok"] and answer["result"]["truncatedBytes"]
    if not refused:
        # Zeros that were never written go as well, and are no loss.
        assert not cut or "zeros at" in words or "zero at" in words, words
    if not answer["ok"]:
        assert refused, words
        return
    reason = str(refused[0]) if refused else ""
    items = items_of(directory, out=str(tmp_path / "up"), up_to_damage=True, **options)
    for item in items:
        if isinstance(item, RefusedError):  # what was open behind the damage, without a snapshot
            assert "are unknown" in str(item), words
            assert int(Path(item.path).stem) > base, words
    ours = {path.name: path.read_bytes() for path in (tmp_path / "up" / directory.name).iterdir()}
    theirs = recovered_indexes(answer["result"]["files"])
    if "empties it" in reason or "fails" in reason or "splits" in reason:
        return
    upto = {name: data for name, data in ours.items() if int(name.split(".")[0]) <= base}
    kept = {name: data for name, data in theirs.items() if int(name.split(".")[0]) <= base}
    assert not differences(upto, kept), (words, reason)
    assert any(isinstance(item, Row) for item in items)


def test_transactions_of_one_segment_are_rebuilt_from_its_snapshot(tmp_path: Path) -> None:
    """A transaction begun in an earlier segment: known by the snapshot, or by replaying the log."""
    asked = oracle()
    directory = asked.make(
        "txn", 7, tmp_path / "txn-0", segmentBytes="32768", indexIntervalBytes="200", batches="150"
    )
    theirs = of_oracle(asked, directory, 200, now=NOW)
    assert theirs is not None
    names = [name for name, data in theirs.items() if name.endswith(".txnindex") and data]
    spanning = [
        name
        for name in names
        for at in range(0, len(theirs[name]), 34)
        if int.from_bytes(theirs[name][at + 10 : at + 18], "big") < int(name.split(".")[0])
    ]
    assert spanning, "no transaction crosses a segment's start"
    name = spanning[0]
    for step in ("snapshot", "replay"):
        (directory / name).unlink(missing_ok=True)
        out = tmp_path / step
        items = items_of(
            directory / name.replace(".txnindex", ".log"), write=True, out=str(out), every=True
        )
        assert all(isinstance(item, Row) for item in items)
        assert (out / directory.name / name).read_bytes() == theirs[name], step
        for path in directory.glob("*.snapshot"):
            path.unlink()
    # With neither, it is not guessed.
    earlier = min(directory.glob("*.log"))
    assert earlier.name != name.replace(".txnindex", ".log")
    data = bytearray(earlier.read_bytes())
    data[len(data) // 2] ^= 1
    earlier.write_bytes(data)
    rows = [
        item.fields
        for item in items_of(directory / name.replace(".txnindex", ".log"))
        if isinstance(item, Row)
    ]
    assert rows[-1]["action"] == "refuse"
    assert "are unknown" in rows[-1]["reason"]
    shutil.rmtree(directory)
