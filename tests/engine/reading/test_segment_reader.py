"""Large batches, bad devices, files that change, and what has to hold of any damage."""

import errno
import os
import zlib
from pathlib import Path

import builders
import damage
import pytest
from damaged_segment import (
    BASE,
    RECORDS,
    Segment,
    all_but,
    batch,
    first_of,
    headers,
    loss_of,
    offsets,
    only,
    place_of,
    with_batch,
)
from dumped import run_dump

from kdump.engine.dump.run import dump
from kdump.engine.reading.filters import Filters
from kdump.engine.reading.options import DumpOptions
from kdump.engine.reading.segment_reader import SegmentReader
from kdump.findings.finding import Finding, Severity
from kdump.findings.rows import BatchChunk
from kdump.storage.names import Kind, file_name, parse
from kdump.storage.source import Source
from kdump.storage.targets import LogFile


def test_decompressed_size_is_limited(tmp_path: Path, segment: Segment) -> None:
    records = [builders.record(n, value=bytes(100_000)) for n in range(3)]
    other = builders.batch(
        records, base_offset=first_of(2), attributes=1, compress=builders.gzip_bytes
    )
    path, start = with_batch(tmp_path, segment, other)
    rows, found = run_dump(path, decompress_limit=200_000)
    one = only(found)
    assert place_of(one)[:3] == ("over-decompress-limit", start, len(other))
    assert one.severity is Severity.NOTE
    assert offsets(rows) == all_but(2)
    assert offsets(run_dump(path, decompress_limit=400_000)[0]) == all_but()


def large(base_offset: int) -> bytes:
    records = [builders.record(n, value=bytes(200_000)) for n in range(3)]
    return builders.batch(records, base_offset=base_offset)


def test_oversize_batch_is_reported(tmp_path: Path, segment: Segment) -> None:
    path, start = with_batch(tmp_path, segment, large(first_of(2)))
    rows, found = run_dump(path, decompress_limit=300_000)
    one = only(found)
    assert place_of(one)[:3] == ("over-decompress-limit", start, len(large(0)))
    assert offsets(rows) == all_but(2)
    assert headers(rows) == [(start, True)]


def test_damaged_oversize_batch_is_reported(tmp_path: Path, segment: Segment) -> None:
    other = large(first_of(2))
    path, start = with_batch(tmp_path, segment, damage.flip_bit(other, 300_000, 6))
    rows, found = run_dump(path, decompress_limit=300_000)
    one = only(found)
    assert place_of(one) == ("crc-mismatch", start, len(other), first_of(2))
    assert loss_of(one) == (RECORDS, RECORDS, first_of(3))
    assert f"bit 6 of byte {start + 300_000:,}" in one.message
    assert offsets(rows) == all_but(2)


def test_batches_may_span_blocks(tmp_path: Path) -> None:
    """The file is read in blocks; entries lie across their ends, and so does damage."""
    entries = [
        builders.batch([builders.record(value=os.urandom(70_000))], base_offset=BASE + n)
        for n in range(40)
    ]
    segment = Segment(entries)
    rows, found = run_dump(segment.write(tmp_path))
    assert offsets(rows) == list(range(BASE, BASE + 40))
    assert found == []
    for number in (3, 20, 38):
        start, end = segment.starts[number : number + 2]
        broken = damage.zero(segment.data, start, 65)
        rows, found = run_dump(segment.write(tmp_path, broken))
        one = only(found)
        assert (one.position, one.size_bytes) == (start, end - start)
        assert loss_of(one)[1:] == (1, BASE + number + 1)


@pytest.fixture
def bad_pages(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Pages of 4 KiB that the device does not give."""
    bad: set[int] = set()
    plain = Source._pread

    def read(self: Source, view: memoryview, position: int) -> int:
        last = position + max(len(view), 1) - 1
        if bad.intersection(range(position // 4096, last // 4096 + 1)):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return plain(self, view, position)

    monkeypatch.setattr(Source, "_pread", read)
    return bad


def test_unreadable_pages_are_reported(tmp_path: Path, bad_pages: set[int]) -> None:
    segment = Segment([batch(BASE + 40 * n, 40) for n in range(12)])
    path = segment.write(tmp_path)
    bad_pages.add(2)
    hit = [
        number
        for number in range(12)
        if segment.starts[number] < 12288 and segment.starts[number + 1] > 8192
    ]
    rows, found = run_dump(path)
    assert {one.code for one in found} == {"unreadable"}
    assert found[0].position == segment.starts[hit[0]]
    assert found[-1].next_offset == BASE + 40 * (hit[-1] + 1)
    assert sum(one.size_bytes or 0 for one in found) == (
        segment.starts[hit[-1] + 1] - segment.starts[hit[0]]
    )
    assert offsets(rows) == [
        BASE + 40 * number + n for number in range(12) if number not in hit for n in range(40)
    ]


def test_unreadable_file_is_reported(tmp_path: Path, bad_pages: set[int], segment: Segment) -> None:
    path = segment.write(tmp_path)
    bad_pages.add(0)
    rows, found = run_dump(path)
    assert rows == []
    assert place_of(only(found)) == ("unreadable", 0, len(segment.data), BASE)


def shrunk_while_read(path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the file cut when it is first read from."""
    plain = Source._pread

    def read(self: Source, view: memoryview, position: int) -> int:
        monkeypatch.setattr(Source, "_pread", plain)
        os.truncate(path, size)
        os.utime(path, (1_700_000_000, 1_700_000_000))
        return plain(self, view, position)

    monkeypatch.setattr(Source, "_pread", read)


def test_shrinking_file_is_reported(
    tmp_path: Path, segment: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    for size, kept in ((segment.starts[3], 3), (segment.starts[3] + 30, 3), (0, 0)):
        path = segment.write(tmp_path)
        shrunk_while_read(path, size, monkeypatch)
        rows, found = run_dump(path)
        one = only(found)
        assert (one.code, one.severity, one.position) == ("file-shrank", Severity.NOTE, size)
        assert offsets(rows) == all_but()[: 3 * kept]


def test_growing_file_is_read_to_its_first_size(tmp_path: Path, segment: Segment) -> None:
    """The rest of an entry arrives between the reads; it and what follows are shown."""
    path = segment.write(tmp_path, damage.cut(segment.data, segment.starts[4] + 20))
    rows: list[int] = []
    found: list[Finding] = []
    for item in dump([str(path)], DumpOptions()):
        if isinstance(item, Finding):
            found.append(item)
            continue
        assert not isinstance(item, (BatchChunk, Exception))
        rows.extend(row.offset for row in item.iter_records())  # type: ignore[union-attr]
        path.write_bytes(segment.data)
    assert found == []
    assert rows == all_but()


def test_endlessly_growing_file_ends(tmp_path: Path, segment: Segment) -> None:
    """A torn tail that is torn again each time it is looked at is a note in the end."""
    data = segment.data
    path = segment.write(tmp_path, damage.cut(data, segment.starts[1] + 20))
    rows: list[int] = []
    found: list[Finding] = []
    turn = 1
    for item in dump([str(path)], DumpOptions()):
        if isinstance(item, Finding):
            found.append(item)
            continue
        rows.extend(row.offset for row in item.iter_records())  # type: ignore[union-attr]
        turn += 1
        path.write_bytes(data[: segment.starts[turn] + 20])
    assert [one.code for one in found] == ["tail-being-written"]
    assert rows == all_but()[: len(rows)]


def test_vanished_file_is_a_note(
    tmp_path: Path, segment: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = segment.write(tmp_path)
    other = path.with_name(f"{first_of(6):020}.log")
    other.write_bytes(batch(first_of(6)))
    items = dump([str(path.parent)], DumpOptions())
    first = next(items)
    assert not isinstance(first, (Finding, Exception))
    other.unlink()
    rest = list(items)
    assert [(one.code, one.path) for one in rest if isinstance(one, Finding)] == [
        ("file-vanished", str(other))
    ]
    assert len(rest) == 1


@pytest.mark.parametrize("mode", ["records", "batches"])
def test_every_flipped_byte_is_found(tmp_path: Path, segment: Segment, mode: str) -> None:
    """Whatever byte is hit: no more than its batch is lost, and it is told of, at its place; the
    leader epoch and the base offset, which are outside the sum, by what their neighbours say."""
    sound, _ = run_dump(segment.write(tmp_path), mode=mode)
    data = segment.data
    start, end = segment.starts[2:4]
    for at in range(start, end):
        rows, found = run_dump(segment.write(tmp_path, damage.flip(data, at)), mode=mode)
        field = at - start
        kept = [row for row in rows if row["position"] != start]
        assert kept == [row for row in sound if row["position"] != start], field
        if 12 <= field < 16:
            assert [one.code for one in found] == ["leader-epoch-odd"], field
        elif field < 8:
            # Those of the upper half lie above all that a segment can hold, or below zero.
            assert {one.code for one in found} <= {"offset-not-rising", "offset-past-range"}, field
            assert len(found) == 1, field
        else:
            assert (only(found).position, only(found).size_bytes) == (start, end - start), field


def test_checksums_match_zlib(tmp_path: Path) -> None:
    """The builders' sums are not ours."""
    data = builders.message(BASE)
    assert int.from_bytes(data[12:16], "big") == zlib.crc32(data[16:])
    rows, _ = run_dump(Segment([data]).write(tmp_path), mode="batches")
    assert rows[0]["crc"] == zlib.crc32(data[16:])


@pytest.mark.parametrize("is_there", [True, False])
def test_concurrently_merged_log_is_not_damaged(tmp_path: Path, is_there: bool) -> None:
    """A cleaner that joins segments leaves a log which reaches past where the next one began."""
    log, following = (tmp_path / file_name(Kind.LOG, base) for base in (0, 1))
    log.write_bytes(builders.batch(base_offset=0) + builders.batch(base_offset=1))
    if is_there:
        following.write_bytes(builders.batch(base_offset=1))
    file = LogFile(str(log), parse(log.name), "t", 0, 1, active=False)
    with Source(str(log)) as source:
        items = list(SegmentReader(source, file, DumpOptions(), Filters()).items())
    codes = [item.code for item in items if isinstance(item, Finding)]
    assert codes == ["offset-past-next"] * is_there
