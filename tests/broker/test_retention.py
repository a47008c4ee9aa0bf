"""Retention passes, rule by rule; the oracle and the recorded broker hold them together."""

from each import each

from kdump.broker.retention import (
    DeletedSegment,
    LogFacts,
    Policy,
    SegmentFacts,
    holdings,
    policy_of,
    retention_pass,
)
from kdump.broker.settings import TOPIC, Settings
from kdump.broker.versions import NEWEST

NOW = 1_000_000
POLICY = Policy(True, False, True, 1000, -1)


def log(*times: int, start: int = 0, mark: int | None = None, size: int = 100) -> LogFacts:
    """Segments of ten offsets each; a time of -1 leaves the file's, which is that of NOW."""
    segments = tuple(
        SegmentFacts(10 * at, size, time_ms, 10 * at + 9, NOW) for at, time_ms in enumerate(times)
    )
    return LogFacts(segments, start, 10 * len(times), mark)


def list_deleted(facts: LogFacts, policy: Policy = POLICY, now_ms: int = NOW) -> list[int]:
    return [one.base_offset for one in retention_pass(facts, policy, now_ms).deleted]


def test_only_older_segments_are_deleted() -> None:
    assert list_deleted(log(NOW - 1001, NOW - 1000, 0)) == [0]


def test_first_kept_segment_ends_the_pass() -> None:
    assert list_deleted(log(0, NOW, 0, 0)) == [0]


def test_deleting_all_segments_creates_an_empty_one() -> None:
    done = retention_pass(log(0, 0), POLICY, NOW)
    assert (len(done.deleted), done.rolled, done.log_start) == (2, True, 20)


def test_empty_active_segment_is_kept() -> None:
    facts = log(0, 0)
    empty = facts.segments[1]._replace(size_bytes=0)
    done = retention_pass(facts._replace(segments=(facts.segments[0], empty)), POLICY, NOW)
    assert (len(done.deleted), done.rolled) == (1, False)


@each(("mark", "bases"), [(30, [0, 10, 20]), (29, [0, 10]), (9, []), (None, 3)])
def test_deletion_never_passes_the_high_watermark(mark: int | None, bases: object) -> None:
    found = list_deleted(log(0, 0, 0, mark=mark))
    assert found == bases or len(found) == bases


@each(("most", "bases"), [(400, []), (399, []), (300, [0]), (301, []), (1, [0, 10, 20]), (0, 4)])
def test_segment_is_deleted_only_if_it_is_completely_over_the_limit(
    most: int, bases: object
) -> None:
    found = list_deleted(log(*[NOW] * 4), POLICY._replace(retention_bytes=most))
    assert found == bases or len(found) == bases


def test_segments_below_the_log_start_are_deleted_except_the_newest() -> None:
    policy = POLICY._replace(retention_ms=-1)
    assert list_deleted(log(0, 0, 0, start=20), policy) == [0, 10]
    assert list_deleted(log(0, 0, 0, start=19), policy) == [0]
    assert list_deleted(log(0, 0, 0, start=30), policy) == [0, 10]


def test_order_of_the_rules_changed() -> None:
    facts, policy = log(0, NOW, NOW, start=10), POLICY._replace(retention_bytes=200)
    first = retention_pass(facts, policy, NOW).deleted
    assert first == (DeletedSegment(0, "log-start"),)
    before = retention_pass(facts, policy._replace(log_start_first=False), NOW).deleted
    assert before == (DeletedSegment(0, "retention.ms"),)


def test_segments_without_timestamps_use_the_file_time() -> None:
    assert list_deleted(log(-1, 0)) == []
    assert list_deleted(log(-1, 0), now_ms=NOW + 1001) == [0, 10]


def test_compacted_topics_lose_only_segments_below_the_log_start() -> None:
    assert list_deleted(log(0, 0, 0, start=15), POLICY._replace(deletes=False, compacts=True)) == [
        0
    ]
    assert list_deleted(log(0, 0, 0, start=15), POLICY._replace(runs=False, compacts=True)) == []


def test_latest_earlier_segment_keeps_a_segment() -> None:
    facts = log(NOW - 500, NOW + 77, NOW - 5000, NOW + 78)
    held = holdings(facts, POLICY, 0, NOW)
    assert [one.pin for one in held] == [0, 1, 1, 3]
    assert [one.due_ms for one in held] == [NOW + 501, NOW + 1078, NOW + 1078, NOW + 1079]


def test_due_time_is_when_a_pass_deletes_it() -> None:
    facts = log(NOW - 500, NOW + 77, NOW - 5000)
    for number, one in enumerate(holdings(facts, POLICY, 0, NOW)):
        assert one.due_ms is not None
        assert (
            len(list_deleted(facts, now_ms=one.due_ms - 1))
            <= number
            < len(list_deleted(facts, now_ms=one.due_ms))
        )


def policy(
    configs: dict[str, str], topic: str = "orders", version: tuple[int, ...] = NEWEST
) -> Policy:
    return policy_of(Settings().of_topic(configs, TOPIC), topic, version)


def test_policy_of_settings() -> None:
    found = policy({"cleanup.policy": "compact, delete", "retention.bytes": "5000000000"})
    assert (found.deletes, found.compacts, found.runs) == (True, True, True)
    assert (found.retention_ms, found.retention_bytes) == (604_800_000, 5_000_000_000)
    assert policy({"retention.ms": "-1"}).retention_ms == -1


def test_internal_topics_have_their_own_policy() -> None:
    assert policy({}, "__consumer_offsets").compacts
    assert not policy({"cleanup.policy": "delete"}, "__consumer_offsets").compacts
    assert policy({}, "__share_group_state").retention_ms == -1
    assert not policy({}, "__cluster_metadata").deletes


def test_policy_without_a_cleaner() -> None:
    settings = Settings(cleaner_enabled=False, cleanup_policy="compact,delete")
    assert not policy_of(settings, "orders", NEWEST).runs
    assert policy_of(settings._replace(cleanup_policy="delete"), "orders", NEWEST).runs


def test_tiered_topics_use_local_retention() -> None:
    tiered = {"remote.storage.enable": "true", "local.retention.ms": "7"}
    found = policy(tiered)
    assert (found.retention_ms, found.retention_bytes, found.tiered) == (7, -1, True)
    assert not found.file_time_ahead
    assert policy({"remote.storage.enable": "true"}).retention_ms == 604_800_000
    assert policy({**tiered, "remote.log.copy.disable": "true"}).retention_ms == 604_800_000
    assert policy({"local.retention.ms": "7"}).retention_ms == 604_800_000


def test_tiered_segment_from_the_future_uses_file_time() -> None:
    tiered = {"remote.storage.enable": "true", "retention.ms": "1000"}
    facts = log(NOW + 50_000, 0)
    assert list_deleted(facts, policy(tiered), NOW + 2000) == []
    assert list_deleted(facts, policy(tiered, version=(4, 4, 1)), NOW + 2000) == [0, 10]


def test_brokers_without_time_indexes_use_the_file_time() -> None:
    old = policy({"retention.ms": "1000"}, version=(0, 10, 0))
    assert list_deleted(log(0, 0), old, NOW) == []
    assert list_deleted(log(NOW + 9999, 0), old, NOW + 1001) == [0, 10]


def test_tiered_segment_waits_for_its_copy() -> None:
    """Local retention takes what remote storage has, or what lies below the log start (W12)."""
    segments = tuple(SegmentFacts(base, 100, 1_000 + base, base + 9, 0) for base in (0, 10, 20))
    policy = Policy(True, False, True, 1, -1, tiered=True)
    for copied_to, start, deleted in ((9, 0, [0]), (18, 0, [0]), (-1, 0, []), (-1, 15, [0])):
        log = LogFacts(segments, start, 30, None, copied_to)
        found = retention_pass(log, policy, 10_000)
        assert [one.base_offset for one in found.deleted] == deleted
    assert len(retention_pass(LogFacts(segments, 0, 30), policy, 10_000).deleted) == 3
