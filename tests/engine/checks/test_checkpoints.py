"""Offset checkpoints against the logs: what a schedule can explain is no more than a note."""

import pytest
from directories import DataDirectory, codes, find_one, findings, write_checkpoint

from kdump.engine.checks.checkpoints import was_stopped_cleanly
from kdump.storage.log_dir import LogDir
from kdump.storage.targets import Selection

LARGEST = 2**31 - 1
CHECKPOINTS = ["recovery-point", "replication", "log-start", "cleaner"]


def unclean(data: DataDirectory) -> None:
    (data.path / ".kafka_cleanshutdown").unlink()


@pytest.mark.parametrize("name", CHECKPOINTS)
@pytest.mark.parametrize("text", ["1\n0\n", "0\n2\norders 0 20\n", "0\n1\norders 0\n", "0\nx\n"])
def test_malformed_checkpoint_is_reported(data: DataDirectory, name: str, text: str) -> None:
    path = data.path / f"{name}-offset-checkpoint"
    path.write_text(text)
    told = find_one(data.path)
    assert (told.code, told.severity.value, told.path) == (
        "checkpoint-malformed",
        "rebuild",
        str(path),
    )


def test_checkpoint_must_be_a_file(data: DataDirectory) -> None:
    path = data.path / "cleaner-offset-checkpoint"
    path.unlink()
    path.symlink_to(data.path / "orders-0")
    assert "checkpoint-malformed" in codes(data.path)


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_empty_checkpoint_has_no_entries(data: DataDirectory, name: str) -> None:
    (data.path / f"{name}-offset-checkpoint").write_bytes(b"")
    assert "checkpoint-malformed" not in codes(data.path)


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_entries_of_missing_partitions_are_reported(data: DataDirectory, name: str) -> None:
    data.offsets["gone", 1] = data.offsets["gone", 2] = 0
    path = data.path / f"{name}-offset-checkpoint"
    write_checkpoint(path, [(topic, n, end) for (topic, n), end in data.offsets.items()])
    told = [found for found in findings(data.path) if found.code == "checkpoint-stale-entry"]
    assert [(at.path, at.topic, at.partition, at.actual) for at in told] == [
        (str(path), "gone", 1, 2)
    ]


@pytest.mark.parametrize("name", ["recovery-point", "replication"])
def test_unlisted_partitions_are_reported(data: DataDirectory, name: str) -> None:
    del data.offsets["users", 3]
    data.checkpoint(name)
    told = find_one(data.path)
    assert (told.code, told.topic, told.partition) == ("checkpoint-lacks-partition", "users", 3)


def test_missing_recovery_points_are_reported(data: DataDirectory) -> None:
    (data.path / "recovery-point-offset-checkpoint").unlink()
    assert find_one(data.path).code == "checkpoint-missing"


@pytest.mark.parametrize("name", ["replication", "log-start"])
def test_clean_stop_proves_a_lost_log_end(data: DataDirectory, name: str) -> None:
    data.checkpoint(name, orders=25)
    told = find_one(data.path)
    assert (told.code, told.severity.value, told.topic) == ("log-end-lost", "damage", "orders")
    assert (told.expected, told.actual, told.lost_at_most) == (25, 20, 5)


def test_impossible_checkpoint_proves_no_loss(data: DataDirectory) -> None:
    data.checkpoint("replication", orders=6_577_225_780_797_898_836)
    told = find_one(data.path)
    assert (told.code, told.lost_at_most) == ("checkpoint-beyond-end", None)


@pytest.mark.parametrize("name", ["recovery-point", "replication", "log-start"])
def test_checkpoint_proves_nothing_after_an_unclean_stop(data: DataDirectory, name: str) -> None:
    unclean(data)
    data.checkpoint(name, orders=25)
    told = find_one(data.path)
    assert (told.code, told.severity.value, told.actual) == ("checkpoint-beyond-end", "note", 25)


def test_clean_shutdown_file_may_vanish_after_the_listing(data: DataDirectory) -> None:
    listed = LogDir.open(str(data.path))
    assert was_stopped_cleanly(listed)
    unclean(data)
    assert not was_stopped_cleanly(listed)


def test_old_brokers_leave_recovery_points_beyond_the_end(data: DataDirectory) -> None:
    data.checkpoint("recovery-point", orders=25)
    assert find_one(data.path).code == "checkpoint-beyond-end"


def test_loss_is_reported_once_by_the_highest_checkpoint(data: DataDirectory) -> None:
    data.checkpoint("replication", orders=25)
    data.checkpoint("recovery-point", orders=26)
    assert (find_one(data.path).code, find_one(data.path).expected) == ("log-end-lost", 25)


@pytest.mark.parametrize(("replication", "start"), [(25, 24), (24, 25)])
@pytest.mark.parametrize("clean", [True, False])
def test_highest_checkpoint_is_reported(
    data: DataDirectory, replication: int, start: int, clean: bool
) -> None:
    data.checkpoint("replication", orders=replication)
    write_checkpoint(data.path / "log-start-offset-checkpoint", [("orders", 0, start)])
    if not clean:
        unclean(data)
    told = find_one(data.path)
    assert (told.expected if clean else told.actual) == 25
    words = "had a high watermark of 25" if replication == 25 else "started at 25"
    assert told.message.startswith(f"The log {words} ")


def test_loss_of_all_segments_is_reported(data: DataDirectory) -> None:
    for path in (data.path / "orders-0").glob("0*"):
        path.unlink()
    told = findings(data.path)
    assert sorted(found.code for found in told) == ["log-end-lost", "partition-empty"]
    assert [found.lost_at_most for found in told if found.code == "log-end-lost"] == [20]


def test_torn_tail_reports_the_loss(data: DataDirectory) -> None:
    log = data.path / "orders-0" / f"{10:020}.log"
    log.write_bytes(log.read_bytes()[:-5])
    assert [found.code for found in findings(data.path) if found.severity.value == "damage"] == [
        "torn-tail"
    ]


@pytest.mark.parametrize("offset", [19, 20, 0])
def test_lagging_checkpoints_are_sound(data: DataDirectory, offset: int) -> None:
    for name in CHECKPOINTS[:2]:
        data.checkpoint(name, orders=offset)
    assert findings(data.path) == []


@pytest.mark.parametrize("offset", [7, 21])
def test_cleaner_offset_outside_the_log_is_reported(data: DataDirectory, offset: int) -> None:
    write_checkpoint(data.path / "log-start-offset-checkpoint", [("orders", 0, 8)])
    write_checkpoint(data.path / "cleaner-offset-checkpoint", [("orders", 0, offset)])
    told = find_one(data.path)
    assert (told.code, told.severity.value, told.actual) == ("cleaner-offset", "note", offset)
    assert told.path == str(data.path / "cleaner-offset-checkpoint")
    assert (told.offset, told.expected, told.topic) == (offset, "8-20", "orders")
    outside = "below the log start, 8" if offset < 8 else "beyond the log end, 20"
    assert told.message == (
        f"The cleaner's checkpoint, {offset}, is {outside}: the next cleaning starts over from 8."
    )


@pytest.mark.parametrize("offset", [8, 20])
def test_cleaner_offset_at_a_log_end_is_sound(data: DataDirectory, offset: int) -> None:
    write_checkpoint(data.path / "log-start-offset-checkpoint", [("orders", 0, 8)])
    write_checkpoint(data.path / "cleaner-offset-checkpoint", [("orders", 0, offset)])
    assert findings(data.path) == []


@pytest.mark.parametrize(
    ("beyond", "codes_of"),
    [(1, ["log-end-lost"]), (LARGEST, ["log-end-lost"]), (LARGEST + 1, ["checkpoint-beyond-end"])],
)
def test_loss_proved_by_a_clean_stop(data: DataDirectory, beyond: int, codes_of: list[str]) -> None:
    data.checkpoint("replication", orders=20 + beyond)
    told = find_one(data.path)
    assert [told.code] == codes_of
    ends = f"and ends at 20: {beyond:,} offsets are lost at its end."
    if told.code == "log-end-lost":
        assert (told.offset, told.expected, told.actual) == (20, 20 + beyond, 20)
        assert (told.lost_at_least, told.lost_at_most) == (0, beyond)
        assert told.message == (
            f"The log had a high watermark of {20 + beyond:,} when the broker was stopped "
            f"cleanly, {ends}"
        )
    else:
        assert (told.offset, told.expected, told.actual) == (20, 20, 20 + beyond)
        assert told.path == str(data.path / "replication-offset-checkpoint")


@pytest.mark.parametrize("count", [1, 3])
def test_absent_partitions_are_counted(data: DataDirectory, count: int) -> None:
    gone = [("gone", number, 5 + number) for number in range(count)]
    here = [(topic, number, end) for (topic, number), end in sorted(data.offsets.items())]
    write_checkpoint(data.path / "recovery-point-offset-checkpoint", [*gone, *here])
    told = find_one(data.path)
    assert (told.code, told.topic, told.partition) == ("checkpoint-stale-entry", "gone", 0)
    assert (told.offset, told.actual) == (5, count)
    shown = "gone-0 is" if count == 1 else "gone-0 and 2 more are"
    assert told.message == f"{shown} in the checkpoint, but not in this data directory."


def test_partial_directory_is_not_compared_with_the_rest(data: DataDirectory) -> None:
    data.checkpoint("replication", orders=25)
    assert codes(data.path / "users-3") == []
    assert codes(data.path, selection=Selection("users")) == []
