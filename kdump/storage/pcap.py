"""Read captures of packets: pcap and pcapng, block by block, and the TCP segments in them.

Only headers are taken apart; the bytes that a segment carries stay where they are in the file, and
are named by their position. Ethernet with VLAN tags, loopback, Linux "cooked" (both versions) and
bare IP are known; IPv4 and IPv6. What else there is, is counted (`SkippedPacket`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from kdump.storage.source import Source
from kdump.tuples import NamedTuple

_BLOCK_BYTES = 1 << 20
#: No link has larger packets; a length above it is damage.
_MOST_PACKET = 1 << 24
_MOST_HEADERS = 512  # of a packet, in front of what TCP carries
_MOST_INTERFACES = 1 << 16

_PCAP = {
    b"\xd4\xc3\xb2\xa1": ("<", 1_000),
    b"\xa1\xb2\xc3\xd4": (">", 1_000),
    b"\x4d\x3c\xb2\xa1": ("<", 1_000_000),
    b"\xa1\xb2\x3c\x4d": (">", 1_000_000),
}
_PCAPNG = b"\x0a\x0d\x0d\x0a"
_ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
_INTERFACE, _OLD_PACKET, _SIMPLE, _ENHANCED = 1, 2, 3, 6
_SECTION = int.from_bytes(_PCAPNG, "big")
_RESOLUTION = 9  # the option of an interface with the unit of its times

_NULL, _ETHERNET, _LOOP, _SLL, _SLL2 = 0, 1, 108, 113, 276
_RAW = frozenset((12, 14, 101, 228, 229))
_IPV4, _IPV6 = 0x0800, 0x86DD
_VLANS = frozenset((0x8100, 0x88A8, 0x9100))
_FAMILIES = {2: _IPV4, 10: _IPV6, 24: _IPV6, 28: _IPV6, 30: _IPV6}
_TCP = 6
_FRAGMENT = 44
_OPTIONS = frozenset((0, 43, 60))  # IPv6 headers that say how long they are, in eights
FIN, SYN, RST, ACK = 1, 2, 4, 16

_Address = tuple[bytes, int]


class Segment(NamedTuple):
    """A TCP segment: from and to where, its first sequence number, and where its bytes are.

    `missing` are bytes at its end that the capture left out.
    """

    at_ms: int | None
    source: _Address
    destination: _Address
    sequence: int
    flags: int
    position: int
    size: int
    missing: int


class SkippedPacket(NamedTuple):
    """A packet that is not read, and why."""

    position: int
    reason: str


class CaptureBreak(NamedTuple):
    """Where a capture stops making sense, and why."""

    position: int
    reason: str


def is_capture(head: bytes) -> bool:
    """Whether a file begins like a capture."""
    return head[:4] in _PCAP or (head[:4] == _PCAPNG and head[8:12] in _ORDERS)


Packet = tuple[int | None, int, int, int, int]  # time, link type, position, bytes kept, bytes sent


def segments(source: Source) -> Iterator[Segment | SkippedPacket | CaptureBreak]:
    """Yield the TCP segments of a capture in order, and what is not read of it."""
    head = source.read(0, 24)
    window = _Window(source)
    packets = _pcap(head, window) if head[:4] in _PCAP else _pcapng(window)
    for packet in packets:
        if isinstance(packet, CaptureBreak):
            yield packet
            continue
        found = _segment(packet, window)
        if found is not None:
            yield found


class _Window:
    """A file read front to back in large blocks."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.size = source.size
        self._start = 0
        self._data = b""

    def read(self, position: int, size: int) -> bytes:
        """Read some bytes; fewer at the end of the file."""
        at = position - self._start
        if at < 0 or at + size > len(self._data):
            self._start, at = position, 0
            self._data = self._source.read(position, max(size, _BLOCK_BYTES))
        return self._data[at : at + size]


def _pcap(head: bytes, window: _Window) -> Iterator[Packet | CaptureBreak]:
    order, per_ms = _PCAP[head[:4]]
    if len(head) < 24:
        yield CaptureBreak(0, "the file header is cut short")
        return
    link = struct.unpack(order + "I", head[20:24])[0] & 0xFFFF
    record = struct.Struct(order + "IIII")
    position = 24
    while position < window.size:
        header = window.read(position, 16)
        if len(header) < 16:
            yield CaptureBreak(position, "the capture ends within the header of a packet")
            return
        seconds, fraction, kept, sent = record.unpack(header)
        if kept > _MOST_PACKET:
            yield CaptureBreak(position, f"a packet of {kept:,} bytes is impossible")
            return
        if position + 16 + kept > window.size:
            yield CaptureBreak(position, "the capture ends within a packet")
            kept = window.size - position - 16
        yield seconds * 1000 + fraction // per_ms, link, position + 16, kept, sent
        position += 16 + kept


def _pcapng(window: _Window) -> Iterator[Packet | CaptureBreak]:
    order = "<"
    interfaces: list[tuple[int, int]] = []  # link type, ticks a second
    position = 0
    while position < window.size:
        head = window.read(position, 12)
        if len(head) < 12:
            yield CaptureBreak(position, "the capture ends within the header of a block")
            return
        if head[:4] == _PCAPNG:
            if head[8:12] not in _ORDERS:
                yield CaptureBreak(position, "a section has no byte order")
                return
            order, interfaces = _ORDERS[head[8:12]], []
        kind, size = struct.unpack(order + "II", head[:8])
        if size < 12 or size % 4 or size > _MOST_PACKET:
            yield CaptureBreak(position, f"a block of {size:,} bytes is impossible")
            return
        end = position + size
        if end > window.size:
            yield CaptureBreak(position, "the capture ends within a block")
        if kind == _INTERFACE and len(interfaces) < _MOST_INTERFACES:
            interfaces.append(_interface(window.read(position, min(size, 4096)), order))
        elif kind in (_ENHANCED, _OLD_PACKET, _SIMPLE):
            packet = _ng_packet(kind, window, position, order, interfaces)
            if end <= window.size or not isinstance(packet, CaptureBreak):
                yield packet
        position = end


def _interface(block: bytes, order: str) -> tuple[int, int]:
    """Read the link type of an interface, and in how many ticks a second it has times."""
    if len(block) < 16:
        return -1, 1_000_000
    link = struct.unpack(order + "H", block[8:10])[0]
    at, ticks = 16, 1_000_000
    while at + 5 <= len(block):
        code, size = struct.unpack(order + "HH", block[at : at + 4])
        if code == _RESOLUTION and size:
            power = block[at + 4]
            ticks = 1 << min(power & 0x7F, 63) if power & 0x80 else 10 ** min(power, 18)
        if code == 0:
            break
        at += 4 + (size + 3 & ~3)
    return link, ticks


def _ng_packet(
    kind: int, window: _Window, position: int, order: str, interfaces: list[tuple[int, int]]
) -> Packet | CaptureBreak:
    start = 12 if kind == _SIMPLE else 28
    block = window.read(position, start)
    size = struct.unpack(order + "I", block[4:8])[0]
    room = min(position + size - 4, window.size) - position - start
    if room < 0:
        return CaptureBreak(position, "a packet's block is too short for its header")
    number, at_ms = 0, None
    if kind == _SIMPLE:
        sent = struct.unpack(order + "I", block[8:12])[0]
        kept = min(sent, room)
    else:
        layout = "IIIII" if kind == _ENHANCED else "HxxIIII"
        number, high, low, kept, sent = struct.unpack(order + layout, block[8:28])
        if number < len(interfaces):
            at_ms = (high << 32 | low) * 1000 // interfaces[number][1]
        if kept > room:
            kept = room
    link = interfaces[number][0] if number < len(interfaces) else -1
    return at_ms, link, position + start, kept, sent


def _segment(packet: Packet, window: _Window) -> Segment | SkippedPacket | None:
    """Take the headers of a packet apart; None for what carries no TCP."""
    at_ms, link, position, kept, sent = packet
    head = window.read(position, min(kept, _MOST_HEADERS))
    try:
        network, at = _network(link, head)
        if network < 0:
            return SkippedPacket(position, f"link type {link} is not supported")
        if network == _IPV4:
            return _ipv4(at_ms, head, at, position, kept, sent)
        return _ipv6(at_ms, head, at, position, kept, sent) if network == _IPV6 else None
    except (IndexError, struct.error):
        return SkippedPacket(position, "the capture lacks part of the headers")


def _network(link: int, head: bytes) -> tuple[int, int]:
    """Return the protocol above a link, and where it begins."""
    if link == _ETHERNET or link in (_SLL, _SLL2):
        at = {_ETHERNET: 12, _SLL: 14, _SLL2: 0}[link]
        behind = 20 if link == _SLL2 else at + 2
        kind = head[at] << 8 | head[at + 1]
        while kind in _VLANS:
            kind = head[behind + 2] << 8 | head[behind + 3]
            behind += 4
        return kind, behind
    if link in (_NULL, _LOOP):
        family = int.from_bytes(head[:4], "big")
        return _FAMILIES.get(family) or _FAMILIES.get(int.from_bytes(head[:4], "little"), 0), 4
    if link in _RAW:
        return {4: _IPV4, 6: _IPV6}.get(head[0] >> 4, 0), 0
    return -1, 0


def _ipv4(
    at_ms: int | None, head: bytes, at: int, position: int, kept: int, sent: int
) -> Segment | SkippedPacket | None:
    first, total, fragment, protocol = struct.unpack_from(">BxHxxHxB", head, at)
    if protocol != _TCP or first >> 4 != 4:
        return None
    if fragment & 0x3FFF:
        return SkippedPacket(position, "fragments of IP packets are not reassembled")
    ends = head[at + 12 : at + 16], head[at + 16 : at + 20]
    # Zero where the card was to cut it into packets.
    total = total or sent - at
    return _tcp(at_ms, ends, head, at + (first & 15) * 4, at + total, position, kept)


def _ipv6(
    at_ms: int | None, head: bytes, at: int, position: int, kept: int, sent: int
) -> Segment | SkippedPacket | None:
    size, following = struct.unpack_from(">HB", head, at + 4)
    end = at + 40 + size if size else sent
    ends = head[at + 8 : at + 24], head[at + 24 : at + 40]
    at += 40
    while following in _OPTIONS:
        following, at = head[at], at + 8 + head[at + 1] * 8
    if following == _FRAGMENT:
        return SkippedPacket(position, "fragments of IP packets are not reassembled")
    return _tcp(at_ms, ends, head, at, end, position, kept) if following == _TCP else None


def _tcp(
    at_ms: int | None,
    ends: tuple[bytes, bytes],
    head: bytes,
    at: int,
    end: int,
    position: int,
    kept: int,
) -> Segment:
    source, destination, sequence, offset, flags = struct.unpack_from(">HHIxxxxBB", head, at)
    start = at + (offset >> 4) * 4
    size = max(end - start, 0)
    held = min(size, max(kept - start, 0))
    return Segment(
        at_ms,
        (ends[0], source),
        (ends[1], destination),
        sequence,
        flags,
        position + start,
        held,
        size - held,
    )


def address_text(address: _Address) -> str:
    """Write an address and a port."""
    from ipaddress import ip_address

    host, port = address
    text = str(ip_address(host))
    return f"[{text}]:{port}" if len(host) > 4 else f"{text}:{port}"
