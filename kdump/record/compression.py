"""Decompress by codec number, with the size of the output bounded (F30-F34).

Nothing here raises on data. What came out before a codec gave up is kept, since records before
the damage can still be read; the reason says that it did give up. Libraries are imported when a
batch first needs them: a lookup must not pay for codecs it does not meet.
"""

from __future__ import annotations

import zlib
from functools import cache
from typing import Any

from kdump.kernels import reasons
from kdump.record import lz4_frame, salvage
from kdump.record.layout import GZIP, LZ4, NONE, SNAPPY, ZSTD
from kdump.record.lz4_frame import add as _add
from kdump.tuples import NamedTuple

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_HEAD_BYTES, _DEFLATE = 10, 8
_GZIP_EXTRA, _GZIP_NAME, _GZIP_COMMENT, _GZIP_RESERVED = 0x04, 0x08, 0x10, 0xE0
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_SIZE = 16
_XERIAL_SIZE_BYTES = 4  # before each block
_STEP = 1 << 17  # uncompressed bytes asked for first; most batches give less
_LARGEST_STEP = 1 << 23
GZIP_CUT = "the gzip stream is truncated"
ZSTD_CUT = "the zstd stream is truncated"
_FIRST_SLICE, _NEXT_SLICE = 1 << 16, 1 << 10  # bytes of a gzip stream fed at a time

# Not in use: a thread takes one out, since two that share one read each other's bytes.
_zstd_openers: list[Any] = []
_lz4_contexts: list[Any] = []

__all__ = ["GZIP", "LZ4", "NONE", "SNAPPY", "ZSTD", "Plain", "decompress"]


class Plain(NamedTuple):
    """Uncompressed bytes, or as many as came out. `data` is None when there is nothing to see."""

    data: bytes | bytearray | None
    reason: int = reasons.END
    detail: str = ""


def decompress(
    codec: int, packed: memoryview, limit: int, *, broken_lz4_header: bool = False
) -> Plain:
    """Decompress one codec stream to at most `limit` bytes.

    `broken_lz4_header`: the stream lies in a magic 0 wrapper, where writers hashed the wrong bytes
    for the header checksum and readers therefore skip it (F34).
    """
    if codec == NONE:
        return Plain(bytes(packed))
    try:
        if codec == LZ4:
            return _lz4(packed, limit, broken_header=broken_lz4_header)
        opener = _OPENERS.get(codec)
        if opener is None:
            return Plain(None, reasons.CODEC_UNKNOWN, f"codec {codec}")
        return opener(packed, limit)
    except ImportError as error:
        return Plain(None, reasons.CODEC_MISSING, str(error))


@cache  # an import that fails is tried anew each time, and takes longer than a batch
def _isal() -> Any:
    try:
        from isal import isal_zlib
    except ImportError:
        return None
    return isal_zlib


def _gzip(packed: memoryview, limit: int) -> Plain:
    """Decompress gzip: by isal where that can be had, by zlib all that isal finds fault with.

    So what is wrong, and what came out before it, does not depend on what is installed.
    """
    isal = _isal()
    if isal is not None:
        plain = _members(isal, packed, limit)
        if not plain.reason:
            return plain
    return _members(zlib, packed, limit)


def _members(inflater: Any, packed: memoryview, limit: int) -> Plain:
    """Gzip members one after the other, as java.util.zip.GZIPInputStream reads them."""
    failure: type[Exception] = inflater.error
    is_isal = inflater is not zlib
    pieces: list[bytes | bytearray] = []
    left, step = limit + 1, _STEP
    # A decoder hands back a copy of all that it was given too much of, and members may be as small
    # as twenty bytes; so only the first is fed in large slices from the start.
    position, feed = 0, _FIRST_SLICE
    sound, sound_bytes = 0, 0  # where the member being read starts, here and in the output
    try:
        while left > 0:
            sound, sound_bytes = position, limit + 1 - left
            if is_isal and len(packed) > position + 3 and packed[position + 3] & _GZIP_RESERVED:
                return Plain(None, reasons.CODEC_FAILED)  # which isal passes over
            stream = inflater.decompressobj(31)
            while not stream.eof and left > 0:
                rest = stream.unconsumed_tail
                if not rest:
                    rest = packed[position : position + feed]
                    position += len(rest)
                    feed = min(feed * 4, _LARGEST_STEP)
                piece = stream.decompress(rest, min(step, left))
                _add(pieces, piece)
                left -= len(piece)
                step = min(step * 4, _LARGEST_STEP)
                if not piece and not rest:
                    break
            if not stream.eof:
                if left > 0:
                    return Plain(_join(pieces), reasons.CODEC_FAILED, GZIP_CUT)
                break
            position -= len(stream.unused_data)
            feed = _NEXT_SLICE
            if not _starts_member(packed, position):
                break  # bytes behind the last member are ignored
    except failure as error:
        if is_isal:
            return Plain(None, reasons.CODEC_FAILED)
        plain = bytearray()
        for piece in pieces:
            plain += piece[: sound_bytes - len(plain)]
        pieces.clear()
        salvage.gzip_member(packed[sound:], limit, plain)
        if len(plain) > limit:
            return Plain(None, reasons.OVER_LIMIT)
        return Plain(plain, reasons.CODEC_FAILED, f"gzip: {error}")
    if left <= 0:
        return Plain(None, reasons.OVER_LIMIT)
    return Plain(_join(pieces))


def _starts_member(packed: memoryview, position: int) -> bool:
    """Whether a whole header of a further gzip member stands at a position."""
    head = bytes(packed[position : position + _GZIP_HEAD_BYTES])
    if len(head) < _GZIP_HEAD_BYTES or not head.startswith(_GZIP_MAGIC) or head[2] != _DEFLATE:
        return False
    flags, position = head[3], position + _GZIP_HEAD_BYTES
    if flags & _GZIP_EXTRA:
        position += 2 + int.from_bytes(packed[position : position + 2], "little")
    for text in (_GZIP_NAME, _GZIP_COMMENT):
        if flags & text:
            position += bytes(packed[position:]).find(b"\0") + 1 or len(packed)
    return position <= len(packed)


@cache
def _snappy_uncompress() -> Any:
    from snappy import uncompress

    return uncompress


def _snappy(packed: memoryview, limit: int) -> Plain:
    """The xerial stream of Java clients, or one raw block as other clients write it (F32)."""
    pieces: list[bytes | bytearray] = []
    if len(packed) < _XERIAL_HEADER_SIZE or bytes(packed[:8]) != _XERIAL_MAGIC:
        return _snappy_block(packed, pieces, limit)[1] or Plain(_join(pieces))
    position, end, left = _XERIAL_HEADER_SIZE, len(packed), limit
    while position + _XERIAL_SIZE_BYTES <= end:  # fewer bytes behind the last block are ignored
        if bytes(packed[position : position + 8]) == _XERIAL_MAGIC:  # concatenated streams
            position += _XERIAL_HEADER_SIZE
            continue
        size = int.from_bytes(packed[position : position + 4], "big", signed=True)
        position += _XERIAL_SIZE_BYTES
        if size < 0 or size > end - position:
            return Plain(_join(pieces), reasons.CODEC_FAILED, "a snappy block is truncated")
        left, failed = _snappy_block(packed[position : position + size], pieces, left)
        if failed is not None:
            return failed
        position += size
    return Plain(_join(pieces))


def _snappy_block(
    block: memoryview, pieces: list[bytes | bytearray], left: int
) -> tuple[int, Plain | None]:
    """Decompress one block; return what is left of the limit, and a failure if any."""
    left -= _snappy_plain_size(block)
    if left < 0:
        return left, Plain(None, reasons.OVER_LIMIT)
    try:
        _add(pieces, _snappy_uncompress()(block))
    except Exception as error:
        problem = f"snappy: {str(error) or 'corrupt block'}"
        return left, Plain(_join(pieces), reasons.CODEC_FAILED, problem)
    return left, None


def _snappy_plain_size(block: memoryview) -> int:
    """Read the length a raw block starts with, which its decoder allocates before it looks on."""
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return size


def _zstd(packed: memoryview, limit: int) -> Plain:
    import zstandard

    pieces: list[bytes | bytearray] = []
    left, step = limit + 1, _STEP
    opener = _take_spare(_zstd_openers) or zstandard.ZstdDecompressor()
    try:
        with opener.stream_reader(packed, read_across_frames=True) as stream:
            while left > 0:
                asked = min(step, left)
                piece = stream.read(asked)
                _add(pieces, piece)
                left -= len(piece)
                if len(piece) < asked:
                    break
                step = min(step * 4, _LARGEST_STEP)
    except zstandard.ZstdError as error:
        pieces.clear()
        plain = salvage.zstd_frames(packed, limit)
        if len(plain) > limit:
            return Plain(None, reasons.OVER_LIMIT)
        return Plain(plain, reasons.CODEC_FAILED, f"zstd: {error}")
    _zstd_openers.append(opener)
    if left <= 0:
        return Plain(None, reasons.OVER_LIMIT)
    if not salvage.zstd_is_whole(packed):
        return Plain(_join(pieces), reasons.CODEC_FAILED, ZSTD_CUT)
    return Plain(_join(pieces))


@cache
def _lz4_frame() -> Any:
    from lz4 import frame

    return frame


def _lz4(packed: memoryview, limit: int, *, broken_header: bool) -> Plain:
    """LZ4 frames: the library where the frame is what it should be, else block by block."""
    lz4 = _lz4_frame()
    if not broken_header:
        pieces: list[bytes | bytearray] = []
        # The binding allocates what it is allowed to give at once: small steps, then larger ones.
        left, step = limit + 1, _STEP
        rest = packed
        try:
            context = _take_spare(_lz4_contexts) or lz4.create_decompression_context()
            while left > 0 and len(rest):
                piece, used, ended = lz4.decompress_chunk(context, rest, max_length=min(step, left))
                _add(pieces, piece)
                left -= len(piece)
                if ended and left > 0:
                    lz4.reset_decompression_context(context)
                    _lz4_contexts.append(context)
                    return Plain(_join(pieces))
                if not piece and not used:
                    break
                rest = rest[used:]
                step = min(step * 4, _LARGEST_STEP)
        except (RuntimeError, MemoryError):
            pass  # the slow way below finds out what is wrong and how far it is sound
        else:
            if left <= 0:
                return Plain(None, reasons.OVER_LIMIT)
    found, detail = lz4_frame.read(packed, limit, check_header=not broken_header)
    if found is None:
        return Plain(None, reasons.OVER_LIMIT)
    return Plain(_join(found), reasons.CODEC_FAILED if detail else reasons.END, detail)


def _take_spare(spare: list[Any]) -> Any:
    """Take one that is not in use, if there is one; another thread may take the last meanwhile."""
    try:
        return spare.pop()
    except IndexError:
        return None


def _join(pieces: list[bytes | bytearray]) -> bytes | bytearray:
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


_OPENERS = {GZIP: _gzip, SNAPPY: _snappy, ZSTD: _zstd}
