"""What topics of a cluster can take, and how a record is refused that they would not keep."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fake_cluster import FakeCluster

from kdump.client.cluster import Cluster, TopicFacts
from kdump.engine.salvage import targets as module
from kdump.engine.salvage.copies import Item
from kdump.engine.salvage.options import LONGEST, NEWEST_EPOCH, SalvageOptions, read_topic_map
from kdump.engine.salvage.targets import MissingTopic, Target, targets_of
from kdump.errors import PathError, RefusedError

DAY_MS = 86_400_000
NOW_MS = 1_700_000_000_000


def item(path: str, partition: int | None) -> Item:
    return Item(path, "old", partition, (), 0)


def run_targets(
    topics: dict[str, TopicFacts], *items: tuple[str, Item]
) -> tuple[dict[str, Target], list[MissingTopic]]:
    return targets_of(cast("Cluster", FakeCluster(topics)), "b:9092", items)


def test_suitable_topics_are_found() -> None:
    topics = {"a": TopicFacts(3, {}, "id"), "b": TopicFacts(3, {}), "c": TopicFacts(1, {})}
    found, missing = run_targets(
        topics,
        *(("a", item("p0", 0)), ("a", item("p2", 2)), ("a", item("p1", 1)), ("b", item("q", 3))),
        *(("c", item("r", None)), ("d", item("s", None)), ("d", item("t", 1))),
    )
    assert missing == [MissingTopic("b", 3, 4, "q"), MissingTopic("d", None, 2, "t")]
    limit = (1_048_588, "max.message.bytes", True, ())
    assert found == {
        "a": Target("a", "b:9092", *limit, "id"),
        "c": Target("c", "b:9092", *limit, None),
    }
    with pytest.raises(RefusedError, match=r"^p: .*; --topic-map gives it another name$"):
        run_targets(topics, ("a/b", item("p", 0)))


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(time=lambda: NOW_MS / 1000)
    monkeypatch.setattr(module, "time", clock)


@pytest.mark.usefixtures("now")
def test_settings_bound_what_is_taken() -> None:
    def target(**settings: str) -> tuple[Any, ...]:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        found, _ = run_targets({"a": TopicFacts(1, named, "id")}, ("a", item("p", 0)))
        return found["a"][2:6]

    message, segment = "max.message.bytes", "segment.bytes"
    assert target() == (1_048_588, message, True, ())
    assert target(segment_bytes="9") == (9, segment, True, ())
    assert target(segment_bytes="900", max_message_bytes="901") == (900, segment, True, ())
    assert target(segment_bytes="901", max_message_bytes="900") == (900, message, True, ())
    assert target(internal_segment_bytes="7") == (7, "internal.segment.bytes", True, ())
    at = (1_048_588, message, True)
    assert target(message_timestamp_type="CreateTime") == (*at, ())
    assert target(message_timestamp_type="LogAppendTime") == (1_048_588, message, False, ())
    ages = {
        name: str(age)
        for age, name in enumerate(
            (
                *("retention_ms", "message_timestamp_before_max_ms"),
                "message_timestamp_difference_max_ms",
            )
        )
    }
    before = [(name.replace("_", "."), NOW_MS - int(age)) for name, age in ages.items()]
    assert target(**ages) == (*at, tuple(before))
    assert target(**ages, cleanup_policy="compact,delete") == (*at, tuple(before))
    assert target(**ages, cleanup_policy="compact") == (*at, tuple(before[1:]))
    assert target(**dict.fromkeys(ages, str(NOW_MS - 1))) == (
        *at,
        tuple((name, 1) for name, _ in before),
    )
    assert target(**dict.fromkeys(ages, str(NOW_MS))) == (*at, ())
    assert target(**dict.fromkeys(ages, "-1")) == (*at, ())


def test_records_beyond_retention_are_refused() -> None:
    oldest = (("retention.ms", 1000), ("message.timestamp.before.max.ms", 2000))
    target = Target("a", "b:9092", 500, "segment.bytes", True, oldest, None)

    def why(size: int, timestamp: int, target: Target = target) -> str:
        try:
            target.refuse("p", 7, size, timestamp)
        except RefusedError as error:
            return str(error)
        return ""

    alter = (
        "run kafka-configs.sh --bootstrap-server b:9092 --alter --entity-type topics "
        "--entity-name a --add-config {}, then the same command again"
    )
    assert why(399, 2000) == why(399, -1) == ""
    assert why(400, 2000) == (
        "p: the record at offset 7 has 400 bytes, but a accepts batches of at most 500; "
        + alter.format("segment.bytes=501")
    )
    assert why(1, 0) == (
        "p: the record at offset 7 has the timestamp 0, which librdkafka replaces with the "
        "current time; skip it with --from-offset, or use --out"
    )
    for timestamp, name, value in (
        (1, "retention.ms", -1), (999, "retention.ms", -1),
        (1000, "message.timestamp.before.max.ms", 9223372036854775807),
        (1999, "message.timestamp.before.max.ms", 9223372036854775807),
    ):  # fmt: skip
        assert why(1, timestamp) == (
            f"p: the record at offset 7 is older than {name} of a allows, and would be lost again; "
            + alter.format(f"{name}={value}")
        )
    anew = target._replace(keeps_times=False)
    assert [why(1, timestamp, anew) for timestamp in (0, 1)] == ["", ""]
    assert "has 400 bytes" in why(400, 0, anew)


def test_topic_mappings_are_read(tmp_path: Path) -> None:
    path = tmp_path / "names"
    path.write_text("# old to new\n\n a , b \nc,d\n  # more\nb,a\n")
    assert read_topic_map(str(path)) == {"a": "b", "c": "d", "b": "a"}
    for wrong in ("a", ",b", "a,", "a,b/c", "a,b,c"):
        path.write_text(f"x,y\n{wrong}\n")
        with pytest.raises(PathError) as caught:
            read_topic_map(str(path))
        assert str(caught.value) == (
            f"{path}: has an invalid line {wrong!r}: use OLD,NEW with valid topic names"
        )
    assert (NEWEST_EPOCH, LONGEST) == ("newest-epoch", "longest")
    options = SalvageOptions()
    given = {name for name, value in options._asdict().items() if value is True}
    assert given == {"topic_configs"}
    assert options.command == ("kdump", "produce")
