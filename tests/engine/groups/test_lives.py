"""`groups --history`: who joined and left, who had what, and which assignor gives that."""

from pathlib import Path
from typing import Any

from corpus import corpus, names
from each import each
from message_writing import message_bytes
from offsets_log import Log, pair
from told_items import codes, rows

from kdump.engine.groups.options import GroupOptions
from kdump.engine.groups.run import groups
from kdump.errors import KdumpError
from kdump.findings.finding import Finding
from kdump.findings.rows import Row
from kdump.messages.table import message
from kdump.storage.targets import Selection

Told = Row | Finding | KdumpError
SAMPLE = Path(__file__).parents[3] / "sample-data/clean/4.4.0"
IDS = [f"{'A' * 20}{letters}" for letters in ("Bw", "CA")]
#: Assignors of no consumer, whose members speak in their own words.
OTHERS = {"sessioned", "stream", "compatible", "default"}


def run_groups(*paths: Path, **asked: Any) -> list[Told]:
    options = GroupOptions(Selection.take(asked), **asked)
    return list(groups(map(str, paths), options))


def member_metadata(name: str, fields: dict[str, Any]) -> bytes:
    return bytes(2) + message_bytes(message(f"ConsumerProtocol{name}"), 0, fields)


def generation(number: int, has: dict[str, list[int]], protocol: str = "range") -> Any:
    """Write a generation in which each member subscribes to `orders` and has some partitions."""
    members = [
        {
            "memberId": name,
            "clientId": f"c-{name}",
            "clientHost": "/h",
            "sessionTimeout": 9,
            "rebalanceTimeout": 9,
            "subscription": member_metadata("Subscription", {"topics": ["orders"]}),
            "assignment": member_metadata(
                "Assignment", {"assignedPartitions": [{"topic": "orders", "partitions": numbers}]}
            ),
        }
        for name, numbers in has.items()
    ]
    value = {
        "protocolType": "consumer",
        "generation": number,
        "protocol": protocol if has else None,
        "leader": None,
        "members": members,
    }
    return pair(2, ("g",), value, version=3)


def owners(items: list[Told]) -> list[tuple[Any, ...]]:
    return [
        (one["partition"], one["member_id"], one["from_ms"], one["to_ms"])
        for one in rows(items, "partition-owner")
    ]


def write_log(tmp_path: Path, *pairs: Any, skip: int = 0) -> tuple[Path, int]:
    log = Log()
    first_ms = log.now_ms + 1000
    log.add(pairs[0])
    for one in pairs[1:]:
        log.add(one, skip=skip)
    return log.write(tmp_path / "__consumer_offsets-0"), first_ms


def test_generations_give_partition_ownership_over_time(tmp_path: Path) -> None:
    path, at = write_log(
        tmp_path,
        generation(1, {"a": [0, 1]}),
        generation(2, {"a": [0], "b": [1]}),
        generation(3, {}),
        generation(4, {"b": [0, 1]}),
        pair(2, ("g",)),
    )
    items = run_groups(path, history=True)
    joins = [(one["at_ms"], one["member_id"], one["epoch"]) for one in rows(items, "member-join")]
    assert joins == [(at, "a", 1), (at + 1000, "b", 2), (at + 3000, "b", 4)]
    leaves = [
        (one["at_ms"], one["member_id"], one["joined_ms"], one["members_count"])
        for one in rows(items, "member-leave")
    ]
    assert leaves == [
        (at + 2000, "a", at, 1), (at + 2000, "b", at + 1000, 0), (at + 4000, "b", at + 3000, 0),
    ]  # fmt: skip
    assert owners(items) == [
        (1, "a", at, at + 1000),
        (0, "a", at, at + 2000),
        (1, "b", at + 1000, at + 2000),
        (0, None, at + 2000, at + 3000),
        (1, None, at + 2000, at + 3000),
        (0, "b", at + 3000, at + 4000),
        (1, "b", at + 3000, at + 4000),
    ]
    assert [one["epoch"] for one in rows(items, "rebalance")] == [1, 2, 3, 4]
    assert rows(items, "rebalance")[1]["assignment"] == {"a": {"orders": [0]}, "b": {"orders": [1]}}
    some = run_groups(path, history=True, from_ms=at + 1500, to_ms=at + 2001, partition=1)
    assert owners(some) == [(1, "b", at + 1000, at + 2000), (1, None, at + 2000, at + 3000)]
    assert [one["epoch"] for one in rows(some, "rebalance")] == [3]
    assert not any(isinstance(one, Row) for one in run_groups(path, history=True, backwards=True))
    assert not any(
        isinstance(one, Row) for one in run_groups(path, history=True, commits_only=True)
    )


def test_compacted_records_are_not_guessed(tmp_path: Path) -> None:
    path, at = write_log(
        tmp_path, generation(1, {"a": [0, 1]}), generation(7, {"b": [0], "c": [1]}), skip=5
    )
    items = run_groups(path, history=True)
    assert "replay-compacted" in codes(items)
    assert [one["member_id"] for one in rows(items, "member-join")] == ["a"]
    assert rows(items, "member-leave") == []
    assert [one[2] for one in owners(items)] == [at, at, None, None]
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\n__consumer_offsets 0 3\n")
    items = run_groups(path, history=True)
    assert [one["member_id"] for one in rows(items, "member-join")] == ["a", "b", "c"]


def test_members_take_over_in_turn(tmp_path: Path) -> None:
    def has(name: str, numbers: list[int], pending: list[int] | None = None) -> Any:
        lists = [{"topicId": IDS[0], "partitions": numbers}] if numbers else []
        more = [{"topicId": IDS[0], "partitions": pending}] if pending else []
        fields = {
            "memberEpoch": 2,
            "assignedPartitions": lists,
            "partitionsPendingRevocation": more,
        }
        return pair(8, ("g", name), fields)

    member = {"clientId": "c", "clientHost": "/h", "subscribedTopicNames": ["orders"]}
    path, at = write_log(
        tmp_path,
        pair(5, ("g", "a"), member),
        has("a", [0, 1]),
        pair(5, ("g", "b"), member),
        pair(3, ("g",), {"epoch": 3}),
        has("a", [0], [1]),
        has("a", [0]),
        has("b", [1]),
        pair(8, ("g", "b")),
        pair(5, ("g", "b")),
    )
    items = run_groups(path, history=True)
    assert owners(items) == [
        (1, "a", at + 1000, at + 5000),
        (1, None, at + 5000, at + 6000),
        (1, "b", at + 6000, at + 7000),
        (0, "a", at + 1000, None),
        (1, None, at + 7000, None),
    ]
    assert [one["topic"] for one in rows(items, "partition-owner")] == [IDS[0]] * 5
    (left,) = rows(items, "member-leave")
    assert (left["member_id"], left["epoch"], left["joined_ms"]) == ("b", 3, at + 2000)


def test_range_assignment_of_eight_partitions_is_recognized(tmp_path: Path) -> None:
    ranged = {f"m{at}": [2 * at, 2 * at + 1] for at in range(4)}
    moved = ranged | {"m0": [0, 2], "m1": [1, 3]}
    path, _ = write_log(tmp_path, generation(1, ranged), generation(2, moved))
    first, second = rows(run_groups(path, history=True, explain=True), "rebalance")
    assert (first["fits"], first.get("nearest")) == (["range"], None)
    assert (second["fits"], second["nearest"]) == ([], "range")
    assert second["differences"] == [
        {"topic": "orders", "partition": 1, "member_id": "m1", "expected": "m0"},
        {"topic": "orders", "partition": 2, "member_id": "m0", "expected": "m1"},
    ]
    assert "fits" not in rows(run_groups(path, history=True), "rebalance")[0]


def check_assignments(*paths: Path) -> tuple[int, list[dict[str, Any]]]:
    """Count the assignments that are computed, and list those that none of theirs gives."""
    found = rows(run_groups(*paths, history=True, explain=True), "rebalance")
    known = [
        one for one in found
        if one["type"] in ("Classic", "Consumer") and one["members_count"]
        and one["protocol"] not in OTHERS
    ]  # fmt: skip
    differing = [
        one for one in known
        if not one["fits"] or (one["protocol"] and one["protocol"] not in one["fits"])
    ]  # fmt: skip
    return len(known), differing


def test_assignors_reproduce_the_sample_assignments() -> None:
    count, differing = check_assignments(SAMPLE / "d1", SAMPLE / "d2")
    assert count > 15
    assert differing == []


@each("family", ["newest/data", "modern/data", "incident/data", "values/data"])
def test_assignors_reproduce_the_corpus_assignments(family: str) -> None:
    counts = 0
    for name in names(family) or [f"{family}/clean"]:
        if name.endswith("-no-times"):
            continue
        roots = sorted(path.parent for path in corpus(name).rglob("meta.properties"))
        count, differing = check_assignments(*roots) if roots else (0, [])
        assert differing == [], name
        counts += count
    assert counts > 0


def test_members_with_a_regular_expression_may_be_of_any_topic(tmp_path: Path) -> None:
    member = {
        "clientId": "c", "clientHost": "/h", "rebalanceTimeoutMs": 9, "rackId": None,
        "instanceId": None, "subscribedTopicNames": [], "serverAssignor": None,
        "subscribedTopicRegex": "o.*", "classicMemberMetadata": None,
    }  # fmt: skip
    named = member | {"subscribedTopicNames": ["sales"], "subscribedTopicRegex": None}
    path, _ = write_log(
        tmp_path,
        pair(3, ("g",), {"epoch": 1}),
        pair(5, ("g", "a"), member),
        pair(5, ("g", "b"), named),
    )
    for topic, joined in ((None, ["a", "b"]), ("orders", ["a"]), ("sales", ["a", "b"])):
        asked = {} if topic is None else {"topic": topic}
        items = run_groups(path, history=True, **asked)
        assert [one["member_id"] for one in rows(items, "member-join")] == joined
