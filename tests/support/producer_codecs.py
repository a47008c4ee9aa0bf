"""Compresses as producers do: the streams of Java clients, and those of others."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable

import builders
import lz4.frame
import snappy
import zstandard

Codec = Callable[[bytes], bytes]
XERIAL_HEAD = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def xerial_blocks(*blocks: bytes) -> bytes:
    """Write the snappy stream of Java clients, of blocks that are given."""
    packed = [bytes(snappy.compress(block)) for block in blocks]
    return XERIAL_HEAD + b"".join(struct.pack(">i", len(one)) + one for one in packed)


def xerial(data: bytes) -> bytes:
    """Write the snappy stream of Java clients, in blocks of 32 KiB as they do."""
    return xerial_blocks(*(data[at : at + (32 << 10)] for at in range(0, len(data), 32 << 10)))


def raw_snappy(data: bytes) -> bytes:
    """Write one raw snappy block, as clients other than Java's do."""
    return bytes(snappy.compress(data))


def lz4_frame(data: bytes, **options: object) -> bytes:
    """Write an LZ4 frame of independent blocks, as brokers ask for."""
    packed: bytes = lz4.frame.compress(data, **{"block_linked": False, **options})
    return packed


def lz4_big_blocks(data: bytes) -> bytes:
    """Write an LZ4 frame with blocks of 4 MiB."""
    return lz4_frame(data, block_size=lz4.frame.BLOCKSIZE_MAX4MB)


def pack_broken_lz4(data: bytes) -> bytes:
    """Write an LZ4 frame with the wrong header checksum of magic 0."""
    frame = bytearray(lz4_frame(data))
    at = 6 + (8 if frame[4] & 0x08 else 0)
    frame[at] ^= 0x5A
    return bytes(frame)


def zstd(data: bytes, level: int = 1) -> bytes:
    """Write a zstd frame without its content's size, as Java's streams do."""
    return zstandard.ZstdCompressor(level=level, write_content_size=False).compress(data)


def zstd_wide(data: bytes) -> bytes:
    """Write a zstd frame whose header asks for a window of 128 MiB."""
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=27)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return stream.compress(data) + stream.flush()


CODECS: dict[int, tuple[Codec, ...]] = {
    builders.GZIP: (builders.gzip_bytes, lambda data: gzip.compress(data, 1, mtime=0)),
    builders.SNAPPY: (xerial, raw_snappy),
    builders.LZ4: (lz4_frame, lz4_big_blocks, pack_broken_lz4),
    builders.ZSTD: (zstd, zstd_wide),
}


def unpack(codec: int, packed: bytes, most_bytes: int) -> bytes | None:
    """Undo a codec; None where that fails. Of a zstd frame no more than `most_bytes`."""
    try:
        if codec == builders.GZIP:
            return gzip.decompress(packed)
        if codec == builders.SNAPPY:
            return _unsnap(packed)
        if codec == builders.LZ4:
            return bytes(lz4.frame.decompress(packed))
        if codec == builders.ZSTD:
            with zstandard.ZstdDecompressor().stream_reader(packed) as stream:
                return stream.read(most_bytes)
    except Exception:
        return None
    return None


def _unsnap(packed: bytes) -> bytes:
    if not packed.startswith(XERIAL_HEAD[:8]):
        return bytes(snappy.uncompress(packed))
    plain, at = b"", len(XERIAL_HEAD)
    while at < len(packed):
        size = int.from_bytes(packed[at : at + 4], "big")
        plain += snappy.uncompress(packed[at + 4 : at + 4 + size])
        at += 4 + size
    return plain
