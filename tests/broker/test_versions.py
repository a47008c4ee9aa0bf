"""The table of changes of broker behaviour, and how versions are read."""

import re

import pytest
from rules import RULES

from kdump.broker import versions
from kdump.broker.versions import (
    NEWEST,
    Change,
    Version,
    has,
    is_newer_than_known,
    read_broker_version,
    text_of,
)

CHANGES = {name: value for name, value in vars(versions).items() if isinstance(value, Change)}
each_change = pytest.mark.parametrize("name", CHANGES)


@each_change
def test_change_cites_a_rule_a_proposal_or_a_ticket(name: str) -> None:
    cited = CHANGES[name].source.split()
    assert cited
    for code in cited:
        assert code in RULES or re.fullmatch(r"KIP-\d+|KAFKA-\d+", code), code


@each_change
def test_change_is_one_sentence_about_releases_that_there_are(name: str) -> None:
    change = CHANGES[name]
    assert re.fullmatch(r"(?s)[A-Za-z].*[a-z0-9]\.", change.does)
    assert change.since[: len(NEWEST)] <= NEWEST
    assert change.until is None or change.since < change.until <= NEWEST
    assert read_broker_version(text_of(change.since)) == change.since


def test_changes_stand_in_the_order_of_releases_each_once() -> None:
    found = [change.since for change in CHANGES.values()]
    assert found == sorted(found)
    assert len({change.does for change in CHANGES.values()}) == len(CHANGES) > 30


@pytest.mark.parametrize(
    ("version", "expected"),
    [((0, 8, 2, 2), False), ((0, 9), True), ((2, 2, 2), True), ((2, 3), False), (NEWEST, False)],
)
def test_change_that_ended(version: Version, expected: bool) -> None:
    assert has(version, versions.BROKEN_INDEX_REBUILT) is expected


def test_change_holds_from_its_release_on() -> None:
    assert not has((4, 0, 1), versions.BASE_OFFSET_SEARCH)
    assert has((4, 1), versions.BASE_OFFSET_SEARCH)
    assert has((5, 0), versions.BASE_OFFSET_SEARCH)


@pytest.mark.parametrize(("version", "newer"), [((4, 4, 9), False), ((4, 5), True), ((5, 0), True)])
def test_newer_than_known(version: Version, newer: bool) -> None:
    assert is_newer_than_known(version) is newer


@pytest.mark.parametrize("text", ["0.5", "0.12", "1.2", "2.9", "3.10", "4", "x", ""])
def test_no_release(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a (release|version)"):
        read_broker_version(text)


def test_release_is_read_and_written() -> None:
    assert read_broker_version(" 0.10.0-IV1 ") == (0, 10, 0)
    assert text_of((3, 9, 1)) == "3.9.1"


@pytest.mark.parametrize("text", ["0.6", "0.11.0.3", "1.1.1", "2.8", "3.9.1", "4.4", "5.0", "9.12"])
def test_version_of_a_broker(text: str) -> None:
    assert text_of(read_broker_version(text)) == text


@pytest.mark.parametrize(
    "text", ["0.5.9", "0.12", "1.2.0", "2.9", "3.10", "2.8-IV1x", "2.8.", "a2.8"]
)
def test_version_of_no_broker(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a (release|version)"):
        read_broker_version(text)
