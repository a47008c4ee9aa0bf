"""Metadata of remote segments that cannot be read past: brokers serve none of its segments."""

from pathlib import Path

import builders as b
from each import each
from sample_tier import metadata_in

from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.run import verify
from kdump.findings.finding import Finding
from kdump.replay.remote_logs import read_remote_logs
from kdump.storage.targets import Selection


def problems(log: Path) -> set[str | None]:
    return {one.problem for one in read_remote_logs([str(log.parent)]).values()}


def test_sound_metadata_has_no_problem(tmp_path: Path) -> None:
    assert problems(metadata_in(tmp_path)) == {None}


@each(("at", "what"), [(200, b"\xff"), (8, b"\0\0\0\1")])
def test_damaged_batch_is_not_read_past(at: int, what: bytes, tmp_path: Path) -> None:
    log = metadata_in(tmp_path)
    data = log.read_bytes()
    log.write_bytes(data[:at] + what + data[at + len(what) :])
    assert problems(log) == {f"{log} is damaged"}


def test_batch_of_an_unknown_codec_is_not_read_past(tmp_path: Path) -> None:
    log = metadata_in(tmp_path)
    size = log.stat().st_size
    log.write_bytes(log.read_bytes() + b.batch([b.record(0)], base_offset=222, attributes=5))
    assert problems(log) == {f"{log}: the batch at {size:,} is damaged"}


def test_records_that_cannot_be_read_are_not_read_past(tmp_path: Path) -> None:
    log = metadata_in(tmp_path)
    end = b.batch([b.record(0)[:-1] + b"\x7f"], base_offset=222)
    log.write_bytes(log.read_bytes() + end)
    assert problems(log) == {f"{log} has records that cannot be read"}


def test_torn_tail_and_other_records_are_no_problem(tmp_path: Path) -> None:
    log = metadata_in(tmp_path)
    other = b.batch([b.record(0, value=b"no metadata")], base_offset=222)
    log.write_bytes(log.read_bytes() + other + other[:70])
    assert problems(log) == {None}


def test_damaged_metadata_is_a_finding_that_names_the_topics(tmp_path: Path) -> None:
    log = metadata_in(tmp_path / "data")
    data = log.read_bytes()
    log.write_bytes(data[:200] + b"\xff" + data[201:])
    tier = tmp_path / "tier"
    tier.mkdir()
    options = VerifyOptions(tier=str(tier), selection=Selection(topic="__remote_log_metadata"))
    found = {one.code: one for one in verify([str(tmp_path / "data")], options)
             if isinstance(one, Finding)}  # fmt: skip
    message = str(found["remote-metadata-damaged"].message)
    assert message.startswith(f"{log} is damaged. Brokers stop reading the metadata")
    assert "remote reads fail for these topics: audit, dropped, frozen," in message
