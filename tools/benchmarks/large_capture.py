"""Write a capture of any size to standard output, for readers that are to bound their memory.

    PYTHONPATH=tools:tests/support python -m benchmarks.large_capture 4096 | kdump verify -

It repeats what was recorded of clients, and a producer with large batches, each time from other
addresses and with other sequence numbers. The number is that of MiB.
"""

from __future__ import annotations

import gzip
import random
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import builders
import captures

_CLIENTS = Path(__file__).parents[2] / "tests/captures/clients.pcap.gz"
_PRODUCERS, _BATCHES, _RECORDS, _VALUE_BYTES = 4, 4, 100, 1000
_HEAD_BYTES = 16  # of a packet, in the file
_HOSTS_AT, _SEQUENCE_AT = 26, 38  # in a packet: both addresses, and the number of its first byte
_FIRST_CONNECTION = 1000  # of the producers, behind those that were recorded


def make_requests() -> list[captures.Message]:
    """Make the requests of some producers, and their answers."""
    rng = random.Random(1)
    text = struct.Struct(">h").pack
    made = []
    for producer in range(_PRODUCERS):
        for number in range(_BATCHES):
            values = [rng.randbytes(_VALUE_BYTES) for _ in range(_RECORDS)]
            batch = builders.batch(
                [builders.record(at, 0, b"key", value) for at, value in enumerate(values)],
                producer_id=producer, producer_epoch=0, base_sequence=number * _RECORDS,
            )  # fmt: skip
            topic = struct.pack(">i", 1) + text(6) + b"orders" + struct.pack(">ii", 1, producer)
            request = struct.pack(">hhi", 0, 7, number) + text(8) + b"producer" + text(-1)
            request += struct.pack(">hi", -1, 30_000) + topic
            request += struct.pack(">i", len(batch)) + batch
            answer = struct.pack(">i", number) + topic
            answer += struct.pack(">hqqqi", 0, number * _RECORDS, -1, 0, 0)
            for way, data in enumerate((request, answer)):
                frame = struct.pack(">i", len(data)) + data
                made.append((_FIRST_CONNECTION + producer, way, frame))
    return made


def packets() -> Iterator[tuple[int, bytes]]:
    """Yield the packets that are repeated, with their times."""
    recorded = gzip.decompress(_CLIENTS.read_bytes())
    messages = [
        (connection, way, struct.pack(">i", len(data)) + data)
        for connection, way, data in captures.messages_in(recorded)
    ]
    for one in captures.packets([*messages, *make_requests()]):
        yield one.at_ms, captures.frame_of(one)


def main() -> None:
    """Write the capture."""
    left = int(sys.argv[1]) << 20
    data = captures.pcap(packets())
    out = sys.stdout.buffer
    out.write(data[:24])
    unit = bytearray(data[24:])
    starts, at = [], 0
    while at < len(unit):
        starts.append(at + _HEAD_BYTES)
        at += _HEAD_BYTES + int.from_bytes(unit[at + 8 : at + 12], "little")
    for number in range(1, left // len(unit) + 2):
        host = struct.pack(">BI", 10, number)[-4:]
        for start in starts:
            for place in (start + _HOSTS_AT, start + _HOSTS_AT + 4):
                unit[place : place + 3] = host[1:]
            place = start + _SEQUENCE_AT
            sequence = int.from_bytes(unit[place : place + 4], "big") + 100_003
            unit[place : place + 4] = (sequence & 0xFFFFFFFF).to_bytes(4, "big")
        out.write(unit)


if __name__ == "__main__":
    main()
