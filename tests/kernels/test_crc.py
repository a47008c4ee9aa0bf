"""The two checksums against other people's: zlib, the crc32c package and crcmod."""

import random
import shutil
import subprocess
import zlib
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import crc32c
import crcmod.predefined
import pytest
from each import each

DATA = random.Random(14).randbytes(1 << 17)
CRCMOD_CRC32 = crcmod.predefined.mkPredefinedCrcFun("crc-32")
CRCMOD_CRC32C = crcmod.predefined.mkPredefinedCrcFun("crc-32c")

# Around every size at which a variant changes its way: 8-byte steps, 16-byte folds, 64-byte
# folds, three streams of up to 4 KiB, and a typical batch.
SIZES = [*range(290), *range(376, 410), 1000, 1023, 1024, 4095, 4097, 12287, 12288, 12300, 16384]


def test_checksums_have_their_check_values(kernel: ModuleType) -> None:
    assert kernel.crc32(b"123456789", 0, 9) == 0xCBF43926
    assert kernel.crc32c(b"123456789", 0, 9) == 0xE3069283


def test_empty_input_keeps_the_running_value(kernel: ModuleType) -> None:
    for crc in (0, 1, 0x80000000, 0xFFFFFFFF):
        assert kernel.crc32(b"", 0, 0, crc) == crc
        assert kernel.crc32c(b"abc", 2, 2, crc) == crc


@each("start", [0, 1, 2, 3, 4, 7, 8, 13, 15, 16, 17])
def test_every_size_and_start_match(kernel: ModuleType, start: int) -> None:
    for size in SIZES:
        piece = DATA[start : start + size]
        assert kernel.crc32(DATA, start, start + size) == zlib.crc32(piece), size
        assert kernel.crc32c(DATA, start, start + size) == crc32c.crc32c(piece), size


def test_checksums_agree_with_crcmod(kernel: ModuleType) -> None:
    for size in (0, 1, 15, 16, 40, 150, 1000, 16384):
        piece = DATA[5 : 5 + size]
        assert kernel.crc32(DATA, 5, 5 + size) == CRCMOD_CRC32(piece)
        assert kernel.crc32c(DATA, 5, 5 + size) == CRCMOD_CRC32C(piece)
        assert kernel.crc32(DATA, 5, 5 + size, 77) == CRCMOD_CRC32(piece, 77)
        assert kernel.crc32c(DATA, 5, 5 + size, 77) == CRCMOD_CRC32C(piece, 77)


def test_large_inputs_match(kernel: ModuleType) -> None:
    assert kernel.crc32(DATA, 0, len(DATA)) == zlib.crc32(DATA)
    assert kernel.crc32c(DATA, 0, len(DATA)) == crc32c.crc32c(DATA)
    assert kernel.crc32c(DATA, 3, len(DATA) - 2) == crc32c.crc32c(DATA[3:-2])


def test_runs_of_one_byte_match(kernel: ModuleType) -> None:
    for byte in (b"\x00", b"\xff"):
        for size in (1, 8, 61, 144, 500, 12300):
            data = byte * size
            assert kernel.crc32(data, 0, size) == zlib.crc32(data)
            assert kernel.crc32c(data, 0, size) == crc32c.crc32c(data)


def test_pieces_add_up_to_the_whole(kernel: ModuleType) -> None:
    rng = random.Random(3)
    for _ in range(30):
        cuts = sorted(rng.randrange(20_000) for _ in range(rng.randrange(1, 9)))
        ieee = castagnoli = 0
        for start, end in pairwise([0, *cuts, 20_000]):
            ieee = kernel.crc32(DATA, start, end, ieee)
            castagnoli = kernel.crc32c(DATA, start, end, castagnoli)
        assert ieee == zlib.crc32(DATA[:20_000])
        assert castagnoli == crc32c.crc32c(DATA[:20_000])


def test_any_running_value_is_accepted(kernel: ModuleType) -> None:
    rng = random.Random(4)
    for _ in range(200):
        crc, start, size = rng.getrandbits(32), rng.randrange(64), rng.randrange(1000)
        piece = DATA[start : start + size]
        assert kernel.crc32(DATA, start, start + size, crc) == zlib.crc32(piece, crc)
        assert kernel.crc32c(DATA, start, start + size, crc) == crc32c.crc32c(piece, crc)


def test_any_buffer_is_accepted(kernel: ModuleType) -> None:
    piece = DATA[:300]
    for data in (piece, bytearray(piece), memoryview(piece), memoryview(bytearray(piece))):
        assert kernel.crc32(data, 20, 280) == zlib.crc32(piece[20:280])
        assert kernel.crc32c(data, 20, 280) == crc32c.crc32c(piece[20:280])


def test_bytes_outside_the_range_are_ignored(kernel: ModuleType) -> None:
    middle = DATA[:200]
    for around in (b"\x00" * 32, b"\xff" * 32):
        data = around + middle + around
        assert kernel.crc32(data, 32, 232) == zlib.crc32(middle)
        assert kernel.crc32c(data, 32, 232) == crc32c.crc32c(middle)


@pytest.mark.parametrize("flag", ["-O1", "-mno-crc32"])
def test_clang_compiles_the_checksums(tmp_path: Path, flag: str) -> None:
    """Clang has the instructions of CRC-32C as a feature that a target may lack."""
    clang = shutil.which("clang")
    if clang is None:
        pytest.skip("no clang on this machine")
    machine = subprocess.run([clang, "-dumpmachine"], capture_output=True, text=True, check=True)
    if flag.startswith("-m") and not machine.stdout.startswith("x86_64"):
        pytest.skip("only of x86-64")
    source = Path(__file__).parents[2] / "kdump/kernels/_crc.c"
    words = [clang, flag, "-Werror", "-c", str(source), "-o", str(tmp_path / "crc.o")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or "unknown argument" in done.stderr, done.stderr
