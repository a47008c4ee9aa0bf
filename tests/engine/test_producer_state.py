"""The replay of producer state: by hand, and against the broker's own recovery.

KDUMP_FUZZ=long takes more seeds of the oracle's histories, from KDUMP_FUZZ_SEED on.
"""

import base64
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import builders
import producing
import pytest
import transactional
from oracle import oracle
from producing import ABORT, COMMIT, NONE, TIME, data, marker

from kdump import kernels
from kdump.broker import producer_state
from kdump.broker.control_batch import Control, read_control
from kdump.broker.producer_state import (
    Ended,
    Event,
    Mixed,
    Opened,
    ProducerStates,
    Unjoined,
    Unreadable,
)
from kdump.kernels import columns as c
from kdump.record.frames import Oversize, Run
from kdump.storage.file_records import FileRecords
from kdump.storage.layout import ABORTED_TRANSACTION
from kdump.storage.local_log import LocalLog
from kdump.storage.producer_snapshot import ProducerSnapshot, ProducerState
from kdump.storage.source import Source

_LONG = os.environ.get("KDUMP_FUZZ") == "long"
_FIRST = int(os.environ.get("KDUMP_FUZZ_SEED", "1"))
SEEDS = range(_FIRST, _FIRST + (40 if _LONG else 2))
HISTORIES = range(_FIRST, _FIRST + (1000 if _LONG else 10))


def run_of(*batches: bytes) -> Run:
    log = bytearray(b"".join(batches))
    columns, _, _ = kernels.walk(log, 0, len(log), 0, -1, True, len(batches))
    assert columns.count == len(batches)
    assert not columns.flags & c.CRC_BAD
    return Run(log, 0, columns)


def events(*batches: bytes, **options: int) -> list[Event]:
    return ProducerStates(**options).replay(run_of(*batches))


def replayed(*batches: bytes) -> ProducerStates:
    states = ProducerStates()
    states.replay(run_of(*batches))
    return states


def test_state_of_a_producer() -> None:
    states = replayed(data(0, 7, 5, count=3), data(3), data(4, 7, 8, count=2))
    expected = ProducerState(7, 0, 9, 5, 1, TIME + 4000, NONE, NONE)
    assert states.producers_at_end() == [expected]
    assert (states.next_offset, states.joined_from) == (6, 0)


def test_new_epoch_makes_the_last_batch_unknown() -> None:
    states = replayed(data(0, 7, 0), marker(1, 7, COMMIT, epoch=1))
    expected = ProducerState(7, 1, NONE, NONE, 0, TIME + 1000, 0, NONE)
    assert states.producers_at_end() == [expected]


def test_transaction_from_its_first_batch_to_its_marker() -> None:
    batches = [
        data(0),
        data(1, 7, 0, count=2, transactional=True),
        data(3, 7, 2, transactional=True),
        marker(4, 7, ABORT),
    ]
    opened, ended = events(*batches)
    assert opened == Opened(1, 7, 1)
    assert isinstance(ended, Ended)
    assert ended.position == sum(map(len, batches[:3]))
    assert (ended.first_offset, ended.offset, ended.committed) == (1, 4, False)
    assert (ended.records_count, ended.last_data_offset) == (3, 3)
    assert ended.aborted() == (0, 7, 1, 4, 5)


def test_commit_and_marker_without_data_make_no_entry() -> None:
    _, committed, empty = events(
        data(0, 7, 0, transactional=True), marker(1, 7, COMMIT), marker(2, 7, ABORT)
    )
    assert isinstance(committed, Ended)
    assert isinstance(empty, Ended)
    assert committed.aborted() is None
    assert (empty.aborted(), empty.first_offset, empty.previous_marker) == (None, -1, 1)


def test_last_stable_offset_is_the_next_open_transaction_of_another() -> None:
    states = ProducerStates()
    found = states.replay(
        run_of(
            data(0, 7, 0, transactional=True),
            data(1, 8, 0, transactional=True),
            data(2, 9, 0, transactional=True),
            marker(3, 7, ABORT),
            marker(4, 9, ABORT),
            marker(5, 8, ABORT),
        )
    )
    entries = [one.aborted() for one in found if isinstance(one, Ended)]
    assert entries == [(0, 7, 0, 3, 1), (0, 9, 2, 4, 1), (0, 8, 1, 5, 6)]
    assert states.open == {}
    assert states.last_stable_offset(6) == 6


def test_open_transactions() -> None:
    states = replayed(data(3, 8, 0, transactional=True), data(4, 7, 0, transactional=True), data(5))
    assert states.open == {8: 3, 7: 4}
    assert states.last_stable_offset(6) == 3
    assert states.producers[8].records_count == 1


def test_unjoined_sequence() -> None:
    (found,) = events(data(0, 7, 0, count=2), data(2, 7, 4))
    assert isinstance(found, Unjoined)
    assert (found.row, found.expected, found.base_sequence, found.joined) == (1, 2, 4, True)
    assert found.previous.last_offset == 1
    (found,) = events(data(0, 7, 0, count=2), data(3, 7, 4))
    assert isinstance(found, Unjoined)
    assert not found.joined


def test_plain_batch_inside_a_transaction() -> None:
    _, found = events(data(0, 7, 0, transactional=True), data(1, 7, 1))
    assert found == Mixed(1, 7, 0, joined=True)


@pytest.mark.parametrize(
    ("record", "problem", "kind"),
    [
        (builders.control_record(ABORT, b"short"), "value", 0),
        (builders.record(key=b"\0", value=b"123456"), "key", None),
        (builders.control_record(9, b"123456"), "type", 9),
        (builders.control_record(2, b"123456"), "type", 2),
        (builders.control_record(0, b"123456")[:-1], "record", None),
    ],
)
def test_marker_no_broker_gets_past(record: bytes, problem: str, kind: int | None) -> None:
    batch = builders.batch([record], attributes=0x30, producer_id=7, producer_epoch=0)
    assert events(batch) == [Unreadable(0, 7, problem, kind)]
    plain = builders.batch([record], attributes=0x30)
    assert events(plain) == []  # nobody replays it


@pytest.mark.parametrize("append_time", [0, builders.LOG_APPEND_TIME])
@pytest.mark.parametrize("slack", [False, True])
def test_markers_read_by_their_bytes_and_record_by_record(append_time: int, slack: bool) -> None:
    """The usual form has a short way; another form, here a longer value, has the same meaning."""
    value = (0).to_bytes(2, "big") + (77).to_bytes(4, "big") + b"x" * slack
    batch = builders.batch(
        [builders.control_record(COMMIT, value)],
        attributes=builders.TRANSACTIONAL | builders.CONTROL | append_time,
        producer_id=7,
        producer_epoch=0,
        base_timestamp=50,
        max_timestamp=90,
    )
    expected = Control(COMMIT, 77, 90 if append_time else 50)
    assert read_control(run_of(batch), 0) == expected


def test_compressed_marker() -> None:
    """No broker writes one, and all read it."""
    batch = builders.batch(
        [builders.control_record(ABORT, b"\0\0\0\0\0\5")],
        attributes=builders.TRANSACTIONAL | builders.CONTROL | builders.GZIP,
        compress=builders.gzip_bytes,
        producer_id=7,
        producer_epoch=0,
    )
    assert read_control(run_of(batch), 0) == Control(ABORT, 5, TIME)


def test_marker_of_a_producer_never_seen() -> None:
    (ended,) = events(marker(3, 7, ABORT))
    assert isinstance(ended, Ended)
    assert (ended.first_offset, ended.last_data_offset, ended.previous_marker) == (-1, -1, -1)


def test_part_of_a_run() -> None:
    """Asked for the state in its midst; what was passed over is not part of it."""
    run = run_of(data(0, 7, 0), data(1, 7, 1, count=3), data(4, 7, 4))
    states = ProducerStates()
    states.replay(run, 0, 4)
    assert states.next_offset == 4
    states.replay(run, 4)
    assert states.next_offset == 5
    late = ProducerStates()
    assert late.replay(run, 3) == []
    assert (late.producers[7].last_sequence, late.joined_from) == (4, 1)
    assert late.replay(run, 5) == []


def test_the_first_offset_alone_is_passed_over() -> None:
    states = ProducerStates()
    states.replay(run_of(data(0, 7, 0), data(1, 8, 0)), 1)
    assert list(states.producers) == [8]


def test_holes_between_batches_without_producers() -> None:
    states = replayed(data(0, 7, 0), data(1))
    for bases, joined_from in (((2, 3), 0), ((5, 6), 5), ((7, 9, 10), 9), ((11, 12), 9)):
        states.replay(run_of(*map(data, bases)))
        assert states.joined_from == joined_from
    states.replay(run_of(data(5), data(13)))
    assert states.joined_from == 13


def test_oversize_batch_is_a_data_batch() -> None:
    states = ProducerStates()
    one = Oversize(run_of(data(0, 7, 0, transactional=True)).batches)
    assert states.replay(one) == [Opened(0, 7, 0)]
    assert states.open == {7: 0}


def test_start_from_a_snapshot() -> None:
    entries = ProducerSnapshot(producing.snapshot(*producing.AT_SIX))
    states = ProducerStates.from_snapshot(entries)
    found = states.replay(run_of(*producing.SECOND), 6)
    ended = [one.aborted() for one in found if isinstance(one, Ended)]
    assert ended == [(0, 8, 2, 6, 7), None]
    assert [tuple(one) for one in states.producers_at_end()] == list(producing.AT_TEN)


def test_snapshot_of_more_producers_than_are_kept() -> None:
    """Those with an open transaction are, which matter most."""
    entries = [ProducerState(n, 0, 0, n, 0, TIME, NONE, n if n > 5 else NONE) for n in range(8)]
    states = ProducerStates.from_snapshot(entries, limit=4)
    assert (states.open, states.dropped, states.overflowed) == ({6: 6, 7: 7}, True, False)


def test_open_transactions_of_a_snapshot_rise() -> None:
    """In the file their order has no meaning."""
    entries = [ProducerState(n, 0, 0, 9, 0, TIME, NONE, first) for n, first in ((1, 7), (2, 3))]
    states = ProducerStates.from_snapshot(entries)
    assert states.last_stable_offset(10) == 3


def test_how_a_transaction_of_a_snapshot_began_is_not_known() -> None:
    states = ProducerStates.from_snapshot([ProducerState(7, 0, 0, 5, 0, TIME, 0, 5)])
    mixed, ended = states.replay(run_of(data(6, 7, 1), marker(7, 7, ABORT)))
    assert isinstance(mixed, Mixed)
    assert not mixed.joined
    assert isinstance(ended, Ended)
    assert ended.first_offset == 5 < 7 < ended.joined_from_then


def test_forget() -> None:
    states = replayed(data(0, 7, 0, transactional=True))
    states.forget()
    assert (states.producers, states.open, states.next_offset) == ({}, {}, -1)
    assert states.replay(run_of(data(5, 7, 9))) == []


def test_longest_idle_producers_are_dropped() -> None:
    states = ProducerStates(limit=4)
    states.replay(run_of(data(0, 0, 0, transactional=True), *(data(n, n, 0) for n in range(1, 40))))
    assert states.dropped
    assert not states.overflowed
    assert len(states.producers) <= 4
    assert 0 in states.producers
    assert 39 in states.producers


def test_of_the_idle_the_last_seen_stay() -> None:
    """However long ago they were first seen."""
    states = ProducerStates(limit=4)
    states.replay(run_of(*(data(n, n, 0) for n in range(4)), data(4, 0, 1), data(5, 5, 0)))
    assert sorted(states.producers) == [0, 3, 5]


def test_too_many_open_transactions() -> None:
    states = ProducerStates(limit=4)
    states.replay(run_of(*(data(n, n, 0, transactional=True) for n in range(9))))
    assert states.overflowed
    assert states.producers == {}
    assert states.replay(run_of(data(9, 3, 1))) == []


# Against the broker's recovery


def recovered(directory: Path) -> dict[str, bytes]:
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
    theirs = recovered(directory)
    states = ProducerStates()
    ours: dict[str, bytes] = {}
    at: dict[int, list[ProducerState]] = {}
    for base, item in items(LocalLog.open(str(directory))):
        if item is None:
            at[base] = states.producers_at_end()
            continue
        for event in states.replay(item):
            if isinstance(event, Ended) and (entry := event.aborted()) is not None:
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
@pytest.mark.parametrize("profile", ["txn", "compacted", "restarts", "group-offsets"])
@pytest.mark.parametrize("seed", SEEDS)
def test_replay_equals_recovery(tmp_path: Path, profile: str, seed: int) -> None:
    check(oracle().make(profile, seed, tmp_path / f"{profile}-0"))


@pytest.mark.oracle
def test_replay_equals_recovery_of_ten_transactional_logs(tmp_path: Path) -> None:
    entries = producers = 0
    for seed in range(_FIRST, _FIRST + 10):
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


def test_followed_in_the_kernel_or_row_by_row_producers_come_to_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for number in range(200):
        data = producing.random_log(random.Random(number))
        outcomes = []
        for followed in (64, 0):
            monkeypatch.setattr(producer_state, "_FOLLOWED", followed)
            states, events, start = ProducerStates(), [], 0
            while start < len(data):
                batches, stop, _ = kernels.walk(data, start, len(data), 0, -1, True, 3)
                events.append(states.replay(Run(bytearray(data), 0, batches)))
                start = stop
            outcomes.append((states.producers_at_end(), states.next_offset, states.joined_from,
                             [[type(one) for one in some] for some in events]))  # fmt: skip
        assert outcomes[0] == outcomes[1], number
