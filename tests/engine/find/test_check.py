"""`--check`: what a scan finds beside the answer of the indexes."""

import struct
from pathlib import Path

import builders
from lookup_rows import SIZE, TIME, at_time, batches, split, write_segment

from kdump.engine.find.options import FindOptions
from kdump.engine.find.run import find_offset, find_time
from kdump.findings.finding import Finding
from kdump.findings.rows import Row


def test_check_agrees_with_sound_indexes(partition: Path) -> None:
    options = FindOptions(check=True)
    for target in range(15):
        (row,), codes = split(find_offset([str(partition)], target, options))
        assert (row["scan_offset"], codes) == (row["offset"], [])
    for target in (-3, -2, -1, *range(TIME - 1, TIME + 16)):
        (row,), codes = split(find_time([str(partition)], target, options))
        assert (row["scan_offset"], codes) == (row["offset"], [])


def test_check_finds_a_wrong_offset_index(partition: Path) -> None:
    (partition / "00000000000000000000.index").write_bytes(struct.pack(">ii", 1, 2 * SIZE))
    (row,), codes = split(find_offset([str(partition)], 2, FindOptions(check=True)))
    assert (row["offset"], row["scan_offset"]) == (4, 2)
    assert codes == ["offset-lookup-differs"]


def test_check_attributes_damage_to_the_log(tmp_path: Path) -> None:
    records = [builders.record(n, n, b"k", b"v") for n in range(2)]
    broken = builders.batch(records, base_offset=2, attributes=1, compress=lambda _: b"no gzip")
    write_segment(tmp_path / "orders-7", 0, batches(0) + broken + batches(4), [], [])
    (row,), codes = split(find_offset([str(tmp_path)], 2, FindOptions(check=True)))
    assert (row["offset"], row["scan_offset"]) == (None, 4)
    assert "offset-lookup-differs" not in codes


def test_check_finds_a_wrong_time_index(partition: Path) -> None:
    (partition / "00000000000000000000.timeindex").write_bytes(struct.pack(">qi", TIME - 5, 0))
    (row,), codes = split(find_time([str(partition)], TIME + 2, FindOptions(check=True)))
    assert (row["offset"], row["scan_offset"]) == (10, 2)
    assert codes == ["time-lookup-differs"]


def test_check_of_the_log_end_reads_all_framed_entries() -> None:
    path = Path(__file__).parents[3] / "sample-data/damaged/0.8.2.2/d-sizemid-0"
    fields = at_time(path, -1, check=True, as_is=True)
    assert fields["scan_offset"] == 142


def test_check_reports_records_skipped_by_the_broker(partition: Path) -> None:
    """A kept batch without records raises the segment's greatest time above all its records."""
    empty = builders.batch([], base_offset=2, last_offset_delta=1, base_timestamp=TIME + 9)
    write_segment(partition, 0, batches(0) + empty, [], [(TIME + 9, 3)])
    (row,), codes = split(find_time([str(partition)], TIME + 8, FindOptions(check=True)))
    assert (row["offset"], row["scan_offset"]) == (None, 10)
    assert codes == ["time-lookup-passes-over"]


def test_check_finds_records_hidden_by_a_wrapper(tmp_path: Path) -> None:
    """A broker goes by the offset of a wrapper of magic 0; its messages have their own."""
    directory = tmp_path / "data" / "orders-7"
    hiding = builders.wrapper([builders.message(at, magic=0) for at in range(4)], 1, magic=0)
    behind = builders.wrapper([builders.message(at, magic=0) for at in (4, 5)], 5, magic=0)
    write_segment(directory, 0, hiding + behind, [], [])
    options = FindOptions(check=True, broker_version=(0, 9))
    items = [*find_offset([str(directory)], 2, options)]
    (row,) = (item for item in items if isinstance(item, Row))
    assert (row.fields["offset"], row.fields["scan_offset"]) == (4, 2)
    (found,) = (
        item for item in items if isinstance(item, Finding) and item.severity.value != "note"
    )
    assert (found.code, found.position, found.offset) == ("wrapper-offset", 0, 1)
    assert found.message == (
        "Offset 2 is in a wrapper whose offset field is 1: a broker skips to offset 4."
    )
    for sound in (0, 1, 4, 5):
        rows, codes = split(find_offset([str(directory)], sound, options))
        assert (rows[0]["offset"], codes) == (sound, [])
