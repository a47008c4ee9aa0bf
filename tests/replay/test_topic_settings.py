"""The settings of topics: which source counts, and where a metadata log is looked for."""

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from each import each
from metadata_log import LONG_AGO, config, frame_record, log_of, partition, text, topic
from reindexing import rows_of

from kdump.broker import settings as s
from kdump.broker.settings import Settings, read_settings, read_topic_config
from kdump.replay import tiers
from kdump.replay.cluster import read_cluster
from kdump.replay.cluster_facts import Broker
from kdump.replay.tiers import Tiers
from kdump.replay.topic_settings import (
    TopicSettings,
    metadata_log_for,
    settings_in,
    topic_settings,
)
from kdump.storage import places

SAMPLE = Path(__file__).parents[2] / "sample-data" / "clean" / "4.1.1"
STEM = "00000000000000000000"
METADATA = "__cluster_metadata-0"
OF_TOPIC, OF_BROKER = 2, 4
OWNER = "version=1\nnode.id={}\ncluster.id={}\n"
INTERVAL = "index.interval.bytes"


def directory(parent: Path, name: str, node: int = 1, cluster: str = "c") -> Path:
    made = parent / name
    (made / "orders-0").mkdir(parents=True)
    (made / "meta.properties").write_text(OWNER.format(node, cluster))
    return made


def with_log(data: Path, *records: bytes) -> Path:
    """Put a metadata log that knows the topic `orders`, id 7, into a data directory."""
    (data / METADATA).mkdir()
    known = [topic("orders", 7), partition(0, 7), *records]
    (data / METADATA / f"{STEM}.log").write_bytes(log_of(known))
    return data


def interval_of(data: Path, settings: TopicSettings) -> tuple[int, str]:
    found = settings.of(str(data / "orders-0"), "orders")
    return found.index_interval_bytes, found.source("index_interval_bytes")


def test_index_is_built_with_the_interval_of_its_topic(tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path / "data")
    of_topic = tmp_path / "data/d1/orders.lz4-0"
    before = (of_topic / f"{STEM}.index").read_bytes()
    (of_topic / f"{STEM}.index").unlink()
    row = rows_of(of_topic / f"{STEM}.log", write=True)[0]
    assert (row["action"], row["entries_after"]) == ("created", 12)
    assert row["settings"] == [
        {"name": INTERVAL, "value": 1024, "source": "topic"},
        {"name": "segment.index.bytes", "value": 10_485_760, "source": "default"},
    ]
    assert (of_topic / f"{STEM}.index").read_bytes() == before[: 12 * 8]
    row = rows_of(of_topic / f"{STEM}.log", every=True, topic_configs=False)[0]
    assert (row["entries_after"], row["settings"][0]["source"]) == (4, "default")


def test_metadata_log_may_be_in_another_directory() -> None:
    rows = rows_of(SAMPLE / "d2" / "orders.gzip-0" / f"{STEM}.log", every=True)
    assert rows[0]["entries_after"] == 13
    assert rows[0]["settings"][0] == {"name": INTERVAL, "value": 1024, "source": "topic"}


def test_setting_sources_have_an_order(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text("log.index.interval.bytes=50\n")
    own, broker = Settings(), read_settings(str(properties))
    data = with_log(
        directory(tmp_path, "d1"),
        config(OF_BROKER, "", "log.index.interval.bytes", "40"),
        config(OF_BROKER, "2", "log.index.interval.bytes", "35"),
    )
    assert interval_of(data, TopicSettings(own, from_disk=False)) == (4096, s.DEFAULT)
    assert interval_of(data, TopicSettings(broker, from_disk=False)) == (50, s.FILE)
    assert interval_of(data, TopicSettings(broker)) == (40, s.CLUSTER)
    said = config(OF_BROKER, "1", "log.index.interval.bytes", "30")
    log = data / METADATA / f"{STEM}.log"
    log.write_bytes(log.read_bytes() + log_of([said], base_offset=5))
    assert interval_of(data, TopicSettings(broker)) == (30, s.BROKER)
    said = config(OF_TOPIC, "orders", INTERVAL, "20")
    log.write_bytes(log.read_bytes() + log_of([said], base_offset=6))
    assert interval_of(data, TopicSettings(broker)) == (20, s.TOPIC)
    asked: dict[str, int | None] = {"index_interval_bytes": 10, "index_size_max_bytes": None}
    assert interval_of(data, TopicSettings(broker, asked)) == (10, s.OPTION)
    said = config(OF_TOPIC, "orders", INTERVAL, None)
    log.write_bytes(log.read_bytes() + log_of([said], base_offset=7))
    assert interval_of(data, TopicSettings(broker)) == (30, s.BROKER)


@each(
    ("text", "interval"),
    [("{}=7", 7), ("orders:{}=7", 7), ("ord*:{}=7", 7), ("clicks:{}=7", 20)],
)
def test_user_settings_apply_to_selected_topics(tmp_path: Path, text: str, interval: int) -> None:
    data = with_log(directory(tmp_path, "d1"), config(OF_TOPIC, "orders", INTERVAL, "20"))
    given = read_topic_config(text.format(INTERVAL))
    settings = topic_settings(None, [str(data)], configs=[given])
    assert interval_of(data, settings) == (interval, s.OPTION if interval == 7 else s.TOPIC)


def test_topic_with_a_cleaner_checkpoint_is_compacted(tmp_path: Path) -> None:
    """Unless the metadata log knows the topic, and that it has no such policy of its own."""
    data = directory(tmp_path, "d1")
    (data / "cleaner-offset-checkpoint").write_text("0\n1\norders 3 40\n")

    def policy() -> tuple[str, str]:
        found = TopicSettings(Settings()).of(str(data / "orders-0"), "orders")
        return found.cleanup_policy, found.source("cleanup_policy")

    assert policy() == ("compact", s.CLEANED)
    assert (
        TopicSettings(Settings()).of(str(data / "clicks-0"), "clicks").stated_fields == frozenset()
    )
    with_log(data)
    assert policy() == ("delete", s.DEFAULT)


@each(
    ("value", "registered_ms", "stopped"),
    [
        *(("true", None, False), ("true", LONG_AGO, True), ("true", LONG_AGO - 1, False)),
        *(("false", LONG_AGO, False), (None, LONG_AGO, False)),
    ],
)
def test_topic_is_not_copied_since_a_broker_started_without_it(
    tmp_path: Path, value: str | None, registered_ms: int | None, stopped: bool
) -> None:
    data = with_log(
        directory(tmp_path, "d1"),
        config(OF_TOPIC, "orders", "remote.log.copy.disable", value),
    )
    state = read_cluster(str(data / METADATA))
    assert state is not None
    if registered_ms is not None:
        known = Broker(1, 0, "", (), None, False, False, (), (), {}, registered_ms)
        state.brokers[1] = known
    assert settings_in(state).stopped == ({"orders"} if stopped else set())


@each("value", ["-1", "2147483648", "", "many", "9" * 30])
def test_invalid_settings_are_ignored(tmp_path: Path, value: str) -> None:
    data = with_log(directory(tmp_path, "d1"), config(OF_TOPIC, "orders", INTERVAL, value))
    assert interval_of(data, TopicSettings(Settings())) == (4096, s.DEFAULT)


def test_topic_with_another_id_has_no_settings(tmp_path: Path) -> None:
    data = with_log(directory(tmp_path, "d1"), config(OF_TOPIC, "orders", INTERVAL, "20"))
    metadata = data / "orders-0" / "partition.metadata"
    for topic_id, source in (("AAAAAAAAAAAAAAAAAAAABw", s.TOPIC), ("B" * 22, s.DEFAULT)):
        metadata.write_text(f"version: 0\ntopic_id: {topic_id}\n")
        assert interval_of(data, TopicSettings(Settings()))[1] == source


def test_metadata_log_ignores_topic_settings(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text("log.index.interval.bytes=50\nmetadata.log.segment.bytes=60\n")
    said = config(OF_BROKER, "", "log.index.interval.bytes", "40")
    data = with_log(directory(tmp_path, "d1"), said)
    settings = TopicSettings(read_settings(str(properties)))
    found = settings.of(str(data / METADATA), "__cluster_metadata")
    assert (found.index_interval_bytes, found.segment_bytes) == (4096, 60)


def test_metadata_log_search_path(tmp_path: Path) -> None:
    here = directory(tmp_path, "d2")
    assert metadata_log_for(str(here)) is None
    other = with_log(directory(tmp_path, "d1"))
    assert metadata_log_for(str(here)) == str(other / METADATA)
    with_log(directory(tmp_path, "e1", node=2))
    with_log(directory(tmp_path, "e2", cluster="another"))
    assert metadata_log_for(str(here)) == str(other / METADATA)
    # Of two copies nothing tells which one holds, unless one is named.
    copy = with_log(directory(tmp_path, "d1.copy"))
    assert metadata_log_for(str(here)) is None
    assert metadata_log_for(str(here), [str(copy)]) == str(copy / METADATA)
    controller = with_log(directory(tmp_path / "far", "c1", node=9))
    assert metadata_log_for(str(here), [str(controller)]) == str(controller / METADATA)
    stranger = with_log(directory(tmp_path / "far", "s1", cluster="another"))
    assert metadata_log_for(str(here), [str(stranger)]) is None
    own = with_log(here)
    assert metadata_log_for(str(here), [str(copy)]) == str(own / METADATA)


def test_directory_without_an_owner_has_no_siblings(tmp_path: Path) -> None:
    here, other = directory(tmp_path, "d2"), with_log(directory(tmp_path, "d1"))
    for data in (here, other):
        (data / "meta.properties").unlink()
    assert metadata_log_for(str(here), [str(other)]) is None
    assert metadata_log_for(str(other)) == str(other / METADATA)


def test_workers_receive_the_settings(tmp_path: Path) -> None:
    """And nothing but the settings that are used: what else a log holds may be secret."""
    data = with_log(
        directory(tmp_path, "d1"),
        config(OF_TOPIC, "orders", INTERVAL, "20"),
        config(OF_BROKER, "", "ssl.keystore.password", "hunter2"),
    )
    settings = TopicSettings(Settings())
    settings.prepare([str(data)])
    sent = pickle.dumps(settings)
    assert b"hunter2" not in sent
    shutil.rmtree(data / METADATA)
    assert interval_of(data, pickle.loads(sent)) == (20, s.TOPIC)


def test_unreadable_records_are_reported(tmp_path: Path) -> None:
    broken = frame_record(4, 0, bytes([OF_TOPIC]) + text("orders"))
    data = with_log(directory(tmp_path, "d1"), config(OF_TOPIC, "orders", INTERVAL, "20"), broken)
    assert interval_of(data, TopicSettings(Settings())) == (20, s.TOPIC)


def test_directories_are_listed_and_asked_whose_they_are_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of many partitions asks where the metadata of remote segments is."""
    homes = [directory(tmp_path, name, node) for name, node in (("a", 1), ("b", 1), ("c", 2))]
    directory(tmp_path, "d", 1, "another")
    for home, number in ((homes[1], 0), (homes[2], 0), (homes[2], 1)):
        (home / f"__remote_log_metadata-{number}").mkdir()
    (homes[2] / "__remote_log_metadata-1.0123456789abcdef0123456789abcdef-delete").mkdir()
    (tmp_path / "d/__remote_log_metadata-2").mkdir()
    asked: list[str] = []
    for module, name in ((places, "entries"), (tiers, "owner_of")):
        plain = getattr(module, name)

        def counted(path: str, plain: Callable[[str], object] = plain) -> object:
            asked.append(path)
            return plain(path)

        monkeypatch.setattr(module, name, counted)
    found = Tiers(map(str, tmp_path.iterdir()))
    where = [str(homes[1] / "__remote_log_metadata-0"), str(homes[2] / "__remote_log_metadata-1")]
    assert [list(found.metadata_paths(str(homes[0]))) for _ in range(50)] == [where] * 50
    assert len(asked) == 7  # no other cluster's directory is listed
