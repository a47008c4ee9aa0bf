"""hexdump: every field of an entry with its bytes, and as far as it goes in a broken one."""

import random
import time

import lz4.frame
import pytest
import snappy
import zstandard
from builders import (
    CONTROL,
    DELETE_HORIZON,
    GZIP,
    LOG_APPEND_TIME,
    LZ4,
    SNAPPY,
    TRANSACTIONAL,
    ZSTD,
    batch,
    gzip_bytes,
    marker,
    message,
    pre08_message,
    pre08_wrapper,
    record,
    with_right_crc,
    wrapper,
)
from damage import flip_bit, put
from each import each

from kdump import kernels
from kdump.engine.hex.dump import gap_hex_lines, hex_lines, pre08_hex_lines
from kdump.engine.hex.lines import to_ascii
from kdump.kernels import columns as c
from kdump.kernels import reasons

POSITION = 402_653_184
OWN_MARKS = "✓✗…·→"


def annotate(entry: bytes, *, read: int | None = None, limit: int = 1 << 20) -> list[str]:
    """Annotate an entry, of which `read` bytes are at hand; every line is fit for a terminal."""
    header, _, _ = kernels.walk(entry, 0, len(entry), POSITION, -1, True, 1)
    assert header.count == 1
    lines = hex_lines(entry[:read], POSITION, header=header, limit=limit)
    check(lines)
    check(hex_lines(entry[:read], POSITION, header=header, limit=limit, width=80), 80)
    return list(lines)


def check(lines: tuple[str, ...], width: int = 100) -> None:
    for line in lines:
        assert len(line) <= width, line
        assert all(" " <= character <= "~" or character in OWN_MARKS for character in line), line


def field(lines: list[str], name: str, which: int = 0) -> list[str]:
    """Give what stands on the line of a field: bytes, value and remark."""
    found = [line for line in lines if f"   {name} " in f"{line} "]
    before, _, behind = found[which].partition(f"   {name}")
    return [before.split("  ", 2)[-1].strip(), *behind.split(None, 1)]


def stops(lines: list[str]) -> list[str]:
    return [line for line in lines if "decoding stops" in line]


BATCH = batch(
    [
        record(0, 0, b"key", b"value", [(b"h", b"x"), (b"none", None)]),
        record(3, 5, None, b"0123456789abcdef\x00\x1b[2J"),
    ],
    base_offset=48_301_220,
    last_offset_delta=9,
    leader_epoch=12,
    producer_id=77,
    producer_epoch=3,
    base_sequence=40,
    base_timestamp=1_763_546_400_000,
    max_timestamp=1_763_546_400_005,
)


def test_every_field_of_a_batch_is_annotated() -> None:
    lines = annotate(BATCH)
    assert lines[0] == f"  position 402,653,184 · {len(BATCH)} bytes · record batch of magic 2"
    assert lines[1] == "  +0    00 00 00 00 02 e1 04 a4   baseOffset            48,301,220"
    assert field(lines, "batchLength")[1] == str(len(BATCH) - 12)
    assert field(lines, "partitionLeaderEpoch") == ["00 00 00 0c", "12", "outside the checksum"]
    assert field(lines, "magic") == ["02", "2"]
    assert field(lines, "crc")[1] == BATCH[17:21].hex()
    assert field(lines, "crc")[2] == f"✓ over +21…+{len(BATCH)}"
    assert field(lines, "attributes") == ["00 00", "0000", "none, CreateTime"]
    assert field(lines, "lastOffsetDelta")[1:] == ["9", "last offset 48,301,229"]
    assert field(lines, "baseTimestamp")[1:] == ["1763546400000", "2025-11-19T10:00:00.000Z"]
    assert field(lines, "maxTimestamp")[1:] == ["1763546400005", "2025-11-19T10:00:00.005Z"]
    assert field(lines, "producerId")[1] == "77"
    assert field(lines, "producerEpoch")[1] == "3"
    assert field(lines, "baseSequence")[1:] == ["40", "last sequence 49"]
    assert field(lines, "recordsCount") == ["00 00 00 02", "2"]


def test_every_field_of_a_record_is_annotated() -> None:
    lines = annotate(BATCH)
    assert [line for line in lines if line.startswith("  record")] == [
        "  record 1 of 2",
        "  record 2 of 2",
    ]
    assert field(lines, "attributes", 1) == ["00", "00"]
    assert field(lines, "timestampDelta", 1)[1:] == ["5", "2025-11-19T10:00:00.005Z"]
    assert field(lines, "offsetDelta", 1)[1:] == ["3", "offset 48,301,223"]
    assert field(lines, "keyLength")[1] == "3"
    assert field(lines, "key") == ["6b 65 79", "key"]
    assert field(lines, "keyLength", 1) == ["01", "null"]
    assert field(lines, "headerCount")[1] == "2"
    assert field(lines, "headerKey", 1) == ["6e 6f 6e 65", "none"]
    assert field(lines, "headerValueLength", 1) == ["01", "null"]
    text = [line for line in lines if "0123456789abcdef" in line]
    assert len(text) == 1
    assert text[0].endswith(
        "30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66  0123456789abcdef  value"
    )
    assert any(line.rstrip().endswith("..[2J") for line in lines)
    assert not stops(lines)


@each("entry", [BATCH, message(48_301_220)])
def test_odd_offset_and_magic_are_marked(entry: bytes) -> None:
    header, _, _ = kernels.walk(entry, 0, len(entry), POSITION, 48_301_220, True, 1)
    lines = list(hex_lines(entry, POSITION, header=header))
    offset = "baseOffset" if entry is BATCH else "offset"
    assert field(lines, offset)[1:] == ["48,301,220", "✗ not above the offsets before"]
    assert "not above" not in "".join(annotate(entry))
    assert field(annotate(put(entry, 16, b"\x07")), "magic")[1:] == ["7", "✗ not in any version"]


def test_all_bytes_of_a_batch_are_shown_in_order() -> None:
    lines = annotate(BATCH)
    digits = ""
    for line in lines:
        if line.startswith("  +"):
            position = int(line[3:].split()[0])
            assert position == len(digits) // 2
            piece = line[8:55] if line[31:34] != "   " else line[8:31]
            digits += piece.replace(" ", "")
    assert bytes.fromhex(digits) == BATCH


def test_attribute_bits_are_spelled_out() -> None:
    bits = LOG_APPEND_TIME | TRANSACTIONAL | CONTROL | DELETE_HORIZON | 0x8000
    lines = annotate(batch([], attributes=bits))
    words = " ".join(" ".join(lines).split())
    assert "c078" in words or "8078" in words
    for word in ("LogAppendTime", "transactional", "control", "delete horizon", "unused bits 8000"):
        assert word in words


def test_wrong_checksum_names_the_flipped_bit() -> None:
    lines = annotate(flip_bit(BATCH, 70, 5))
    computed = kernels.crc32c(flip_bit(BATCH, 70, 5), 21, len(BATCH))
    assert f"✗ computed {computed:08x} over +21…+{len(BATCH)}" in " ".join(lines)
    assert "  ✗ one flipped bit explains it: +70 bit 5" in lines
    lines = annotate(flip_bit(BATCH, 18, 6))
    assert "  ✗ one flipped bit explains it: +18 bit 6" in lines
    lines = annotate(flip_bit(flip_bit(BATCH, 70, 5), 90, 1))
    assert not any("one flipped bit" in line for line in lines)


@each(
    ("codec", "name", "compress"),
    [
        (GZIP, "gzip", gzip_bytes),
        (SNAPPY, "snappy", snappy.compress),
        (LZ4, "lz4", lz4.frame.compress),
        (ZSTD, "zstd", zstandard.compress),
    ],
)
def test_compressed_records_have_uncompressed_positions(
    codec: int, name: str, compress: object
) -> None:
    assert callable(compress)
    plain = [record(number) for number in range(3)]
    entry = batch(plain, attributes=codec, compress=compress)
    lines = annotate(entry)
    assert any(
        line.startswith(f"  compressed with {name}: {len(entry) - 61} bytes") for line in lines
    )
    assert any(line.startswith("  =0 ") for line in lines)
    assert sum(line.startswith("  record ") for line in lines) == 3
    assert not stops(lines)
    assert stops(annotate(entry, limit=10))[0].endswith("+61: over-limit")


def test_torn_stream_is_shown_up_to_its_end() -> None:
    packed = gzip_bytes(b"".join(record(number) for number in range(50)))
    lines = annotate(batch([], records_count=50, attributes=GZIP, payload=packed[:-5]))
    assert sum(line.startswith("  record ") for line in lines) == 50
    assert "codec-failed: the gzip stream is truncated" in stops(lines)[0]


def test_markers_are_labeled() -> None:
    lines = annotate(marker(1, coordinator_epoch=6))
    assert any('→ control record {"type": "COMMIT"' in line for line in lines)
    assert any('"coordinator_epoch": 6' in line for line in lines)


def test_empty_batch_is_not_decompressed() -> None:
    assert not stops(annotate(batch([])))
    lines = annotate(batch([], attributes=GZIP, payload=b"whatever"))
    assert not stops(lines)
    assert any("whatever" in line for line in lines)
    assert any("whatever" in line for line in annotate(batch([], payload=b"whatever")))


def test_long_values_are_shown_by_their_ends() -> None:
    lines = annotate(batch([record(value=bytes(range(256)) * 40)]))
    assert any("… 10,144 bytes …" in line for line in lines)
    assert len(lines) < 40


def test_many_records_and_many_headers_are_bounded() -> None:
    lines = annotate(batch([record(number, value=b"v" * 200) for number in range(1000)]))
    assert any(line.startswith("  … 800 more records") for line in lines)
    assert len(lines) < 5000
    headers = [(b"name", b"content " * 20)] * 500
    lines = annotate(batch([record(headers=headers), record(1)]))
    assert "  … 468 more headers" in lines
    assert len(lines) < 1000
    assert "  record 2 of 2" in lines
    many = batch([record(headers=[(b"", None)] * 300_000)])
    start = time.process_time()
    assert not stops(annotate(many))
    assert time.process_time() - start < 5


BROKEN_RECORDS = {
    reasons.COUNT_NEGATIVE: batch(records_count=-3),
    reasons.RECORDS_MISSING: batch(records_count=3),
    reasons.RECORDS_REMAINING: batch([record(), record(1)], records_count=1),
    reasons.RECORD_CUT_SHORT: batch([record(length=60)]),
    reasons.RECORD_LENGTH: batch([record(length=3)]),
    reasons.VARINT_TOO_LONG: batch(payload=b"\xff" * 20, records_count=1),
    reasons.HEADER_COUNT: batch([record(headers_count=-1)]),
    reasons.RECORD_LENGTH_MISMATCH: batch([record(slack=b"slack")]),
    reasons.KEY_LENGTH: batch(payload=b"\x10\0\0\0\x60\0\0\0\0", records_count=1),
    reasons.VALUE_LENGTH: batch(payload=b"\x10\0\0\0\x01\x60\0\0\0", records_count=1),
    reasons.HEADER_KEY_LENGTH: batch(payload=b"\x10\0\0\0\x01\x01\x02\x60\0", records_count=1),
    reasons.HEADER_VALUE_LENGTH: batch(payload=b"\x10\0\0\0\x01\x01\x02\0\x60", records_count=1),
}


@each("reason", BROKEN_RECORDS)
def test_stop_reason_and_remaining_bytes(reason: int) -> None:
    entry = BROKEN_RECORDS[reason]
    lines = annotate(entry)
    assert len(stops(lines)) == 1
    assert stops(lines)[0].endswith(reasons.NAMES[reason])
    header, _, _ = kernels.walk(entry, 0, len(entry), 0, -1, True, 1)
    assert kernels.decode_records(entry, 61, len(entry), header, 0, 0, 100)[2] == reason


def test_remaining_bytes_are_bounded() -> None:
    lines = annotate(batch(payload=b"\xff" * 5000, records_count=1))
    assert lines[-1] == "  … 4,488 more bytes"
    assert len(lines) < 60


def test_truncated_header_is_annotated() -> None:
    small = put(BATCH, 8, (30).to_bytes(4, "big"))[:42]
    lines = annotate(small)
    assert "inside the header" in stops(lines)[0]
    lines = annotate(BATCH, read=30)
    assert "inside the header" in stops(lines)[0]
    assert lines[-1] == f"  … only 30 of the entry's {len(BATCH)} bytes were read"


@pytest.mark.parametrize("magic", [0, 1])
def test_plain_message_is_annotated(magic: int) -> None:
    lines = annotate(message(7, b"key", b"value", magic=magic))
    assert field(lines, "offset") == ["00 00 00 00 00 00 00 07", "7"]
    assert field(lines, "crc")[2].startswith("✓ over +16…+")
    assert field(lines, "key") == ["6b 65 79", "key"]
    assert field(lines, "value") == ["76 61 6c 75 65", "value"]
    assert any("timestamp " in line for line in lines) == bool(magic)
    if magic:
        assert field(lines, "timestamp")[1:] == ["1400000000000", "2014-05-13T16:53:20.000Z"]
    assert not stops(lines)


def test_slack_after_a_value_and_overlong_lengths() -> None:
    assert any("slack" in line for line in annotate(message(slack=b"slack")))
    for body, reason in (
        (b"\0\0\1\0" + bytes(4), reasons.KEY_LENGTH),
        (b"\0\0\0\0\0\0\1\0", reasons.VALUE_LENGTH),
    ):
        assert stops(annotate(message(body=body)))[0].endswith(reasons.NAMES[reason])


def test_unknown_magic_is_annotated() -> None:
    lines = annotate(message(magic=9, layout=0))
    assert field(lines, "magic")[1:] == ["9", "✗ not in any version"]
    assert field(lines, "value")[1] == "value"


def test_messages_in_a_wrapper_are_annotated() -> None:
    inner = [message(0), flip_bit(message(1, magic=0), 30, 0), message(2)]
    lines = annotate(wrapper(inner, 52))
    assert lines[0].endswith("wrapper of magic 1")
    assert [field(lines, "offset", n)[2] for n in (1, 2, 3)] == [
        "offset 50", "offset 51", "offset 52",
    ]  # fmt: skip
    assert field(lines, "crc", 1)[2] == "✓"
    assert field(lines, "crc", 2)[2].startswith("✗ computed")
    assert not stops(lines)


@each(
    ("entry", "reason"),
    [
        (wrapper([], 5), reasons.INNER_EMPTY),
        (message(5, None, None, attributes=GZIP), reasons.VALUE_NULL),
        (wrapper([message()], 106, codec=ZSTD), reasons.ZSTD_IN_LEGACY),
        (wrapper([message(4)], 3), reasons.WRAPPER_OFFSET),
        (wrapper([wrapper([message()], 6)], 106), reasons.INNER_COMPRESSED),
        (wrapper([message(), message()[:-1]], 106), reasons.INNER_CUT_SHORT),
        (wrapper([message(), message(size=9)], 106), reasons.INNER_SIZE),
        (message(5, None, b"no gzip", attributes=GZIP), reasons.CODEC_FAILED),
        (message(5, None, b"no codec", attributes=6), reasons.CODEC_UNKNOWN),
    ],
    ids=lambda value: reasons.NAMES[value] if isinstance(value, int) else "",
)
def test_wrappers_that_brokers_refuse_are_annotated(entry: bytes, reason: int) -> None:
    assert reasons.NAMES[reason] in stops(annotate(entry))[0]


def test_entry_of_0_7_is_annotated() -> None:
    lines = pre08_hex_lines(pre08_message(b"hello", magic=0), 77)
    assert lines == (
        "  position 77 · 14 bytes · message of 0.6 or 0.7",
        "  +0   00 00 00 0a               length                10",
        "  +4   00                        magic                 0             0.6",
        "  +5   36 10 a6 86               crc                   3610a686      ✓ over the payload",
        "  +9   68 65 6c 6c 6f            payload               hello",
    )
    nested = pre08_wrapper([pre08_wrapper([pre08_message(b"deep")]), pre08_message(b"hello")])
    lines = pre08_hex_lines(nested, 77)
    check(lines)
    assert "  message 1 at depth 2" in lines
    assert sum("payload" in line and "deep" in line for line in lines) == 1
    broken = pre08_hex_lines(flip_bit(nested, len(nested) - 1, 0), 77)
    check(broken)
    assert any("✗ computed" in line for line in broken)
    assert stops(list(pre08_hex_lines(nested, 77, limit=5)))[0].endswith("over-limit")
    assert stops(list(pre08_hex_lines(nested[:-1], 77)))[0].endswith("cut-short")


def test_narrow_terminal_gets_eight_bytes_a_line() -> None:
    header, _, _ = kernels.walk(BATCH, 0, len(BATCH), 0, -1, True, 1)
    lines = hex_lines(BATCH, 0, header=header, width=80)
    first = next(number for number, line in enumerate(lines) if "30 31 32 33" in line)
    assert [line.split(None, 1)[1] for line in lines[first : first + 3]] == [
        "30 31 32 33 34 35 36 37  01234567  value",
        "38 39 61 62 63 64 65 66  89abcdef",
        "00 1b 5b 32 4a           ..[2J",
    ]
    assert lines != hex_lines(BATCH, 0, header=header)
    times = [number for number, line in enumerate(lines) if "Timestamp  " in line]
    assert [lines[number + 1].strip() for number in times] == [
        "2025-11-19T10:00:00.000Z",
        "2025-11-19T10:00:00.005Z",
    ]


def test_gap_without_a_header_is_annotated() -> None:
    lines = gap_hex_lines(b"\x1b]0;title" * 100, 5, 2000, "cut-short")
    check(lines)
    assert lines[0] == "  position 5 · 2,000 bytes · not an entry: cut-short"
    assert lines[1].endswith(".]0;title.]0;tit")
    assert lines[-2:] == ("  … 388 more bytes", "  … only 900 of 2,000 bytes were read")
    assert len(gap_hex_lines(bytes(5000), 5, 5000, "zeros")) == 1
    assert len(gap_hex_lines(b"", 5, 0, "short-tail")) == 1
    assert hex_lines(b"xyz", 5, header=c.RecordBatches.empty(c.BATCH_WIDTH))[1].endswith("xyz")


@pytest.mark.fuzz
def test_random_damage_never_raises() -> None:
    rng = random.Random(41)
    inner = [message(number, magic=number & 1) for number in range(4)]
    entries = [
        BATCH,
        marker(0),
        batch([record(n) for n in range(5)], attributes=GZIP, compress=gzip_bytes),
        message(3),
        wrapper(inner, 3),
        wrapper(inner, 3, magic=0),
    ]
    for _ in range(1500):
        broken = bytearray(rng.choice(entries))
        for _ in range(rng.randint(1, 6)):
            broken[rng.randrange(len(broken))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        broken[8:12] = (len(broken) - 12).to_bytes(4, "big")
        entry = bytes(broken)
        annotate(
            with_right_crc(entry) if rng.random() < 0.5 else entry, read=rng.choice((None, 40))
        )
        start = rng.randrange(20)
        check(pre08_hex_lines(entry[start:], 0, limit=1000))
        check(pre08_hex_lines(entry[start:], 0, limit=1000, width=80), 80)


def test_messages_of_a_wrapper_have_its_append_time() -> None:
    inner = [message(offset, timestamp=5) for offset in range(2)]
    attributes = LOG_APPEND_TIME
    lines = annotate(wrapper(inner, 52, timestamp=1_600_000_000_000, attributes=attributes))
    text = " ".join(" ".join(lines).split())
    assert text.count("not used: the append time is the wrapper's, 2020-09-13T12:26:40.000Z") == 2
    assert "append time" not in " ".join(" ".join(annotate(wrapper(inner, 52))).split())


def test_text_is_spelled_in_ascii() -> None:
    assert to_ascii("a é→\x7f\n") == r"a \xe9→\x7f\x0a"
