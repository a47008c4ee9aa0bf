"""A chunk's text goes when the next item is asked for, though the chunk itself is still held."""

import gzip
import random
from pathlib import Path

import builders
import pytest

from kdump.engine.dump.run import dump
from kdump.engine.kafka_text.dump import kafka_dump
from kdump.engine.kafka_text.log import ToolChunk
from kdump.engine.reading.options import DumpOptions
from kdump.findings.rows import RecordChunk

# Small batches are opened together up to a megabyte, large ones alone.
SMALL = b"v" * 600_000
LARGE = random.Random(1).randbytes(70_000)


@pytest.mark.parametrize(("value", "count"), [(SMALL, 5), (LARGE, 3)], ids=["small", "large"])
@pytest.mark.parametrize("ask", [dump, kafka_dump])
def test_one_plain_text_at_a_time(tmp_path: Path, ask: object, value: bytes, count: int) -> None:
    log = tmp_path / "t-0" / f"{0:020d}.log"
    log.parent.mkdir()
    packed = gzip.compress(builders.record(value=value))
    one = {"attributes": builders.GZIP, "payload": packed, "records_count": 1}
    log.write_bytes(b"".join(builders.batch(base_offset=at, **one) for at in range(count)))
    held: list[RecordChunk] = []
    for item in ask([str(log)], DumpOptions()):  # type: ignore[operator]
        assert not any(len(chunk.data) for chunk in held)
        chunk = item.records if isinstance(item, ToolChunk) else item
        if isinstance(chunk, RecordChunk):
            assert len(chunk.data) >= len(value)
            held.append(chunk)
    assert len(held) == 3
