"""A lower retention for a whole topic: where one does what a plan wants, and nothing else."""

from typing import Any

import pytest

from kdump.broker.retention import LogFacts, Policy, SegmentFacts
from kdump.engine.why.freeable import Freeable
from kdump.engine.why.freeing import Plan
from kdump.engine.why.lowering import LowerLimit, WantedSegments, find_lower_limit
from kdump.engine.why.volumes import Goal
from kdump.replay.topic_settings import KnownTopic

NOW = 1_700_000_000_000
HOUR = 3_600_000
POLICY = Policy(
    deletes=True, compacts=False, runs=True, retention_ms=1000 * HOUR, retention_bytes=-1
)
KNOWN = KnownTopic({}, 2)


def partition(number: int, hours: list[float], size: int = 100, **members: Any) -> Freeable:
    """Segments of ten offsets, as old as given; the last is the active one."""
    segments = tuple(
        SegmentFacts(at * 10, size, NOW - int(old * HOUR), at * 10 + 9, NOW)
        for at, old in enumerate(hours)
    )
    log = LogFacts(segments, 0, len(hours) * 10)
    sizes = tuple(one.size_bytes + 5 for one in segments)
    found = Freeable(
        "t", number, log, POLICY, sizes, 0, may_lose=True, every_ms=300_000,
        has_delete_records=True, known=KNOWN, directory="/d1",
    )  # fmt: skip
    return found._replace(**members)


def limit(*asked: tuple[Freeable, int]) -> LowerLimit | None:
    wanted = [
        WantedSegments(number, log, log.deleted, to) for number, (log, to) in enumerate(asked)
    ]
    return find_lower_limit("t", wanted, NOW)


def configs(change: str) -> str:
    start = "kafka-configs.sh --bootstrap-server BOOTSTRAP --alter"
    return f"{start} --entity-type topics --entity-name t {change}"


def test_age_of_the_youngest_deleted_segment() -> None:
    found = limit((partition(0, [90, 80, 3]), 2), (partition(1, [95, 70, 50]), 2))
    assert found is not None
    assert found.command == configs(f"--add-config retention.ms={70 * HOUR - 1}")
    assert found.undo == configs("--delete-config retention.ms")
    assert [one.to for one in found.wanted] == [2, 2]
    # The active segment of 50 hours is as old as the limit in another 20.
    assert found.more_from_ms == NOW + 20 * HOUR


def test_previous_limit_is_restored() -> None:
    known = KnownTopic({"retention.ms": "-1", "retention.bytes": "7"}, 2)
    found = limit((partition(0, [90, 3], known=known), 1), (partition(1, [90, 3]), 1))
    assert found is not None
    assert found.undo == configs("--add-config retention.ms=-1")


@pytest.mark.parametrize(
    ("why", "members"),
    [
        ("one has a partition elsewhere", {"known": KnownTopic({}, 3)}),
        ("nothing is known of the topic", {"known": None}),
    ],
)
def test_limit_is_not_lowered_if_others_would_lose(why: str, members: Any) -> None:
    assert limit((partition(0, [90, 3], **members), 1), (partition(1, [90, 3]), 1)) is None, why


def test_limit_is_not_lowered_for_one_partition() -> None:
    assert limit((partition(0, [90, 3], known=KnownTopic({}, 1)), 1)) is None
    assert limit((partition(0, [90, 3]), 1), (partition(1, [9, 3]), 0)) is None


def test_retention_bytes_is_used_if_no_age_suffices() -> None:
    """A record ahead of the clock holds what is behind it by time, and not by size."""
    found = limit((partition(0, [-5, 80, 3]), 2), (partition(1, [90, 80, 3]), 2))
    assert found is not None
    assert found.command == configs("--add-config retention.bytes=100")
    assert found.more_from_ms is None


def test_no_bytes_just_above_what_is_to_stay() -> None:
    """Of 300 bytes that are to stay a limit of 100 would soon delete all but what was written."""
    tight = partition(0, [-5, 80, 3], size=100)
    segments = (*tight.log.segments[:2], tight.log.segments[2]._replace(size_bytes=300))
    tight = tight._replace(log=tight.log._replace(segments=segments))
    assert limit((tight, 2), (partition(1, [90, 80, 3]), 2)) is None


def test_age_is_not_used_if_the_next_segment_is_nearly_as_old() -> None:
    """Of segments of one hour the limit would take more before it is typed in."""
    assert limit((partition(0, [90, 80, 80, 3]), 2), (partition(1, [95, 80, 3], 900), 2)) is None


@pytest.mark.parametrize(("active", "name"), [(79.75, "retention.bytes"), (79.25, "retention.ms")])
def test_proposed_age_is_valid_for_half_an_hour(active: float, name: str) -> None:
    found = limit(*((partition(number, [90, 80, active]), 2) for number in range(2)))
    assert found is not None
    assert f"--add-config {name}=" in found.command


def test_limits_are_not_raised() -> None:
    policy = POLICY._replace(retention_ms=60 * HOUR, retention_bytes=50)
    logs = [partition(number, [90, 3], policy=policy) for number in range(2)]
    assert limit(*((log, 1) for log in logs)) is None


def test_whole_partition_may_be_deleted() -> None:
    gone = partition(1, [9000], deleted=1)
    others = [partition(number, [90, 3], known=KnownTopic({}, 3)) for number in (0, 2)]
    wanted = [WantedSegments(at, log, 0, 1) for at, log in enumerate(others)]
    found = find_lower_limit("t", [*wanted, WantedSegments(2, gone, 1, 1)], NOW)
    assert found is not None
    assert [one.log.partition for one in found.wanted] == [0, 2]


def steps(asked: int, *logs: Freeable) -> list[dict[str, Any]]:
    return planned([Goal(("/d1",), asked)], *logs)


def planned(goals: list[Goal], *logs: Freeable) -> list[dict[str, Any]]:
    return [row.fields for row in Plan(goals, NOW).steps([], [], logs)]


def test_topic_has_its_own_step() -> None:
    (step,) = steps(400, partition(0, [90, 80, 3]), partition(1, [95, 70, 50]))
    assert (step["frees_bytes"], step["loses_records"]) == (420, 40)
    assert step["loses_to_ms"] == NOW - 70 * HOUR
    assert step["acts_within_ms"] == 300_000
    assert [one["partition"] for one in step["partitions"]] == [0, 1]
    assert "deletes more from 2023-11-15 18:13 on, unless you reset it" in step["text"]


def test_partitions_are_handled_one_by_one_if_no_limit_suffices() -> None:
    found = steps(10**6, partition(0, [90, 3]), partition(1, [90, 89, 89], size=1000))
    assert ["delete-records" in step["command"] for step in found] == [True, True]
    assert found[0]["undo"] is None


def test_old_brokers_delete_no_records() -> None:
    """Nothing else can be typed, and what a limit takes with it is counted."""
    old = {"has_delete_records": False, "known": None}
    (step,) = steps(100, partition(0, [90, 89, 3], **old), partition(1, [95, 80, 3], **old))
    assert step["command"].startswith("kafka-configs.sh --zookeeper ZOOKEEPER --alter")
    assert step["undo"] is None
    assert "--describe" in step["text"]
    assert step["frees_bytes"] == 105
    (step,) = steps(100, partition(0, [90, 90], **old))
    assert step["command"].endswith(" --add-config retention.bytes=100")


def test_limit_counts_deletions_in_other_directories() -> None:
    """Before 0.11 a limit is the only command, and it holds on all disks."""
    logs = [
        partition(0, [90, 3], has_delete_records=False),
        partition(1, [95, 3], has_delete_records=False, directory="/d2"),
    ]
    (step,) = planned([Goal(("/d1",), 1)], *logs)
    assert (step["frees_bytes"], step["loses_records"], step["directory"]) == (210, 20, None)
    assert [one["directory"] for one in step["partitions"]] == ["/d1", "/d2"]
    # Requests delete from each for itself, so none of the other directory's.
    logs = [log._replace(has_delete_records=True) for log in logs]
    (step,) = planned([Goal(("/d1",), 1)], *logs)
    assert (step["partition"], step["directory"]) == (0, "/d1")


def test_records_are_not_deleted_in_vain() -> None:
    """Segments may be cut to 0 bytes, as where a copy found no room."""
    assert planned([Goal(("/d1",), 1)], partition(0, [90, 3])._replace(sizes=(0, 100))) == []
