"""Frames and gaps: together they are the file, whatever is in it."""

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import builders
import damage
import pytest
from each import each
from long_runs import SEED, how_many
from reads import count_reads

from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.record.frames import GAP_REASONS, Gap, Oversize, Run
from kdump.storage import after_damage
from kdump.storage.file_records import (
    BATCHES_A_RUN,
    BLOCK_BYTES,
    HEADER_BLOCK_BYTES,
    FileRecords,
    walk,
)
from kdump.storage.raw_image import RawImage
from kdump.storage.source import Source

COUNT = how_many(5000, 300_000) // 10

Part = tuple[str, int, int]  # a run's entry, an oversize entry or a gap's reason; start; size


@contextmanager
def opened(path: Path, data: bytes) -> Iterator[Source]:
    path.write_bytes(data)
    with Source(path) as source:
        yield source


def parts(records: FileRecords, position: int = 0, end: int | None = None) -> list[Part]:
    """Walk, and say what lies where; run entries prove that their bytes are the file's."""
    found: list[Part] = []
    for item in records.walk(position, end):
        if isinstance(item, Gap):
            assert item.reason in GAP_REASONS
            found.append((item.reason, item.position, item.size_bytes))
            continue
        for row in item.batches.rows():
            word = "entry" if isinstance(item, Run) else "oversize"
            found.append((word, row[c.B_POSITION], row[c.B_SIZE]))
            if isinstance(item, Run):
                start = row[c.B_POSITION] - item.base
                there = bytes(item.data[start : start + row[c.B_SIZE]])
                assert there == records.source.read(row[c.B_POSITION], row[c.B_SIZE])
    return found


def assert_covers(found: list[Part], start: int, end: int) -> None:
    at = start
    for _, position, size in found:
        assert position == at
        assert size > 0
        at += size
    assert at == end


def entry(base_offset: int, size: int = 40, seed: int = 0) -> bytes:
    value = random.Random(seed + base_offset).randbytes(size)
    return builders.batch([builders.record(value=value)], base_offset=base_offset)


def entries(count: int, size: int = 40) -> list[bytes]:
    return [entry(n, size) for n in range(count)]


def test_sound_file_yields_its_entries(tmp_path: Path) -> None:
    data = entries(5)
    with opened(tmp_path / "a.log", b"".join(data)) as source:
        found = parts(FileRecords(source))
    assert [size for _, _, size in found] == [len(one) for one in data]
    assert {word for word, _, _ in found} == {"entry"}
    assert_covers(found, 0, sum(map(len, data)))


@each("count", [7, 8, 9, 40, 41, 170, BATCHES_A_RUN, 2 * BATCHES_A_RUN + 1])
@each("broken", [False, True])
def test_each_entry_is_yielded_once(tmp_path: Path, count: int, broken: bool) -> None:
    """In runs that are short behind damage, and bounded elsewhere."""
    one = entry(0, 1)
    first = damage.flip(one, len(one) - 1) if broken else one
    data = first + b"".join(one[:7] + b"\1" + one[8:] for _ in range(count - 1))
    with opened(tmp_path / "a.log", data) as source:
        found = parts(FileRecords(source))
        assert_covers(found, 0, len(data))
        assert len(found) == count
        assert [word for word, _, _ in found[1:]] == ["entry"] * (count - 1)
        runs = [item.batches.count for item in FileRecords(source).walk() if isinstance(item, Run)]
        assert max(runs) <= BATCHES_A_RUN
        if not broken:  # each holds all that is whole in a block
            assert len(runs) <= len(data) // BLOCK_BYTES + 2


def test_falling_offsets_are_flagged_across_runs_and_blocks(tmp_path: Path) -> None:
    large = entry(5, BLOCK_BYTES)
    for data, rising in (
        ([large, entry(6), entry(6)], [True, True, False]),
        ([large, entry(5), entry(6)], [True, False, True]),
        ([large, entry(6, BLOCK_BYTES), entry(6, BLOCK_BYTES)], [True, True, False]),
        ([entry(1), damage.flip(entry(2), 70), entry(1), entry(3)], [True, False, True]),
    ):
        with opened(tmp_path / f"{0:020}.log", b"".join(data)) as source:
            flags = [
                flags
                for item in FileRecords(source).walk()
                if isinstance(item, Run)
                for flags in item.batches.row_flags
            ]
            assert [not each & c.OFFSET_NOT_RISING for each in flags] == rising
        with opened(tmp_path / f"{0:020}.log", b"".join(data)) as source:
            first = next(FileRecords(source).walk(last_offset=5))
            assert isinstance(first, Run)
            assert first.batches.row_flags[0] & c.OFFSET_NOT_RISING


def test_torn_entry_at_the_end_is_one_gap(tmp_path: Path) -> None:
    for size in (40, BLOCK_BYTES, 9 << 20):
        sound = entry(1, size)
        for cut in (1, size // 2, len(sound) - 13, len(sound) - 12, len(sound) - 1):
            data = entry(0) + sound[: len(sound) - cut]
            with opened(tmp_path / "a.log", data) as source:
                (_, gap) = FileRecords(source).walk()
                assert isinstance(gap, Gap)
                left = len(sound) - cut
                reason = "cut-short" if left > 16 else "short-tail"
                assert gap[:3] == (len(entry(0)), left, reason)
                assert gap.to_end


def test_part_of_a_file_is_read(tmp_path: Path) -> None:
    data = entries(6)
    start, end = len(data[0] + data[1]), len(b"".join(data[:5]))
    with opened(tmp_path / "a.log", b"".join(data)) as source:
        assert_covers(parts(FileRecords(source), start, end), start, end)
        assert len(parts(FileRecords(source), start, end)) == 3
        assert parts(FileRecords(source), source.size) == []


@each("size", [BLOCK_BYTES - 200, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES])
def test_entries_around_the_size_of_a_block(tmp_path: Path, size: int) -> None:
    data = [entry(0), entry(1, size), entry(2), entry(3, size), entry(4)]
    with opened(tmp_path / "a.log", b"".join(data)) as source:
        found = parts(FileRecords(source))
        assert [size for _, _, size in found] == [len(one) for one in data]
        assert {word for word, _, _ in found} == {"entry"}
        small = parts(FileRecords(source, limit=BLOCK_BYTES))
    large = [word for word, _, size in small if size > BLOCK_BYTES]
    assert set(large) <= {"oversize"}
    assert [part[1:] for part in small] == [part[1:] for part in found]


def test_oversize_entry_of_an_old_format(tmp_path: Path) -> None:
    value = random.Random(1).randbytes(2 * BLOCK_BYTES)
    for magic in (0, 1):
        data = [
            builders.message(0, magic=magic),
            builders.message(1, value=value, magic=magic),
            builders.message(2, magic=magic),
        ]
        with opened(tmp_path / "a.log", b"".join(data)) as source:
            found = parts(FileRecords(source, limit=1))
            assert [word for word, _, _ in found] == ["entry", "oversize", "entry"]
            assert_covers(found, 0, source.size)
        broken = damage.flip(b"".join(data), len(data[0]) + BLOCK_BYTES)
        with opened(tmp_path / "a.log", broken) as source:
            found = parts(FileRecords(source, limit=1))
            assert [word for word, _, _ in found] == ["entry", "crc-mismatch", "entry"]


def test_entry_above_the_next_segment_is_not_trusted(tmp_path: Path) -> None:
    """Behind damage an old entry of a reused block may have a right sum: its offset gives it
    away."""
    data = [entry(0), entry(1), entry(500), entry(3)]
    broken = damage.flip(b"".join(data), len(data[0]) + 8)
    with opened(tmp_path / "a.log", broken) as source:
        bounded = parts(FileRecords(source, next_base=10))
        assert bounded[-1][1:] == (len(b"".join(data[:3])), len(data[3]))
        free = parts(FileRecords(source))
        assert free[2][1:] == (len(b"".join(data[:2])), len(data[2]))


def test_entry_far_after_garbage_is_found(tmp_path: Path) -> None:
    """Garbage of several search windows, with the next entry across the end of one."""
    for size in (after_damage._WINDOW - 30, 1_000_003):
        garbage = random.Random(size).randbytes(size)
        data = [entry(0), garbage, entry(1, 5000), entry(2)]
        with opened(tmp_path / "a.log", b"".join(data)) as source:
            found = parts(FileRecords(source))
            assert_covers(found, 0, source.size)
        assert found[-2:] == [
            ("entry", len(data[0]) + size, len(data[2])),
            ("entry", len(data[0]) + size + len(data[2]), len(data[3])),
        ]


def test_large_entry_far_after_garbage_is_found(tmp_path: Path) -> None:
    data = [entry(0), random.Random(3).randbytes(300_000), entry(1, 2_000_000), entry(2)]
    with opened(tmp_path / "a.log", b"".join(data)) as source:
        found = parts(FileRecords(source))
        assert_covers(found, 0, source.size)
    assert [word for word, _, _ in found[-2:]] == ["entry", "entry"]


def test_large_entry_anywhere_in_an_image_is_found(tmp_path: Path) -> None:
    noise = random.Random(3).randbytes
    torn = bytearray(entry(7, 2_000_000))
    torn[1_000_000] ^= 1
    data = [noise(700), entry(1, 2_000_000), noise(700), bytes(torn), entry(2)]
    at = [sum(map(len, data[:number])) for number in range(len(data))]
    with opened(tmp_path / "disk", b"".join(data)) as source:
        found = parts(RawImage(source))
        assert_covers(found, 0, source.size)
    whole = [(position, size) for word, position, size in found if word == "entry"]
    assert whole == [(at[1], len(data[1])), (at[4], len(data[4]))]


def test_endless_candidates_cost_bounded_time(tmp_path: Path) -> None:
    """A header that believably claims the rest of the file, every 64 bytes."""
    size = 1 << 19
    data = bytearray()
    while len(data) < size:
        head = builders.batch(base_offset=len(data), size=size - len(data) - 76)
        data += head[:61] + b"abc"
    with opened(tmp_path / "a.log", bytes(data[:size])) as source:
        started = time.process_time()
        found = parts(FileRecords(source))
        assert time.process_time() - started < 2
        assert_covers(found, 0, size)


@pytest.mark.parametrize("behind", [b"", b"x" * BLOCK_BYTES])
def test_file_may_shrink_during_a_walk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behind: bytes
) -> None:
    """What is no longer there ends the walk, or the search for what follows damage."""
    path = tmp_path / f"{0:020}.log"
    sound = builders.batch([builders.record(0, value=bytes(BLOCK_BYTES - 100))])
    path.write_bytes(sound + behind + sound)
    reads = 0
    read_into = Source.read_into

    def shrinking(source: Source, *arguments: object) -> int:
        nonlocal reads
        reads += 1
        if reads == 2:
            os.truncate(path, 0)
        assert reads < 100
        return read_into(source, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Source, "read_into", shrinking)
    with Source(str(path)) as source:
        items = [*FileRecords(source).walk()]
        assert source.shrank
    assert [type(item) for item in items] == [Run, *([Gap] if behind else [])]


def test_zeros(tmp_path: Path) -> None:
    for size in (1, 17, 18, BLOCK_BYTES + 5):
        with opened(tmp_path / "a.log", bytes(size)) as source:
            found = parts(FileRecords(source))
        assert found == [("zeros" if size > 17 else "short-tail", 0, size)]


def test_reading_a_header_reads_only_the_header(tmp_path: Path) -> None:
    data = [entry(0), entry(1, 10_000), builders.message(2, magic=0), builders.message(3)]
    starts = [sum(map(len, data[:n])) for n in range(5)]
    with opened(tmp_path / "a.log", b"".join(data)) as source:
        records = FileRecords(source)
        for number, start in enumerate(starts[:-1]):
            row = records.header(start)
            assert row is not None
            assert row.position(0) == start
            assert row.size_bytes(0) == len(data[number])
            assert row.last_offset(0) == number
            valid = records.valid_at(start, source.size, -1)
            assert valid is not None
            for column in (c.B_MAGIC, c.B_ATTRIBUTES, c.B_RECORDS_COUNT, c.B_CRC, c.B_LAYOUT):
                assert row.value(column, 0) == valid.value(column, 0)
        for nowhere in (1, starts[1] - 17, source.size - 5, source.size, source.size + 100):
            assert records.valid_at(nowhere, source.size, -1) is None
        assert records.header(source.size) is None
        assert records.header(source.size - 10) is None


def test_reading_as_a_broker_does(tmp_path: Path) -> None:
    """Over all blocks of the file, whatever the checksums; what is no entry ends it silently."""
    count = 3 * HEADER_BLOCK_BYTES // len(entry(0))
    data = entries(count)
    data[5] = damage.flip(data[5], len(data[5]) - 1)
    data += [entry(count, HEADER_BLOCK_BYTES), data[0][:40]]
    with opened(tmp_path / "a.log", b"".join(data)) as source:
        records = FileRecords(source)
        runs = [run.batches for run in records.runs_as_is(0)]
        assert [row for run in runs for row in run.positions] == [
            sum(map(len, data[:n])) for n in range(count + 1)
        ]
        assert records.stopped_by == reasons.CUT_SHORT
        assert sum(run.batches.count for run in records.runs_as_is(0, 2 * len(data[0]))) == 2
        assert records.stopped_by == reasons.END


def test_lookup_checks_no_checksums(tmp_path: Path) -> None:
    with opened(tmp_path / "a.log", entry(0)[:-1] + b"x" + entry(1)) as source:
        records = FileRecords(source)
        (batches,) = records.headers(0)
        assert (batches.count, batches.flags & c.CRC_BAD) == (2, 0)
        (run,) = records.runs_as_is(0)
        assert (run.batches.count, run.batches.flags & c.CRC_BAD) == (2, 0)


def test_file_is_walked_from_end_to_end(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020}.log"
    data = entry(0) + b"x" * 100 + entry(9) + entry(5) + entry(6, 2 * BLOCK_BYTES)
    path.write_bytes(data)
    kinds = [type(item) for item in walk(str(path), limit=1, next_base=8)]
    assert kinds == [Run, Gap, Run, Oversize]
    starts = [
        item.position if isinstance(item, Gap) else item.batches.position(0)
        for item in walk(str(path), next_base=8)
    ]
    small, gap = len(entry(0)), 100 + len(entry(9))
    assert starts == [0, small, small + gap, 2 * small + gap]
    (later, *_) = walk(str(path), last_offset=5)
    assert isinstance(later, Run)
    assert later.batches.flags & c.OFFSET_NOT_RISING


def headers(path: Path, data: bytes, end: int | None = None) -> tuple[list[int], int]:
    """Walk as a lookup does: give the offset of each header, and why the walk ended."""
    with opened(path, data) as source:
        records = FileRecords(source)
        found = [
            batches.known_offset(row)
            for batches in records.headers(0, end)
            for row in range(batches.count)
        ]
        return found, records.stopped_by


def test_lookup_skips_entries_of_any_size(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    large = entry(1, 3 * HEADER_BLOCK_BYTES)
    data = entry(0) + damage.flip(large, len(large) - 1) + entry(2)
    assert headers(path, data) == ([0, 1, 2], reasons.END)
    assert headers(path, data, len(data) - 1) == ([0, 1], reasons.CUT_SHORT)
    many = b"".join(entries(2 * HEADER_BLOCK_BYTES // len(entry(0))))
    assert headers(path, many) == ([*range(len(many) // len(entry(0)))], reasons.END)
    assert headers(path, data, len(entry(0) + large)) == ([0, 1], reasons.END)
    assert headers(path, data, len(entry(0) + large) - 1) == ([0], reasons.CUT_SHORT)


@each(
    ("tail", "reason"),
    [
        (entry(1)[:-1], reasons.CUT_SHORT),
        (entry(1, 2 * HEADER_BLOCK_BYTES)[:-1], reasons.CUT_SHORT),
        (entry(1)[:11], reasons.SHORT_TAIL),
        (entry(1)[:16], reasons.SHORT_TAIL),
        (bytes(40), reasons.LENGTH_TOO_SMALL),
    ],
)
def test_what_ends_a_walk_of_headers(tmp_path: Path, tail: bytes, reason: int) -> None:
    assert headers(tmp_path / "a.log", entry(0) + tail) == ([0], reason)
    with opened(tmp_path / "a.log", entry(0) + tail) as source:
        records = FileRecords(source)
        assert [run.batches.count for run in records.runs_as_is(0)] == [1]
        assert records.stopped_by == reason


def test_oversize_entry_ends_a_read_as_in_the_broker(tmp_path: Path) -> None:
    data = entry(0) + entry(1, 2 * BLOCK_BYTES) + entry(2)
    with opened(tmp_path / "a.log", data) as source:
        for limit, count in ((BLOCK_BYTES, 1), (3 * BLOCK_BYTES, 3)):
            records = FileRecords(source, limit=limit)
            assert sum(run.batches.count for run in records.runs_as_is(0)) == count


def test_valid_at_asks_for_a_rising_offset(tmp_path: Path) -> None:
    with opened(tmp_path / "a.log", entry(7)) as source:
        records = FileRecords(source)
        assert records.valid_at(0, source.size, 6) is not None
        assert records.valid_at(0, source.size, 7) is None
        assert FileRecords(source, next_base=7).valid_at(0, source.size, -1) is None


@pytest.mark.parametrize("size", [40, 2 * BLOCK_BYTES])
def test_valid_at_asks_for_a_right_checksum_up_to_a_limit(tmp_path: Path, size: int) -> None:
    sound = entry(7, size)
    with opened(tmp_path / "a.log", sound + entry(8)) as source:
        records = FileRecords(source)
        assert records.valid_at(0, len(sound), 6) is not None
        assert records.valid_at(0, len(sound) - 1, 6) is None
    with opened(tmp_path / "a.log", damage.flip(sound, len(sound) - 1) + entry(8)) as source:
        assert FileRecords(source).valid_at(0, source.size, 6) is None


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Break a log in one to three ways."""
    for _ in range(rng.randint(1, 3)):
        if len(data) < 2:
            break
        at = rng.randrange(len(data))
        size = min(rng.choice((1, 2, 8, 61, 100, 4096)), len(data) - at)
        how = rng.randrange(6)
        if how == 0:
            data = damage.flip(data, at, size)
        elif how == 1:
            data = damage.flip_bit(data, at, rng.randrange(8))
        elif how == 2:
            data = data[:at]
        elif how == 3:
            data = data[:at] + data[at + size :]
        elif how == 4:
            data = data[: at + size] + data[at:]
        else:
            data = data[:at] + bytes(size) + data[at + size :]
    return data


@pytest.mark.fuzz
def test_parts_cover_any_damaged_file_exactly(tmp_path: Path) -> None:
    """And an entry that no damage touched, nor came near, is always there."""
    makers = (
        lambda n: entry(n, 30 + n % 50),
        lambda n: builders.message(n, magic=n % 2),
        lambda n: builders.batch(
            [builders.record()], base_offset=n, attributes=1, compress=builders.gzip_bytes
        ),
    )
    for number in range(SEED, SEED + COUNT):
        rng = random.Random(number)
        data = b"".join(rng.choice(makers)(n) for n in range(rng.randint(1, 12)))
        broken = damaged(rng, data)
        with opened(tmp_path / "a.log", broken) as source:
            for limit in (1, 1 << 26):
                found = parts(FileRecords(source, limit=limit))
                try:
                    assert_covers(found, 0, len(broken))
                except AssertionError as error:
                    error.add_note(f"KDUMP_FUZZ_SEED={number} KDUMP_FUZZ_COUNT=10")
                    raise


@pytest.mark.fuzz
def test_one_flip_costs_one_entry(tmp_path: Path) -> None:
    data = entries(7)
    starts = [sum(map(len, data[:n])) for n in range(8)]
    whole = b"".join(data)
    for number in range(SEED, SEED + COUNT):
        rng = random.Random(number)
        at = rng.randrange(len(whole))
        hit = max(n for n in range(7) if starts[n] <= at)
        with opened(tmp_path / "a.log", damage.flip_bit(whole, at, rng.randrange(8))) as source:
            found = parts(FileRecords(source))
        kept = {start for word, start, _ in found if word == "entry"}
        assert kept >= set(starts[:7]) - {starts[hit]}, f"KDUMP_FUZZ_SEED={number}"


def test_oversize_entry_is_a_separate_row(tmp_path: Path) -> None:
    data = entry(0, 2 * BLOCK_BYTES)
    with opened(tmp_path / "a.log", data) as source:
        (item,) = FileRecords(source, limit=1).walk()
    assert isinstance(item, Oversize)
    crc = item.batches.crc(0)
    assert crc == item.batches.computed_crc(0) == builders.crc32c(data[21:])
    assert item.batches.size_bytes(0) == len(data)


def header_rows(path: Path) -> tuple[list[tuple[int, ...]], int]:
    """Give each header but for its flags of order, which go by the block it is read with."""
    with Source(path) as source:
        records = FileRecords(source)
        rows = [row for batches in records.headers(0) for row in batches.rows()]
        order = ~c.OFFSET_NOT_RISING
        cut = c.B_FLAGS
        rows = [(*row[:cut], row[cut] & order, *row[cut + 1 :]) for row in rows]
        return rows, records.stopped_by


@pytest.mark.parametrize("seed", range(how_many(20, 2000)))
def test_headers_read_singly_equal_those_of_blocks(
    disk_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(SEED + seed)
    path = disk_path / "a.log"
    data = b""
    for n in range(rng.randrange(1, 200)):
        size = rng.choice((10, 300, 5000, 5000, 9000, 9000, 9000, 30_000, 70_000))
        made = entry(n, size) if rng.random() < 0.9 else builders.message(value=bytes(size))
        data += damage.flip(made, rng.randrange(12, len(made))) if rng.random() < 0.1 else made
    path.write_bytes(data[: rng.choice((len(data), rng.randrange(len(data))))])
    one_by_one = header_rows(path)
    monkeypatch.setattr(Source, "descriptor", lambda self: -1)
    assert one_by_one == header_rows(path)


def test_bytes_between_headers_of_large_batches_are_not_read(
    disk_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those smaller than a block and those larger."""
    read = count_reads(monkeypatch)
    for size in (20_000, 70_000, 300_000):
        path = disk_path / str(size)
        path.write_bytes(b"".join(entry(n, size) for n in range(40)))
        read.clear()
        assert len(header_rows(path)[0]) == 40
        assert sum(read) < 3 * HEADER_BLOCK_BYTES
