"""Answers to ListOffsets with all that they name, release by release, and the steps to them."""

from pathlib import Path

import pytest
from builders import batch, message, record
from each import each
from partitions import MODIFIED_MS, Partition
from segments import offset_index, time_index

from kdump.broker.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    NONE,
    TimeAnswer,
    first_at_time,
    list_offsets,
    list_offsets_v0,
)
from kdump.broker.lookup_records import BrokerError
from kdump.broker.remote_log import COPY_FINISHED, RemoteLog, RemoteSegment, Tier
from kdump.storage.checkpoints import EpochStart
from kdump.storage.index import OffsetPosition
from kdump.storage.time_index import TimestampOffset

T0 = 1_700_000_000_000


def at(base: int, *times: int, epoch: int = 5) -> bytes:
    """Write a batch with a record for each time behind T0."""
    return batch(
        [record(number, time - times[0]) for number, time in enumerate(times)],
        base_offset=base,
        base_timestamp=T0 + times[0],
        max_timestamp=T0 + max(times),
        leader_epoch=epoch,
    )


SIZE = len(at(0, 0, 0))


def times(*entries: tuple[int, int]) -> bytes:
    return time_index((T0 + time, offset) for time, offset in entries)


@pytest.fixture
def partition(tmp_path: Path) -> Partition:
    """Give offsets 0 to 5 and, in a second segment, 10 to 13; the times rise by ten."""
    made = Partition(tmp_path)
    first = at(0, 0, 10) + at(2, 20, 30) + at(4, 40, 50)
    made.segment(0, first, offset_index([(3, SIZE), (5, 2 * SIZE)]), times((30, 3), (50, 5)))
    made.segment(10, at(10, 60, 70) + at(12, 80, 90), offset_index([(3, SIZE)]), times((90, 3)))
    return made


def entry(time: int, offset: int) -> TimestampOffset:
    return TimestampOffset(T0 + time, offset)


@pytest.mark.parametrize(
    ("time", "answer"),
    [
        (0, TimeAnswer(0, T0, 5, 0, None, None, 0, 1)),
        (30, TimeAnswer(3, T0 + 30, 5, 0, entry(30, 3), OffsetPosition(3, SIZE), SIZE, 1)),
        (31, TimeAnswer(4, T0 + 40, 5, 0, entry(30, 3), OffsetPosition(3, SIZE), 2 * SIZE, 2)),
        (51, TimeAnswer(10, T0 + 60, 5, 10, None, None, 0, 1)),
        (90, TimeAnswer(13, T0 + 90, 5, 10, entry(90, 13), OffsetPosition(13, SIZE), SIZE, 1)),
        (91, NONE),
    ],
)
def test_answer_names_the_searched_segment(
    partition: Partition, time: int, answer: TimeAnswer
) -> None:
    assert list_offsets(partition.view(), T0 + time) == answer


def test_steps_to_an_answer(partition: Partition) -> None:
    view = partition.view()
    list_offsets(view, T0 + 90)
    first, second = (str(partition.path / f"{base:020}") for base in (0, 10))
    last = "is the last at or below the target"
    only = "reaches the target: brokers search only the first segment that does"
    found = f"the first with a record at or after the target starts at {SIZE}"
    assert [(step.file, step.text) for step in view.steps] == [
        (f"{first}.log", f"its largest timestamp, {T0 + 50}, is before the target"),
        (f"{second}.log", f"its largest timestamp, {T0 + 90}, {only}"),
        (f"{second}.timeindex", f"1 entry, 2 compared: slot 0 ({T0 + 90}, offset 13) {last}"),
        (f"{second}.index", f"1 entry, 2 compared: slot 0 (offset 13, position {SIZE}) {last}"),
        (f"{second}.log", f"1 batch from position {SIZE} on, {SIZE} bytes: {found}"),
    ]
    assert [step.details for step in view.steps] == [
        {"segment": 0, "largest_timestamp_ms": T0 + 50},
        {"segment": 10, "largest_timestamp_ms": T0 + 90},
        {"slots": 1, "compared": [0, 0], "slot": 0,
         "entry": {"timestamp_ms": T0 + 90, "offset": 13}},
        {"slots": 1, "compared": [0, 0], "slot": 0, "entry": {"offset": 13, "position": SIZE}},
        {"position": SIZE, "batches": 1, "bytes": SIZE},
    ]  # fmt: skip
    view = partition.view()
    list_offsets(view, T0 + 91)
    assert view.steps[-1].fields() == {
        "step": "segment",
        "file": str(partition.path),
        "text": "no segment reaches the target: none",
    }


def test_steps_without_an_entry(partition: Partition) -> None:
    partition.segment(0, at(0, 0, 10), b"", times((20, 1)))
    view = partition.view(as_is=True)
    answer = list_offsets(view, T0 + 15)
    assert answer == NONE._replace(segment=0, batches_scanned=1)
    _, time_step, index_step, scan = view.steps
    text = "1 entry, all above the target: start at the first byte"
    assert (time_step.text, time_step.details["slot"], time_step.details["entry"]) == (
        text, None, None
    )  # fmt: skip
    assert index_step.text == "no entries: the scan starts at the segment's first byte"
    assert scan.text == (
        "1 batch from position 0 to the end: no such record; the broker does not continue with "
        "the next segment"
    )
    assert scan.details == {"batches": 1}


def test_segment_without_time_entry_uses_file_time(partition: Partition) -> None:
    partition.segment(10, at(10, 60), b"", times())
    view = partition.view(as_is=True)
    assert list_offsets(view, T0 + 60) == NONE
    modified = MODIFIED_MS + 10
    words = f"it has no time entry, and the time its file was modified, {modified}, is before"
    assert view.steps[1].text == f"{words} the target"
    assert view.steps[1].details == {
        "segment": 10, "largest_timestamp_ms": None, "modified_ms": modified
    }  # fmt: skip
    partition.segment(10, at(10, 60), b"", times((-T0, 0)))  # a time of 0 is one
    view = partition.view(as_is=True)
    list_offsets(view, T0 + 60)
    assert view.steps[1].details["largest_timestamp_ms"] == 0


def test_offsets_below_the_log_start_are_not_returned(partition: Partition) -> None:
    """Before 0.11 a log started with its first segment."""
    partition.checkpoint("log-start", 4)
    expected = TimeAnswer(4, T0 + 40, 5, 0, None, OffsetPosition(3, SIZE), 2 * SIZE, 2)
    assert list_offsets(partition.view(), T0) == expected
    assert list_offsets(partition.view(broker=(0, 10, 2)), T0).offset == 0
    assert list_offsets(partition.view(broker=(0, 11)), T0).offset == 4


def test_answer_at_or_past_the_bound_is_empty(partition: Partition) -> None:
    partition.checkpoint("replication", 13)
    view = partition.view()
    assert list_offsets(view, T0 + 80).offset == 12
    found = list_offsets(view, T0 + 90)
    assert (found.offset, found.timestamp_ms, found.leader_epoch) == (-1, -1, None)
    assert (found.segment, found.position) == (10, SIZE)
    text = "offset 13 is at or after the last offset that a consumer receives (13): none"
    assert (view.steps[-1].step, view.steps[-1].text) == ("end", text)


@pytest.mark.parametrize(
    ("target", "offset", "epoch"),
    [
        (LATEST, 14, 9),
        (EARLIEST, 3, 2),
        (EARLIEST_LOCAL, 3, 2),
        (LATEST_TIERED, -1, None),
    ],
)
def test_ends_of_a_log(partition: Partition, target: int, offset: int, epoch: int | None) -> None:
    partition.checkpoint("log-start", 3)
    partition.epochs((1, 0), (2, 3), (4, 4), (9, 14), (11, 15))
    assert list_offsets(partition.view(), target) == TimeAnswer(offset, -1, epoch)
    partition.epochs((4, 4))
    found = list_offsets(partition.view(), target)
    assert found.leader_epoch == (4 if target == LATEST else None)
    (partition.path / "leader-epoch-checkpoint").write_text("0\n2\n1 0\n")
    assert list_offsets(partition.view(), target).leader_epoch is None


@pytest.mark.parametrize(
    ("request_version", "target", "answer"),
    [
        (3, LATEST, (14, None)),
        (4, LATEST, (14, 9)),
        (6, MAX_TIMESTAMP, "-3 requires version 7"),
        (7, MAX_TIMESTAMP, (13, 5)),
        (8, LATEST_TIERED, "-5 requires version 9"),
        (9, LATEST_TIERED, (-1, None)),
        (9, EARLIEST_PENDING, "-6 requires version 11"),
        (None, EARLIEST_PENDING, (-1, None)),
    ],
)
def test_answer_to_a_version_of_the_request(
    partition: Partition, request_version: int | None, target: int, answer: object
) -> None:
    partition.epochs((2, 3), (9, 12))
    if isinstance(answer, str):
        with pytest.raises(BrokerError, match=answer):
            list_offsets(partition.view(), target, request_version)
    else:
        found = list_offsets(partition.view(), target, request_version)
        assert (found.offset, found.leader_epoch) == answer


def test_unsupported_request_version(partition: Partition) -> None:
    with pytest.raises(BrokerError, match=r"brokers before 3\.0 do not know version 7"):
        list_offsets(partition.view(broker=(2, 8)), LATEST, 7)
    assert list_offsets(partition.view(broker=(2, 8)), MAX_TIMESTAMP, 6).offset == 0  # a time there


def test_largest_timestamp(partition: Partition) -> None:
    """Since 3.8 the record is looked for; before, the entry of the time index is the answer."""
    partition.epochs((1, 0), (9, 12))
    index = OffsetPosition(13, SIZE)
    assert list_offsets(partition.view(), MAX_TIMESTAMP) == TimeAnswer(
        13, T0 + 90, 5, 10, None, index, SIZE, 1
    )
    view = partition.view(broker=(3, 7))
    assert list_offsets(view, MAX_TIMESTAMP) == TimeAnswer(13, T0 + 90, 9, 10)
    text = f"its largest timestamp, {T0 + 90}, is the greatest of 2 segments"
    assert [(step.text, step.details) for step in view.steps] == [
        (text, {"segment": 10, "largest_timestamp_ms": T0 + 90})
    ]
    assert view.steps[0].file.endswith(f"{10:020}.log")
    partition.segment(
        10, at(10, 60, 70) + at(12, 50, 50), offset_index([(3, SIZE)]), times((50, 3))
    )
    found = list_offsets(partition.view(), MAX_TIMESTAMP)
    assert (found.offset, found.segment) == (5, 0)  # of equal ones the first segment


@each(
    ("log", "when", "answer"),
    [
        (at(0, 5, 20, 20), (20, 2), TimeAnswer(1, T0 + 20, 5, 0, None, None, 0, 1)),
        (at(0, 5, 6) + at(2, 20), (20, 2), TimeAnswer(2, T0 + 20, 5, 0, None, None, SIZE, 2)),
        (at(0, 5, 6) + at(2, 9), (20, 2), NONE._replace(segment=0, batches_scanned=2)),
        (batch([record()], base_timestamp=T0, max_timestamp=T0 + 20), (20, 0),
         NONE._replace(segment=0, batches_scanned=1)),
        (at(0, 20, epoch=-1), (20, 0), TimeAnswer(0, T0 + 20, None, 0, None, None, 0, 1)),
        (message(0, timestamp=T0 + 20), (20, 0),
         TimeAnswer(0, T0 + 20, None, 0, None, None, 0, 1)),
        (message(0, magic=0), (-1 - T0, 0), NONE._replace(segment=0, batches_scanned=1)),
        (b"", (20, 0), NONE._replace(segment=0)),
    ],
)  # fmt: skip
def test_record_with_the_largest_timestamp(
    tmp_path: Path, log: bytes, when: tuple[int, int], answer: TimeAnswer
) -> None:
    made = Partition(tmp_path)
    made.segment(0, log, b"", times(when))
    assert list_offsets(made.view(as_is=True), MAX_TIMESTAMP) == answer


def test_no_answer_without_segments(tmp_path: Path) -> None:
    made = Partition(tmp_path)
    for target in (MAX_TIMESTAMP, T0):
        assert list_offsets(made.view(), target) == NONE
        assert list_offsets(made.view(as_is=True), target) == NONE
    assert list_offsets_v0(made.view(as_is=True), LATEST, 10, T0) == []


def test_scan_for_a_time_and_an_offset(partition: Partition) -> None:
    view = partition.view(as_is=True)
    segment = view.segments[0]
    for position, time, start, offset, scanned, end in (
        (0, 0, 0, 0, 1, SIZE),
        (0, 0, 3, 3, 2, 2 * SIZE),
        (SIZE, 0, 0, 2, 1, 2 * SIZE),
        (0, 50, 0, 5, 3, 3 * SIZE),
        (0, 51, 0, -1, 3, -1),
        (0, 0, 6, -1, 3, -1),
    ):
        answer, found_end = first_at_time(segment, position, T0 + time, start)
        assert (answer.offset, answer.batches_scanned, found_end) == (offset, scanned, end)
        assert answer.position == (None if end < 0 else end - SIZE)
        assert answer.leader_epoch == (None if end < 0 else 5)


@pytest.mark.parametrize("target", [0, T0])
def test_no_time_lookup_before_0_10_1(partition: Partition, target: int) -> None:
    with pytest.raises(BrokerError, match="by modification time only"):
        list_offsets(partition.view(broker=(0, 10)), target)
    list_offsets(partition.view(broker=(0, 10, 1)), target)
    assert list_offsets(partition.view(broker=(0, 10)), EARLIEST).offset == 0


@pytest.mark.parametrize(
    ("target", "most", "offsets"),
    [
        (LATEST, 10, [14, 10, 0]),
        (LATEST, 2, [14, 10]),
        (LATEST, 0, []),
        (EARLIEST, 10, [0]),
        (MODIFIED_MS - 1, 10, []),
        (MODIFIED_MS, 10, [0]),
        (MODIFIED_MS + 9, 10, [0]),
        (MODIFIED_MS + 10, 10, [10, 0]),
        (MODIFIED_MS + 19, 10, [10, 0]),
        (MODIFIED_MS + 20, 10, [14, 10, 0]),
        (MODIFIED_MS + 20, 1, [14]),
    ],
)
def test_segments_by_modification_time(
    partition: Partition, target: int, most: int, offsets: list[int]
) -> None:
    view = partition.view(as_is=True)
    assert list_offsets_v0(view, target, most, MODIFIED_MS + 20) == offsets
    partition.segment(10, b"")
    emptied = [offset for offset in offsets if offset != 14]
    if most == 10:
        view = partition.view(as_is=True)
        assert list_offsets_v0(view, target, most, MODIFIED_MS + 20) == emptied
    partition.checkpoint("log-start", 4)
    found = list_offsets_v0(partition.view(as_is=True), EARLIEST, 10, MODIFIED_MS + 20)
    assert found == [4]


def test_modification_times_up_to_now(partition: Partition) -> None:
    view = partition.view(as_is=True)
    assert list_offsets_v0(view, 1 << 60, 10) == [14, 10, 0]
    assert list_offsets_v0(view, 1_700_000_000_000, 10) == [10, 0]


@pytest.mark.parametrize(("copied_to", "pending"), [(9, 10), (13, -1)])
def test_next_to_upload_is_null_without_visible_records(
    partition: Partition, copied_to: int, pending: int
) -> None:
    """Seen on 4.4.0, where all of a log is in remote storage, and an empty segment here."""
    epochs = (EpochStart(0, 0),)
    log = RemoteLog()
    log.add(RemoteSegment("a", 0, copied_to, 0, 1, epochs))
    log.update("a", COPY_FINISHED, 0)
    view = partition.view()
    view.tier = Tier(log, list(epochs), 0, 0)
    assert list_offsets(view, EARLIEST_PENDING).offset == pending
