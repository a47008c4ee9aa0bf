"""What a cluster metadata log and its snapshots come to."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import builders
import damage
import pytest
from builders import control_record
from corpus import corpus, find_expected, find_shared, names
from directories import identifier
from each import each
from internal_topics import raw_records
from long_runs import LONG
from metadata_log import (
    NO_OP,
    change,
    frame_record,
    ids,
    log_of,
    partition,
    remove_topic,
    snapshot_of,
    tag_fields,
    topic,
)

from kdump.messages.records import DecodedValue
from kdump.record.frames import Run
from kdump.replay.cluster import Until, read_cluster, read_replay, replay_snapshot
from kdump.replay.cluster_facts import Change, Moment, content, subject_of
from kdump.replay.cluster_state import ClusterState, facts
from kdump.storage.directory_facts import meta_of
from kdump.storage.file_records import walk

SAMPLE = Path(__file__).parents[2] / "sample-data" / "clean" / "4.1.1" / "d1"
METADATA = "__cluster_metadata-0"
NEWEST = ("newest/data/clean", "newest/data/killed")


def test_replay_of_real_logs_matches_the_broker() -> None:
    for name in names("modern/data"):
        directory = corpus(name) / "d1" / METADATA
        state = read_cluster(str(directory))
        assert state is not None
        assert state.complete

        answers = name.replace("/data", "")
        topics = json.loads(find_expected(f"{answers}/topics.json").read_text())
        assert {key: value["id"] for key, value in topics.items()} == state.ids
        counts = {key: value["partitions"] for key, value in topics.items()}
        assert counts == {
            key: len(state.partitions[topic_id]) for key, topic_id in state.ids.items()
        }
        assert counts == {one.topic: one.partitions_count for one in state.topics.values()}
        settings = {key: value["configs"] for key, value in topics.items()}
        assert settings == {key: state.settings("topic", key) for key in state.ids}
        cluster = json.loads(find_expected(f"{answers}/cluster.json").read_text())
        levels = {key: one.feature_level for key, one in state.features.items()}
        assert cluster["finalized_features"] == levels
        held = {
            key: sorted(one for one in partitions if METADATA not in one)
            for key, partitions in cluster["log_dirs"].items()
        }
        assert in_directories(state, corpus(name)) == held
        # Asked before the stop, of which the log tells as well: leaders go then.
        until = Until(offset=cluster["features_epoch"])
        running = read_replay(str(directory), until=until).state
        assert cluster["partition_leaders"] == leaders(running)


def leaders(state: ClusterState) -> dict[str, int]:
    return {
        subject_of(one): one.leader
        for partitions in state.partitions.values()
        for one in partitions.values()
    }


@pytest.mark.parametrize("name", ["metadata-torn-before", "metadata-torn-after", "future-live"])
def test_torn_logs_and_other_extras_are_replayed(name: str) -> None:
    root = corpus(f"modern/extras/{name}")
    (directory,) = root.rglob(METADATA)
    replay = read_replay(str(directory), whole=True)
    assert replay.state.complete
    assert not replay.holes
    answers = find_shared()
    assert answers is not None
    path = answers / "corpus" / "modern" / "extras" / f"{name}-answers" / "cluster.json"
    if path.exists():
        cluster = json.loads(path.read_text())
        until = Until(offset=cluster["features_epoch"])
        assert cluster["partition_leaders"] == leaders(
            read_replay(str(directory), until=until).state
        )


def moments(copy: str) -> list[dict[str, Any]]:
    """The moments of which the log of a copy tells."""
    lines = find_expected("newest/moments.jsonl").read_text().splitlines()
    every = [json.loads(line) for line in lines]
    return every[:11] if copy.endswith("clean") else every


#: What the admin client does not tell, though the log has it: sensitive settings of the broker.
UNTOLD = "(sensitive, not told)"


def as_admin_says(state: ClusterState) -> dict[str, Any]:
    """What the admin client would say of a state."""
    quotas: dict[Any, dict[str, float]] = {}
    for quota in state.quotas.values():
        quotas.setdefault(quota.entity, {})[quota.key] = quota.value
    users: dict[str, list[dict[str, Any]]] = {}
    for user in state.users.values():
        one = {"mechanism": user.mechanism, "iterations": user.iterations}
        users.setdefault(user.name, []).append(one)
    return {
        "topics": {
            one.topic: {
                "id": one.topic_id,
                "partitions": [
                    {
                        "partition": number,
                        "leader": placed.leader,
                        "replicas": list(placed.replicas),
                        "isr": list(placed.isr),
                    }
                    for number, placed in sorted(state.partitions[one.topic_id].items())
                ],
                "configs": state.settings("topic", one.topic),
            }
            for one in state.topics.values()
        },
        "features": {key: one.feature_level for key, one in state.features.items()},
        "quotas": [{"entity": dict(key), "quotas": value} for key, value in quotas.items()],
        "users": users,
        "tokens": {
            key: {
                "owner": one.owner,
                "issue_ms": one.issued_ms,
                "expiry_ms": one.expires_ms,
                "max_ms": one.max_ms,
                "renewers": list(one.renewers),
            }
            for key, one in state.tokens.items()
        },
        "acls": sorted(
            f"(pattern=ResourcePattern(resourceType={one.resource_type}, name={one.resource}, "
            f"patternType={one.pattern_type}), entry=(principal={one.principal}, host={one.host}, "
            f"operation={one.operation}, permissionType={one.permission}))"
            for one in state.acls.values()
        ),
        "voters": [
            {"id": key, "directory_id": one.directory_id}
            for key, one in state.controllers.items()
            if one.voter
        ],
        "nodes": [
            {"id": key, **{name: one.endpoints[0][name] for name in ("host", "port")}}
            for key, one in state.brokers.items()
        ],
        "supported": state.brokers[1].features,
    }


def in_directories(state: ClusterState, root: Path) -> dict[str, list[str]]:
    """The partitions in each of a broker's data directories, as the metadata log has it."""
    found: dict[str, list[str]] = {}
    for name in ("d1", "d2"):
        directory_id = meta_of(str(root / name))["directory.id"]
        found[name] = sorted(
            subject_of(one)
            for partitions in state.partitions.values()
            for one in partitions.values()
            if directory_id in one.directories
        )
    return found


def as_recorded(moment: dict[str, Any]) -> dict[str, Any]:
    """The same of what the admin client did say."""
    topics = {
        name: {key: value for key, value in one.items() if key != "internal"}
        for name, one in moment["topics"].items()
    }
    return {
        "topics": topics,
        "features": moment["features"]["finalized"],
        "quotas": moment["quotas"]["list"],
        "users": moment.get("scram_users", {}),
        "tokens": moment.get("delegation_tokens", {}),
        "acls": moment["acls"]["list"],
        "voters": moment["quorum"]["voters"],
        "nodes": moment["cluster"]["nodes"],
        "supported": moment["features"]["supported"],
    }


def in_order(told: dict[str, Any]) -> dict[str, Any]:
    """Put in order what has none."""
    return told | {"quotas": sorted(told["quotas"], key=str)}


@each("copy", NEWEST)
@each("whole", [False, True])
def test_each_recorded_moment_matches_the_admin_client(copy: str, whole: bool) -> None:
    path = str(corpus(copy) / "d1" / METADATA)
    untold = 0
    for moment in moments(copy):
        end = moment["log_ends"][METADATA]
        for until in (Until(offset=end - 1), Until(time_ms=moment["begin_ms"])):
            state = read_replay(path, until=until, whole=whole).state
            assert state.complete
            assert in_order(as_admin_says(state)) == in_order(as_recorded(moment))
            if whole:  # who leads is in no snapshot
                assert state.leader[""].leader_id == moment["cluster"]["controller"]
                assert state.leader[""].epoch == moment["quorum"]["epoch"]
            assert in_directories(state, corpus(copy)) == {
                name: sorted(held) for name, held in moment["log_dirs"].items()
            }
            for kind, by_name in moment["configs"].items():
                for name, told in by_name.items():
                    ours = state.settings(kind.replace("_", "-"), name)
                    secrets = {key for key, value in told.items() if value == UNTOLD}
                    untold += len(secrets)
                    assert told == ours | dict.fromkeys(secrets & ours.keys(), UNTOLD)
    # Two settings at each moment from m07 on, by offset and by time: all that is not compared.
    assert untold == 2 * 2 * (5 if copy.endswith("clean") else 7)


def every_record(directory: Path) -> Iterator[tuple[int, DecodedValue]]:
    for path in sorted(directory.glob("*.log")):
        for raw in raw_records(path):
            said = raw.decoded("__cluster_metadata")[1]
            assert said is not None
            yield raw.offset, said


def known(state: ClusterState) -> dict[Any, Any]:
    return {key: content(fact) for key, fact in facts(state)}


@pytest.mark.parametrize("name", ["sample", *NEWEST, "modern/data/live"])
def test_replay_to_every_offset_equals_a_fresh_replay(name: str) -> None:
    directory = (SAMPLE if name == "sample" else corpus(name) / "d1") / METADATA
    scratch = ClusterState()
    step = 1 if LONG else 41
    for offset, said in every_record(directory):
        scratch.add(said, Moment(offset, 0, 0))
        if offset % step:
            continue
        until = Until(offset=offset)
        whole = read_replay(str(directory), until=until, whole=True).state
        newest = read_replay(str(directory), until=until).state
        scratch.leader = whole.leader  # the epoch is that of the batch
        # What is in no snapshot: who leads, voters that are settings, whose producer ids they are.
        newest.leader, newest.producer_ids = whole.leader, whole.producer_ids
        for number, one in newest.controllers.items():
            if one.voter is None:
                voter = whole.controllers[number].voter
                newest.controllers[number] = one._replace(voter=voter)
        # Format's own snapshot says at offset 0 what the log says by its offset 10.
        if offset > 10 or not name.startswith("newest"):
            assert known(whole) == known(scratch)
        assert known(newest) == known(whole)
        assert whole.next_offset == newest.next_offset == offset + 1
        assert whole.complete
        assert newest.complete


def place_of(log: Path, offset: int) -> int:
    """Where the batch with an offset begins."""
    for item in walk(str(log)):
        assert isinstance(item, Run)
        for row in range(item.batches.count):
            if item.batches.last_offset(row) >= offset:
                return item.batches.position(row)
    raise AssertionError(offset)


def test_snapshot_bridges_a_gap_in_the_log(tmp_path: Path) -> None:
    directory = tmp_path / METADATA
    shutil.copytree(SAMPLE / METADATA, directory)
    whole: list[Change] = []
    sound = read_replay(str(directory), whole=True, on_change=whole.append).state
    log = directory / f"{0:020}.log"
    lost = sound.topics[sound.ids["orders.plain"]].created_offset
    assert lost is not None
    log.write_bytes(damage.flip(log.read_bytes(), place_of(log, lost) + 70))
    changes: list[Change] = []
    damaged = read_replay(str(directory), whole=True, on_change=changes.append)
    assert damaged.state.complete
    assert known(damaged.state) == known(sound)
    (hole,) = damaged.holes
    assert hole.path == str(log)
    assert hole.bridged_by is not None
    assert hole.following is not None
    assert hole.first < hole.following <= hole.bridged_by
    # What was lost is told as one step, and when it was said is not known.
    told, all_told = ({change.at.offset for change in one} for one in (changes, whole))
    assert None in told
    assert told - {None} < all_told
    assert lost not in told
    assert damaged.state.topics[sound.ids["orders.plain"]].created_offset is None
    for topic_id, one in sound.topics.items():  # what was said before still knows when
        if one.created_offset is not None and one.created_offset < hole.first:
            assert damaged.state.topics[topic_id] == one
    for snapshot in directory.glob("*.checkpoint"):
        if int(snapshot.name.partition("-")[0]) >= hole.following:
            snapshot.unlink()
    alone = read_replay(str(directory), whole=True)
    assert not alone.state.complete
    assert alone.holes[0].bridged_by is None


def test_counts_survive_a_bridge_and_a_broken_snapshot_is_skipped(
    tmp_path: Path,
) -> None:
    directory = tmp_path / METADATA
    directory.mkdir()
    first, last = [topic("a", 1), b"\x01\x7e\x00"], [topic("c", 3)]
    log = log_of(first) + log_of(last, base_offset=5)
    (directory / f"{0:020}.log").write_bytes(log)
    whole = snapshot_of([topic("a", 1), topic("b", 2)])
    (directory / f"{5:020}-{1:010}.checkpoint").write_bytes(whole)
    replay = read_replay(str(directory), whole=True)
    assert (set(replay.state.ids), replay.state.unknown) == ({"a", "b", "c"}, 1)
    assert [replay.state.topics[identifier(at)].created_offset for at in (1, 2, 3)] == [0, None, 5]
    assert replay.state.complete
    broken = snapshot_of([topic("z", 9)], footer=False)
    (directory / f"{6:020}-{1:010}.checkpoint").write_bytes(broken)
    for is_whole in (True, False):
        replay = read_replay(str(directory), whole=is_whole)
        assert set(replay.state.ids) == {"a", "b", "c"}
        assert (replay.snapshot, replay.state.complete) == (5, True)


def test_log_without_its_start_uses_snapshots(tmp_path: Path) -> None:
    directory = tmp_path / METADATA
    shutil.copytree(SAMPLE / METADATA, directory)
    whole = read_replay(str(directory), whole=True).state
    for path in directory.glob(f"{0:020}.*"):
        path.unlink()
    late = read_replay(str(directory), whole=True)
    assert (late.state.complete, late.log_start) == (True, 616)
    assert known(late.state) == known(whole)
    assert {one.created_offset for one in late.state.topics.values()} == {None}
    for end in (650, 2000):  # what the log still has knows when it was said
        state = read_replay(str(directory), until=Until(offset=end), whole=True).state
        assert state.complete
        offsets = {
            one.changed_offset
            for partitions in state.partitions.values()
            for one in partitions.values()
        }
        assert (None in offsets) is (end == 650)
        assert all(one is None or one >= 643 for one in offsets)
    early = read_replay(str(directory), until=Until(offset=500), whole=True)
    assert (early.state.complete, early.snapshot) == (False, 412)
    assert [(hole.first, hole.following) for hole in early.holes] == [(0, 616)]


def test_snapshot_plus_log_equals_the_log(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    first = [topic("a", 1), partition(0, 1), topic("b", 2), partition(0, 2)]
    second = [remove_topic(1), change(0, 2, (2, ids(4)))]
    (directory / f"{0:020}.log").write_bytes(log_of(first) + log_of(second, base_offset=4))
    alone = read_cluster(str(directory))
    (directory / f"{4:020}-{1:010}.checkpoint").write_bytes(snapshot_of(first))
    both = read_cluster(str(directory))
    (directory / f"{0:020}.log").rename(directory / f"{4:020}.log")
    (directory / f"{4:020}.log").write_bytes(log_of(second, base_offset=4))
    short = read_cluster(str(directory))
    for state in (alone, both, short):
        assert state is not None
        assert (state.complete, state.next_offset, state.ids) == (
            True,
            6,
            {"b": identifier(2)},
        )
        assert state.partitions[identifier(2)][0].replicas == (4,)


def test_records_of_an_aborted_transaction_have_no_effect(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    begin, end, abort = (frame_record(number, 0, tag_fields()) for number in (23, 24, 25))
    records = [begin, topic("a", 1), abort, begin, topic("b", 2), end, begin, topic("c", 3)]
    (directory / f"{0:020}.log").write_bytes(log_of(records))
    state = read_cluster(str(directory))
    assert state is not None
    assert state.ids == {"b": identifier(2)}


@pytest.mark.parametrize("at", ["in", "between"])
def test_log_with_a_gap_is_not_complete(tmp_path: Path, at: str) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    first, second = log_of([NO_OP]), log_of([NO_OP], base_offset=1 if at == "in" else 5)
    log = damage.flip(first, 70) + second if at == "in" else first + second
    (directory / f"{0:020}.log").write_bytes(log)
    state = read_cluster(str(directory))
    assert state is not None
    assert not state.complete


@pytest.mark.parametrize("from_offset", [5, None])
def test_log_that_starts_after_its_snapshot_is_incomplete(
    tmp_path: Path, from_offset: int | None
) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    (directory / f"{4:020}-{1:010}.checkpoint").write_bytes(snapshot_of([NO_OP]))
    if from_offset is not None:
        (directory / f"{from_offset:020}.log").write_bytes(b"")
    state = read_cluster(str(directory))
    assert state is not None
    assert (state.complete, state.next_offset) == (False, 4)


HEADER, FOOTER = 3, 4


@each(
    ("kinds", "ends"),
    [
        ((HEADER, None, FOOTER), (True, True, True)),
        ((HEADER, FOOTER), (True, True, True)),
        ((None, FOOTER), (False, True, True)),
        ((None, HEADER, FOOTER), (False, True, True)),  # a header that is not the first
        ((HEADER, None), (True, False, True)),
        ((HEADER, FOOTER, None), (True, False, True)),  # a footer that is not the last
        ((HEADER,), (True, False, True)),
        ((FOOTER,), (False, True, True)),
        ((), (False, False, True)),
    ],
)
@each("known", [False, True])
def test_snapshot_has_a_header_and_a_footer(
    tmp_path: Path, kinds: tuple[int | None, ...], ends: tuple[bool, bool, bool], known: bool
) -> None:
    parts = [
        log_of([NO_OP], base_offset=at)
        if kind is None
        else builders.batch(
            [control_record(kind, bytes(20))], base_offset=at, attributes=builders.CONTROL
        )
        for at, kind in enumerate(kinds)
    ]
    path = tmp_path / f"{9:020}-{0:010}.checkpoint"
    path.write_bytes(b"".join(parts))
    assert replay_snapshot(str(path), ClusterState() if known else None)[:3] == ends
    if len(parts) > 1:
        path.write_bytes(parts[0] + damage.flip(parts[1], 70) + b"".join(parts[2:]))
        assert not replay_snapshot(str(path), None).whole


def test_unreadable_record_breaks_a_snapshot(tmp_path: Path) -> None:
    path = tmp_path / f"{9:020}-{0:010}.checkpoint"
    path.write_bytes(snapshot_of([b"\x01"]))
    assert replay_snapshot(str(path), None)[:3] == (True, True, True)
    assert replay_snapshot(str(path), ClusterState())[:3] == (True, True, False)
    batch = builders.batch(records_count=3, payload=b"\x7f" * 9)  # records that do not decode
    path.write_bytes(batch)
    assert replay_snapshot(str(path), ClusterState())[:3] == (False, False, False)


@each(
    ("bases", "complete", "next_offset", "names"),
    [
        ((0, 2), True, 4, {"t0", "t1", "t2", "t3"}),
        ((0, 3), False, 5, {"t0", "t1", "t3", "t4"}),  # offset 2 is nowhere
        ((4, 6), True, 8, {"t4", "t5", "t6", "t7"}),  # behind a snapshot at 4
        ((2, 4), True, 6, {"t4", "t5"}),  # all below it is known already
        ((3, 5), True, 7, {"t4", "t5", "t6"}),  # a batch that lies on both sides of it
        ((5, 7), False, 9, {"t5", "t6", "t7", "t8"}),  # offset 4 is nowhere
    ],
)
def test_log_continues_after_the_snapshot(
    tmp_path: Path, bases: tuple[int, int], complete: bool, next_offset: int, names: set[str]
) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    if bases[0]:
        (directory / f"{4:020}-{1:010}.checkpoint").write_bytes(snapshot_of([NO_OP]))
    for base in bases:
        records = [topic(f"t{at}", at) for at in (base, base + 1)]
        (directory / f"{base:020}.log").write_bytes(log_of(records, base_offset=base))
    state = read_cluster(str(directory))
    assert state is not None
    assert (state.complete, state.next_offset, set(state.ids)) == (complete, next_offset, names)


@pytest.mark.parametrize(("torn", "complete"), [(0, False), (2, True)])
def test_only_the_log_end_may_be_torn(tmp_path: Path, torn: int, complete: bool) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    for base in (0, 2):
        log = log_of([NO_OP, NO_OP], base_offset=base)
        more = log_of([NO_OP], base_offset=base + 2)[:-9] if base == torn else b""
        (directory / f"{base:020}.log").write_bytes(log + more)
    state = read_cluster(str(directory))
    assert state is not None
    assert (state.complete, state.next_offset) == (complete, 4)
