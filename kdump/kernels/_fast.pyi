"""The compiled kernel; `_pure` says what each function means."""

from array import array
from collections.abc import Callable
from typing import Any

from kdump.kernels.columns import DecodedRecords, RecordBatches
from kdump.kernels.gathered import Gathered

_Data = bytes | bytearray | memoryview
_Rows = array[int] | None
_Write = Callable[[bytes], object]

CRC_VARIANT: str

def keep_freed_memory() -> None: ...
def crc32(data: _Data, start: int, end: int, crc: int = 0) -> int: ...
def crc32c(data: _Data, start: int, end: int, crc: int = 0) -> int: ...
def crc32_joined(first: int, second: int, size: int) -> int: ...
def crc32c_joined(first: int, second: int, size: int) -> int: ...
def walk(
    data: _Data,
    start: int,
    end: int,
    base: int,
    last_offset: int,
    check_crc: bool,
    max_batches: int,
) -> tuple[RecordBatches, int, int]: ...
def follow_producers(
    batches: RecordBatches, first: int, end: int, next_offset: int, table: array[int]
) -> tuple[int, int]: ...
def tally(batches: RecordBatches) -> tuple[int, int, int, int]: ...
def sum_batches(
    batches: RecordBatches,
    first: int,
    by_producer: bool,
    by_codec: bool,
    sums: array[int],
    slot: int,
) -> int: ...
def sum_keys(
    data: _Data,
    records: DecodedRecords,
    first: int,
    slots: dict[Any, int],
    sums: array[int],
    floor: int,
    most: int,
    longest: int,
) -> int: ...
def rising_slots(data: _Data, size: int) -> int: ...
def prove_entries(
    batches: RecordBatches,
    offset_slots: _Data,
    time_slots: _Data,
    base_offset: int,
    state: array[int],
    marks: array[int],
    most: int,
) -> list[tuple[int, int, int]]: ...
def index_entries(
    batches: RecordBatches,
    first: int,
    base_offset: int,
    interval: int,
    first_offsets: bool,
    state: array[int],
) -> tuple[bytes, bytes, int, int]: ...
def prove_records(
    batches: RecordBatches, records: DecodedRecords, state: array[int], complete: bool, most: int
) -> list[tuple[int, int, int]]: ...
def decode_run(
    data: _Data, base: int, batches: RecordBatches, first: int, max_records: int
) -> tuple[DecodedRecords, int, int, int]: ...
def decode_records(
    data: _Data,
    start: int,
    end: int,
    batches: RecordBatches,
    index: int,
    done: int,
    max_records: int,
) -> tuple[DecodedRecords, int, int]: ...
def inner_base(
    data: _Data, start: int, end: int, wrapper_offset: int, wrapper_magic: int
) -> tuple[int, int, int, int]: ...
def decode_messages(
    data: _Data,
    start: int,
    end: int,
    batches: RecordBatches,
    index: int,
    base: int,
    max_records: int,
) -> tuple[DecodedRecords, int, int]: ...
def resync(
    data: _Data,
    start: int,
    end: int,
    behind: int,
    min_offset: int,
    max_offset: int,
    summed: int,
) -> tuple[int, int, bool]: ...
def format_records(
    write: _Write,
    data: _Data,
    batches: RecordBatches,
    records: DecodedRecords,
    rows: _Rows,
    head: bytes,
    bytes_mode: int,
) -> int: ...
def format_batches(write: _Write, batches: RecordBatches, rows: _Rows, head: bytes) -> int: ...
def gather(
    gathered: Gathered,
    data: _Data,
    batches: RecordBatches,
    records: DecodedRecords,
    rows: _Rows,
    first: int,
) -> int: ...
def room_for(data: _Data, records: DecodedRecords, row: int) -> tuple[int, int, int, int, int]: ...
