"""The end of what readers of committed data are handed, and the filter of aborted data."""

import os
import struct
from pathlib import Path

from builders import TRANSACTIONAL, batch, control_record
from each import each
from partitions import target_of
from producing import ABORT, COMMIT, data, marker, snapshot

from kdump import kernels
from kdump.broker.visibility import AbortFilter, View, aborted_transactions, last_stable_offset
from kdump.record.frames import Run
from kdump.storage.local_log import LocalLog
from kdump.storage.transaction_index import AbortedTransaction

LIMIT = 1 << 20


def log_in(path: Path, segments: dict[int, list[bytes]], **snapshots: bytes) -> LocalLog:
    path.mkdir(exist_ok=True)
    for base, batches in segments.items():
        (path / f"{base:020}.log").write_bytes(b"".join(batches))
    for at, content in snapshots.items():
        (path / f"{int(at[1:]):020}.snapshot").write_bytes(content)
    return LocalLog(str(path), [file.name for file in path.iterdir()])


def opening(base: int, producer: int) -> bytes:
    return data(base, producer, 0, transactional=True)


FIRST = [data(0), opening(1, 7), opening(2, 8)]
SECOND = [marker(3, 7, COMMIT), data(4), marker(5, 8, ABORT), opening(6, 9), data(7)]
OPEN_AT_THREE = snapshot((8, 0, 0, 2, 0, -1, 0, 2))


@each(
    ("log_start", "mark", "stable"),
    [
        (0, None, 6),
        (0, 8, 6),
        (0, 7, 6),
        (0, 6, 6),
        (0, 5, 2),
        (0, 4, 2),
        (0, 3, 1),
        (2, 3, 2),
        (4, 5, 5),
        (4, 8, 6),
        (7, None, 7),
    ],
)
def test_scan_starts_where_every_transaction_is_decided(
    tmp_path: Path, log_start: int, mark: int | None, stable: int | None
) -> None:
    """A marker from the watermark on ends nothing yet; of the log start's segment all counts."""
    log = log_in(tmp_path / "t-0", {0: FIRST, 3: SECOND})
    found, states = last_stable_offset(log, log_start, mark, LIMIT)
    assert found == stable
    assert [*states.open] == [9]


def test_no_bound_without_an_open_transaction(tmp_path: Path) -> None:
    log = log_in(tmp_path / "t-0", {0: FIRST, 3: SECOND[:3]})
    assert last_stable_offset(log, 0, None, LIMIT)[0] is None
    assert last_stable_offset(log, 0, 6, LIMIT)[0] == 6
    assert last_stable_offset(log_in(tmp_path / "t-1", {}), 0, None, LIMIT)[0] is None


def test_newest_usable_snapshot_is_loaded(tmp_path: Path) -> None:
    """The newest at a segment's base above the log start, and no higher than the watermark."""
    path = tmp_path / "t-0"
    segments = {0: FIRST, 3: SECOND[:2]}
    log = log_in(path, segments, _3=OPEN_AT_THREE)
    for log_start, mark, stable in ((0, None, 2), (0, 3, 2), (0, 2, 1), (2, 5, 2), (3, 5, 5)):
        found, _ = last_stable_offset(log, log_start, mark, LIMIT)
        assert found == stable, (log_start, mark)
    (path / f"{0:020}.log").unlink()
    log = log_in(path, {})
    assert last_stable_offset(log, 0, None, LIMIT)[0] == 2
    log = log_in(path, {}, _5=snapshot(), _3=OPEN_AT_THREE[:-1])
    assert last_stable_offset(log, 0, None, LIMIT)[0] is None


def test_open_transaction_from_a_segment_below_the_log_start(tmp_path: Path) -> None:
    log = log_in(tmp_path / "t-0", {0: [opening(0, 7), data(1, count=4)], 5: [data(5)]})
    for log_start, stable in ((0, 0), (3, 3), (5, None)):
        assert last_stable_offset(log, log_start, None, LIMIT)[0] == stable


def test_aborted_transactions_of_all_segments(tmp_path: Path) -> None:
    path = tmp_path / "t-0"
    path.mkdir()
    for base, entries in ((0, [(7, 5, 9, 0), (7, 1, 3, 0)]), (20, [(8, 1, 2, 0)])):
        content = b"".join(struct.pack(">hqqqq", 0, *entry) for entry in entries)
        (path / f"{base:020}.txnindex").write_bytes(content)
    (path / f"{30:020}.txnindex").mkdir()
    log = log_in(path, {0: FIRST})
    found = aborted_transactions(log.segments)
    assert [entry[1:4] for entry in found] == [(8, 1, 2), (7, 1, 3), (7, 5, 9)]


def view_of(root: Path, *, committed: bool = True) -> View:
    return View(target_of(root / "t-0"), committed=committed, limit=LIMIT)


def test_transaction_that_blocks_read_committed_consumers(tmp_path: Path) -> None:
    path = tmp_path / "t-0"
    log_in(path, {0: FIRST, 3: SECOND})
    checkpoint = tmp_path / "replication-offset-checkpoint"
    checkpoint.write_text("0\n1\nt 0 8\n")
    os.utime(checkpoint, (1 << 32, 1 << 32))
    view = view_of(tmp_path)
    assert (view.end, view.log_start, view.findings) == (6, 0, [])
    assert view.held is not None
    assert (view.held.code, view.held.offset) == ("read-committed-stops", 6)
    assert (view.held.topic, view.held.partition, view.held.path) == ("t", 0, str(path))
    assert view.held.message.startswith("Producer 9, epoch 0, has a transaction open since ")
    assert view.held.message.endswith(": read_committed consumers receive nothing from there "
                                      "on.")  # fmt: skip
    assert view_of(tmp_path, committed=False).end == 8
    checkpoint.write_text("0\n1\nt 0 5\n")  # what sets the end is decided, and not replicated
    os.utime(checkpoint, (1 << 32, 1 << 32))
    view = view_of(tmp_path)
    assert (view.end, view.held) == (2, None)


def test_aborted_transactions_that_reach_an_offset(tmp_path: Path) -> None:
    path = tmp_path / "t-0"
    log_in(path, {0: FIRST})
    content = b"".join(struct.pack(">hqqqq", 0, *one) for one in ((7, 1, 3, 0), (8, 2, 5, 0)))
    (path / f"{0:020}.txnindex").write_bytes(content)
    view = view_of(tmp_path)
    for offset, producers in ((0, [7, 8]), (3, [7, 8]), (4, [8]), (5, [8]), (6, [])):
        assert [entry.producer_id for entry in view.list_aborted(offset)] == producers
    assert view_of(tmp_path, committed=False).aborted == []


def test_filter_of_aborted_data() -> None:
    """By producer, from the first offset of a transaction to its ABORT marker."""
    odd = batch([control_record(9, b"")], base_offset=6, attributes=TRANSACTIONAL | 0x20,
                producer_id=7, producer_epoch=0)  # fmt: skip
    log = [
        (opening(0, 7), False),
        (data(1, 7, 1, count=2, transactional=True), True),
        (opening(3, 8), False),
        (data(4), False),
        (data(5, 7, 3), False),
        (odd, False),
        (data(7, 7, 3, transactional=True), True),
        (marker(8, 7, COMMIT), False),
        (data(9, 7, 4, transactional=True), True),
        (marker(10, 7, ABORT), False),
        (data(11, 7, 5, transactional=True), False),
        (data(12, 8, 1, transactional=True), True),
    ]
    aborted = [AbortedTransaction(0, 8, 12, 20, 0), AbortedTransaction(0, 7, 2, 10, 0)]
    content = bytearray(b"".join(entry for entry, _ in log))
    rows, _, _ = kernels.walk(content, 0, len(content), 0, -1, True, len(log))
    run = Run(content, 0, rows)
    skips = AbortFilter(aborted).skips
    assert [skips(run, row) for row in range(rows.count)] == [skipped for _, skipped in log]
