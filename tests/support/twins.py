"""Ask both kernels the same, and compare what they answer and write."""

from __future__ import annotations

import random
import sys
from array import array
from collections.abc import Callable
from zlib import crc32

import pytest
from random_logs import TEXTS, number

from kdump.kernels import _pure
from kdump.kernels import columns as c
from kdump.kernels import gather_buffers as g
from kdump.kernels.columns import Columns, DecodedRecords, RecordBatches
from kdump.kernels.gather_buffers import Copy, GatherBuffers
from kdump.kernels.partitioners import PARTITIONERS
from kdump.kernels.text_form import TABLE, Cell, TextForm
from kdump.output.text_forms import csv_form, json_form, kafka_form

_fast = pytest.importorskip("kdump.kernels._fast", reason="the compiled kernel is not built")


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
        into = GatherBuffers(**rooms, copies=copies)
        for again in (0, first):
            arguments = (into, data, batches, records, rows, again)
            seen.append(outcome(kernel.gather, *arguments))
        seen.append(filled_part(into))
    half = len(seen) // 2
    assert seen[:half] == seen[half:]


def some_copy(rng: random.Random) -> Copy:
    of_record = rng.random() < 0.5
    column = rng.randrange(c.RECORD_WIDTH if of_record else c.BATCH_WIDTH)
    return Copy(column, of_record, rng.choice((8, 16, 32, 64)))


ROOMS = ("rows", "headers", "keys", "values", "names", "contents")


def filled_part(into: GatherBuffers) -> list[object]:
    """What is gathered: counts, and each buffer as far as it is filled."""
    rows, headers = into.counts[g.N_ROWS], into.counts[g.N_HEADERS]
    found: list[object] = [list(into.counts)]
    for buffer, bits in enumerate(into.bits):
        count = headers if buffer in g.OF_HEADERS else rows
        data = into.buffers[buffer]
        if bits == 1:
            found.append([data[at >> 3] >> (at & 7) & 1 for at in range(count)])
        elif bits:
            found.append(data[: bits // 8 * (count + (buffer in g.ENDS))] if count else b"")
        else:
            ends = into.buffers[buffer - 1 if buffer == g.G_NAMES else buffer - 2]
            count = headers if buffer in (g.G_NAMES, g.G_CONTENTS) else rows
            end = int.from_bytes(ends[4 * count : 4 * count + 4], sys.byteorder) if count else 0
            found.append(data[:end])
    return found


def all_forms(head: bytes) -> list[TextForm]:
    """Every form that rows are written in, under every mode of bytes."""
    flags = (False, True)
    return [
        *(json_form(head, mode, marks=marks) for mode in range(4) for marks in flags),
        *(
            csv_form(head, mode, marks=marks, shown=shown, safe=safe)
            for mode in range(4)
            for marks in flags
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
    records = records.slice(0, records.count)
    for row in range(records.count if rng.random() < 0.5 else 0):
        records.mark(row, rng.choice((0, c.KEY_JSON, c.VALUE_JSON, c.KEY_JSON | c.VALUE_JSON)))
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
    own = random.Random(records.count)  # so that all else is drawn as without this
    others = records.slice(0, own.randrange(records.count + 1))
    ways = own.choice(((0, 0), (1, 1), (0, 1), (number(own, 3), number(own, 3))))
    both("same_records", data, records, ways[0], data, others, ways[1])
    compare_keyed(data, batches, records, rows)


def compare_keyed(
    data: bytes,
    batches: RecordBatches,
    records: DecodedRecords,
    rows: array[int] | None,
) -> None:
    """Lay records and keys out, sort what came of it, and count where keys belong."""
    rng = random.Random(crc32(data) ^ records.count)
    first, lies = rng.choice((0, 0, 1, -1)), rng.randrange(9)
    by, header = rng.randrange(4), rng.choice((None, b"", b"h", *TEXTS[:2]))
    by_offset, timed = rng.random() < 0.5, rng.random() < 0.5
    topic, partition = rng.choice((0, 7, 0xFFFFFFFF)), rng.choice((0, 9, 0xFFFFFFFF))
    laid_out = both(
        "lay_out_records", data, batches, records, rows, topic, partition, by, header, by_offset,
        timed,
    )  # fmt: skip
    starts = array("q", sorted(rng.getrandbits(32) for _ in range(rng.randrange(4))))
    block = bytes(laid_out[0] if laid_out else b"") + data[: rng.randrange(9)]
    both("sort_entries", block, starts)
    which = bytes(rng.sample(range(len(PARTITIONERS)), rng.randrange(len(PARTITIONERS) + 1)))
    count, room = rng.randrange(1, 9), rng.choice((0, 1, 2, 9)) * c.PLACED_WIDTH * len(which)
    most_keys, most_bytes = rng.choice((0, 1, 9)), rng.choice((-1, 3, 999))
    known = {rng.choice((-1, 5)): 0} if room else {}
    told = []
    for kernel in (_pure, _fast):
        producers, sums = dict(known), array("q", bytes(8 * room))
        slots: dict[bytes, int] = {}
        spans = array("q", bytes(32 * most_keys))
        told.append(
            [
                outcome(
                    kernel.count_placed, data, batches, records, rows, first, which, lies, count,
                    producers, sums, -2, 3,
                ),
                outcome(kernel.span_keys, data, records, rows, first, slots, spans, 0, most_bytes),
                outcome(kernel.lay_out_keys, slots, spans, topic, partition),
                list(producers.items()), sums, list(slots.items()), spans,
            ]
        )  # fmt: skip
    assert told[0] == told[1]
