"""The indexes that `reindex` writes, and where a broker's recovery would have ended."""

from pathlib import Path

from builders import CONTROL, TRANSACTIONAL, batch, control_record, record

from kdump.broker.index_builder import IndexBuilder, Rules, Stop
from kdump.broker.producer_state import ProducerStates
from kdump.broker.settings import Settings
from kdump.storage.file_records import FileRecords
from kdump.storage.source import Source


def built(path: Path, log: bytes) -> IndexBuilder:
    path.write_bytes(log)
    rules = Rules((4, 1), Settings(index_interval_bytes=0))
    builder = IndexBuilder(0, rules, ProducerStates())
    with Source(str(path)) as source:
        for item in FileRecords(source).walk():
            if not builder.take(item):
                break
    builder.finish()
    return builder


def test_recovery_ends_behind_a_marker_that_cannot_be_read(tmp_path: Path) -> None:
    """The broker notices when the batch is in the index already."""
    producer = {"producer_id": 7, "producer_epoch": 0}
    first = batch([record()], attributes=TRANSACTIONAL, base_sequence=0, **producer)
    short = control_record(0, b"short")
    marker = batch([short], base_offset=1, attributes=TRANSACTIONAL | CONTROL, **producer)
    behind = [batch([record()], base_offset=at) for at in (2, 3)]
    builder = built(tmp_path / f"{0:020}.log", b"".join((first, marker, *behind)))
    end = len(first + marker)
    words = "the control record of producer 7 cannot be read"
    assert builder.stop == Stop(end, 2, words, "cut")
    assert (builder.end_position, builder.next_offset, builder.lost) == (end, 2, 2)
    assert [entry for _, entry in builder.index.offset_index().slots()] == [(1, len(first))]
