"""A data directory is read whatever one of its entries is: a link to itself, a bad sector."""

import errno
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import commands
import pytest
from directories import DataDirectory

from kdump.errors import KdumpError, PathError
from kdump.storage import log_dir, places
from kdump.storage.log_dir import LogDir, LogDirs
from kdump.storage.targets import Selection, Target, resolve

EVERYTHING = Selection()
#: What reads a data directory, and how it tells that it came to `orders-0`.
COMMANDS = [
    "dump --format jsonl {}",
    "dump --batches --format jsonl {}",
    "dump --entries --format jsonl {}",
    "verify --format jsonl {}",
    "predict --quick --format jsonl {}",
    "usage --by partition --format jsonl {}",
    "reindex --all --format jsonl {}",
    "find-offset --format jsonl {} 3",
    "find-time --format jsonl {} earliest",
]


class FailingEntry:
    """An entry of a listing of which the medium does not say what it is."""

    def __init__(self, entry: "os.DirEntry[str]", number: int) -> None:
        self.name, self.path, self._number = entry.name, entry.path, number

    def _fail(self, **_: object) -> Any:
        raise OSError(self._number, os.strerror(self._number), self.path)

    is_dir = is_file = stat = _fail


@pytest.fixture
def data(tmp_path: Path) -> Path:
    made = DataDirectory(tmp_path / "data")
    made.partition("orders", 0)
    made.partition("users", 3)
    made.stop()
    return made.path


def failing(monkeypatch: pytest.MonkeyPatch, name: str, number: int) -> None:
    """Let the entry of a name fail in every listing."""
    entries = places.entries

    def some_fail(path: str, *, fresh: bool = False) -> Sequence[Any]:
        found = entries(path, fresh=fresh)
        return [FailingEntry(entry, number) if entry.name == name else entry for entry in found]  # type: ignore[arg-type]

    monkeypatch.setattr(places, "entries", some_fail)


def run(command: str, path: Path) -> tuple[int, str, str]:
    result = commands.run(*command.format(path).split())
    return result.exit_code, result.stdout, result.stderr


def read(out: str) -> tuple[int, int, set[int]]:
    """Count the rows of each partition; of what has no such rows, the batches that were read."""
    batches = set(map(int, re.findall(r'"batches":(\d+),"records_count":\d+,"bytes"', out)))
    return out.count('"orders"'), out.count('"users"'), batches


def under(path: Path, selection: Selection = EVERYTHING) -> Iterator[str | PathError]:
    for item in resolve([str(path)], selection):
        if isinstance(item, Target):
            yield f"{item.topic}-{item.partition}"
        else:
            assert isinstance(item, PathError), item
            yield item


def test_contents_of_a_data_directory(data: Path) -> None:
    for name in ("orders-10", "orders-9", "a-0", f"b-0.{'0' * 32}-delete", "lost+found"):
        (data / name).mkdir()
    found = LogDir.open(str(data))
    assert [(name.topic, name.partition, path) for name, path in found.partitions] == [
        (topic, number, f"{data}/{name}")
        for topic, number, name in (
            ("a", 0, "a-0"),
            ("b", 0, f"b-0.{'0' * 32}-delete"),
            ("orders", 0, "orders-0"),
            ("orders", 9, "orders-9"),
            ("orders", 10, "orders-10"),
            ("users", 3, "users-3"),
        )
    ]
    assert found.files == sorted(str(path) for path in data.iterdir() if path.is_file())
    assert (found.path, found.unknown) == (str(data), [])


def test_data_directory_has_its_node(data: Path) -> None:
    assert LogDir.open(str(data)).node_id == "1"
    (data / "meta.properties").unlink()
    assert LogDir.open(str(data)).node_id is None


def test_offsets_of_a_checkpoint(data: Path) -> None:
    found = LogDir.open(str(data))
    name = "replication-offset-checkpoint"
    assert found.offsets(name) == {("orders", 0): 20, ("users", 3): 20}
    (data / name).write_text("0\n1\n")
    assert found.offsets(name) == {("orders", 0): 20, ("users", 3): 20}  # it is read once
    assert LogDir.open(str(data)).offsets(name) is None  # a broker could not read it
    assert found.offsets("log-start-offset-checkpoint") == {}
    (data / "cleaner-offset-checkpoint").unlink()
    (data / "cleaner-offset-checkpoint").mkdir()
    assert found.offsets("cleaner-offset-checkpoint") is None


def test_checkpoint_has_its_time(data: Path) -> None:
    os.utime(data / "replication-offset-checkpoint", (5, 7))
    found = LogDir.open(str(data))
    assert found.checkpoint_time("replication-offset-checkpoint") == 7
    assert found.checkpoint_time("log-start-offset-checkpoint") is None


def test_unlistable_data_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PathError, match="No such file") as raised:
        LogDir.open(str(tmp_path / "gone"))
    assert raised.value.path == str(tmp_path / "gone")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["loop", "payments-0"])
def test_link_to_itself_hides_nothing(data: Path, command: str, name: str) -> None:
    before = run(command, data)
    (data / name).symlink_to(name)
    status, out, told = run(command, data)
    assert read(out) == read(before[1]) != (0, 0, set())
    assert status == 1
    assert f"{data / name}: Too many levels of symbolic links" in told


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.EACCES, errno.ELOOP])
@pytest.mark.parametrize("command", COMMANDS)
def test_failing_entry_is_an_error_of_its_own(
    data: Path, monkeypatch: pytest.MonkeyPatch, command: str, number: int
) -> None:
    before = read(run(command, data)[1])
    failing(monkeypatch, "users-3", number)
    status, out, told = run(command, data)
    rows, _, batches = read(out)
    assert rows == before[0] != 0 or batches == {10} != before[2]
    assert status == 1
    assert f"{data / 'users-3'}: {os.strerror(number)}" in told


@pytest.mark.parametrize("name", ["meta.properties", "recovery-point-offset-checkpoint", ".lock"])
def test_failing_files_of_the_directory_are_errors(
    data: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (data / name).touch()
    failing(monkeypatch, name, errno.EIO)
    status, out, told = run("predict --format jsonl {}", data)
    assert '"paths":2' in out
    assert status == 1
    assert name in told


def test_only_selected_entries_are_reported(data: Path) -> None:
    for name in ("loop", "users-7", "users-8.0123456789abcdef0123456789abcdef-delete"):
        (data / name).symlink_to(name)

    def told(**asked: Any) -> list[str]:
        found = under(data, Selection(**asked))
        return [Path(item.path).name for item in found if isinstance(item, KdumpError)]

    assert told() == ["loop", "users-7"]
    assert told(topic="users") == ["users-7"]
    assert told(topic="users", partition=3) == []
    assert len(told(topic="users", retired=True)) == 2


def test_unknown_entry_in_a_partition_is_a_note(data: Path) -> None:
    (data / "orders-0" / "loop").symlink_to("loop")
    status, out, _ = run("verify --format jsonl {}", data)
    assert status == 0
    assert '"code":"file-unknown"' in out


def test_self_link_segment_is_an_error(data: Path) -> None:
    log = data / "orders-0" / f"{0:020}.log"
    log.unlink()
    log.symlink_to(log.name)
    status, out, told = run("dump --format jsonl {}", data)
    assert status == 1
    assert '"topic":"orders","partition":0,"segment":10' in out
    assert "Too many levels" in told


@pytest.mark.parametrize("command", ["dump --batches --format jsonl {}", "usage --by partition {}"])
def test_stray_segment_hides_no_partition(data: Path, command: str) -> None:
    """Nor does a directory that is planted in a partition hide that."""
    before = read(run(command, data)[1])
    (data / f"{0:020}.log").touch()
    (data / "3.kafka").touch()
    assert read(run(command, data)[1]) == before
    (data / "orders-0" / "planted-1").mkdir()
    assert read(run(command, data / "orders-0")[1])[0] == before[0]


def test_data_directory_is_listed_once_for_its_partitions(data: Path) -> None:
    dirs = LogDirs()
    listed = dirs.find_parent(str(data / "orders-0"))
    assert listed is not None
    assert listed.path == str(data)
    assert dirs.find_parent(str(data / "users-3")) is listed
    dirs.forget()
    assert dirs.find_parent(str(data / "users-3")) is not listed


@pytest.mark.parametrize(
    "name", [".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "more-0"]
)
def test_changed_data_directory_is_listed_again(data: Path, name: str) -> None:
    dirs = LogDirs()
    before = dirs.find_parent(str(data / "orders-0"))
    path = data / name
    path.mkdir() if name == "more-0" else path.write_bytes(b"0\n0\n")
    # A clock's tick may be longer than all this takes.
    os.utime(data, ns=(0, 1))
    after = dirs.find_parent(str(data / "orders-0"))
    assert after is not before
    if name.endswith("checkpoint"):  # written over where it lies
        path.write_bytes(b"0\n1\norders 0 5\n")
        assert dirs.find_parent(str(data / "orders-0")) is not after


def test_listing_is_cached_briefly(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(log_dir.time, "monotonic", lambda: now[0])
    dirs = LogDirs()
    before = dirs.find_parent(str(data / "orders-0"), 0.05)
    (data / "recovery-point-offset-checkpoint").write_bytes(b"0\n0\n")
    now[0] = 0.04
    assert dirs.find_parent(str(data / "users-3"), 0.05) is before
    assert dirs.find_parent(str(data / "users-3")) is not before


def test_remembered_directories_are_bounded(tmp_path: Path) -> None:
    dirs = LogDirs()
    first = dirs.find_parent(str(tmp_path / "0" / "orders-0"))
    for number in range(64):
        (tmp_path / str(number)).mkdir()
        assert dirs.find_parent(str(tmp_path / str(number) / "orders-0")) is not first
    assert len(dirs._known) == 64
    last = dirs.find_parent(str(tmp_path / "63" / "orders-0"))
    (tmp_path / "64").mkdir()
    dirs.find_parent(str(tmp_path / "64" / "orders-0"))
    assert len(dirs._known) == 1
    assert dirs.find_parent(str(tmp_path / "63" / "orders-0")) is not last


def test_missing_path_has_no_data_directory(tmp_path: Path) -> None:
    assert LogDirs().find_parent(str(tmp_path / "gone" / "orders-0")) is None


def test_listing_of_a_store_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(log_dir.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(places, "entries", lambda path: [])
    dirs = LogDirs()
    first = dirs.find_parent("s3://bucket/data/orders-0")
    now[0] = 29.0
    assert dirs.find_parent("s3://bucket/data/users-3") is first
    now[0] = 31.0
    assert dirs.find_parent("s3://bucket/data/users-3") is not first
