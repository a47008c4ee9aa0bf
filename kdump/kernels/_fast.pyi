"""The compiled kernel; `_pure` says what each function means."""

from array import array
from collections.abc import Callable

from kdump.kernels.columns import Columns

_Data = bytes | bytearray | memoryview
_Rows = array[int] | None
_Write = Callable[[bytes], object]

CRC_VARIANT: str

def keep_freed_memory() -> None: ...
def crc32(data: _Data, start: int, end: int, crc: int = 0) -> int: ...
def crc32c(data: _Data, start: int, end: int, crc: int = 0) -> int: ...
def walk(
    data: _Data,
    start: int,
    end: int,
    base: int,
    last_offset: int,
    check_crc: bool,
    max_batches: int,
) -> tuple[Columns, int, int]: ...
def decode_run(
    data: _Data, base: int, batches: Columns, first: int, max_records: int
) -> tuple[Columns, int, int, int]: ...
def decode_records(
    data: _Data,
    start: int,
    end: int,
    batches: Columns,
    index: int,
    done: int,
    max_records: int,
) -> tuple[Columns, int, int]: ...
def inner_base(
    data: _Data, start: int, end: int, wrapper_offset: int, wrapper_magic: int
) -> tuple[int, int, int, int]: ...
def decode_messages(
    data: _Data,
    start: int,
    end: int,
    batches: Columns,
    index: int,
    base: int,
    max_records: int,
) -> tuple[Columns, int, int]: ...
def resync(
    data: _Data,
    start: int,
    end: int,
    base: int,
    min_offset: int,
    max_offset: int,
    budget: int,
) -> tuple[int, int]: ...
def format_records(
    write: _Write,
    data: _Data,
    batches: Columns,
    records: Columns,
    rows: _Rows,
    head: bytes,
    bytes_mode: int,
) -> int: ...
def format_batches(write: _Write, batches: Columns, rows: _Rows, head: bytes) -> int: ...
def gather(
    data: _Data,
    records: Columns,
    rows: _Rows,
    position_column: int,
    size_column: int,
    offset_base: int,
) -> tuple[bytearray, bytearray, bytearray, int]: ...
def spread(
    batches: Columns, records: Columns, rows: _Rows
) -> tuple[bool, tuple[bytearray, ...]]: ...
def gather_headers(
    data: _Data, records: Columns, rows: _Rows
) -> tuple[bytearray, tuple[bytearray, bytearray], tuple[bytearray, bytearray, bytearray, int]]: ...
