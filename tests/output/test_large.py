"""Large records: written in pieces, with the same text as in one."""

import random
from array import array

import builders
import pytest

from kdump import kernels
from kdump.engine.kafka_text.log import ToolChunk
from kdump.findings.rows import BatchChunk, Place, RecordChunk
from kdump.output import large_records as large
from kdump.output.delimited import Delimited
from kdump.output.jsonl import JsonLines
from kdump.output.kafka_text import KafkaText
from kdump.output.values import BASE64, HEX, UTF8
from kdump.record import default

TEXTS = (
    b"", b"a", "süß €".encode(), "😀".encode(), b"\xff", b"\xe2\x82", b"\x80\x80\x80\x80\x80",
    b"\xed\xa0\x80", b"\xf0\x9f\x98", b'"\r\n,', b"\x1b[0m", "\u2028\u202e".encode(), b"\x7f\x00",
    b"\xf4\x90\x80\x80", b"0123456789abcdef" * 3,
)  # fmt: skip


def some_bytes(rng: random.Random, most: int) -> bytes:
    return b"".join(rng.choices(TEXTS, k=rng.randrange(1, most)))


@pytest.mark.parametrize("seed", range(20))
def test_cut_text_decodes_as_the_whole(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "_PIECE", 6)
    rng = random.Random(seed)
    for _ in range(100):
        data = some_bytes(rng, 30)
        pieces = list(large.cut_text(data))
        assert b"".join(pieces) == data
        assert max(map(len, pieces)) <= 6
        told = "".join(piece.decode("utf-8", "replace") for piece in pieces)
        assert told == data.decode("utf-8", "replace")
        for mode in (UTF8, HEX, BASE64):
            assert "".join(large.text_pieces(data, mode)) == large.bytes_text(data, mode)


def chunk_of(rng: random.Random, *, magic: int) -> tuple[RecordChunk, BatchChunk]:
    texts = [some_bytes(rng, 40) if rng.random() < 0.9 else None for _ in range(8)]
    names = [some_bytes(rng, 3) for _ in range(rng.randrange(9))]
    if magic == 2:
        log = builders.batch(
            [
                builders.record(0, key=texts[0], value=texts[1]),
                builders.record(1, key=texts[2], value=texts[3], headers=[(b"h", texts[4])]),
                builders.record(2, headers=[(name, rng.choice(texts)) for name in names]),
            ]
        )
    else:
        log = builders.message(0, texts[0], texts[1], magic=magic)
        log += builders.message(1, texts[2], texts[3], magic=magic)
    batches, _, _ = kernels.walk(log, 0, len(log), 0, -1, True, 9)
    records, _, _, reason = kernels.decode_run(log, 0, batches, 0, 100)
    assert reason == 0
    place = Place("t", 0, 0, "x")
    rows = array("q", range(batches.count))
    return RecordChunk(place, log, batches, records), BatchChunk(place, batches, rows)


def texts_of(records: RecordChunk, batches: BatchChunk, mode: int) -> list[bytes]:
    told = []
    for terminal in (False, True):
        out: list[bytes] = []
        Delimited(out.append, mode, terminal=terminal).write(records)
        told.append(b"".join(out))
        out = []
        text = KafkaText(out.append, lambda line: None, terminal=terminal)
        text.write(ToolChunk(batches, records))
        told.append(b"".join(out))
    out = []
    for record in records.iter_records():
        JsonLines(out.append, mode).write(record)
        row = record._replace(format="0.7", next_offset=7)
        JsonLines(out.append, mode).write(row)
        Delimited(out.append, mode, terminal=False).write(row)
    return [*told, b"".join(out)]


@pytest.mark.parametrize("magic", range(3))
@pytest.mark.parametrize("mode", range(4))
def test_large_records_read_as_small_ones(
    mode: int, magic: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(40):
        chunks = chunk_of(random.Random(seed), magic=magic)
        whole = texts_of(*chunks, mode)
        with monkeypatch.context() as patch:
            few = seed % 3 * 20
            patch.setattr(large, "LARGE_BYTES", few)
            patch.setattr(large, "MANY_HEADERS", 3)
            patch.setattr(large, "_PIECE", 6)
            patch.setattr(large, "_GATHERED", few)
            patch.setattr(default, "_MANY_HEADERS", 2)
            assert texts_of(*chunks, mode) == whole


def test_many_headers_are_a_sequence_like_a_few() -> None:
    wanted = [(b"k%d" % number, None if number % 3 else b"v" * number) for number in range(600)]
    log = builders.batch([builders.record(headers=wanted)])
    batches, _, _ = kernels.walk(log, 0, len(log), 0, -1, True, 9)
    records, _, _, _ = kernels.decode_run(log, 0, batches, 0, 100)
    (record,) = RecordChunk(Place("t", 0, 0, "x"), log, batches, records).iter_records()
    headers = record.headers
    assert isinstance(headers, default.Headers)
    assert len(headers) == 600
    assert headers == wanted
    assert list(headers) == list(headers) == wanted
    assert headers[7] == wanted[7]
    assert headers[-1] == wanted[-1]
    assert headers[5:9] == tuple(wanted[5:9])
    with pytest.raises(IndexError):
        headers[600]
