"""Write captures of packets, and record what goes between clients and a broker.

`Capture` is a pcap or pcapng of TCP connections that never were: each message becomes segments, in
order unless a test changes them. `Recorder` is a proxy that keeps what passes through it.
"""

from __future__ import annotations

import random
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

SYN, ACK, FIN, RST = 2, 16, 1, 4
ETHERNET, NULL, RAW, SLL, SLL2 = 1, 0, 101, 113, 276
_SEGMENT = 1448


class Packet(NamedTuple):
    """A TCP segment of a connection; `way` 0 is from the client."""

    connection: int
    way: int
    sequence: int
    flags: int
    data: bytes
    at_ms: int = 0


Message = tuple[int, int, bytes]  # connection, way, bytes


def packets(
    messages: Iterable[Message], *, size: int = _SEGMENT, opened: bool = True, first: int = 1_000
) -> list[Packet]:
    """Cut messages into segments, with a handshake in front of each connection."""
    made: list[Packet] = []
    following: dict[tuple[int, int], int] = {}
    for at, (connection, way, data) in enumerate(messages):
        if (connection, 0) not in following:
            for side in (0, 1):
                start = (first + connection * 7 + side * 100) & 0xFFFFFFFF
                if opened:
                    flags = SYN | (ACK if side else 0)
                    made.append(Packet(connection, side, start, flags, b"", at))
                following[connection, side] = (start + 1) & 0xFFFFFFFF
        for start in range(0, len(data), size):
            part = data[start : start + size]
            sequence = following[connection, way]
            made.append(Packet(connection, way, sequence, ACK, part, at))
            following[connection, way] = (sequence + len(part)) & 0xFFFFFFFF
    return made


def frame_of(packet: Packet, link: int = ETHERNET, *, ipv6: bool = False, vlans: int = 0) -> bytes:
    """Put the headers in front of a segment."""
    ports = 40_000 + packet.connection, 9092
    hosts: tuple[bytes, ...] = (bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))
    if ipv6:
        hosts = (bytes(15) + b"\1", bytes(15) + b"\2")
    if packet.way:
        ports, hosts = (ports[1], ports[0]), hosts[::-1]
    tcp = struct.pack(
        ">HHIIBBHHH", *ports, packet.sequence, 0, 8 << 4, packet.flags, 65535, 0, 0
    ) + bytes(12)
    if ipv6:
        size = len(tcp) + len(packet.data)
        network = struct.pack(">IHBB", 6 << 28, size, 6, 64) + hosts[0] + hosts[1]
    else:
        size = 20 + len(tcp) + len(packet.data)
        network = struct.pack(">BBHHHBBH", 0x45, 0, size, 0, 0x4000, 64, 6, 0) + hosts[0] + hosts[1]
    kind = struct.pack(">H", 0x86DD if ipv6 else 0x0800)
    tags = b"".join(struct.pack(">HH", 0x8100 if vlan else 0x88A8, vlan) for vlan in range(vlans))
    heads = {
        ETHERNET: bytes(12) + tags + kind,
        NULL: struct.pack("<I", 30 if ipv6 else 2),
        RAW: b"",
        SLL: bytes(14) + kind,
        SLL2: kind + bytes(18),
    }
    return heads[link] + network + tcp + packet.data


def pcap(frames: Iterable[tuple[int, bytes]], link: int = ETHERNET, *, order: str = "<") -> bytes:
    """Make a pcap of packets with their times."""
    made = [struct.pack(order + "IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, link)]
    for at_ms, data in frames:
        size = len(data)
        made.append(struct.pack(order + "IIII", at_ms // 1000, at_ms % 1000 * 1000, size, size))
        made.append(data)
    return b"".join(made)


def pcapng(frames: Iterable[tuple[int, bytes]], link: int = ETHERNET, *, order: str = "<") -> bytes:
    """Make a pcapng of packets with their times, in nanoseconds."""

    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        size = struct.pack(order + "I", 12 + len(body))
        return struct.pack(order + "I", kind) + size + body + size

    made = [block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))]
    options = struct.pack(order + "HHBxxxHH", 9, 1, 9, 0, 0)
    made.append(block(1, struct.pack(order + "HHI", link, 0, 262144) + options))
    for at_ms, data in frames:
        ticks = at_ms * 1_000_000
        head = struct.pack(order + "IIIII", 0, ticks >> 32, ticks & 0xFFFFFFFF, *(len(data),) * 2)
        made.append(block(6, head + data))
    return b"".join(made)


def capture(made: Iterable[Packet], link: int = ETHERNET, **how: bool | int) -> bytes:
    """Make a pcap of segments."""
    return pcap(
        ((one.at_ms, frame_of(one, link, **how)) for one in made),  # type: ignore[arg-type]
        link,
    )


def swap_packets(made: list[Packet], rng: random.Random, *, within: int = 5) -> list[Packet]:
    """Reorder segments that carry bytes, each by a few places, and send some twice."""
    keyed = [(at + rng.random() * within, one) for at, one in enumerate(made) if one.data]
    keyed += [(at + within, one) for at, one in keyed if rng.random() < 0.2]
    opened = [one for one in made if not one.data]
    return [*opened, *(one for _, one in sorted(keyed, key=lambda pair: pair[0]))]


class Recorder:
    """A proxy in front of a broker; `messages` is what passed, by connection and direction."""

    def __init__(self, port: int, to: Callable[[], int]) -> None:
        self._to = to
        self._listener = socket.create_server(("127.0.0.1", port), backlog=64)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._ends: dict[socket.socket, tuple[socket.socket, int, int]] = {}
        self._count = 0
        self._ended = False
        self.messages: list[Message] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended:
            for key, _ in self._selector.select(0.1):
                one = key.fileobj
                assert isinstance(one, socket.socket)
                if one is self._listener:
                    self._accept()
                else:
                    self._pass(one)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        try:
            server = socket.create_connection(("127.0.0.1", self._to()), 5)
        except OSError:
            client.close()
            return
        for way, (one, other) in enumerate(((client, server), (server, client))):
            self._ends[one] = (other, self._count, way)
            self._selector.register(one, selectors.EVENT_READ)
        self._count += 1

    def _pass(self, one: socket.socket) -> None:
        if one not in self._ends:
            return
        other, connection, way = self._ends[one]
        try:
            data = one.recv(1 << 16)
        except OSError:
            data = b""
        try:
            if data:
                self.messages.append((connection, way, data))
                other.sendall(data)
                return
        except OSError:
            pass
        for each in (one, other):
            self._selector.unregister(each)
            del self._ends[each]
            each.close()

    def close(self) -> None:
        """Stop, and close all connections."""
        time.sleep(0.2)
        self._ended = True
        self._thread.join(5)
        for one in [*self._ends, self._listener]:
            one.close()


def frames_of(messages: Iterable[Message]) -> Iterator[tuple[int, int, bytes]]:
    """Cut what passed into requests and responses, each without its length."""
    waiting: dict[tuple[int, int], bytearray] = {}
    for connection, way, data in messages:
        held = waiting.setdefault((connection, way), bytearray())
        held += data
        while len(held) >= 4:
            size = int.from_bytes(held[:4], "big")
            if len(held) < 4 + size:
                break
            yield connection, way, bytes(held[4 : 4 + size])
            del held[: 4 + size]


def messages_in(data: bytes) -> list[tuple[int, int, bytes]]:
    """Give the requests and responses of a capture that `capture` made of whole packets."""
    held: list[Message] = []
    at = 24
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at + 8)
        packet = data[at + 16 : at + 16 + size]
        source, destination = struct.unpack_from(">HH", packet, 34)
        way = int(source == 9092)
        held.append(((destination if way else source) - 40_000, way, packet[66:]))
        at += 16 + size
    return list(frames_of(held))
