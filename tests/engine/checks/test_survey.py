"""What checks of a whole directory are told of one partition, and of small files."""

from pathlib import Path

import pytest
from directories import DataDirectory, identifier
from segments import partition_of

from kdump.engine.checks.survey import PartitionFacts, Survey, problem_finding, read_properties
from kdump.engine.reading.scan import scan
from kdump.findings.catalogue import CATALOGUE
from kdump.findings.finding import Finding, finding
from kdump.findings.rows import Place
from kdump.storage.problems import Problem
from kdump.storage.properties import parse_partition_metadata

CODE = "transaction-index-order"
PLACE = Place("orders", 0, 10, "/data/orders-0/10.txnindex")


@pytest.mark.parametrize(
    ("places", "more"), [(1, None), (2, "1 more place"), (1001, "1,000 more places")]
)
def test_problem_at_several_places_has_one_finding(places: int, more: str | None) -> None:
    problem = Problem(CODE, position=34, size_bytes=7, expected=1, actual=2, places=places)
    told = problem_finding(problem, PLACE)
    assert (told.code, told.path, told.segment) == (CODE, PLACE.path, 10)
    assert (told.position, told.size_bytes, told.expected, told.actual) == (34, 7, 1, 2)
    sentence = CATALOGUE[CODE].sentence
    assert told.message == (f"{sentence} The same in {more}." if more else sentence)


def test_missing_or_unreadable_small_file(tmp_path: Path) -> None:
    path = tmp_path / "partition.metadata"
    place = PLACE._replace(path=str(path))
    assert read_properties(place, parse_partition_metadata) == (None, [])
    path.symlink_to(path)
    found, (told,) = read_properties(place, parse_partition_metadata)
    assert found is None
    assert (told.code, told.path) == ("properties-malformed", str(path))
    assert told.message.startswith("It ")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    data = DataDirectory(tmp_path / "data")
    return data.partition("orders", 0, (10, 20))


def facts_of(directory: Path, *findings: Finding) -> PartitionFacts:
    partition = partition_of(directory)
    survey = Survey(partition)
    told = [one for one in scan(partition, [survey]) if isinstance(one, Finding)]
    facts = survey.facts([*told, *findings])
    assert facts is not None
    return facts


def test_facts_of_a_partition_are_collected(directory: Path) -> None:
    facts = facts_of(directory)
    log = directory / f"{20:020}.log"
    assert (facts.topic, facts.partition, facts.path) == ("orders", 0, str(directory))
    assert (facts.topic_id, facts.has_metadata) == (identifier(7), True)
    assert (facts.base_offset, facts.next_offset) == (10, 30)
    assert facts.newest == (str(log), log.stat().st_size)
    assert facts.is_live
    assert not facts.pre08
    assert facts.still_holds()
    assert facts.read_topic_id() == identifier(7)
    log.write_bytes(log.read_bytes() + b"x")
    assert not facts.still_holds()
    log.unlink()
    assert not facts.still_holds()


def test_partition_without_an_id_is_surveyed(directory: Path) -> None:
    path = directory / "partition.metadata"
    path.write_text("version: 0\n")
    facts = facts_of(directory)
    assert (facts.topic_id, facts.has_metadata, facts.read_topic_id()) == (None, True, None)
    path.unlink()
    facts = facts_of(directory)
    assert (facts.topic_id, facts.has_metadata, facts.read_topic_id()) == (None, False, None)


@pytest.mark.parametrize(
    ("code", "segment", "known"),
    [("crc-mismatch", 20, False), ("crc-mismatch", 10, True), ("slack-bytes", 20, True)],
)
def test_damage_may_hide_the_end_of_the_newest_segment(
    directory: Path, code: str, segment: int, known: bool
) -> None:
    told = finding(code, path=str(directory), segment=segment)
    assert facts_of(directory, told).next_offset == (30 if known else None)


def test_partition_without_segments_is_surveyed(directory: Path) -> None:
    for path in directory.glob("0*"):
        path.unlink()
    facts = facts_of(directory)
    assert (facts.base_offset, facts.next_offset, facts.newest) == (None, None, None)
    assert facts.still_holds()
    (directory / f"{0:020}.log").write_bytes(b"")
    assert not facts.still_holds()
