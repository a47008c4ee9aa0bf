"""pre08: rows and findings of `.kafka` files."""

import io
import random
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from builders import SNAPPY, gzip_bytes, pre08_message, pre08_wrapper
from damage import flip_bit, put
from long_runs import LONG

from kdump import kernels
from kdump.engine.dump import pre08
from kdump.engine.dump.pre08 import BATCHES, HEX, RECORDS, pre08_items
from kdump.findings.finding import Finding, Severity
from kdump.findings.rows import BatchRow, HexText, Place, RecordChunk, RecordRow
from kdump.output.delimited import DelimitedSink
from kdump.output.jsonl import JsonLines
from kdump.output.table import Table
from kdump.output.values import AUTO
from kdump.output.values import HEX as HEX_BYTES
from kdump.record.layout import PRE08_SMALLEST
from kdump.storage.source import Source

BASE = 5000
A, B = pre08_message(b"a", magic=0), pre08_message(b"bee")
W = pre08_wrapper([pre08_message(b"one"), pre08_message(b"two", magic=0)])
WHOLE = A + B + W


class Dump:
    """Dumps bytes as the segment 5000 of events-3."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / f"{BASE:020}.kafka"
        self.place = Place("events", 3, BASE, str(self.path))

    def items(
        self, data: bytes, mode: str = RECORDS, limit: int = 1 << 20, **span: int
    ) -> list[Any]:
        """Give the rows and findings."""
        self.path.write_bytes(data)
        with Source(self.path) as source:
            return list(pre08_items(source, self.place, mode=mode, limit=limit, **span))

    def values(self, data: bytes, **options: Any) -> list[bytes | None]:
        """Give the values of the records."""
        items = self.items(data, **options)
        return [item.value for item in items if isinstance(item, RecordRow)]

    def findings(self, data: bytes, **options: Any) -> list[tuple[Any, ...]]:
        """Give code, position and size of each finding."""
        items = self.items(data, **options)
        found = [item for item in items if isinstance(item, Finding)]
        assert all(item.topic == "events" and item.segment == BASE for item in found)
        return [(item.code, item.position, item.size_bytes) for item in found]


@pytest.fixture
def dump(tmp_path: Path) -> Dump:
    return Dump(tmp_path)


def test_records_of_0_7_are_dumped(dump: Dump) -> None:
    rows = dump.items(WHOLE)
    b, w, end = BASE + len(A), BASE + len(A) + len(B), BASE + len(WHOLE)
    assert [
        (row.position, row.magic, row.codec, row.offset, row.value, row.format, row.next_offset)
        for row in rows
    ] == [
        (0, 0, "none", BASE, b"a", "0.6", b),
        (len(A), 1, "none", b, b"bee", "0.7", w),
        (len(A) + len(B), 1, "gzip", w, b"one", "0.7", w),
        (len(A) + len(B), 0, "gzip", w, b"two", "0.6", end),
    ]
    for row in rows:
        assert row[:3] == ("events", 3, BASE)
        assert row[7:13] == (None,) * 6
        assert (row.transactional, row.control, row.key, row.headers) == (False, None, None, ())


def test_entries_of_0_7_are_dumped_as_batches(dump: Dump) -> None:
    rows = dump.items(WHOLE, BATCHES)
    assert all(isinstance(row, BatchRow) for row in rows)
    assert [
        (row.position, row.size_bytes, row.magic, row.codec, row.base_offset, row.records_count)
        for row in rows
    ] == [
        (0, len(A), 0, "none", BASE, 1),
        (len(A), len(B), 1, "none", BASE + len(A), 1),
        (len(A) + len(B), len(W), 1, "gzip", BASE + len(A) + len(B), None),
    ]
    assert all(row.crc_valid and row.last_offset == row.base_offset for row in rows)


def test_hex_of_0_7_is_annotated(dump: Dump) -> None:
    texts = dump.items(WHOLE, HEX)
    assert [text.position for text in texts] == [0, len(A), len(A) + len(B)]
    assert all(isinstance(text, HexText) for text in texts)
    assert any("bee" in line for line in texts[1].lines)


@pytest.mark.parametrize(
    ("span", "values"),
    [
        ({"from_offset": BASE + 1}, [b"bee", b"one", b"two"]),
        ({"from_offset": BASE + len(A)}, [b"bee", b"one", b"two"]),
        ({"to_offset": BASE + len(A)}, [b"a"]),
        ({"to_offset": BASE + len(A) + 1}, [b"a", b"bee"]),
        ({"from_offset": BASE + 1, "to_offset": BASE + len(A) + len(B)}, [b"bee"]),
        ({"from_offset": BASE + len(WHOLE)}, []),
        ({"to_offset": 0}, []),
    ],
)
def test_ranges_are_byte_positions(dump: Dump, span: dict[str, int], values: list[bytes]) -> None:
    assert dump.values(WHOLE, **span) == values


def test_damage_outside_the_range_is_not_reported(dump: Dump) -> None:
    broken = flip_bit(WHOLE, len(A) - 1, 0)
    assert dump.findings(broken) == [("crc-mismatch", 0, len(A))]
    assert dump.findings(broken, from_offset=BASE + len(A)) == []
    assert dump.findings(broken, from_offset=BASE + len(A) - 1) == [("crc-mismatch", 0, len(A))]
    last = flip_bit(WHOLE, len(WHOLE) - 1, 0)
    assert dump.findings(last, to_offset=BASE + len(A)) == []


@pytest.mark.parametrize("mode", [RECORDS, BATCHES, HEX])
def test_wrong_checksum_shows_the_header_and_continues(dump: Dump, mode: str) -> None:
    items = dump.items(flip_bit(WHOLE, len(A) + len(B) - 2, 4), mode)
    (found,) = (item for item in items if isinstance(item, Finding))
    assert (found.code, found.severity) == ("crc-mismatch", Severity.DAMAGE)
    assert (found.position, found.size_bytes, found.offset) == (len(A), len(B), BASE + len(A))
    assert found.next_offset == BASE + len(A) + len(B)
    assert found.actual != found.expected
    assert f"bit 4 of byte {len(A) + len(B) - 2}" in found.message
    assert isinstance(items[-1], (RecordRow, BatchRow, HexText))
    before = items[items.index(found) - 1]
    assert before.position == len(A)
    if mode == HEX:
        assert any("✗ computed" in line for line in before.lines)
    else:
        assert isinstance(before, BatchRow)
        assert not before.crc_valid


def test_flipped_bit_of_the_stored_checksum_is_reported(dump: Dump) -> None:
    (found,) = (i for i in dump.items(flip_bit(B, 7, 5)) if isinstance(i, Finding))
    assert "bit 5 of byte 7" in found.message


@pytest.mark.parametrize(
    ("tail", "code"),
    [
        (bytes(100), "preallocated-tail"),
        (b"\0\0\0\3abc", "batch-length"),
        (B[:-1], "torn-tail"),
        (B[:2], "torn-tail"),
        (b"\xff" * 50, "batch-length"),
    ],
)
@pytest.mark.parametrize("mode", [RECORDS, BATCHES, HEX])
def test_tails(dump: Dump, tail: bytes, code: str, mode: str) -> None:
    assert dump.findings(WHOLE + tail, mode=mode) == [(code, len(WHOLE), len(tail))]
    assert dump.values(WHOLE + tail) == [b"a", b"bee", b"one", b"two"]
    (found,) = (item for item in dump.items(WHOLE + tail, mode) if isinstance(item, Finding))
    assert found.expected == (PRE08_SMALLEST if code == "batch-length" else None)


def test_length_beyond_the_file_before_further_entries(dump: Dump) -> None:
    broken = put(WHOLE, len(A), b"\x20")
    assert dump.findings(broken) == [("batch-cut-short", len(A), len(B))]
    assert dump.values(broken) == [b"a", b"one", b"two"]


def test_unknown_magic_is_reported(dump: Dump) -> None:
    broken = put(WHOLE, len(A) + 4, b"\x09")
    assert dump.findings(broken) == [("magic-unknown", len(A), len(B))]
    assert dump.values(broken) == [b"a", b"one", b"two"]
    (found,) = (item for item in dump.items(broken) if isinstance(item, Finding))
    assert (found.expected, found.actual) == (None, 9)


@pytest.mark.parametrize(
    ("entry", "code", "values"),
    [
        (pre08_message(b"x", attributes=3), "codec-unknown", []),
        (pre08_message(b"no gzip at all", attributes=1), "records-undecodable", []),
        (
            pre08_message(gzip_bytes(B + A)[:-2], attributes=1),
            "records-undecodable",
            [b"bee", b"a"],
        ),
        (pre08_wrapper([B, bytes(4)]), "records-undecodable", [b"bee"]),
        (pre08_wrapper([B, A[:-1]]), "inner-cut-short", [b"bee"]),
        (pre08_wrapper([flip_bit(B, len(B) - 1, 0), A]), "inner-crc-mismatch", [b"bed", b"a"]),
        (pre08_wrapper([pre08_message(b"x", magic=4), A]), "magic-unknown", [b"x", b"a"]),
        (pre08_message(b"\xff" * 30, attributes=SNAPPY), "over-decompress-limit", []),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_entries_with_a_valid_checksum_are_checked(
    dump: Dump, entry: bytes, code: str, values: list[bytes]
) -> None:
    data = A + entry + B
    assert dump.findings(data) == [(code, len(A), len(entry))]
    assert dump.values(data) == [b"a", *values, b"bee"]
    assert not dump.findings(data, mode=BATCHES)
    assert not dump.findings(data, mode=HEX)


def test_empty_wrapper_is_sound(dump: Dump) -> None:
    data = A + pre08_wrapper([]) + B
    assert dump.findings(data) == []
    assert dump.values(data) == [b"a", b"bee"]


def test_decompressed_size_is_limited(dump: Dump) -> None:
    wrapper = pre08_wrapper([pre08_message(bytes(5000))])
    assert dump.findings(wrapper, limit=4000) == [("over-decompress-limit", 0, len(wrapper))]
    assert dump.findings(wrapper, limit=6000) == []


@pytest.mark.parametrize("mode", [RECORDS, BATCHES, HEX])
def test_oversize_entry_is_reported(dump: Dump, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdump.storage.pre08_records.BLOCK_BYTES", 1000)
    large = pre08_message(random.Random(1).randbytes(3000))
    items = dump.items(A + large + B, mode, 2000)
    codes = [item.code for item in items if isinstance(item, Finding)]
    assert codes == (["over-decompress-limit"] if mode == RECORDS else [])
    assert len(items) == 3


def test_file_without_a_number_counts_from_0(tmp_path: Path) -> None:
    path = tmp_path / "copy.kafka"
    path.write_bytes(A + B)
    with Source(path) as source:
        rows = list(
            pre08_items(source, Place(None, None, None, str(path)), mode=RECORDS, limit=100)
        )
    assert [row.offset for row in rows if isinstance(row, RecordRow)] == [0, len(A)]


def test_unreadable_range_is_reported(dump: Dump) -> None:
    dump.path.write_bytes(A + bytes(len(B)) + A)
    with Source(dump.path) as source:
        source.unreadable.append((len(A), len(A) + len(B)))
        items = list(pre08_items(source, dump.place, mode=RECORDS, limit=1000))
    assert [item.code for item in items if isinstance(item, Finding)] == ["unreadable"]


def test_modes_are_spelled_as_on_the_command_line() -> None:
    assert (pre08.RECORDS, pre08.BATCHES, pre08.HEX) == ("records", "batches", "hex")


@pytest.mark.fuzz
@pytest.mark.parametrize("mode", [RECORDS, BATCHES, HEX])
def test_random_damage_never_raises(dump: Dump, mode: str) -> None:
    rng = random.Random(mode)
    for _ in range(150):
        broken = bytearray(WHOLE * 3)
        for _ in range(rng.randint(1, 8)):
            broken[rng.randrange(len(broken))] = rng.choice((0, 1, 5, 0x7F, 0xFF))
        del broken[rng.randint(1, len(broken)) :]
        assert dump.items(bytes(broken), mode)


SINKS = {
    "jsonl": lambda write: JsonLines(write, AUTO),
    "csv": lambda write: DelimitedSink(write, HEX_BYTES, terminal=False),
    "table": lambda write: Table(write, io.StringIO(), AUTO),
}


@pytest.mark.parametrize("seed", range(400 if LONG else 12))
def test_chunks_equal_rows(
    dump: Dump, seed: int, kernel: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "walk_pre08", kernel.walk_pre08)
    rng = random.Random(seed)
    entries = [
        rng.choice((A, W, pre08_message(), pre08_message(attributes=4)))
        if rng.random() < 0.2
        else pre08_message(rng.randbytes(rng.randrange(70)), magic=seed % 2)
        for _ in range(rng.randrange(1, 120))
    ]
    data = b"".join(entries)
    for _ in range(rng.choice((0, 0, 1, 5))):
        data = flip_bit(data, rng.randrange(len(data)), rng.randrange(8))
    one_by_one = dump.items(data)
    in_chunks = dump.items(data, in_chunks=True)
    rows = [
        row
        for item in in_chunks
        for row in (item.iter_records() if isinstance(item, RecordChunk) else (item,))
    ]
    assert rows == one_by_one
    large = [
        pre08.in_chunk(item, dump.place) if isinstance(item, RecordRow) else item
        for item in one_by_one
    ]
    for make in SINKS.values():
        texts = []
        for items in (one_by_one, in_chunks, large):
            texts.append([])
            sink = make(texts[-1].append)
            for item in items:
                if not isinstance(item, Finding):
                    sink.write(item)
            sink.finish()
        assert len({b"".join(text) for text in texts}) == 1
