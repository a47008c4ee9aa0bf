"""The table of formats against the walk: which format an entry is read in, and where its sum is."""

import struct
from types import ModuleType

import pytest
from each import each

from kdump.kernels.layout import CRC32C, FORMATS, format_of, message_format


@each("magic", range(256))
def test_walk_reads_the_format_of_the_magic(magic: int, kernel: ModuleType) -> None:
    entry = struct.pack(">qiIB", 7, 88, 5, magic) + bytes(83)
    batches, _, _ = kernel.walk(entry, 0, len(entry), 0, -1, False, 1)
    read = batches.format(0)
    assert read is format_of(magic)
    assert read is format_of(batches.magic(0))
    assert batches.is_legacy(0) == read.is_legacy == batches.header(0).is_legacy
    at = read.crc_position
    assert batches.crc(0) == int.from_bytes(entry[at : at + 4], "big")


def test_formats_are_ordered_by_magic() -> None:
    assert [read.magic for read in FORMATS] == [0, 1, 2]
    assert [message_format(magic).magic for magic in (0, 1, 2, 255)] == [0, 1, 0, 0]


def test_compiled_kernel_has_the_same_table() -> None:
    fast = pytest.importorskip("kdump.kernels._fast", reason="the compiled kernel is not built")
    for read, compiled in zip(FORMATS, fast.COMPILED_FORMATS, strict=True):
        known = {name: getattr(read, name) for name in compiled if name != "crc_is_castagnoli"}
        assert compiled == known | {"crc_is_castagnoli": read.crc_kind == CRC32C}
