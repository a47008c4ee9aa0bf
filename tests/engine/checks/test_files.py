"""The files of a partition: each thing wrong with names, and holes between segments, once."""

import os
import struct
from collections.abc import Callable
from pathlib import Path

import builders
import damage
import pytest
from corpus import corpus
from directories import (
    BATCH_BYTES,
    DataDirectory,
    batches,
    codes,
    find_one,
    findings,
    write_checkpoint,
    write_segment,
)
from each import each
from segments import partition_of

from kdump.engine.checks.access import FileStatus, access_findings, find_unreadable
from kdump.engine.checks.files import swaps
from kdump.findings.rows import Place
from kdump.storage import places
from kdump.storage.names import stops_start

ROOT = 0


def test_sound_directory_has_no_findings(data: DataDirectory) -> None:
    assert findings(data.path) == []


def test_log_without_twenty_digits_is_damage(data: DataDirectory) -> None:
    log = data.path / "users-3" / f"{10:020}.log"
    log.rename(log.with_name("10.log"))
    told = find_one(data.path)
    assert (told.code, told.severity.value) == ("log-name", "damage")
    assert (told.expected, told.actual, told.segment) == (f"{10:020}.log", "10.log", 10)


def test_index_without_twenty_digits_is_a_note(data: DataDirectory) -> None:
    index = data.path / "users-3" / f"{10:020}.timeindex"
    index.rename(index.with_name("00010.timeindex"))
    told = [found for found in findings(data.path) if found.code == "file-name"]
    assert [(found.severity.value, found.actual) for found in told] == [("note", "00010.timeindex")]


@each(
    ("name", "stops"),
    [
        ("old.log", True),
        ("00000000000000000010 copy.log", True),
        ("x.index.swap", True),
        ("x.snapshot.cleaned", True),
        ("9223372036854775808.txnindex", True),
        ("x.log.deleted", False),
        ("-5.log", False),
        ("notes.txt", False),
        ("log", False),
        ("00000000000000000010.log", False),
        ("10.old.log", False),
        ("x.kafka", False),
    ],
)
def test_names_that_stop_a_start(name: str, stops: bool) -> None:
    assert stops_start(name) is stops


def test_name_that_stops_the_start_is_reported(data: DataDirectory) -> None:
    (data.path / "orders-0" / "backup.log").write_bytes(b"x")
    told = find_one(data.path)
    assert (told.code, told.severity.value) == ("file-stops-start", "rebuild")
    assert told.path.endswith("backup.log")


def test_unknown_files_have_one_note(data: DataDirectory) -> None:
    (data.path / "orders-0" / "a.txt").write_text("x")
    (data.path / "orders-0" / "b.log").mkdir()
    (data.path / "orders-0" / "meta.properties").write_text("version=1")
    told = find_one(data.path)
    assert (told.code, told.actual) == ("file-unknown", 3)


def test_orphan_indexes_after_all_segments_are_a_note(data: DataDirectory) -> None:
    (data.path / "orders-0" / f"{999999:020}.index").write_bytes(b"")
    (data.path / "orders-0" / f"{999999:020}.timeindex").write_bytes(b"")
    told = find_one(data.path)
    assert (told.code, told.severity.value, told.segment) == ("index-without-log", "note", 999999)


@pytest.mark.parametrize(
    ("name", "code"), [("notes.deleted", "leftover"), ("notes.swap", "file-unknown")]
)
def test_unknown_files_being_deleted(data: DataDirectory, name: str, code: str) -> None:
    """Brokers pass over a swap that is no segment's."""
    (data.path / "orders-0" / name).write_bytes(b"x")
    assert find_one(data.path).code == code


@pytest.mark.parametrize("suffix", [".deleted", ".cleaned"])
def test_leftovers_have_one_note(data: DataDirectory, suffix: str) -> None:
    for extension in ("log", "index", "timeindex"):
        (data.path / "orders-0" / f"{10:020}.{extension}{suffix}").write_bytes(b"x")
    told = find_one(data.path)
    assert (told.code, told.severity.value, told.actual) == ("leftover", "note", suffix)


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (1, "0.log.deleted is left over. A broker start removes it; "),
        (2, "0.log.deleted and 1 more are left over. A broker start removes them; "),
    ],
)
def test_leftovers_are_counted(data: DataDirectory, count: int, message: str) -> None:
    for base in range(count):
        (data.path / "orders-0" / f"{base}.log.deleted").write_bytes(b"x")
    assert find_one(data.path).message.startswith(message)


def test_interrupted_checkpoint_write_is_a_note(data: DataDirectory) -> None:
    (data.path / "orders-0" / "leader-epoch-checkpoint.tmp").write_bytes(b"0\n")
    assert find_one(data.path).code == "leftover"


def test_unfinished_rebuild_is_a_note(data: DataDirectory) -> None:
    (data.path / "orders-0" / f"{10:020}.index.bak-20260101T000000Z").write_bytes(b"x")
    assert findings(data.path) == []
    (data.path / "orders-0" / f"{10:020}.index.kdump-tmp").write_bytes(b"x")
    assert find_one(data.path).code == "reindex-unfinished"


def test_directory_without_segments_is_a_note(data: DataDirectory) -> None:
    directory = data.path / "new-0"
    directory.mkdir()
    data.offsets["new", 0] = 0
    data.stop()
    told = find_one(data.path)
    assert (told.code, told.path) == ("partition-empty", str(directory))


@pytest.mark.parametrize("ending", ["delete", "future", "stray"])
def test_retired_directory_is_a_note(data: DataDirectory, ending: str) -> None:
    old = data.path / "orders-0"
    old.rename(data.path / f"orders-0.{7:032x}-{ending}")
    data.offsets.pop(("orders", 0))
    data.stop()
    told = find_one(data.path)
    assert (told.code, told.severity.value) == ("directory-retired", "note")


# Swaps -------------------------------------------------------------------------------------------


def swap(directory: Path, base: int) -> None:
    for extension in ("log", "index", "timeindex"):
        path = directory / f"{base:020}.{extension}"
        path.rename(path.with_name(f"{path.name}.swap"))


def test_swap_without_its_original_is_not_a_hole(data: DataDirectory) -> None:
    swap(data.path / "users-3", 10)
    told = find_one(data.path)
    assert (told.code, told.severity.value, told.segment) == ("swap-left", "note", 10)
    assert "have offsets that no other segment has" in told.message


KEPT = (
    "The .swap files of segment {} have offsets that no other segment has; a broker start turns "
    "these files into a segment."
)
LOST = (
    "The .swap files of segment {} are next to files of an unfinished cleaning: a broker start "
    "deletes "
    "those of segment {}."
)


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize(
    ("bases", "cleaned", "message"),
    [
        ([10], None, KEPT.format("10")),
        ([10, 20], None, KEPT.format("10, 20")),
        ([10, 20], 21, KEPT.format("10, 20")),
        ([10, 20], 20, LOST.format("10, 20", "20")),
        ([10, 20], 3, LOST.format("10, 20", "10, 20")),
    ],
)
def test_swap_files_at_start(
    data: DataDirectory, bases: list[int], cleaned: int | None, message: str, quick: bool
) -> None:
    directory = data.path / "users-3"
    for base in bases:
        swap(directory, base)
    if cleaned is not None:
        (directory / f"{cleaned:020}.log.cleaned").write_bytes(b"")
    told = {found.code: found for found in findings(data.path, quick=quick)}
    assert (told["swap-left"].actual, told["swap-left"].segment) == (len(bases), bases[0])
    assert told["swap-left"].message == message
    assert told["swap-left"].path == str(directory / f"{bases[0]:020}.log.swap")


@pytest.mark.parametrize(
    ("count", "shown"), [(5, "0, 2, 4, 6, 8"), (6, "0, 2, 4, 6, 8 and 1 more")]
)
def test_five_of_many_replaced_segments_are_named(tmp_path: Path, count: int, shown: str) -> None:
    data = DataDirectory(tmp_path / "data")
    directory = data.partition("orders", 0, tuple(range(0, 2 * count, 2)))
    data.stop()
    (directory / f"{0:020}.log.swap").write_bytes(batches(0, count))
    told = {found.code: found for found in findings(data.path)}["swap-left"]
    assert (
        told.message == f"A broker start replaces segment {shown} by the .swap files of segment 0."
    )


def test_swap_names_the_segments_it_replaces(data: DataDirectory) -> None:
    directory = data.path / "users-3"
    (directory / f"{0:020}.log.swap").write_bytes(batches(0, 10))
    told = find_one(data.path)
    assert told.code == "swap-left"
    assert "replaces segment 0, 10 by" in told.message


def test_swap_next_to_a_cleaned_file_is_deleted_at_start(data: DataDirectory) -> None:
    swap(data.path / "users-3", 20)
    (data.path / "users-3" / f"{10:020}.log.cleaned").write_bytes(b"")
    told = {found.code: found for found in findings(data.path)}
    assert set(told) == {"leftover", "swap-left"}
    assert "a broker start deletes those of segment 20" in told["swap-left"].message


def test_old_swap_endangers_the_segment_before(tmp_path: Path) -> None:
    directory = tmp_path / "old-0"
    for base in (0, 1):
        log = builders.message(base, magic=0)
        (tmp_path / "old-0").mkdir(exist_ok=True)
        (directory / f"{base:020}.log{'.swap' if base else ''}").write_bytes(log)
        (directory / f"{base:020}.index{'.swap' if base else ''}").write_bytes(b"")
    told = [found for found in findings(directory) if found.code == "swap-left"]
    assert "0.9.0 to 0.10.2" in told[0].message


@pytest.mark.parametrize("gone", [True, False])
def test_unreadable_swap_is_an_error(data: DataDirectory, gone: bool) -> None:
    """A broker that starts takes it away; one that is there and no file is an error."""
    swap(data.path / "users-3", 10)
    path = data.path / "users-3" / f"{10:020}.log.swap"
    partition = partition_of(data.path / "users-3")
    path.unlink()
    if not gone:
        path.symlink_to(path)
    assert not list(swaps(partition, []))
    assert [error.path for error in partition.errors] == ([] if gone else [str(path)])


def test_damaged_swap_is_damage(data: DataDirectory) -> None:
    directory = data.path / "users-3"
    swap(directory, 10)
    path = directory / f"{10:020}.log.swap"
    path.write_bytes(damage.flip(path.read_bytes(), BATCH_BYTES + 70))
    told = [found for found in findings(data.path) if found.severity.value == "damage"]
    assert [(found.code, found.path, found.position) for found in told] == [
        ("crc-mismatch", str(path), BATCH_BYTES)
    ]


def test_damage_in_a_swap_ends_at_the_first_message_of_a_wrapper(tmp_path: Path) -> None:
    """What is lost is what dump says of the same bytes: the wrapper behind them is opened."""
    log = tmp_path / "old-0" / f"{0:020}.log"
    log.parent.mkdir()
    inner = [builders.message(at, magic=1) for at in range(3)]
    parts = [builders.message(at, magic=1) for at in range(2)] + [builders.wrapper(inner, 7)]
    data = b"".join(parts)
    log.write_bytes(damage.flip(data, len(parts[0]) + 30))
    (in_log,) = (found for found in findings(log.parent) if found.code == "crc-mismatch")
    log.rename(log.with_name(f"{log.name}.swap"))
    (in_swap,) = (found for found in findings(log.parent) if found.code == "crc-mismatch")
    assert in_log.next_offset == in_swap.next_offset == 5
    assert in_log.lost_at_most == in_swap.lost_at_most


# Holes -------------------------------------------------------------------------------------------


def remove_segment(directory: Path, base: int, *extensions: str) -> None:
    for extension in extensions or ("log", "index", "timeindex"):
        (directory / f"{base:020}.{extension}").unlink()


def write_snapshot(directory: Path, offset: int, last_offset: int) -> None:
    """Write a producer snapshot that knows of one producer's batch."""
    entry = struct.pack(">qhiqiqiq", 5, 0, 1, last_offset, 1, 1_700_000_000_000, -1, -1)
    covered = struct.pack(">i", 1) + entry
    data = struct.pack(">hI", 1, builders.crc32c(covered)) + covered
    (directory / f"{offset:020}.snapshot").write_bytes(data)


def test_unproven_hole_is_a_note(data: DataDirectory) -> None:
    remove_segment(data.path / "users-3", 10)
    told = find_one(data.path)
    assert (told.code, told.severity.value) == ("segments-apart", "note")
    assert (told.offset, told.next_offset, told.segment) == (10, 20, 0)
    assert told.position == 5 * BATCH_BYTES
    assert (told.expected, told.actual, told.size_bytes) == (10, 20, 0)
    assert told.message == (
        "Offsets 10-19 (10 offsets) are in no segment. Whether they are lost is unknown: "
        "the topic's cleanup.policy is unknown."
    )


@pytest.mark.parametrize(
    ("base", "proves"), [(5, False), (10, True), (19, True), (20, False), (25, False), (99, False)]
)
def test_index_proves_a_hole_only_from_inside(data: DataDirectory, base: int, proves: bool) -> None:
    directory = data.path / "users-3"
    remove_segment(directory, 10)
    if base != 20:
        (directory / f"{base:020}.index").write_bytes(b"")
    found = {told.code: told for told in findings(data.path)}
    assert ("segment-missing" in found) is proves
    assert ("index-without-log" in found) is (not proves and base != 20)
    if proves:
        message = found["segment-missing"].message
        assert message.endswith(f"They are lost: segment {base} still has indexes, but no log.")


@pytest.mark.parametrize(
    ("offset", "last", "words"),
    [
        (10, 9, None),
        (11, 9, "a producer snapshot was taken at 11."),
        (19, 9, "a producer snapshot was taken at 19."),
        (20, 9, None),
        (20, 10, "the producer snapshot at 20 lists a batch of producer 5 that ends at 10."),
        (20, 20, None),
        (30, 12, "the producer snapshot at 30 lists a batch of producer 5 that ends at 12."),
    ],
)
def test_hole_proved_by_a_snapshot(
    data: DataDirectory, offset: int, last: int, words: str | None
) -> None:
    directory = data.path / "users-3"
    remove_segment(directory, 10)
    write_snapshot(directory, offset, last)
    found = {told.code: told for told in findings(data.path)}
    assert ("segment-missing" in found) is (words is not None)
    if words:
        message = f"Offsets 10-19 (10 offsets) are in no segment. They are lost: {words}"
        assert found["segment-missing"].message == message


@pytest.mark.parametrize(("start", "proves"), [(10, False), (11, True), (19, True), (20, False)])
def test_hole_proved_by_a_leader_epoch(data: DataDirectory, start: int, proves: bool) -> None:
    directory = data.path / "users-3"
    remove_segment(directory, 10)
    for base in (20, 30):
        write_segment(directory, base, batches(base, 5, leader_epoch=1), next_offset=base + 10)
    write_checkpoint(directory / "leader-epoch-checkpoint", [(0, 0), (1, start)])
    found = {told.code: told for told in findings(data.path)}
    assert ("segment-missing" in found) is proves
    if proves:
        assert found["segment-missing"].message.endswith(f"leader epoch 1 started at {start}.")


def snapshot_behind(directory: Path) -> None:
    write_snapshot(directory, 20, 19)


def snapshot_inside(directory: Path) -> None:
    write_snapshot(directory, 16, 15)


def epoch_inside(directory: Path) -> None:
    for base in (20, 30):
        write_segment(directory, base, batches(base, 5, leader_epoch=1), next_offset=base + 10)
    write_checkpoint(directory / "leader-epoch-checkpoint", [(0, 0), (1, 14)])


PROOFS = [snapshot_behind, snapshot_inside, epoch_inside]


@pytest.mark.parametrize("prove", PROOFS)
def test_proven_hole_is_damage(data: DataDirectory, prove: Callable[[Path], None]) -> None:
    directory = data.path / "users-3"
    remove_segment(directory, 10)
    prove(directory)
    told = [found for found in findings(data.path) if found.severity.value != "note"]
    assert [found.code for found in told] == ["segment-missing"]
    assert (told[0].offset, told[0].next_offset) == (10, 20)
    assert (told[0].lost_at_least, told[0].lost_at_most) == (10, 10)


def test_indexes_of_a_missing_log_prove_the_hole(data: DataDirectory) -> None:
    remove_segment(data.path / "users-3", 10, "log")
    told = find_one(data.path)
    assert told.code == "segment-missing"
    assert told.consequences == ("index-without-log@10",)


@pytest.mark.parametrize("missed", ["log", "log index timeindex"])
def test_log_missing_from_a_listing_is_not_lost(
    data: DataDirectory, missed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large directory is listed by several calls, while a broker rolls segments."""
    names = {f"{10:020}.{extension}" for extension in missed.split()}

    def listdir(path: str, *, fresh: bool = False) -> list[str]:
        return [at.name for at in Path(path).iterdir() if at.name not in names]

    def entries(path: str, *, fresh: bool = False) -> list[os.DirEntry[str]]:
        with os.scandir(path) as found:
            return [entry for entry in found if entry.name not in names]

    monkeypatch.setattr(places, "listdir", listdir)
    monkeypatch.setattr(places, "entries", entries)
    snapshot_behind(data.path / "users-3")
    told = [found.code for found in findings(data.path)]
    assert not {"segment-missing", "segments-apart", "index-without-log"} & set(told)


@pytest.mark.parametrize("prove", PROOFS)
def test_compacted_log_may_have_holes(data: DataDirectory, prove: Callable[[Path], None]) -> None:
    directory = data.path / "users-3"
    remove_segment(directory, 10)
    prove(directory)
    write_checkpoint(data.path / "cleaner-offset-checkpoint", [("users", 3, 20)])
    assert not {"segment-missing", "segments-apart"} & set(codes(data.path))


def test_log_with_other_gaps_may_have_holes(data: DataDirectory) -> None:
    directory = data.path / "users-3"
    remove_segment(directory, 10)
    log = batches(20, 2) + batches(26, 2)
    write_segment(directory, 20, log, next_offset=30)
    assert not {"segment-missing", "segments-apart"} & set(codes(data.path))


@pytest.mark.parametrize("prove", PROOFS)
def test_copy_of_one_partition_proves_no_hole(
    data: DataDirectory, prove: Callable[[Path], None], tmp_path: Path
) -> None:
    directory = data.path / "users-3"
    remove_segment(directory, 10)
    prove(directory)
    (tmp_path / "copy").mkdir()
    directory.rename(tmp_path / "copy" / "users-3")
    told = codes(tmp_path / "copy" / "users-3")
    assert "segments-apart" in told
    assert "segment-missing" not in told


def test_torn_log_before_the_next_segment_has_one_finding(data: DataDirectory) -> None:
    directory = data.path / "users-3"
    log = directory / f"{10:020}.log"
    log.write_bytes(damage.cut(log.read_bytes(), 3 * BATCH_BYTES + 40))
    snapshot_behind(directory)
    told = [found for found in findings(data.path) if found.severity.value == "damage"]
    assert len(told) == 1
    assert told[0].code in ("torn-tail", "batch-cut-short")


def test_unread_files_are_not_judged(data: DataDirectory) -> None:
    directory = data.path / "users-3"
    remove_segment(directory, 10)
    snapshot_behind(directory)
    assert not {"segment-missing", "segments-apart"} & set(codes(data.path, quick=True))


# Access ------------------------------------------------------------------------------------------


def status(name: str, uid: int, mode: int = 0o100644) -> FileStatus:
    return FileStatus(f"/data/orders-0/{name}", uid, mode)


OWN = [status("", 500, 0o040755), status("0.index", 500), status("0.log", 500)]


@each(
    ("entry", "refused"),
    [
        (status("1.log", 500), False),
        (status("1.log", ROOT), True),
        (status("1.log", ROOT, 0o100664), False),  # the broker's group may write
        (status("1.log", ROOT, 0o100666), False),
        (status("1.snapshot", ROOT), False),  # it is only read
        (status("1.snapshot", ROOT, 0o100600), True),
        (status("1.log.deleted", ROOT), False),
        (status("1.log", 500, 0o100444), True),
        (status("partition.metadata", 500, 0o100400), False),
        (status("sub", ROOT, 0o040755), True),
        (status("sub", ROOT, 0o040775), False),
        (status("sub", 500, 0o040600), True),
        (status("1.log", ROOT, 0o100646), False),  # all others may write
        (status("1.log", ROOT, 0o100664 & ~0o040), True),  # the group may not read
        (status("1.index", ROOT, 0o100642), True),
        (status("1.timeindex", ROOT, 0o100604), True),
        (status("1.snapshot", ROOT, 0o100602), True),
        (status("1.log", 500, 0o100200), True),
    ],
)
def test_users_without_access(entry: FileStatus, refused: bool) -> None:
    assert [found for found, _ in find_unreadable([*OWN, entry])] == ([entry] if refused else [])


def test_unreadable_files_are_one_finding_with_a_count() -> None:
    place = Place("orders", 0, None, "/data/orders-0")
    assert not list(access_findings(OWN, place))
    own, other = status("1.log", 500, 0o100444), status("2.log", ROOT)
    (told,) = access_findings([*OWN, own], place)
    assert (told.code, told.path) == ("file-access", own.path)
    assert told.message == "Mode 0444 does not let its owner 500 open it."
    (told,) = access_findings([*OWN, other, own, own], place)
    assert told.path == other.path
    assert told.message == (
        "It belongs to user 0 with mode 0644; user 500, the owner of most files here, cannot open "
        "it for writing."
        " The same for 2 more."
    )


def test_root_opens_everything() -> None:
    assert not list(find_unreadable([status("0.log", ROOT, 0o100000), status("1.log", 500)]))


@pytest.mark.skipif(os.geteuid() != ROOT, reason="only root can give files away")
def test_file_of_another_user_is_reported(data: DataDirectory) -> None:
    for path in [data.path, *data.path.rglob("*")]:
        os.chown(path, 500, 500)
    assert findings(data.path) == []
    index = data.path / "orders-0" / f"{10:020}.index"
    os.chown(index, ROOT, ROOT)
    told = find_one(data.path)
    assert (told.code, told.severity.value, told.path) == ("file-access", "rebuild", str(index))


@pytest.mark.skipif(os.geteuid() != ROOT, reason="only root can give files away")
def test_directory_of_another_user_is_reported_once(data: DataDirectory) -> None:
    for path in [data.path, *data.path.rglob("*")]:
        os.chown(path, 500, 500)
    for path in [data.path / "orders-0", *(data.path / "orders-0").iterdir()]:
        os.chown(path, ROOT, ROOT)
    told = find_one(data.path)
    assert (told.code, told.path) == ("file-access", str(data.path / "orders-0"))


# Real brokers' leftovers -------------------------------------------------------------------------

RECOVERY = {
    "rv-no-segment-mid": ("segment-missing", "damage"),
    "rv-swap-left": ("swap-left", "note"),
    "rv-cleaned-left": ("leftover", "note"),
    "rv-deleted-left": ("leftover", "note"),
    "rv-orphan-index": ("index-without-log", "note"),
    "rv-no-partmeta": ("partition-metadata-missing", "rebuild"),
}


@pytest.mark.parametrize("case", ["killed", "clean", "killed-norp"])
def test_each_recovery_case_has_one_finding(case: str) -> None:
    root = corpus(f"modern/recovery/{case}/before")
    told = findings(root / "d1", root / "d2")
    for topic, expected in RECOVERY.items():
        found = [(at.code, at.severity.value) for at in told if at.topic == topic]
        assert found == [expected], topic
    assert [at for at in told if at.topic == "rv-ok"] == []


@pytest.mark.parametrize("version", ["0822", "01022"])
def test_each_old_case_has_one_finding(version: str) -> None:
    told = findings(corpus(f"old/damage-{version}.marker.before") / "data")
    for topic, expected in {
        "d-holeseg": ("segments-apart", "note"),
        "d-orphan": ("segment-missing", "damage"),
        "d-swap": ("swap-left", "note"),
        "d-cleaned": ("leftover", "note"),
        "d-deleted": ("leftover", "note"),
    }.items():
        found = [(at.code, at.severity.value) for at in told if at.topic == topic]
        assert found == [expected], topic
