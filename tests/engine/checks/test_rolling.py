"""Why segments ended: each rule by itself, and every segment that a real broker rolled."""

import json
from collections import Counter
from pathlib import Path

import pytest
from corpus import corpus, find_expected
from directories import BATCH_BYTES, DataDirectory, codes, findings, write_checkpoint
from each import each
from segments import target_of

from kdump.broker import rolling
from kdump.broker.rolling import NextBatch, RollRule, SealedSegment, explain
from kdump.broker.settings import Settings, read_settings
from kdump.engine.checks.rolling import Rolling
from kdump.engine.reading.partition_scan import PartitionScan
from kdump.engine.reading.scan import scan
from kdump.storage.targets import Selection, Target, resolve

SETTINGS = Settings(segment_bytes=1000, segment_ms=500, index_size_max_bytes=80)
SEALED = SealedSegment(100, 900, 50, 3, 2)
INCOMING = NextBatch(100, 100, 550, 200)


@each(
    ("sealed", "incoming", "rolled"),
    [
        ({}, {}, RollRule(100, "unexplained")),
        ({}, {"size_bytes": 101}, RollRule(100, "size", 1000, 1001)),
        ({}, {"segment_bytes": 101}, RollRule(100, "size-of-append", 1000, 1001)),
        ({}, {"max_timestamp_ms": 551}, RollRule(100, "time", 500, 501)),
        ({"first_max_timestamp_ms": -1}, {"max_timestamp_ms": 900}, RollRule(100, "unexplained")),
        ({"offset_entries": 10}, {}, RollRule(100, "index-full", 10, 10)),
        ({"offset_entries": 9}, {}, RollRule(100, "unexplained")),
        ({"time_entries": 5}, {}, RollRule(100, "index-full", 5, 5)),
        ({}, {"last_offset": 100 + 2**31}, RollRule(100, "offset-range", 2**31 - 1, 2**31)),
        ({}, {"last_offset": 99 + 2**31}, RollRule(100, "unexplained")),
    ],
)
def test_each_rule_explains_a_roll(
    sealed: dict[str, int], incoming: dict[str, int], rolled: RollRule
) -> None:
    found = explain(SEALED._replace(**sealed), INCOMING._replace(**incoming), SETTINGS)
    assert found == rolled


@pytest.mark.parametrize(
    ("size", "rule"), [(999 << 20, "unexplained"), ((999 << 20) + 1, "size-of-append")]
)
def test_appends_are_limited_by_the_fetch_size(size: int, rule: str) -> None:
    settings = SETTINGS._replace(segment_bytes=1000 << 20)
    incoming = INCOMING._replace(segment_bytes=1 << 40)
    found = explain(SEALED._replace(size_bytes=size), incoming, settings)
    assert (found.rule, found.actual) == (rule, None if rule == "unexplained" else (1000 << 20) + 1)


def test_jitter_rolls_a_segment_early() -> None:
    settings = SETTINGS._replace(segment_jitter_ms=100)
    incoming = INCOMING._replace(max_timestamp_ms=460)
    assert explain(SEALED, incoming, settings).rule == "time"
    assert explain(SEALED, incoming, SETTINGS).rule == "unexplained"


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    directory = DataDirectory(tmp_path / "data")
    directory.partition("orders", 0, (0, 10, 20))
    directory.stop()
    return directory


def settings(tmp_path: Path, text: str) -> str:
    path = tmp_path / "server.properties"
    path.write_text(f"log.dirs={tmp_path / 'data'}\n{text}\n")
    return str(path)


def test_no_reports_without_settings(data: DataDirectory) -> None:
    assert codes(data.path) == []


def test_one_note_where_the_stated_size_explains_nothing(
    data: DataDirectory, tmp_path: Path
) -> None:
    stated = settings(tmp_path, "log.segment.bytes=100000")
    told = findings(server_properties=stated)
    assert [(found.code, found.severity.value, found.actual) for found in told] == [
        ("roll-unexplained", "note", 2)
    ]


def test_no_note_if_a_rule_explains_it(data: DataDirectory, tmp_path: Path) -> None:
    size = (data.path / "orders-0" / f"{0:020}.log").stat().st_size
    assert codes(server_properties=settings(tmp_path, f"log.segment.bytes={size}")) == []


@pytest.mark.parametrize(("more", "rule"), [(0, "size"), (BATCH_BYTES, "size-of-append")])
def test_next_batches_may_be_one_append(
    data: DataDirectory, tmp_path: Path, more: int, rule: str
) -> None:
    """Its first batch alone would have fitted."""
    size = (data.path / "orders-0" / f"{0:020}.log").stat().st_size + more
    stated = read_settings(settings(tmp_path, f"log.segment.bytes={size}"))
    rolled = list_rules(target_of(data.path / "orders-0"), stated)
    assert [one.rule for one in rolled] == [rule, rule]


@each(
    ("partition", "cleaned", "rules"),
    [
        (0, ("orders", 0, 11), ["compacted", "compacted"]),
        (0, ("orders", 0, 10), ["compacted", "unexplained"]),
        (3, ("orders", 3, 10), ["compacted", "unexplained"]),
        (3, ("orders", 0, 10), ["unexplained", "unexplained"]),
        (0, ("users", 0, 10), ["unexplained", "unexplained"]),
        (0, ("orders", 0, 0), ["unexplained", "unexplained"]),
    ],
)
def test_segments_below_the_cleaner_offset_are_exempt(
    tmp_path: Path, partition: int, cleaned: tuple[str, int, int], rules: list[str]
) -> None:
    directory = DataDirectory(tmp_path / "data")
    path = directory.partition("orders", partition, (0, 10, 20))
    directory.stop()
    write_checkpoint(directory.path / "cleaner-offset-checkpoint", [cleaned])
    assert [one.rule for one in list_rules(target_of(path), Settings())] == rules


def test_messages_without_an_explaining_rule(data: DataDirectory, tmp_path: Path) -> None:
    size = (data.path / "orders-0" / f"{0:020}.log").stat().st_size
    write_checkpoint(data.path / "cleaner-offset-checkpoint", [("orders", 0, 5)])
    stated = settings(tmp_path, f"log.segment.bytes={9 * size}\nlog.roll.ms=700")
    (told,) = findings(server_properties=stated)
    assert (told.segment, told.actual) == (10, 1)
    assert told.expected == f"{9 * size} bytes or 700 ms"
    assert "For 1 of 2 closed segments, the settings do not explain the roll" in told.message
    assert "(others by rule: compacted 1)" in told.message


def test_configured_size_does_not_apply_to_internal_topics(tmp_path: Path) -> None:
    stated = read_settings(settings(tmp_path, "log.segment.bytes=7"))
    assert stated.for_topic("orders").segment_bytes == 7
    assert "segment_bytes" not in stated.for_topic("__consumer_offsets").stated_fields
    stated = read_settings(settings(tmp_path, "offsets.topic.segment.bytes=9"))
    assert stated.for_topic("__consumer_offsets").segment_bytes == 9
    assert "segment_bytes" in stated.for_topic("__consumer_offsets").stated_fields
    assert "segment_bytes" not in stated.for_topic("orders").stated_fields


CONFIGS = {
    "internal.segment.bytes": "segment_bytes",
    "segment.ms": "segment_ms",
    "segment.index.bytes": "index_size_max_bytes",
}


def list_rules(target: Target, settings: Settings) -> list[RollRule]:
    scanned = PartitionScan(target, directory=target.log_dir(), settings=settings)
    check = Rolling(scanned)
    list(scan(scanned, [check]))
    return check.rolled


@each("state", ["live", "clean", "killed", "recovered"])
def test_every_segment_of_a_real_broker_is_explained(state: str) -> None:
    broker = read_settings(str(find_expected("modern/server.properties.txt")))
    topics = json.loads(find_expected(f"modern/{state}/topics.json").read_text())
    root = corpus(f"modern/data/{state}")
    rules: Counter[str] = Counter()
    paths = [str(root / "d1"), str(root / "d2")]
    for target in resolve(paths, Selection(), listed=False):
        assert isinstance(target, Target)
        given = topics.get(target.topic, {}).get("configs", {})
        own = {field: int(given[name]) for name, field in CONFIGS.items() if name in given}
        internal = (target.topic or "").startswith("__")
        settings = broker if internal else broker._replace(**own)
        rules.update(one.rule for one in list_rules(target, settings))
    assert rules[rolling.UNEXPLAINED] == rules[rolling.APPEND_SIZE] == 0
    assert rules[rolling.SIZE] > 50
    assert rules[rolling.INDEX_FULL] > 5
    assert rules[rolling.TIME] > 3
    assert rules[rolling.COMPACTED] > 5
