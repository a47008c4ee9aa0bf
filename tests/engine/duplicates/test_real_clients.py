"""Duplicates and misplaced keys of topics that real clients wrote, against brute force.

Where a key belongs the clients say themselves: each put all keys into topics of two to six
partitions. What is equal is told from what a consumer was handed.
"""

import os
import random
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from keyed_clients import JAVA, KEYS, LIBRDKAFKA, TIME, Clients, ConsumedRecord
from long_runs import LONG, SEED

from kdump.engine.dump.run import dump
from kdump.engine.duplicates.entries import DuplicateOptions
from kdump.engine.duplicates.run import SHOWN_BYTES, duplicates
from kdump.engine.reading.options import DumpOptions
from kdump.engine.usage.placement import PlacementOptions
from kdump.engine.usage.placement_rows import placement
from kdump.engine.work.pipeline import Workers
from kdump.findings.rows import RecordChunk, Row
from kdump.storage.targets import Selection

pytestmark = [pytest.mark.broker, pytest.mark.fuzz]
TOPICS = 300 if LONG else 8
COUNTS = range(2, 7)
NAMES = (JAVA, *LIBRDKAFKA)
Records = dict[str, list[ConsumedRecord]]


class World(NamedTuple):
    """What real clients left, and what consumers were handed of it."""

    directory: Path
    counts: dict[str, int]
    writers: dict[str, str]
    grown: dict[str, int]  # topic -> partitions before
    everything: Records
    committed: Records
    belongs: dict[tuple[str, int], dict[bytes, int]]
    producers: dict[tuple[str, int, int], tuple[int | None, int | None]]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("broker") / "data"
    clients = Clients(directory)
    try:
        yield _fill(clients, directory)
    finally:
        clients.broker.run("kill")
        shutil.rmtree(directory)


def _fill(clients: Clients, directory: Path) -> World:
    draw = random.Random(SEED)
    references = {f"ref-{name}-{n}": n for name in ("java", *LIBRDKAFKA) for n in COUNTS}
    topics = {f"topic-{number}": draw.randint(1, 6) for number in range(TOPICS)}
    clients.create(references | topics)
    writers = {topic: draw.choice(("java", *LIBRDKAFKA)) for topic in topics}
    grown: dict[str, int] = {}
    clock = TIME
    for turn in range(2):
        of_java = []
        for topic in writers:
            if turn and draw.random() < 0.4 and topics[topic] > 1:
                grown[topic] = topics[topic]
                topics[topic] += draw.randint(1, 4)
                clients.grow({topic: topics[topic]})
        batches: dict[tuple[str, str | None], list[Any]] = defaultdict(list)
        for topic, name in writers.items():
            records = []
            for _ in range(draw.randint(20, 120)):
                clock += draw.choice((0, 1, 1000, 60_000))
                key = None if draw.random() < 0.1 else draw.choice(KEYS)
                value = draw.choice((None, b"", b"v", b"v2", b"x" * 300, os.urandom(4)))
                records.append((topic, key, value, clock))
            if draw.random() < 0.5:
                records += draw.sample(records, 5)  # a retry with the same times
            if name == "java":
                of_java += records
            else:
                batches[name, draw.choice((None, "commit", "abort"))] += records
        clients.java(of_java)
        for (name, end), records in batches.items():
            clients.librdkafka(name, records, end=end, headers=[("id", b"%d" % draw.randint(0, 3))])
    clients.java([(f"ref-java-{n}", key, b"", TIME) for n in COUNTS for key in KEYS])
    for name in LIBRDKAFKA:
        records = [(f"ref-{name}-{n}", key, b"", TIME) for n in COUNTS for key in KEYS]
        clients.librdkafka(name, records)
    referred = clients.consumed(references)
    belongs = {
        (name, n): {one.key or b"": one.partition for one in referred[f"ref-{name}-{n}"]}
        for name in ("java", *LIBRDKAFKA)
        for n in COUNTS
    }
    for n in COUNTS:
        assert belongs["java", n] == belongs[JAVA, n]
    producers = {}
    for item in dump([str(directory)], DumpOptions(selection=Selection(topic="topic-*"))):
        assert isinstance(item, RecordChunk), item
        for row in item.iter_records():
            place = row.topic or "", row.partition or 0, row.offset
            ids = row.producer_id, row.producer_epoch
            producers[place] = (None, None) if row.producer_id == -1 else ids
    return World(
        directory, topics, writers, grown, clients.consumed(topics),
        clients.consumed(topics, "read_committed"), belongs, producers,
    )  # fmt: skip


def compared_parts(sent: ConsumedRecord, by: str) -> tuple[bytes | None, ...]:
    if by == "header:id":
        return (dict(sent.headers).get("id"),)
    return tuple(getattr(sent, part) for part in by.split(","))


def find_expected(
    records: Records, by: str, within_ms: int | None, most: int | None
) -> list[list[Any]]:
    """Give topic, number of copies, what is compared and place of each copy, by first copies."""
    found = []
    for topic, all_sent in records.items():
        groups: dict[Any, list[ConsumedRecord]] = defaultdict(list)
        for sent in all_sent:
            said = compared_parts(sent, by)
            if any(part is not None for part in said):
                groups[said, sent.partition if most is not None else None].append(sent)
        for (said, _), sents in groups.items():
            sents.sort(key=lambda one: (one.timestamp, one.partition, one.offset))
            if most is not None:
                sents.sort(key=lambda one: one.offset)
            chains = [[sents[0]]]
            for sent in sents[1:]:
                last = chains[-1][-1]
                apart = within_ms is not None and sent.timestamp - last.timestamp > within_ms
                apart |= most is not None and sent.offset - last.offset > most
                if apart:
                    chains.append([])
                chains[-1].append(sent)
            found += [(topic, said, chain) for chain in chains if len(chain) > 1]
    found.sort(key=lambda one: (one[0], one[2][0].partition, one[2][0].offset))
    return [
        [topic, len(chain), [part and part[:SHOWN_BYTES] for part in said], *sent[:3]]
        for topic, said, chain in found
        for sent in chain
    ]


def run_duplicates(world: World, options: DuplicateOptions, **given: Any) -> list[Row]:
    rows = list(duplicates([str(world.directory)], options, **given))
    assert all(isinstance(row, Row) for row in rows), rows
    return rows  # type: ignore[return-value]


@pytest.mark.parametrize("by", ["key", "value", "key,value", "header:id"])
@pytest.mark.parametrize(
    ("within_ms", "within_records"), [(None, None), (60_000, None), (0, None), (None, 10)]
)
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_duplicates_of_real_clients_are_found(
    world: World, by: str, within_ms: int | None, within_records: int | None, isolation: str
) -> None:
    header = b"id" if by.startswith("header") else None
    options = DuplicateOptions(
        selection=Selection(topic="topic-*"),
        by=("header",) if header else tuple(by.split(",")),
        header=header,
        within_ms=within_ms,
        within_records=within_records,
        visible=isolation == "read_committed",
        isolation=isolation,
    )
    records = world.committed if options.visible else world.everything
    summary, *rows = run_duplicates(world, options)
    wanted = find_expected(records, by, within_ms, within_records)
    fields = [row.fields for row in rows]
    assert [
        [
            of["topic"], of["copies"], [of[part] for part in options.by],
            of["partition"], of["offset"], of["timestamp_ms"],
        ]
        for of in fields
    ] == wanted  # fmt: skip
    for of in fields:
        place = of["topic"], of["partition"], of["offset"]
        assert (of["producer_id"], of["producer_epoch"]) == world.producers[place]  # type: ignore[index]
    assert summary.fields["copies"] == len(wanted)
    assert summary.fields["groups"] == sum(of["copy"] == 1 for of in fields)
    assert summary.fields["records_count"] == sum(map(len, records.values()))
    assert run_duplicates(world, options, driver=Workers(2)) == [summary, *rows]


@pytest.mark.parametrize("name", NAMES)
def test_misplaced_keys_of_real_clients_are_found(world: World, name: str) -> None:
    options = PlacementOptions(partitioner=name, selection=Selection(topic="topic-*"), top=1000)
    rows = list(placement([str(world.directory)], options))
    assert rows == list(placement([str(world.directory)], options, driver=Workers(2)))
    told: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        assert isinstance(row, Row), row
        told[row.row].append(row.fields)
    summaries = {str(of["topic"]): of for of in told["key-placement"]}
    assert set(summaries) == set(world.counts)
    for topic, sents in world.everything.items():
        count, of = world.counts[topic], summaries[topic]
        keyed = [one for one in sents if one.key is not None]
        if name == "consistent-random":
            keyed = [one for one in keyed if one.key]
        assert of["partitions_count"] == count
        assert of["partitions_from"] == "metadata log"
        assert of["records_count"] == len(keyed)
        if count in COUNTS:
            where = world.belongs[name, count]
            missed = [one for one in keyed if one.partition != where[one.key or b""]]
            assert of["misplaced_count"] == len(missed)
            mine = [each for each in told["misplaced-keys"] if each["topic"] == topic]
            got = {
                (each["partition"], each["producer_id"]): (
                    each["misplaced_count"], each["first_offset"], each["first_timestamp_ms"],
                    each["last_offset"], each["last_timestamp_ms"],
                )
                for each in mine
            }  # fmt: skip
            assert got == by_producer(world, topic, missed)
        places: dict[bytes, set[int]] = defaultdict(set)
        for one in sents:
            if one.key is not None:
                places[one.key].add(one.partition)
        assert of["keys"] == len(places)
        assert of["keys_moved"] == sum(len(each) > 1 for each in places.values())
        moved = {each["key"]: each for each in told["moved-key"] if each["topic"] == topic}
        assert set(moved) == {key for key, each in places.items() if len(each) > 1}
        for key, each in moved.items():
            assert set(each["partitions"]) == places[key]


def by_producer(world: World, topic: str, missed: list[ConsumedRecord]) -> dict[Any, Any]:
    groups: dict[Any, list[ConsumedRecord]] = defaultdict(list)
    for one in missed:
        producer_id = world.producers[topic, one.partition, one.offset][0]
        groups[one.partition, producer_id].append(one)
    sums = {}
    for place, ones in groups.items():
        first, last = min(ones, key=lambda one: one.offset), max(ones, key=lambda one: one.offset)
        sums[place] = len(ones), first.offset, first.timestamp, last.offset, last.timestamp
    return sums


def test_matching_partitioner_is_named(world: World) -> None:
    options = PlacementOptions(selection=Selection(topic="topic-*"))
    for row in placement([str(world.directory)], options):
        if row.row != "key-placement":  # type: ignore[union-attr]
            continue
        of: dict[str, Any] = row.fields  # type: ignore[union-attr]
        topic = of["topic"]
        named, count = world.writers[topic].replace("java", JAVA), world.counts[topic]
        if count == 1:
            assert of["partitioner"] is None
        elif topic not in world.grown:
            assert of["misplaced_count"] == 0
            assert of["partitioner"] in (named, "crc32", "consistent-random")
        elif of["as_if_partitions"] is not None and of["partitioner"] == named:
            assert world.grown[topic] % of["as_if_partitions"] == 0 or (
                of["as_if_partitions"] % world.grown[topic] == 0
            )


@pytest.mark.skipif(not LONG, reason="long profile: every topic on Spark, too")
def test_duplicates_on_spark_are_the_same(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    from kdump.spark.driver import SparkDriver
    from kdump.spark.session import spark_session

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    topics, paths = Selection(topic="topic-*"), [str(world.directory)]
    bys = (("key",), ("value",), ("key", "value"))
    with spark_session("local[2]", None) as session:
        driver = SparkDriver(session, 4, decodes=True)
        for by in bys:
            for within_ms in (None, 60_000):
                options = DuplicateOptions(selection=topics, by=by, within_ms=within_ms)
                assert run_duplicates(world, options, driver=driver) == run_duplicates(
                    world, options
                )
        for name in (None, *NAMES):
            asked = PlacementOptions(partitioner=name, selection=topics, top=1000)
            here, there = placement(paths, asked), placement(paths, asked, driver=driver)
            assert list(there) == list(here)
