"""Frame the messages of a wrapper as a broker's searches do, fields unread.

A broker opens all of a wrapper, frames every message and works out their offsets before it looks at
the first (F13 to F17). Key and value of a message are read by nobody who asks for offset or time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from kdump import kernels
from kdump.kernels import reasons
from kdump.kernels.columns import RecordBatches
from kdump.record.layout import CODEC_MASK, LOG_OVERHEAD, TIMESTAMP_TYPE_BIT, ZSTD, int64
from kdump.record.legacy import value_range
from kdump.tuples import NamedTuple

_INNER = struct.Struct(">qi4xbB")  # offset, size, magic, attributes
_TIMESTAMP = struct.Struct(">q")
_TIMESTAMP_AT = _INNER.size
_SOUND = (reasons.END, reasons.INNER_CUT_SHORT)


class UnpackedWrapper(NamedTuple):
    """A wrapper's uncompressed bytes, and what its messages' offset fields count from.

    With a `reason` other than END a broker fails before it has a message.
    """

    inner: bytes | bytearray
    base: int
    append_time: int | None
    reason: int
    detail: str = ""

    def messages(self) -> Iterator[tuple[int, int, bool]]:
        """Yield (offset, timestamp_ms, whether it is compressed again) of each message."""
        position, size = 0, len(self.inner)
        while position + _INNER.size <= size:
            offset, length, magic, attributes = _INNER.unpack_from(self.inner, position)
            if length > size - position - LOG_OVERHEAD:
                return
            timestamp = -1
            if magic and self.append_time is not None:
                timestamp = self.append_time
            elif magic and position + _TIMESTAMP_AT + _TIMESTAMP.size <= size:
                timestamp = _TIMESTAMP.unpack_from(self.inner, position + _TIMESTAMP_AT)[0]
            yield int64(self.base + offset), timestamp, bool(attributes & CODEC_MASK)
            position += LOG_OVERHEAD + length


def open_wrapper(
    data: bytes | bytearray | memoryview, base: int, batches: RecordBatches, index: int, limit: int
) -> UnpackedWrapper:
    """Open the wrapper in row `index`, whose bytes lie in `data` from `base` on."""
    start = batches.position(index) - base
    end = start + batches.size_bytes(index)
    read = batches.format(index)
    first, last, reason = value_range(memoryview(data), start, end, read.magic)
    attributes = batches.attributes(index)
    codec = attributes & CODEC_MASK
    if reason or codec == ZSTD:
        return UnpackedWrapper(b"", 0, None, reason or reasons.ZSTD_IN_LEGACY)
    from kdump.record.compression import decompress

    packed = memoryview(data)[first:last]
    plain = decompress(codec, packed, limit, broken_lz4_header=read.lz4_header_wrong)
    if plain.data is None or plain.reason:
        return UnpackedWrapper(b"", 0, None, plain.reason, plain.detail)
    inner = plain.data
    wrapper_offset = batches.last_offset(index)
    from_last, _, _, reason = kernels.inner_base(inner, 0, len(inner), wrapper_offset, read.magic)
    append_time = None
    if attributes & read.meant_bits & TIMESTAMP_TYPE_BIT:
        append_time = batches.max_timestamp(index)
    return UnpackedWrapper(
        inner, from_last, append_time, reasons.END if reason in _SOUND else reason
    )
