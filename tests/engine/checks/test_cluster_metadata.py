"""What a cluster metadata log and its snapshots come to."""

import json
from pathlib import Path

import builders
import damage
import pytest
from builders import control_record
from corpus import corpus, expected, names
from directories import identifier
from metadata_log import (
    NO_OP,
    change,
    framed,
    ids,
    log_of,
    partition,
    remove_topic,
    snapshot_of,
    tagged,
    topic,
)

from kdump.engine.checks.cluster_metadata import (
    ClusterMetadata,
    Replicas,
    read_cluster_metadata,
    replay_snapshot,
)
from kdump.record.metadata_records import (
    BrokerRecord,
    MetadataRecord,
    OtherRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
    TransactionRecord,
    UnregisterBrokerRecord,
)


def test_real_logs_come_to_what_the_broker_knew() -> None:
    for name in names("modern/data"):
        directory = corpus(name) / "d1" / "__cluster_metadata-0"
        state = read_cluster_metadata(str(directory))
        assert state is not None
        assert state.complete

        topics = json.loads(expected(f"{name.replace('/data', '')}/topics.json").read_text())
        assert {key: value["id"] for key, value in topics.items()} == state.ids
        counts = {key: value["partitions"] for key, value in topics.items()}
        assert counts == {
            key: len(state.partitions[topic_id]) for key, topic_id in state.ids.items()
        }


def test_snapshot_and_log_come_to_the_same_as_the_log_alone(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    first = [topic("a", 1), partition(0, 1), topic("b", 2), partition(0, 2)]
    second = [remove_topic(1), change(0, 2, (2, ids(4)))]
    (directory / f"{0:020}.log").write_bytes(log_of(first) + log_of(second, base_offset=4))
    alone = read_cluster_metadata(str(directory))
    (directory / f"{4:020}-{1:010}.checkpoint").write_bytes(snapshot_of(first))
    both = read_cluster_metadata(str(directory))
    (directory / f"{0:020}.log").rename(directory / f"{4:020}.log")
    (directory / f"{4:020}.log").write_bytes(log_of(second, base_offset=4))
    short = read_cluster_metadata(str(directory))
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
    begin, end, abort = (framed(number, 0, tagged()) for number in (23, 24, 25))
    records = [begin, topic("a", 1), abort, begin, topic("b", 2), end, begin, topic("c", 3)]
    (directory / f"{0:020}.log").write_bytes(log_of(records))
    state = read_cluster_metadata(str(directory))
    assert state is not None
    assert state.ids == {"b": identifier(2)}


@pytest.mark.parametrize("at", ["in", "between"])
def test_a_log_with_something_missing_is_not_complete(tmp_path: Path, at: str) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    first, second = log_of([NO_OP]), log_of([NO_OP], base_offset=1 if at == "in" else 5)
    log = damage.flip(first, 70) + second if at == "in" else first + second
    (directory / f"{0:020}.log").write_bytes(log)
    state = read_cluster_metadata(str(directory))
    assert state is not None
    assert not state.complete


@pytest.mark.parametrize("from_offset", [5, None])
def test_a_log_that_begins_behind_its_snapshot_is_not_complete(
    tmp_path: Path, from_offset: int | None
) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    (directory / f"{4:020}-{1:010}.checkpoint").write_bytes(snapshot_of([NO_OP]))
    if from_offset is not None:
        (directory / f"{from_offset:020}.log").write_bytes(b"")
    state = read_cluster_metadata(str(directory))
    assert state is not None
    assert (state.complete, state.next_offset) == (False, 4)


BEGIN, END, ABORTED = (TransactionRecord(number) for number in (23, 24, 25))
PLACED = PartitionRecord("A", 0, (1, 2), ("x", "y"), 1)


def state_of(*records: MetadataRecord | None) -> ClusterMetadata:
    """Add records, the first at time 100, each ten milliseconds behind the one before."""
    state = ClusterMetadata()
    for number, record in enumerate(records):
        state.add(record, 100 + 10 * number)
    return state


@pytest.mark.parametrize(
    ("records", "topics", "ids", "removed"),
    [
        ([TopicRecord("a", "A")], {"A": "a"}, {"a": "A"}, {}),
        ([TopicRecord("a", "A"), RemoveTopicRecord("A")], {}, {}, {"A": 110}),
        ([RemoveTopicRecord("A")], {}, {}, {"A": 100}),
        (
            [TopicRecord("a", "A"), TopicRecord("b", "B"), RemoveTopicRecord("A")],
            {"B": "b"},
            {"b": "B"},
            {"A": 120},
        ),
        (  # made anew before the old one is gone
            [TopicRecord("a", "A"), TopicRecord("a", "B"), RemoveTopicRecord("A")],
            {"B": "a"},
            {"a": "B"},
            {"A": 120},
        ),
        ([BEGIN, TopicRecord("a", "A"), ABORTED], {}, {}, {}),
        ([BEGIN, TopicRecord("a", "A")], {}, {}, {}),
        ([BEGIN, TopicRecord("a", "A"), END], {"A": "a"}, {"a": "A"}, {}),
        ([BEGIN, TopicRecord("a", "A"), END, END], {"A": "a"}, {"a": "A"}, {}),
        ([BEGIN, END, TopicRecord("a", "A")], {"A": "a"}, {"a": "A"}, {}),
        ([BEGIN, RemoveTopicRecord("A"), OtherRecord(20, 0), END], {}, {}, {"A": 110}),
    ],
)
def test_topics_that_are_and_were(
    records: list[MetadataRecord],
    topics: dict[str, str],
    ids: dict[str, str],
    removed: dict[str, int],
) -> None:
    state = state_of(*records)
    assert (state.topics, state.ids, state.removed) == (topics, ids, removed)
    assert (state.complete, state.last_ms) == (True, 90 + 10 * len(records))


@pytest.mark.parametrize(
    ("change_of", "replicas"),
    [
        (PartitionChangeRecord("A", 0, None, None, 2), Replicas((1, 2), ("x", "y"), 100)),
        (PartitionChangeRecord("A", 0, (3,), None, None), Replicas((3,), ("x", "y"), 110)),
        (PartitionChangeRecord("A", 0, None, ("z", "y"), 1), Replicas((1, 2), ("z", "y"), 110)),
        (PartitionChangeRecord("A", 0, (3,), ("z",), 1), Replicas((3,), ("z",), 110)),
        (PartitionRecord("A", 0, (4,), ("q",), 4), Replicas((4,), ("q",), 110)),
        (PartitionRecord("A", 1, (4,), ("q",), 4), Replicas((1, 2), ("x", "y"), 100)),
        (TopicRecord("a", "A"), Replicas((1, 2), ("x", "y"), 100)),
        (RemoveTopicRecord("A"), None),
        (RemoveTopicRecord("B"), Replicas((1, 2), ("x", "y"), 100)),
    ],
)
def test_where_replicas_are_and_since_when(
    change_of: MetadataRecord, replicas: Replicas | None
) -> None:
    state = state_of(PLACED, change_of)
    assert state.partitions.get("A", {}).get(0) == replicas
    assert state.complete


@pytest.mark.parametrize(
    "record",
    [
        None,  # one that cannot be read
        PartitionChangeRecord("A", 1, (3,), None, None),  # of a partition that is not known
        PartitionChangeRecord("B", 0, None, None, 2),
    ],
)
def test_what_shows_that_records_are_missing(record: MetadataRecord | None) -> None:
    state = state_of(PLACED, record)
    assert not state.complete
    assert state.partitions == {"A": {0: Replicas((1, 2), ("x", "y"), 100)}}


def test_the_directories_a_broker_registered_last() -> None:
    first, second = BrokerRecord(1, ("x",)), BrokerRecord(2, ("y", "z"))
    assert state_of(first, second, BrokerRecord(1, None)).log_dirs == {1: ("x",), 2: ("y", "z")}
    assert state_of(first, second, BrokerRecord(1, ("q",))).log_dirs == {1: ("q",), 2: ("y", "z")}
    assert state_of(first, second, UnregisterBrokerRecord(1)).log_dirs == {2: ("y", "z")}
    assert state_of(UnregisterBrokerRecord(1)).log_dirs == {}


def test_the_newest_time_is_kept() -> None:
    state = state_of(TopicRecord("a", "A"))
    state.add(TopicRecord("b", "B"), 7)
    assert state.last_ms == 100


HEADER, FOOTER = 3, 4


@pytest.mark.parametrize(
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
@pytest.mark.parametrize("known", [False, True])
def test_what_a_snapshot_begins_and_ends_with(
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
    assert replay_snapshot(str(path), ClusterMetadata() if known else None) == ends
    if len(parts) > 1:
        path.write_bytes(parts[0] + damage.flip(parts[1], 70) + b"".join(parts[2:]))
        assert not replay_snapshot(str(path), None).whole


def test_a_record_of_a_snapshot_that_cannot_be_read_breaks_it(tmp_path: Path) -> None:
    path = tmp_path / f"{9:020}-{0:010}.checkpoint"
    path.write_bytes(snapshot_of([b"\x01"]))
    assert replay_snapshot(str(path), None) == (True, True, True)
    assert replay_snapshot(str(path), ClusterMetadata()) == (True, True, False)
    batch = builders.batch(records_count=3, payload=b"\x7f" * 9)  # records that do not decode
    path.write_bytes(batch)
    assert replay_snapshot(str(path), ClusterMetadata()) == (False, False, False)


@pytest.mark.parametrize(
    ("bases", "complete", "next_offset", "names"),
    [
        ((0, 2), True, 4, {"t0", "t1", "t2", "t3"}),
        ((0, 3), False, 5, {"t0", "t1", "t3", "t4"}),  # offset 2 is nowhere
        ((4, 6), True, 8, {"t4", "t5", "t6", "t7"}),  # behind a snapshot at 4
        ((2, 4), True, 6, {"t4", "t5"}),  # all below it is known already
        ((3, 5), True, 7, {"t4", "t5", "t6"}),  # a batch that lies on both sides of it
        ((5, 7), False, 4, set()),
    ],
)
def test_the_log_goes_on_where_the_snapshot_ends(
    tmp_path: Path, bases: tuple[int, int], complete: bool, next_offset: int, names: set[str]
) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    if bases[0]:
        (directory / f"{4:020}-{1:010}.checkpoint").write_bytes(snapshot_of([NO_OP]))
    for base in bases:
        records = [topic(f"t{at}", at) for at in (base, base + 1)]
        (directory / f"{base:020}.log").write_bytes(log_of(records, base_offset=base))
    state = read_cluster_metadata(str(directory))
    assert state is not None
    assert (state.complete, state.next_offset, set(state.ids)) == (complete, next_offset, names)


@pytest.mark.parametrize(("torn", "complete"), [(0, False), (2, True)])
def test_only_the_end_of_the_log_may_be_torn(tmp_path: Path, torn: int, complete: bool) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    for base in (0, 2):
        log = log_of([NO_OP, NO_OP], base_offset=base)
        more = log_of([NO_OP], base_offset=base + 2)[:-9] if base == torn else b""
        (directory / f"{base:020}.log").write_bytes(log + more)
    state = read_cluster_metadata(str(directory))
    assert state is not None
    assert (state.complete, state.next_offset) == (complete, 4)
