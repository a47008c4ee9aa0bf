"""`verify` holds a log to the settings of its topic, as the metadata log on the disks has them."""

from pathlib import Path
from typing import Any

import builders
import pytest
from directories import BATCH_BYTES, DataDirectory, findings
from metadata_log import config, log_of, partition, topic

from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.run import verify
from kdump.engine.work.pipeline import Workers
from kdump.findings.finding import Finding
from kdump.findings.rows import Row

OF_TOPIC = 2
STEM = "00000000000000000000"


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    """Give a partition of ten batches in two segments, whose settings are still to be told."""
    made = DataDirectory(tmp_path / "data")
    made.partition("orders", 0)
    made.stop()
    return made


def tell(data: DataDirectory, **settings: object) -> None:
    """Set some settings of the topic, as a controller does."""
    said = [
        config(OF_TOPIC, "orders", name.replace("_", "."), str(value))
        for name, value in settings.items()
    ]
    (data.path / "__cluster_metadata-0").mkdir()
    log = log_of([topic("orders", 7), partition(0, 7), *said])
    (data.path / "__cluster_metadata-0" / f"{STEM}.log").write_bytes(log)


def found(data: DataDirectory, **options: Any) -> list[Finding]:
    told = findings(data.path, **options)
    return [one for one in told if one.topic == "orders"]


def test_batches_over_the_topic_limit_are_a_note(data: DataDirectory) -> None:
    tell(data, max_message_bytes=BATCH_BYTES - 1)
    (one,) = found(data)
    assert (one.code, one.severity.value, one.expected) == (
        "over-message-limit",
        "note",
        BATCH_BYTES - 1,
    )
    assert one.message.startswith("10 batches are larger than the topic's max.message.bytes=")
    assert found(data, topic_configs=False) == []


def test_topic_limit_overrides_the_file(data: DataDirectory, tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={data.path}\nmessage.max.bytes=1\n")
    options = {"server_properties": str(properties)}
    assert [one.code for one in found(data, **options)] == ["over-message-limit"]
    tell(data, max_message_bytes=BATCH_BYTES)
    assert found(data, **options) == []


def test_roll_unexplained_by_topic_settings_is_a_note(data: DataDirectory) -> None:
    assert found(data) == []
    tell(data, segment_bytes=1 << 20)
    assert [one.code for one in found(data)] == ["roll-unexplained"]


def test_roll_explained_by_topic_settings_is_sound(data: DataDirectory) -> None:
    tell(data, segment_bytes=6 * BATCH_BYTES - 1)
    assert found(data) == []


def test_null_key_in_a_compacted_topic_is_a_note(data: DataDirectory) -> None:
    log = data.path / "orders-0" / f"{10:020}.log"
    records = [builders.record(n, n, None if n else b"k", b"v") for n in range(2)]
    last = builders.batch(records, base_offset=20, base_timestamp=1_700_000_000_020)
    log.write_bytes(log.read_bytes() + last)
    tell(data, cleanup_policy="compact")
    told = {one.code: one for one in found(data, deep=True)}
    words = "One record has no key, and the topic's policy is to compact."
    assert told["null-key"].message == words
    told = {one.code: one for one in found(data, deep=True, topic_configs=False)}
    assert "null-key" not in told


def test_start_uses_the_topic_settings(data: DataDirectory) -> None:
    """An index with one slot cannot take what a recovery puts in, and the broker stops."""
    tell(data, index_interval_bytes=0, segment_index_bytes=8)
    (data.path / ".kafka_cleanshutdown").unlink()
    data.checkpoint("recovery-point", orders=0)
    outcomes = []
    for topic_configs in (True, False):
        options = VerifyOptions(predict=True, topic_configs=topic_configs)
        rows = [item for item in verify([str(data.path)], options) if isinstance(item, Row)]
        outcomes += [
            row.fields["outcome"]
            for row in rows
            if row.row == "recovery" and row.fields["topic"] == "orders"
        ]
    assert outcomes == ["refuses-to-start", "recover"]


def test_workers_use_topic_settings(data: DataDirectory) -> None:
    data.partition("orders", 1)
    tell(data, max_message_bytes=BATCH_BYTES - 1)
    assert [one.code for one in found(data, driver=Workers(2))].count("over-message-limit") == 2
