"""The settings in a broker's own file: which spelling wins, in which unit, for which topic."""

from pathlib import Path

import pytest
from each import each

from kdump.broker.settings import TOPIC, Settings, read_settings
from kdump.errors import PathError


def read_given(tmp_path: Path, *lines: str) -> Settings:
    path = tmp_path / "server.properties"
    path.write_text("\n".join(lines) + "\n")
    return read_settings(str(path))


@each(
    ("lines", "milliseconds"),
    [
        (("log.roll.ms=5", "log.roll.hours=2"), 5),
        (("log.roll.hours=2", "log.roll.ms=5"), 5),
        (("log.roll.hours=2",), 7_200_000),
        (("log.roll.hours=2", "log.roll.ms="), 7_200_000),
        ((), 168 * 3_600_000),
    ],
)
def test_milliseconds_override_hours(
    tmp_path: Path, lines: tuple[str, ...], milliseconds: int
) -> None:
    """Wherever each stands in the file."""
    assert read_given(tmp_path, *lines).segment_ms == milliseconds


@pytest.mark.parametrize("order", [1, -1])
def test_newer_names_of_timestamp_bounds_win(tmp_path: Path, order: int) -> None:
    lines = [
        "log.message.timestamp.difference.max.ms=7",
        "log.message.timestamp.before.max.ms=8",
    ][::order]
    settings = read_given(tmp_path, *lines)
    assert (settings.timestamp_before_max_ms, settings.timestamp_after_max_ms) == (8, 7)


def test_blanks_around_a_number_are_ignored(tmp_path: Path) -> None:
    """Java's properties keep those behind a value; the broker strips them."""
    settings = read_given(tmp_path, "log.segment.bytes =  77  ", "offsets.topic.segment.bytes= 9\t")
    assert settings.segment_bytes == 77
    assert settings.for_topic("__consumer_offsets").segment_bytes == 9


@pytest.mark.parametrize("order", [1, -1])
def test_segment_size_of_a_topic_has_two_spellings(tmp_path: Path, order: int) -> None:
    lines = ["metadata.log.segment.bytes=8", "internal.metadata.log.segment.bytes=9"][::order]
    settings = read_given(tmp_path, *lines, "log.segment.bytes=7")
    assert settings.for_topic("__cluster_metadata").segment_bytes == 9
    assert settings.for_topic("orders").segment_bytes == 7


def test_stated_fields_come_from_the_file(tmp_path: Path) -> None:
    settings = read_given(tmp_path, "log.segment.bytes=7", "log.cleanup.policy=compact")
    assert settings.stated_fields == {"segment_bytes", "cleanup_policy"}
    assert settings.cleanup_policy == "compact"
    assert settings.for_topic("orders").stated_fields == settings.stated_fields
    assert settings.for_topic("__consumer_offsets").stated_fields == {"cleanup_policy"}
    assert read_settings(None) == Settings()
    assert read_given(tmp_path, "log.segment.bytes=seven") == Settings(file_is_known=True)


def test_every_setting_has_its_own_field(tmp_path: Path) -> None:
    settings = read_given(
        tmp_path, "log.roll.jitter.ms=1", "log.index.interval.bytes=2",
        "log.index.size.max.bytes=3", "message.max.bytes=4", "producer.id.expiration.ms=5",
        "transaction.max.timeout.ms=6", "num.recovery.threads.per.data.dir=7",
        "log.message.timestamp.after.max.ms=8", "log.roll.jitter.hours=9",
    )  # fmt: skip
    assert settings[2:6] == (1, 2, 3, 4)
    assert settings.producer_id_expiration_ms == 5
    assert settings.transaction_max_timeout_ms == 6
    assert settings.recovery_threads == 7
    assert settings.timestamp_after_max_ms == 8


def test_settings_file_above_one_mebibyte_is_refused(tmp_path: Path) -> None:
    line = "log.segment.bytes=7"
    assert read_given(tmp_path, line, "#" * ((1 << 20) - len(line) - 2)).segment_bytes == 7
    with pytest.raises(PathError, match="files of this kind"):
        read_given(tmp_path, line, "#" * ((1 << 20) - len(line) - 1))


def test_limits_of_retention_in_a_brokers_file(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("log.retention.hours=2\nlog.retention.bytes=5000000000\n")
    found = read_settings(str(path))
    assert (found.retention_ms, found.retention_bytes) == (7_200_000, 5_000_000_000)
    assert found.cleaner_enabled
    path.write_text(
        "log.retention.ms=7\nlog.retention.minutes=9\nlog.retention.hours=2\n"
        "log.cleaner.enable=False\n"
    )
    found = read_settings(str(path))
    assert (found.retention_ms, found.cleaner_enabled) == (7, False)
    path.write_text("log.retention.minutes=9\nlog.retention.hours=2\n")
    assert read_settings(str(path)).retention_ms == 540_000
    path.write_text("log.retention.minutes=-1\n")
    assert read_settings(str(path)).retention_ms == -1


def test_limits_of_retention_of_a_topic() -> None:
    own = {"retention.ms": "-1", "retention.bytes": "3000000000", "remote.storage.enable": "true"}
    found = Settings().of_topic(own)
    assert (found.retention_ms, found.retention_bytes, found.tiered) == (-1, 3_000_000_000, True)
    assert found.source("retention_ms") == TOPIC
    assert Settings().of_topic({"retention.ms": "-2", "local.retention.ms": "-2"}) == Settings(
        sources=(("local_retention_ms", TOPIC),)
    )
