"""The times that retention goes by, against every header of what real brokers wrote."""

from pathlib import Path

from corpus import corpus
from each import each

from kdump.broker.segment_facts import log_facts
from kdump.broker.shutdown_state import stop_of
from kdump.broker.versions import NEWEST
from kdump.storage.file_records import FileRecords
from kdump.storage.source import Source
from kdump.storage.targets import Selection, Target, resolve

CORPORA = [f"modern/data/{name}" for name in ("clean", "live", "killed", "recovered")]


def walk_headers(path: str) -> tuple[int, int]:
    """Read all headers: the largest timestamp, and the offset behind the last batch."""
    largest = next_offset = -1
    with Source(path) as source:
        for rows in FileRecords(source).headers(0):
            largest = max(largest, *rows.max_timestamps)
            next_offset = rows.last_offset(rows.count - 1) + 1
    return largest, next_offset


@each("name", CORPORA)
def test_times_equal_those_of_the_headers(name: str) -> None:
    directories = sorted({path.parent for path in corpus(name).rglob("meta.properties")})
    segments = 0
    for directory in directories:
        segments += _compare(directory)
    assert segments > 40


def _compare(directory: Path) -> int:
    count = 0
    for target in resolve([str(directory)], Selection(), listed=False):
        assert isinstance(target, Target)
        assert target.log is not None
        clean = stop_of(target.log, target.log_dir(), NEWEST).clean
        facts = log_facts(target, NEWEST, clean=clean)
        for segment, fact in zip(target.log.logs, facts.segments, strict=True):
            assert segment.log is not None
            largest, next_offset = walk_headers(segment.log)
            assert fact.largest_timestamp_ms == largest, segment.log
            count += 1
        if facts.segments and next_offset >= 0:
            assert facts.log_end == max(next_offset, facts.log_start), target.path
    return count
