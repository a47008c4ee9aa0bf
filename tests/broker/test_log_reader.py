"""How a reading of a log ends, release by release, on entries made by hand."""

import struct
from pathlib import Path

import pytest
from builders import batch, message, record

from kdump.broker.log_reader import BLOCK_BYTES, Entries, RefusalError
from kdump.record.layout import MAX_INT32
from kdump.storage.file_records import DEFAULT_LIMIT
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


@pytest.mark.parametrize("limit", [BLOCK_BYTES, DEFAULT_LIMIT], ids=["too large to hold", "held"])
@pytest.mark.parametrize("sound", [True, False])
def test_entry_larger_than_a_block(sound: bool, limit: int, tmp_path: Path) -> None:
    small = batch([record()])
    large = bytearray(batch([record(value=bytes(2 * BLOCK_BYTES))], base_offset=1))
    if not sound:
        large[-1] ^= 1
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(small + large + batch([record()], base_offset=2))
    with Source(str(path)) as source:
        entries = Entries(source, (4, 1), 0, source.size, limit=limit)
        found = [run.batches.base_offset(0) for run in entries.checked(MAX_INT32)]
        assert found == ([0, 1, 2] if sound else [0])
        assert entries.stop == (source.size if sound else len(small))
        assert entries.why == ("" if sound else "a checksum that does not match")


def test_message_above_the_largest_an_old_broker_takes(tmp_path: Path) -> None:
    """Recovery of brokers before 0.11 held each against message.max.bytes, its header included."""
    log = [message(0), message(1, value=bytes(100)), message(2)]
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(b"".join(log))
    most = len(log[1]) - 12
    with Source(str(path)) as source:
        for broker, limit, taken in (((0, 10), most - 1, 1), ((0, 10), most, 3), ((1, 0), 1, 3)):
            entries = Entries(source, broker, 0, source.size)
            assert sum(run.batches.count for run in entries.checked(limit)) == taken
            assert entries.stop == sum(map(len, log[:taken]))
            assert entries.why == ("an entry above message.max.bytes" if taken == 1 else "")
