"""compression: every codec there and back, bounded, and as far as a broken stream goes."""

import gzip
import random
import struct
import sys
import tracemalloc
import zlib
from collections.abc import Callable

import lz4.frame
import pytest
import snappy
import zstandard
from damage import flip_bit, put
from each import each
from producer_codecs import lz4_frame, xerial_blocks

from kdump.kernels import reasons
from kdump.record import compression
from kdump.record.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, Plain, decompress
from kdump.record.lz4_frame import xxh32
from kdump.record.salvage import zstd_is_whole

LIMIT = 1 << 20
TEXT = b"".join(b"record %d of many; " % number for number in range(500))
NOISE = random.Random(3).randbytes(70_000)


def lz4_stream(plain: bytes, **options: object) -> bytes:
    """Write an LZ4 frame with blocks of 64 KiB, as Java clients do."""
    return lz4_frame(plain, **{"block_size": lz4.frame.BLOCKSIZE_MAX64KB, **options})


def with_broken_header(frame: bytes) -> bytes:
    """Give an LZ4 frame the header checksum that magic 0 writers gave it (F34)."""
    return frame[:6] + bytes([xxh32(frame[:6]) >> 8 & 0xFF]) + frame[7:]


def unpacked(codec: int, packed: bytes, limit: int = LIMIT) -> Plain:
    return decompress(codec, memoryview(packed), limit)


STREAMS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "gzip": (GZIP, lambda plain: gzip.compress(plain, mtime=0)),
    "xerial": (SNAPPY, lambda plain: xerial_blocks(plain[:1000], plain[1000:])),
    "raw snappy": (SNAPPY, snappy.compress),
    "lz4": (LZ4, lz4_stream),
    "lz4 with sums": (LZ4, lambda plain: lz4_stream(plain, block_checksum=True)),
    "lz4 linked": (LZ4, lambda plain: lz4_stream(plain, block_linked=True)),
    "zstd": (ZSTD, zstandard.compress),
    "zstd with sum": (ZSTD, zstandard.ZstdCompressor(write_checksum=True).compress),
    "zstd without size": (ZSTD, zstandard.ZstdCompressor(write_content_size=False).compress),
}
EACH = pytest.mark.parametrize("name", STREAMS)


@EACH
@pytest.mark.parametrize("plain", [b"", b"x", TEXT, NOISE], ids=["empty", "one", "text", "noise"])
def test_compression_round_trips(name: str, plain: bytes) -> None:
    codec, pack = STREAMS[name]
    assert unpacked(codec, pack(plain)) == Plain(plain)


@EACH
def test_other_threads_may_read_in_between(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    codec, pack = STREAMS[name]
    packed, others = pack(NOISE * 3), list[Plain]()
    add = compression._add

    def meanwhile(pieces: list[bytes | bytearray], piece: bytes) -> None:
        add(pieces, piece)
        if not others:  # what another thread does while this one waits for its turn
            others.append(Plain(None))
            others[0] = unpacked(codec, pack(TEXT))

    monkeypatch.setattr(compression, "_add", meanwhile)
    assert unpacked(codec, packed) == Plain(NOISE * 3)
    assert all(other == Plain(TEXT) for other in others)


@pytest.mark.parametrize("codec", [LZ4, ZSTD])
def test_other_threads_may_take_the_last_spare_context(
    codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Taken(list[object]):
        def __bool__(self) -> bool:  # the other thread takes it behind this answer
            return True

    monkeypatch.setattr(compression, "_lz4_contexts", Taken())
    monkeypatch.setattr(compression, "_zstd_openers", Taken())
    packed = lz4_stream(TEXT) if codec == LZ4 else zstandard.compress(TEXT)
    assert unpacked(codec, packed) == Plain(TEXT)


def test_uncompressed_bytes_are_unchanged() -> None:
    assert unpacked(NONE, TEXT) == Plain(TEXT)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codec_is_refused(codec: int) -> None:
    assert unpacked(codec, TEXT) == Plain(None, reasons.CODEC_UNKNOWN, f"codec {codec}")


@EACH
def test_limit_bounds_the_output(name: str) -> None:
    codec, pack = STREAMS[name]
    packed = pack(TEXT)
    assert unpacked(codec, packed, len(TEXT)).data == TEXT
    over = Plain(None, reasons.OVER_LIMIT)
    assert unpacked(codec, packed, len(TEXT) - 1) == over
    assert unpacked(codec, packed, 0) == over


@EACH
def test_truncation_at_every_byte_is_survived(name: str) -> None:
    codec, pack = STREAMS[name]
    packed = pack(TEXT[:3000])
    # A xerial stream has no end of its own: cut between blocks it is a whole one, also with up to
    # three bytes of the next block's size, which the library behind brokers ignores.
    ends = (16, len(xerial_blocks(TEXT[:1000]))) if name == "xerial" else ()
    whole = {end + more for end in ends for more in range(4)}
    for size in range(len(packed)):
        plain = unpacked(codec, packed[:size])
        assert plain.reason == (reasons.END if size in whole else reasons.CODEC_FAILED), size
        assert plain.data is not None
        assert TEXT.startswith(plain.data)


# A raw block comes out whole or not at all; linked blocks are refused by brokers anyway (F33).
@each("name", sorted(STREAMS.keys() - {"raw snappy", "lz4 linked"}))
def test_output_before_a_truncation_is_kept(name: str) -> None:
    codec, pack = STREAMS[name]
    packed = pack(NOISE * 4)
    plain = unpacked(codec, packed[:-9])
    assert plain.reason == reasons.CODEC_FAILED
    assert plain.data is not None
    # Independent blocks come out whole or not at all; a xerial block is all but its first 1000.
    assert len(plain.data) >= (1000 if name == "xerial" else 131_072)
    assert (NOISE * 4).startswith(plain.data)


@EACH
def test_random_bytes_and_flips_are_survived(name: str) -> None:
    codec, pack = STREAMS[name]
    rng = random.Random(name)
    packed = pack(TEXT)
    for _ in range(300):
        assert unpacked(codec, rng.randbytes(rng.randint(0, 60))).reason != reasons.END
        broken = packed
        for _ in range(rng.randint(1, 4)):
            broken = flip_bit(broken, rng.randrange(len(broken)), rng.randrange(8))
        plain = unpacked(codec, broken, 4 * len(TEXT))
        assert plain.data is None or len(plain.data) <= 4 * len(TEXT)


@pytest.mark.parametrize("name", sorted(STREAMS.keys() - {"xerial", "raw snappy"}))
def test_bombs_stay_within_memory(name: str) -> None:
    codec, pack = STREAMS[name]
    packed = pack(bytes(64 << 20))
    tracemalloc.start()
    try:
        plain = unpacked(codec, packed, LIMIT)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert plain == Plain(None, reasons.OVER_LIMIT)
    assert peak < 16 * LIMIT


@pytest.mark.parametrize("name", ["gzip", "zstd", "lz4"])
def test_broken_bomb_exceeds_the_limit(name: str) -> None:
    codec, pack = STREAMS[name]
    plain = unpacked(codec, pack(bytes(64 << 20))[:-2], LIMIT)
    assert plain == Plain(None, reasons.OVER_LIMIT)


def test_oversize_snappy_block_is_not_decompressed() -> None:
    claim = b"\xff\xff\xff\xff\x0f" + b"junk"
    for packed in (claim, xerial_blocks()[:16] + struct.pack(">i", len(claim)) + claim):
        assert unpacked(SNAPPY, packed) == Plain(None, reasons.OVER_LIMIT)


def test_concatenated_gzip_members_are_read() -> None:
    members = gzip.compress(b"one ") + gzip.compress(b"") + gzip.compress(b"two")
    assert unpacked(GZIP, members) == Plain(b"one two")
    assert unpacked(GZIP, members + bytes(20)) == Plain(b"one two")
    broken = unpacked(GZIP, members + gzip.compress(TEXT)[:-1])
    assert broken.reason == reasons.CODEC_FAILED
    assert broken.data == b"one two" + TEXT


def test_gzip_slices_of_any_size_read_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(5)
    for _ in range(300):
        packed = bytearray()
        for _ in range(rng.randrange(1, 5)):
            packed += gzip.compress(rng.choice((b"", b"a", TEXT, NOISE[:3000])), mtime=0)
        if rng.random() < 0.7:
            packed[rng.randrange(len(packed))] ^= 1 << rng.randrange(8)
        packed = packed[: len(packed) - rng.choice((0, 0, 1, 9))]
        limit = rng.choice((LIMIT, 5000))
        whole = unpacked(GZIP, bytes(packed), limit)
        with monkeypatch.context() as patch:
            patch.setattr(compression, "_FIRST_SLICE", rng.randrange(1, 40))
            patch.setattr(compression, "_NEXT_SLICE", rng.randrange(1, 40))
            sliced = unpacked(GZIP, bytes(packed), limit)
        assert (sliced.data, sliced.reason) == (whole.data, whole.reason)


def test_isal_and_zlib_read_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("isal")
    rng = random.Random(8)
    for _ in range(1000):
        plain = b"".join(rng.choice((b"a", TEXT[:40], NOISE[:9])) for _ in range(rng.randrange(40)))
        packed = bytearray()
        for _ in range(rng.choice((1, 1, 2))):
            packer = zlib.compressobj(rng.choice((0, 1, 9)), wbits=31, strategy=rng.randrange(5))
            packed += packer.compress(plain) + packer.flush()
        for _ in range(rng.randrange(3)):
            place = rng.choice(
                (rng.randrange(len(packed)), rng.randrange(10), -rng.randrange(1, 9))
            )
            packed[place] ^= 1 << rng.randrange(8)
        del packed[len(packed) - rng.choice((0, 0, 0, 1, 9)) :]
        limit = rng.choice((LIMIT, len(plain), len(plain) // 2))
        both = unpacked(GZIP, bytes(packed), limit)
        with monkeypatch.context() as patch:
            patch.setattr(compression, "_isal", lambda: None)
            assert unpacked(GZIP, bytes(packed), limit) == both


@pytest.mark.parametrize("member", [0, 1])
def test_reserved_bits_of_a_gzip_header_are_refused(member: int) -> None:
    one = gzip.compress(b"one")
    packed = put(one * 2, member * len(one) + 3, b"\x20")
    plain = unpacked(GZIP, packed)
    assert (plain.data, plain.reason) == (b"one" * member, reasons.CODEC_FAILED)


def test_isal_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "isal", None)  # so that the import fails
    compression._isal.cache_clear()
    try:
        assert unpacked(GZIP, gzip.compress(TEXT)) == Plain(TEXT)
        monkeypatch.undo()
        assert compression._isal() is None
    finally:
        compression._isal.cache_clear()


@each("size", [0, 1, 511, 512, 2000])
def test_text_in_small_pieces_is_joined_in_order(size: int) -> None:
    blocks = [bytes([number % 256]) * (number % 3) for number in range(size)]
    blocks[size // 2 : size // 2] = [NOISE, b""]
    assert unpacked(SNAPPY, xerial_blocks(*blocks)) == Plain(b"".join(blocks))


def test_gzip_stream_with_a_wrong_checksum_gives_all_its_text() -> None:
    packed = gzip.compress(TEXT)
    plain = unpacked(GZIP, flip_bit(packed, len(packed) - 8, 0))
    assert plain.reason == reasons.CODEC_FAILED
    assert plain.data == TEXT


def test_broken_gzip_stream_yields_its_sound_prefix() -> None:
    packer = zlib.compressobj(wbits=31)
    first = packer.compress(NOISE) + packer.flush(zlib.Z_FULL_FLUSH)
    packed = first + b"\xff" * 20 + packer.compress(TEXT) + packer.flush()
    plain = unpacked(GZIP, packed)
    assert plain.reason == reasons.CODEC_FAILED
    assert plain.data == NOISE


def test_concatenated_zstd_frames_are_read() -> None:
    skippable = b"\x53\x2a\x4d\x18" + struct.pack("<I", 5) + b"notes"
    frames = zstandard.compress(b"one ") + skippable + zstandard.compress(b"two")
    assert unpacked(ZSTD, frames) == Plain(b"one two")
    assert unpacked(ZSTD, frames + b"junk").reason == reasons.CODEC_FAILED
    assert unpacked(ZSTD, frames + b"junk").data == b"one two"


def test_zstd_frame_ends_with_its_blocks() -> None:
    packed = zstandard.ZstdCompressor(write_checksum=True).compress(NOISE * 3)
    assert zstd_is_whole(memoryview(packed))
    assert not any(zstd_is_whole(memoryview(packed[:size])) for size in range(0, len(packed), 97))
    assert not zstd_is_whole(memoryview(packed + b"\0"))


def test_concatenated_xerial_streams_are_read() -> None:
    packed = xerial_blocks(b"one ") + xerial_blocks(b"two ", b"three")
    assert unpacked(SNAPPY, packed) == Plain(b"one two three")


def test_xerial_blocks_before_a_broken_one_are_kept() -> None:
    packed = xerial_blocks(TEXT, TEXT)
    broken = put(packed, len(xerial_blocks(TEXT)), struct.pack(">i", 1 << 30))
    assert unpacked(SNAPPY, broken) == Plain(
        TEXT, reasons.CODEC_FAILED, "a snappy block is truncated"
    )


def test_lz4_header_checksum_of_magic_0_is_accepted() -> None:
    sound = lz4_stream(TEXT)
    broken = with_broken_header(sound)
    assert broken != sound
    for packed in (sound, broken):
        assert decompress(LZ4, memoryview(packed), LIMIT, broken_lz4_header=True) == Plain(TEXT)
    assert unpacked(LZ4, sound) == Plain(TEXT)
    plain = unpacked(LZ4, broken)
    assert plain.reason == reasons.CODEC_FAILED
    assert plain.data == TEXT
    assert plain.detail.startswith("LZ4 header checksum")


def test_lz4_content_checksum_is_ignored() -> None:
    packed = lz4_stream(TEXT, content_checksum=True)
    assert unpacked(LZ4, flip_bit(packed, len(packed) - 1, 3)) == Plain(TEXT)
    assert unpacked(LZ4, packed[:-1]).reason == reasons.CODEC_FAILED


def test_lz4_block_checksum_is_verified() -> None:
    packed = lz4_stream(NOISE + TEXT, block_checksum=True)
    plain = unpacked(LZ4, flip_bit(packed, 7 + 4 + 65_536 + 4 + 4 + 10, 0))
    assert plain.reason == reasons.CODEC_FAILED
    assert plain.data == NOISE[:65_536]
    assert "block checksum" in plain.detail


def test_lz4_bytes_after_the_end_mark_are_ignored() -> None:
    assert unpacked(LZ4, lz4_stream(TEXT) + b"junk") == Plain(TEXT)


def test_lz4_content_size_is_accepted() -> None:
    packed = lz4_stream(TEXT, store_size=True)
    assert unpacked(LZ4, packed) == Plain(TEXT)
    again = decompress(LZ4, memoryview(packed), LIMIT, broken_lz4_header=True)
    assert again == Plain(TEXT)


@each(
    ("data", "expected"),
    [
        (b"", 0x02CC5D05),
        (b"a", 0x550D7456),
        (b"abc", 0x32D153FF),
        (b"Nobody inspects the spammish repetition", 0xE2293B2F),
    ],
)
def test_xxh32_matches_known_values(data: bytes, expected: int) -> None:
    assert xxh32(data) == expected
