"""Sizes, times and numbers as people write them."""

import re
import time
from pathlib import Path

import builders
import pytest
from commands import run
from each import each

from kdump.cli.headings import MOVED
from kdump.option_values import (
    read_choice,
    read_count,
    read_duration,
    read_int64,
    read_pattern,
    read_rate,
    read_size,
    read_slice,
    read_time,
    read_truth,
    read_utc_offset,
)


@each(
    ("text", "size"),
    [
        ("0", 0),
        ("1000000", 1_000_000),
        ("64MiB", 64 << 20),
        ("1GiB", 1 << 30),
        ("1.5 KiB", 1536),
        ("2k", 2048),
        ("3MB", 3_000_000),
        ("7B", 7),
    ],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert read_size(text) == size


@each("text", ["", "MiB", "-1", "1XB", "1 2", "0x10"])
def test_malformed_sizes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        read_size(text)


@each(
    ("text", "timestamp_ms"),
    [
        ("0", 0),
        ("-1", -1),
        ("1700000000123", 1_700_000_000_123),
        ("1970-01-01", 0),
        ("1970-01-01T00:00:01", 1000),
        ("1970-01-01T00:00:00.123456Z", 123),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:59:59.999Z", -1),
        ("2026-11-19T10:00:00Z", 1_795_082_400_000),
        ("2026-11-19 12:00+02:00", 1_795_082_400_000),
        ("@1795082400", 1_795_082_400_000),
    ],
)
def test_times_are_read(text: str, timestamp_ms: int) -> None:
    assert read_time(text) == timestamp_ms


@pytest.mark.parametrize(
    ("text", "back_ms"),
    [("now", 0), ("now-30m", 1_800_000), ("now-7d", 604_800_000), ("now-1h30s", 3_630_000)],
)
def test_relative_times_are_read(monkeypatch: pytest.MonkeyPatch, text: str, back_ms: int) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 1_700_000_000_123_456_789)
    assert read_time(text) == 1_700_000_000_123 - back_ms


@each(
    ("text", "of_day_ms"),
    [
        ("14:05", 50_700_000),
        ("14:05:10", 50_710_000),
        ("14:05:10.5Z", 50_710_500),
        ("14:05+02:00", 43_500_000),
    ],
)
def test_times_of_day_are_read(text: str, of_day_ms: int) -> None:
    """Which day it is may change between two looks at the clock, the time of day may not."""
    found = read_time(text)
    assert found % 86_400_000 == of_day_ms
    assert abs(found - time.time() * 1000) <= 2 * 86_400_000


@each(
    ("text", "minutes"),
    [("+02:00", 120), ("-0330", -210), ("+5", 300), ("Z", 0), ("-18:00", -1080)],
)
def test_utc_offsets_are_read(text: str, minutes: int) -> None:
    assert read_utc_offset(text) == minutes


@each("text", ["", "2", "CET", "+25:00", "+1:99", "+"])
def test_malformed_utc_offsets_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an offset"):
        read_utc_offset(text)


@each("text", ["", "the day before", "-5y", "now-", "now-5", "now-5y", "now+5m", "24:05", "14:05h"])
def test_malformed_times_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        read_time(text)


@each("text", ["9223372036854775808", "-9223372036854775809", "x", "1.0", ""])
def test_malformed_int64_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"64 bits|whole number"):
        read_int64(text)


def test_pattern_matches_bytes() -> None:
    assert read_pattern(r"\x00k").search(b"a\x00k")
    with pytest.raises(ValueError, match="is not a regular expression"):
        read_pattern("(")
    assert isinstance(read_pattern("a"), re.Pattern)


@each(("text", "seconds"), [("90", 90), ("0", 0), ("30m", 1800), ("1h30m", 5400), ("7d", 604_800)])
def test_durations_are_read(text: str, seconds: float) -> None:
    assert read_duration(text) == seconds


@each("text", ["", "soon", "-5", "1.5h", "h", "5 m x"])
def test_invalid_durations(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        read_duration(text)


@each("text", ["50MiB", "50MiB/s", "50 mib /S", "52428800"])
def test_rates_are_read(text: str) -> None:
    assert read_rate(text) == 50 << 20


def test_zero_rate_is_refused() -> None:
    with pytest.raises(ValueError, match="is too low"):
        read_rate("0")


def test_slices_are_read() -> None:
    assert read_slice("3/7") == (3, 7)
    for text in ("0/7", "8/7", "7", "a/b", "1/0"):
        with pytest.raises(ValueError, match="not a slice"):
            read_slice(text)


@each(
    ("command", "option", "moved"),
    [(command, option, moved) for command in MOVED for option, moved in MOVED[command].items()],
)
def test_removed_option_names_its_command(
    command: str, option: str, moved: str, tmp_path: Path
) -> None:
    result = run(command, option, tmp_path)
    assert result.exit_code == 2
    assert f"{option} was replaced by: kdump {moved}\n" in result.stderr
    assert run(moved, "--help").exit_code == 0


@each("command", ["verify", "predict", "why", "reindex", "find-time"])
def test_setting_for_an_absent_topic_is_reported(command: str, tmp_path: Path) -> None:
    partition = tmp_path / "orders-0"
    partition.mkdir()
    (partition / f"{0:020}.log").write_bytes(builders.batch())
    given = ("--config", "ordres:retention.ms=1", "--config", "ord*:retention.ms=1")
    last = ("0",) if command == "find-time" else ()
    result = run(command, *given, tmp_path, *last)
    assert result.stderr.count("--config ordres:retention.ms=1: no topic here matches") == 1
    assert "ord*" not in result.stderr


def test_words_are_read_in_any_case() -> None:
    assert read_choice(" Latest ", ("latest", "earliest", "none")) == "latest"
    assert (read_truth("TRUE"), read_truth("false")) == (True, False)
    assert (read_count("0"), read_count("7")) == (0, 7)


@each(
    ("word", "known", "why"),
    [
        ("lates", ("latest", "earliest", "none"), "is unknown: did you mean latest?"),
        ("?", ("latest", "earliest", "none"), "is unknown: give one of latest, earliest, none"),
        ("yes", ("true", "false"), "is neither true nor false"),
    ],
)
def test_unknown_word_has_a_hint(word: str, known: tuple[str, ...], why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        read_choice(word, known)


def test_count_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="is below 0"):
        read_count("-1")
