"""The frames in a capture of packets: connections put together, and cut into frames.

Who sent the SYN is the client; where the capture begins later, whoever sends what looks like a
request. A connection whose client begins with neither a request nor TLS is none of Kafka's. Where
bytes are missing, reading goes on at the next packet that begins with a request or an answer.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.engine.frames.exchange import DecodedFrame, Exchange
from kdump.engine.frames.frame import HEAD_BYTES, LENGTH_BYTES, Frame, Pieces
from kdump.findings.finding import Finding, finding
from kdump.storage.pcap import (
    ACK,
    FIN,
    RST,
    SYN,
    CaptureBreak,
    Segment,
    SkippedPacket,
    address_text,
    segments,
)
from kdump.storage.tcp import MOST_WAITING, MOST_WAITING_IN_ALL, Chunk, Stream

if TYPE_CHECKING:
    from kdump.storage.source import Source

MOST_CONNECTIONS = 16_384
_MOST_PIECES = 1 << 20  # of frames that are not complete, in all connections
_PATIENCE = 1 << 16
_MOST_UNMATCHED = 1024  # responses that wait for their requests, in all connections
_MOST_UNMATCHED_PIECES = 256
_MOST_CLOSED = 4096
_MOST_ENCRYPTED = 100  # of those each is reported
_UNKNOWN, _KAFKA, _TLS, _OTHER = "unknown", "kafka", "tls", "other"
_MOST_EARLY = 1 << 16  # bytes of a server before its client has said anything
_KNOWN_BY = 12  # bytes that tell what a connection is
_TLS_TYPES = frozenset((20, 21, 22, 23))

Item = Frame | Finding


class _Half:
    """One direction: its stream, and the bytes that wait to be a frame."""

    def __init__(self) -> None:
        self.stream = Stream()
        self.pieces = Pieces()
        self.is_synced = False
        self.needs = 0  # bytes of the next frame, where its length was read
        self.skip = 0  # bytes of a frame that is not read
        self.lost = 0  # bytes that the capture lacks, not reported yet
        self.passed = 0  # bytes that were passed over since
        self.lost_at = 0


class Connection:
    """Both directions between two ends."""

    def __init__(self, reader: CaptureReader, ends: tuple[str, str]) -> None:
        self._reader = reader
        self.ends = ends
        self.halves = (_Half(), _Half())
        self.client: int | None = None
        self.kind = _UNKNOWN
        self.position = -1
        self.bytes = 0
        self._exchange = Exchange()
        self._unmatched: list[tuple[Pieces, int | None]] = []

    def take(self, way: int, chunks: list[Chunk]) -> Iterator[Item]:
        """Take the bytes of one direction that are in order."""
        half = self.halves[way]
        for chunk in chunks:
            self.bytes += chunk.size
            if self.position < 0:
                self.position = chunk.position
            if self.kind in (_TLS, _OTHER):
                continue
            if chunk.lacking:
                yield from self._gap(way, chunk)
            position, size = chunk.position, chunk.size
            if half.skip:
                passed = min(half.skip, size)
                half.skip -= passed
                position, size = position + passed, size - passed
                if not size:
                    continue
            if not half.is_synced and not (chunk.starts and self._syncs(way, position, size)):
                if not half.passed and not half.lost:
                    half.lost_at = position
                half.passed += size
                continue
            if half.lost or half.passed:
                yield self._lost_finding(way)
            half.pieces.add(position, size)
            self._reader.pieces += 1
            yield from self._frames(way, chunk.at_ms)

    def _gap(self, way: int, chunk: Chunk) -> Iterator[Item]:
        """Give up the frame that bytes are missing of; where its end is known, go on there."""
        half = self.halves[way]
        left = half.skip
        if half.pieces.size >= LENGTH_BYTES and half.is_synced:
            head = half.pieces.read(self._reader.source, LENGTH_BYTES)
            left = LENGTH_BYTES + int.from_bytes(head, "big", signed=True) - half.pieces.size
        if not half.lost:
            half.lost_at = chunk.position
        half.lost += chunk.lacking
        half.passed += half.pieces.size
        self._drop(half)
        half.skip = max(left - chunk.lacking, 0)
        half.is_synced = half.is_synced and left >= chunk.lacking
        if half.is_synced:
            yield self._lost_finding(way)

    def _drop(self, half: _Half) -> None:
        self._reader.pieces -= len(half.pieces)
        half.pieces, half.needs = Pieces(), 0

    def _syncs(self, way: int, position: int, size: int) -> bool:
        """Whether a packet's bytes begin with a frame."""
        head = self._reader.source.read(position, min(size, HEAD_BYTES))
        if int.from_bytes(head[:LENGTH_BYTES], "big") > self._reader.limit and not _is_tls(head):
            return False
        if self.kind == _UNKNOWN:
            if _is_tls(head):
                self.kind = _TLS
                return False
            if self.client in (None, way) and self._begins(way, head):
                self.kind, self.client = _KAFKA, way
                self.halves[way].is_synced = True
                return True
            return False
        if not self._begins(way, head):
            return False
        self.halves[way].is_synced = True
        return True

    def _begins(self, way: int, head: bytes) -> bool:
        size = int.from_bytes(head[:LENGTH_BYTES], "big", signed=True)
        rest = head[LENGTH_BYTES:]
        if self.client in (None, way):
            is_sure = self.client is not None
            return self._exchange.begins_request(rest, size, strictly=not is_sure)
        return self._exchange.begins_response(rest, size)

    def _lost_finding(self, way: int) -> Finding:
        half = self.halves[way]
        lost, passed = half.lost, half.passed
        half.lost = half.passed = 0
        ends = f"from {self.ends[way]} to {self.ends[1 - way]}"
        if not lost:
            words = f"{passed:,} bytes {ends} before the first whole message were skipped."
            return self._finding("capture-skipped", half.lost_at, passed, words)
        more = f"; {passed:,} bytes around them were skipped" if passed else ""
        words = f"{lost:,} bytes {ends} are missing in the capture{more}."
        return self._finding("capture-gap", half.lost_at, lost, words)

    def _finding(self, code: str, position: int, size: int, message: str) -> Finding:
        path = self._reader.source.path
        return finding(code, path=path, position=position, size_bytes=size, message=message)

    def _frames(self, way: int, at_ms: int | None) -> Iterator[Item]:
        """Cut the bytes of a direction into frames."""
        half, source = self.halves[way], self._reader.source
        if self.kind == _UNKNOWN and not self._detect(way):
            return
        while half.pieces.size >= max(LENGTH_BYTES, half.needs):
            pieces, half.needs = half.pieces, 0
            size = int.from_bytes(pieces.read(source, LENGTH_BYTES), "big", signed=True)
            whole = LENGTH_BYTES + size
            is_large = size > self._reader.limit or self._reader.pieces > _MOST_PIECES
            if size < 0 or (is_large and not self._is_frame(way, pieces)):
                words = (
                    f"A length of {size:,} bytes is impossible: reading continues at the next "
                    f"packet."
                )
                yield self._finding("frame-length", pieces.position, pieces.size, words)
                self._drop(half)
                half.is_synced = False
                return
            if pieces.size < whole and not is_large:
                # Asked again where there are too many pieces to wait for all of it.
                half.needs = min(whole, pieces.size + _PATIENCE)
                return
            if is_large:
                yield from self._large(way, pieces, whole, at_ms)
                half.skip = max(whole - pieces.size, 0)
                if half.skip:
                    self._drop(half)
                    return
            before = len(pieces)
            one = pieces.split(whole)
            self._reader.pieces += len(pieces) - before
            if not is_large:
                yield from self._frame(way, one, at_ms)

    def _is_frame(self, way: int, pieces: Pieces) -> bool:
        return self._begins(way, pieces.read(self._reader.source, HEAD_BYTES))

    def _large(self, way: int, pieces: Pieces, whole: int, at_ms: int | None) -> Iterator[Item]:
        """Name a frame that is too large, by its beginning."""
        data = pieces.read(self._reader.source, HEAD_BYTES)[LENGTH_BYTES:]
        exchange = self._exchange
        if way == self.client:
            said = exchange.request(data, whole=False)
        else:
            said = exchange.response(data, whole=False)
        words = f"The frame of {whole:,} bytes is too large to be held in memory."
        said = said._replace(fields=None, parts=None, problem=("over-decompress-limit", words))
        yield self._make_frame(way, pieces, whole, data, said, at_ms)

    def _detect(self, way: int) -> bool:
        """Find out what the connection is; whether its frames can be cut now."""
        half = self.halves[way]
        if self.client != way:
            if half.pieces.size <= _MOST_EARLY:
                return False
            self.kind = _OTHER
        else:
            if half.pieces.size < _KNOWN_BY:
                return False
            head = half.pieces.read(self._reader.source, HEAD_BYTES)
            if _is_tls(head):
                self.kind = _TLS
            elif self._begins(way, head):
                self.kind = _KAFKA
                return True
            else:
                self.kind = _OTHER
        for one in self.halves:
            self._drop(one)
        return False

    def _frame(self, way: int, pieces: Pieces, at_ms: int | None) -> Iterator[Item]:
        data = pieces.read(self._reader.source)[LENGTH_BYTES:]
        exchange = self._exchange
        if way == self.client:
            exchange.share(self._reader.open_connections)
            said = exchange.request(data)
            yield self._make_frame(way, pieces, pieces.size, data, said, at_ms)
            for number, waiting in enumerate(self._unmatched):
                held = waiting[0].read(self._reader.source)[LENGTH_BYTES:]
                if exchange.is_awaited(held):
                    del self._unmatched[number]
                    self._reader.unmatched -= 1
                    yield from self._response(waiting[0], held, waiting[1])
                    break
            if self.halves[1 - way].pieces.size:
                yield from self._frames(1 - way, at_ms)
            return
        if exchange.is_awaited(data) or not self._may_come(pieces):
            yield from self._response(pieces, data, at_ms)
        else:
            self._reader.unmatched += 1
            self._unmatched.append((pieces, at_ms))

    def _may_come(self, pieces: Pieces) -> bool:
        """Whether a request may still come that was answered already: packets may be swapped."""
        asks = self.halves[self.client or 0]
        has_room = self._reader.unmatched < _MOST_UNMATCHED
        return has_room and len(pieces) < _MOST_UNMATCHED_PIECES and not asks.stream.is_ended

    def _response(self, pieces: Pieces, data: bytes, at_ms: int | None) -> Iterator[Item]:
        way = 1 - (self.client or 0)
        said = self._exchange.response(data)
        yield self._make_frame(way, pieces, pieces.size, data, said, at_ms)

    def _make_frame(
        self,
        way: int,
        pieces: Pieces,
        whole: int,
        data: bytes,
        said: DecodedFrame,
        at_ms: int | None,
    ) -> Frame:
        return Frame(
            pieces.position,
            whole,
            data,
            said,
            pieces.places(),
            at_ms,
            self.ends[way],
            self.ends[1 - way],
        )

    def end(self) -> Iterator[Item]:
        """Report what is left when the connection, or the capture, has ended."""
        for way, half in enumerate(self.halves):
            while chunks := half.stream.give_up():
                yield from self.take(way, chunks)
            if not half.pieces.size:
                half.lost += half.stream.count_left_out()
        self._reader.unmatched -= len(self._unmatched)
        for pieces, at_ms in self._unmatched:
            data = pieces.read(self._reader.source)[LENGTH_BYTES:]
            yield from self._response(pieces, data, at_ms)
        self._unmatched = []
        if self.kind != _KAFKA:
            for way, half in enumerate(self.halves):
                self._drop(half)
                if half.lost and self.kind == _UNKNOWN:
                    yield self._lost_finding(way)
            if self.bytes:
                yield from self._reader.report_unread(self)
            return
        for way, half in enumerate(self.halves):
            if half.lost or half.passed:
                yield self._lost_finding(way)
            size = half.pieces.size
            if size or half.skip:
                at = half.pieces.position if size else self.position
                held = f"of which there are {size:,} bytes" if size else "whose end is missing"
                words = f"a message from {self.ends[way]} to {self.ends[1 - way]}, {held}."
                if half.stream.is_ended:
                    words = f"The connection ends within {words}"
                    yield self._finding("frame-cut-short", at, size, words)
                else:
                    words = f"The capture ends within {words}"
                    yield self._finding("capture-skipped", at, size, words)
                self._drop(half)


class CaptureReader:
    """Reads one capture. `limit` bounds a frame that is held in memory."""

    def __init__(self, source: Source, limit: int) -> None:
        self.source, self.limit = source, limit
        self.pieces = self.unmatched = 0
        self._connections: OrderedDict[tuple[object, object], Connection] = OrderedDict()
        self._closed: OrderedDict[tuple[object, object], None] = OrderedDict()
        self._skipped: dict[str, list[int]] = {}
        self._waiting = 0
        self._encrypted = 0

    @property
    def open_connections(self) -> int:
        """How many connections are open, at least one."""
        return max(len(self._connections), 1)

    def items(self) -> Iterator[Item]:
        """Yield the frames of all connections, in the order in which they are complete."""
        for one in segments(self.source):
            if isinstance(one, SkippedPacket):
                self._skip(one.reason, one.position)
            elif isinstance(one, CaptureBreak):
                words = f"{one.reason[:1].upper()}{one.reason[1:]}."
                yield self._finding("capture-cut-short", one.position, None, words)
            else:
                yield from self._segment(one)
        for connection in list(self._connections.values()):
            yield from connection.end()
        for reason, (position, count) in self._skipped.items():
            words = f"Not read: {reason}"
            more = f"; {count:,} in this capture" if count > 1 else ""
            yield self._finding("capture-skipped", position, None, f"{words}{more}.")

    def _finding(self, code: str, position: int, size: int | None, message: str) -> Finding:
        path = self.source.path
        return finding(code, path=path, position=position, size_bytes=size, message=message)

    def _skip(self, reason: str, position: int) -> None:
        self._skipped.setdefault(reason, [position, 0])[1] += 1

    def report_unread(self, connection: Connection) -> Iterator[Finding]:
        """Report a connection that is encrypted, or none of Kafka's."""
        first, second = connection.ends
        if connection.kind != _TLS:
            self._skip("connections without a request", connection.position)
        elif self._encrypted < _MOST_ENCRYPTED:
            self._encrypted += 1
            size = connection.bytes
            words = f"The connection between {first} and {second} is encrypted: {size:,} bytes."
            yield self._finding("capture-encrypted", connection.position, size, words)
        else:
            self._skip("further connections that are encrypted", connection.position)

    def _segment(self, one: Segment) -> Iterator[Item]:
        way = int(one.source > one.destination)
        key = (one.destination, one.source) if way else (one.source, one.destination)
        opens = bool(one.flags & SYN)
        connection = self._connections.get(key)
        if opens and not one.flags & ACK and connection is not None and connection.bytes:
            yield from self._close(key, connection)
            connection = None
        if connection is None:
            if not opens and (key in self._closed or not one.size + one.missing):
                return
            self._closed.pop(key, None)
            connection = self._open(key, one, way)
            if len(self._connections) > MOST_CONNECTIONS:
                yield from self._close(*next(iter(self._connections.items())))
        half = connection.halves[way]
        stream = half.stream
        if opens:
            connection.client = 1 - way if one.flags & ACK else way
            if stream.next is None:
                stream.open(one.sequence)
                half.is_synced = True
            return
        before = stream.waiting_count
        yield from connection.take(way, stream.take(one, is_last=bool(one.flags & FIN)))
        self._waiting += stream.waiting_count - before
        if stream.waiting_count > MOST_WAITING or self._waiting > MOST_WAITING_IN_ALL:
            before = stream.waiting_count
            yield from connection.take(way, stream.give_up())
            self._waiting += stream.waiting_count - before
        if one.flags & RST or all(each.stream.is_ended for each in connection.halves):
            yield from self._close(key, connection)

    def _open(self, key: tuple[object, object], one: Segment, way: int) -> Connection:
        ends = (address_text(one.source), address_text(one.destination))
        connection = Connection(self, ends if way == 0 else (ends[1], ends[0]))
        self._connections[key] = connection
        return connection

    def _close(self, key: tuple[object, object], connection: Connection) -> Iterator[Item]:
        del self._connections[key]
        self._closed[key] = None
        if len(self._closed) > _MOST_CLOSED:
            self._closed.popitem(last=False)
        self._waiting -= sum(half.stream.waiting_count for half in connection.halves)
        yield from connection.end()


def _is_tls(head: bytes) -> bool:
    """Whether bytes begin like a record of TLS."""
    return len(head) >= 3 and head[0] in _TLS_TYPES and head[1] == 3 and head[2] <= 4
