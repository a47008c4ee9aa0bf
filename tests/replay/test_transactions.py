"""The replay of `__transaction_state`: what counts, what ends it, what cannot be read."""

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from chunks import everything
from corpus import corpus, files, find_shared
from each import each
from long_runs import LONG
from offsets_log import START_MS, Log, chunks, pieces
from oracle import oracle
from transaction_log import STATES, transaction

from kdump.findings.rows import RecordChunk
from kdump.replay.transactions import Transaction, TransactionsLog, key_of

COPIES = ("newest/data/clean", "newest/data/killed", "modern/data/live", "modern/data/recovered")


def replayed(
    taken: Iterable[RecordChunk], until_ms: int | None = None, only: str | None = None
) -> TransactionsLog:
    log = TransactionsLog(until_ms, only)
    for chunk in taken:
        log.take(chunk)
    return log


def read(log: Log, directory: Path, until_ms: int | None = None) -> list[Transaction]:
    path = log.write(directory / "__transaction_state-0")
    return replayed(chunks(path), until_ms).transactions(everything)


def state(log: TransactionsLog) -> object:
    """All that a replay came to, so that two can be compared."""
    return log.transactions(everything), log.newest_ms, log.hole_end, log.end_offset, log.unknown


def test_last_record_of_an_id_wins(tmp_path: Path) -> None:
    log = Log()
    log.add(transaction("b", "Empty"), transaction("a", "Ongoing", ["t-0", "u-1", "t-2"]))
    log.add(transaction("b", "Ongoing", ["t-0"]))
    log.add(transaction("c", "Empty"))
    log.add(transaction("c", None))
    first, second = read(log, tmp_path)
    assert (first.transactional_id, first.state) == ("a", "Ongoing")
    assert set(first.partitions) == {("t", 0), ("t", 2), ("u", 1)}
    assert (second.transactional_id, second.state, second.source_offset) == ("b", "Ongoing", 2)


@each("name", STATES)
def test_states(name: str, tmp_path: Path) -> None:
    log = Log()
    log.add(transaction("a", name, ["t-0"]))
    (found,) = read(log, tmp_path)
    assert found.state == name
    unfinished = name == "Ongoing" or name.startswith("Prepare")
    assert found.is_unfinished is unfinished
    assert found.awaits(7, ("t", 0)) is unfinished
    assert not found.awaits(7, ("t", 1))
    assert not found.awaits(8, ("t", 0))


def test_unknown_state_number(tmp_path: Path) -> None:
    log = Log()
    log.add(transaction("a", 99), transaction("b", -1))
    assert [one.state for one in read(log, tmp_path)] == ["Unknown(99)", "Unknown(-1)"]


def test_fields_of_both_versions_are_read(tmp_path: Path) -> None:
    log = Log()
    log.add(
        transaction("old", "Empty", version=0, transactionStartTimestampMs=-1),
        transaction(
            "new", "Empty", previousProducerId=6, nextProducerId=8, clientTransactionVersion=2
        ),
        transaction("plain", "Empty", transactionPartitions=None),
    )
    new, old, plain = read(log, tmp_path)
    assert (new.previous_producer_id, new.next_producer_id, new.client_version) == (6, 8, 2)
    assert (old.previous_producer_id, old.next_producer_id, old.client_version) == (None,) * 3
    assert (old.start_ms, new.start_ms, old.timeout_ms) == (None, START_MS, 60_000)
    assert plain.partitions == ()


def test_unreadable_values_keep_their_id(tmp_path: Path) -> None:
    log = Log()
    key, value = transaction("a", "Empty")
    assert value is not None
    log.add((key, b"\0\x63" + value[2:]), (key_of("b"), b"\0\1\0"), (key_of("c"), b""))
    newer, cut, empty = read(log, tmp_path)
    assert newer.problem == "unknown-version, version 99"
    assert cut.problem == "malformed, version 1"
    assert empty.problem == "malformed"
    assert newer.state is cut.producer_id is None


def test_unreadable_keys_are_counted(tmp_path: Path) -> None:
    log = Log()
    value = transaction("a", "Empty")[1]
    log.add(
        (None, value), (b"", value), (b"\0\1\0\1a", value), (b"\0\0\0\5a", value), (b"\0", None)
    )
    path = log.write(tmp_path / "__transaction_state-0")
    held = replayed(chunks(path))
    assert held.transactions(everything) == []
    assert held.unknown == 5


def test_time_bound_of_the_replay_is_inclusive(tmp_path: Path) -> None:
    log = Log()
    log.add(transaction("a", "Empty"))
    log.add(transaction("a", "Ongoing", ["t-0"]))
    then_ms = log.now_ms
    log.add(transaction("a", None))
    (found,) = read(log, tmp_path, then_ms)
    assert (found.state, found.written_ms) == ("Ongoing", then_ms)
    (found,) = replayed(chunks(tmp_path / "__transaction_state-0"), then_ms - 1).transactions(
        everything
    )
    assert found.state == "Empty"


def test_holes_are_told_from_damage(tmp_path: Path) -> None:
    log = Log()
    log.add(transaction("a", "Empty"))
    log.add(transaction("a", "Empty"), skip=3)
    path = log.write(tmp_path / "__transaction_state-0")
    held = replayed(chunks(path))
    assert (held.hole_start, held.hole_end, held.end_offset) == (1, 4, 5)
    held = TransactionsLog()
    for chunk in chunks(path):
        for piece in pieces(chunk, range(1, chunk.records.count)):
            held.take(piece)
            held.note_loss()
    assert held.hole_end == 0


def logs_of_corpora() -> list[Path]:
    if find_shared() is None:
        pytest.skip("no corpora")
    return sorted(
        log.parent for name in COPIES for log in files(corpus(name), "__transaction_state-*/*.log")
    )


def test_replay_to_every_offset_equals_a_fresh_replay() -> None:
    """A sample of the offsets; the long profile takes all."""
    draw, seen = random.Random(3), 0
    for path in logs_of_corpora():
        taken = list(chunks(path))
        one_by_one = TransactionsLog()
        for number, chunk in enumerate(taken):
            for row, piece in enumerate(pieces(chunk, range(1, chunk.records.count))):
                one_by_one.take(piece)
                if LONG or draw.random() < 0.2:
                    scratch = replayed([*taken[:number], next(pieces(chunk, [row + 1]))])
                    assert state(one_by_one) == state(scratch)
                    seen += 1
        assert not one_by_one.unknown
    assert seen > 50


def test_replay_of_one_id_equals_the_full_replay() -> None:
    ids = set()
    for path in logs_of_corpora():
        for one in replayed(chunks(path)).transactions(everything):
            assert replayed(chunks(path), only=one.transactional_id).transactions(everything) == [
                one
            ]
            ids.add(one.transactional_id)
    assert len(ids) > 8


@pytest.mark.oracle
def test_generated_records_match_the_broker_classes(tmp_path: Path) -> None:
    """The last record of each id, as the broker's own decoder has it, unless it is a tombstone."""
    broker, count = oracle(), 0
    for seed in range(20 if LONG else 4):
        directory = broker.make("txn-state", seed, tmp_path / str(seed) / "__transaction_state-0")
        said: dict[str, dict[str, Any]] = {}
        for path in sorted(files(directory, "*.log")):
            for told in broker.ask("decode", kind="transaction", file=path):
                if told.get("value") is None:
                    said.pop(told["key"]["transactionalId"], None)
                else:
                    said[told["key"]["transactionalId"]] = told
        found = replayed(chunks(directory)).transactions(everything)
        assert {one.transactional_id: one.source_offset for one in found} == {
            name: told["offset"] for name, told in said.items()
        }
        for one in found:
            value = said[one.transactional_id]["value"]
            assert (one.producer_id, one.producer_epoch) == (
                value["producerId"],
                value["producerEpoch"],
            )
            assert one.state == STATES[value["transactionStatus"]]
            assert set(one.partitions) == {
                (topic["topic"], number)
                for topic in value["transactionPartitions"] or ()
                for number in topic["partitionIds"]
            }
            count += 1
    assert count > 10


def test_overlong_id_has_a_key() -> None:
    assert key_of("a") == b"\0\0\0\1a"
    assert len(key_of("x" * 70_000)) == 70_004


@each("seed", range(2000 if LONG else 20))
def test_hostile_bytes_are_survived(seed: int, tmp_path: Path) -> None:
    """Keys and values with bytes changed: nothing is raised."""
    draw = random.Random(seed)
    log = Log()
    for _ in range(20):
        name = draw.choice(("a", "bb", ""))
        pair = transaction(name, draw.choice(STATES), ["t-0", "u-1"], version=draw.choice((0, 1)))
        changed = []
        for part in pair:
            assert part is not None
            data = bytearray(part)
            for _ in range(draw.choice((0, 0, 1, 3))):
                data[draw.randrange(len(data))] = draw.randrange(256)
            changed.append(
                bytes(data[: draw.randrange(len(data) + 1)] if draw.random() < 0.2 else data)
            )
        log.add((changed[0], changed[1]))
    for one in read(log, tmp_path):
        assert one.problem is None or one.state is None
