"""The rows of fetches: what is whole, what is cut, who is stuck."""

import struct
from pathlib import Path

import builders
import pytest
from lookup_rows import SIZE, at_offset
from producing import ABORT, aborted_index, data, index_of, marker, write_log


def test_truncated_fetch_counts_complete_batches(partition: Path) -> None:
    row = at_offset(partition, 1, max_bytes=2 * SIZE + 20, explain=True)
    assert (row["position"], row["end_position"], row["entries"]) == (0, 2 * SIZE + 20, 2)
    assert (row["first_offset"], row["last_offset"], row["next_offset"]) == (0, 3, 4)
    assert (row["records_before"], row["cut_bytes"], row["cut_offset"]) == (1, 20, 4)
    assert row["cut_size_bytes"] == SIZE
    assert [step["step"] for step in row["steps"]][-2:] == ["slice", "contents"]
    assert row["needs_bytes"] is None


@pytest.mark.parametrize(
    ("version", "size", "stuck"), [((0, 10, 0), 40, True), ((0, 10, 1), SIZE, False)]
)
def test_first_entry_is_complete_since_0_10_1(
    partition: Path, version: tuple[int, ...], size: int, stuck: bool
) -> None:
    row = at_offset(partition, 2, max_bytes=40, as_is=True, broker_version=version)
    assert (row["size_bytes"], row["needs_bytes"], row["stuck"]) == (size, SIZE, stuck)
    assert row["next_offset"] == (2 if stuck else 4)


def test_fetch_ends_with_its_segment_and_before_an_offset(partition: Path) -> None:
    row = at_offset(partition, 4, max_bytes=1 << 20)
    assert (row["entries"], row["next_offset"], row["end_position"]) == (1, 6, 3 * SIZE)
    assert at_offset(partition, 0, max_bytes=1 << 20, max_offset=4)["end_position"] == 2 * SIZE
    assert at_offset(partition, 4, max_bytes=1 << 20, max_offset=4)["size_bytes"] == 0
    after = at_offset(partition, 6, max_bytes=1 << 20)
    assert (after["segment"], after["first_offset"], after["next_offset"]) == (10, 10, 14)
    assert at_offset(partition, 14, max_bytes=9)["size_bytes"] == 0
    assert "OFFSET_OUT_OF_RANGE" in at_offset(partition, 15, max_bytes=9)["error"]


def test_fetch_of_0_7_starts_at_any_byte(tmp_path: Path) -> None:
    directory = tmp_path / "old-0"
    directory.mkdir()
    message = builders.pre08_message(b"aa")
    size = len(message)
    (directory / f"{0:020}.kafka").write_bytes(3 * message)
    row = at_offset(directory, size, max_bytes=size + 5)
    assert (row["entries"], row["next_offset"], row["cut_bytes"]) == (1, 2 * size, 5)
    assert (row["cut_size_bytes"], row["stuck"]) == (size, False)
    row = at_offset(directory, 0, max_bytes=size - 1)
    assert (row["entries"], row["stuck"], row["needs_bytes"]) == (0, True, size)
    assert at_offset(directory, 3 * size, max_bytes=9)["size_bytes"] == 0
    assert "OFFSET_OUT_OF_RANGE" in at_offset(directory, 3 * size + 1, max_bytes=9)["error"]


@pytest.mark.parametrize(("offset", "second", "expected"), [(0, 3, [2]), (1, 2, [])])
def test_search_does_not_compare_with_its_first_slot(
    tmp_path: Path, offset: int, second: int, expected: list[int]
) -> None:
    """An aborted transaction is named that begins behind the bytes, up to the next index entry."""
    sent = [data(0), data(1), data(2, 7, 0, transactional=True), marker(3, 7, ABORT), data(4)]
    path = write_log(tmp_path, {0: sent, 5: [data(5)]})
    index_of(path, 0).write_bytes(aborted_index((7, 2, 3, 2)))
    ends = [sum(map(len, sent[: number + 1])) for number in range(3)]
    entries = struct.pack(">iiii", 1, ends[0], second, ends[second - 1])
    (path / f"{0:020}.index").write_bytes(entries)
    options = {"isolation": "read_committed", "as_is": True, "broker_version": (4, 1)}
    row = at_offset(path, offset, max_bytes=1, **options)
    assert [one["first_offset"] for one in row["aborted"]] == expected
