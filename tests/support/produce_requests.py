"""Produce requests, byte by byte, to a broker of any release, and what it answers."""

import socket
import struct
from typing import NamedTuple

#: The names of the errors that a set can be refused with.
ERRORS = {
    0: None,
    -1: "UNKNOWN_SERVER_ERROR",
    2: "CORRUPT_MESSAGE",
    10: "MESSAGE_TOO_LARGE",
    17: "INVALID_TOPIC_EXCEPTION",
    18: "RECORD_LIST_TOO_LARGE",
    32: "INVALID_TIMESTAMP",
    43: "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    45: "OUT_OF_ORDER_SEQUENCE_NUMBER",
    46: "DUPLICATE_SEQUENCE_NUMBER",
    47: "INVALID_PRODUCER_EPOCH",
    48: "INVALID_TXN_STATE",
    59: "UNKNOWN_PRODUCER_ID",
    76: "UNSUPPORTED_COMPRESSION_TYPE",
    87: "INVALID_RECORD",
}


class ProduceResult(NamedTuple):
    """The answer for the one partition of a request; `closed`: the broker closed the connection."""

    error: str | None
    offset: int
    stamp_ms: int = -1
    closed: bool = False
    words: str = ""


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


class Producer:
    """One connection, opened again where the broker closes it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None

    def send(self, topic: str, data: bytes, version: int) -> ProduceResult:
        """Send a set to partition 0 of a topic."""
        body = struct.pack(">hhi", 0, version, 1) + _text("kdump")
        body += struct.pack(">h", -1) if version >= 3 else b""
        body += struct.pack(">hii", 1, 30_000, 1) + _text(topic)
        body += struct.pack(">iii", 1, 0, len(data)) + data
        answer = self._ask(body)
        if answer is None:
            return ProduceResult("closed", -1, closed=True)
        at = 4 + 4 + 2 + len(topic) + 4 + 4
        error, offset = struct.unpack_from(">hq", answer, at)
        stamp = struct.unpack_from(">q", answer, at + 10)[0] if version >= 2 else -1
        words = answer[at + 26 : -4].decode("latin-1") if version >= 8 else ""
        return ProduceResult(ERRORS.get(error, str(error)), offset, stamp, words=words)

    def _ask(self, body: bytes) -> bytes | None:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=30)
        try:
            self._socket.sendall(struct.pack(">i", len(body)) + body)
            size = struct.unpack(">i", self._exactly(4))[0]
            return self._exactly(size)
        except (EOFError, ConnectionError):
            self.close()
            return None

    def _exactly(self, size: int) -> bytes:
        assert self._socket is not None
        found = b""
        while len(found) < size:
            piece = self._socket.recv(size - len(found))
            if not piece:
                raise EOFError
            found += piece
        return found

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
