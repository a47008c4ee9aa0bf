"""Records gathered into buffers for Arrow, in either kernel."""

import struct
from array import array
from types import ModuleType

from builders import (
    CONTROL,
    batch,
    control_record,
    marker,
    message,
    record,
)
from each import each
from kernel_calls import decode

from kdump.kernels import columns as c
from kdump.kernels import gather_buffers as g
from kdump.kernels.gather_buffers import Copy, GatherBuffers

COPIES = (
    Copy(c.B_POSITION, False, 64),
    Copy(c.B_MAGIC, False, 8),
    Copy(c.R_OFFSET, True, 64),
    Copy(c.B_PRODUCER_ID, False, 32),
    Copy(c.B_PRODUCER_EPOCH, False, 16),
)
POSITION, MAGIC, OFFSET, PRODUCER_ID, PRODUCER_EPOCH = range(g.GATHERED_WIDTH, g.GATHERED_WIDTH + 5)


def gathered(
    kernel: ModuleType, data: bytes, rows: "array[int] | None" = None, first: int = 0
) -> tuple[int, GatherBuffers]:
    batches, records = decode(kernel, data)
    into = GatherBuffers(20, 20, keys=99, values=99, names=99, contents=99, copies=COPIES)
    return kernel.gather(into, data, batches, records, rows, first), into


def items(into: GatherBuffers, number: int, count: int, first: int = 0) -> list[int]:
    """Read `count` items of a buffer, or bits."""
    data, bits = bytes(into.buffers[number]), into.bits[number]
    if bits == 1:
        return [data[at >> 3] >> (at & 7) & 1 for at in range(first, first + count)]
    codes = {8: "b", 16: "h", 32: "i", 64: "q"}
    return list(memoryview(data[: bits // 8 * (first + count)]).cast(codes[bits]))[first:]


def test_keys_and_values_are_gathered(kernel: ModuleType) -> None:
    values = [b"one", None, b"", b"four"] * 3
    data = batch([record(i, value=value) for i, value in enumerate(values)])
    taken, into = gathered(kernel, data)
    assert (taken, into.counts[g.N_ROWS], into.counts[g.N_VALUES_NULL]) == (12, 12, 3)
    assert items(into, g.G_VALUE_ENDS, 13) == [0, 3, 3, 3, 7, 10, 10, 10, 14, 17, 17, 17, 21]
    assert into.buffers[g.G_VALUES][:21] == b"onefour" * 3
    assert items(into, g.G_VALUE_VALID, 12) == [1, 0, 1, 1] * 3
    taken, into = gathered(kernel, data, array("q", [2, 3, 1]), 1)
    assert taken == 2
    assert items(into, g.G_VALUE_ENDS, 3) == [0, 4, 4]
    assert items(into, g.G_VALUE_VALID, 2) == [1, 0]


def test_gather_batch_columns(kernel: ModuleType) -> None:
    data = batch([record(0), record(2)], base_sequence=0x7FFFFFFE, last_offset_delta=2)
    second = len(data)
    data += batch(base_offset=5, base_sequence=-1, attributes=0x18, producer_id=7)
    third = len(data)
    data += message(8) + message(9, magic=0)
    taken, into = gathered(kernel, data)
    assert taken == 5
    assert (into.counts[g.N_OLD], into.counts[g.N_UNTIMED]) == (2, 1)
    assert items(into, POSITION, 4) == [0, 0, second, third]
    assert items(into, MAGIC, 5) == [2, 2, 2, 1, 0]
    assert items(into, OFFSET, 5) == [0, 2, 5, 8, 9]
    assert items(into, g.G_TIMESTAMP_TYPE, 5) == [0, 0, 1, 0, 0]
    assert items(into, PRODUCER_ID, 5)[2:] == [7, -1, -1]
    assert items(into, PRODUCER_EPOCH, 5)[3:] == [-1, -1]
    assert items(into, g.G_SEQUENCE, 5) == [0x7FFFFFFE, 0, -1, -1, -1]
    assert items(into, g.G_TRANSACTIONAL, 5) == [0, 0, 1, 0, 0]
    assert items(into, g.G_MODERN, 5) == [1, 1, 1, 0, 0]
    assert items(into, g.G_TIMED, 5) == [1, 1, 1, 1, 0]


def test_headers_are_gathered(kernel: ModuleType) -> None:
    data = batch([record(0, headers=[(b"a", b"12"), (b"b\xffc", None)]), record(1)])
    data += batch([record(0, headers=[(b"", b"")])], base_offset=5) + message(8)
    taken, into = gathered(kernel, data)
    assert (taken, into.counts[g.N_HEADERS], into.counts[g.N_CONTENTS_NULL]) == (4, 3, 1)
    assert items(into, g.G_LISTS, 5) == [0, 2, 2, 3, 3]
    assert items(into, g.G_NAME_ENDS, 4) == [0, 1, 12, 12]
    assert into.buffers[g.G_NAMES][:12] == b"abase64:Yv9j"
    assert items(into, g.G_CONTENT_ENDS, 4) == [0, 2, 2, 2]
    assert items(into, g.G_CONTENT_VALID, 3) == [1, 0, 1]


def test_markers_are_gathered(kernel: ModuleType) -> None:
    longest = control_record(1, struct.pack(">hi", 0, -(1 << 31)), version=0x7FFF)
    data = batch() + marker(0, base_offset=1, coordinator_epoch=7)
    data += batch([longest], base_offset=2, attributes=CONTROL)
    taken, into = gathered(kernel, data)
    assert (taken, into.counts[g.N_CONTROLS_NULL]) == (3, 1)
    assert items(into, g.G_CONTROL_VALID, 3) == [0, 1, 1]
    start, middle, end = items(into, g.G_CONTROL_ENDS, 4)[1:]
    assert start == 0
    assert end - middle == g.LONGEST_MARKER
    abort = b'{"type":"ABORT","version":0,"coordinator_epoch":7}'
    assert into.buffers[g.G_CONTROLS][:middle] == abort


def test_gathering_overwrites_the_buffers(kernel: ModuleType) -> None:
    first = batch([record(0, value=None, headers=[(b"a", None)]), record(1)], attributes=0x10)
    batches, records = decode(kernel, first)
    into = GatherBuffers(2, 1, keys=99, values=99, names=1, contents=9)
    assert kernel.gather(into, first, batches, records, None, 0) == 2
    into.clear()
    second = batch([record(0, headers=[(b"b", b"x")]), record(1, value=None)])
    batches, records = decode(kernel, second)
    assert kernel.gather(into, second, batches, records, None, 0) == 2
    assert list(into.counts) == [2, 1, 0, 1, 0, 0, 0, 2]
    assert items(into, g.G_VALUE_VALID, 2) == [1, 0]
    assert items(into, g.G_TRANSACTIONAL, 2) == [0, 0]
    assert items(into, g.G_CONTENT_VALID, 1) == [1]
    assert into.buffers[g.G_NAMES][:1] == b"b"


@each(
    "less",
    [{"rows": 2}, {"headers": 2}, {"keys": 5}, {"values": 8}, {"names": 21}, {"contents": 2}],
    ids=str,
)
def test_gather_stops_without_room(kernel: ModuleType, less: dict[str, int]) -> None:
    one = [(b"\xff", b"c")]  # in base64, with its mark, eleven bytes
    data = batch([record(n, key=b"ke", value=b"val", headers=one) for n in range(3)])
    batches, records = decode(kernel, data)
    enough = {"rows": 3, "headers": 3, "keys": 6, "values": 9, "names": 33, "contents": 3}
    into = GatherBuffers(**enough, copies=COPIES)
    assert kernel.gather(into, data, batches, records, None, 0) == 3
    into = GatherBuffers(**enough | less, copies=COPIES)
    taken = kernel.gather(into, data, batches, records, None, 0)
    assert taken == (1 if less == {"names": 21} else 2)
    assert list(into.counts[:2]) == [taken, taken]
    assert kernel.gather(into, data, batches, records, None, taken) == 0
    assert list(into.counts[:2]) == [taken, taken]
    into.clear()
    assert kernel.gather(into, data, batches, records, None, taken) == min(3 - taken, taken)
    assert items(into, OFFSET, 1) == [taken]


def test_gathering_works_with_room_for_one_record(kernel: ModuleType) -> None:
    headers = [(b"a\xff", b"12"), (b"", None)]
    data = batch([record(0, key=None, value=b"val"), record(1, key=b"k", headers=headers)])
    _, records = decode(kernel, data)
    assert kernel.room_for(data, records, 0) == (0, 0, 3, 0, 0)
    assert kernel.room_for(data, records, 1) == (2, 1, 5, 11, 2)
