"""Chunks whose keys and values are decoded, or hidden, by a decoder made for the test."""

import json
import re
from array import array

import builders
import pytest
from chunks import record_chunk

from kdump.engine.reading.filters import Filters
from kdump.findings.rows import JsonText, Place, RecordChunk
from kdump.values import decoded_values
from kdump.values.decoded_values import Values
from kdump.values.decoder import Decoder

PLACE = Place("orders", 0, 0, "orders-0/00000000000000000000.log")
Pair = tuple[bytes | None, bytes | None]


def read(data: bytes) -> object:
    """Read JSON; what is not an object stays bytes."""
    try:
        found = json.loads(data)
    except ValueError:
        return data
    return found if isinstance(found, dict) else data


def read_value(key: object, data: bytes) -> object:
    """Read a value, and put the key into it."""
    found = read(data)
    return {**found, "key": key} if isinstance(found, dict) and isinstance(key, dict) else found


def redact(data: bytes) -> bytes | None:
    return data.replace(b"hush", b"****") if b"hush" in data else None


DECODER = Decoder(read, read_value, lambda found, _: found, redact=redact)
PAIRS: list[Pair] = [
    (b'{"a": 1}', b'{"b":2}'),
    (b"plain", b'{ "b":3}'),
    (b'{"a":1}', b"hush!"),
    (None, '{"b":"ü"}'.encode()),
    (b'{"a":4}', None),
    (b'{"a":5}', b'{"b":"hush"}'),
]
SHOWN: list[Pair] = [
    (b'{"a":1}', b'{"b":2,"key":{"a":1}}'),
    (b"plain", b'{"b":3}'),
    (b'{"a":1}', b"****!"),
    (None, '{"b":"ü"}'.encode()),
    (b'{"a":4}', None),
    (b'{"a":5}', b'{"b":"hush","key":{"a":5}}'),  # what a decoder returns is masked by it, or not
]


def chunk_of(pairs: list[Pair], **more: int) -> RecordChunk:
    records = [builders.record(n, 0, *pair, [(b"h", b"%d" % n)]) for n, pair in enumerate(pairs)]
    return record_chunk(builders.batch(records, **more), PLACE)


def values_by(decoder: Decoder | None, *, secrets: bool = False) -> Values:
    return Values(decoder, None if secrets else redact, secrets=secrets)


def rows_of(values: Values, chunk: RecordChunk, **filters: object) -> list[tuple[int, *Pair]]:
    """Return offset, key and value of the records that are shown; headers are still theirs."""
    rows = []
    asked = Filters(**filters)  # type: ignore[arg-type]
    for part in values.chunks(chunk, asked.content):
        for row in part.iter_records():
            assert row.headers == ((b"h", b"%d" % row.offset),)
            rows.append((row.offset, row.key, row.value))
            for text in (row.key, row.value):
                assert isinstance(text, JsonText) is (text or b"").startswith(b"{")
    return rows


def numbered(pairs: list[Pair], *numbers: int) -> list[tuple[int, *Pair]]:
    return [(number, *pairs[number]) for number in numbers or range(len(pairs))]


@pytest.mark.parametrize(
    ("first", "most", "sizes"), [(1, 1, [1] * 6), (1, 3, [1, 2, 3]), (2, 3, [2, 3, 1]), (9, 9, [6])]
)
def test_texts_replace_bytes(
    first: int, most: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoded_values, "_FIRST_RECORDS", first)
    monkeypatch.setattr(decoded_values, "_MOST_RECORDS", most)
    values = values_by(DECODER)
    assert [len(part) for part in values.chunks(chunk_of(PAIRS))] == sizes
    assert rows_of(values, chunk_of(PAIRS)) == numbered(SHOWN)
    chunk = chunk_of(PAIRS)
    chunk.rows = array("q", (1, 2, 4))
    assert rows_of(values, chunk) == numbered(SHOWN, 1, 2, 4)
    assert rows_of(values_by(DECODER, secrets=True), chunk_of(PAIRS))[2][2] == b"hush!"


def test_large_texts_have_their_own_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoded_values, "_MOST_TEXT", 20)
    sizes = [len(part) for part in values_by(DECODER).chunks(chunk_of(PAIRS))]
    assert sizes == [1, 3, 2]


def test_filters_see_bytes_and_text_with_secrets_hidden() -> None:
    values, chunk = values_by(DECODER), chunk_of(PAIRS)
    assert rows_of(values, chunk, key=b'{"a": 1}') == numbered(SHOWN, 0)
    assert rows_of(values, chunk, key=b'{"a":1}') == numbered(SHOWN, 0, 2)
    assert rows_of(values, chunk, grep=re.compile(b'"key":')) == numbered(SHOWN, 0, 5)
    assert rows_of(values, chunk, grep=re.compile(b"{ ")) == numbered(SHOWN, 1)
    assert rows_of(values, chunk, key=b"plain", grep=re.compile(b"2")) == []
    hush = re.compile(b"hush!|[*]")
    assert rows_of(values, chunk, grep=hush) == numbered(SHOWN, 2, 5)
    assert rows_of(values, chunk, grep=re.compile(b"hush!")) == []
    both = values_by(DECODER, secrets=True)
    assert rows_of(both, chunk, grep=re.compile(b"hush!"))[0][2] == b"hush!"


def test_bytes_with_secrets_hidden() -> None:
    values, chunk = values_by(None), chunk_of(PAIRS)
    found = [(row.key, row.value) for part in values.chunks(chunk) for row in part.iter_records()]
    assert found == [(key, redact(value or b"") or value) for key, value in PAIRS]
    grep = Filters(grep=re.compile(b"hush"))
    chunk.rows = grep.select_records(chunk.data, chunk.records, None)
    assert len(chunk) == 2
    assert [*values.chunks(chunk, grep.content)] == []


def test_control_records_are_not_decoded_unless_the_decoder_reads_them() -> None:
    chunk = record_chunk(builders.marker(0), PLACE)
    (row,) = (row for part in values_by(DECODER).chunks(chunk) for row in part.iter_records())
    assert row.control is not None
    assert row.key == b"\0\0\0\0"
    reading = DECODER._replace(read_control=lambda key, value: ({"k": key is None}, None))
    (part,) = values_by(reading).chunks(record_chunk(builders.marker(0), PLACE))
    (row,) = part.iter_records()
    assert row.control == {"type": "ABORT", "version": 0, "coordinator_epoch": 0}
    assert row.key == b'{"k":false}'
    assert part.controls == [row.control]
