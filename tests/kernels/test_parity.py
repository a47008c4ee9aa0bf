"""The twins give the same answers, on sound, broken and arbitrary bytes.

The pure kernel is the specification; each function of the compiled one is held against it. The
short profile runs every time. KDUMP_FUZZ=long makes it a hundred times longer; KDUMP_FUZZ_COUNT and
KDUMP_FUZZ_SEED set the number of rounds and where they start. A round that fails names its seed.
"""

from __future__ import annotations

import inspect
import os
import random
import struct
import sys
from array import array
from collections import Counter
from collections.abc import Callable
from types import ModuleType

import builders
import damage
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kdump.kernels import _pure, reasons
from kdump.kernels import columns as c
from kdump.kernels import gathered as g
from kdump.kernels.columns import Columns, DecodedRecords, RecordBatches
from kdump.kernels.gathered import Copy, Gathered
from kdump.kernels.text_form import TABLE, Cell, TextForm
from kdump.output.text_forms import csv_form, json_form, kafka_form

_fast = pytest.importorskip("kdump.kernels._fast", reason="the compiled kernel is not built")

LONG = os.environ.get("KDUMP_FUZZ") == "long"
SEED = int(os.environ.get("KDUMP_FUZZ_SEED", "0"))
COUNT = int(os.environ.get("KDUMP_FUZZ_COUNT", "300000" if LONG else "5000"))
PROFILE = settings(
    max_examples=20_000 if LONG else 300,
    deadline=None,
    derandomize=not LONG,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

FUNCTIONS = _pure.__all__
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
EDGES = [0, 1, -1, 2, 13, 14, 17, 48, 49, 61, 127, 128, 255, 0x7FFFFFFF, -0x80000000, 1 << 40]
EDGES += [(1 << 63) - 1, -(1 << 63), -2, 0xFFFFFFFF]


def plain(result: object) -> object:
    """Turn a result into something that compares by content."""
    if isinstance(result, Columns):
        return result.flags, result.rows()
    if isinstance(result, tuple):
        return tuple(plain(part) for part in result)
    return result


def outcome(function: Callable[..., object], *arguments: object) -> object:
    """Return what a call gives: its result and what it wrote, or the kind of its exception."""
    written: list[bytes] = []
    if "format" in function.__name__:
        arguments = (written.append, *arguments)
    try:
        result = function(*arguments)
    except (IndexError, OverflowError) as error:
        return type(error)
    return plain(result), b"".join(written)


def both(name: str, *arguments: object) -> tuple[Columns, ...]:
    """Call both twins, compare, and return what the compiled one gave."""
    wanted = outcome(getattr(_pure, name), *arguments)
    got = outcome(getattr(_fast, name), *arguments)
    assert got == wanted, name
    if "format" in name or wanted in (IndexError, OverflowError):
        return ()
    result: tuple[Columns, ...] = getattr(_fast, name)(*arguments)
    return result


def test_same_functions_with_the_same_arguments() -> None:
    assert len(FUNCTIONS) > 20
    for name in FUNCTIONS:
        wanted = [
            (parameter.name, parameter.default)
            for parameter in inspect.signature(getattr(_pure, name)).parameters.values()
        ]
        signature = getattr(_fast, name).__doc__.splitlines()[0]
        inside = signature[signature.index("(") + 1 : signature.rindex(")")]
        got = [part.split("=")[0].split()[-1].strip("*") for part in inside.split(",") if part]
        assert got == [name for name, _ in wanted], name


# Bytes worth trying ------------------------------------------------------------------------------


def number(rng: random.Random, bits: int = 64) -> int:
    """Choose an edge case, a small number or any, signed, of so many bits."""
    value = rng.choice(
        (rng.choice(EDGES), rng.randrange(300), rng.getrandbits(bits), -rng.randrange(300))
    )
    half = 1 << bits - 1
    return (value + half) % (1 << bits) - half


def maybe(rng: random.Random, usual: int, bits: int = 64, chance: float = 0.03) -> int:
    """Choose the usual value nearly always."""
    return number(rng, bits) if rng.random() < chance else usual


TEXTS = [
    b"plain ascii, long enough to be looked at eight bytes at a time",
    "süß € 😀 \u200e\u2028\u202e\u2066\x85\x7f".encode(),
    b'"quoted" \\ \b\f\n\r\t\0\x1b',
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xf0\x9f\x98",
    b"\xe2\x80",
    b"\xff\xfe\xfd",
    b"",
]


def content(rng: random.Random) -> bytes | None:
    kind = rng.randrange(8)
    if kind == 0:
        return None
    if kind == 1:
        return rng.randbytes(rng.randrange(40))
    if kind == 2:
        return b"".join(rng.choice(TEXTS) for _ in range(rng.randrange(8)))
    return rng.choice(TEXTS)[: rng.randrange(80)]


def odd_varint(rng: random.Random) -> bytes:
    """Write a varint of any length, ten bytes with the top bits set among them."""
    kind = rng.randrange(5)
    if kind == 0:
        return b"\xff" * rng.randrange(4, 11) + bytes([rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF))])
    if kind == 1:
        return b"\x80" * rng.randrange(4, 11) + bytes([rng.choice((0, 1, 0x0F, 0x10, 0x7F))])
    if kind == 2:
        return bytes(rng.choice((0x80, 0xFF, 0x7F)) for _ in range(rng.randrange(1, 11)))
    return builders.varint(number(rng, rng.choice((8, 32, 64))))


def one_record(rng: random.Random, delta: int) -> bytes:
    headers = [(content(rng) or b"", content(rng)) for _ in range(rng.choice((0, 0, 0, 1, 2, 5)))]
    if rng.random() < 0.9:
        return builders.record(
            maybe(rng, delta, 32),
            maybe(rng, rng.randrange(1000)),
            content(rng),
            content(rng),
            headers,
            attributes=rng.choice((0, 0, 255)),
            headers_count=None if rng.random() < 0.97 else number(rng, 32),
            length=None if rng.random() < 0.97 else number(rng, 32),
            slack=b"" if rng.random() < 0.97 else rng.randbytes(3),
        )
    if rng.random() < 0.3:
        pairs = b"".join(rng.choice((b"\0", b"\1", b"\2a", b"\6")) for _ in range(4))
        inside = b"\0\0\0\1\1" + builders.varint(rng.randrange(4)) + pairs
        return builders.varint(len(inside)) + inside
    # Field by field, each of them odd now and then.
    fields = bytearray([0])
    for default in (b"\2", b"\2", b"\1", b"\1", b"\0"):
        fields += odd_varint(rng) if rng.random() < 0.2 else default
    if rng.random() < 0.1:
        return odd_varint(rng) + fields
    return builders.varint(len(fields)) + fields


def records_of(rng: random.Random) -> list[bytes]:
    return [one_record(rng, delta) for delta in range(rng.choice((0, 1, 1, 2, 5, 20)))]


def one_batch(rng: random.Random, offset: int) -> bytes:
    records = records_of(rng)
    payload = b"".join(records)
    if payload and rng.random() < 0.25:
        payload = broken(rng, payload)  # under a CRC that is right
    attributes = rng.choice((0, 0, 0, 0, 0x08, 0x10, 0x20, 0x30, 0x40))
    if rng.random() < 0.1:
        attributes |= rng.choice((1, 2, 3, 4, 5, 6, 7, 0x80, 0x8000))
    last = max(len(records) - 1, 0)
    return builders.batch(
        records,
        payload=payload,
        base_offset=maybe(rng, offset),
        leader_epoch=number(rng, 32),
        magic=rng.choice((-1, 0, 1, 3, 7, 127)) if rng.random() < 0.03 else 2,
        attributes=attributes,
        base_timestamp=maybe(rng, 1_700_000_000_000),
        max_timestamp=maybe(rng, 1_700_000_001_000),
        producer_id=rng.choice((-1, number(rng))),
        producer_epoch=number(rng, 16),
        base_sequence=rng.choice((-1, 0, 0x7FFFFFFF, number(rng, 32))),
        records_count=maybe(rng, len(records), 32),
        last_offset_delta=maybe(rng, last, 32),
        size=None if rng.random() < 0.97 else number(rng, 32),
        crc=None if rng.random() < 0.97 else rng.getrandbits(32),
    )


def one_control_batch(rng: random.Random, offset: int) -> bytes:
    """Write a transaction marker, sound or nearly so."""
    version, kind = maybe(rng, 0, 16), maybe(rng, rng.randrange(3), 16)
    key = struct.pack(">hh", version, kind)[: maybe(rng, 4, 3, 0.1)]
    value = struct.pack(">hi", maybe(rng, 0, 16), number(rng, 32))
    control = builders.record(0, key=key, value=value[: maybe(rng, 6, 3, 0.1)])
    return builders.batch(
        [control] * rng.choice((1, 1, 1, 1, 2)),
        base_offset=offset,
        attributes=0x20 | rng.choice((0, 0x10, 0x10, 1)),
        records_count=maybe(rng, 1, 3, 0.1),
    )


def one_message(rng: random.Random, offset: int) -> bytes:
    magic = rng.choice((0, 0, 1, 1, 1, 1, 2, 5, -1)) if rng.random() < 0.3 else rng.choice((0, 1))
    body = None
    if rng.random() < 0.1:
        body = struct.pack(">ii", number(rng, 32), number(rng, 32)) + rng.randbytes(9)
    return builders.message(
        maybe(rng, offset),
        content(rng),
        content(rng),
        magic=magic,
        layout=None if rng.random() < 0.95 else rng.randrange(2),
        attributes=maybe(rng, rng.choice((0, 0, 0, 8, 1, 3)), 7, 0.1) & 0xFF,
        timestamp=maybe(rng, 1_400_000_000_000),
        slack=b"" if rng.random() < 0.9 else rng.randbytes(5),
        size=None if rng.random() < 0.97 else number(rng, 32),
        crc=None if rng.random() < 0.95 else rng.getrandbits(32),
        body=body,
    )


def inner_set(rng: random.Random) -> bytes:
    data = b"".join(one_message(rng, index) for index in range(rng.randrange(5)))
    return broken(rng, data) if data and rng.random() < 0.4 else data


def broken(rng: random.Random, data: bytes) -> bytes:
    """Break bytes in one way; where that would change nothing, in another."""
    for _ in range(20):
        at = rng.randrange(len(data))
        count = rng.randrange(1, min(len(data) - at, rng.choice((4, 40, 400))) + 1)
        kind = rng.randrange(7)
        try:
            if kind == 0:
                return damage.flip(data, at, count)
            if kind == 1:
                return damage.flip_bit(data, at, rng.randrange(8))
            if kind == 2:
                return damage.zero(data, at, count)
            if kind == 3:
                return damage.cut(data, at)
            if kind == 4:
                return damage.remove(data, at, count)
            if kind == 5:
                return damage.repeat(data, at, count)
            size = min(count, at)
            return damage.swap(data, rng.randrange(at - size + 1), at, size)
        except AssertionError:
            continue
    return damage.flip(data, 0)


def log_file(rng: random.Random) -> bytes:
    """Write some entries of all versions, broken somewhere now and then."""
    offset = rng.choice((0, 0, 100, (1 << 62)))
    parts = []
    for _ in range(rng.randrange(6)):
        kind = rng.randrange(9)
        if kind < 4:
            parts.append(one_batch(rng, offset))
        elif kind == 8:
            parts.append(one_control_batch(rng, offset))
        elif kind < 6:
            parts.append(one_message(rng, offset))
        elif kind == 6:
            parts.append(builders.wrapper([inner_set(rng)], offset, magic=rng.randrange(2)))
        else:
            zeros, noise = bytes(rng.randrange(200)), rng.randbytes(rng.randrange(60))
            parts.append(rng.choice((zeros, noise)))
        offset += rng.randrange(1, 20)
    data = b"".join(parts)
    for _ in range(rng.choice((0, 0, 1, 1, 3))):
        if data:
            data = broken(rng, data)
    return data


# Rounds ------------------------------------------------------------------------------------------


def some_rows(rng: random.Random, columns: Columns) -> array[int] | None:
    kind = rng.randrange(4)
    if kind < 2 or not columns.count:
        return None
    numbers = [rng.randrange(columns.count) for _ in range(rng.randrange(6))]
    if kind == 3 and rng.random() < 0.1:
        numbers.append(rng.choice((-1, columns.count, 1 << 62)))
    return array("q", numbers)


def compare_gathered(
    rng: random.Random,
    data: bytes,
    batches: RecordBatches,
    records: DecodedRecords,
    rows: array[int] | None,
) -> None:
    """Gather twice into the same buffers, which may be too small, and compare what is in them."""
    rooms = {name: rng.choice((3, 40, 5000)) for name in ROOMS}
    first = rng.choice((0, 0, 0, rng.randrange(-1, 4)))
    copies = tuple(some_copy(rng) for _ in range(rng.randrange(4)))
    seen = []
    for kernel in (_pure, _fast):
        into = Gathered(**rooms, copies=copies)
        for again in (0, first):
            arguments = (into, data, batches, records, rows, again)
            seen.append(outcome(kernel.gather, *arguments))
        seen.append(used(into))
    half = len(seen) // 2
    assert seen[:half] == seen[half:]


def some_copy(rng: random.Random) -> Copy:
    of_record = rng.random() < 0.5
    column = rng.randrange(c.RECORD_WIDTH if of_record else c.BATCH_WIDTH)
    return Copy(column, of_record, rng.choice((8, 16, 32, 64)))


ROOMS = ("rows", "headers", "keys", "values", "names", "contents")


def used(into: Gathered) -> list[object]:
    """What is gathered: counts, and each buffer as far as it is filled."""
    rows, headers = into.counts[g.N_ROWS], into.counts[g.N_HEADERS]
    found: list[object] = [list(into.counts)]
    for number, bits in enumerate(into.bits):
        count = headers if number in g.OF_HEADERS else rows
        data = into.buffers[number]
        if bits == 1:
            found.append([data[at >> 3] >> (at & 7) & 1 for at in range(count)])
        elif bits:
            found.append(data[: bits // 8 * (count + (number in g.ENDS))] if count else b"")
        else:
            ends = into.buffers[number - 1 if number == g.G_NAMES else number - 2]
            count = headers if number in (g.G_NAMES, g.G_CONTENTS) else rows
            end = int.from_bytes(ends[4 * count : 4 * count + 4], sys.byteorder) if count else 0
            found.append(data[:end])
    return found


def all_forms(head: bytes) -> list[TextForm]:
    """Every form that rows are written in, under every mode of bytes."""
    flags = (False, True)
    return [
        *(json_form(head, mode) for mode in range(4)),
        *(
            csv_form(head, mode, shown=shown, safe=safe)
            for mode in range(4)
            for shown in flags
            for safe in flags
        ),
        *(kafka_form(shown=shown) for shown in flags),
    ]


def table_form(rng: random.Random) -> TextForm:
    """Make the form of a table's lines: columns of any width, some of which may be cut."""
    cells = []
    for member in rng.sample(("offset", "time", "note", "key", "value"), rng.randrange(1, 6)):
        is_bytes = member in ("key", "value")
        gap, empty = rng.choice((b"", b"  ")), b"''" if is_bytes else b""
        width = rng.choice((0, 3, 6, 24, rng.randrange(60)))
        most = rng.choice((0, width, width + 1, 1 << 20)) if is_bytes else 0
        cells.append(Cell(member, gap, empty, gap + b"-", width, most))
    record = tuple(cells)
    shown = rng.random() < 0.9
    return TextForm(TABLE, rng.randrange(4), record, record[::-1], (), (), shown=shown)


def compare_records(
    rng: random.Random, data: bytes, batches: RecordBatches, records: DecodedRecords
) -> None:
    rows = some_rows(rng, records)
    head = rng.choice((b"", b'"topic":"t","partition":1'))
    said = rng.choice((None, [b"said %d" % row for row in range(records.count)]))
    headed = rng.choice((None, some_rows(rng, batches)))
    for form in rng.sample(all_forms(head), 4):
        both("format_records", data, batches, records, rows, form, said, headed)
    both("format_records", data, batches, records, rows, table_form(rng))
    compare_gathered(rng, data, batches, records, rows)
    bounds = [rng.choice((None, number(rng), rng.randrange(300))) for _ in range(4)]
    admitted = rng.choice((None, bytearray(rng.choices((0, 1), k=batches.count))))
    key = rng.choice((None, b"", b"k", rng.choice(TEXTS)))
    part = rng.choice((None, b"k", b"\0", b"value", *filter(None, TEXTS)))
    offsets, times = tuple(bounds[:2]), tuple(bounds[2:])
    both("select_records", data, records, admitted, offsets, times, key, part)
    both("room_for", data, records, rng.randrange(-1, max(1, records.count)))


def compare_file(rng: random.Random, data: bytes, seen: Counter[int]) -> None:
    base = rng.choice((0, 0, 4096, 1 << 40))
    start = rng.choice((0, 0, 0, rng.randrange(-3, len(data) + 3)))
    end = rng.choice((len(data), len(data), rng.randrange(-3, len(data) + 3)))
    most = rng.choice((1 << 30, 1 << 30, rng.randrange(-1, 4)))
    last_offset = rng.choice((-1, -1, number(rng)))
    check = rng.random() < 0.9
    batches, _, reason = both("walk", data, start, end, base, last_offset, check, most)
    seen[reason] += 1
    for form in (json_form(b'"segment":0', 0), kafka_form(shown=False)):
        both("format_batches", batches, some_rows(rng, batches), form)
    both("crc32", data, start, end, rng.choice((0, number(rng))))
    both("crc32c", data, start, end, rng.choice((0, number(rng))))
    compare_index_entries(rng, batches, seen)
    low, high = rng.choice(((-1, 1 << 62), (99, 200), (number(rng), number(rng))))
    summed = rng.choice((1 << 40, 1 << 40, rng.randrange(-1, 1000)))
    behind = rng.choice((0, 0, rng.randrange(-1, 5000), 1 << 40))
    both("resync", data, start, end, behind, low, high, summed)
    for name in ("crc32_joined", "crc32c_joined"):
        both(name, number(rng), number(rng), rng.choice((0, -1, 1, 77, 1 << 40, number(rng))))
    first = 0
    while first <= batches.count:
        most = rng.choice((1 << 40, 1 << 40, rng.randrange(-1, 30)))
        records, behind, _, reason = both("decode_run", data, base, batches, first, most)
        seen[reason] += 1
        compare_records(rng, data, batches, records)
        first = max(first, behind) + 1
    for index in range(-1, batches.count + 1):
        compare_inside(rng, data, batches, index, seen)


def compare_index_entries(rng: random.Random, batches: RecordBatches, seen: Counter[int]) -> None:
    """Build index entries row by row and in one go, from any state."""
    base_offset = rng.choice((0, 0, 0, 100, number(rng)))
    interval = rng.choice((0, 0, 100, number(rng, 32)))
    start = array("q", (0, -1, -1, 0, 0, 0, -1, 0, 0))
    if rng.random() < 0.1:
        start = array("q", numbers(rng, 9))
    for first_offsets in (False, True):
        first = rng.choice((0, 0, 0, number(rng, 9)))
        twins = []
        for twin in (_pure, _fast):
            state = array("q", start)
            made = twin.index_entries(batches, first, base_offset, interval, first_offsets, state)
            twins.append((*made, state))
        assert twins[0] == twins[1], "index_entries"
        seen[twins[0][3]] += 1


def compare_inside(
    rng: random.Random, data: bytes, batches: RecordBatches, index: int, seen: Counter[int]
) -> None:
    """Decode the payload of one entry, then other bytes in its name."""
    start, end = 61, 61 + rng.randrange(200)
    if 0 <= index < batches.count and rng.random() < 0.8:
        start = (batches.position(index) & 0xFFFFFFF) + 61
        end = start - 61 + batches.size_bytes(index)
    done = rng.choice((0, 0, 0, 1, number(rng)))
    most = rng.choice((1 << 40, 1 << 40, rng.randrange(-1, 4)))
    result = both("decode_records", data, start, end, batches, index, done, most)
    if result:
        seen[result[2]] += 1
        compare_records(rng, data, batches, result[0])
    inner = inner_set(rng)
    wrapper_offset = rng.choice((0, 1, 5, 1000, number(rng)))
    magic = rng.choice((0, 1, 1, 2))
    base, _, _, reason = both("inner_base", inner, 0, len(inner), wrapper_offset, magic)
    seen[reason] += 1
    result = both("decode_messages", inner, 0, len(inner), batches, index, base, most)
    if result:
        seen[result[2]] += 1
        compare_records(rng, inner, batches, result[0])
    # Columns that belong to other bytes: nothing outside `data` may be touched.
    if 0 <= index < batches.count:
        records, *_ = both("decode_records", data, start, end, batches, index, 0, 5)
        compare_records(rng, data[: rng.randrange(len(data) + 1)], batches, records)


@pytest.mark.fuzz
def test_twins_agree_on_files() -> None:
    seen: Counter[int] = Counter()
    for seed in range(SEED, SEED + COUNT):
        rng = random.Random(seed)
        try:
            compare_file(rng, log_file(rng), seen)
        except AssertionError as error:
            error.add_note(f"KDUMP_FUZZ_SEED={seed} KDUMP_FUZZ_COUNT=1")
            raise
    if COUNT >= 500:  # what is compared must be worth comparing
        missed = {reason for reason in reasons.NAMES if reason < 30} - set(seen)
        assert not missed, [reasons.NAMES[reason] for reason in missed]


def numbers(rng: random.Random, count: int) -> list[int]:
    return [number(rng, rng.choice((9, 9, 64))) for _ in range(count)]


@pytest.mark.fuzz
def test_twins_agree_on_files_of_07() -> None:
    framed = 0
    for seed in range(SEED, SEED + COUNT):
        rng = random.Random(seed)
        usual = rng.randrange(2)
        entries = [
            builders.pre08_message(
                rng.randbytes(rng.randrange(30)),
                magic=usual if rng.random() < 0.95 else rng.randrange(256),
                attributes=0 if rng.random() < 0.95 else rng.randrange(256),
                length=None if rng.random() < 0.97 else number(rng, 31),
                crc=None if rng.random() < 0.97 else 0,
            )
            for _ in range(rng.randrange(40))
        ]
        data = b"".join(entries)
        data = data[: rng.choice((len(data), rng.randrange(len(data) + 1)))]
        start, end = rng.choice((0, rng.randrange(-3, 99))), rng.choice((len(data), 77))
        base, segment = rng.choice((0, number(rng))), rng.choice((0, 5000, number(rng)))
        most = rng.choice((1 << 40, rng.randrange(-1, 9)))
        batches, records = both("walk_pre08", data, start, end, base, segment, most)
        assert len(batches) == len(records)
        framed += len(batches)
    assert framed > COUNT


@pytest.mark.fuzz
def test_twins_agree_on_columns_that_make_no_sense() -> None:
    """Columns can come from anywhere; neither twin may touch what is not there."""
    rng = random.Random(SEED)
    data = builders.batch([one_record(rng, delta) for delta in range(30)])
    for _ in range(COUNT):
        batches = RecordBatches.from_rows(
            c.BATCH_WIDTH,
            [(*numbers(rng, c.BATCH_WIDTH - 1), rng.randrange(-1, 4)) for _ in range(2)],
        )
        records = DecodedRecords.from_rows(
            c.RECORD_WIDTH,
            [
                (rng.choice((0, 0, 1, number(rng))), *numbers(rng, c.RECORD_WIDTH - 1))
                for _ in range(3)
            ],
        )
        both("format_batches", batches, None, json_form(b"", 0))
        both("decode_run", data, rng.choice((0, number(rng))), batches, 0, 1 << 40)
        both("decode_records", data, 61, len(data), batches, 1, number(rng), 1 << 40)
        inner = inner_set(rng)
        both("decode_messages", inner, 0, len(inner), batches, 1, number(rng), 1 << 40)
        compare_records(rng, data, batches, records)


# Any bytes ---------------------------------------------------------------------------------------

ANY = st.one_of(
    st.binary(max_size=300),
    st.integers(0, 1 << 32).map(lambda seed: log_file(random.Random(seed))),
)
HEADER = builders.batch([], records_count=3)


@pytest.mark.fuzz
@PROFILE
@given(ANY, st.integers(-2, 400), st.integers(-2, 400), INT64, st.booleans(), st.integers(-1, 9))
def test_walk_of_any_bytes(
    data: bytes, start: int, end: int, last_offset: int, check: bool, most: int
) -> None:
    batches, stop, _ = both("walk", data, start, end, 0, last_offset, check, most)
    assert sum(batches.sizes) == stop - max(0, min(start, end, len(data)))


@pytest.mark.fuzz
@PROFILE
@given(ANY, st.integers(-1, 400), st.integers(-1, 400), INT64, INT64, st.integers(-1, 5000))
def test_resync_of_any_bytes(
    data: bytes, start: int, behind: int, low: int, high: int, summed: int
) -> None:
    both("resync", data, start, len(data), behind, low, high, summed)


VARINTS = st.one_of(
    st.binary(max_size=12),
    st.integers(-(1 << 63), (1 << 63) - 1).map(builders.varint),
    st.integers(-40, 40).map(builders.varint),
    st.integers(0, 10).map(lambda size: b"\xff" * size),
)
FIELDS = st.lists(st.one_of(VARINTS, st.binary(max_size=10)), max_size=12).map(b"".join)
RECORDS = st.lists(
    st.one_of(
        FIELDS.map(lambda inside: builders.varint(len(inside)) + inside),
        FIELDS,
        st.builds(
            builders.record,
            st.integers(-(1 << 31), (1 << 31) - 1),
            INT64,
            st.none() | st.binary(max_size=40),
            st.none() | st.binary(max_size=40),
            st.lists(
                st.tuples(st.binary(max_size=9), st.none() | st.binary(max_size=9)), max_size=3
            ),
        ),
    ),
    max_size=5,
).map(b"".join)


@pytest.mark.fuzz
@PROFILE
@given(RECORDS, st.integers(-1, 6), INT64, INT64, INT64, st.booleans())
def test_decode_of_any_records(
    payload: bytes, count: int, offset: int, timestamp: int, maximum: int, append_time: bool
) -> None:
    data = builders.batch(
        [],
        payload=payload,
        records_count=count,
        base_offset=offset,
        base_timestamp=timestamp,
        max_timestamp=maximum,
        attributes=builders.LOG_APPEND_TIME if append_time else 0,
    )
    batches, _, _ = both("walk", data, 0, len(data), 0, -1, True, 1)
    both("decode_run", data, 0, batches, 0, 100)
    for most in (1, 100):
        records, _, _ = both("decode_records", data, 61, len(data), batches, 0, 0, most)
        compare_records(random.Random(0), data, batches, records)


@pytest.mark.fuzz
@PROFILE
@given(ANY, INT64, INT64, st.integers(-1, 2))
def test_inner_messages_of_any_bytes(data: bytes, offset: int, base: int, magic: int) -> None:
    batches, _, _ = _pure.walk(HEADER, 0, len(HEADER), 0, -1, True, 1)
    both("inner_base", data, 0, len(data), offset, magic)
    both("decode_messages", data, 0, len(data), batches, 0, base, 100)


@pytest.mark.fuzz
@PROFILE
@given(
    st.binary(max_size=60)
    | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass"))
    | st.text(max_size=30).map(lambda text: text.encode()[:-1])
    | st.lists(st.sampled_from(TEXTS), max_size=6).map(b"".join)
)
def test_text_of_any_bytes(value: bytes) -> None:
    data = builders.batch([builders.record(0, 0, value, value, [(value, value)])])
    batches, _, _ = both("walk", data, 0, len(data), 0, -1, True, 1)
    records, *_ = both("decode_run", data, 0, batches, 0, 1)
    for form in all_forms(b""):
        both("format_records", data, batches, records, None, form)


@pytest.mark.parametrize("unit", [*TEXTS[:-1], b"\0", b"a" * 7 + b"\xc3\xbc", b"\xf0\x9f\x98\x80"])
@pytest.mark.parametrize("lead", range(4))
def test_long_text_at_the_seams_of_pieces(unit: bytes, lead: int) -> None:
    value = b"x" * lead + unit * (400_000 // len(unit))
    data = builders.batch([builders.record(0, 0, value, b"", [(value, value)])])
    batches, records = _decoded(_pure, data)
    for form in all_forms(b""):
        both("format_records", data, batches, records, None, form)


def _decoded(kernel: ModuleType, data: bytes) -> tuple[Columns, Columns]:
    batches, _, _ = kernel.walk(data, 0, len(data), 0, -1, True, 1)
    records, *_ = kernel.decode_run(data, 0, batches, 0, 1 << 30)
    return batches, records


def test_constants_are_the_same() -> None:
    """The compiled twin spells out the numbers of reasons and columns; it must not drift."""
    # Nothing of it is visible from Python but the results, which the rounds above compare; the
    # number of columns is what they cannot see.
    assert _fast.walk(b"", 0, 0, 0, -1, True, 1)[0].width == c.BATCH_WIDTH
    empty = RecordBatches.empty(c.BATCH_WIDTH)
    assert _fast.decode_run(b"", 0, empty, 0, 1)[0].width == c.RECORD_WIDTH
