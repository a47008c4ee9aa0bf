"""Lookups on partitions written by hand: what is true of claims in circulation about them.

The claims are those of public descriptions of the format; each test says what a broker does.
"""

import os
import struct
from pathlib import Path

import builders
import pytest
from builders import offset_index
from partitions import view_of, write_segment

from kdump.broker.list_offsets import NONE, list_offsets, list_offsets_v0
from kdump.broker.lookup_records import BrokerError
from kdump.broker.partition import PartitionView

T0 = 1_700_000_000_000


def batch(base: int, times: list[int], *, last_delta: int | None = None) -> bytes:
    """One v2 batch with a record for each time, in milliseconds after T0."""
    records = [builders.record(at, time) for at, time in enumerate(times)]
    return builders.batch(
        records,
        base_offset=base,
        base_timestamp=T0,
        max_timestamp=T0 + max(times),
        last_offset_delta=last_delta,
    )


def times_bytes(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">qi", T0 + time, offset) for time, offset in entries)


def record_for(view: PartitionView, offset: int) -> int | None:
    found = view.fetch(offset)
    record = view.record_at(found, offset) if found else None
    return record[0] if record else None


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """Write offsets 0 to 5 at times 0 to 50 and, in a second segment, 6 to 11 at 60 to 110."""
    directory = tmp_path / "t-0"
    for base in (0, 6):
        one = batch(base, [base * 10, base * 10 + 10])
        two_ = batch(base + 2, [base * 10 + 20, base * 10 + 30])
        three = batch(base + 4, [base * 10 + 40, base * 10 + 50])
        write_segment(
            directory,
            base,
            one + two_ + three,
            offset_index([(3, len(one)), (5, len(one + two_))]),
            times_bytes((base * 10 + 30, 3), (base * 10 + 50, 5)),
        )
    return directory


class TestOffsets:
    def test_first_message_of_a_segment_is_not_indexed(self, two: Path) -> None:
        found = view_of(two).fetch(7)
        assert found is not None
        assert (found.segment, found.index_entry, found.position) == (6, None, 0)

    def test_fetch_may_start_below_the_requested_offset(self, two: Path) -> None:
        view = view_of(two)
        found = view.fetch(5)
        assert found is not None
        assert (found.base_offset, found.last_offset) == (4, 5)
        assert found.index_entry is not None
        assert found.position == found.index_entry.position
        assert view.record_at(found, 5) == (5, T0 + 50)

    def test_slot_is_found_by_binary_search(self, tmp_path: Path) -> None:
        one = batch(0, [0])
        log = b"".join(batch(at, [0]) for at in range(600))
        index = offset_index((at, at * len(one)) for at in range(1, 600))
        write_segment(tmp_path / "t-0", 0, log, index)
        view = view_of(tmp_path / "t-0")
        assert record_for(view, 431) == 431
        step = next(step for step in view.steps if step.step == "index")
        compared = step.details["compared"]
        assert isinstance(compared, list)
        assert len(compared) <= 11

    def test_file_name_is_only_a_lower_bound_of_offsets(self, tmp_path: Path) -> None:
        write_segment(tmp_path / "t-0", 100, batch(140, [0, 1]))
        view = view_of(tmp_path / "t-0")
        assert view.log_start == 100
        assert record_for(view, 100) == 140
        with pytest.raises(BrokerError):
            view.fetch(99)

    def test_fetch_at_the_log_end_is_empty(self, two: Path) -> None:
        view = view_of(two)
        assert view.log_end == 12
        assert view.fetch(12) is None
        with pytest.raises(BrokerError, match="OUT_OF_RANGE"):
            view.fetch(13)

    def test_offset_in_a_hole_finds_the_next_record(self, tmp_path: Path) -> None:
        directory = tmp_path / "t-0"
        write_segment(directory, 0, batch(0, [0, 1], last_delta=9) + batch(20, [5]))
        write_segment(directory, 50, batch(60, [7]))
        view = view_of(directory)
        inside = view.fetch(7)
        assert inside is not None
        assert inside.position == 0  # the batch says it reaches 9, though no record does
        assert view.record_at(inside, 7) == (20, T0 + 5)
        assert record_for(view, 15) == 20
        assert record_for(view, 30) == 60

    @pytest.mark.parametrize("magic", [0, 1])
    def test_wrapper_is_found_by_its_last_inner_offset(self, tmp_path: Path, magic: int) -> None:
        relative = 3 if magic == 0 else 0  # offsets inside start again at 0 in magic 1
        inner = [builders.message(at + relative, magic=magic) for at in range(4)]
        first = builders.message(2, magic=magic)
        write_segment(tmp_path / "t-0", 0, first + builders.wrapper(inner, 6, magic=magic))
        view = view_of(tmp_path / "t-0")
        found = view.fetch(4)
        assert found is not None
        assert (found.position, found.last_offset, found.base_offset) == (len(first), 6, None)
        assert view.record_at(found, 4)[0] == 4  # type: ignore[index]

    def test_wrong_index_makes_a_broker_skip_records(self, two: Path) -> None:
        index = two / "00000000000000000000.index"
        at = struct.unpack(">i", index.read_bytes()[12:16])[0]
        index.write_bytes(offset_index([(1, at)]))
        assert record_for(view_of(two), 2) == 4
        assert record_for(view_of(two), 0) == 0

    def test_lookup_without_an_index_equals_one_with_a_rebuilt_index(self, two: Path) -> None:
        (two / "00000000000000000000.index").unlink()
        assert [record_for(view_of(two), offset) for offset in range(12)] == list(range(12))

    def test_damaged_index_is_searched_as_by_that_version(self, tmp_path: Path) -> None:
        size = len(batch(0, [0]))
        log = b"".join(batch(at, [0]) for at in range(3000))
        slots = [(at, at * size) for at in range(1, 3000)]
        slots[1974] = (0, 5 * size)  # where the newer search starts its tail
        slots[1499] = (2999, 7 * size)  # where the older one looks first
        write_segment(tmp_path / "t-0", 0, log, offset_index(slots))
        found = view_of(tmp_path / "t-0").fetch(2500)
        older = view_of(tmp_path / "t-0", broker=(2, 0)).fetch(2500)
        assert found is not None
        assert older is not None
        assert found.position == older.position == 2500 * size
        assert found.batches_scanned < 3
        assert older.batches_scanned > 1000


class TestTimes:
    def test_lookup_by_time_returns_the_record_itself(self, two: Path) -> None:
        view = view_of(two)
        for time, offset in ((0, 0), (1, 1), (25, 3), (30, 3), (31, 4), (61, 7), (110, 11)):
            answer = list_offsets(view, T0 + time)
            assert (answer.offset, answer.timestamp_ms) == (offset, T0 + offset * 10)

    def test_segment_whose_largest_time_equals_the_target_is_searched(self, two: Path) -> None:
        assert list_offsets(view_of(two), T0 + 50).segment == 0
        assert list_offsets(view_of(two), T0 + 51).segment == 6

    def test_step_words_of_each_segment(self, two: Path) -> None:
        for time, expected in ((50, [(0, "reaches")]), (51, [(0, "is before"), (6, "reaches")])):
            view = view_of(two)
            list_offsets(view, T0 + time)
            steps = [step for step in view.steps if step.step == "segment"]
            assert len(steps) == len(expected)
            for step, (base, verb) in zip(steps, expected, strict=True):
                assert step.details["segment"] == base
                assert f", {verb} the target" in step.text

    def test_nested_wrapper_is_an_error(self, tmp_path: Path) -> None:
        nested = builders.wrapper([builders.message(0, timestamp=T0)], 0, timestamp=T0)
        log = builders.wrapper([nested], 0, timestamp=T0)
        write_segment(tmp_path / "t-0", 0, log, b"", times_bytes((0, 0)))
        with pytest.raises(BrokerError, match="inner-compressed"):
            list_offsets(view_of(tmp_path / "t-0", broker=(3, 9)), T0)

    def test_time_entry_names_the_offset_of_the_maximum(self, two: Path) -> None:
        """Not the next offset, and relative to the segment's base: it starts the scan there."""
        answer = list_offsets(view_of(two), T0 + 95)
        assert answer.time_index_entry is not None
        assert answer.time_index_entry.offset == 9
        assert answer.index_entry is not None
        assert answer.position is not None
        assert (answer.index_entry.offset, answer.offset) == (9, 10)

    def test_log_ends_have_no_timestamp(self, two: Path) -> None:
        """Requests -1 and -2 answer with an offset alone."""
        (two / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n4 8\n")
        view = view_of(two)
        assert list_offsets(view, -1) == NONE._replace(offset=12, leader_epoch=4)
        assert list_offsets(view, -2) == NONE._replace(offset=0, leader_epoch=0)

    def test_later_time_than_any_has_no_answer(self, two: Path) -> None:
        assert list_offsets(view_of(two), T0 + 111) == NONE

    def test_only_one_segment_is_searched(self, two: Path) -> None:
        """A time index that claims too much hides what later segments hold."""
        path = two / "00000000000000000000.timeindex"
        path.write_bytes(times_bytes((30, 3), (100, 5)))
        answer = list_offsets(view_of(two), T0 + 70)
        assert (answer.offset, answer.segment) == (-1, 0)

    def test_segment_without_time_index_uses_file_time(self, two: Path) -> None:
        (two / "00000000000000000000.timeindex").unlink()
        assert list_offsets(view_of(two), T0).offset == 6
        log = two / "00000000000000000000.log"
        os.utime(log, ns=((T0 + 500) * 1_000_000,) * 2)
        assert list_offsets(view_of(two), T0).offset == 0
        assert list_offsets(view_of(two), T0 + 70).offset == -1

    def test_zeros_after_time_index_entries_hide_the_segment(self, two: Path) -> None:
        for base in (0, 6):
            path = two / f"{base:020d}.timeindex"
            path.write_bytes(path.read_bytes() + bytes(120))
        assert list_offsets(view_of(two), T0).offset == -1
        assert list_offsets(view_of(two), 0).segment == 0

    def test_zeros_are_not_trusted_after_an_unclean_stop(self, two: Path) -> None:
        (two.parent / "meta.properties").write_text("version=1\n")
        for suffix in ("index", "timeindex"):
            path = two / f"00000000000000000006.{suffix}"
            path.write_bytes(path.read_bytes() + bytes(24000))
        assert list_offsets(view_of(two), T0 + 95).offset == 10
        assert record_for(view_of(two), 11) == 11

    def test_control_records_are_found_by_time(self, tmp_path: Path) -> None:
        marker = builders.marker(1, base_offset=1, producer_id=7, timestamp=T0 + 5)
        write_segment(tmp_path / "t-0", 0, batch(0, [0]) + marker, b"", times_bytes((5, 1)))
        view = view_of(tmp_path / "t-0")
        assert list_offsets(view, T0 + 3).offset == 1
        assert record_for(view, 1) is None

    def test_magic_0_has_no_timestamps(self, tmp_path: Path) -> None:
        log = b"".join(builders.message(at, magic=0) for at in range(3))
        write_segment(tmp_path / "t-0", 0, log, modified_ms=T0)
        answer = list_offsets(view_of(tmp_path / "t-0"), T0 - 1)
        assert (answer.offset, answer.segment) == (-1, 0)

    def test_records_below_the_log_start_are_invisible(self, two: Path) -> None:
        checkpoint = two.parent / "log-start-offset-checkpoint"
        checkpoint.write_text("0\n1\nt 0 4\n")
        assert list_offsets(view_of(two), T0).offset == 4
        assert list_offsets(view_of(two, broker=(0, 10, 2)), T0).offset == 0
        assert list_offsets(view_of(two), -2).offset == 4

    def test_maximum_timestamp_is_exact_since_3_8(self, tmp_path: Path) -> None:
        write_segment(tmp_path / "t-0", 0, batch(0, [5, 90, 7]), b"", times_bytes((90, 2)))
        view = view_of(tmp_path / "t-0")
        assert (list_offsets(view, -3).offset, list_offsets(view, -3).timestamp_ms) == (1, T0 + 90)
        assert list_offsets(view_of(tmp_path / "t-0", broker=(3, 7)), -3).offset == 2

    def test_maximum_timestamp_has_the_latest_epoch_until_3_7(self, tmp_path: Path) -> None:
        write_segment(tmp_path / "t-0", 0, batch(0, [5, 90, 7]), b"", times_bytes((90, 2)))
        (tmp_path / "t-0/leader-epoch-checkpoint").write_text("0\n2\n0 0\n4 2\n")
        assert list_offsets(view_of(tmp_path / "t-0", broker=(3, 7)), -3).leader_epoch == 4
        assert list_offsets(view_of(tmp_path / "t-0", broker=(3, 8)), -3).leader_epoch == 0

    def test_wrong_maximum_has_no_answer(self, tmp_path: Path) -> None:
        lies = builders.batch(base_timestamp=T0, max_timestamp=T0 + 9)
        write_segment(tmp_path / "t-0", 0, lies, b"", times_bytes((9, 0)))
        assert list_offsets(view_of(tmp_path / "t-0"), -3).offset == -1

    def test_brokers_before_0_10_1_ignore_record_timestamps(self, two: Path) -> None:
        with pytest.raises(BrokerError):
            list_offsets(view_of(two, broker=(0, 10, 0)), T0)


class TestVersion0:
    """ListOffsets 0 goes by modification times, newest first, not by times of creation."""

    @pytest.fixture
    def view(self, two: Path) -> PartitionView:
        for base, when in ((0, 1000), (6, 2000)):
            os.utime(two / f"{base:020d}.log", ns=(when * 1_000_000,) * 2)
        return view_of(two)

    @pytest.mark.parametrize(
        ("target", "offsets"),
        [
            (999, []),
            (1000, [0]),
            (1999, [0]),
            (2000, [6, 0]),
            (8999, [6, 0]),
            (9000, [12, 6, 0]),
            (-1, [12, 6, 0]),
            (-2, [0]),
        ],
    )
    def test_lookup_by_file_time_returns_segments_no_newer(
        self, view: PartitionView, target: int, offsets: list[int]
    ) -> None:
        assert list_offsets_v0(view, target, 10, now_ms=9000) == offsets
        assert list_offsets_v0(view, target, 1, now_ms=9000) == offsets[:1]

    def test_empty_active_segment_ends_at_its_base(self, two: Path) -> None:
        write_segment(two, 12, b"")
        assert list_offsets_v0(view_of(two), -1, 10) == [12, 6, 0]


class TestTransactions:
    @pytest.fixture
    def directory(self, tmp_path: Path) -> Path:
        """An aborted transaction at 1, its marker at 3, and one that is open from 5 on."""
        directory = tmp_path / "t-0"
        of = builders.TRANSACTIONAL
        log = batch(0, [0])
        log += builders.batch(base_offset=1, attributes=of, producer_id=7, base_timestamp=T0 + 10)
        log += batch(2, [20])
        log += builders.marker(0, base_offset=3, producer_id=7, timestamp=T0 + 30)
        log += batch(4, [40])
        log += builders.batch(base_offset=5, attributes=of, producer_id=8, base_timestamp=T0 + 50)
        write_segment(directory, 0, log, b"", times_bytes((50, 5)))
        entry = struct.pack(">hqqqq", 0, 7, 1, 3, 4)
        (directory / "00000000000000000000.txnindex").write_bytes(entry)
        return directory

    def test_aborted_and_open_data_is_not_returned(self, directory: Path) -> None:
        view = view_of(directory, isolation="read_committed")
        assert [record_for(view, offset) for offset in range(6)] == [0, 2, 2, 4, 4, None]
        plain = view_of(directory)
        assert [record_for(plain, offset) for offset in range(6)] == [0, 1, 2, 4, 4, 5]

    def test_time_lookup_respects_the_stable_end_but_not_aborts(self, directory: Path) -> None:
        view = view_of(directory, isolation="read_committed")
        assert list_offsets(view, T0 + 5).offset == 1
        assert list_offsets(view, T0 + 45).offset == -1
        assert list_offsets(view, -1).offset == 5
        assert list_offsets(view_of(directory), T0 + 45).offset == 5

    def test_aborted_data_is_returned_without_the_index(self, directory: Path) -> None:
        (directory / "00000000000000000000.txnindex").unlink()
        view = view_of(directory, isolation="read_committed")
        assert record_for(view, 1) == 1
