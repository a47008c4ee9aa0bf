"""Calls of a kernel that tests share."""

import json
from types import ModuleType

from builders import (
    batch,
)

from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.kernels.columns import Columns
from kdump.kernels.gather_buffers import GatherBuffers
from kdump.output.text_forms import json_form

LAST = (1 << 63) - 1
MANY = 1 << 30
ROOMY = GatherBuffers(99, 99, keys=999, values=999, names=99, contents=99)


# Two entries as brokers wrote them: 4.1.1, the first batch of a metadata log (LEADER_CHANGE), and
# 0.10.2.2, a plain message.
BATCH_4_1 = bytes.fromhex(
    "0000000000000000 0000004f 00000001 02 187c162e 0020 00000000 000001a1fb6e74c0 000001a1fb6e74c0"
    "ffffffffffffffff ffff ffffffff 00000001"
    "3a 00 00 00 08 00000002 26 00000000000102000000010002000000010000 00"
)


MESSAGE_0_10 = (
    bytes.fromhex(
        "0000000000000000 0000004b 7ca60154 01 00 00000136ba71b56f 00000007 6b65792d303337 0000002e"
    )
    + b"lorem aliqua dolor dolore labore et incididunt"
)


def walk(kernel: ModuleType, data: bytes, last_offset: int = -1, base: int = 0) -> Columns:
    """Walk data that must be used up."""
    batches, stop, reason = kernel.walk(data, 0, len(data), base, last_offset, True, MANY)
    assert (stop, reason) == (len(data), reasons.END)
    return batches


def decode(kernel: ModuleType, data: bytes) -> tuple[Columns, Columns]:
    """Walk and decode data that must be sound and plain."""
    batches = walk(kernel, data)
    records, behind, stop, reason = kernel.decode_run(data, 0, batches, 0, MANY)
    assert (behind, stop, reason) == (batches.count, len(data), reasons.END)
    return batches, records


def decode_payload(
    kernel: ModuleType, payload: bytes, count: int = 1, max_records: int = MANY
) -> tuple[Columns, int, int]:
    batches = walk(kernel, batch([], records_count=count, payload=payload))
    result: tuple[Columns, int, int] = kernel.decode_records(
        payload, 0, len(payload), batches, 0, 0, max_records
    )
    return result


def lines(kernel: ModuleType, data: bytes, mode: int = c.BYTES_AUTO) -> list[dict[str, object]]:
    batches, records = decode(kernel, data)
    pieces: list[bytes] = []
    count = kernel.format_records(pieces.append, data, batches, records, None, json_form(b"", mode))
    rows = [json.loads(line) for line in b"".join(pieces).splitlines()]
    assert count == len(rows) == records.count
    return rows
