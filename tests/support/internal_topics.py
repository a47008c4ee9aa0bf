"""Records of internal topics as bytes, of log files of real brokers and of made ones."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kdump.kernels import columns as c
from kdump.messages.records import Pair, decode, decode_control
from kdump.record.batch import read_batch
from kdump.record.frames import Run
from kdump.storage.file_records import FileRecords
from kdump.storage.source import Source


class Raw(NamedTuple):
    """A record of an internal topic, and whether it is a control record."""

    offset: int
    control: bool
    key: bytes | None
    value: bytes | None

    def decoded(self, topic: str) -> Pair:
        return (
            decode_control(self.key, self.value)
            if self.control
            else decode(topic, self.key, self.value)
        )


def raw_records(path: Path) -> Iterator[Raw]:
    """Yield the records of a log file or a metadata snapshot."""
    with Source(str(path)) as source:
        for item in FileRecords(source).walk():
            if not isinstance(item, Run):
                continue
            for row in range(item.batches.count):
                control = bool(item.batches.flags_of(row) & c.CONTROL)
                for piece in read_batch(item.data, item.base, item.batches, row, limit=1 << 24):
                    data, records = piece.data, piece.records
                    for number in range(records.count):
                        key, value = records.key(data, number), records.payload(data, number)
                        yield Raw(
                            records.offset(number),
                            control,
                            None if key is None else bytes(key),
                            None if value is None else bytes(value),
                        )


def as_json(held: Any) -> Any:
    """Write bytes as Kafka's converters to JSON do."""
    if isinstance(held, bytes):
        return base64.b64encode(held).decode()
    if isinstance(held, dict):
        return {name: as_json(inner) for name, inner in held.items()}
    return [as_json(inner) for inner in held] if isinstance(held, list) else held
