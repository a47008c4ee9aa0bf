"""pre08: entries of 0.6 and 0.7, and the offsets consumers report (F2 to F4)."""

import random
import struct
import time

import pytest
import snappy
from builders import SNAPPY, gzip_bytes, pre08_message, pre08_wrapper
from damage import flip_bit

from kdump.kernels import reasons
from kdump.record.pre08 import MAX_DEPTH, Message, codec_name, messages, read_entry

LIMIT = 1 << 20
Told = list[tuple[bytes, int] | tuple[int, str]]


def told(data: bytes, limit: int = LIMIT, base: int = 1000) -> Told:
    """Give (payload, next offset) of each message of the one entry, and failures as they come."""
    entry, reason = read_entry(memoryview(data), 0, len(data))
    assert (entry is not None) == (reason == reasons.END)
    assert entry is not None
    return [
        (item.payload, item.next_offset) if isinstance(item, Message) else item
        for item in messages(memoryview(data), entry, limit, base)
    ]


def reason_at(data: bytes, position: int = 0) -> int:
    return read_entry(memoryview(data), position, len(data))[1]


@pytest.mark.parametrize("magic", [0, 1])
def test_plain_message_is_read(magic: int) -> None:
    data = b"before" + pre08_message(b"hello", magic=magic) + b"behind"
    entry, reason = read_entry(memoryview(data), 6, len(data))
    assert reason == reasons.END
    assert entry is not None
    assert (entry.position, entry.size_bytes) == (6, 14 + magic)
    assert data[entry.payload : entry.position + entry.size_bytes] == b"hello"
    assert (entry.magic, entry.codec) == (magic, 0)
    assert entry.crc_valid
    assert entry.known_magic


def test_checksum_covers_only_the_payload() -> None:
    data = pre08_message(b"hello")
    for position in range(len(data)):
        entry, _ = read_entry(memoryview(flip_bit(data, position, 0)), 0, len(data))
        if entry is not None:
            assert entry.crc_valid == (position in (4, 5)) or position < 5
    unknown, _ = read_entry(memoryview(pre08_message(b"hello", magic=2)), 0, len(data))
    assert unknown is not None
    assert not unknown.known_magic


def test_reasons_for_no_entry() -> None:
    whole = pre08_message(b"hello")
    assert reason_at(b"") == reasons.END
    assert [reason_at(whole[:size]) for size in (1, 3)] == [reasons.SHORT_TAIL] * 2
    assert [reason_at(whole[:size]) for size in (4, 14)] == [reasons.CUT_SHORT] * 2
    for length in (-1, 0, 4):
        assert reason_at(pre08_message(b"hello", length=length)) == reasons.LENGTH_TOO_SMALL
    assert reason_at(struct.pack(">iB", 5, 1) + bytes(4)) == reasons.LENGTH_TOO_SMALL
    assert reason_at(struct.pack(">iB", 5, 0) + bytes(4)) == reasons.END
    assert reason_at(pre08_message(b"hello", length=1 << 30)) == reasons.CUT_SHORT


def test_inner_messages_have_the_offset_of_their_wrapper() -> None:
    wrapper = pre08_wrapper([pre08_message(b"a"), pre08_message(b"b", magic=0), pre08_message()])
    end = 1000 + len(wrapper)
    assert told(wrapper) == [(b"a", 1000), (b"b", 1000), (b"value", end)]


def test_nested_wrappers_are_read() -> None:
    inner = pre08_wrapper([pre08_message(b"a"), pre08_message(b"b")])
    outer = pre08_wrapper([inner, inner], codec=SNAPPY, compress=snappy.compress)
    end = 1000 + len(outer)
    assert told(outer) == [(b"a", 1000), (b"b", 1000), (b"a", 1000), (b"b", end)]


def test_empty_wrapper_is_sound() -> None:
    empty = pre08_wrapper([])
    assert told(empty) == []
    outer = pre08_wrapper([pre08_message(b"a"), empty])
    assert told(outer) == [(b"a", 1000 + len(outer))]


def test_depth_is_bounded() -> None:
    data = pre08_message(b"a")
    for _ in range(MAX_DEPTH):
        data = pre08_wrapper([data])
    assert told(data) == [(b"a", 1000 + len(data))]
    assert told(pre08_wrapper([data])) == [
        (reasons.INNER_COMPRESSED, f"wrappers nested deeper than {MAX_DEPTH}")
    ]


def test_partial_message_at_the_end_is_skipped() -> None:
    for piece in (b"\0", pre08_message(b"b")[:-1]):
        wrapper = pre08_wrapper([pre08_message(b"a"), piece])
        assert told(wrapper) == [(b"a", 1000 + len(wrapper)), (reasons.INNER_CUT_SHORT, "")]
        outer = pre08_wrapper([wrapper])
        assert sorted(told(outer), key=str) == sorted(
            [(b"a", 1000 + len(outer)), (reasons.INNER_CUT_SHORT, "")], key=str
        )
    assert told(pre08_wrapper([pre08_message(b"b")[:-1]])) == [(reasons.RECORD_CUT_SHORT, "")]


def test_messages_before_a_failure_are_returned() -> None:
    small = pre08_wrapper([pre08_message(b"a"), bytes(4)])
    assert told(small) == [(b"a", 1000), (reasons.LENGTH_TOO_SMALL, "")]
    plain = pre08_message(b"a") + pre08_message(b"b")
    cut = pre08_message(gzip_bytes(plain)[:-4], attributes=1)
    assert told(cut) == [
        (b"a", 1000), (b"b", 1000), (reasons.CODEC_FAILED, "the gzip stream is truncated"),
    ]  # fmt: skip


def test_codec_3_was_not_defined() -> None:
    assert told(pre08_message(b"x", attributes=3)) == [(reasons.CODEC_UNKNOWN, "codec 3")]
    assert [codec_name(number) for number in range(4)] == ["none", "gzip", "snappy", "unknown-3"]
    assert told(pre08_message(b"x", attributes=0xFC)) == [(b"x", 1011)]


def test_limit_applies_to_all_wrappers_together() -> None:
    inner = pre08_wrapper([pre08_message(bytes(5000))])
    outer = pre08_wrapper([inner] * 4)
    assert len(told(outer, 100_000)) == 4
    assert told(outer, 12_000) == [
        (bytes(5000), 1000), (bytes(5000), 1000), (reasons.OVER_LIMIT, ""),
    ]  # fmt: skip


def test_nested_bombs_are_bounded() -> None:
    data = pre08_message(bytes(1 << 19))
    for _ in range(MAX_DEPTH - 1):
        data = pre08_wrapper([data] * 40)
    start = time.process_time()
    assert told(data)[-1][0] == reasons.OVER_LIMIT
    assert time.process_time() - start < 5


def test_random_damage_never_raises() -> None:
    rng = random.Random(17)
    inner = [pre08_message(rng.randbytes(rng.randint(0, 30)), magic=n & 1) for n in range(9)]
    wrapper = pre08_wrapper([*inner[:5], pre08_wrapper(inner)])
    for _ in range(2000):
        broken = bytearray(wrapper)
        for _ in range(rng.randint(1, 5)):
            broken[rng.randrange(len(broken))] ^= 1 << rng.randrange(8)
        entry, _ = read_entry(memoryview(broken), 0, len(broken))
        if entry is not None:
            assert len(list(messages(memoryview(broken), entry, 4096))) <= 20
