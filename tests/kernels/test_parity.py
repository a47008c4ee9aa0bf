"""The twins give the same answers, on sound, broken and arbitrary bytes.

The pure kernel is the specification; each function of the compiled one is held against it. The
short profile runs every time. KDUMP_FUZZ=long makes it a hundred times longer; KDUMP_FUZZ_COUNT and
KDUMP_FUZZ_SEED set the number of rounds and where they start. A round that fails names its seed.
"""

from __future__ import annotations

import inspect
import random
from array import array
from collections import Counter
from struct import pack

import builders
import pytest
from long_runs import SEED, how_many
from random_logs import inner_set, log_file, number, one_record
from twins import _fast, both, compare_records, some_rows

from kdump.kernels import _pure, reasons
from kdump.kernels import columns as c
from kdump.kernels.columns import DecodedRecords, RecordBatches
from kdump.output.text_forms import json_form, kafka_form

COUNT = how_many(400, 300_000)
RARE = (619, 729)  # a header's key and its value, that are longer than their record
FUNCTIONS = _pure.__all__


def test_kernels_have_the_same_functions_and_arguments() -> None:
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
    compare_index_sectors(rng, data)
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


def compare_index_sectors(rng: random.Random, data: bytes) -> None:
    """Look for sectors of an index in any bytes, and in slots that mostly rise."""
    slots = sorted(rng.randrange(1 << rng.choice((8, 20, 31))) for _ in range(rng.randrange(40)))
    page = b"".join(pack(">II", slot, slot + 1) for slot in slots)
    mixed = data[: rng.randrange(99)] + page + bytes(rng.randrange(99)) + data[:99]
    both("index_sectors", mixed, rng.randrange(-2, 200), rng.choice((24, 32, 64, 512)))


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
def test_kernels_agree_on_files() -> None:
    seen: Counter[int] = Counter()
    for seed in (*range(SEED, SEED + COUNT), *RARE):
        rng = random.Random(seed)
        try:
            compare_file(rng, log_file(rng), seen)
        except AssertionError as error:
            error.add_note(f"KDUMP_FUZZ_SEED={seed} KDUMP_FUZZ_COUNT=1")
            raise
    if COUNT >= 400:  # what is compared must be worth comparing
        missed = {reason for reason in reasons.NAMES if reason < 30} - set(seen)
        assert not missed, [reasons.NAMES[reason] for reason in missed]


def numbers(rng: random.Random, count: int) -> list[int]:
    return [number(rng, rng.choice((9, 9, 64))) for _ in range(count)]


@pytest.mark.fuzz
def test_kernels_agree_on_files_of_0_7() -> None:
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
def test_kernels_agree_on_nonsense_columns() -> None:
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


def test_kernels_have_the_same_constants() -> None:
    """The compiled twin spells out the numbers of reasons and columns; it must not drift."""
    # Nothing of it is visible from Python but the results, which the rounds above compare; the
    # number of columns is what they cannot see.
    assert _fast.walk(b"", 0, 0, 0, -1, True, 1)[0].width == c.BATCH_WIDTH
    empty = RecordBatches.empty(c.BATCH_WIDTH)
    assert _fast.decode_run(b"", 0, empty, 0, 1)[0].width == c.RECORD_WIDTH
