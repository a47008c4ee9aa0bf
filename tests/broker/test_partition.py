"""Fetches and their steps, on a partition of two segments made by hand."""

import struct
from pathlib import Path

import pytest
from builders import TRANSACTIONAL, batch, marker, message, record
from partitions import Partition
from segments import offset_index

from kdump.broker.lookup_records import BrokerError
from kdump.broker.partition import FetchStart
from kdump.broker.settings import Settings
from kdump.broker.versions import NEWEST
from kdump.storage.file_records import DEFAULT_LIMIT
from kdump.storage.index import OffsetPosition
from kdump.storage.names import OFFSET_MAX

T0 = 1_700_000_000_000


def at(base: int, count: int = 2, **fields: object) -> bytes:
    records = [record(number, number) for number in range(count)]
    given = {"base_offset": base, "base_timestamp": T0 + base, "max_timestamp": T0 + base + count}
    return batch(records, **{**given, **fields})  # type: ignore[arg-type]


SIZE = len(at(0))


@pytest.fixture
def partition(tmp_path: Path) -> Partition:
    """Give offsets 0 to 5 and, in a second segment, 10 to 13."""
    made = Partition(tmp_path)
    made.segment(0, at(0) + at(2) + at(4), offset_index([(3, SIZE)]))
    made.segment(10, at(10) + at(12), offset_index([(3, SIZE)]))
    return made


SECOND = OffsetPosition(3, SIZE)


@pytest.mark.parametrize(
    ("offset", "found", "record_there"),
    [
        (0, FetchStart(0, 0, SIZE, 0, 1, None, 1), 0),
        (2, FetchStart(0, SIZE, SIZE, 2, 3, None, 2), 2),
        (3, FetchStart(0, SIZE, SIZE, 2, 3, SECOND, 1), 3),
        (5, FetchStart(0, 2 * SIZE, SIZE, 4, 5, SECOND, 2), 5),
        (6, FetchStart(10, 0, SIZE, 10, 11, None, 1), 10),
        (11, FetchStart(10, 0, SIZE, 10, 11, None, 1), 11),
        (13, FetchStart(10, SIZE, SIZE, 12, 13, OffsetPosition(13, SIZE), 1), 13),
    ],
)
@pytest.mark.parametrize("as_is", [True, False])
def test_fetch(
    partition: Partition, offset: int, found: FetchStart, record_there: int, as_is: bool
) -> None:
    for broker in ((3, 9), NEWEST):
        view = partition.view(broker, as_is=as_is)
        assert view.fetch(offset) == found
        time = T0 + record_there
        assert view.record_at(found, offset) == (record_there, time)
        view.close()
        assert view.fetch(offset) == found


def test_fetch_out_of_range(partition: Partition) -> None:
    view = partition.view()
    assert view.fetch(14) is None
    assert [(step.step, step.file, step.text) for step in view.steps] == [
        ("end", str(partition.path), "that is the log end: nothing to return yet")
    ]
    for offset in (15, -1):
        with pytest.raises(BrokerError) as raised:
            view.fetch(offset)
        assert str(raised.value) == "OFFSET_OUT_OF_RANGE: the log starts at 0 and ends at 14"
    partition.checkpoint("log-start", 3)
    view = partition.view()
    assert view.fetch(3) is not None
    with pytest.raises(BrokerError, match="the log starts at 3 and ends at 14"):
        view.fetch(2)
    as_is = partition.view(as_is=True)
    assert as_is.fetch(2) is not None
    assert as_is.fetch(14) is None
    with pytest.raises(BrokerError, match="OFFSET_OUT_OF_RANGE: below the first segment"):
        as_is.fetch(-1)


def test_steps_of_a_fetch(partition: Partition) -> None:
    view = partition.view(as_is=True)
    view.fetch(6)
    first, second = (str(partition.path / f"{base:020}") for base in (0, 10))
    entry = f"1 entry, 1 compared: slot 0 (offset 3, position {SIZE}) is the last at or below"
    scan = f"1 batch from position 0 on, {SIZE} bytes: the first whose last offset (11) reaches"
    assert [(step.step, step.file, step.text) for step in view.steps] == [
        ("segment", f"{first}.log", "base offset 0 is the last at or below the target"),
        ("index", f"{first}.index", f"{entry} the target"),
        (
            "segment",
            f"{second}.log",
            "no batch there reaches the target: continuing with the next segment",
        ),
        ("index", f"{second}.index", "1 entry, all above the target: start at the first byte"),
        ("scan", f"{second}.log", f"{scan} the target starts at 0"),
    ]
    assert [step.details for step in view.steps] == [
        {"segment": 0},
        {"slots": 1, "compared": [0], "slot": 0, "entry": {"offset": 3, "position": SIZE}},
        {"segment": 10},
        {"slots": 1, "compared": [0, 0], "slot": None, "entry": None},
        {"position": 0, "batches": 1, "bytes": SIZE},
    ]
    view = partition.view(as_is=True)
    view.fetch(5)
    assert view.steps[-1].details == {"position": 2 * SIZE, "batches": 2, "bytes": 2 * SIZE}
    assert view.steps[-1].text.startswith(f"2 batches from position {SIZE} on, {2 * SIZE} bytes")


@pytest.mark.parametrize(
    ("mark", "as_is", "handed"),
    [(None, False, 13), (None, True, 99), (3, False, 2), (3, True, 2), (99, False, 13)],
)
def test_visible_records(partition: Partition, mark: int | None, as_is: bool, handed: int) -> None:
    if mark is not None:
        partition.checkpoint("replication", mark)
    view = partition.view(as_is=as_is)
    assert [view.hands_out(offset) for offset in (handed, handed + 1)] == [True, handed == 99]
    assert view.visible_end == min(14, 14 if mark is None else mark)
    if not as_is:
        assert view.bound == view.visible_end
    else:
        assert view.bound == (OFFSET_MAX if mark is None else mark)


def test_record_search_skips_control_batches_and_holes(partition: Partition) -> None:
    log = at(0) + marker(1, base_offset=2, producer_id=7) + at(5, 1, last_offset_delta=3)
    partition.segment(0, log)
    for offset, there in ((1, 1), (2, 5), (3, 5), (5, 5), (6, 10)):
        view = partition.view(as_is=True)
        found = view.fetch(offset)
        assert found is not None
        assert view.record_at(found, offset) == (there, T0 + there)
    partition.checkpoint("replication", 8)
    view = partition.view(as_is=True)
    found = view.fetch(6)
    assert found is not None
    assert view.record_at(found, 6) is None


def test_record_of_an_aborted_transaction_is_skipped(partition: Partition) -> None:
    of = {"producer_id": 7, "producer_epoch": 0, "attributes": TRANSACTIONAL}
    partition.segment(0, at(0, **of) + marker(0, base_offset=2, producer_id=7) + at(3, **of)
                      + marker(1, base_offset=5, producer_id=7) + at(6))  # fmt: skip
    (partition.path / f"{0:020}.txnindex").write_bytes(struct.pack(">hqqqq", 0, 7, 0, 2, 3))
    for isolation, there in (("read_committed", 3), ("read_uncommitted", 0)):
        view = partition.view(isolation=isolation, as_is=True)
        found = view.fetch(0)
        assert found is not None
        assert view.record_at(found, 0) == (there, T0 + there)


def test_entries_at_which_no_record_is_found(partition: Partition) -> None:
    bad = at(2, payload=b"\x7f", records_count=1)
    partition.segment(0, at(0) + bad)
    view = partition.view(as_is=True)
    found = view.fetch(2)
    assert found is not None
    with pytest.raises(BrokerError, match=f"the entry at {SIZE} cannot be decoded"):
        view.record_at(found, 2)
    partition.segment(0, at(0) + struct.pack(">qi", 2, 5) + bytes(20))
    partition.segment(10, at(10))
    for broker, there in (((0, 10, 1), (10, T0 + 10)), ((0, 10, 2), None)):
        view = partition.view(broker, as_is=True)
        found = FetchStart(0, 0, SIZE, 0, 1, None, 1)
        if there:
            assert view.record_at(found, 2) == there
        else:
            with pytest.raises(BrokerError, match=r"CorruptRecordException in .*/0{20}\.log"):
                view.record_at(found, 2)


def test_no_bytes_below_the_bound_in_old_brokers(tmp_path: Path) -> None:
    """The place where the bound lies is looked for, too (L3)."""
    made = Partition(tmp_path)
    size = len(message(0))
    made.segment(0, message(0) + message(1) + message(2), offset_index([(2, 2 * size)]))
    for mark, offset, expected in ((2, 1, size), (2, 2, None), (1, 1, None), (3, 2, 2 * size)):
        made.checkpoint("replication", mark)
        found = made.view(broker=(0, 10, 1), as_is=True).fetch(offset)
        assert (None if found is None else found.position) == expected
        found = made.view(broker=(0, 10, 2), as_is=True).fetch(offset)
        assert found is not None


def unclean(partition: Partition) -> None:
    (partition.root / "meta.properties").write_text("version=1\n")


def test_steps_of_a_recovery(partition: Partition) -> None:
    unclean(partition)
    view = partition.view()
    assert view.fetch(3) is not None
    text = "a broker start recovers this segment and rebuilds its indexes"
    path = str(partition.path / f"{0:020}.log")
    first = view.steps[0]
    assert (first.step, first.file, first.text, first.details) == (
        "recovery", path, text, {"segment": 0}
    )  # fmt: skip
    partition.segment(0, at(0) + at(2)[:-1])
    view = partition.view()
    assert view.fetch(1) is not None
    text = (
        f"a broker start truncates segment 0 to {SIZE:,} bytes and deletes the 1 segments after it"
    )
    assert view.steps[0].text == text
    (partition.path / f"{10:020}.log").unlink()
    view = partition.view()
    assert view.fetch(1) is not None
    assert view.steps[0].text == f"a broker start truncates segment 0 to {SIZE:,} bytes"
    assert view.log_end == 2


def test_indexes_are_rebuilt_with_the_settings_of_the_broker(partition: Partition) -> None:
    unclean(partition)
    for interval, entry in ((0, OffsetPosition(5, 2 * SIZE)), (SIZE, OffsetPosition(5, 2 * SIZE)),
                            (2 * SIZE, None)):  # fmt: skip
        found = partition.view(settings=Settings(index_interval_bytes=interval)).fetch(5)
        assert found is not None
        assert found.index_entry == entry


def test_segments_after_an_unclean_stop(partition: Partition) -> None:
    """What lies below another segment that is left needs no log end to be known."""
    unclean(partition)
    view = partition.view()
    assert view.fetch(3) is not None
    assert view.hands_out(3)
    assert view._log_end is None
    assert view.fetch(12) is not None
    assert view._log_end == 14
    assert view.segment_at(10) is view.segments[1]
    old = partition.view(broker=(1, 1))
    assert old.fetch(3) is not None
    assert old._log_end == 14


def test_deleted_partition_is_not_served(partition: Partition) -> None:
    partition.checkpoint("log-start", 20)
    for broker, empty, end in ((NEWEST, True, 20), ((2, 2), False, 14)):
        view = partition.view(broker)
        assert view.is_empty_at_start() == empty
        assert (view.log_start, view.log_end) == (20, end)
    as_is = partition.view(as_is=True)
    assert not as_is.is_empty_at_start()
    assert as_is.log_end == 14
    for path in partition.path.glob("0*"):
        path.unlink()
    assert partition.view(as_is=True).is_empty_at_start()
    assert partition.view().is_empty_at_start()


def test_lookup_searches_the_parts_of_a_split_segment(partition: Partition) -> None:
    unclean(partition)
    far = 1 << 32
    partition.segment(10, at(10) + at(far))
    view = partition.view()
    found = view.fetch(20)
    assert found == FetchStart(far, SIZE, SIZE, far, far + 1, None, 1)
    assert [segment.base_offset for segment in view.onward()] == [0, 10, far]
    assert view.record_at(found, 20) == (far, T0 + far)
    assert view.floor(far + 5) == 2
    assert view.floor(-1) == -1
    assert view.limit == DEFAULT_LIMIT
