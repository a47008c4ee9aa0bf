"""Salvage a broken codec stream: its uncompressed bytes up to the place where it breaks.

Decoders hand out nothing of the call in which they fail, so that a stream fed to them whole gives
nothing at all, even if only the checksum behind its last byte is wrong. Only streams that failed
come here; then the same bytes are fed again in ever smaller pieces.
"""

from __future__ import annotations

import zlib

_GZIP_SLICE = 1024
_ZSTD_STEP = 64
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"  # behind a byte 50 to 5f
_RLE_BLOCK, _RESERVED_BLOCK = 1, 3


def gzip_member(packed: memoryview, limit: int, plain: bytearray) -> None:
    """Add to `plain` what one broken gzip member gives, to little more than `limit` bytes."""
    sound = 0
    stream = zlib.decompressobj(31)
    try:
        while sound < len(packed) and len(plain) <= limit and not stream.eof:
            plain += stream.decompress(packed[sound : sound + _GZIP_SLICE])
            sound += _GZIP_SLICE
    except zlib.error:
        stream = zlib.decompressobj(31)
        stream.decompress(packed[:sound])
        try:
            for at in range(sound, min(sound + _GZIP_SLICE, len(packed))):
                plain += stream.decompress(packed[at : at + 1])
        except zlib.error:
            pass


def zstd_frames(packed: memoryview, limit: int) -> bytearray:
    """Decode zstd frames as far as they go, to little more than `limit` bytes."""
    import zstandard

    plain = bytearray()
    for step in (_ZSTD_STEP, 1):  # what the last large step did not give comes byte by byte
        opener = zstandard.ZstdDecompressor()
        try:
            with opener.stream_reader(packed, read_across_frames=True) as stream:
                if plain:
                    stream.read(len(plain))
                while len(plain) <= limit:
                    piece = stream.read(step)
                    if not piece:
                        break
                    plain += piece
        except zstandard.ZstdError:
            pass
    return plain


def zstd_is_whole(packed: memoryview) -> bool:
    """Whether the bytes end where a zstd frame ends, which its decoder does not tell (RFC 8878)."""
    position, end = 0, len(packed)
    while position < end:
        magic = bytes(packed[position : position + 4])
        if magic[1:] == _ZSTD_SKIPPABLE and magic[0] >> 4 == 5:
            size = int.from_bytes(packed[position + 4 : position + 8], "little")
            position += 8 + size
            continue
        if magic != _ZSTD_MAGIC or position + 4 >= end:
            return False
        descriptor = packed[position + 4]
        single_segment = descriptor >> 5 & 1
        position += 6 - single_segment + (0, 1, 2, 4)[descriptor & 3]
        position += (single_segment, 2, 4, 8)[descriptor >> 6]
        last = 0
        while not last:
            if position + 3 > end:
                return False
            header = int.from_bytes(packed[position : position + 3], "little")
            last, kind, size = header & 1, header >> 1 & 3, header >> 3
            if kind == _RESERVED_BLOCK:
                return False
            position += 3 + (1 if kind == _RLE_BLOCK else size)
        position += descriptor & 4  # the flag's own bit is the checksum's size
    return position == end > 0
