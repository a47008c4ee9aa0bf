"""What a broker of a version answers through a wrong index, against what it would answer."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import builders
import pytest
from builders import offset_index, time_index
from each import each
from partitions import target_of, write_segment

from kdump.broker.settings import Settings
from kdump.broker.versions import Version
from kdump.engine.checks.answers import Answers, WrongAnswer
from kdump.engine.reading.partition_scan import PartitionScan
from kdump.storage.source import Source


def batch(first: int, last: int, time_ms: int = 0) -> bytes:
    records = [builders.record(at) for at in range(last - first + 1)]
    return builders.batch(records, base_offset=first, base_timestamp=time_ms)


@contextmanager
def open_answers(
    parent: Path,
    base: int,
    log: list[bytes],
    index: bytes,
    times: bytes | None,
    broker: Version = (4, 0),
) -> Iterator[Answers]:
    """Ask a segment with these indexes."""
    path = write_segment(parent / "t-0", base, b"".join(log), index, times)
    target = target_of(path.parent)
    partition = PartitionScan(target, directory=None, settings=Settings(), broker=broker)
    segment = partition.segments[0]
    with Source(path) as segment.source, Answers(partition, segment) as ask:
        yield ask


@pytest.mark.parametrize(("broker", "wrong"), [((4, 0), WrongAnswer(12, 12, 20)), ((4, 1), None)])
def test_lookups_use_the_requested_version(
    broker: Version, wrong: WrongAnswer | None, tmp_path: Path
) -> None:
    """A 4.1 broker passes batch 10-19 over, for 5-8 behind it: there the entry misleads nobody."""
    log = [batch(0, 9), batch(10, 19), batch(5, 8)]
    index = offset_index([(12, sum(map(len, log)))])
    with open_answers(tmp_path, 0, [*log, batch(20, 29)], index, None, broker) as ask:
        assert ask.wrong_offset(12, 0) == wrong
        assert ask.wrong_offset(25, 0) is None


#: Three batches, of the times 0, 100 and 200; where the last two begin, and where the log ends.
LOG = [batch(10, 19, 0), batch(20, 29, 100), batch(30, 39, 200)]
SECOND, THIRD, END = (sum(map(len, LOG[:number])) for number in (1, 2, 3))


@each(
    ("entry", "target", "wrong"),
    [
        ((12, SECOND), 22, None),
        ((12, SECOND), 21, None),
        ((2, SECOND), 12, WrongAnswer(12, 12, 20)),
        ((2, SECOND), 11, None),  # the entry is not for it
        ((2, END), 12, WrongAnswer(12, 12, "none")),
        ((2, END), 40, None),  # there is none
        ((2, SECOND - 8), 12, WrongAnswer(12, 12, "an error")),
        ((2, SECOND), 9, None),  # of an earlier segment
    ],
)
def test_answers_for_an_offset(
    tmp_path: Path, entry: tuple[int, int], target: int, wrong: WrongAnswer | None
) -> None:
    with open_answers(tmp_path, 10, LOG, offset_index([entry]), None) as ask:
        assert ask.wrong_offset(target, 0) == wrong


def test_answer_is_never_below_the_target(tmp_path: Path) -> None:
    with open_answers(tmp_path, 10, LOG, offset_index([(2, SECOND)]), None) as ask:
        assert ask.wrong_offset(25, 0) is None
        assert ask.wrong_offset(25, THIRD) == WrongAnswer(25, 30, 25)


@each(
    ("entry", "time", "target_ms", "wrong"),
    [
        ((12, SECOND), (0, 12), 0, WrongAnswer(0, 10, 20)),
        ((12, SECOND), (0, 12), -1, None),  # no time of a record
        ((12, SECOND), (1, 12), 0, None),
        ((12, SECOND), (0, 12), 1, None),
        ((12, SECOND), (0, 12), 100, None),
        ((22, THIRD), (50, 22), 100, WrongAnswer(100, 20, 30)),
        ((22, THIRD), (50, 22), 201, None),  # there is none
        ((12, END), (50, 12), 100, WrongAnswer(100, 20, "none")),
        ((12, SECOND - 8), (50, 12), 100, WrongAnswer(100, 20, "an error")),
    ],
)
def test_answers_for_a_time(
    tmp_path: Path,
    entry: tuple[int, int],
    time: tuple[int, int],
    target_ms: int,
    wrong: WrongAnswer | None,
) -> None:
    with open_answers(tmp_path, 10, LOG, offset_index([entry]), time_index([time])) as ask:
        assert ask.wrong_time(target_ms) == wrong


def test_unreadable_files_give_no_answer(tmp_path: Path) -> None:
    with open_answers(tmp_path, 10, LOG, offset_index([(2, SECOND)]), time_index([(0, 12)])) as ask:
        for path in (tmp_path / "t-0").glob("*index"):
            path.unlink()
        assert ask.wrong_time(0) is None
        assert ask.wrong_offset(12, 0) is None


def test_answers_have_their_wording() -> None:
    sentence = "{right}, not {given}"
    assert WrongAnswer(1200, 1200, "none").words(sentence) == "1,200, not nothing"
    assert WrongAnswer(1200, "an error", 123456).words(sentence) == "an error, not 123,456"
