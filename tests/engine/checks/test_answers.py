"""What a broker of a version answers through a wrong index, against what it would answer."""

import struct
from pathlib import Path

import builders
import pytest

from kdump.broker.settings import Settings
from kdump.broker.versions import Version
from kdump.engine.checks.answers import Answers, Wrong
from kdump.engine.reading.partition_scan import PartitionScan
from kdump.storage.source import Source
from kdump.storage.targets import Selection, Target, resolve


def batch(first: int, last: int) -> bytes:
    records = [builders.record(at) for at in range(last - first + 1)]
    return builders.batch(records, base_offset=first)


@pytest.mark.parametrize(("broker", "wrong"), [((4, 0), Wrong(12, 12, 20)), ((4, 1), None)])
def test_the_version_asked_for_looks_up(
    broker: Version, wrong: Wrong | None, tmp_path: Path
) -> None:
    """A 4.1 broker passes batch 10-19 over, for 5-8 behind it: there the entry misleads nobody."""
    log = [batch(0, 9), batch(10, 19), batch(5, 8)]
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(b"".join(log) + batch(20, 29))
    (directory / f"{0:020d}.index").write_bytes(struct.pack(">ii", 12, sum(map(len, log))))
    target = next(resolve([str(directory)], Selection()))
    assert isinstance(target, Target)
    partition = PartitionScan(target, directory=None, settings=Settings(), broker=broker)
    segment = partition.segments[0]
    with Source(directory / f"{0:020d}.log") as segment.source, Answers(partition, segment) as ask:
        assert ask.wrong_offset(12, 0) == wrong
        assert ask.wrong_offset(25, 0) is None
