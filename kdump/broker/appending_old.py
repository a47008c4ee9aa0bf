"""What brokers before 0.10 make of a set: messages are stored under any magic (V29)."""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

from kdump.broker import versions as v
from kdump.broker.append_set import CLOSES, CORRUPT, UNKNOWN, ProducedSet, RefusedError, Topic
from kdump.broker.appending import Answer, StoredRun, check_framing, check_sizes, note_look
from kdump.broker.versions import has
from kdump.kernels import reasons
from kdump.record.compression import GZIP_CUT, decompress
from kdump.record.layout import (
    CODEC_MASK,
    FORMATS,
    LOG_OVERHEAD,
    NONE,
    PRE08_CODEC_MASK,
    SMALLEST_MESSAGE,
)
from kdump.record.legacy import value_range
from kdump.record.rebuilt_sizes import compute_packed_size
from kdump.record.rewriter import NO_TIMESTAMP, TooManyBytesError

_FORMAT = FORMATS[0]  # which these brokers read everything in
_KEY_SIZE_AT = _FORMAT.header_size - 4
_INVALID = "InvalidMessageException"
_HEADER_SIZES_07 = (5, 6)  # without and with attributes


def append_old(sent: ProducedSet, topic: Topic, answer: Answer) -> None:
    """Fill an answer with what a leader of 0.7 to 0.9 stores; raises what it refuses it with."""
    if not has(topic.broker, v.COUNTED_OFFSETS):
        _append_07(sent.data, topic, answer)
        return
    shallow = check_framing(sent, topic, follower=False)
    note_look(answer, sent, shallow)
    if not shallow.entries:
        return
    codec = shallow.codec if topic.codec is None else topic.codec
    if shallow.codec == codec == NONE:
        _keep(sent, topic, answer)
    else:
        _pack(sent, topic, codec, answer)
    check_sizes(answer, topic)


def _store(
    answer: Answer,
    count: int,
    codec: int,
    entries: int,
    sizes: tuple[int, int],
    magic: int = _FORMAT.magic,
) -> None:
    first = answer.next_offset
    answer.next_offset += count
    last = answer.next_offset - 1
    answer.store(StoredRun(first, last, entries, magic, codec, False, NO_TIMESTAMP, *sizes))


def _keep(sent: ProducedSet, topic: Topic, answer: Answer) -> None:
    """Give offsets to messages that are stored as they came."""
    for rows, row in sent.entries():
        at = rows.position(row) + _KEY_SIZE_AT
        if topic.is_compacted and at + 4 < answer.valid_bytes and _int(sent.data, at) <= 0:
            raise RefusedError(topic.invalid, "a message without a key, for a compacted topic")
        size = rows.size_bytes(row)
        _store(answer, 1, NONE, 1, (size, size), rows.magic(row))
    answer.note("offsets", "uncompressed: only offsets are set")


def _pack(sent: ProducedSet, topic: Topic, codec: int, answer: Answer) -> None:
    """Open all that is compressed, and write it as one wrapper, or plain (KAFKA-1718)."""
    plain = bytearray()
    count, largest = 0, 0
    for rows, row in sent.entries():
        start = rows.position(row)
        entry = memoryview(sent.data)[start : rows.end_position(row)]
        for message in _messages(entry, topic, nested=False):
            if topic.is_compacted and _int(message, _KEY_SIZE_AT) < 0:
                raise RefusedError(topic.invalid, "a message without a key, for a compacted topic")
            plain += (answer.next_offset + count).to_bytes(8, "big", signed=True) + message[8:]
            count, largest = count + 1, max(largest, len(message))
            if len(plain) > topic.limit:
                raise TooManyBytesError
    answer.rewritten = True
    answer.note("rewrite", f"{count:,} messages rewritten, {answer.valid_bytes:,} bytes before")
    if codec and count:
        size = _FORMAT.smallest_size + compute_packed_size(codec, bytes(plain))
        _store(answer, count, codec, 1, (size, size))
    elif count:
        _store(answer, count, codec, count, (len(plain), largest))


def _messages(entry: memoryview, topic: Topic, *, nested: bool) -> Iterator[memoryview]:
    """Yield the messages in an entry, or itself; 0.8 opens wrappers in wrappers (F16)."""
    codec = entry[_FORMAT.header_size - 5] & CODEC_MASK
    if not codec or (nested and has(topic.broker, v.TOPICS_HAVE_CODECS)):
        yield entry
        return
    first, last, reason = value_range(entry, 0, len(entry), _FORMAT.magic)
    if reason:
        raise RefusedError(UNKNOWN, f"a wrapper without a value ({reasons.NAMES[reason]})")
    opened = decompress(codec, entry[first:last], topic.limit, broken_lz4_header=True)
    if opened.reason == reasons.OVER_LIMIT:
        raise TooManyBytesError
    ends_early = opened.detail == GZIP_CUT and has(topic.broker, v.TOPICS_HAVE_CODECS)
    if opened.data is None or (opened.reason and not ends_early):
        raise RefusedError(UNKNOWN, f"a wrapper that cannot be opened: {opened.detail}")
    inner, at = memoryview(opened.data), 0
    while at + LOG_OVERHEAD <= len(inner):
        size = _int(inner, at + 8)
        if size < SMALLEST_MESSAGE:
            raise RefusedError(CORRUPT, f"a size field of {size:,} in a wrapper")
        end = at + LOG_OVERHEAD + size
        if end > len(inner):
            return
        yield from _messages(inner[at:end], topic, nested=True)
        at = end


def _append_07(data: bytes, topic: Topic, answer: Answer) -> None:
    """Say what 0.7 stores: the bytes as they are. It answers nothing; what it refuses ends it."""
    most = topic.settings.message_max_bytes
    view = memoryview(data)
    for start, end in _frames_07(view):
        size = end - start - _header_size_07(view[start:end])
        if size > most:
            words = f"{size:,} bytes, max.message.size is {most:,}; silently dropped"
            raise RefusedError("MessageSizeTooLargeException", words)
    for start, end in _frames_07(view):
        _check_07(view[start:end], topic, [topic.limit])
        answer.valid_bytes, size = end, end - start + 4
        first = answer.next_offset
        answer.next_offset += size
        codec = view[start + 1] & PRE08_CODEC_MASK if view[start] else NONE
        last = answer.next_offset - 1
        answer.store(StoredRun(first, last, 1, view[start], codec, False, NO_TIMESTAMP, size, size))


def _frames_07(view: memoryview) -> Iterator[tuple[int, int]]:
    """Yield where each message lies, without its size field; a torn one ends them (F2)."""
    at = 0
    while at + 4 <= len(view):
        size = _int(view, at)
        if size < 0 or size > len(view) - at - 4:
            if not at or size < 0:
                raise RefusedError(
                    "InvalidMessageSizeException", f"a size field of {size:,}{CLOSES}"
                )
            return
        yield at + 4, at + 4 + size
        at += 4 + size


def _header_size_07(message: memoryview) -> int:
    if not message or message[0] >= len(_HEADER_SIZES_07):
        raise RefusedError(_INVALID, f"a message without a known magic byte{CLOSES}")
    size = _HEADER_SIZES_07[message[0]]
    if len(message) < size:
        raise RefusedError(_INVALID, f"a message shorter than its header{CLOSES}")
    return size


def _check_07(message: memoryview, topic: Topic, left: list[int]) -> None:
    """Check the checksum of a message, and of all that a wrapper holds."""
    size = _header_size_07(message)
    payload = message[size:]
    if int.from_bytes(message[size - 4 : size], "big") != crc32(payload):
        raise RefusedError(_INVALID, f"a wrong checksum{CLOSES}")
    codec = message[1] & PRE08_CODEC_MASK if message[0] else NONE
    if not codec:
        return
    opened = decompress(codec, payload, left[0])
    if opened.reason == reasons.OVER_LIMIT:
        raise TooManyBytesError
    if opened.data is None or opened.reason or codec > 2:
        raise RefusedError(_INVALID, f"a wrapper that cannot be opened{CLOSES}")
    left[0] -= len(opened.data)
    inner = memoryview(opened.data)
    for start, end in _frames_07(inner):
        _check_07(inner[start:end], topic, left)


def _int(data: bytes | memoryview, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "big", signed=True)
