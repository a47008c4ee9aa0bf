"""The table of changes of broker behaviour, and how versions are read."""

import re

import pytest
from each import each
from rules import RULES

from kdump.broker import versions
from kdump.broker.versions import (
    NEWEST,
    Change,
    Version,
    has,
    is_newer_than_known,
    read_broker_version,
    same_answer,
    text_of,
)

CHANGES = {name: value for name, value in vars(versions).items() if isinstance(value, Change)}
each_change = pytest.mark.parametrize("name", CHANGES)


@each_change
def test_each_change_cites_a_rule_a_proposal_or_a_ticket(name: str) -> None:
    cited = CHANGES[name].source.split()
    assert cited
    for code in cited:
        assert code in RULES or re.fullmatch(r"KIP-\d+|KAFKA-\d+", code), code


@each_change
def test_change_is_one_sentence_about_existing_releases(name: str) -> None:
    change = CHANGES[name]
    assert re.fullmatch(r"(?s)[A-Za-z].*[a-z0-9]\.", change.does)
    assert change.since[: len(NEWEST)] <= NEWEST
    assert change.until is None or change.since < change.until <= NEWEST
    assert read_broker_version(text_of(change.since)) == change.since


def test_changes_are_unique_and_in_release_order() -> None:
    found = [change.since for change in CHANGES.values()]
    assert found == sorted(found)
    assert len({change.does for change in CHANGES.values()}) == len(CHANGES) > 30


@each(
    ("version", "expected"),
    [((0, 8, 2, 2), False), ((0, 9), True), ((2, 2, 2), True), ((2, 3), False), (NEWEST, False)],
)
def test_change_ends_at_its_release(version: Version, expected: bool) -> None:
    assert has(version, versions.BROKEN_INDEX_REBUILT) is expected


def test_change_applies_from_its_release_on() -> None:
    assert not has((4, 0, 1), versions.BASE_OFFSET_SEARCH)
    assert has((4, 1), versions.BASE_OFFSET_SEARCH)
    assert has((5, 0), versions.BASE_OFFSET_SEARCH)


@pytest.mark.parametrize(("version", "newer"), [((4, 4, 9), False), ((4, 5), True), ((5, 0), True)])
def test_newer_release_counts_as_the_newest_known(version: Version, newer: bool) -> None:
    assert is_newer_than_known(version) is newer


@each("text", ["0.5", "0.12", "1.2", "2.9", "3.10", "4", "x", ""])
def test_malformed_release_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a (release|version)"):
        read_broker_version(text)


def test_release_is_read_and_written() -> None:
    assert read_broker_version(" 0.10.0-IV1 ") == (0, 10, 0)
    assert text_of((3, 9, 1)) == "3.9.1"


#: Written down once more, so that a release is not changed unseen.
SINCE = {
    "0.8": "COUNTED_OFFSETS",
    "0.8.1": "RECOVERY_POINTS MISSING_INDEX_REBUILT",
    "0.8.1 to 0.9": "BROKEN_INDEX_STOPS",
    "0.8.2": "META_PROPERTIES SETS_FIT_SEGMENTS",
    "0.9 to 2.3": "BROKEN_INDEX_REBUILT",
    "0.9 to 0.10.1": "EMPTY_INDEX_MADE_FIRST",
    "0.9": "CHECKPOINTS_FORGIVEN KEYS_REQUIRED TOPICS_HAVE_CODECS SWAPS_AFTER_LOADING",
    "0.10": "MESSAGE_TIMESTAMPS SIZE_HELD_AGAINST_END",
    "0.10.1": "WRAPPERS_TIMED INNER_MAGIC_NAMED TIME_INDEX TIME_LOOKUP FIRST_ENTRY_WHOLE",
    "0.10.2": "READ_BY_CLIENTS_CODE IMPOSSIBLE_SIZE_RAISES",
    "0.10.2 to 1.1.1": "SIZES_WRAP",
    "0.10.2 to 2.0": "CLEANER_STOPPED_BY_OFFSETS",
    "0.11": "RECORD_BATCHES REQUEST_CHECKED TIMESTAMP_NOT_NEEDED PRODUCER_STATE "
    "LEADER_EPOCHS TRANSACTION_INDEX LOG_START EMPTY_RANGE_OF_SEGMENTS "
    "SWAP_DROPS_EVERY_INDEX",
    "1.0": "PROTOCOL_REWORDED DIRECTORY_FAILURES FIVE_BATCHES_KNOWN LAG_REWORDED "
    "META_ADDRESS_REFUSED",
    "1.1": "FUTURE_REPLICAS COUNTS_COMPARED",
    "2.0": "LAST_OFFSETS_INDEXED OFFSETS_REFUSED "
    "INDEX_MAY_END_AT_BASE OVERFLOW_SPLIT SWAP_REPLACES_WHAT_OVERLAPS "
    "OFFSETS_KEPT_A_WEEK MAGIC_BEFORE_SIZE",
    "2.1": "OFFSETS_EXPIRE_WITH_GROUP REQUEST_ANSWERED CLEANER_GOES_ON ZSTD "
    "PROTOCOL_VALIDATED EPOCHS_ANSWERED WARM_SECTION_SEARCH",
    "2.1 to 2.8": "FIRST_ENTRY_LOOKED_AT",
    "2.1 to 3.0": "ZSTD_END_NOT_READ",
    "2.3": "INDEXES_OPENED_LATE META_OPENED_AS_PATH LOG_START_KEPT FETCH_ENDS_AT_POSITION",
    "2.4": "CLUSTER_ID_KEPT ONE_BATCH INVALID_NAMED",
    "2.4 to 2.5": "ORDER_INSIDE",
    "2.5": "LAG_OF_HALF_A_MINUTE RECORD_ERRORS ANY_FIRST_SEQUENCE "
    "MESSAGES_OF_A_MEBIBYTE FOLLOWER_SIZES_FREE",
    "2.6": "KEYS_SKIPPED",
    "2.7": "EPOCHS_CHECKED",
    "2.8": "RANGES_REWORDED LISTENER_NAMES_FIRST META_VERSION_IMPLIED "
    "MARK_READ_FIRST KRAFT TOPIC_IDS",
    "3.0": "LOG_START_GOES_FIRST SWAPS_RENAMED_FIRST MAX_TIMESTAMP_LOOKUP "
    "FORMATS_FIXED SMALL_FILES_FAIL_DIRECTORY ROLES_CHECKED",
    "3.1": "DELETE_HORIZON CONTROLLER_LISTENERS_CHECKED",
    "3.3": "ONE_NODE_ID VERSIONS_UNQUOTED CHECKPOINT_IN_JAVA BOOTSTRAP_CHECKPOINT",
    "3.4": "METADATA_LEVELS_NAMED PRODUCER_EXPIRATION METADATA_RECORDS_END",
    "3.5": "EARLIEST_LOCAL_LOOKUP",
    "3.6": "PORTS_OF_TWO_FAMILIES REMOTE_INDEX_CACHE BEFORE_AND_AFTER "
    "TRANSACTIONS_VERIFIED TIERED_STORAGE METADATA_SNAPSHOTS_END "
    "TOPIC_TWICE_ENDS",
    "3.6.1": "REMOTE_STATE_CHECKED",
    "3.7": "STOP_NAMES_EPOCH DIRECTORY_IDS METADATA_DIR_NEEDED "
    "IDENTITY_OF_ANY_VERSION META_ENSEMBLE STRAYS_SET_ASIDE "
    "QUORUM_VERSION_CHECKED",
    "3.8": "QUORUM_STATE_MATTERS QUORUM_VERSION_1 EXACT_MAX_TIMESTAMP",
    "3.9": "CONTROLLERS_ADVERTISED LATEST_TIERED_LOOKUP LOWER_TIMES_REFUSED KRAFT_VERSION",
    "3.9.2 to 4.4": "LAST_BATCH_KEPT",
    "4.0": "KRAFT_ONLY TWO_RECOVERY_THREADS FUTURE_LIMITED BATCHES_ONLY "
    "REMOTE_DELETION_RETRIED OLD_MESSAGES_REWRITTEN READ_GIVES_BASE_OFFSET LOCAL_COPY_SEARCHED",
    "4.1": "BASE_OFFSET_SEARCH SHORT_MARKERS_RAISE",
    "4.2": "CONTROLLER_LISTENERS_REQUIRED EARLIEST_PENDING_LOOKUP LARGER_THAN_START "
    "EPOCHS_ARE_RECORDS IDENTITY_REWORDED LISTS_CHECKED",
    "4.3": "REMOTE_TIME_EXCEEDED NEWER_BROKER_RECORD",
    "4.4": "SETTINGS_REWORDED LAST_REPLICATED_BATCH_KEPT BOTH_VERSION_BYTES",
    "4.4.1": "FUTURE_SEGMENTS_BY_FILE_TIME",
}


def test_releases_of_changes() -> None:
    found: dict[str, list[str]] = {}
    for name, change in CHANGES.items():
        until = f" to {text_of(change.until)}" if change.until else ""
        found.setdefault(text_of(change.since) + until, []).append(name)
    assert {release: " ".join(names) for release, names in found.items()} == SINCE


@each("text", ["0.6", "0.11.0.3", "1.1.1", "2.8", "3.9.1", "4.4", "5.0", "9.12"])
def test_version_of_a_broker(text: str) -> None:
    assert text_of(read_broker_version(text)) == text


@each("text", ["0.5.9", "0.12", "1.2.0", "2.9", "3.10", "2.8-IV1x", "2.8.", "a2.8"])
def test_version_of_no_broker(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a (release|version)"):
        read_broker_version(text)


def test_answer_applies_to_releases_without_a_relevant_change() -> None:
    old, new = (2, 8), (4, 4)
    asked = [versions.TIME_INDEX, versions.KRAFT_ONLY]

    def ask(*numbers: int) -> tuple[list[bool], bool]:
        return same_answer(lambda: [has(new, asked[n]) for n in numbers], [(new, old)])

    assert ask(0) == ([True], True)
    assert ask(1) == ([True], False)
    assert ask(0, 1) == ([True, True], False)
    # What was asked before does not count, what was asked inside does.
    assert ask(0)[1]
    assert not same_answer(lambda: ask(1), [(new, old)])[1]
    assert same_answer(lambda: ask(1), [(new, new), (old, old)])[1]
    assert not same_answer(lambda: versions.newest_protocol(new), [(new, old)])[1]
