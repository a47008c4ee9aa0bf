"""Logs that somebody writes to, cuts or takes away while they are checked."""

import os
import time
from pathlib import Path

import pytest
from holding import hold_lock
from segments import (
    batches,
    entries,
    name,
    only,
    partition_of,
    place_of,
    read,
    run_checks,
    write,
    write_partition,
)
from sound_partition import ACTIVE, SEALED, positions

from kdump.engine.checks.framing import Framing
from kdump.engine.reading.scan import scan
from kdump.findings.finding import Severity
from kdump.storage import lock
from kdump.storage import source as sources


def torn_now(sound: Path) -> Path:
    start = positions(sound, ACTIVE)[-1]
    path = write(sound, ACTIVE, "log", read(sound, ACTIVE, "log")[: start + 40])
    os.utime(path, (time.time(), time.time()))
    return path


def test_fresh_tail_of_a_running_broker_is_not_damage(sound: Path) -> None:
    torn_now(sound)
    with hold_lock(sound.parent):
        assert only(sound).code == "tail-being-written"
        sealed = write(sound, SEALED, "log", read(sound, SEALED, "log")[:-9])
        os.utime(sealed, (time.time(), time.time()))
        codes = {found.segment: found.code for found in run_checks(sound)}
    assert codes == {ACTIVE: "tail-being-written", SEALED: "torn-tail"}


def test_old_tail_of_a_running_broker_is_torn(sound: Path) -> None:
    hour_ago = time.time() - 3600
    os.utime(torn_now(sound), (hour_ago, hour_ago))
    with hold_lock(sound.parent):
        assert only(sound).code == "torn-tail"


def test_fresh_tail_of_a_stopped_broker_is_torn(sound: Path) -> None:
    torn_now(sound)
    assert only(sound).code == "torn-tail"
    (sound.parent / ".lock").touch()  # it outlives the broker
    assert only(sound).code == "torn-tail"


def test_file_time_decides_without_the_lock(sound: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "is_held", lambda _: None)
    path = torn_now(sound)
    assert only(sound).code == "tail-being-written"
    hour_ago = time.time() - 3600
    os.utime(path, (hour_ago, hour_ago))
    assert only(sound).code == "torn-tail"


def test_growing_file_is_being_written(sound: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a broker on another machine, whose locks are not seen here."""
    path = torn_now(sound)
    whole = path.read_bytes()

    def grow(seconds: float) -> None:
        with path.open("ab") as file:
            file.write(whole[-1:])

    monkeypatch.setattr("kdump.engine.reading.segment_pass.time.sleep", grow)
    assert only(sound).code == "tail-being-written"


def test_no_writer_after_a_clean_stop(sound: Path) -> None:
    (sound.parent / ".kafka_cleanshutdown").write_bytes(b"")
    start = positions(sound, ACTIVE)[-1]
    path = write(sound, ACTIVE, "log", read(sound, ACTIVE, "log")[: start + 40])
    os.utime(path, (time.time(), time.time()))
    assert only(sound).code == "torn-tail"


def test_zeros_at_the_end_are_reserved_only_in_an_active_segment(sound: Path) -> None:
    log = read(sound, ACTIVE, "log")
    write(sound, ACTIVE, "log", log + bytes(5000))
    found = only(sound)
    wanted = ("preallocated-tail", name(ACTIVE, "log"), len(log), 5000)
    assert place_of(found, sound) == wanted
    assert found.severity is Severity.NOTE
    (sound.parent / ".kafka_cleanshutdown").write_bytes(b"")
    assert only(sound).code == "zero-tail"
    write(sound, ACTIVE, "log", log)
    sealed = read(sound, SEALED, "log")
    write(sound, SEALED, "log", sealed + bytes(300))
    found = only(sound)
    assert place_of(found, sound) == ("zero-tail", name(SEALED, "log"), len(sealed), 300)
    assert found.next_offset == ACTIVE


def test_starting_broker_removes_its_clean_shutdown_file(sound: Path) -> None:
    write(sound, ACTIVE, "log", read(sound, ACTIVE, "log") + bytes(5000))
    mark = sound.parent / ".kafka_cleanshutdown"
    mark.write_bytes(b"")
    partition = partition_of(sound)  # lists the directory
    mark.unlink()
    (found,) = scan(partition, [Framing(partition)])
    assert found.code == "preallocated-tail"  # type: ignore[union-attr]


def test_file_deleted_before_it_is_read(sound: Path) -> None:
    partition = partition_of(sound)
    (sound / name(SEALED, "log")).unlink()
    found = list(scan(partition, [Framing(partition)]))
    assert [one.code for one in found] == ["file-vanished"]  # type: ignore[union-attr]
    assert not partition.errors


def test_file_truncated_during_the_read_is_reported(
    sound: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = positions(sound)[5] + 30
    path = sound / name(SEALED, "log")
    refresh = sources.Source.refresh

    def refreshed(source: sources.Source) -> int:
        size = refresh(source)
        if source.path == str(path):
            os.truncate(path, half)
        return size

    monkeypatch.setattr(sources.Source, "refresh", refreshed)
    found = run_checks(sound)
    assert [(one.code, one.position) for one in found] == [("file-shrank", half)]


def test_unreadable_bytes_are_reported(sound: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of zeros stands for them; the batches they lie in are lost, the others are read."""
    parts = batches(0, 600)
    write(sound, SEALED, "log", b"")
    directory = write_partition(sound.parent / "more", {0: parts})
    pread = sources.Source._pread

    def failing(source: sources.Source, view: memoryview, position: int) -> int:
        if source.path.endswith(".log") and position < 8192 and position + len(view) > 4096:
            raise OSError(5, "Input/output error")
        return pread(source, view, position)

    monkeypatch.setattr(sources.Source, "_pread", failing)
    found = only(directory)
    start = max(entry.position for entry in entries(b"".join(parts)) if entry.position <= 4096)
    assert (found.code, found.position) == ("unreadable", start)
    assert found.next_offset is not None
    assert found.consequences  # the index entries that name batches in there
