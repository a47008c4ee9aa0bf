"""Lookups after an unclean stop: every segment from the recovery point on as a start leaves it."""

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from builders import batch, record
from partitions import target_of, view_of

from kdump.broker.list_offsets import list_offsets
from kdump.broker.lookup_records import BrokerError
from kdump.broker.partition import PartitionView
from kdump.engine.find.options import FindOptions
from kdump.engine.find.rows import offset_items
from kdump.findings.rows import Row

SAMPLE = Path(__file__).parents[2] / "sample-data/clean/4.1.1/d1"
ZSTD = "orders.zstd-0"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Give the sample as a killed broker leaves it, all of it above the recovery point."""
    directory = tmp_path / "d1"
    shutil.copytree(SAMPLE / ZSTD, directory / ZSTD)
    (directory / "meta.properties").write_text("version=1\n")
    set_flushed(directory / ZSTD, 0)
    return directory / ZSTD


def set_flushed(partition: Path, offset: int) -> None:
    checkpoint = partition.parent / "recovery-point-offset-checkpoint"
    checkpoint.write_text(f"0\n1\norders.zstd 0 {offset}\n")


@contextmanager
def open_view(partition: Path, **options: bool) -> Iterator[PartitionView]:
    with closing(view_of(partition, **options)) as view:
        yield view


def file(partition: Path, base: int, suffix: str) -> Path:
    return partition / f"{base:020d}.{suffix}"


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def flip_in_the_middle(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_zeroed_indexes_of_an_older_segment_are_rebuilt(partition: Path) -> None:
    zero(file(partition, 0, "index"))
    zero(file(partition, 0, "timeindex"))
    with open_view(partition) as view:
        assert list_offsets(view, 1700040100000).offset == 101
    set_flushed(partition, 293)
    with open_view(partition) as view:  # flushed: what lies there is believed
        assert list_offsets(view, 1700040100000).offset == 293


def test_truncation_deletes_later_segments(partition: Path) -> None:
    flip_in_the_middle(file(partition, 0, "log"))
    with open_view(partition) as view:
        assert list_offsets(view, -1).offset == 138
        assert [segment.base_offset for segment in view.segments] == [0]
        with pytest.raises(
            BrokerError, match="OFFSET_OUT_OF_RANGE: the log starts at 0 and ends at 138"
        ):
            view.fetch(400)
        assert view.fetch(138) is None
        assert list_offsets(view, 1700040100000).offset == 101
    with open_view(partition, as_is=True) as view:
        assert view.fetch(400) is not None


def test_segments_after_the_requested_one_are_not_read(partition: Path) -> None:
    bases = sorted(int(path.stem) for path in partition.glob("*.log"))
    for base in bases[1:]:
        file(partition, base, "log").write_bytes(b"")
    with open_view(partition) as view:
        found = view.fetch(100)
        assert found is not None
        record = view.record_at(found, 100)
        assert record is not None
        assert record[0] == 100
        assert view.steps[0].step == "recovery"


def test_segment_without_an_index_is_truncated_alone(partition: Path) -> None:
    (partition.parent / ".kafka_cleanshutdown").touch()
    file(partition, 0, "index").unlink()
    flip_in_the_middle(file(partition, 0, "log"))
    with open_view(partition) as view:
        assert list_offsets(view, -1).offset == 975
        found = view.fetch(200)
        assert found is not None
        assert found.segment == 293


def test_log_ending_below_its_start_is_recreated(partition: Path) -> None:
    flip_in_the_middle(file(partition, 0, "log"))
    checkpoint = partition.parent / "log-start-offset-checkpoint"
    checkpoint.write_text("0\n1\norders.zstd 0 200\n")
    with open_view(partition) as view:
        assert view.fetch(200) is None
        assert (view.log_start, view.log_end) == (200, 200)
        assert list_offsets(view, 0).offset == -1


def test_failed_start_is_an_answer_without_a_scan(partition: Path) -> None:
    with file(partition, 293, "log").open("r+b") as log:
        log.truncate(1 << 31)  # no broker opens that
    found = offset_items(target_of(partition), 616, FindOptions(check=True))
    rows = [item for item in found if isinstance(item, Row)]
    assert "larger than" in str(rows[0].fields["error"])
    assert rows[0].fields["scan_offset"] is None


def test_part_with_the_name_of_the_split_segment_is_not_served(partition: Path) -> None:
    """The start takes it out of the log with the old segment (R15); its file is read next time."""
    base, far = 100, 1 << 32
    log = b"".join(batch([record()], base_offset=at) for at in (base, 40, far))
    for path in partition.glob("0*"):
        path.unlink()
    file(partition, base, "log").write_bytes(log)
    file(partition, base, "index").touch()
    with open_view(partition) as view:
        assert view.log_end == far + 1
        assert [segment.base_offset for segment in view.segments] == [40, far]
        found = view.fetch(base)
        assert found is not None
        assert found.segment == far


def test_largest_time_after_a_truncation(partition: Path) -> None:
    """Recovery empties a segment as far as it finds its base offset, and then looks at the rest."""
    for path in partition.glob("0*"):
        path.unlink()
    offsets = (5, 0, 30, 10)
    batches = [
        batch([record(value=bytes(5000))], base_offset=at, max_timestamp=1000 + at)
        for at in offsets
    ]
    file(partition, 0, "log").write_bytes(b"".join(batches))
    file(partition, 0, "index").touch()
    with open_view(partition) as view:
        assert view.log_end == 6
        assert view.segments[0].end == len(batches[0])
        assert view.segments[0].last_time() == (1005, 5)


def test_end_is_searched_in_the_last_segment(partition: Path) -> None:
    with open_view(partition) as view:
        assert view.fetch(974) is not None
        assert view.fetch(975) is None
        assert view.steps[-1].step == "end"
        with pytest.raises(
            BrokerError, match="OFFSET_OUT_OF_RANGE: the log starts at 0 and ends at 975"
        ):
            view.fetch(976)


def test_records_above_the_high_watermark_are_not_returned(partition: Path) -> None:
    """Nor where a segment behind it makes looking for the log end needless."""
    checkpoint = partition.parent / "replication-offset-checkpoint"
    checkpoint.write_text("0\n1\norders.zstd 0 100\n")
    with open_view(partition) as view:
        for offset in (99, 100, 150):
            found = view.fetch(offset)
            assert found is not None
            record = view.record_at(found, offset)
            assert (record is not None) == (offset < 100)
