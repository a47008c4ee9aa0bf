"""What a broker makes of metadata records of remote segments (W2 to W8), and deletes (W13)."""

from typing import Any

import pytest
from each import each

from kdump.broker.remote_log import (
    COPY_FINISHED,
    DELETE_FINISHED,
    DELETE_STARTED,
    RemoteLog,
    RemoteSegment,
    Tier,
    is_within,
)
from kdump.broker.remote_retention import RemoteHold, RemotePass
from kdump.broker.retention import LogFacts, SegmentFacts
from kdump.broker.settings import Settings
from kdump.broker.versions import Version
from kdump.storage.checkpoints import EpochStart


def epochs(*pairs: tuple[int, int]) -> tuple[EpochStart, ...]:
    return tuple(EpochStart(*pair) for pair in pairs)


def segment(name: str, start: int, end: int, *pairs: tuple[int, int], **more: Any) -> RemoteSegment:
    return RemoteSegment(
        name, start, end, 1000 + end, 100, epochs(*(pairs or ((0, start),))), **more
    )


def log_of(*segments: RemoteSegment, finished: bool = True) -> RemoteLog:
    log = RemoteLog()
    for one in segments:
        log.add(one)
        if finished:
            log.update(one.segment_id, COPY_FINISHED, 1)
    return log


def find_segment(log: RemoteLog, epoch: int, offset: int) -> str | None:
    one = log.segment_at(epoch, offset)
    return one.segment_id if one else None


def test_finished_copies_are_found_until_their_deletion_starts() -> None:
    log = log_of(segment("a", 0, 9), finished=False)
    assert find_segment(log, 0, 5) is None
    assert [one.segment_id for one in log.in_epoch(0)] == ["a"]
    log.update("a", COPY_FINISHED, 1)
    assert (find_segment(log, 0, 5), find_segment(log, 0, 10), find_segment(log, 1, 5)) == (
        "a",
        None,
        None,
    )
    log.update("a", DELETE_FINISHED, 1)  # not from here: dropped
    assert find_segment(log, 0, 5) == "a"
    log.update("a", DELETE_STARTED, 1)
    assert find_segment(log, 0, 5) is None
    assert log.in_epoch(0)
    log.update("a", DELETE_FINISHED, 1)
    assert not log.segments
    assert log.deleted.keys() == {"a"}
    assert not log.in_epoch(0)
    log.update("b", COPY_FINISHED, 1)  # nobody knows it
    assert not log.segments


def test_later_copy_replaces_the_segments_it_covers() -> None:
    log = log_of(segment("a", 10, 90), segment("b", 5, 100), segment("c", 101, 200))
    assert [find_segment(log, 0, at) for at in (5, 95, 150)] == ["b", "b", "c"]
    assert log.reachable_ids() == {"b", "c"}
    shorter = log_of(segment("a", 10, 90), segment("b", 20, 50))
    assert [find_segment(shorter, 0, at) for at in (15, 20, 50, 60)] == ["a", "b", "b", None]


def test_epochs_within_a_segment() -> None:
    log = log_of(segment("a", 0, 99, (0, 0), (2, 50)))
    assert [find_segment(log, epoch, at) for epoch, at in ((0, 49), (0, 50), (2, 50), (2, 99))] == [
        "a", None, "a", "a",
    ]  # fmt: skip
    assert log.highest(0) == 49
    assert log.highest(2) == 99
    assert log.highest(1) is None


def test_tier_is_read_in_pieces_without_gaps() -> None:
    log = log_of(
        segment("a", 0, 49),
        segment("c", 80, 119, (0, 80), (3, 100)),
        segment("d", 120, 199, (3, 120)),
    )
    tier = Tier(log, list(epochs((0, 0), (3, 100))), 10, 150)
    assert (tier.log_start, tier.local_start) == (10, 150)
    pieces = [(one.first, one.last, one.segment.segment_id) for one in tier.pieces()]
    assert pieces == [(10, 49, "a"), (80, 119, "c"), (120, 149, "d")]
    assert tier.segment_at(60) is None
    assert tier.latest(200) == (199, 3)
    assert tier.latest(180) == (179, 3)
    assert Tier(log, list(epochs((0, 0))), 0, 150, copies=False).latest(200) == (-1, None)


@pytest.mark.parametrize(
    ("checkpoint", "start"), [(None, 20), (5, 20), (30, 30)], ids=["lost", "below", "above"]
)
def test_log_starts_at_the_first_remote_segment(checkpoint: int | None, start: int) -> None:
    log = log_of(segment("a", 20, 49))
    assert Tier(log, list(epochs((0, 0))), checkpoint, 100).log_start == start


@each(
    ("own", "end", "inside"),
    [
        (((0, 0),), 40, True),
        (((0, 0),), 60, False),  # reaches into the next epoch
        (((0, 0), (2, 50)), 90, True),
        (((0, 0), (2, 60)), 90, False),  # another start
        (((0, 0), (1, 50)), 90, False),  # an epoch that the partition has not
        (((2, 40),), 60, False),  # begins before its epoch does
        (((2, 50), (4, 100)), 400, False),  # above the log end
        (((0, 0), (1, 50), (2, 50)), 90, True),  # an epoch without records
    ],
)
def test_epochs_decide_whether_a_segment_belongs_to_the_log(
    own: Any, end: int, inside: bool
) -> None:
    one = RemoteSegment("a", own[0][1], end, 0, 1, epochs(*own))
    assert is_within(one, 300, {0: 0, 2: 50, 4: 100}) == inside


LOCAL = (SegmentFacts(30, 100, 0, 30, 0), SegmentFacts(40, 50, 0, 40, 0))


def holds(
    log: RemoteLog,
    *of_log: tuple[int, int],
    ms: int = -1,
    size: int = -1,
    start: int = 0,
    now: int = 10_000,
    broker: Version = (4, 4),
) -> dict[str, RemoteHold]:
    tier = Tier(log, [*epochs(*(of_log or ((0, 0),)))], start, 30)
    settings = Settings(retention_ms=ms, retention_bytes=size)
    facts = LogFacts(LOCAL, tier.log_start, 45, 45, tier.latest(45)[0])
    return dict(RemotePass(tier, facts, settings, now, broker).holds)


def rules(found: dict[str, RemoteHold]) -> list[str | None]:
    return [found[one].rule for one in sorted(found)]


def four() -> RemoteLog:
    return log_of(*(segment(name, 10 * at, 10 * at + 9) for at, name in enumerate("abcd")))


def test_time_size_and_log_start() -> None:
    assert rules(holds(four())) == [None] * 4
    found = holds(four(), ms=8981)  # b is just as old as the limit, a older, by its last record
    assert rules(found) == ["retention.ms", None, None, None]
    assert [found[one].due_ms for one in "bcd"] == [10_001, 10_011, 10_021]
    assert rules(holds(four(), ms=8981, broker=(4, 2)))[:2] == ["retention.ms"] * 2
    assert holds(four(), ms=8982, broker=(4, 2))["b"].due_ms == 10_001
    # Local segments count from the last tiered offset, 39, on: 400 and 50.
    assert rules(holds(four(), size=250)) == ["retention.bytes"] * 2 + [None] * 2
    assert rules(holds(four(), size=251)) == ["retention.bytes"] + [None] * 3
    assert rules(holds(four(), size=0)) == ["retention.bytes"] * 4
    # What goes by time counts for the size.
    assert rules(holds(four(), ms=8981, size=250)) == [
        "retention.ms",
        "retention.bytes",
        None,
        None,
    ]
    assert rules(holds(four(), start=20)) == ["log-start"] * 2 + [None] * 2
    assert rules(holds(four(), start=19)) == ["log-start"] + [None] * 3


def test_unfinished_copies_and_other_logs() -> None:
    log = four()
    log.update("b", DELETE_STARTED, 2)
    assert rules(holds(log, size=350)) == [None] * 4  # b counts no more, and a stays before it
    assert rules(holds(log, size=250)) == ["retention.bytes", "retry", None, None]
    assert rules(holds(log, size=250, broker=(3, 9))) == ["retention.bytes"] + [None] * 3
    log.add(segment("half", 10, 19))
    found = holds(log, ms=8000, now=9_020)
    assert found["half"] == RemoteHold("retention.ms", None, is_ours=True)
    log = log_of(segment("a", 0, 9, (0, 0)), segment("b", 10, 19, (1, 10)))
    other = segment("c", 10, 25, (2, 10))
    log.add(other)
    log.update("c", COPY_FINISHED, 1)
    found = holds(log, (0, 0), (1, 10), ms=0)
    assert rules(found) == ["retention.ms", "retention.ms", None]
    assert not found["c"].is_ours
    # An unclean election: the log begins with a later epoch than any of theirs.
    assert rules(holds(log, (7, 26), start=26)) == ["leader-epochs"] * 3
    log.problem = "damaged"
    assert holds(log, ms=0) == {}


def test_unclean_election_hides_remote_segments() -> None:
    """Up to 14 both logs are the same: of the old one, segments up to there are read."""
    log = log_of(
        segment("a", 0, 9),
        segment("b", 10, 19),
        segment("c", 20, 29),
        segment("d", 15, 24, (2, 15)),
    )
    tier = Tier(log, [*epochs((0, 0), (2, 15))], 0, 15)
    ids = [one for one in "abcd" if tier.reads(log.segments[one])]
    assert ids == ["a", "b", "d"]
    assert [piece.segment.segment_id for piece in tier.pieces()] == ["a", "b"]
    assert not Tier(log, [*epochs((0, 0), (2, 15))], 12, 15).reads(log.segments["a"])
    assert not Tier(log, [*epochs((2, 15))], 15, 15).reads(log.segments["b"])
