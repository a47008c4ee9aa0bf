"""What is kept of the producers while a start loads a log, and what of it stops the start."""

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from builders import batch, control_record, gzip_bytes, record
from each import each
from producing import ABORT, COMMIT, Entry, data, marker, snapshot

from kdump.broker import recovered_producers
from kdump.broker.log_reader import CorruptRecordError, Entries, RefusalError, UnknowableError
from kdump.broker.recovered_producers import Producers, Snapshots
from kdump.broker.versions import Version
from kdump.storage.producer_snapshot import ProducerState
from kdump.storage.source import Source


def state(producer: int, first: int) -> ProducerState:
    return ProducerState(producer, 0, 0, first, 0, -1, 0, first)


def test_snapshot_is_written_only_after_the_last_one() -> None:
    producers = Producers(Snapshots(()))
    kept = producers.snapshots.kept
    producers.take_snapshot()
    assert kept == {}
    producers.end_offset = 5
    producers.take_snapshot()
    opened = state(7, 5)
    producers.states.load([opened])
    producers.take_snapshot()
    assert kept == {5: []}
    producers.end_offset = 6
    producers.take_snapshot()
    assert kept == {5: [], 6: [opened]}
    producers.end_offset = 3
    producers.take_snapshot()
    assert sorted(kept) == [5, 6]


@each(
    ("offsets", "bases", "kept"),
    [
        ((0, 10, 20), [0, 10], [0, 10, 20]),
        ((5, 15, 20, 30), [0, 10], [30]),
        ((0, 5, 9), [0, 10], [0]),
        ((10, 12), [10], [10, 12]),
        ((9, 10), [10], [10]),
        ((3, 5), [], [5]),
    ],
)
def test_snapshots_without_a_segment_are_deleted_but_the_newest(
    offsets: Sequence[int], bases: list[int], kept: list[int]
) -> None:
    snapshots = Snapshots((offset, "") for offset in offsets)
    snapshots.remove_strays(bases)
    assert sorted(snapshots.kept) == kept


ENTRY: Entry = (7, 0, 0, 5, 0, -1, 0, 5)
CLOSED: Entry = (8, 0, 0, 5, 0, -1, 0, -1)
AT_ZERO: Entry = (9, 0, 0, 0, 0, -1, 0, 0)


@each(
    ("newest", "found"),
    [
        (snapshot(ENTRY, CLOSED, AT_ZERO), 20),
        (snapshot(ENTRY)[:-1], 10),
        (struct.pack(">h", 2) + snapshot(ENTRY)[2:], 10),
        (snapshot(ENTRY)[:-1] + b"\1", 10),
        (snapshot(ENTRY) + bytes(3), 10),
        (b"", 10),
        (None, 10),
    ],
)
def test_newest_loadable_snapshot_is_used(newest: bytes | None, found: int, tmp_path: Path) -> None:
    """Of it the open transactions are kept; those that cannot be loaded are deleted."""
    paths = {at: tmp_path / f"{at:020}.snapshot" for at in (10, 20)}
    paths[10].write_bytes(snapshot())
    if newest is not None:
        paths[20].write_bytes(newest)
    snapshots = Snapshots((at, str(path)) for at, path in paths.items())
    wanted = [ProducerState(*ENTRY), ProducerState(*AT_ZERO)] if found == 20 else []
    for _ in range(2):
        assert snapshots.newest() == (found, wanted)
    assert max(snapshots.kept) == found
    paths[10].unlink()
    assert Snapshots([(10, str(paths[10]))]).newest() is None


def test_reload_uses_the_newest_snapshot_above_the_log_start() -> None:
    for log_start, end, known, kept in (
        (0, 30, 30, [10, 20, 30]),
        (0, 29, 20, [10, 20]),
        (9, 10, 10, [10]),
        (10, 19, 10, []),
        (30, 35, 30, []),
    ):
        producers = Producers(Snapshots(()))
        producers.snapshots.kept.update({at: [state(at, at)] for at in (10, 20, 30)})
        producers.reload(log_start, end)
        assert (producers.end_offset, producers.snapshot_offset) == (known, known)
        assert sorted(producers.snapshots.kept) == kept
        assert producers.ongoing == ({known} if kept else set())
        assert [*producers.states.open.items()] == ([(known, known)] if kept else [])
    producers.end_offset = 35
    producers.snapshots.kept[36] = []
    producers.reload(30, 35)  # that is where it is already
    assert (producers.end_offset, producers.snapshot_offset) == (35, 30)
    assert producers.snapshots.kept == {}


def recover(
    path: Path, *log: bytes, limit: int = 10_000, broker: Version = (4, 1)
) -> tuple[Producers, Exception | None]:
    """Replay a log as recovery does; give what it stops at."""
    return _ran(path, log, limit, recovering=True, broker=broker)


def replay(path: Path, *log: bytes, limit: int = 10_000) -> tuple[Producers, Exception | None]:
    """Replay a log as loading does."""
    return _ran(path, log, limit, recovering=False)


def _ran(
    path: Path, log: Sequence[bytes], limit: int, *, recovering: bool, broker: Version = (4, 1)
) -> tuple[Producers, Exception | None]:
    file = path / f"{0:020}.log"
    file.write_bytes(b"".join(log))
    producers = Producers(Snapshots(()))
    with Source(str(file)) as source:
        entries = Entries(source, broker, 0, source.size, limit=limit)
        try:
            if not recovering:
                producers.replay(entries, entries.as_is(0))
            else:
                for rows in entries.as_is(0):
                    producers.recover(entries, rows, 0, rows.count)
        except (RefusalError, UnknowableError) as error:
            return producers, error
    return producers, None


OPEN = data(0, 7, 0, transactional=True)


def odd(*records: bytes, **fields: object) -> bytes:
    """Write a control batch at offset 1 behind OPEN."""
    given = {"base_offset": 1, "producer_id": 7, "producer_epoch": 0, "attributes": 0x30, **fields}
    return batch(records, **given)  # type: ignore[arg-type]


LONG = control_record(0, struct.pack(">hi", 0, 0) + bytes(2_000))
OPENED = "the transaction it opened at 0"
REFUSALS: list[tuple[bytes, int, type[Exception], str]] = [
    (data(1, 7, 1), 1000, RefusalError,
     f"InvalidTxnStateException: producer 7 writes at offset 1 outside {OPENED}"),
    (odd(control_record(5, b"")), 1000, RefusalError,
     "IllegalArgumentException: control type 5 is neither ABORT nor COMMIT"),
    (odd(record(key=b"\0")), 1000, CorruptRecordError,
     "InvalidRecordException: a control record without a type"),
    (odd(control_record(0, b"\xff\xff0000")), 1000, CorruptRecordError,
     "InvalidRecordException: a marker of a negative version"),
    (odd(control_record(0, b"short")), 1000, RefusalError,
     "BufferUnderflowException: a marker without a coordinator epoch"),
    (odd(control_record(0, bytes(6)), records_count=2, payload=b"\x7f"), 1000, CorruptRecordError,
     "InvalidRecordException: a control batch that cannot be read"),
    (odd(attributes=0x31, payload=b"no gzip", records_count=1), 1000, RefusalError,
     "KafkaException: a control batch that cannot be decompressed"),
    (odd(LONG), 1000, UnknowableError, f"a control batch of {len(odd(LONG))} bytes"),
]  # fmt: skip


@each(("entry", "limit", "error", "words"), REFUSALS)
def test_invalid_entries_stop_a_replay(
    entry: bytes, limit: int, error: type[Exception], words: str, tmp_path: Path
) -> None:
    for run in (recover, replay):
        producers, raised = run(tmp_path, OPEN, entry, data(2), limit=limit)
        assert type(raised) is error
        assert str(raised) == words
        if isinstance(raised, CorruptRecordError) and run is recover:
            assert raised.end_position == len(OPEN + entry)
            assert producers.end_offset == 1
            assert producers.states.open == {7: 0}


def test_state_before_a_broken_marker_is_kept(tmp_path: Path) -> None:
    """What ended and began in the entries before it is replayed again; what lies behind is not."""
    broken = odd(control_record(0, b"\xff\xff0000"), base_offset=2)
    log = [OPEN, marker(1, 7, COMMIT), broken, data(3, 8, 0, transactional=True)]
    producers, raised = recover(tmp_path, *log)
    assert isinstance(raised, CorruptRecordError)
    assert raised.end_position == sum(map(len, log[:3]))
    assert (producers.end_offset, producers.states.open) == (2, {})


@each("value", [b"", b"\0", bytes(5), b"short"])
def test_short_marker_ended_a_recovery_before_4_1(value: bytes, tmp_path: Path) -> None:
    """`EndTransactionMarker.deserialize` of 1.0.2 to 4.4.0 was asked."""
    log = [OPEN, odd(control_record(0, value)), data(2)]
    producers, raised = recover(tmp_path, *log, broker=(4, 0))
    assert isinstance(raised, CorruptRecordError)
    assert str(raised) == "InvalidRecordException: a marker without a coordinator epoch"
    assert (raised.end_position, producers.end_offset) == (sum(map(len, log[:2])), 1)
    _, raised = recover(tmp_path, *log)
    assert str(raised) == "BufferUnderflowException: a marker without a coordinator epoch"


def test_marker_without_a_transaction_is_replayed(tmp_path: Path) -> None:
    for run in (recover, replay):
        producers, raised = run(tmp_path, marker(0, 7, ABORT), marker(1, 8, COMMIT))
        assert (raised, producers.completed) == (None, set())
        producers, raised = run(tmp_path, OPEN, marker(1, 7, COMMIT), data(2))
        assert (raised, producers.completed, producers.ongoing) == (None, {0}, set())
        assert producers.first_unstable() == 0
        producers, raised = run(tmp_path, OPEN, data(1, 8, 0, transactional=True))
        assert (producers.completed, producers.ongoing) == (set(), {0, 1})
        assert producers.first_unstable() == 0
        producers, raised = run(tmp_path, OPEN, data(0, 8, 0, transactional=True),
                                marker(1, 7, COMMIT), marker(2, 8, COMMIT))  # fmt: skip
        words = "the transaction of producer 8 that began at 0 was not started"
        assert str(raised) == f"IllegalArgumentException: {words}"
    assert Producers(Snapshots(())).first_unstable() is None


def test_recovered_aborts_are_in_order(tmp_path: Path) -> None:
    log = [OPEN, marker(1, 7, ABORT), data(1, 7, 1, transactional=True), marker(1, 7, ABORT)]
    _, raised = recover(tmp_path, *log)
    words = "the abort at 1 is not later than the one at 1"
    assert str(raised) == f"IllegalArgumentException: {words}"
    assert replay(tmp_path, *log)[1] is None
    producers, raised = recover(tmp_path, *log[:3], marker(2, 7, ABORT), data(3))
    assert (raised, producers.last_aborted, producers.end_offset) == (None, 2, 4)
    _, raised = recover(tmp_path, *log[:3], marker(1, 7, COMMIT))
    assert raised is None


def test_more_open_transactions_than_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = recovered_producers.ProducerStates
    monkeypatch.setattr(recovered_producers, "ProducerStates", lambda: states(4))
    log = [data(at, at, 0, transactional=True) for at in range(5)]
    for run in (recover, replay):
        assert run(tmp_path, *log[:4])[1] is None
        raised = run(tmp_path, *log)[1]
        assert isinstance(raised, UnknowableError)
        assert str(raised) == "too many open transactions"


def test_compressed_marker_is_limited_in_size(tmp_path: Path) -> None:
    sound = odd(control_record(0, bytes(6)), attributes=0x31, compress=gzip_bytes)
    assert recover(tmp_path, OPEN, sound, limit=len(sound))[1] is None
    raised = recover(tmp_path, OPEN, sound, limit=len(sound) - 1)[1]
    assert isinstance(raised, UnknowableError)
    huge = odd(record(key=bytes(2 << 20)), attributes=0x31, compress=gzip_bytes)
    raised = recover(tmp_path, OPEN, huge)[1]
    assert str(raised) == "a control batch that is not opened"
