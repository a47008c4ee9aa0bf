"""The replay of producer state, by hand."""

import random
from pathlib import Path

import builders
import producing
import pytest
from each import each
from producing import ABORT, COMMIT, NONE, TIME, data, marker

from kdump import kernels
from kdump.broker import producer_state
from kdump.broker.control_batch import Control, read_control
from kdump.broker.producer_events import (
    Event,
    MixedBatch,
    SequenceBreak,
    TransactionEnd,
    TransactionStart,
    Unreadable,
)
from kdump.broker.producer_state import ProducerStates
from kdump.kernels import columns as c
from kdump.record.frames import Oversize, Run
from kdump.storage.producer_snapshot import ProducerSnapshot, ProducerState


def run_of(*batches: bytes) -> Run:
    log = bytearray(b"".join(batches))
    columns, _, _ = kernels.walk(log, 0, len(log), 0, -1, True, len(batches))
    assert columns.count == len(batches)
    assert not columns.flags & c.CRC_BAD
    return Run(log, 0, columns)


def events(*batches: bytes, **options: int) -> list[Event]:
    return ProducerStates(**options).replay(run_of(*batches))


def replay(*batches: bytes) -> ProducerStates:
    states = ProducerStates()
    states.replay(run_of(*batches))
    return states


def test_state_of_a_producer() -> None:
    states = replay(data(0, 7, 5, count=3), data(3), data(4, 7, 8, count=2))
    expected = ProducerState(7, 0, 9, 5, 1, TIME + 4000, NONE, NONE)
    assert states.producers_at_end() == [expected]
    assert (states.next_offset, states.joined_from) == (6, 0)


def test_new_epoch_forgets_the_last_batch() -> None:
    states = replay(data(0, 7, 0), marker(1, 7, COMMIT, epoch=1))
    expected = ProducerState(7, 1, NONE, NONE, 0, TIME + 1000, 0, NONE)
    assert states.producers_at_end() == [expected]


def test_transaction_spans_its_first_batch_and_its_marker() -> None:
    batches = [
        data(0),
        data(1, 7, 0, count=2, transactional=True),
        data(3, 7, 2, transactional=True),
        marker(4, 7, ABORT),
    ]
    opened, ended = events(*batches)
    assert opened == TransactionStart(1, 7, 1)
    assert isinstance(ended, TransactionEnd)
    assert ended.position == sum(map(len, batches[:3]))
    assert (ended.first_offset, ended.offset, ended.committed) == (1, 4, False)
    assert (ended.records_count, ended.last_data_offset) == (3, 3)
    assert ended.aborted_entry() == (0, 7, 1, 4, 5)


def test_commit_or_marker_without_data_makes_no_entry() -> None:
    _, committed, empty = events(
        data(0, 7, 0, transactional=True), marker(1, 7, COMMIT), marker(2, 7, ABORT)
    )
    assert isinstance(committed, TransactionEnd)
    assert isinstance(empty, TransactionEnd)
    assert committed.aborted_entry() is None
    assert (empty.aborted_entry(), empty.first_offset, empty.previous_marker) == (None, -1, 1)


def test_last_stable_offset_is_the_next_open_transaction() -> None:
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
    entries = [one.aborted_entry() for one in found if isinstance(one, TransactionEnd)]
    assert entries == [(0, 7, 0, 3, 1), (0, 9, 2, 4, 1), (0, 8, 1, 5, 6)]
    assert states.open == {}
    assert states.last_stable_offset(6) == 6


def test_open_transactions() -> None:
    states = replay(data(3, 8, 0, transactional=True), data(4, 7, 0, transactional=True), data(5))
    assert states.open == {8: 3, 7: 4}
    assert states.last_stable_offset(6) == 3
    assert states.producers[8].records_count == 1


def test_unjoined_sequence() -> None:
    (found,) = events(data(0, 7, 0, count=2), data(2, 7, 4))
    assert isinstance(found, SequenceBreak)
    assert (found.row, found.expected, found.base_sequence, found.joined) == (1, 2, 4, True)
    assert found.previous.last_offset == 1
    (found,) = events(data(0, 7, 0, count=2), data(3, 7, 4))
    assert isinstance(found, SequenceBreak)
    assert not found.joined


def test_plain_batch_inside_a_transaction() -> None:
    _, found = events(data(0, 7, 0, transactional=True), data(1, 7, 1))
    assert found == MixedBatch(1, 7, 0, joined=True)


@each(
    ("record", "problem", "kind"),
    [
        (builders.control_record(ABORT, b"short"), "short", 0),
        (builders.control_record(ABORT, b"\xff\xff3456"), "value", 0),
        (builders.record(key=b"\0", value=b"123456"), "key", None),
        (builders.control_record(9, b"123456"), "type", 9),
        (builders.control_record(2, b"123456"), "type", 2),
        (builders.control_record(0, b"123456")[:-1], "record", None),
    ],
)
def test_fatal_marker(record: bytes, problem: str, kind: int | None) -> None:
    batch = builders.batch([record], attributes=0x30, producer_id=7, producer_epoch=0)
    assert events(batch) == [Unreadable(0, 7, problem, kind)]
    plain = builders.batch([record], attributes=0x30)
    assert events(plain) == []  # nobody replays it


@each("append_time", [0, builders.LOG_APPEND_TIME])
@each("slack", [False, True])
def test_both_readers_of_markers_agree(append_time: int, slack: bool) -> None:
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


def test_marker_of_an_unknown_producer_adds_it() -> None:
    (ended,) = events(marker(3, 7, ABORT))
    assert isinstance(ended, TransactionEnd)
    assert (ended.first_offset, ended.last_data_offset, ended.previous_marker) == (-1, -1, -1)


def test_empty_control_batch_adds_the_producer() -> None:
    empty = builders.batch(
        [], base_offset=5, attributes=0x30, producer_id=7, producer_epoch=1, last_offset_delta=0
    )
    states = replay(data(4), empty)
    assert states.producers_at_end() == [ProducerState(7, -1, -1, -1, 0, -1, -1, -1)]
    states.reload()
    assert not states.producers
    known = replay(data(4, 7), empty)
    known.reload()
    assert known.producers[7].producer_epoch == 0


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


def test_only_the_first_offset_is_skipped() -> None:
    states = ProducerStates()
    states.replay(run_of(data(0, 7, 0), data(1, 8, 0)), 1)
    assert list(states.producers) == [8]


def test_holes_between_batches_without_producers() -> None:
    states = replay(data(0, 7, 0), data(1))
    for bases, joined_from in (((2, 3), 0), ((5, 6), 5), ((7, 9, 10), 9), ((11, 12), 9)):
        states.replay(run_of(*map(data, bases)))
        assert states.joined_from == joined_from
    states.replay(run_of(data(5), data(13)))
    assert states.joined_from == 13


def test_oversize_batch_counts_as_data() -> None:
    states = ProducerStates()
    one = Oversize(run_of(data(0, 7, 0, transactional=True)).batches)
    assert states.replay(one) == [TransactionStart(0, 7, 0)]
    assert states.open == {7: 0}


def test_start_from_a_snapshot() -> None:
    entries = ProducerSnapshot(producing.snapshot(*producing.AT_SIX))
    states = ProducerStates.from_snapshot(entries)
    found = states.replay(run_of(*producing.SECOND), 6)
    ended = [one.aborted_entry() for one in found if isinstance(one, TransactionEnd)]
    assert ended == [(0, 8, 2, 6, 7), None]
    assert [tuple(one) for one in states.producers_at_end()] == list(producing.AT_TEN)


def test_snapshot_of_more_producers_than_are_kept() -> None:
    """Those with an open transaction are, which matter most."""
    entries = [ProducerState(n, 0, 0, n, 0, TIME, NONE, n if n > 5 else NONE) for n in range(8)]
    states = ProducerStates.from_snapshot(entries, limit=4)
    assert (states.open, states.dropped, states.overflowed) == ({6: 6, 7: 7}, True, False)


def test_open_transactions_of_a_snapshot_are_sorted() -> None:
    """In the file their order has no meaning."""
    entries = [ProducerState(n, 0, 0, 9, 0, TIME, NONE, first) for n, first in ((1, 7), (2, 3))]
    states = ProducerStates.from_snapshot(entries)
    assert states.last_stable_offset(10) == 3


def test_start_of_a_transaction_in_a_snapshot_is_unknown() -> None:
    states = ProducerStates.from_snapshot([ProducerState(7, 0, 0, 5, 0, TIME, 0, 5)])
    mixed, ended = states.replay(run_of(data(6, 7, 1), marker(7, 7, ABORT)))
    assert isinstance(mixed, MixedBatch)
    assert not mixed.joined
    assert isinstance(ended, TransactionEnd)
    assert ended.first_offset == 5 < 7 < ended.joined_from_then


def test_forget() -> None:
    states = replay(data(0, 7, 0, transactional=True))
    states.forget()
    assert (states.producers, states.open, states.next_offset) == ({}, {}, -1)
    assert states.replay(run_of(data(5, 7, 9))) == []


def test_producers_idle_for_longest_are_dropped() -> None:
    states = ProducerStates(limit=4)
    states.replay(run_of(data(0, 0, 0, transactional=True), *(data(n, n, 0) for n in range(1, 40))))
    assert states.dropped
    assert not states.overflowed
    assert len(states.producers) <= 4
    assert 0 in states.producers
    assert 39 in states.producers


def test_most_recent_idle_producers_are_kept() -> None:
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


# Every member of what comes back ------------------------------------------------------------------


def test_every_member_of_an_end() -> None:
    """Of a marker with others open beside it, before and behind, and of a second one."""
    log = [
        data(0, 6, 0, transactional=True),
        data(1, 7, 0, count=2, transactional=True),
        data(4, 8, 0, transactional=True),  # behind a hole
        marker(5, 7, COMMIT, timestamp=50),
        marker(6, 7, ABORT, epoch=1, timestamp=40),
    ]
    states = ProducerStates()
    *_, first, second = states.replay(run_of(*log))
    size = sum(map(len, log[:3]))
    assert first == TransactionEnd(size, 7, 0, 5, True, 1, 0, (0, 4), 2, 2, 4, 0, -1)
    assert second == TransactionEnd(
        size + len(log[3]), 7, 1, 6, False, -1, 0, (0, 4), 2, 5, 4, 0, 5
    )
    assert states.newest_marker_ms == 40
    assert states.producers[7].state(7) == (7, 1, -1, -1, 0, 40, 0, -1)
    assert states.producers[7].last_marker == states.producers[7].last_seen == 6
    for producer, since, stamped, joined in ((6, TIME, 50, 0), (8, TIME + 4000, 50, 4)):
        opened = states.producers[producer]
        assert (opened.since_ms, opened.stamped_ms, opened.joined_from) == (since, stamped, joined)
    states.replay(run_of(marker(7, 6, ABORT, timestamp=60), marker(8, 8, ABORT, timestamp=70)))
    assert states.producers[8].stamped_ms == 50
    assert states.open == {}


def test_transactions_may_follow_each_other() -> None:
    states = replay(
        data(0, 7, 0, count=3, transactional=True),
        marker(3, 7, COMMIT, timestamp=50),
        data(4, 7, 3, transactional=True),
        data(5, 7, 4, count=2, transactional=True),
    )
    producer = states.producers[7]
    assert (producer.first_offset, producer.records_count) == (4, 3)
    assert (producer.since_ms, producer.stamped_ms) == (TIME + 4000, -1)
    assert (producer.last_offset, producer.last_seen, producer.last_marker) == (6, 6, 3)


@pytest.mark.parametrize(("kind", "joined_from"), [("type", 6), ("empty", 6), ("sound", 3)])
def test_unknown_end_leaves_a_hole(kind: str, joined_from: int) -> None:
    """Whose epoch it may have raised is not known, so no sequence is held against what follows."""
    fields = {"base_offset": 5, "attributes": 0x30, "producer_id": 7, "producer_epoch": 0}
    of = {
        "type": builders.batch([builders.control_record(9, b"")], **fields),  # type: ignore[arg-type]
        "empty": builders.batch([], **fields),  # type: ignore[arg-type]
        "sound": marker(5, 7, COMMIT),
    }
    states = replay(data(0), data(3, 7, 0, count=2), of[kind], data(6, 7, 2))
    assert states.joined_from == joined_from
    assert states.producers[7].last_sequence == 2


@each(
    ("second", "unjoined"),
    [
        (data(2, 7, 2), None),
        (data(2, 7, 3), (2, 3, True, False)),
        (data(3, 7, 3), (2, 3, False, False)),
        (data(2, 7, 1), (2, 1, True, False)),
        (data(2, 7, 0), (2, 0, True, False)),
        (data(2, 7, 0, count=2, timestamp=TIME), (2, 0, True, True)),
        (data(2, 7, -1), None),
        (data(2, 7, 0, epoch=1), None),
        (data(3, 7, 9, epoch=1), None),
    ],
)
def test_sequence_gap_is_noticed(
    second: bytes, unjoined: tuple[int, int, bool, bool] | None
) -> None:
    found = events(data(0, 7, 0, count=2), second)
    if unjoined is None:
        assert found == []
        return
    previous = ProducerState(7, 0, 1, 1, 1, TIME, -1, -1)
    expected, sequence, joined, known = unjoined
    assert found == [SequenceBreak(1, 7, 0, expected, sequence, previous, joined, known)]


@each(
    ("log", "rows"),
    [
        ([data(0, 7, 1)], [0]),
        ([data(0), data(1), data(2, 7, 1), data(3, 7, 2)], [2]),
        ([data(1, 7, 1)], []),
        ([data(0), data(2), data(3, 7, 1)], []),
        ([data(4, 7, 0), data(5), data(6, 7, 1, epoch=1)], [2]),
        ([data(4, 7, 0), marker(5, 7, COMMIT, epoch=1), data(6, 7, 1, epoch=1)], [2]),
        ([marker(4, 7, COMMIT, epoch=1), data(5, 7, 1, epoch=1)], []),
        ([data(4, 7, 0), data(6), data(7, 7, 1, epoch=1)], []),
    ],
)
def test_first_sequence_may_be_nonzero(log: list[bytes], rows: list[int]) -> None:
    found = [event for event in events(*log) if isinstance(event, SequenceBreak)]
    assert [(event.row, event.expected, event.is_first) for event in found] == [
        (row, 0, True) for row in rows
    ]
    in_runs = ProducerStates()
    told = [event for part in log for event in in_runs.replay(run_of(part))]
    assert [event.producer_id for event in told if isinstance(event, SequenceBreak)] == [7] * len(
        rows
    )


def test_sequences_wrap_to_zero() -> None:
    most = 0x7FFFFFFF
    states = ProducerStates()
    log = [data(4, 7, most - 1, count=3), data(7, 7, 1), data(8, 7, most), data(9, 7, 0)]
    (found,) = states.replay(run_of(*log))
    assert isinstance(found, SequenceBreak)
    assert (found.row, found.expected, found.base_sequence) == (2, 2, most)
    assert states.producers[7].last_sequence == 0


def test_repeat_does_not_change_its_producer() -> None:
    log = [data(0, 7, 0, count=2), data(2, 7, 0, count=2), data(4, 7, 0), data(5, 7, 2)]
    for repeats, rows in ((True, [1, 2]), (False, [1, 2, 3])):
        states = ProducerStates(is_repeat=lambda event, _, say=repeats: say)
        found = states.replay(run_of(*log))
        assert [event.row for event in found if isinstance(event, SequenceBreak)] == rows
        assert states.producers[7].last_sequence == 2
    states = ProducerStates(is_repeat=lambda *_: True)
    states.replay(run_of(*log[:3]))
    producer = states.producers[7]
    assert (producer.last_sequence, producer.last_offset, producer.last_seen) == (1, 1, 4)


@each(
    ("batches", "joined_from", "next_offset"),
    [
        ((data(0), data(1)), 2, 2),
        ((data(0), data(1, 7, 0), data(2)), 0, 3),
        ((data(0, 7, 0), data(1), data(2)), 0, 3),
        ((data(0, 7, 0), data(5), data(2)), 5, 3),
        ((data(0, 7, 0), data(5), data(6)), 5, 7),
        ((data(5, 7, 0), data(4, count=4), data(7)), 8, 8),
        ((data(0, 7, 0), data(1), data(3, 7, 1)), 3, 4),
    ],
)
def test_start_of_the_contiguous_offsets(
    batches: tuple[bytes, ...], joined_from: int, next_offset: int
) -> None:
    states = replay(*batches)
    assert (states.joined_from, states.next_offset) == (joined_from, next_offset)
    apart = ProducerStates()
    for one in batches:
        apart.replay(run_of(one))
    assert apart.next_offset == next_offset


def test_newest_time_while_a_transaction_is_open() -> None:
    """Of data of no transaction: what a broker's clock had reached; forgotten with the last end."""
    states = ProducerStates()
    for batches, newest in (
        ((data(0, timestamp=900),), -1),
        ((data(1, 9, 0, timestamp=800),), -1),
        ((data(2, 7, 0, transactional=True, timestamp=700),), -1),
        ((data(3, timestamp=300), data(4, timestamp=500), data(5, timestamp=400)), 500),
        ((data(6, 9, 1, timestamp=600), data(7, timestamp=100)), 600),
        ((data(8, 7, 1, transactional=True, timestamp=950),), 600),
        ((data(9, timestamp=550),), 600),
        ((marker(10, 9, COMMIT, timestamp=990),), 600),
        ((marker(11, 7, COMMIT, timestamp=991),), -1),
    ):
        states.replay(run_of(*batches))
        assert states.newest_ms == newest


def test_state_is_reloaded() -> None:
    entry = ProducerState(7, 3, 5, 9, 2, 500, 4, 8)
    closed = ProducerState(8, 1, 0, 3, 0, 400, -1, -1)
    states = replay(data(0, 9, 0, transactional=True), marker(1, 9, ABORT))
    states.load([entry, closed])
    assert states.producers_at_end() == [entry, closed]
    assert (states.open, states.next_offset) == ({7: 8}, -1)
    assert (states.newest_ms, states.newest_marker_ms) == (-1, -1)
    for producer, since, joined in ((7, 500, 0x7FFFFFFFFFFFFFFF), (8, 400, 0)):
        one = states.producers[producer]
        assert (one.since_ms, one.joined_from, one.last_seen) == (since, joined, -1)
    states.replay(run_of(marker(10, 8, COMMIT, timestamp=600)))
    assert states.producers[7].stamped_ms == 600
    assert states.last_stable_offset(20) == 8
    assert ProducerStates().last_stable_offset(20) == 20


def test_state_of_a_snapshot_file(tmp_path: Path) -> None:
    path = tmp_path / f"{6:020}.snapshot"
    assert ProducerStates.from_file(str(path)) is None
    path.write_bytes(producing.snapshot(*producing.AT_SIX))
    states = ProducerStates.from_file(str(path))
    assert states is not None
    assert [tuple(one) for one in states.producers_at_end()] == list(producing.AT_SIX)
    path.write_bytes(path.read_bytes()[:-1])
    assert ProducerStates.from_file(str(path)) is None


def test_snapshot_of_too_many_open_transactions() -> None:
    entries = [ProducerState(n, 0, 0, n, 0, TIME, NONE, n) for n in range(5)]
    for count, overflowed in ((4, False), (5, True)):
        states = ProducerStates.from_snapshot(entries[:count], limit=4)
        assert (states.overflowed, states.dropped) == (overflowed, False)
        assert len(states.open) == 4


def test_half_of_the_idle_producers_are_dropped() -> None:
    for opened, left in ((0, [4, 5, 6, 7, 8]), (6, [0, 1, 2, 3, 4, 5, 7, 8]), (7, None)):
        states = ProducerStates(limit=8)
        batches = [data(n, n, 0, transactional=n < opened) for n in range(9)]
        states.replay(run_of(*batches))
        assert states.overflowed == (left is None)
        assert sorted(states.producers) == (left or [])
        assert (states.dropped, len(states.open)) == (True, opened if left else 0)


def test_marker_of_one_producer_too_many() -> None:
    states = ProducerStates(limit=4)
    states.replay(run_of(*(data(n, n, 0, transactional=True) for n in range(4))))
    assert states.replay(run_of(marker(4, 9, COMMIT))) == []
    assert states.overflowed


def test_first_few_of_many_open_transactions() -> None:
    log = [data(n, n, 0, transactional=True) for n in range(12)]
    *_, ended = events(*log, marker(12, 3, ABORT))
    assert isinstance(ended, TransactionEnd)
    assert ended.others == (0, 1, 2, 4, 5, 6, 7, 8)
    *_, ended = events(log[0], marker(1, 0, ABORT))
    assert isinstance(ended, TransactionEnd)
    assert (ended.others, ended.last_stable_offset) == ((), 2)


def test_first_batch_checksum_is_kept_per_epoch() -> None:
    first = data(0, 7, 0)
    again = first[:7] + b"\2" + first[8:]
    (found,) = events(first, data(1, 7, 1), again)
    assert isinstance(found, SequenceBreak)
    assert found.known_first
    other = data(1, 7, 0, epoch=1)
    assert events(first, other) == []
    (found,) = events(first, other, data(2, 7, 0, epoch=1))
    assert isinstance(found, SequenceBreak)
    assert not found.known_first


def test_kernel_and_row_replay_give_equal_producers(
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
