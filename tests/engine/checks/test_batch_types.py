"""Batches against the codec and the timestamp type that their topic asks for."""

import base64
import tempfile
from pathlib import Path
from typing import Any

import builders
from oracle import oracle
from segments import START_MS, batch, run_checks, write_partition

from kdump.broker.settings import FILE, TOPIC, Settings
from kdump.findings.finding import Finding

GZIP, APPEND_TIME = 1, 8


def run_check(tmp_path: Path, settings: Settings, *logs: list[bytes], topic: str = "t") -> Any:
    """Return the findings of a partition with a segment for each list."""
    named, base = {}, 0
    for log in logs:
        named[base] = log
        base += 3 * len(log)
    directory = write_partition(Path(tempfile.mkdtemp(dir=tmp_path)), named, topic)
    found = run_checks(directory, settings=settings)
    assert all(one.code.endswith("type-differs") for one in found), found
    return found


def log(first: int, *attributes: int) -> list[bytes]:
    return [batch(first + 3 * number, attributes=each) for number, each in enumerate(attributes)]


def settings(source: str = TOPIC, **values: str) -> Settings:
    return Settings().override(source, values)


def test_missing_settings_make_no_note(tmp_path: Path) -> None:
    batches = log(0, 0, GZIP, APPEND_TIME)
    assert not run_check(tmp_path, Settings(), batches)
    assert not run_check(tmp_path, settings(compression_type="producer"), batches)
    # A broker gives its own topics settings of their own.
    of_broker = settings(FILE, compression_type="zstd", timestamp_type="LogAppendTime")
    assert not run_check(tmp_path, of_broker, batches, topic="__consumer_offsets")


def test_changed_setting_is_reported(tmp_path: Path) -> None:
    gzip = settings(compression_type="gzip")
    found: tuple[Finding, ...] = run_check(tmp_path, gzip, log(0, 0, 0), log(6, 0, GZIP, GZIP))
    (one,) = found
    assert (one.code, one.severity.value, one.segment, one.position) == (
        "compression-type-differs", "note", 0, 0,
    )  # fmt: skip
    assert one.message == (
        "3 batches have no compression, although compression.type=gzip (topic); all before offset "
        "9, so the setting was probably changed there."
    )


def test_batches_unexplained_by_a_setting_change(tmp_path: Path) -> None:
    plain = settings(FILE, compression_type="uncompressed")
    (one,) = run_check(tmp_path, plain, log(0, 0, GZIP, 0), log(9, 2, 0, GZIP))
    assert one.offset == 5
    assert one.message == (
        "3 batches have gzip or snappy, although compression.type=uncompressed "
        "(server-properties); "
        "they may have been written with a different setting."
    )


def test_timestamp_types(tmp_path: Path) -> None:
    append = settings(timestamp_type="LogAppendTime")
    (one,) = run_check(tmp_path, append, log(0, APPEND_TIME, 0, APPEND_TIME))
    assert (one.code, one.expected, one.actual) == (
        "timestamp-type-differs", "LogAppendTime", "CreateTime",
    )  # fmt: skip
    (one,) = run_check(tmp_path, settings(timestamp_type="CreateTime"), log(0, 0, APPEND_TIME))
    assert one.actual == "LogAppendTime"
    both = settings(timestamp_type="LogAppendTime", compression_type="gzip")
    assert len(run_check(tmp_path, both, log(0, 0))) == 2


def test_batches_not_from_producers_are_ignored(tmp_path: Path) -> None:
    empty = builders.batch([], base_offset=3, last_offset_delta=2, base_timestamp=START_MS)
    marker = builders.marker(1, base_offset=6, producer_id=1)
    batches = [*log(0, GZIP | APPEND_TIME), empty, marker]
    both = settings(timestamp_type="LogAppendTime", compression_type="gzip")
    directory = write_partition(tmp_path, {0: batches}, "t")
    assert not [one for one in run_checks(directory, settings=both) if "type-differs" in one.code]


def test_leader_stores_the_configured_type(tmp_path: Path) -> None:
    """Asked of the broker's own append."""
    sent = b"".join(log(0, 0)).hex()
    for codec in ("uncompressed", "gzip", "zstd"):
        for kind in ("CreateTime", "LogAppendTime"):
            answer = oracle().ask(
                "validate", hex=sent, via="leader", targetCodec=codec, timestampType=kind,
                now=START_MS,
            )  # fmt: skip
            asked = settings(compression_type=codec, timestamp_type=kind)
            stored = base64.b64decode(answer["writtenBase64"])
            assert not run_check(tmp_path, asked, [stored])
            other = settings(compression_type="lz4", timestamp_type=kind)
            assert len(run_check(tmp_path, other, [stored])) == 1
