"""One marker against one entry of a transaction index: what may differ, and what is wrong."""

from pathlib import Path
from typing import Any

import pytest
from each import each
from producing import aborted_index, data, index_of, log_of, write_log
from segments import partition_of

from kdump.broker.producer_events import TransactionEnd
from kdump.broker.producer_state import ProducerStates
from kdump.engine.checks.transaction_index import TransactionIndexCheck
from kdump.engine.reading.check import Conditional, RestsOn
from kdump.storage.source import Source

# Producer 7's transaction of two records at 40 and 41 ends at 50; nothing else is open.
ENDED = TransactionEnd(
    position=900, producer_id=7, producer_epoch=0, offset=50, committed=False, first_offset=40,
    last_stable_offset=51, others=(), records_count=2, last_data_offset=41, joined_from=0,
    joined_from_then=0, previous_marker=-1,
)  # fmt: skip


def check_entries(
    parent: Path,
    entries: list[tuple[int, int, int, int]],
    *ended: TransactionEnd,
    log_start: int = 0,
    known_from: int = 0,
    opened: int | None = None,
    unknown: list[tuple[int, int]] | None = None,
) -> list[Conditional]:
    """Hold the entries of a segment at 0 against some markers."""
    path = write_log(parent, {0: [data(0)]})
    index_of(path, 0).write_bytes(aborted_index(*entries))
    (segment,) = partition_of(path).segments
    check = TransactionIndexCheck(partition_of(path), ProducerStates(), log_start, " (Doubt.)")
    with Source(log_of(path, 0)) as segment.source:
        segment.complete = True
        check.begin(segment)
        check.end_unknown(known_from)
        for place in unknown or []:
            check.note_unknown(segment, *place)
        for one in ended:
            check.note_abort(segment, one)
        if opened is not None:
            check.note_open(opened)
        return [
            found if isinstance(found, Conditional) else Conditional(found, RestsOn())
            for found in check.finish(segment)
        ]


@each(
    ("first", "changed", "log_start", "wrong"),
    [
        (40, {}, 0, False),
        (39, {}, 0, True),
        (41, {}, 0, True),
        (50, {}, 0, True),
        (51, {}, 0, True),
        (-1, {}, 0, True),
        (39, {"joined_from_then": 40}, 0, False),  # a hole lay there when it began
        (39, {"joined_from_then": 39}, 0, True),
        (0, {"joined_from_then": 1, "first_offset": 1}, 0, False),
        (-1, {"joined_from_then": 1, "first_offset": 1}, 0, True),
        (30, {"joined_from_then": 40, "previous_marker": 29}, 0, False),
        (30, {"joined_from_then": 40, "previous_marker": 30}, 0, True),
        (41, {"joined_from": 5}, 0, False),  # a hole behind its begin
        (41, {"joined_from": 5, "joined_from_then": 5}, 0, True),
        (41, {}, 40, True),
        (41, {}, 41, False),  # a start knows nothing below the log start
        (50, {"joined_from": 5}, 0, False),
        (51, {"joined_from": 5}, 0, True),
        (45, {"first_offset": -1, "joined_from": 45}, 0, True),
        (44, {"first_offset": -1, "joined_from": 45}, 0, False),
    ],
)
def test_first_offsets_an_entry_may_have(
    tmp_path: Path, first: int, changed: dict[str, Any], log_start: int, wrong: bool
) -> None:
    found = check_entries(
        tmp_path, [(7, first, 50, 51)], ENDED._replace(**changed), log_start=log_start
    )
    codes_of = [one.finding.code for one in found]
    assert codes_of == (["transaction-index-first-offset"] if wrong else [])
    if wrong:
        begins = changed.get("first_offset", 40)
        finding, touches = found[0]
        assert (finding.expected, finding.actual) == (None if begins < 0 else begins, first)
        assert ("has no batch" in finding.message) == (begins < 0)
        assert finding.message.endswith(" (Doubt.)")
        assert (finding.position, finding.size_bytes, finding.offset) == (0, 34, 50)
        assert touches == RestsOn(0, 900, None, 50 if begins < 0 else begins, 51)


@each(
    ("stable", "changed", "given", "wrong"),
    [
        (51, {}, {}, False),
        (50, {}, {}, True),
        (52, {}, {}, True),
        (-1, {}, {}, True),
        (0, {}, {}, True),
        (50, {}, {"known_from": 50}, True),
        (50, {}, {"known_from": 51}, False),  # what was open there is not known
        (50, {"joined_from": 50}, {}, True),
        (50, {"joined_from": 51}, {}, False),
        (52, {"joined_from": 60}, {}, True),
        (60, {}, {"opened": 60}, False),  # opened in the same append
        (60, {}, {"opened": 61}, True),
        (52, {}, {"opened": 52}, False),
        (51, {"last_stable_offset": 50}, {"opened": 51}, True),
        (30, {"last_stable_offset": 20, "others": (20,)}, {}, True),
        (30, {"last_stable_offset": 20, "others": (20,)}, {"log_start": 20}, True),
        (30, {"last_stable_offset": 20, "others": (20,)}, {"log_start": 21}, False),
        (30, {"last_stable_offset": 20, "others": (20,), "joined_from": 20}, {}, True),
        (30, {"last_stable_offset": 20, "others": (20,), "joined_from": 21}, {}, False),
        (60, {"last_stable_offset": 20, "others": (20,)}, {"opened": 60}, True),
        (15, {"last_stable_offset": 20, "others": (20,)}, {}, True),
    ],
)
def test_stable_offsets_an_entry_may_have(
    tmp_path: Path, stable: int, changed: dict[str, Any], given: dict[str, Any], wrong: bool
) -> None:
    ended = ENDED._replace(**changed)
    found = check_entries(tmp_path, [(7, 40, 50, stable)], ended, **given)
    codes_of = [one.finding.code for one in found]
    assert codes_of == (["transaction-index-stable-offset"] if wrong else [])
    if wrong:
        expected = changed.get("last_stable_offset", 51)
        assert (found[0].finding.expected, found[0].finding.actual) == (expected, stable)
        assert found[0].touches == RestsOn(0, 900, None, min(expected, 50), 51)


@each(
    ("changed", "log_start", "missing"),
    [
        ({}, 0, True),
        ({"first_offset": 0}, 0, True),
        ({"first_offset": -1}, 0, False),
        ({"records_count": 1}, 0, True),
        ({"records_count": 0}, 0, False),
        ({}, 41, True),
        ({}, 42, False),
    ],
)
def test_transactions_that_need_an_entry(
    tmp_path: Path, changed: dict[str, Any], log_start: int, missing: bool
) -> None:
    found = check_entries(tmp_path, [], ENDED._replace(**changed), log_start=log_start)
    assert [one.finding.code for one in found] == ["transaction-index-missing"] * missing


def test_missing_entries_have_one_finding(tmp_path: Path) -> None:
    other = ENDED._replace(
        offset=60, first_offset=30, last_data_offset=59, records_count=5, producer_id=8
    )
    ((told, _),) = check_entries(tmp_path, [], ENDED, other)
    assert (told.offset, told.expected, told.actual) == (50, "2 entries", "none")
    assert told.message == (
        "The index lacks 2 aborted transactions, with 7 records between offsets 30 and 59. (Doubt.)"
    )


@each(
    ("entry", "meant"),
    [
        ((7, 40, 49, 51), 50),  # of the same producer, and with the same begin
        ((7, 39, 49, 51), None),
        ((8, 40, 49, 51), None),
        ((6, 41, 49, 51), None),
    ],
)
def test_entry_without_a_marker_is_matched_to_its_transaction(
    tmp_path: Path, entry: tuple[int, int, int, int], meant: int | None
) -> None:
    found = check_entries(tmp_path, [entry], ENDED)
    told, touches = found[0]
    assert (told.code, told.expected, told.actual) == ("transaction-index-marker", meant, 49)
    assert touches == RestsOn(0, None if meant is None else 900, None, 49, 50)
    rest = [] if meant else ["transaction-index-missing"]
    assert [one.finding.code for one in found[1:]] == rest


def test_entry_without_a_marker_rests_on_all_batches_out_of_order(tmp_path: Path) -> None:
    ((_, touches),) = check_entries(tmp_path, [(7, 40, 49, 51)], unknown=[(100, 200), (500, 600)])
    assert touches == RestsOn(0, 100, 600, 49, 50)


def test_entries_before_a_marker_name_none(tmp_path: Path) -> None:
    entries = [(7, 1, 2, 3), (7, 40, 50, 51), (7, 60, 70, 71)]
    told = [one.finding for one in check_entries(tmp_path, entries, ENDED)]
    assert [(one.code, one.position, one.actual) for one in told] == [
        ("transaction-index-marker", 0, 2),
        ("transaction-index-marker", 68, 70),
    ]


@pytest.mark.parametrize(("marker_at", "recovered"), [(-1, True), (0, False), (49, False)])
def test_entry_below_the_segment_causes_its_recovery(
    tmp_path: Path, marker_at: int, recovered: bool
) -> None:
    ((told, _),) = check_entries(tmp_path, [(7, -5, marker_at, 51)])
    words = (
        f"According to entry 0, producer 7's transaction was aborted at offset {marker_at}, but "
        "there "
        "is no ABORT marker."
    )
    more = " Brokers recover the segment at their next start."
    assert told.message == words + more * recovered
