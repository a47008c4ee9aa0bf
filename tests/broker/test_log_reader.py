"""How a reading of a log ends, release by release, on entries made by hand."""

import struct
from pathlib import Path

import pytest
from builders import batch, record

from kdump.broker.log_reader import Entries, RefusalError
from kdump.record.layout import MAX_INT32
from kdump.storage.source import Source


@pytest.mark.parametrize("above", [-1, 0, 1, 12])
def test_an_end_that_an_int_cannot_hold(above: int, tmp_path: Path) -> None:
    """Before 1.1.1 the position, the twelve bytes of offset and size, and the size are added."""
    one = batch([record()])
    size = MAX_INT32 - len(one) - 12 + above
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(one + struct.pack(">qi", 1, size) + bytes(20))
    with Source(str(path)) as source:
        for broker, wraps in (((1, 1), above > 0), ((1, 1, 1), False)):
            entries = Entries(source, broker, 0, source.size)
            met = entries.as_is(0)
            assert next(met).count == 1
            if wraps:
                with pytest.raises(RefusalError, match=f"a size of {size} wraps around"):
                    next(met)
            else:
                assert list(met) == []
