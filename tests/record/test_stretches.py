"""stretches: the same records as by read_batch, with many batches in one call."""

import gzip
import random
from collections.abc import Iterator
from itertools import pairwise

import builders
import pytest
from damage import put
from each import each

from kdump import kernels
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.kernels.columns import RecordBatches
from kdump.record import compression
from kdump.record.batch import read_batch
from kdump.record.read_ahead import RecordsAhead
from kdump.record.stretches import Stretch, stretches

LIMIT = 1 << 23


def packed_batch(offset: int, records: list[bytes], **options: object) -> bytes:
    """Write a batch under gzip."""
    payload = gzip.compress(b"".join(records), mtime=0)
    more = {"records_count": len(records), "last_offset_delta": max(0, len(records) - 1)} | options
    return builders.batch(
        base_offset=offset,
        attributes=builders.GZIP,
        payload=payload,
        **more,  # type: ignore[arg-type]
    )


def read(
    log: bytes, admitted: bytearray | None = None, most: int = 100, *, wrappers: bool = False
) -> list[Stretch]:
    batches, _, _ = kernels.walk(log, 0, len(log), 50, -1, True, 1 << 30)
    given = {"admitted": admitted, "wrappers": wrappers}
    found = list(stretches(log, 50, batches, limit=LIMIT, max_records=most, **given))  # type: ignore[arg-type]
    assert all(one.behind <= two.first for one, two in pairwise(found))
    return found


def contents(batches: RecordBatches, parts: list[tuple[object, object]]) -> list[object]:
    """Return what each record is: batch, offset, time, key, value."""
    return [
        (records.batch(row), records.offset(row), records.timestamp(row),
         records.key(data, row), records.payload(data, row))
        for data, records in parts
        for row in range(records.count)
    ]  # fmt: skip


def alone(log: bytes, batches: RecordBatches) -> Iterator[tuple[object, object]]:
    for row in range(batches.count):
        for piece in read_batch(log, 50, batches, row, limit=LIMIT):
            yield piece.data, piece.records


def log_of(draw: random.Random) -> bytes:
    """Write batches, compressed or not, sound but for what lies in them."""
    parts, offset = [], 0
    for _ in range(draw.randrange(1, 15)):
        size = draw.randrange(6)
        records = [
            builders.record(n, value=draw.randbytes(draw.randrange(60))) for n in range(size)
        ]
        kind = draw.randrange(8)
        if kind < 4:
            parts.append(packed_batch(offset, records))
        elif kind == 4:
            parts.append(packed_batch(offset, records, records_count=draw.randrange(-1, 9)))
        elif kind == 5:
            parts.append(builders.batch(records, base_offset=offset))
        elif kind == 6:
            parts.append(builders.marker(1, base_offset=offset))
        else:
            inner = [builders.message(n, value=draw.randbytes(9)) for n in range(size)]
            if draw.randrange(4) == 0 and inner:
                inner[-1] = draw.choice(
                    [
                        put(inner[-1], 12, b"oops"),  # its checksum
                        inner[-1][:-3],
                        builders.wrapper([builders.message(0)], size - 1),
                    ]
                )
            parts.append(builders.wrapper(inner, offset + draw.choice([size, 0])))
        offset += size + 1
    return b"".join(parts)


@each("wrappers", [False, True])
@each("seed", range(200))
def test_records_equal_those_of_each_batch_alone(seed: int, wrappers: bool) -> None:
    log = log_of(random.Random(seed))
    batches, _, _ = kernels.walk(log, 0, len(log), 50, -1, True, 1 << 30)
    parts = []
    for data, records, first, behind, reason in read(log, most=12, wrappers=wrappers):
        if records is None:
            assert behind == first + 1
            pieces = list(read_batch(log, 50, batches, first, limit=LIMIT))
            parts += [(piece.data, piece.records) for piece in pieces]
            continue
        assert records.count <= 12
        parts.append((data, records))
        told = [
            piece.reason
            for row in range(first, behind)
            for piece in read_batch(log, 50, batches, row, limit=LIMIT)
        ]
        assert told == [reasons.END] * (len(told) - 1) + [reason]
    assert contents(batches, parts) == contents(batches, list(alone(log, batches)))


@each("seed", range(100))
def test_prefetched_records_equal_those_of_each_batch(seed: int) -> None:
    draw = random.Random(seed)
    log = log_of(draw)
    batches, _, _ = kernels.walk(log, 0, len(log), 50, -1, True, 1 << 30)
    ahead = RecordsAhead(LIMIT)
    some = draw.choices(range(batches.count), k=9) if batches.count else []
    for row in [*range(batches.count), *some]:
        found = ahead.records(batches, row, lambda at, size: log[at - 50 :][:size])
        if found is not None:
            data, records, first = found
            own = records.slice(first, records.count)
            own.fill(c.R_BATCH, row)
            (piece,) = read_batch(log, 50, batches, row, limit=LIMIT)
            assert contents(batches, [(data, own)]) == contents(
                batches, [(piece.data, piece.records)]
            )


def test_only_batches_in_order_are_prefetched() -> None:
    log = b"".join(packed_batch(at, [builders.record()]) for at in range(20))
    batches, _, _ = kernels.walk(log, 0, len(log), 0, -1, True, 1 << 30)
    reads = []

    def given(at: int, size: int) -> bytes:
        reads.append((at, size))
        return log[at : at + size]

    ahead = RecordsAhead(LIMIT)
    assert ahead.records(batches, 7, given) is None
    assert all(ahead.records(batches, row, given) for row in range(8, 20))
    assert reads == [(batches.position(8), len(log) - batches.position(8))]


def test_sound_wrappers_are_one_stretch() -> None:
    sound = [builders.wrapper([builders.message(0)], at) for at in range(9)]
    wrong = builders.wrapper([put(builders.message(0), 12, b"oops")], 9)
    found = read(b"".join([*sound, wrong, *sound]), wrappers=True)
    assert [(one.first, one.behind, one.records is None) for one in found] == [
        (0, 9, False),
        (9, 10, True),
        (10, 19, False),
    ]


def test_many_compressed_batches_are_one_stretch() -> None:
    log = b"".join(packed_batch(at, [builders.record()]) for at in range(20))
    (one,) = read(log)
    assert (one.first, one.behind, one.reason) == (0, 20, reasons.END)
    assert one.records is not None
    assert list(one.records.offsets) == list(range(20))
    assert [one.behind - one.first for one in read(log, most=8)] == [8, 8, 4]


def test_unrequested_batches_are_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    log = b"".join(packed_batch(at, [builders.record()]) for at in range(6))
    opened = []
    decompress = compression.decompress

    def noted(*arguments: object) -> compression.Plain:
        opened.append(arguments)
        return decompress(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(compression, "decompress", noted)
    found = read(log, bytearray([0, 1, 1, 0, 1, 0]))
    assert [(one.first, one.behind) for one in found] == [(1, 3), (4, 5)]
    assert len(opened) == 3


def test_broken_stream_is_left_to_read_batch() -> None:
    sound, broken = (packed_batch(at, [builders.record(value=b"v" * 99)]) for at in (0, 1))
    broken = builders.with_right_crc(put(broken, 75, b"\xff\xff\xff"))
    found = read(sound + broken + packed_batch(2, [builders.record()]))
    assert [(one.first, one.records is None) for one in found] == [
        (0, False),
        (1, True),
        (2, False),
    ]


def test_large_batches_and_bombs_are_left_to_read_batch() -> None:
    noise = packed_batch(0, [builders.record(value=random.Random(1).randbytes(70_000))])
    bomb = packed_batch(1, [builders.record(value=bytes((1 << 20) + 1))])
    odd = packed_batch(2, [], records_count=0), builders.marker(2, base_offset=3)
    assert [one.records for one in read(noise + bomb + b"".join(odd))][:3] == [None] * 3


def test_messages_of_several_wrappers_are_bounded_together() -> None:
    inner = [builders.message(n) for n in range(3)]
    log = b"".join(builders.wrapper(inner, 3 * number + 2) for number in range(6))
    counts = [one.records and one.records.count for one in read(log, most=7, wrappers=True)]
    assert counts == [6, 6, 6]


def test_flags_of_the_run_are_unchanged() -> None:
    log = packed_batch(0, [builders.record()]) * 2
    batches, _, _ = kernels.walk(log, 0, len(log), 0, -1, True, 9)
    before = batches.rows(), batches.flags
    assert list(stretches(log, 0, batches, limit=LIMIT, max_records=9))
    assert (batches.rows(), batches.flags) == before
    assert batches.flags & c.COMPRESSED
