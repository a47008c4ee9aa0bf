"""`reindex` on partitions made by hand: what it plans, what it writes, and when it does neither."""

import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import builders
import damage
import pytest
from builders import offset_index, time_index
from reindexing import items_of, rebuilt, rows_of

from kdump.engine.reindex import refusals as reindex_refusals
from kdump.engine.reindex.options import DEFAULT_ONLY
from kdump.engine.reindex.run import kinds_of
from kdump.errors import NothingToDo, PathError, RefusedError
from kdump.findings.finding import Finding, Severity
from kdump.findings.rows import Row
from kdump.kernels.text_form import time_text
from kdump.storage import places
from kdump.storage.names import Kind
from kdump.storage.targets import Selection

TIME = 1_700_000_000_000
STEM = "00000000000000000000"
NEXT = "00000000000000000040"
SIZE = len(builders.batch([builders.record(0, 0), builders.record(1, 0)]))


def a_batch(base: int, time: int | None = None, **fields: Any) -> bytes:
    records = [builders.record(0, 0), builders.record(1, 0)]
    at = TIME + base if time is None else time
    return builders.batch(records, base_offset=base, base_timestamp=at, **fields)


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Give two segments of twenty batches of two records each, a millisecond apart, no indexes."""
    directory = tmp_path / "data" / "orders-0"
    directory.mkdir(parents=True)
    for stem in (STEM, NEXT):
        first = int(stem)
        log = b"".join(a_batch(base) for base in range(first, first + 40, 2))
        (directory / f"{stem}.log").write_bytes(log)
        os.utime(directory / f"{stem}.log", (1_600_000_000, 1_600_000_000))
    return directory


# Every 3rd batch starts more than 2 batches behind the last entry's.
INTERVAL = 2 * SIZE
INDEX = offset_index((6 * n + 1, 3 * n * SIZE) for n in range(1, 7))
TIMES = time_index([*((TIME + 6 * n, 6 * n + 1) for n in range(1, 7)), (TIME + 38, 39)])


def write(directory: Path, **options: Any) -> list[dict[str, Any]]:
    return rows_of(directory, write=True, index_interval_bytes=INTERVAL, **options)


def content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def test_plan_lists_changes_and_writes_nothing(partition: Path) -> None:
    before = content(partition)
    rows = rows_of(partition, index_interval_bytes=INTERVAL)
    assert content(partition) == before
    assert [(row["segment"], row["kind"], row["action"]) for row in rows] == [
        (0, "index", "create"),
        (0, "timeindex", "create"),
        (40, "index", "create"),
        (40, "timeindex", "create"),
    ]
    assert (rows[0]["entries_before"], rows[0]["entries_after"]) == (None, 6)
    assert sum(row["bytes_to_read"] for row in rows) == 40 * SIZE
    assert rows[0]["path"] == str(partition / f"{STEM}.index")


def test_written_entries_equal_those_of_recovery(partition: Path) -> None:
    rows = write(partition)
    assert {row["action"] for row in rows} == {"created"}
    assert (partition / f"{STEM}.index").read_bytes() == INDEX
    assert (partition / f"{STEM}.timeindex").read_bytes() == TIMES
    assert not list(partition.glob("*.bak-*"))
    assert {row["action"] for row in write(partition, every=True)} == {"keep"}


def test_exactly_the_interval_makes_no_entry(partition: Path) -> None:
    rows_of(partition, write=True, index_interval_bytes=3 * SIZE)
    assert (partition / f"{STEM}.index").read_bytes() == offset_index(
        (8 * n + 1, 4 * n * SIZE) for n in range(1, 5)
    )


def test_brokers_before_2_0_index_the_first_offset(partition: Path, tmp_path: Path) -> None:
    files = rebuilt(partition, tmp_path, index_interval_bytes=INTERVAL, broker_version=(1, 1))
    assert files[f"{STEM}.index"] == offset_index((6 * n, 3 * n * SIZE) for n in range(1, 7))
    assert files[f"{STEM}.timeindex"] == TIMES


def test_brokers_before_0_10_1_have_no_time_index(partition: Path, tmp_path: Path) -> None:
    files = rebuilt(partition, tmp_path, broker_version=(0, 10, 0))
    assert set(files) == {f"{STEM}.index", f"{NEXT}.index"}


def test_old_entries_refer_to_the_first_message_of_a_wrapper(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    wrappers = [
        builders.wrapper([builders.message(n, value=bytes(50)) for n in range(3)], base + 2)
        for base in range(0, 12, 3)
    ]
    (directory / f"{STEM}.log").write_bytes(b"".join(wrappers))
    at = [0, *(sum(map(len, wrappers[: n + 1])) for n in range(3))]
    options = {"index_interval_bytes": 0}
    files = rebuilt(directory, tmp_path / "old", broker_version=(1, 1), **options)
    assert files[f"{STEM}.index"] == offset_index([(3, at[1]), (6, at[2]), (9, at[3])])
    files = rebuilt(directory, tmp_path / "new", broker_version=(2, 0), **options)
    assert files[f"{STEM}.index"] == offset_index([(5, at[1]), (8, at[2]), (11, at[3])])


def test_log_without_timestamps_has_no_time_index(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    log = b"".join(builders.message(offset, magic=0) for offset in range(4))
    (directory / f"{STEM}.log").write_bytes(log)
    (directory / f"{STEM}.index").write_bytes(b"")
    assert [(row["kind"], row["action"]) for row in rows_of(directory)] == [("index", "keep")]


def test_different_but_sound_index_is_left_alone(partition: Path) -> None:
    sparse = offset_index([(13, 6 * SIZE)])
    (partition / f"{STEM}.index").write_bytes(sparse)
    rows = rows_of(partition, index_interval_bytes=INTERVAL)
    assert (rows[0]["action"], rows[0]["entries_before"]) == ("keep", 1)
    assert "sound" in rows[0]["reason"]
    assert rows[0]["first_difference"] == {
        "slot": 0,
        "before": {"offset": 13, "position": 6 * SIZE},
        "after": {"offset": 7, "position": 3 * SIZE},
    }
    write(partition)
    assert (partition / f"{STEM}.index").read_bytes() == sparse
    assert write(partition, every=True)[0]["action"] == "rebuilt"
    assert (partition / f"{STEM}.index").read_bytes() == INDEX


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (damage.flip(INDEX, 15), "no batch starts"),
        (INDEX + b"abc", "ends in 3 bytes"),
        (INDEX + bytes(80), "zeros after"),
        (damage.put(INDEX, 8, offset_index([(1, 3 * SIZE + 1)])), "is not above the one before"),
        (offset_index([(4, 3 * SIZE)]), "skips a batch"),
        (offset_index([(39, 20 * SIZE)]), "after the end of the log"),
    ],
)
def test_wrong_index_is_rebuilt_and_backed_up(partition: Path, data: bytes, why: str) -> None:
    (partition / f"{STEM}.index").write_bytes(data)
    row = write(partition)[0]
    assert row["action"] == "rebuilt"
    assert why in row["reason"]
    assert (partition / f"{STEM}.index").read_bytes() == INDEX
    assert Path(row["backup"]).read_bytes() == data
    assert Path(row["backup"]).name.startswith(f"{STEM}.index.bak-2")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "ends at time -1"),
        (time_index([(TIME + 6, 7)]), f"ends at time {time_text(TIME + 6)}"),
        (time_index([(TIME + 5, 7), (TIME + 38, 39)]), "a time that its batch does not have"),
        (time_index([(TIME + 38, 59)]), "after the end of the log"),
    ],
)
def test_wrong_time_index_is_rebuilt(partition: Path, data: bytes, why: str) -> None:
    write(partition)
    (partition / f"{STEM}.timeindex").write_bytes(data)
    row = write(partition)[1]
    assert row["action"] == "rebuilt"
    assert why in row["reason"]
    assert (partition / f"{STEM}.timeindex").read_bytes() == TIMES


def test_newest_segment_may_have_its_full_size(partition: Path) -> None:
    write(partition)
    for kind, size in ((".index", 8), (".timeindex", 12)):
        path = partition / f"{NEXT}{kind}"
        path.write_bytes(path.read_bytes() + bytes(size * 100))
    rows = write(partition)
    assert [row["action"] for row in rows] == ["keep"] * 4
    assert rows[2]["entries_before"] == 6
    assert [row["action"] for row in write(partition, every=True)][2:] == ["rebuilt"] * 2
    assert len((partition / f"{NEXT}.index").read_bytes()) == len(INDEX)


def test_preallocated_log_is_sound(partition: Path) -> None:
    log = partition / f"{NEXT}.log"
    log.write_bytes(log.read_bytes() + bytes(5000))
    items = items_of(partition, write=True, index_interval_bytes=INTERVAL)
    assert all(isinstance(item, Row) for item in items)
    assert (partition / f"{NEXT}.index").read_bytes() == offset_index(
        (6 * n + 1, 3 * n * SIZE) for n in range(1, 7)
    )


# Damage ------------------------------------------------------------------------------------------


def damage_partition(partition: Path) -> None:
    log = partition / f"{STEM}.log"
    log.write_bytes(damage.flip(log.read_bytes(), 10 * SIZE + 70))


def test_damaged_log_is_refused(partition: Path) -> None:
    damage_partition(partition)
    before = content(partition)
    items = items_of(partition, write=True, index_interval_bytes=INTERVAL)
    found = [item for item in items if isinstance(item, Finding)]
    assert [(one.code, one.severity) for one in found] == [("crc-mismatch", Severity.DAMAGE)]
    refused = [str(item) for item in items if isinstance(item, RefusedError)]
    assert len(refused) == 1
    assert f"at position {10 * SIZE:,}" in refused[0]
    assert "loses offsets 20 to 39, including 9 sound batches;" in refused[0]
    assert "; recovery also deletes the next segment" in refused[0]
    # The other segment is whole, and its indexes are written.
    actions = [item.fields["action"] for item in items if isinstance(item, Row)]
    assert actions == ["refuse", "refuse", "created", "created"]
    after = content(partition)
    assert {name: data for name, data in after.items() if name in before} == before


def test_up_to_damage_rebuilds_earlier_entries(partition: Path) -> None:
    damage_partition(partition)
    items = items_of(partition, write=True, index_interval_bytes=INTERVAL, up_to_damage=True)
    assert not any(isinstance(item, RefusedError) for item in items)
    assert (partition / f"{STEM}.index").read_bytes() == INDEX[: 3 * 8]
    assert (partition / f"{STEM}.timeindex").read_bytes() == TIMES[: 3 * 12]


def test_falling_offset_at_an_entry_is_refused(partition: Path) -> None:
    log = partition / f"{STEM}.log"
    log.write_bytes(log.read_bytes() + a_batch(2) + a_batch(4))
    items = items_of(partition, write=True, index_interval_bytes=0)
    refused = [str(item) for item in items if isinstance(item, RefusedError)]
    assert "offsets decrease" in refused[0]
    assert "empties it" in refused[0]


def test_offsets_may_fall_after_the_last_entry(partition: Path) -> None:
    """No entry is due there but the time index's last, which would name the newest message."""
    log = partition / f"{STEM}.log"
    log.write_bytes(log.read_bytes() + a_batch(2, TIME + 1000))
    items = items_of(partition, write=True, index_interval_bytes=INTERVAL)
    refused = [str(item) for item in items if isinstance(item, RefusedError)]
    assert len(refused) == 1
    assert f"at position {21 * SIZE:,}" in refused[0]
    assert "offsets decrease before its end" in refused[0]
    assert "empties it" in refused[0]
    assert not (partition / f"{STEM}.index").exists()
    assert not (partition / f"{STEM}.timeindex").exists()


def test_offset_beyond_the_index_range_is_refused(partition: Path) -> None:
    log = partition / f"{NEXT}.log"
    log.write_bytes(log.read_bytes() + a_batch(1 << 40))
    items = items_of(partition, write=True, index_interval_bytes=INTERVAL)
    refused = [str(item) for item in items if isinstance(item, RefusedError)]
    assert f"offset {(1 << 40) + 1} does not belong" in refused[0]
    assert "splits it" in refused[0]


def test_index_over_the_size_limit_of_the_broker_is_refused(partition: Path) -> None:
    options = {"write": True, "index_interval_bytes": INTERVAL}
    items = items_of(partition, max_index_bytes=8 * 6 - 1, **options)
    assert "segment.index.bytes" in str(
        next(item for item in items if isinstance(item, RefusedError))
    )
    assert not list(partition.glob("*.index"))
    rows_of(partition, max_index_bytes=12 * 8, **options)
    assert (partition / f"{STEM}.index").read_bytes() == INDEX


# Refusals ----------------------------------------------------------------------------------------


@pytest.fixture
def running(partition: Path) -> Iterator[None]:
    """Hold the data directory's lock as a broker does, from another process."""
    lock = partition.parent / ".lock"
    lock.touch()
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        yield
        child.stdin.close()


_HOLD = """
import fcntl, sys
file = open(sys.argv[1], "rb+")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def read_refusal(directory: Path, **options: Any) -> str:
    before = content(directory)
    items = items_of(directory, write=True, **options)
    assert [type(item) for item in items] == [RefusedError], items
    assert content(directory) == before
    return str(items[0])


@pytest.mark.usefixtures("running")
def test_refused_while_a_broker_runs(partition: Path, tmp_path: Path) -> None:
    assert "a broker is running here" in read_refusal(partition)
    # A plan, and building elsewhere, take nothing from it.
    assert len(rows_of(partition)) == 4
    assert len(rebuilt(partition, tmp_path / "out")) == 4


def test_stale_lock_file(partition: Path) -> None:
    (partition.parent / ".lock").touch()
    assert {row["action"] for row in write(partition)} == {"created"}


def test_rebuild_is_refused_without_space(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs

    def full(path: str) -> Any:
        status = real(path)
        return os.statvfs_result((*status[:4], 1, *status[5:]))

    monkeypatch.setattr(reindex_refusals.os, "statvfs", full)
    assert "no space" in read_refusal(partition)


def test_rebuild_is_refused_for_files_of_another_user(
    partition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reindex_refusals.os, "geteuid", lambda: 4711)
    assert "belongs to user" in read_refusal(partition)


def test_rebuild_is_refused_for_links(partition: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.index"
    outside.write_bytes(b"someone's")
    (partition / f"{STEM}.index").symlink_to(outside)
    assert "is a symbolic link" in read_refusal(partition)
    assert outside.read_bytes() == b"someone's"


def test_partition_in_another_directory_is_refused(partition: Path, tmp_path: Path) -> None:
    data = tmp_path / "other"
    data.mkdir()
    (data / "orders-0").symlink_to(partition)
    assert "outside its data directory" in read_refusal(data / "orders-0")
    assert {row["action"] for row in write(partition)} == {"created"}


def test_out_does_not_touch_the_source(partition: Path, tmp_path: Path) -> None:
    (partition / f"{STEM}.index").write_bytes(b"abc")
    before = content(partition)
    rows = rows_of(partition, write=True, out=str(tmp_path / "out"), index_interval_bytes=INTERVAL)
    assert content(partition) == before
    assert [row["action"] for row in rows] == ["rebuilt", "created", "created", "created"]
    built = tmp_path / "out" / "orders-0"
    assert rows[0]["written"] == str(built / f"{STEM}.index")
    assert rows[0]["backup"] is None
    assert (built / f"{STEM}.index").read_bytes() == INDEX
    again = items_of(partition, write=True, out=str(tmp_path / "out"))
    assert "already exists" in str(again[-1])


def test_out_is_refused_where_a_broker_would_read_it(partition: Path) -> None:
    (partition.parent / "meta.properties").touch()
    for out in (partition / "new", partition.parent / "new"):
        items = items_of(partition, write=True, out=str(out))
        assert [type(item) for item in items] == [RefusedError]
        assert not out.exists()


# Undo --------------------------------------------------------------------------------------------


def test_undo_restores_the_newest_run(partition: Path) -> None:
    (partition / f"{STEM}.index").write_bytes(b"first")
    write(partition)
    (partition / f"{STEM}.index").write_bytes(b"second")
    (partition / f"{NEXT}.index").write_bytes(b"other")
    write(partition)
    rows = rows_of(partition, undo=True)
    assert [(row["segment"], row["action"]) for row in rows] == [(0, "restore"), (40, "restore")]
    assert (partition / f"{STEM}.index").read_bytes() == INDEX
    rows = rows_of(partition, undo=True, write=True)
    assert [row["action"] for row in rows] == ["restored"] * 2
    assert (partition / f"{STEM}.index").read_bytes() == b"second"
    assert (partition / f"{NEXT}.index").read_bytes() == b"other"
    # The file in place is not the one that the first run wrote.
    items = items_of(partition, undo=True, write=True)
    assert "was changed" in str(items[0])


def test_undo_without_backups_does_nothing(partition: Path) -> None:
    assert rows_of(partition, undo=True, write=True) == []


# What is named -----------------------------------------------------------------------------------


def test_log_selects_its_indexes_and_an_index_itself(partition: Path) -> None:
    rows = rows_of(partition / f"{NEXT}.log")
    assert [(row["segment"], row["kind"]) for row in rows] == [(40, "index"), (40, "timeindex")]
    (partition / f"{STEM}.timeindex").write_bytes(b"")
    rows = rows_of(partition / f"{STEM}.timeindex")
    assert [(row["segment"], row["kind"]) for row in rows] == [(0, "timeindex")]


def test_data_directory(partition: Path) -> None:
    assert len(rows_of(partition.parent)) == 4
    assert len(rows_of(partition.parent, selection=Selection("ord*"))) == 4
    items = items_of(partition.parent, selection=Selection("other*"))
    assert [type(item) for item in items] == [NothingToDo]


def test_missing_log_is_an_error(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    (directory / f"{STEM}.kafka").write_bytes(builders.pre08_message())
    items = items_of(directory)
    assert [type(item) for item in items] == [PathError]


def test_only_accepts_kinds() -> None:
    assert kinds_of("index, txnindex") == {Kind.OFFSET_INDEX, Kind.TRANSACTION_INDEX}
    assert Kind.LEADER_EPOCHS not in DEFAULT_ONLY
    for words in ("", "indexes"):
        with pytest.raises(ValueError, match=r"(not one|not contain any) of index"):
            kinds_of(words)


# Leader epochs and checkpoints -------------------------------------------------------------------


@pytest.fixture
def epochs(partition: Path) -> Path:
    """Write the second segment in epochs 3 and 5."""
    log = b"".join(a_batch(b, leader_epoch=3 if b < 60 else 5) for b in range(40, 80, 2))
    (partition / f"{NEXT}.log").write_bytes(log)
    return partition


def of_epochs(partition: Path, **options: Any) -> list[dict[str, Any]]:
    return rows_of(partition, only=kinds_of("leader-epochs"), **options)


def test_leader_epochs_are_rebuilt_from_the_log(epochs: Path) -> None:
    row = of_epochs(epochs, write=True)[0]
    assert (row["action"], row["kind"], row["segment"]) == ("created", "leader-epochs", None)
    assert (epochs / "leader-epoch-checkpoint").read_text() == "0\n3\n0 0\n3 40\n5 60\n"
    assert of_epochs(epochs)[0]["action"] == "keep"


def test_leader_epochs_may_have_more_than_the_log(epochs: Path) -> None:
    text = "0\n4\n0 0\n1 40\n3 40\n5 60\n"
    (epochs / "leader-epoch-checkpoint").write_text(text)
    row = of_epochs(epochs)[0]
    assert row["action"] == "keep"
    assert "sound" in row["reason"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0\n2\n0 0\n3 40\n", "epoch 5 is missing"),
        ("0\n3\n0 0\n3 42\n5 60\n", "epoch 3 starts at 42, but its batches start at 40"),
        ("0\n3\n0 0\n3 40\n5 58\n", "epoch 3 ends at 58, but its batches end at 59"),
        ("0\n9\n0 0\n", "9 entries is expected"),
        ("junk", "version 0 is expected"),
    ],
)
def test_wrong_leader_epochs(epochs: Path, text: str, why: str) -> None:
    (epochs / "leader-epoch-checkpoint").write_text(text)
    row = of_epochs(epochs, write=True)[0]
    assert row["action"] == "rebuilt"
    assert why in row["reason"]
    assert (epochs / "leader-epoch-checkpoint").read_text() == "0\n3\n0 0\n3 40\n5 60\n"


def test_leader_epochs_start_at_the_log_start(epochs: Path) -> None:
    (epochs.parent / "log-start-offset-checkpoint").write_text("0\n1\norders 0 45\n")
    of_epochs(epochs, write=True)
    assert (epochs / "leader-epoch-checkpoint").read_text() == "0\n2\n3 45\n5 60\n"


def test_unreadable_checkpoint_is_rebuilt(partition: Path) -> None:
    path = partition.parent / "replication-offset-checkpoint"
    path.write_text("0\n4\norders 0 70\ngone 0 5\norders zero 5\nlost 1")
    only = kinds_of("checkpoints")
    row = rows_of(partition, only=only, write=True)[0]
    assert (row["action"], row["entries_before"], row["entries_after"]) == ("rebuilt", 2, 1)
    assert "A partition without an entry" in row["reason"]
    assert path.read_text() == "0\n1\norders 0 70\n"
    assert Path(row["backup"]).read_text().startswith("0\n4\n")
    assert rows_of(partition, only=only) == []
    path.write_text("0\n1\norders 0 81\njunk")  # beyond the log's end: it cannot be true
    assert rows_of(partition, only=only)[0]["entries_after"] == 0


@pytest.mark.parametrize("gone", ["log", "index", "timeindex", "log index timeindex"])
def test_plan_continues_after_retention_deletes_a_segment(
    partition: Path, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    write(partition)

    def listdir(path: str, *, fresh: bool = False) -> list[str]:
        listed = [at.name for at in Path(path).iterdir()]
        for extension in gone.split():
            (partition / f"{STEM}.{extension}").unlink(missing_ok=True)
        return listed

    monkeypatch.setattr(places, "listdir", listdir)
    rows = rows_of(partition)
    assert {row["segment"] for row in rows} >= {int(NEXT)}


def test_marker_at_the_largest_offset_of_all(tmp_path: Path) -> None:
    """The offset behind it wraps, as LogSegment.recover of 4.1.1 writes it; the rest goes on."""
    base = (1 << 63) - 10
    log = builders.batch(
        [builders.record(n) for n in range(9)],
        base_offset=base, producer_id=5, producer_epoch=0, base_sequence=0,
        attributes=builders.TRANSACTIONAL,
    )  # fmt: skip
    log += builders.marker(0, base_offset=base + 9, producer_id=5)
    for name, first in (("orders-0", base), ("users-0", 0)):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{first:020}.log").write_bytes(log if first else a_batch(0))
    rows = rows_of(tmp_path)
    assert {row["topic"] for row in rows} == {"orders", "users"}
    built = rebuilt(tmp_path / "orders-0", tmp_path / "out")
    assert built[f"{base:020}.txnindex"] == struct.pack(">hqqqq", 0, 5, base, base + 9, -(1 << 63))
