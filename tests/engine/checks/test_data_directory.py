"""One data directory, and all of a node: names, topic ids, and who the directories belong to."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
from corpus import corpus, names
from directories import CLUSTER, DataDirectory, codes, find_one, findings, identifier
from each import each

from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.run import verify
from kdump.errors import PathError
from kdump.findings.finding import Finding
from kdump.storage import source

SAMPLE = Path(__file__).parents[3] / "sample-data"


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    directory = DataDirectory(tmp_path / "data")
    directory.partition("orders", 0)
    directory.partition("orders", 1)
    directory.partition("users", 3, (0, 10, 20, 30), topic_id=8)
    directory.stop()
    return directory


@pytest.fixture
def other(tmp_path: Path) -> DataDirectory:
    """Give a second data directory of the same node."""
    directory = DataDirectory(tmp_path / "other", number=2)
    directory.partition("logs", 0, topic_id=9)
    directory.stop()
    return directory


def write_settings(tmp_path: Path, *directories: DataDirectory) -> str:
    path = tmp_path / "server.properties"
    path.write_text("log.dirs=" + ",".join(str(directory.path) for directory in directories))
    return str(path)


def by_settings(settings: str) -> list[tuple[str, str]]:
    options = VerifyOptions(server_properties=settings)
    found = [item for item in verify([], options) if isinstance(item, Finding)]
    return [(told.code, Path(told.path).parent.name) for told in found]


# Names -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["lost+found", "orders", "orders-", "-1", "orders-x"])
def test_directory_that_prevents_the_start_is_reported(data: DataDirectory, name: str) -> None:
    (data.path / name).mkdir()
    told = find_one(data.path)
    assert (told.code, told.severity.value) == ("directory-stops-start", "rebuild")
    assert told.path.endswith(name)


def test_remote_index_cache_is_not_a_partition(data: DataDirectory) -> None:
    (data.path / "remote-log-index-cache").mkdir()
    assert findings(data.path) == []


def test_folder_of_copied_partitions_is_not_a_data_directory(data: DataDirectory) -> None:
    (data.path / "notes").mkdir()
    for path in data.path.iterdir():
        if path.is_file():
            path.unlink()
    (data.path / "orders-1" / "partition.metadata").unlink()
    assert findings(data.path) == []


def test_unknown_files_have_one_note(data: DataDirectory) -> None:
    (data.path / "a.txt").write_text("x")
    (data.path / "orders-0.tar").write_bytes(b"x")
    told = find_one(data.path)
    assert (told.code, told.actual) == ("file-unknown", 2)


def test_files_of_a_running_broker_are_sound(data: DataDirectory) -> None:
    (data.path / ".lock").write_bytes(b"")
    assert findings(data.path) == []


def test_interrupted_checkpoint_write_is_a_note(data: DataDirectory) -> None:
    (data.path / "replication-offset-checkpoint.tmp").write_text("0\n")
    assert (find_one(data.path).code, find_one(data.path).actual) == ("leftover", ".tmp")
    first = data.path / "cleaner-offset-checkpoint.tmp"
    first.write_text("0\n")
    told = find_one(data.path)
    assert told.path == str(first)
    assert told.message == (
        "cleaner-offset-checkpoint.tmp and 1 more are left over. An unfinished write; brokers "
        "ignore it and write the file again."
    )


# Ids ---------------------------------------------------------------------------------------------


def test_missing_partition_metadata_in_kraft_is_reported(data: DataDirectory) -> None:
    path = data.path / "orders-1" / "partition.metadata"
    path.unlink()
    told = find_one(data.path)
    assert (told.code, told.severity.value) == ("partition-metadata-missing", "rebuild")
    assert (told.path, told.topic, told.partition) == (str(path), "orders", 1)


def test_empty_partition_needs_no_partition_metadata(data: DataDirectory) -> None:
    """The file is written before the first append; others are looked at all the same."""
    for path in data.path.glob("orders-0/*"):
        path.write_bytes(b"") if path.suffix else path.unlink()
    for path in data.path.glob("orders-0/*10.*"):
        path.unlink()
    (data.path / "users-3" / "partition.metadata").unlink()
    data.offsets["orders", 0] = 0
    data.stop()
    told = [found for found in findings(data.path) if found.code == "partition-metadata-missing"]
    assert [found.topic for found in told] == ["users"]


@pytest.mark.parametrize("padding", ["", "=="])
def test_padded_topic_id_is_sound(data: DataDirectory, padding: str) -> None:
    path = data.path / "orders-1" / "partition.metadata"
    path.write_text(path.read_text() + padding)
    assert findings(data.path) == []


def test_partition_metadata_is_optional_before_kraft(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path / "old", version=0)
    (data.partition("orders", 0) / "partition.metadata").unlink()
    data.partition("orders", 1)
    data.stop()
    assert findings(data.path) == []


@pytest.mark.parametrize(
    "text", ["", "version: 0\n", "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "version: -1\n"]
)
def test_malformed_partition_metadata_is_reported(data: DataDirectory, text: str) -> None:
    path = data.path / "users-3" / "partition.metadata"
    path.write_text(text)
    told = findings(data.path)
    assert {(found.code, found.path) for found in told} == {("properties-malformed", str(path))}
    assert {(found.topic, found.partition) for found in told} == {("users", 3)}


def test_topic_with_two_ids_is_reported(data: DataDirectory, other: DataDirectory) -> None:
    data.partition("orders", 2)
    data.stop()
    path = other.partition("orders", 3, topic_id=77)
    other.stop()
    told = find_one(data.path, other.path)
    assert (told.code, told.severity.value) == ("topic-id-differs", "damage")
    assert told.message == (
        f"The topic's other partitions have the id {identifier(7)}, but this directory, with 20 "
        "records, has another."
    )
    assert (told.path, told.expected, told.actual) == (
        str(path / "partition.metadata"),
        identifier(7),
        identifier(77),
    )


@pytest.mark.parametrize("odd", ["first", "last"])
def test_topic_id_of_most_partitions_is_right(data: DataDirectory, odd: str) -> None:
    path = data.partition("orders", 2, topic_id=77 if odd == "last" else 7)
    if odd == "first":
        path = data.partition("orders", 0, topic_id=77)
    data.stop()
    told = find_one(data.path)
    assert (told.code, told.path) == ("topic-id-differs", str(path / "partition.metadata"))
    assert (told.expected, told.actual) == (identifier(7), identifier(77))


# Whose directory ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["version=1\nnode.id=1\n", "version=2\n", "version=1\n", "", "#\n", "version=0\n"]
)
def test_malformed_meta_properties_is_reported(data: DataDirectory, text: str) -> None:
    data.meta.write_text(text)
    told = findings(data.path)
    assert {(found.code, found.severity.value, found.path) for found in told} == {
        ("meta-properties-malformed", "damage", str(data.meta))
    }


@pytest.mark.parametrize(
    "name", ["meta.properties", "recovery-point-offset-checkpoint", "orders-0/partition.metadata"]
)
def test_unreadable_small_file_is_an_error(
    data: DataDirectory, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    denied = str(data.path / name)
    opened = source.open_for_reading

    def open_for_reading(path: str) -> int:
        if path == denied:
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(path)

    monkeypatch.setattr(source, "open_for_reading", open_for_reading)
    items = list(verify([str(data.path)], VerifyOptions()))
    assert not [item for item in items if isinstance(item, Finding)]
    assert [str(item) for item in items if isinstance(item, PathError)] == [
        f"{denied}: Permission denied"
    ]


def test_partition_in_two_directories_is_reported(
    data: DataDirectory, other: DataDirectory
) -> None:
    other.partition("users", 3, topic_id=8)
    other.stop()
    told = find_one(data.path, other.path)
    assert (told.code, told.severity.value) == ("partition-twice", "rebuild")
    assert (told.expected, told.actual) == (
        str(data.path / "users-3"),
        str(other.path / "users-3"),
    )


def test_moving_partition_is_counted_once(data: DataDirectory, other: DataDirectory) -> None:
    moving = other.partition("users", 3, topic_id=8)
    moving.rename(other.path / f"users-3.{9:032x}-future")
    other.offsets.pop(("users", 3))
    other.stop()
    assert codes(data.path, other.path) == ["directory-retired"]


def test_copy_of_a_directory_is_not_a_double(data: DataDirectory, tmp_path: Path) -> None:
    copy = DataDirectory(tmp_path / "copy")
    copy.partition("orders", 0)
    copy.stop()
    assert findings(data.path, copy.path) == []


def test_other_nodes_may_have_the_same_partitions(data: DataDirectory, tmp_path: Path) -> None:
    replica = DataDirectory(tmp_path / "replica", node=2, number=2)
    replica.partition("orders", 0)
    replica.stop()
    assert findings(data.path, replica.path) == []


def test_directories_of_one_broker_must_agree(
    data: DataDirectory, other: DataDirectory, tmp_path: Path
) -> None:
    settings = write_settings(tmp_path, data, other)
    assert by_settings(settings) == []
    text = other.meta.read_text()
    unlike = "d" + CLUSTER[1:]
    for changed, expected, actual in (
        (text.replace("node.id=1", "node.id=2"), "node.id=1", "node.id=2"),
        (text.replace(CLUSTER, unlike), f"cluster.id={CLUSTER}", f"cluster.id={unlike}"),
        (
            text.replace(other.directory_id, data.directory_id),
            "its own directory.id",
            data.directory_id,
        ),
    ):
        assert changed != text
        other.meta.write_text(changed)
        assert by_settings(settings) == [("meta-properties-differ", "other")]
        (told,) = findings(server_properties=settings)
        assert (told.expected, told.actual) == (expected, actual)
        assert told.message == f"{actual} here, but {expected} in {data.path}."


def test_missing_meta_properties_in_one_directory_is_reported(
    data: DataDirectory, other: DataDirectory, tmp_path: Path
) -> None:
    other.meta.unlink()
    assert by_settings(write_settings(tmp_path, data, other)) == [
        ("meta-properties-missing", "other")
    ]


def test_data_directory_without_its_partitions_is_reported(
    data: DataDirectory, tmp_path: Path
) -> None:
    empty = DataDirectory(tmp_path / "empty", number=3)
    empty.offsets["orders", 0] = 20
    empty.stop()
    told = {(found.code, found.severity.value) for found in findings(data.path, empty.path)}
    assert told == {("checkpoint-stale-entry", "note")}


# Real brokers ------------------------------------------------------------------------------------

SOUND = [
    *names("modern/data"),
    *(name for name in names("modern/extras") if name.endswith(("live", "killed", "after"))),
    *(name for name in names("old") if name.endswith((".live", ".killed", ".clean"))),
]
# Codes of these modules; what others find has tests of its own.
OWN = {
    "log-name",
    "file-name",
    "file-stops-start",
    "file-unknown",
    "file-access",
    "index-without-log",
    "swap-left",
    "segments-apart",
    "segment-missing",
    "partition-empty",
    "directory-stops-start",
    "partition-twice",
    "partition-missing",
    "partition-metadata-missing",
    "topic-id-differs",
    "topic-unknown",
    "replica-not-assigned",
    "meta-properties-differ",
    "meta-properties-missing",
    "meta-properties-malformed",
    "meta-properties-foreign",
    "metadata-snapshot-missing",
    "metadata-snapshot-incomplete",
    "checkpoint-malformed",
    "checkpoint-missing",
    "checkpoint-lacks-partition",
    "checkpoint-beyond-end",
    "log-end-lost",
    "cleaner-offset",
    "properties-malformed",
    "roll-unexplained",
    "over-message-limit",
    "record-time-limit",
}


@pytest.mark.parametrize("name", SOUND)
def test_directory_of_a_real_broker_has_no_findings(name: str) -> None:
    root = corpus(name)
    paths = [root / "data"] if (root / "data").is_dir() else [root / "d1", root / "d2"]
    assert [found for found in findings(*paths) if found.code in OWN] == []


@pytest.mark.parametrize("version", ["0822", "01022"])
def test_stale_recovery_point_is_a_note(version: str) -> None:
    told = findings(corpus(f"old/damage-{version}.unclean.after") / "data")
    found = {at.code for at in told if at.topic == "d-tornmsg"}
    assert found == {"checkpoint-beyond-end"}


def test_checkpoint_does_not_repeat_a_log_finding() -> None:
    """The newest log was emptied: its indexes show that, and so would the high watermark."""
    root = corpus("modern/recovery/clean/before")
    told = [at for at in findings(root / "d2") if at.topic == "rv-empty-log-active"]
    assert [at.code for at in told if at.severity.value == "damage"] == ["log-too-short"]


@each(
    ("damage", "position", "actual"),
    [
        (lambda data: b"", None, None),
        (lambda data: data[:83], None, None),
        (lambda data: data[:100] + b"\xff" + data[101:], 83, "crc-mismatch"),
        (lambda data: data[:-1], 307, "cut-short"),
        (lambda data: data, None, None),
    ],
)
def test_bootstrap_checkpoint_is_checked(
    tmp_path: Path, damage: Callable[[bytes], bytes], position: int | None, actual: str | None
) -> None:
    directory = DataDirectory(tmp_path / "data")
    directory.partition("orders", 0)
    directory.stop()
    sound = (SAMPLE / "clean/4.1.1/d1/bootstrap.checkpoint").read_bytes()
    path = directory.path / "bootstrap.checkpoint"
    path.write_bytes(damage(sound))
    if damage(sound) == sound:
        assert codes(directory.path) == []
        return
    found = find_one(directory.path)
    assert (found.code, found.path) == ("bootstrap-checkpoint-malformed", str(path))
    assert (found.position, found.actual) == (position, actual)
