"""Read LZ4 frames block by block as brokers do (F33), where the library refuses them."""

from __future__ import annotations

import struct

_SMALL = 512  # bytes; an object of its own costs a small piece many times its size


def add(pieces: list[bytes | bytearray], piece: bytes) -> None:
    """Append a piece to the others; small ones that follow each other become one."""
    if len(piece) >= _SMALL or not pieces:
        pieces.append(piece)
    elif isinstance(pieces[-1], bytearray):
        pieces[-1] += piece
    elif piece:
        pieces.append(bytearray(piece))


MAGIC = 0x184D2204
_BLOCK_SIZES = {4: 1 << 16, 5: 1 << 18, 6: 1 << 20, 7: 1 << 22}
_INDEPENDENT, _BLOCK_CHECKSUM, _CONTENT_SIZE, _CONTENT_CHECKSUM = 0x20, 0x10, 0x08, 0x04
_STORED = 1 << 31
_MASK = 0xFFFFFFFF
_PRIMES = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
_STRIPE = 16
# Block checksums are summed in Python, so a hostile stream must not ask for too many.
_SUMMED_BYTES = 8 << 20


def read(
    packed: memoryview, limit: int, *, check_header: bool
) -> tuple[list[bytes | bytearray] | None, str]:
    """Return (uncompressed pieces, what is wrong or nothing); None for the pieces: over `limit`.

    Stops at the end mark. The content checksum must be there and is not looked at, the block
    checksums are.
    """
    from lz4 import block as lz4_block

    pieces: list[bytes | bytearray] = []
    end = len(packed)
    if end < 7 or int.from_bytes(packed[:4], "little") != MAGIC:
        return pieces, "not an LZ4 frame"
    flags, descriptor = packed[4], packed[5]
    maximum = _BLOCK_SIZES.get(descriptor >> 4 & 7)
    if flags >> 6 != 1 or not flags & _INDEPENDENT or maximum is None:
        return pieces, f"LZ4 frame descriptor {flags:02x} {descriptor:02x}"
    position = 6 + (8 if flags & _CONTENT_SIZE else 0)
    if position >= end:
        return pieces, "the LZ4 frame is truncated"
    wrong_header = ""
    if check_header:
        wanted = xxh32(packed[4:position]) >> 8 & 0xFF
        if packed[position] != wanted:
            wrong_header = f"LZ4 header checksum {packed[position]:02x}, computed {wanted:02x}"
    position += 1
    left = limit
    while True:
        if end - position < 4:
            return pieces, "the LZ4 frame has no end mark"
        size = int.from_bytes(packed[position : position + 4], "little")
        position += 4
        stored, size = size >= _STORED, size & ~_STORED
        if size == 0:
            break
        trailer = 4 if flags & _BLOCK_CHECKSUM else 0
        if size > maximum or size + trailer > end - position:
            return pieces, f"LZ4 block of {size} bytes"
        piece = packed[position : position + size]
        position += size + trailer
        if trailer and position <= _SUMMED_BYTES:
            sums = int.from_bytes(packed[position - 4 : position], "little"), xxh32(piece)
            if sums[0] != sums[1]:
                return pieces, f"LZ4 block checksum {sums[0]:08x}, computed {sums[1]:08x}"
        try:
            plain = (
                bytes(piece) if stored else lz4_block.decompress(piece, uncompressed_size=maximum)
            )
        except (lz4_block.LZ4BlockError, MemoryError) as error:
            return pieces, f"lz4: {error}"
        left -= len(plain)
        if left < 0:
            return None, ""
        add(pieces, plain)
    if flags & _CONTENT_CHECKSUM and end - position < 4:
        return pieces, "the content checksum of the LZ4 frame is truncated"
    return pieces, wrong_header


def xxh32(data: bytes | memoryview) -> int:
    """Return XXH32 with seed 0, the checksum of LZ4 frames."""
    first, second, third, fourth, fifth = _PRIMES
    position, size = 0, len(data)
    value = fifth
    if size >= _STRIPE:
        lanes = [first + second & _MASK, second, 0, -first & _MASK]
        position = size - size % _STRIPE
        for words in struct.iter_unpack("<4I", data[:position]):
            for lane, word in enumerate(words):
                turned = lanes[lane] + word * second & _MASK
                lanes[lane] = (turned << 13 | turned >> 19) * first & _MASK
        value = 0
        for lane, turn in zip(lanes, (1, 7, 12, 18), strict=True):
            value += lane << turn | lane >> 32 - turn
    value = value + size & _MASK
    while position + 4 <= size:
        (word,) = struct.unpack_from("<I", data, position)
        value = value + word * third & _MASK
        value = (value << 17 | value >> 15) * fourth & _MASK
        position += 4
    for byte in data[position:]:
        value = value + byte * fifth & _MASK
        value = (value << 11 | value >> 21) * first & _MASK
    value = (value ^ value >> 15) * second & _MASK
    value = (value ^ value >> 13) * third & _MASK
    return value ^ value >> 16
