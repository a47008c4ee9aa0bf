"""Groups as a replay has them, against what the admin client said of them at many moments."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from corpus import corpus, find_expected, read_moments
from each import each

from kdump.engine.groups.options import GroupOptions
from kdump.engine.groups.run import groups
from kdump.findings.rows import Row
from kdump.replay.coordinators import partition_for

#: What is compared of a group, and of a member.
COMPARED = set(
    "type state protocol simple group_epoch target_assignment_epoch offsets pending_over"
    " start_offsets members".split()
)
OF_MEMBERS = set("member_id client_id host instance member_epoch assignment".split())
#: What is not, and how often it was answered. The first is in a broker's memory alone: who assigns
#: is its own setting, which no record has. The others are on disk, and no row has them.
NOT_COMPARED = {
    "assignor of a newer group": 82,
    "subtopologies": 28,
    "topology_epoch": 39,
    "target_assignment": 69,
    "upgraded": 58,
    "process_id": 11,
}
COPIES = {"clean": 11, "killed": 13}  # moments that each copy holds
MODERN = ("clean", "killed", "live", "recovered")


def run_groups(root: Path, **asked: Any) -> dict[str, dict[str, Any]]:
    """Replay groups: name -> its row, members by id, offsets by partition, pending ones."""
    found: dict[str, dict[str, Any]] = {}
    for item in groups([str(path) for path in directories(root)], GroupOptions(**asked)):
        assert isinstance(item, Row), item
        fields: dict[str, Any] = item.fields
        if item.row == "group":
            found[fields["group"]] = {**fields, "members": {}, "offsets": {}, "pending": set()}
            continue
        group = found[fields["group"]]
        if item.row == "member":
            group["members"][fields["member_id"]] = fields
        elif fields["pending"]:
            group["pending"].add(f"{fields['topic']}-{fields['partition']}")
        else:
            group["offsets"][f"{fields['topic']}-{fields['partition']}"] = fields
    return found


def directories(root: Path) -> list[Path]:
    return sorted(path.parent for path in root.rglob("meta.properties"))


def assigned(member: dict[str, Any]) -> list[str]:
    return sorted(
        f"{topic}-{partition}"
        for topic, partitions in member["assignment"].items()
        for partition in partitions
    )


def tasks_text(member: dict[str, Any]) -> str:
    def listed(kind: str) -> str:
        return ",".join(
            f"{part}_{number}"
            for part, numbers in member["tasks"][kind].items()
            for number in numbers
        )

    active, standby, warmup = map(listed, ("active", "standby", "warmup"))
    return f"(activeTasks={active}, standbyTasks={standby}, warmupTasks={warmup})"


CASES = [(copy, moment) for copy, count in COPIES.items() for moment in read_moments()[:count]]


@pytest.mark.parametrize(
    ("copy", "said"), CASES, ids=[f"{copy}-{said['moment']}" for copy, said in CASES]
)
def test_groups_match_the_broker_at_each_moment(copy: str, said: dict[str, Any]) -> None:
    found = run_groups(corpus(f"newest/data/{copy}"), at_ms=said["begin_ms"])
    assert {name: (group["type"], group["state"]) for name, group in found.items()} == {
        name: (group["type"], group["state"]) for name, group in said["other_groups"].items()
    }
    for name, group in found.items():
        about = said["other_groups"][name] | said["groups"].get(name, {})
        assert group["protocol_type"] == about["protocol"], name
        assert group["offsets_partition"] == partition_for(name, 3)
        if "simple" in about:
            assert about["simple"] == (group["protocol_type"] == ""), name
        if group["type"] == "Classic":
            assert about["assignor"] == (group["protocol"] or ""), name
        if "group_epoch" in about:
            epochs = about["group_epoch"], about["target_assignment_epoch"]
            assert (group["epoch"], group["assignment_epoch"]) == epochs, name
        if "offsets" in about:
            assert {
                place: (one["offset"], one["metadata"]) for place, one in group["offsets"].items()
            } == {
                place: (one["offset"], one["metadata"]) for place, one in about["offsets"].items()
            }, name
            assert group["pending"] >= set(about.get("pending_over", ()))
            assert group["pending"] & group["offsets"].keys() == set(about.get("pending_over", ()))
        for place, one in about.get("start_offsets", {}).items():
            ours = group["offsets"][place]
            assert (ours["offset"], ours["leader_epoch"]) == (
                one["start_offset"],
                one["leader_epoch"],
            )
        assert group["members"].keys() == {
            one["member_id"] for one in about.get("members", ())
        } or (name not in said["groups"] and "members" not in about)
        for member in about.get("members", ()):
            ours = group["members"][member["member_id"]]
            assert ours["client_id"] == member["client_id"]
            assert ours["client_host"] == member["host"]
            assert ours["instance_id"] == member.get("instance")
            if "member_epoch" in member:
                assert ours["epoch"] == member["member_epoch"]
            if group["type"] == "Streams":
                assert tasks_text(ours) == member["assignment"]
            else:
                assert assigned(ours) == sorted(member["assignment"]), name


@pytest.mark.skipif(not CASES, reason="needs the corpus")
def test_uncompared_fields_are_listed() -> None:
    left: Counter[str] = Counter()
    for _, said in CASES:
        for name, listed in said["other_groups"].items():
            about = listed | said["groups"].get(name, {})
            of_members = [
                key for one in about.get("members", ()) for key in one.keys() - OF_MEMBERS
            ]
            left.update([*about.keys() - COMPARED - {"assignor"}, *of_members])
            if listed["type"] != "Classic" and "assignor" in about:
                left["assignor of a newer group"] += 1
    assert left == NOT_COMPARED


def epoch_of(one: dict[str, Any]) -> int | None:
    return one.get("leader_epoch")


def listed_share(said: dict[str, Any]) -> Iterator[tuple[str, str, str | None]]:
    for group, offsets in said["share_offsets"].items():
        for place, text in offsets.items():
            yield group, place, None if text == "null" else text


@each("copy", MODERN)
def test_groups_match_the_modern_corpus(copy: str) -> None:
    found = run_groups(corpus(f"modern/data/{copy}"))
    said = json.loads(find_expected(f"modern/{copy}/groups.json").read_text("utf-8"))
    others = json.loads(find_expected(f"modern/{copy}/share_groups.json").read_text("utf-8"))
    assert {
        name: (one["type"], one["state"], one["protocol_type"]) for name, one in found.items()
    } == {
        name: (one["type"], one["state"], one["protocol"]) for name, one in others["groups"].items()
    }
    for name, about in said.items():
        ours = found[name]
        assert {
            place: (one["offset"], one["metadata"], one["leader_epoch"])
            for place, one in ours["offsets"].items()
        } == {
            place: (one["offset"], one["metadata"], one.get("leader_epoch"))
            for place, one in about["offsets"].items()
        }, name
        assert {one: assigned(member) for one, member in ours["members"].items()} == {
            one["member_id"]: sorted(one["assignment"]) for one in about["members"]
        }, name
    for group, place, text in listed_share(others):
        one = found[group]["offsets"].get(place)
        known = None if one is None or one["offset"] is None else one
        if text is None:
            assert known is None, (group, place)
        else:
            assert known is not None
            start, epoch = known["offset"], known["leader_epoch"]
            assert text == f"OffsetAndMetadata{{offset={start}, leaderEpoch={epoch}, metadata=''}}"
