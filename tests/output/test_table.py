"""What a person sees: columns that line up, four different nothings, nothing hostile."""

import io
import random
from array import array
from types import ModuleType

import builders
import pytest
from chunks import PLACE, batch_chunk, one, record_chunk
from declared_rows import make_row
from each import each
from long_runs import LONG

from kdump import kernels
from kdump.findings.rows import HexText, Place, RecordChunk, Row
from kdump.output.amounts import time_text
from kdump.output.column_widths import Column, cut, fit, fit_text, pad, width_of
from kdump.output.table import Table, _without_echoes
from kdump.output.values import AUTO


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")


def drawn(*items: object, among_records: bool = False, wide: bool = False) -> list[str]:
    pieces: list[bytes] = []
    table = Table(
        pieces.append, io.StringIO(), AUTO, headers_among_records=among_records, wide=wide
    )
    for item in items:
        table.write(item)  # type: ignore[arg-type]
    table.finish()
    return b"".join(pieces).decode().splitlines()


def test_records() -> None:
    records = [
        builders.record(0, 0, b"first", b'{"id":1}'),
        builders.record(1, 5, None, b""),
        builders.record(2, 10, b"", None, [(b"h", b"1"), (b"h", b"2")]),
        builders.record(3, 15, b"long", b"x" * 200),
    ]
    assert drawn(record_chunk(builders.batch(records))) == [
        "orders-7 · segment 0",
        "offset  time                      note  key    value",
        "────────────────────────────────────────────────────────────────────────────────",
        '     0  2023-11-14T22:13:20.000Z        first  {"id":1}',
        "     1  2023-11-14T22:13:20.005Z        ∅      ''",
        "     2  2023-11-14T22:13:20.010Z  2h    ''     ∅",
        "     3  2023-11-14T22:13:20.015Z        long   xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…",
    ]


def test_batches_at_eighty_columns() -> None:
    data = builders.batch([builders.record(n) for n in range(3)], base_offset=10)
    data += builders.batch(base_offset=13, crc=1, attributes=0x10, producer_id=4, producer_epoch=1)
    data += builders.message(14, magic=0)
    assert drawn(batch_chunk(data)) == [
        "orders-7 · segment 0",
        "offsets position size count codec v crc producer note latest time",
        "──────────────────────────────────────────────────────────────────────────────",
        "  10–12        0  106     3 none  2 ok                2023-11-14T22:13:20.000Z",
        "     13      106   76     1 none  2 ✗   4/1      txn  2023-11-14T22:13:20.000Z",
        "     14      182   34     1 none  0 ok  -             -",
    ]


def test_wrapper_row_hides_its_messages() -> None:
    inner = [builders.message(0), builders.message(1)]
    cells = drawn(batch_chunk(builders.wrapper(inner, 15)))[-1].split()
    assert (cells[0], cells[3], cells[4]) == ("?–15", "?", "gzip")


def test_unreadable_batch_among_records() -> None:
    lines = drawn(one(), batch_chunk(builders.batch(crc=1)), among_records=True)
    assert "✗ 1 records in 76 bytes at positio…" in lines[-1]
    assert len(lines) == 5  # no second heading


KEY = '{"type":"share_group_metadata","version":3,"data":{"group":"a\\u001b","n":null,"id":7}}'
VALUE = (
    '{"type":"share_group_metadata","version":1,"data":{"ok":true,"list":[1]},"trailing":"AA=="}'
)
UNKNOWN = '{"type":"unknown","type_id":9,"problem":"unknown-type","bytes":"AA=="}'


@each(
    ("key", "value", "cells"),
    [
        (KEY, VALUE, r"a\x1b  7  share_metadata ok=yes list=[1…"),
        (KEY, None, r"a\x1b  7  share_metadata ∅"),
        (None, VALUE, "∅    share_metadata ok=yes list=[1] tra…"),
        (UNKNOWN, UNKNOWN, "9 unknown-type AA==  unknown type_id=9 …"),
        ('["type"]', '{"type":1}', '["type"]  {"type":1}'),
        ('{"type":"x","data":[]}', None, "[]   x ∅"),
        ('{"type":"x","data":{}}', "{}", "''   {}"),
        (
            '{"schema":{"id":7},"data":"k\\n"}',
            '{"schema":{"id":8},"data":{"a":1}}',
            r'k\n  {"a":1}',
        ),
        (None, '{"base64":"AA==","why":"truncated"}', "∅    ✗ truncated"),
        (None, '{"schema":{},"other":1}', '∅    {"schema":{},"other":1}'),
    ],
)
def test_decoded_keys_show_fields_and_values_their_type(
    key: str | None, value: str | None, cells: str
) -> None:
    chunk = record_chunk(builders.batch([builders.record(0, 0, None, None)]))
    texts = [None if text is None else text.encode() for text in (key, value)]
    at = chunk.records.put_keys([0], texts[:1], len(chunk.data))
    chunk.records.put_values([0], texts[1:], at, is_json=True)
    chunk.data = bytes(chunk.data) + b"".join(text or b"" for text in texts)
    assert drawn(chunk)[-1].partition("Z        ")[2] == cells
    assert (key or "∅") in drawn(chunk, wide=True)[-1]


def test_control_record() -> None:
    chunk = record_chunk(builders.batch([builders.record()], producer_id=5, producer_epoch=2))
    chunk.controls = [{"type": "ABORT", "version": 0, "coordinator_epoch": 1}]
    assert drawn(chunk)[-1].split()[2:] == [
        "ctl",
        "ABORT",
        "producer",
        "5/2",
        "coordinator_epoch=1",
    ]


def test_magic_0_has_no_timestamp() -> None:
    assert drawn(record_chunk(builders.message(0, magic=0)))[-1].split()[1] == "-"


def test_value_resembling_a_mark_is_quoted() -> None:
    assert drawn(one("∅".encode(), b"''"))[-1].endswith('"∅"  "\'\'"')


def test_hostile_bytes_are_escaped() -> None:
    line = drawn(one(b"\x1b]0;x\x07", "[red]\u202e\x9b".encode()))[-1]
    assert "\\x1b]0;x\\x07" in line
    assert "[red]\\u202e\\x9b" in line


def test_colors_only_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in "".join(drawn(one(None)))
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[2m∅\x1b[0m" in "".join(drawn(one(None)))
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in "".join(drawn(one(None)))


def test_repeated_names_are_omitted() -> None:
    again = record_chunk(builders.batch(), Place("orders", 7, 9, ""))
    lines = drawn(one(), again)
    assert sum("offset" in line for line in lines) == 1
    assert "orders-7 · segment 9" in lines


def test_entries_are_as_wide_as_the_widest() -> None:
    rows = [
        make_row("checkpoint-offset", file="f", topic=topic, partition=0, offset=5)
        for topic in ("a", "much-longer")
    ]
    assert drawn(*rows) == [
        "f · checkpoint-offset",
        "topic        partition  offset",
        "──────────────────────────────",
        "a                    0       5",
        "much-longer          0       5",
    ]


def test_long_names_use_two_lines() -> None:
    _, upper, lower, *_ = drawn(make_row("aborted-transaction"))
    assert (upper.split()[-2:], lower.split()[-2:]) == (["last", "stable"], ["offset", "offset"])


def test_hex_lines_are_escaped() -> None:
    assert drawn(HexText(PLACE, 0, ("+0  00", "  \x1b"))) == [
        "orders-7 · segment 0",
        "+0  00",
        "  \\x1b",
    ]


def test_widths_count_cells() -> None:
    assert width_of("鍵🔑e\u0301") == 5
    assert pad("鍵", 4) == "鍵  "
    assert cut("鍵鍵鍵", 5) == "鍵鍵…"
    assert cut("鍵鍵", 4) == "鍵鍵"
    assert fit_text("abcdef", 4) == "abc…"
    assert fit_text("ab", 4, right=True) == "  ab"


def test_columns_of_high_rank_are_dropped_first() -> None:
    columns = [Column("a"), Column("b", rank=1), Column("c", rank=2)]
    assert fit(columns, [("x" * 10, "y" * 10, "z" * 10)], 22).shown == (0, 1)


@each(
    ("timestamp_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "-1"),
        (-2, "1969-12-31T23:59:59.998Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, "253402300800000"),
        (-(1 << 63), "-9223372036854775808"),
    ],
)
def test_times(timestamp_ms: int, text: str) -> None:
    assert time_text(timestamp_ms) == text


def entry(offset: int, file: str = "f", **fields: object) -> Row:
    return make_row(
        "checkpoint-offset", **{"file": file, **fields, "partition": 0, "offset": offset}
    )


def test_markup_in_a_name_is_shown_as_text() -> None:
    assert drawn(entry(1, topic="[red]a[/red] :smile:"))[-1].startswith("[red]a[/red] :smile: ")


def test_long_name_wraps_completely() -> None:
    name = "n" * 100
    lines = drawn(entry(1, topic=name))
    assert max(map(len, lines)) <= 80
    assert "".join(line.split()[0] for line in lines[3:]) == name


def test_rows_are_buffered_by_page() -> None:
    pieces: list[bytes] = []
    table = Table(pieces.append, io.StringIO(), AUTO)
    for number in range(2500):
        table.write(entry(number, topic="t"))
    assert len(b"".join(pieces).splitlines()) == 2 * 1003 + 1
    table.finish()
    lines = b"".join(pieces).decode().splitlines()
    assert [int(line.split()[2]) for line in lines if line.startswith("t  ")] == list(range(2500))


def test_index_entries_are_a_stream() -> None:
    rows = [
        make_row("offset-index-entry", topic="t", partition=0, segment=0, slot=slot)
        for slot in range(2500)
    ]
    assert sum("slot" in line for line in drawn(*rows)) == 1


TEXTS = (
    None,
    b"",
    b"?",
    b"''",
    b"-",
    b"a b  ",
    "é鍵🔑".encode(),
    b"\xff\x80",
    b"\x1b\t\x7f",
    b"plain",
)


def some_chunk(rng: random.Random, place: Place) -> RecordChunk:
    """Make records of every kind, few of them out of the ordinary, or all."""
    odd = rng.choice((0.0, 0.02, 0.5))

    def text() -> bytes | None:
        if rng.random() < odd:
            return rng.choice(TEXTS)
        return b"x" * rng.randrange(1, rng.choice((6, 90)))

    data = b""
    for offset in range(0, rng.randrange(1, 400), 20):
        records = [
            builders.record(n, n, text(), text(), [(b"h", b"")] * (rng.random() < odd))
            for n in range(20)
        ]
        first = 10 ** rng.choice((0, 0, 6)) + offset if rng.random() < odd else offset
        attributes = builders.TRANSACTIONAL * (rng.random() < odd)
        time = rng.choice((-1, 0, 1 << 60)) if rng.random() < odd else 1_700_000_000_000
        data += builders.batch(
            records, base_offset=first, attributes=attributes, base_timestamp=time
        )
        if rng.random() < odd:
            data += builders.message(offset, text(), text(), magic=0)
        if rng.random() < odd:
            data += builders.marker(0, base_offset=offset)
    chunk = record_chunk(data, place)
    if rng.random() < 0.3:
        chunk.rows = array("q", sorted(rng.sample(range(len(chunk)), len(chunk) // 2)))
    return chunk


@pytest.mark.parametrize("seed", range(1500 if LONG else 40))
def test_kernel_writes_the_drawn_table(
    seed: int, kernel: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    monkeypatch.setenv("COLUMNS", str(rng.choice((40, 60, 80, 200))))
    if rng.random() < 0.3:
        monkeypatch.setenv("FORCE_COLOR", "1")
    mode, wide = rng.randrange(4), rng.random() < 0.3
    places = [Place("t", number // 2, 0, "") for number in range(4)]
    chunks = [some_chunk(rng, place) for place in places]

    def drawn_by(write: object) -> list[bytes]:
        monkeypatch.setattr(kernels, "format_records", write)
        pieces: list[bytes] = []
        table = Table(pieces.append, io.StringIO(), mode, wide=wide)
        for chunk in chunks:
            table.write(chunk)
        table.finish()
        return b"".join(pieces).splitlines()

    assert drawn_by(kernel.format_records) == drawn_by(lambda *_: 0)


def test_what_says_nothing_new_is_left_out() -> None:
    """A long reason that is that of the row above, and a column of dashes."""
    reason = "a checksum mismatch at position 1,526: recovery truncates the segment there"
    columns: tuple[Column[Row], ...] = (Column("file"), Column("why", echoes=True))
    cells = [("a", reason), ("b", reason), ("c", "short"), ("c", "short")]
    assert _without_echoes(columns, cells) == [cells[0], ("b", "as above"), *cells[2:]]
    columns = (Column("group"), Column("partition", continues=True), Column("offset"))
    copies = [("1", "a-0", "3"), ("", "a-0", "9"), ("", "a-1", "4"), ("2", "a-1", "7")]
    once = [copies[0], ("", "", "9"), copies[2], copies[3]]
    assert _without_echoes(columns, copies) == once
    members = {"topic_id": None, "partitions_count": 1}
    topics = [make_row("topic", topic=name, deleted_ms=None, **members) for name in "ab"]
    assert "deleted" not in "\n".join(drawn(*topics))
    topics += [make_row("topic", topic="c", deleted_ms=1, **members)]
    assert "deleted" in "\n".join(drawn(*topics))
