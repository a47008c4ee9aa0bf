"""What a start would do, on directories written by hand; each was once wrong, or may become so."""

import pickle
import struct
from pathlib import Path
from typing import Any

import pytest
from builders import TRANSACTIONAL, batch, marker, message, pre08_message, record, wrapper
from damage import flip
from partitions import Partition, target_of, write_segment

from kdump.broker.settings import Settings
from kdump.engine.predict.recovery import predict_partition
from kdump.engine.predict.verdict import predict_directory
from kdump.findings.rows import Row
from kdump.storage.log_dir import LogDir

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
EVERY = Settings(index_interval_bytes=0)


def batch_of(base: int, count: int = 1, **fields: Any) -> bytes:
    return batch([record(at) for at in range(count)], base_offset=base, **fields)


class Directory(Partition):
    """A data directory with one partition, and what a start does to it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.write("partition.metadata", f"version: 0\ntopic_id: {TOPIC_ID}\n".encode())

    def write(self, name: str, data: bytes) -> None:
        (self.path / name).write_bytes(data)

    def segment(self, base: int, *batches: bytes, index: bytes | None = b"") -> None:
        write_segment(self.path, base, b"".join(batches), index, None if index is None else b"")

    def clean(self) -> None:
        (self.root / ".kafka_cleanshutdown").write_bytes(b"")

    def row(self, broker: tuple[int, ...] = (4, 1), settings: Settings = EVERY) -> Row:
        return predict_partition(target_of(self.path, listed=False), broker, settings)

    def predict(self, broker: tuple[int, ...] = (4, 1), settings: Settings = EVERY) -> Any:
        return self.row(broker, settings).fields


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    return Directory(tmp_path)


def slot(offset: int, position: int) -> bytes:
    return struct.pack(">ii", offset, position)


def test_split_segment_is_named(directory: Directory) -> None:
    """As cleaners before 2.0 made them; 2.8.2 and 4.1.1 were seen to make the same two."""
    far = 2**31
    directory.segment(0, batch_of(0, 3), batch_of(far + 5, 3))
    directory.segment(far + 100, batch_of(far + 100))
    row = directory.predict()
    assert (row["outcome"], row["records_lost"]) == ("recover", 0)
    assert row["reason"] == (
        "segment 0 is split, as its offsets are too far apart for an index: into 0, 2147483653"
    )
    assert "split" not in directory.predict((1, 1))["reason"]


def test_clean_stop_loses_nothing(directory: Directory) -> None:
    directory.segment(0, batch_of(0, 3), batch_of(3, 2))
    directory.clean()
    row = directory.predict()
    assert (row["outcome"], row["log_end_after"], row["records_lost"]) == ("clean", 5, 0)
    assert row["segments_read"] == []


def test_recovery_of_sound_segments_loses_nothing(directory: Directory) -> None:
    directory.segment(0, batch_of(0, 3))
    directory.segment(3, batch_of(3, 3))
    directory.segment(6, batch_of(6, 3))
    directory.checkpoint("recovery-point", 4)
    row = directory.predict()
    assert (row["outcome"], row["log_end_after"]) == ("recover", 9)
    assert row["indexes_rebuilt"] == [3, 6]  # the one that holds the recovery point, and later ones


def test_recovery_truncates_at_the_first_broken_batch(directory: Directory) -> None:
    whole = [batch_of(at) for at in range(6)]
    directory.segment(0, whole[0], flip(whole[1], 70), whole[2])
    directory.segment(3, *whole[3:5])
    directory.segment(5, whole[5])
    row = directory.predict()
    assert (row["outcome"], row["log_end_before"], row["log_end_after"]) == (
        "delete-segments",
        6,
        1,
    )
    assert (row["truncate_segment"], row["truncate_position"]) == (0, len(whole[0]))
    assert (row["first_lost_offset"], row["records_lost"]) == (1, 5)
    assert row["segments_deleted"] == [3, 5]


def test_damage_below_the_recovery_point_is_not_found(directory: Directory) -> None:
    directory.segment(0, flip(batch_of(0), 70))
    directory.segment(1, batch_of(1))
    directory.checkpoint("recovery-point", 1)
    row = directory.predict()
    assert (row["outcome"], row["records_lost"]) == ("recover", 0)


def test_log_truncated_by_a_missing_index_keeps_later_segments(directory: Directory) -> None:
    """Recovery at load cuts, too, but only what recovery of the log cuts takes the rest along."""
    directory.segment(0, batch_of(0), flip(batch_of(1), 70), index=None)
    directory.segment(2, batch_of(2))
    directory.clean()
    row = directory.predict()
    assert (row["outcome"], row["log_end_after"]) == ("truncate", 3)
    assert (row["truncate_segment"], row["segments_deleted"]) == (0, [])
    assert (row["first_lost_offset"], row["records_lost"]) == (1, 1)


def test_truncation_at_load_keeps_its_reason(directory: Directory) -> None:
    """Recovery comes to it a second time, and finds nothing more to cut."""
    directory.segment(0, batch_of(0))
    directory.segment(1, bytes(300), index=None)
    row = directory.predict()
    assert row["truncate_segment"] == 1
    assert "an impossible entry size" in row["reason"]


def test_clean_shutdown_file_keeps_a_torn_indexed_batch(directory: Directory) -> None:
    first, last = batch_of(10, 2), batch_of(12, 2)
    directory.segment(10, first, last[:-5], index=slot(3, len(first)))
    directory.clean()
    row = directory.predict()
    assert (row["outcome"], row["log_end_before"], row["log_end_after"]) == ("empty", 14, 10)
    assert (row["truncate_position"], row["records_lost"]) == (None, 4)


@pytest.mark.parametrize("tail", [bytes(18), struct.pack(">qi", 9, -5) + bytes(20)])
def test_tail_after_a_clean_stop_stops_the_broker(directory: Directory, tail: bytes) -> None:
    directory.segment(0, batch_of(0), tail)
    directory.clean()
    assert directory.predict()["outcome"] == "refuses-to-start"
    assert directory.predict((0, 9))["outcome"] == "clean"


def test_tail_of_seventeen_bytes_is_ignored(directory: Directory) -> None:
    directory.segment(0, batch_of(0), bytes(17))
    directory.clean()
    assert directory.predict()["outcome"] == "clean"


def test_message_too_small_for_its_header_has_its_offset(directory: Directory) -> None:
    """Of a batch the last offset would be read further on (S9); a message's comes first."""
    small = struct.pack(">qiIbb", 5, 14, 0, 1, 0) + bytes(8)
    directory.segment(0, message(0), small)
    directory.clean()
    row = directory.predict()
    assert (row["outcome"], row["log_end_after"]) == ("clean", 6)


def test_falling_index_entry_empties_the_segment(directory: Directory) -> None:
    directory.segment(0, batch_of(0, 3), batch_of(3, 3), batch_of(3, 3))
    row = directory.predict()
    assert (row["outcome"], row["truncate_position"], row["log_end_after"]) == ("empty", 0, 0)
    assert row["records_lost"] == 6  # a second copy is no second loss
    sparse = directory.predict(settings=Settings())
    assert (sparse["outcome"], sparse["log_end_after"]) == ("recover", 6)  # goes unnoticed


def test_falling_index_entry_at_load_stops_the_broker(directory: Directory) -> None:
    directory.segment(0, batch_of(0, 3), batch_of(3, 3), batch_of(3, 3), index=None)
    directory.clean()
    assert directory.predict()["outcome"] == "refuses-to-start"


def test_offset_below_the_base_stops_the_broker(directory: Directory) -> None:
    directory.segment(10, batch_of(10), batch_of(9))
    row = directory.predict()
    assert row["outcome"] == "refuses-to-start"
    assert "Split operation" in row["reason"]


def test_offset_too_far_up_splits_the_segment(directory: Directory) -> None:
    directory.segment(0, batch_of(0), batch_of(1 << 32))
    row = directory.predict()
    assert (row["outcome"], row["log_end_after"]) == ("wrong-log-end", (1 << 32) + 1)
    assert (row["log_end_before"], row["records_lost"]) == (1, 0)
    assert "the segment is split" in row["reason"]


def test_producers_are_kept_up_to_the_recovered_segment(directory: Directory) -> None:
    """The state at its base is kept there (R8): what lies before is not replayed a second time."""
    producer = {"producer_id": 7, "producer_epoch": 0}
    plain = batch_of(1, base_sequence=0, **producer)
    opening = batch_of(2, base_sequence=1, attributes=TRANSACTIONAL, **producer)
    directory.segment(0, batch_of(0))
    directory.segment(1, plain, opening)
    directory.segment(3, flip(batch_of(3), 70))
    directory.segment(4, batch_of(4))
    directory.segment(5, batch_of(5))
    directory.checkpoint("recovery-point", 3)
    row = directory.predict()
    assert (row["outcome"], row["log_end_after"]) == ("delete-segments", 3)
    assert row["segments_deleted"] == [4, 5]


def test_split_segment_is_named_for_the_first_offset_in_a_wrapper(directory: Directory) -> None:
    high = (1 << 32) + 1
    directory.segment(
        0, wrapper([message(0), message(1)], 1), wrapper([message(0), message(1)], high)
    )
    row = directory.predict()
    assert (row["outcome"], row["log_end_after"]) == ("wrong-log-end", high + 1)
    assert row["indexes_rebuilt"] == [0, 1 << 32]


def test_plain_batch_in_a_transaction_stops_the_broker(directory: Directory) -> None:
    of = {"producer_id": 7, "producer_epoch": 0}
    directory.segment(
        0, batch_of(0, attributes=TRANSACTIONAL, base_sequence=0, **of), batch_of(1, **of)
    )
    row = directory.predict()
    assert row["outcome"] == "refuses-to-start"
    assert "InvalidTxnStateException" in row["reason"]


def test_abort_out_of_order_stops_the_broker(directory: Directory) -> None:
    data = batch_of(0, attributes=TRANSACTIONAL, producer_id=7, producer_epoch=0, base_sequence=0)
    end = marker(0, base_offset=1, producer_id=7)
    directory.segment(0, data, end, data, end)
    row = directory.predict(settings=Settings())
    assert row["outcome"] == "refuses-to-start"
    directory.segment(0, data, end)
    assert directory.predict()["outcome"] == "recover"


def test_open_transaction_is_found_at_a_clean_start(directory: Directory) -> None:
    data = batch_of(0, attributes=TRANSACTIONAL, producer_id=7, producer_epoch=0, base_sequence=0)
    broken = struct.pack(">qi", 0, 10) + data[12:]
    last = batch_of(1)
    directory.segment(0, broken, last, index=slot(1, len(data)))
    directory.clean()
    assert directory.predict()["outcome"] == "clean"
    from builders import crc32c

    entry = struct.pack(">qhiqiqiq", 7, 0, 0, 0, 0, 0, -1, 0)
    body = struct.pack(">i", 1) + entry
    directory.write(f"{2:020d}.snapshot", struct.pack(">hI", 1, crc32c(body)) + body)
    assert directory.predict()["outcome"] == "refuses-to-start"


def test_log_start_above_the_log_end(directory: Directory) -> None:
    directory.segment(0, batch_of(0, 3))
    directory.checkpoint("log-start", 50)
    row = directory.predict()
    assert (row["outcome"], row["log_end_after"]) == ("delete-segments", 50)
    assert row["segments_deleted"] == [0]
    assert directory.predict((2, 0))["outcome"] == "recover"


def test_search_by_base_offsets_since_4_1(directory: Directory) -> None:
    """Behind falling offsets the newest brokers find no end where older ones do."""
    first, second, again = batch_of(0, 3), batch_of(3, 3), batch_of(1, 2)
    directory.segment(0, first, second, again, index=slot(5, len(first)))
    directory.clean()
    assert directory.predict((4, 0))["log_end_after"] == 3
    assert directory.predict((4, 1))["log_end_after"] == 0


def test_swap_is_completed(directory: Directory) -> None:
    directory.segment(0, batch_of(0), batch_of(1))
    directory.segment(2, batch_of(2))
    directory.write(f"{0:020d}.log.swap", batch_of(1))
    directory.clean()
    row = directory.predict()
    assert (row["outcome"], row["log_end_after"]) == ("recover", 3)
    assert row["segments_deleted"] == [0]
    assert row["indexes_rebuilt"] == []  # looking for its end has given it an index of zeros


def test_swap_of_an_old_broker_displaces_the_segment_before(directory: Directory) -> None:
    directory.segment(0, message(0), message(1))
    directory.write(f"{2:020d}.log.swap", message(2))
    directory.segment(3, message(3))
    directory.checkpoint("recovery-point", 3)
    row = directory.predict((0, 10, 2))
    assert (row["outcome"], row["segments_deleted"]) == ("delete-segments", [0])
    assert (row["first_lost_offset"], row["records_lost"]) == (0, 2)
    assert directory.predict((0, 8, 2))["segments_deleted"] == []
    assert directory.predict((1, 1))["segments_deleted"] == [0]
    assert directory.predict((2, 0))["segments_deleted"] == []  # it ends below the other


def test_indexes_next_to_a_swap_are_deleted_until_2_8(directory: Directory) -> None:
    """So the log that is there is recovered as it is loaded, before the swap takes its place."""
    directory.segment(0, message(0), message(1))
    directory.write(f"{0:020d}.log.swap", message(1))
    directory.clean()
    assert directory.predict((0, 10, 2))["indexes_rebuilt"] == [0]
    assert directory.predict((2, 8))["indexes_rebuilt"] == [0]
    assert directory.predict((3, 0))["indexes_rebuilt"] == []


def test_size_beyond_memory_in_old_brokers(directory: Directory) -> None:
    directory.segment(0, message(0), struct.pack(">qi", 1, (1 << 31) - 1) + bytes(30))
    directory.clean()
    assert directory.predict((0, 8, 2))["outcome"] == "out-of-memory"
    assert directory.predict((4, 1))["outcome"] == "clean"


TORN = struct.pack(">qi", 3, 40) + bytes(20)
TOO_SMALL = struct.pack(">qi", 3, 5) + bytes(20)


@pytest.mark.parametrize("tail", [TORN, TOO_SMALL], ids=["torn", "undersized"])
@pytest.mark.parametrize("broker", [(0, 8, 2), (0, 9), (0, 10, 0), (0, 10, 1)])
def test_index_entry_at_a_broken_tail_in_old_brokers(
    directory: Directory, broker: tuple[int, ...], tail: bytes
) -> None:
    sound = message(0) + message(1) + message(2)
    directory.segment(0, sound, tail, index=slot(3, len(sound)))
    directory.write(f"{0:020d}.timeindex", struct.pack(">qi", 1, 3))
    directory.clean()
    row = directory.predict(broker)
    assert (row["outcome"], row["log_end_after"]) == ("empty", 0)
    assert row["records_lost"] == (4 if tail == TORN else 3)  # with the torn one, whose head stands


@pytest.mark.parametrize("broker", [(0, 8, 2), (0, 9), (0, 10, 1)])
def test_old_brokers_delete_a_single_torn_entry(
    directory: Directory, broker: tuple[int, ...]
) -> None:
    directory.segment(3, TORN)
    directory.checkpoint("recovery-point", 3)
    directory.clean()
    assert directory.predict(broker)["log_end_after"] == 3


def test_constructor_creates_a_missing_index(directory: Directory) -> None:
    directory.segment(0, message(0), message(1), index=None)
    directory.segment(2, message(2))
    directory.checkpoint("recovery-point", 2)
    directory.clean()
    for broker in ((0, 9, 0, 1), (0, 10, 0, 1)):
        assert directory.predict(broker)["indexes_rebuilt"] == []
    for broker in ((0, 8, 2, 2), (0, 10, 1), (2, 8), (4, 4)):
        assert directory.predict(broker)["indexes_rebuilt"] == [0]


def test_second_byte_of_an_aborted_transactions_version(directory: Directory) -> None:
    directory.segment(0, batch_of(0))
    directory.write(f"{0:020d}.txnindex", struct.pack(">hqqqq", 9, 1, 0, 0, 1))
    directory.clean()
    assert directory.predict((4, 3, 1))["outcome"] == "clean"
    row = directory.predict((4, 4))
    assert row["outcome"] == "refuses-to-start"
    assert "aborted transaction of version 9" in row["reason"]


def test_zeroed_index_by_era(directory: Directory) -> None:
    directory.segment(0, message(0), index=bytes(8))
    directory.segment(1, message(1))
    directory.clean()
    assert directory.predict((0, 8, 2))["outcome"] == "refuses-to-start"
    assert directory.predict((0, 10, 2))["indexes_rebuilt"] == [0]
    assert directory.predict((4, 1))["indexes_rebuilt"] == []


def test_rebuilt_index_is_checked_by_old_brokers_too(directory: Directory) -> None:
    """Two messages of the base offset: recovery makes an entry that its own check refuses."""
    directory.segment(0, message(0), message(0))
    assert directory.predict((0, 8, 2))["outcome"] == "refuses-to-start"
    assert directory.predict((0, 9))["outcome"] == "recover"


def test_high_watermark_bounds_a_torn_header(directory: Directory) -> None:
    directory.segment(0, batch_of(0, 3), batch_of(3, 4)[:7])
    directory.checkpoint("replication", 7)
    row = directory.predict()
    assert (row["log_end_before"], row["log_end_after"], row["records_lost"]) == (7, 3, 4)
    assert row["first_lost_offset"] == 3


def test_missing_partition_metadata(directory: Directory) -> None:
    directory.segment(0, batch_of(0))
    (directory.path / "partition.metadata").unlink()
    row = directory.predict()
    assert (row["outcome"], row["log_end_after"]) == ("stray", 0)
    assert directory.predict((3, 6))["outcome"] == "recover"


def test_partition_missing_in_checkpoints_is_unknown(directory: Directory) -> None:
    directory.segment(0, batch_of(0))
    (directory.root / "replication-offset-checkpoint").write_text("0\n1\nother 0 5\n")
    assert directory.predict()["outcome"] == "unknown"


def test_empty_partition(directory: Directory) -> None:
    row = directory.predict()
    assert (row["outcome"], row["log_end_after"]) == ("recover", 0)


def test_deleted_partition_is_predicted(directory: Directory) -> None:
    directory.segment(0, flip(batch_of(0), 70))
    target = directory.path.rename(directory.root / f"t-0.{'0' * 32}-delete")
    directory.path = target
    row = directory.predict()
    assert (row["outcome"], row["segments_deleted"]) == ("delete-segments", [0])


def test_broker_0_7_truncates_the_last_file_and_checks_gaps(directory: Directory) -> None:
    one = pre08_message(b"one")
    directory.write(f"{0:020d}.kafka", one + one)
    directory.write(f"{2 * len(one):020d}.kafka", one + flip(one, len(one) - 1))
    row = directory.predict((0, 7))
    assert (row["outcome"], row["truncate_position"]) == ("truncate", len(one))
    assert row["log_end_after"] == 3 * len(one)
    directory.write(f"{0:020d}.kafka", one)
    assert directory.predict((0, 7))["outcome"] == "refuses-to-start"


def test_data_directory_with_one_bad_partition(directory: Directory) -> None:
    directory.segment(10, batch_of(9))
    around = LogDir.open(str(directory.root))
    row = predict_directory(around, [directory.row()], (4, 1))
    assert row is not None
    assert (row.fields["outcome"], row.fields["topic"]) == ("refuses-to-start", None)
    directory.segment(10, batch_of(10))
    assert predict_directory(around, [directory.row()], (4, 1)) is None


def test_data_directory_with_a_strange_directory_or_a_double(
    directory: Directory, tmp_path: Path
) -> None:
    around = LogDir.open(str(directory.root))
    assert predict_directory(around, [], (4, 1)) is None
    other = tmp_path / "other"
    (other / "t-0").mkdir(parents=True)
    double = predict_directory(around, [], (4, 1), others=[LogDir.open(str(other))])
    assert double is not None  # for the name `other`, and for t-0 in both
    assert "is also in" in str(double.fields["reason"])
    assert "other is not a partition" in str(double.fields["reason"])


def test_row_can_be_pickled(directory: Directory) -> None:
    directory.segment(0, batch_of(0), flip(batch_of(1), 70))
    row = directory.row()
    assert pickle.loads(pickle.dumps(row)) == row


def test_unreadable_file_is_unknown(directory: Directory) -> None:
    (directory.path / f"{0:020d}.log").mkdir()
    assert directory.predict()["outcome"] == "unknown"


@pytest.mark.parametrize("absurd", [6_577_225_780_797_898_836, (1 << 31) + 40])
def test_clean_stop_trusts_an_absurd_last_offset(directory: Directory, absurd: int) -> None:
    """Nothing is lost yet, and nothing counts up to that offset."""
    directory.segment(0, *(batch_of(at, 4) for at in range(0, 40, 4)))
    directory.segment(40, *(batch_of(at, 4) for at in range(40, 60, 4)), batch_of(absurd, 4))
    directory.clean()
    row = directory.predict()
    assert (row["outcome"], row["log_end_before"], row["log_end_after"]) == (
        "wrong-log-end",
        60,
        absurd + 4,
    )
    assert (row["records_lost"], row["first_lost_offset"]) == (0, None)


def test_clean_stop_with_a_negative_last_offset_deletes_every_segment(directory: Directory) -> None:
    directory.segment(0, *(batch_of(at, 4) for at in range(0, 40, 4)))
    bad = -6_577_225_780_797_898_836
    directory.segment(40, *(batch_of(at, 4) for at in range(40, 60, 4)), batch_of(bad, 4))
    directory.clean()
    row = directory.predict()
    assert (row["outcome"], row["segments_deleted"]) == ("delete-segments", [0, 40])
    assert (row["log_end_before"], row["log_end_after"]) == (60, 0)
    assert (row["records_lost"], row["first_lost_offset"]) == (60, 0)


def test_clean_stop_with_a_last_offset_further_down(directory: Directory) -> None:
    """The offsets behind it are given again to other records."""
    directory.segment(0, *(batch_of(at, 4) for at in range(0, 40, 4)), batch_of(7, 4))
    directory.clean()
    row = directory.predict()
    assert (row["outcome"], row["log_end_before"], row["log_end_after"]) == (
        "wrong-log-end",
        40,
        11,
    )
    assert (row["records_lost"], row["first_lost_offset"]) == (28, 11)


@pytest.mark.parametrize("absurd", [6_577_225_780_797_898_836, (1 << 31) - 40, -5])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_records_after_an_absurd_offset_are_lost(
    directory: Directory, absurd: int, magic: int
) -> None:
    """Damage that ends inside the next batch's base offset, and 322 records behind it."""

    def entry(offset: int, count: int = 1) -> bytes:
        if magic < 2:
            return message(offset, magic=magic)
        return batch_of(offset, count)

    whole = [entry(at) for at in range(330)]
    whole[8] = struct.pack(">q", absurd) + whole[8][8:]
    directory.segment(0, *whole[:7], b"\xff" * len(whole[7]), *whole[8:])
    row = directory.predict()
    assert (row["outcome"], row["log_end_after"]) == ("truncate", 7)
    assert (row["log_end_before"], row["first_lost_offset"]) == (330, 7)
    assert 321 <= row["records_lost"] <= 323


def test_broken_last_batch_counts_at_most_its_capacity(directory: Directory) -> None:
    """What its header says is as doubtful as its bytes."""
    bad = flip(batch_of(4, records_count=1 << 30, last_offset_delta=(1 << 30) - 1), 70)
    directory.segment(0, batch_of(0, 4), bad)
    row = directory.predict()
    assert (row["outcome"], row["records_lost"]) == ("truncate", 0)


def test_impossible_high_watermark_counts_nothing(directory: Directory) -> None:
    directory.segment(0, batch_of(0, 4))
    directory.checkpoint("replication-offset-checkpoint"[:11], 6_577_225_780_797_898_836)
    row = directory.predict()
    assert (row["records_lost"], row["log_end_before"]) == (0, 4)
