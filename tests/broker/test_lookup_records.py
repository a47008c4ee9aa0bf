"""What a broker's lookups read of an entry, and what they fail at."""

import struct
from pathlib import Path

import pytest
from builders import batch, gzip_bytes, message, record, wrapper
from each import each

from kdump.broker.log_reader import CorruptRecordError, RefusalError, UnknowableError
from kdump.broker.lookup_records import (
    BrokerError,
    convert_errors,
    headers_of,
    raise_undecodable,
    records_at,
)
from kdump.broker.segment import Segment
from kdump.broker.settings import Settings
from kdump.errors import PathError
from kdump.kernels import reasons
from kdump.storage.names import Kind

TIME = 1_700_000_000_000
ONE = batch([record()])


def segment_of(
    path: Path, *entries: bytes, limit: int = 1 << 20, part: tuple[int, int] | None = None
) -> Segment:
    log = path / f"{0:020}.log"
    log.write_bytes(b"".join(entries))
    return Segment(0, {Kind.LOG: str(log)}, (4, 1), Settings(), limit=limit, part=part)


def test_answer_is_the_error_of_the_read() -> None:
    for error, words in (
        (RefusalError("so"), "so, in a/b"),
        (CorruptRecordError("so"), "so, in a/b"),
        (UnknowableError("it"), "cannot predict what a broker does with it, in a/b"),
    ):
        with pytest.raises(BrokerError) as raised, convert_errors("a/b"):
            raise error
        assert str(raised.value) == words
    with pytest.raises(ValueError, match="no"), convert_errors("a/b"):
        raise ValueError("no")


def test_harmless_reasons() -> None:
    for reason in (reasons.END, reasons.FULL, reasons.INNER_CUT_SHORT):
        raise_undecodable("a/b", 5, reason)
    words = reasons.NAMES[reasons.CODEC_FAILED]
    with pytest.raises(BrokerError) as raised:
        raise_undecodable("a/b", 5, reasons.CODEC_FAILED)
    assert str(raised.value) == f"a/b: the entry at 5 cannot be decoded ({words})"


def pack(*records: bytes, **fields: object) -> bytes:
    return batch(records, attributes=1, compress=gzip_bytes, **fields)  # type: ignore[arg-type]


RECORDS = [record(at, 10 * at) for at in range(3)]
PAIRS = [(at, TIME + 10 * at) for at in range(3)]
INNER = [message(at, timestamp=TIME + 10 * at) for at in range(3)]
OLD = [message(at, magic=0) for at in range(3)]
BAD = b"\x7f"


@each(
    ("entry", "found", "streamed"),
    [
        (batch(RECORDS), (3, False), (3, False)),
        (pack(*RECORDS), (3, False), (3, False)),
        (batch([*RECORDS, BAD], records_count=4), (3, True), (3, True)),
        (pack(*RECORDS, BAD, records_count=4), (0, True), (3, True)),
        (batch([*RECORDS, BAD], records_count=3), (2, True), (2, True)),
        (pack(*RECORDS, BAD, records_count=3), (0, True), (2, True)),
        (batch(RECORDS, records_count=2), (1, True), (1, True)),
        (pack(*RECORDS, records_count=2), (0, True), (1, True)),
        (batch(RECORDS, records_count=0), (0, False), (0, False)),
        (batch(payload=b"no gzip", attributes=1, records_count=1), (0, True), (0, True)),
        (wrapper(INNER, 2), (3, False), (3, False)),
        (wrapper([*INNER, wrapper(INNER[:1], 3)], 3), (3, True), (3, True)),
        (wrapper(INNER, 2, compress=lambda plain: plain), (0, True), (0, True)),
        (message(2, timestamp=TIME + 20), (-1, False), (-1, False)),
    ],
)
def test_records_of_an_entry(
    entry: bytes, found: tuple[int, bool], streamed: tuple[int, bool], tmp_path: Path
) -> None:
    """All of a compressed one is read first, unless it is streamed; the last only if it is so."""
    segment = segment_of(tmp_path, ONE, entry, ONE)
    for streaming, (count, fails) in ((False, found), (True, streamed)):
        records = records_at(segment, len(ONE), streaming=streaming)
        wanted = PAIRS[2:] if count < 0 else PAIRS[:count]
        assert [next(records) for _ in wanted] == wanted
        if fails:
            with pytest.raises(BrokerError, match=rf"the entry at {len(ONE)} cannot be decoded"):
                next(records)
        else:
            assert list(records) == []
    segment.close()


def test_old_messages_in_a_wrapper_have_no_timestamps(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, wrapper(OLD, 2, magic=0))
    assert [*records_at(segment, 0)] == [(0, -1), (1, -1), (2, -1)]


def test_entry_above_the_limit(tmp_path: Path) -> None:
    large = batch([record(value=bytes(1 << 20))])
    segment = segment_of(tmp_path, ONE, large, limit=len(large) - 1)
    text = f"the entry at {len(ONE)} is larger than the limit of {len(large) - 1} bytes"
    with pytest.raises(PathError, match=text):
        next(records_at(segment, len(ONE)))
    segment = segment_of(tmp_path, ONE, large, limit=len(large))
    assert [*records_at(segment, len(ONE))] == PAIRS[:1]


def test_headers_from_a_position(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, ONE, batch(RECORDS, base_offset=1), struct.pack(">qi", 4, 5))
    assert [rows.count for rows in headers_of(segment, 0)] == [2]
    assert [rows.base_offset(0) for rows in headers_of(segment, len(ONE))] == [1]
    segment = segment_of(tmp_path, ONE, struct.pack(">qi", 4, 5), bytes(6))
    headers = headers_of(segment, 0)
    assert next(headers).count == 1
    with pytest.raises(BrokerError, match=r"record size 5 .*, in .*\.log"):
        next(headers)
    segment.close()


def test_headers_from_before_a_part(tmp_path: Path) -> None:
    """There is no entry to be read where less than a magic is left."""
    size = len(ONE)
    segment = segment_of(tmp_path, ONE, ONE, part=(size, size + 16))
    assert [*headers_of(segment, size - 1)] == []
    segment = segment_of(tmp_path, ONE, ONE, part=(size, size + 17))
    with pytest.raises(BrokerError, match="negative position in "):
        next(headers_of(segment, size - 1))
    segment = segment_of(tmp_path, ONE, ONE, part=(size, 2 * size))
    assert [rows.position(0) for rows in headers_of(segment, size)] == [size]
