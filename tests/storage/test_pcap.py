"""Captures of packets in every form, and TCP streams put together from them."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

import captures
import pytest
from each import each
from long_runs import SEED, how_many

from kdump.storage.pcap import (
    CaptureBreak,
    Segment,
    SkippedPacket,
    address_text,
    is_capture,
    segments,
)
from kdump.storage.source import Source
from kdump.storage.tcp import Stream

_TEXT = b"some bytes of a stream"
_MADE = captures.packets([(0, 0, _TEXT), (0, 1, b"an answer")], size=8)


def read(path: Path, data: bytes) -> list[Segment | SkippedPacket | CaptureBreak]:
    path.write_bytes(data)
    with Source(path) as source:
        return list(segments(source))


def bytes_of(
    data: bytes, found: list[Segment | SkippedPacket | CaptureBreak]
) -> list[tuple[str, bytes]]:
    return [
        (address_text(one.source), data[one.position : one.position + one.size])
        for one in found
        if isinstance(one, Segment)
    ]


@each("link", [captures.ETHERNET, captures.NULL, captures.RAW, captures.SLL])
@each("ipv6", [False, True])
def test_every_link_type_and_both_formats_are_read(
    tmp_path: Path, link: int, *, ipv6: bool
) -> None:
    expected = None
    for vlans in (0, 1, 2) if link == captures.ETHERNET else (0,):
        frames = [(5, captures.frame_of(one, link, ipv6=ipv6, vlans=vlans)) for one in _MADE]
        for order in "<>":
            for data in (
                captures.pcap(frames, link, order=order),
                captures.pcapng(frames, link, order=order),
            ):
                assert is_capture(data[:12])
                found = read(tmp_path / "one", data)
                assert {one.at_ms for one in found if isinstance(one, Segment)} == {5}
                got = bytes_of(data, found)
                expected = expected or got
                assert got == expected
    client = "[::1]:40000" if ipv6 else "10.0.0.1:40000"
    assert expected is not None
    assert b"".join(part for end, part in expected if end == client) == _TEXT


def test_second_cooked_link_type_is_read(tmp_path: Path) -> None:
    frames = [(5, captures.frame_of(one, captures.SLL2)) for one in _MADE]
    data = captures.pcap(frames, captures.SLL2)
    assert b"".join(part for _, part in bytes_of(data, read(tmp_path / "one", data))[:5]) == _TEXT


def test_unread_packets_are_reported(tmp_path: Path) -> None:
    whole = captures.frame_of(_MADE[2])
    fragment = whole[:20] + b"\x20\0" + whole[22:]
    udp = whole[:23] + b"\x11" + whole[24:]
    found = read(tmp_path / "one", captures.pcap([(0, fragment), (0, udp), (0, whole[:30])]))
    assert [type(one) for one in found] == [SkippedPacket, SkippedPacket]
    found = read(tmp_path / "two", captures.pcap([(0, whole)], 147))
    assert [one.reason for one in found if isinstance(one, SkippedPacket)] == [
        "link type 147 is not supported"
    ]


@pytest.mark.parametrize("make", [captures.pcap, captures.pcapng])
def test_truncated_capture_is_reported(tmp_path: Path, make: Callable[..., bytes]) -> None:
    data = make([(0, captures.frame_of(one)) for one in _MADE])
    whole = len(read(tmp_path / "one", data))
    for cut in range(24, len(data), 7):
        found = read(tmp_path / "one", data[:cut])
        broken = [one for one in found if isinstance(one, CaptureBreak)]
        assert len(broken) <= 1
        assert len(found) - len(broken) <= whole
    at = data.index(captures.frame_of(_MADE[2]))
    at -= 16 if make is captures.pcap else 28
    wrong = data[: at + 8] + b"\xff\xff\xff\x7f" + data[at + 12 :]
    if make is captures.pcapng:
        wrong = data[: at + 4] + b"\xff\xff\xff\x7f" + data[at + 8 :]
    found = read(tmp_path / "one", wrong)
    assert [one.position for one in found if isinstance(one, CaptureBreak)] == [at]


def test_streams_are_reassembled_in_any_order() -> None:
    """Pieces that overlap, come twice, and in any order, also over the end of the numbers."""
    for number in range(how_many(200, 20_000)):
        rng = random.Random(f"{SEED}/{number}")
        text = rng.randbytes(rng.randrange(1, 200))
        first = rng.choice((0, 1 << 31, (1 << 32) - 50, rng.randrange(1 << 32)))
        cuts = []
        at = 0
        while at < len(text):
            size = rng.randrange(1, 30)
            cuts.append((at, min(at + size, len(text))))
            at += size
        for _ in range(rng.randrange(6)):
            start = rng.randrange(len(text))
            cuts.append((start, min(start + rng.randrange(1, 60), len(text))))
        rng.shuffle(cuts)
        stream = Stream()
        stream.open(first - 1 & 0xFFFFFFFF)
        got = b""
        for start, end in cuts:
            piece = Segment(
                None,
                (b"", 0),
                (b"", 0),
                first + start & 0xFFFFFFFF,
                16,
                start,
                end - start,
                0,
            )
            for chunk in stream.take(piece, is_last=end == len(text)):
                assert not chunk.lacking
                got += text[chunk.position : chunk.position + chunk.size]
        assert got == text
        assert stream.is_ended


def segment(sequence: int, size: int, missing: int = 0) -> Segment:
    return Segment(None, (b"", 0), (b"", 0), sequence, 16, sequence, size, missing)


def test_missing_bytes_are_counted() -> None:
    stream = Stream()
    stream.open(99)
    assert [one[:2] for one in stream.take(segment(100, 10), is_last=False)] == [(100, 10)]
    assert stream.take(segment(150, 10), is_last=False) == []
    assert stream.take(segment(130, 10), is_last=False) == []
    assert stream.waiting_count == 2
    assert [(one.position, one.lacking) for one in stream.give_up()] == [(130, 20)]
    assert [(one.position, one.lacking) for one in stream.give_up()] == [(150, 10)]
    assert stream.give_up() == []


def test_truncated_packet_is_a_gap() -> None:
    stream = Stream()
    stream.open(99)
    assert len(stream.take(segment(100, 10, 40), is_last=False)) == 1
    assert [
        (one.position, one.lacking) for one in stream.take(segment(150, 10), is_last=False)
    ] == [(150, 40)]
    stream.take(segment(160, 0, 7), is_last=True)
    assert stream.count_left_out() == 7


def test_sequence_number_outside_the_window_is_skipped() -> None:
    stream = Stream()
    stream.open(99)
    assert stream.take(segment(100 + (1 << 31), 10), is_last=False) == []
    assert stream.waiting_count == 0


def breaks(path: Path, data: bytes) -> list[tuple[int, str]]:
    return [(one.position, one.reason) for one in read(path, data) if isinstance(one, CaptureBreak)]


def test_headers_that_cannot_be_read_end_a_capture(tmp_path: Path) -> None:
    frames = [(0, captures.frame_of(_MADE[0]))]
    plain, blocks = captures.pcap(frames), captures.pcapng(frames)
    for data, expected in (
        (plain[:20], (0, "the file header is cut short")),
        (blocks[:8] + b"what" + blocks[12:], (0, "a section has no byte order")),
        (blocks + blocks[:8] + b"what", (len(blocks), "a section has no byte order")),
    ):
        assert breaks(tmp_path / "one", data) == [expected]


def test_simple_packets_are_of_the_first_interface(tmp_path: Path) -> None:
    frame = captures.frame_of(_MADE[2])
    size = 16 + -(-len(frame) // 4) * 4
    head = struct.pack("<III", 3, size, len(frame))
    one = head + frame.ljust(size - 16, b"\0") + struct.pack("<I", size)
    section = captures.pcapng([])
    found = read(tmp_path / "one", section + one)
    assert [part for _, part in bytes_of(section + one, found)] == [_TEXT[:8]]
    assert [each.at_ms for each in found if isinstance(each, Segment)] == [None]


def test_interface_without_a_link_type_has_unread_packets(tmp_path: Path) -> None:
    frame = captures.frame_of(_MADE[2])
    data = captures.pcapng([(0, frame)])
    at = int.from_bytes(data[4:8], "little")  # behind the section's header
    size = int.from_bytes(data[at + 4 : at + 8], "little")
    short = struct.pack("<III", 1, 12, 12)
    (skipped,) = read(tmp_path / "one", data[:at] + short + data[at + size :])
    assert isinstance(skipped, SkippedPacket)
    assert skipped.reason == "link type -1 is not supported"


def test_options_of_ip_6_are_passed_over_and_fragments_reported(tmp_path: Path) -> None:
    whole = captures.frame_of(_MADE[2], captures.RAW, ipv6=True)
    (size,) = struct.unpack(">H", whole[4:6])
    option = bytes([6, 0, *bytes(6)])
    more = whole[:4] + struct.pack(">HB", size + 8, 60) + whole[7:40] + option + whole[40:]
    data = captures.pcap([(0, more)], captures.RAW)
    assert [part for _, part in bytes_of(data, read(tmp_path / "one", data))] == [_TEXT[:8]]
    fragment = whole[:6] + bytes([44]) + whole[7:]
    (skipped,) = read(tmp_path / "two", captures.pcap([(0, fragment)], captures.RAW))
    assert isinstance(skipped, SkippedPacket)
    assert skipped.reason == "fragments of IP packets are not reassembled"
