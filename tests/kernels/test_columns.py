"""Rows that do not exist, buffers of any kind, and columns, in either kernel."""

from array import array
from types import ModuleType

import pytest
from builders import (
    batch,
    unsigned_varint,
    varint,
    with_right_crc,
)
from damage import flip
from kernel_calls import MANY, ROOMY, decode, walk

from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.kernels.columns import Columns, RecordBatches
from kdump.output.text_forms import json_form


def test_missing_row_numbers_are_refused(kernel: ModuleType) -> None:
    data = batch()
    batches, records = decode(kernel, data)
    none = RecordBatches.empty(c.BATCH_WIDTH)
    calls = (
        lambda: kernel.decode_records(data, 0, 9, batches, 1, 0, 9),
        lambda: kernel.decode_records(data, 0, 9, batches, -1, 0, 9),
        lambda: kernel.decode_messages(data, 0, 9, none, 0, 0, 9),
        lambda: kernel.format_records(print, data, none, records, None, json_form(b"", 0)),
        lambda: kernel.gather(ROOMY, data, none, records, None, 0),
        lambda: kernel.gather(ROOMY, data, batches, records, array("q", [1]), 0),
        lambda: kernel.room_for(data, records, 1),
        lambda: kernel.room_for(data, records, -1),
    )
    for call in calls:
        with pytest.raises(IndexError):
            call()


def test_any_buffer_is_accepted(kernel: ModuleType) -> None:
    data = batch()
    whole = walk(kernel, data).rows()
    views = (bytearray(data), memoryview(data), memoryview(b"x" + data)[1:], array("b", data))
    for view in views:
        assert kernel.walk(view, 0, len(data), 0, -1, True, 1)[0].rows() == whole


def test_buffers_are_released(kernel: ModuleType) -> None:
    data = bytearray(batch())
    batches, records = decode(kernel, data)  # type: ignore[arg-type]
    kernel.format_records(len, data, batches, records, None, json_form(b"", 0))
    kernel.format_batches(len, batches, None, json_form(b"", 0))
    kernel.gather(ROOMY, data, batches, records, None, 0)
    kernel.room_for(data, records, 0)
    kernel.resync(data, 0, len(data), 0, -1, 9, MANY)
    kernel.inner_base(data, 0, len(data), 0, 1)
    kernel.crc32(data, 0, len(data))
    kernel.crc32c(data, 0, len(data))
    with pytest.raises(IndexError):
        kernel.format_records(len, data, batches, records, array("q", [1]), json_form(b"", 0))
    data.append(0)
    batches.block.append(0)
    records.block.append(0)


def test_reasons_have_names() -> None:
    numbers = {value for name, value in vars(reasons).items() if name.isupper() and name != "NAMES"}
    assert numbers == set(reasons.NAMES)
    assert len(set(reasons.NAMES.values())) == len(numbers)


def test_builders_seal_batches_and_write_varints() -> None:
    assert with_right_crc(flip(batch(), 70))[17:21] != batch()[17:21]
    assert unsigned_varint(300) == b"\xac\x02"
    assert varint(-1) == b"\x01"


def test_columns() -> None:
    columns = Columns(array("q", [1, 2, 9, 3, 4, 9]), 3, 2, flags=7)
    assert (columns.width, len(columns)) == (2, 2)
    assert columns.rows() == [(1, 3), (2, 4)]
    assert columns.row(1) == (2, 4)
    assert (columns.value(1, 0), list(columns.column(1))) == (3, [3, 4])
    assert columns.column(0).format == "q"
    part = columns.slice(1, 9)
    assert (part.rows(), part.flags) == ([(2, 4)], 7)
    assert columns.slice(1, 1).rows() == []
    assert columns.slice(1, 1).width == 2
    assert Columns.empty(5).width == 5
    assert Columns.from_rows(2, [(1, 3), (2, 4)]).rows() == columns.rows()
