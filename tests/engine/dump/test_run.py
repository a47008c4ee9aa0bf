"""Ranges, filters and limits give exactly what a filter over the full dump would."""

import gzip
import os
import random
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import builders
import damage
import pytest
from corpus import corpus
from dumped import Json, run_dump
from each import each
from long_runs import LONG, how_many
from reads import count_bytes

from kdump.engine.dump.run import dump
from kdump.engine.kafka_text.dump import kafka_dump
from kdump.engine.kafka_text.log import ToolChunk
from kdump.engine.reading.options import DumpOptions
from kdump.engine.reading.segment_reader import SegmentReader
from kdump.errors import KdumpError, NothingToDo, PathError
from kdump.findings.finding import Finding
from kdump.findings.rows import BatchChunk, RecordChunk

TIME = 1_700_000_000_000


def record_set(base: int, count: int, rng: random.Random) -> list[bytes]:
    return [
        builders.record(
            n,
            rng.randrange(-50, 50),
            rng.choice((None, b"", b"key-%d" % (n % 3))),
            rng.choice((None, b"value-%d" % (base + n), b"x" * 300)),
            [(b"h", b"1")] if rng.random() < 0.2 else (),
        )
        for n in range(count)
    ]


def entry(base: int, rng: random.Random, kinds: range) -> tuple[bytes, int]:
    """Write an entry of any kind from an offset on; return it and how many offsets it takes."""
    count = rng.randint(1, 6)
    timestamp = TIME + base * 10 + rng.randrange(-200, 200)
    kind = rng.choice(kinds)
    if kind == 0:
        return builders.message(base, b"key-1", b"value-%d" % base, magic=0), 1
    if kind == 1:
        return builders.message(base, None, b"value-%d" % base, timestamp=timestamp), 1
    if kind in (2, 3):
        magic = kind - 2
        messages = [
            builders.message(
                n if magic else base + n, b"key-%d" % n, magic=magic, timestamp=timestamp + n
            )
            for n in range(count)
        ]
        last = timestamp + count - 1
        return builders.wrapper(messages, base + count - 1, magic=magic, timestamp=last), count
    if kind == 4:
        return builders.marker(rng.randrange(2), base_offset=base, producer_id=7), 1
    members: dict[str, Any] = {}
    if kind == 5:
        members = {"attributes": 1, "compress": builders.gzip_bytes}
    elif kind == 6:
        members = {"producer_id": 7, "producer_epoch": 0, "base_sequence": base}
    return (
        builders.batch(
            record_set(base, count, rng),
            base_offset=base,
            base_timestamp=timestamp,
            max_timestamp=timestamp + 50,
            **members,
        ),
        count,
    )


def write_partition(
    directory: Path, rng: random.Random, *, index: bool = True, kinds: range = range(8)
) -> Path:
    """Write three segments of entries of some kinds, with an index entry for every other one."""
    path = directory / "mixed-3"
    path.mkdir()
    offset = 1000
    for _ in range(3):
        base, data, slots = offset, b"", []
        for number in range(25):
            at = len(data)
            written, count = entry(offset, rng, kinds)
            data += written
            offset += count
            if number % 2:
                slots.append((offset - 1 - base, at))
            offset += rng.choice((0, 0, 0, 5))
        (path / f"{base:020}.log").write_bytes(data)
        if index:
            packed = builders.offset_index(slots)
            (path / f"{base:020}.index").write_bytes(packed)
        os.utime(path / f"{base:020}.log", (1_700_000_000, 1_700_000_000))
    return path


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    return write_partition(tmp_path, random.Random(5))


@pytest.fixture
def modern(tmp_path: Path) -> Path:
    """A partition without wrappers, whose times an index can prove."""
    return write_partition(tmp_path, random.Random(5), kinds=range(4, 8))


def lying_offsets(slots: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Offsets far too low: everything asked for would lie behind."""
    return [(number + 1, position) for number, (_, position) in enumerate(slots)]


def lying_positions(slots: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(relative, position + 1) for relative, position in slots]


def shift_positions(slots: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Each offset with the position of the entry after it."""
    positions = [position for _, position in slots[1:]] + [slots[-1][1]]
    return [(relative, at) for (relative, _), at in zip(slots, positions, strict=True)]


def make_falling(slots: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return slots[::-1]


def beyond(slots: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(relative, position + (1 << 30)) for relative, position in slots]


def all_zeros(slots: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(0, 0)] * len(slots)


LIES: dict[str, Callable[[list[tuple[int, int]]], list[tuple[int, int]]]] = {
    "sound": list,
    "offsets": lying_offsets,
    "positions": lying_positions,
    "shifted": shift_positions,
    "falling": make_falling,
    "beyond": beyond,
    "zeros": all_zeros,
}


def rewrite_indexes(path: Path, state: str) -> None:
    for index in path.glob("*.index"):
        if state == "missing":
            index.unlink()
            continue
        if state == "torn":
            index.write_bytes(index.read_bytes()[:-3])
            continue
        slots = [(a, b) for a, b in struct.iter_unpack(">ii", index.read_bytes())]
        told = LIES[state](slots)
        index.write_bytes(builders.offset_index(told) + bytes(800))


@pytest.mark.parametrize("state", [*LIES, "missing", "torn"])
def test_offset_ranges_select_records(partition: Path, state: str) -> None:
    every, _ = run_dump(partition)
    rewrite_indexes(partition, state)
    bounds = sorted({row["offset"] for row in every})
    low, high = bounds[0], bounds[-1]
    rng = random.Random(state)
    pairs = [(low - 5, low), (low, low + 1), (high, high + 1), (high + 1, high + 9), (0, 1 << 62)]
    pairs += [
        (at := rng.randrange(low, high), at + rng.randrange(60)) for _ in range(how_many(6, 40))
    ]
    for start, end in pairs:
        rows, found = run_dump(partition, from_offset=start, to_offset=end)
        assert rows == [row for row in every if start <= row["offset"] < end], (start, end)
        assert found == []
        rows, _ = run_dump(partition, from_offset=start)
        assert rows == [row for row in every if row["offset"] >= start], start
        rows, _ = run_dump(partition, to_offset=end)
        assert rows == [row for row in every if row["offset"] < end], end


def times(row: Json) -> int:
    """The time a filter sees; magic 0 has none, as -1 has none."""
    return -1 if row["timestamp_ms"] is None else int(row["timestamp_ms"])


def test_time_ranges_select_records(partition: Path) -> None:
    every, _ = run_dump(partition)
    rng = random.Random(1)
    for _ in range(how_many(16, 40)):
        start = TIME + rng.randrange(9_000, 13_000)
        end = start + rng.randrange(1500)
        rows, found = run_dump(partition, from_time_ms=start, to_time_ms=end)
        assert rows == [row for row in every if start <= times(row) < end]
        assert found == []
        assert run_dump(partition, from_time_ms=start)[0] == [
            row for row in every if times(row) >= start
        ]
        assert run_dump(partition, to_time_ms=end)[0] == [row for row in every if times(row) < end]


def write_time_indexes(path: Path, state: str) -> None:
    """Write a time index for each segment: the greatest time so far, and where it was met."""
    for log in path.glob("*.log"):
        base = int(log.stem)
        slots: list[tuple[int, int]] = []
        for row in run_dump(log, mode="batches")[0]:
            greatest = row["max_timestamp_ms"] or -1
            if greatest > (slots[-1][0] if slots else -1):
                slots.append((greatest, row["last_offset"] - base))
        if state == "short":
            slots = slots[: len(slots) // 2]
        elif state == "low":
            slots[-1] = (slots[-2][0] + 1, slots[-1][1])
        elif state == "high":
            slots[-1] = (slots[-1][0] + 10**6, slots[-1][1])
        elif state == "falling":
            slots = slots[::-1]
        elif state == "zeros":
            slots = [(0, 0)] * 3
        data = builders.time_index(slots)
        if state == "torn":
            data = data[:-1]
        (path / f"{base:020}.timeindex").write_bytes(data)


@pytest.mark.parametrize("state", ["sound", "short", "low", "high", "falling", "zeros", "torn"])
def test_time_ranges_ignore_a_wrong_time_index(partition: Path, state: str) -> None:
    every, _ = run_dump(partition)
    write_time_indexes(partition, state)
    for start in range(TIME + 9_500, TIME + 13_000, 125 if LONG else 225):
        rows, found = run_dump(partition, from_time_ms=start)
        assert rows == [row for row in every if times(row) >= start], start - TIME
        assert found == []


def test_sound_time_index_skips_segments(modern: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = modern
    write_time_indexes(partition, "sound")
    later = max(times(row) for row in run_dump(partition)[0]) - 10
    walked: list[str] = []
    plain = SegmentReader.items

    def items(self: SegmentReader, position: int = 0) -> Any:
        walked.append(self._source.path)
        return plain(self, position)

    monkeypatch.setattr(SegmentReader, "items", items)
    run_dump(partition, from_time_ms=later)
    assert walked == [str(max(partition.glob("*.log")))]


@pytest.mark.parametrize("state", ["sound", "short", "low", "high", "falling", "zeros", "torn"])
def test_both_indexes_bound_the_start_of_a_time(
    modern: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    partition = modern
    every, _ = run_dump(partition)
    write_time_indexes(partition, state)
    for log in partition.glob("*.log"):
        rows = run_dump(log, mode="batches")[0][1:]
        slots = [(row["last_offset"] - int(log.stem), row["position"]) for row in rows]
        index = builders.offset_index(slots)
        log.with_suffix(".index").write_bytes(index)
    begun: list[int] = []
    plain = SegmentReader.items

    def items(self: SegmentReader, position: int = 0) -> Any:
        begun.append(position)
        return plain(self, position)

    monkeypatch.setattr(SegmentReader, "items", items)
    for start in range(TIME + 9_500, TIME + 13_000, 250):
        rows, found = run_dump(partition, from_time_ms=start)
        assert rows == [row for row in every if times(row) >= start], start - TIME
        assert found == []
    assert any(begun) == (state != "zeros")


def text(value: str | None) -> bytes:
    return b"" if value is None else bytes.fromhex(value)


FILTERS: list[tuple[dict[str, Any], Callable[[Json], bool]]] = [
    ({"key": b"key-1"}, lambda row: row["key"] == b"key-1".hex()),
    ({"key": b""}, lambda row: row["key"] == ""),
    ({"key": b"nobody"}, lambda row: False),
    (
        {"grep": re.compile(rb"e-1.*7$")},
        lambda row: (
            re.search(rb"e-1.*7$", text(row["key"])) is not None
            or re.search(rb"e-1.*7$", text(row["value"])) is not None
        ),
    ),
    ({"producer_id": 7}, lambda row: row["producer_id"] == 7),
    ({"producer_id": 8}, lambda row: False),
    ({"control": True}, lambda row: row["control"] is not None),
    ({"control": False}, lambda row: row["control"] is None),
]


@pytest.mark.parametrize(("options", "admits"), FILTERS)
def test_filters_select_records(
    partition: Path, options: Json, admits: Callable[[Json], bool]
) -> None:
    every, _ = run_dump(partition)
    expected = [row for row in every if admits(row)]
    assert run_dump(partition, **options)[0] == expected
    low, high = every[20]["offset"], every[-20]["offset"]
    assert run_dump(partition, from_offset=low, to_offset=high, **options)[0] == [
        row for row in expected if low <= row["offset"] < high
    ]
    assert run_dump(partition, limit=3, **options)[0] == expected[:3]


@pytest.mark.parametrize("mode", ["records", "batches"])
@pytest.mark.parametrize("limit", [0, 1, 2, 24, 25, 26, 10_000])
def test_limit_ends_the_dump(partition: Path, mode: str, limit: int) -> None:
    every, _ = run_dump(partition, mode=mode)
    assert run_dump(partition, mode=mode, limit=limit)[0] == every[:limit]


def test_limit_counts_records_of_all_paths(partition: Path) -> None:
    logs = sorted(partition.glob("*.log"))
    asked = [str(log) for log in logs[:2]]
    first = sum(map(len_of, dump(asked[:1], DumpOptions())))
    both = [len_of(item) for item in dump(asked, DumpOptions(limit=first + 2))]
    assert sum(both) == first + 2


def len_of(item: object) -> int:
    return len(item) if isinstance(item, (RecordChunk, BatchChunk)) else 0


def test_ranges_select_headers(partition: Path) -> None:
    """A header is shown where its entry can hold a record of the range."""
    headers, _ = run_dump(partition, mode="batches", deep=True)
    for start, end in ((1000, 1001), (1040, 1100), (1150, 1151)):
        rows, _ = run_dump(partition, mode="batches", deep=True, from_offset=start, to_offset=end)
        expected = [
            row for row in headers if row["last_offset"] >= start and row["base_offset"] < end
        ]
        shown = [row["position"] for row in rows if row["base_offset"] < end]
        assert shown == [row["position"] for row in expected]


def test_headers_without_a_timestamp_match_no_time(tmp_path: Path) -> None:
    """A delete horizon in the place of the base timestamp excludes nothing."""
    path = tmp_path / "t-0"
    path.mkdir()
    far = TIME + 10**9
    data = builders.batch(
        base_timestamp=far, max_timestamp=TIME, attributes=builders.DELETE_HORIZON
    )
    data += builders.batch(base_offset=1, base_timestamp=far, max_timestamp=far)
    appended = builders.LOG_APPEND_TIME
    data += builders.batch(base_offset=2, base_timestamp=0, max_timestamp=far, attributes=appended)
    (path / f"{0:020}.log").write_bytes(data)
    rows, _ = run_dump(path, mode="batches", to_time_ms=TIME + 1)
    assert [row["base_offset"] for row in rows] == [0]


def test_sound_index_saves_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "big-0"
    path.mkdir()
    data, slots = bytearray(), []
    for number in range(2000):
        if number % 20 == 19:
            slots.append((number, len(data)))
        value = random.Random(number).randbytes(2000)
        data += builders.batch([builders.record(value=value)], base_offset=number)
    (path / f"{0:020}.log").write_bytes(data)
    (path / f"{0:020}.index").write_bytes(builders.offset_index(slots))
    read = count_bytes(monkeypatch)
    for start in (5, 700, 1990):
        read.clear()
        rows, _ = run_dump(path, from_offset=start, to_offset=start + 3)
        assert [row["offset"] for row in rows] == [start, start + 1, start + 2]
        assert sum(read) < 700_000
    read.clear()
    assert len(run_dump(path, limit=1)[0]) == 1
    assert sum(read) < 700_000


def test_range_over_wrappers_ends_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrapper's header does not say where it starts, but the entry before it does."""
    path = tmp_path / "wraps-0"
    path.mkdir()
    data = b"".join(
        builders.wrapper(
            [builders.message(0, value=random.Random(n).randbytes(2000)), builders.message(1)],
            2 * n + 1,
        )
        for n in range(1000)
    )
    (path / f"{0:020}.log").write_bytes(data)
    read = count_bytes(monkeypatch)
    rows, _ = run_dump(path, to_offset=3)
    assert [row["offset"] for row in rows] == [0, 1, 2]
    assert sum(read) < 700_000


# Damage and ranges -------------------------------------------------------------------------------


def test_damage_outside_the_range_is_not_reported(partition: Path) -> None:
    log = min(partition.glob("*.log"))
    data = log.read_bytes()
    log.write_bytes(damage.flip(data, len(data) - 1))
    os.utime(log, (1_700_000_000, 1_700_000_000))
    every, found = run_dump(partition)
    assert [one.code for one in found] == ["crc-mismatch"]
    next_base = int(sorted(partition.glob("*.log"))[1].stem)
    rows, found = run_dump(partition, from_offset=next_base)
    assert rows == [row for row in every if row["row"] == "record" and row["segment"] >= next_base]
    assert found == []
    rows, found = run_dump(partition, to_offset=1005)
    assert found == []


def test_limit_does_not_count_findings(partition: Path) -> None:
    log = min(partition.glob("*.log"))
    log.write_bytes(b"garbage" * 20 + log.read_bytes())
    rows, found = run_dump(partition, limit=4)
    assert len(rows) == 4
    assert len(found) == 1


# 0.7 ---------------------------------------------------------------------------------------------


@each(
    "options",
    [
        {"key": b"x"},
        {"producer_id": 1},
        {"control": True},
        {"from_time_ms": 0},
    ],
)
def test_time_bounds_exclude_messages_of_0_7(options: Json) -> None:
    path = corpus("old/v07-072.clean") / "data" / "plain-0"
    assert run_dump(path, **options)[0] == []


def test_grep_and_limit_apply_to_files_of_0_7() -> None:
    path = corpus("old/v07-072.clean") / "data" / "plain-0"
    every, _ = run_dump(path)
    word = re.compile(rb"lorem.*dolor")
    expected = [row for row in every if word.search(text(row["value"]))]
    assert 0 < len(expected) < len(every)
    assert run_dump(path, grep=word)[0] == expected
    assert run_dump(path, limit=7)[0] == every[:7]
    assert run_dump(path, control=False)[0] == every
    low, high = every[10]["offset"], every[50]["offset"]
    assert run_dump(path, from_offset=low, to_offset=high)[0] == [
        row for row in every if low <= row["offset"] < high
    ]


# Paths -------------------------------------------------------------------------------------------


def errors(*paths: Path, **options: Any) -> list[KdumpError]:
    items = dump([str(path) for path in paths], DumpOptions(**options))
    return [item for item in items if isinstance(item, KdumpError)]


def test_missing_path_does_not_stop_the_others(partition: Path) -> None:
    missing = partition.parent / "nobody-0"
    items = list(dump([str(missing), str(partition)], DumpOptions()))
    assert isinstance(items[0], PathError)
    assert any(isinstance(item, RecordChunk) for item in items[1:])


def test_file_without_records_is_an_error(partition: Path) -> None:
    index = next(partition.glob("*.index"))
    (error,) = errors(index)
    assert "--entries" in str(error)
    log = next(partition.glob("*.log"))
    (error,) = errors(log, mode="entries")
    assert "without --entries" in str(error)


def test_missing_input_is_an_error(tmp_path: Path) -> None:
    assert [type(error) for error in errors(tmp_path)] == [NothingToDo]


def test_empty_partition_is_not_an_error(tmp_path: Path) -> None:
    path = tmp_path / "empty-0"
    path.mkdir()
    (path / f"{0:020}.log").write_bytes(b"")
    assert list(dump([str(path)], DumpOptions())) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file_is_an_error(partition: Path) -> None:
    log = min(partition.glob("*.log"))
    log.chmod(0)
    items = list(dump([str(partition)], DumpOptions()))
    assert [type(item) for item in items if isinstance(item, KdumpError)] == [PathError]
    assert any(isinstance(item, RecordChunk) for item in items)


def test_directory_named_like_a_log_is_an_error(partition: Path) -> None:
    (partition / f"{5000:020}.log").mkdir()
    items = list(dump([str(partition)], DumpOptions()))
    assert [type(item) for item in items if isinstance(item, (KdumpError, Finding))] == [PathError]


def test_entries_of_a_partition_are_dumped(partition: Path) -> None:
    rows, found = run_dump(partition, mode="entries")
    assert {row["row"] for row in rows} == {"offset-index-entry"}
    assert len(rows) == 36
    assert found == []


# Small batches are opened together up to a megabyte, large ones alone.
SMALL = b"v" * 600_000
LARGE = random.Random(1).randbytes(70_000)


@each(("value", "count"), [(SMALL, 5), (LARGE, 3)], ids=["small", "large"])
@each("ask", [dump, kafka_dump])
def test_one_decompressed_batch_is_kept_at_a_time(
    tmp_path: Path, ask: object, value: bytes, count: int
) -> None:
    """A chunk's text goes when the next item is asked for, though the chunk is still held."""
    log = tmp_path / "t-0" / f"{0:020d}.log"
    log.parent.mkdir()
    packed = gzip.compress(builders.record(value=value))
    one = {"attributes": builders.GZIP, "payload": packed, "records_count": 1}
    log.write_bytes(b"".join(builders.batch(base_offset=at, **one) for at in range(count)))
    held: list[RecordChunk] = []
    for item in ask([str(log)], DumpOptions()):  # type: ignore[operator]
        assert not any(len(chunk.data) for chunk in held)
        chunk = item.records if isinstance(item, ToolChunk) else item
        if isinstance(chunk, RecordChunk):
            assert len(chunk.data) >= len(value)
            held.append(chunk)
    assert len(held) == 3


def test_messages_without_timestamps_have_time_minus_one(tmp_path: Path) -> None:
    """As brokers return them; so they are shown as of -1, and by no bound from 0 on."""
    partition = tmp_path / "t-0"
    partition.mkdir()
    (partition / f"{0:020}.log").write_bytes(builders.message(0, magic=0))
    shown = {
        start: [row["offset"] for row in run_dump(partition, from_time_ms=start)[0]]
        for start in (-2, -1, 0)
    }
    assert shown == {-2: [0], -1: [0], 0: []}
