"""From paths to files: what is a partition, what is a data directory, and in which order."""

import errno
import os
import shutil
from pathlib import Path

import pytest
from each import each

from kdump.errors import KdumpError, NothingToDo, PathError
from kdump.storage.data_directories import data_directories_below, look_below
from kdump.storage.log_dir import LOG_DIRS
from kdump.storage.targets import Selection, Target, data_directories, resolve

EVERYTHING = Selection()


def partition(directory: Path, name: str, *bases: int, suffixes: str = ".log .index") -> Path:
    path = directory / name
    path.mkdir(parents=True)
    for base in bases:
        for suffix in suffixes.split():
            (path / f"{base:020}{suffix}").write_bytes(b"")
    return path


def targets(
    *paths: Path | str, selection: Selection = EVERYTHING, server_properties: Path | None = None
) -> list[Target]:
    settings = None if server_properties is None else str(server_properties)
    found = list(resolve(map(str, paths), selection, settings))
    for item in found:
        if isinstance(item, KdumpError):
            raise item
    return [item for item in found if isinstance(item, Target)]


def named(found: list[Target]) -> list[tuple[str | None, int | None]]:
    return [(target.topic, target.partition) for target in found]


def names_of(target: Target) -> list[str]:
    return [Path(file.path).name for file in target.files]


def test_partition_is_found(tmp_path: Path) -> None:
    path = partition(tmp_path, "a.b-c-12", 0, 70, 9)
    (path / "leader-epoch-checkpoint").write_text("0\n0\n")
    (path / "notes.txt").write_text("")
    (target,) = targets(path)
    assert (target.topic, target.partition, target.whole) == ("a.b-c", 12, True)
    assert target.path == str(path)
    logs = [file for file in target.files if file.path.endswith(".log")]
    assert [(file.name.base_offset, file.next_base, file.active) for file in logs] == [
        (0, 9, False),
        (9, 70, False),
        (70, None, True),
    ]
    assert "leader-epoch-checkpoint" in names_of(target)
    assert "notes.txt" not in names_of(target)


def test_partition_with_another_name_is_found(tmp_path: Path) -> None:
    """A copy keeps its records, whatever it is called."""
    (target,) = targets(partition(tmp_path, "copy of orders", 0))
    assert (target.topic, target.partition) == (None, None)
    assert len(target.files) == 2


def test_paths_are_kept_as_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = partition(tmp_path, "orders-3", 0)
    monkeypatch.chdir(path)
    (target,) = targets(".")
    assert (target.topic, target.partition) == ("orders", 3)
    assert all(file.path.startswith("./") for file in target.files)
    (target,) = targets(f"{0:020}.log")
    assert (target.topic, target.partition) == ("orders", 3)
    assert [file.path for file in target.files] == [f"{0:020}.log"]
    monkeypatch.chdir(tmp_path)
    assert named(targets("orders-3/")) == [("orders", 3)]


def test_file_has_its_neighbors(tmp_path: Path) -> None:
    path = partition(tmp_path, "orders-3", 0, 50, 90)
    (target,) = targets(path / f"{50:020}.log")
    assert not target.whole
    (file,) = target.files
    assert (file.next_base, file.active) == (90, False)
    (target,) = targets(path / f"{90:020}.log")
    assert (target.files[0].next_base, target.files[0].active) == (None, True)


def test_file_outside_a_partition_is_found(tmp_path: Path) -> None:
    path = tmp_path / "anything.bin"
    path.write_bytes(b"")
    (target,) = targets(path)
    assert (target.topic, target.log, len(target.files)) == (None, None, 1)
    assert target.log_dir() is None


def test_data_directory_yields_its_partitions(tmp_path: Path) -> None:
    for name in ("b-10", "b-9", "a-0"):
        partition(tmp_path, name, 0)
    (tmp_path / "meta.properties").write_text("version=1\n")
    (tmp_path / "lost+found").mkdir()
    assert named(targets(tmp_path)) == [("a", 0), ("b", 9), ("b", 10)]
    loose, *rest = resolve([str(tmp_path)], EVERYTHING, loose=True)
    assert isinstance(loose, Target)
    assert (loose.topic, names_of(loose)) == (None, ["meta.properties"])
    assert len(rest) == 3


def test_data_directory_may_be_named_like_a_partition(tmp_path: Path) -> None:
    """Content counts, not names: `data-1` is a common name for a data directory."""
    partition(tmp_path / "data-1", "orders-0", 0)
    assert named(targets(tmp_path / "data-1")) == [("orders", 0)]


def test_empty_directory_may_be_named_like_a_partition(tmp_path: Path) -> None:
    (tmp_path / "orders-4").mkdir()
    assert named(targets(tmp_path / "orders-4")) == [("orders", 4)]


def test_selection_limits_partitions(tmp_path: Path) -> None:
    for name in ("orders-0", "orders-1", "order.lines-1", "users-1"):
        partition(tmp_path, name, 0)
    assert named(targets(tmp_path, selection=Selection("orders"))) == [
        ("orders", 0),
        ("orders", 1),
    ]
    assert named(targets(tmp_path, selection=Selection("order*", 1))) == [
        ("order.lines", 1),
        ("orders", 1),
    ]
    assert named(targets(tmp_path, selection=Selection(None, 0))) == [("orders", 0)]
    assert named(targets(tmp_path, selection=Selection("[ou]*rs", 1))) == [
        ("orders", 1),
        ("users", 1),
    ]


def test_empty_selection_is_reported(tmp_path: Path) -> None:
    partition(tmp_path, "orders-0", 0)
    for path in (tmp_path, tmp_path / "orders-0"):
        (error,) = resolve([str(path)], Selection("nobody", 3))
        assert isinstance(error, NothingToDo)
        assert str(error) == (
            f"no partition under {path} that matches topic 'nobody' and partition 3"
        )
    for selection, words in (
        (Selection(partition=3), " that matches partition 3"),
        (Selection("nobody"), " that matches topic 'nobody'"),
    ):
        (error,) = resolve([str(tmp_path)], selection)
        assert str(error) == f"no partition under {tmp_path}{words}"


def retired_directory(tmp_path: Path) -> Path:
    mark = "0123456789abcdef0123456789abcdef"
    partition(tmp_path, "orders-0", 0, 50)
    for name in (f"gone-0.{mark}-delete", f"moved-1.{mark}-future", f"lost-2.{mark}-stray"):
        partition(tmp_path, name, 0)
    for name in (f"{0:020}.log.deleted", f"{50:020}.log.cleaned", f"{50:020}.index.swap"):
        (tmp_path / "orders-0" / name).write_bytes(b"")
    return tmp_path


def test_retired_files_and_directories_need_the_option(tmp_path: Path) -> None:
    path = retired_directory(tmp_path)
    (target,) = targets(path)
    assert (target.topic, len(target.files)) == ("orders", 4)
    every = targets(path, selection=Selection(retired=True))
    assert sorted(str(target.topic) for target in every) == ["gone", "lost", "moved", "orders"]
    orders = next(target for target in every if target.topic == "orders")
    assert len(orders.files) == 7


def test_named_retired_files_and_directories_are_read(tmp_path: Path) -> None:
    path = retired_directory(tmp_path)
    gone = next(path.glob("gone-*"))
    (target,) = targets(gone)
    assert (target.topic, target.partition, len(target.files)) == ("gone", 0, 2)
    (target,) = targets(path / "orders-0" / f"{0:020}.log.deleted")
    (file,) = target.files
    assert (file.topic, file.active, file.next_base) == ("orders", False, None)


def test_files_know_their_partition(tmp_path: Path) -> None:
    path = partition(retired_directory(tmp_path), "users-7", 0)
    (path / "leader-epoch-checkpoint").write_text("0\n0\n")
    (path / f"{0:020}.log.deleted").write_bytes(b"")
    (target,) = targets(path, selection=Selection(retired=True))
    assert {(file.topic, file.partition) for file in target.files} == {("users", 7)}
    assert {Path(file.path).name: file.active for file in target.files} == {
        f"{0:020}.log": True,
        f"{0:020}.index": True,
        "leader-epoch-checkpoint": False,
        f"{0:020}.log.deleted": False,
    }
    assert all(file.name.name == Path(file.path).name for file in target.files)


def test_files_not_selected_individually(tmp_path: Path) -> None:
    path = partition(tmp_path, "orders-3", 0)
    (target,) = resolve([str(path)], EVERYTHING, listed=False)
    assert isinstance(target, Target)
    assert (target.topic, target.partition, target.files, target.whole) == ("orders", 3, (), True)
    assert target.log is not None
    assert target.path == target.log.path == str(path)


def test_directory_files_need_the_complete_directory(tmp_path: Path) -> None:
    partition(tmp_path, "orders-0", 0)
    for name in ("meta.properties", "notes.txt", "cleaner-offset-checkpoint.tmp", ".lock"):
        (tmp_path / name).write_bytes(b"")
    loose, orders = resolve([str(tmp_path)], EVERYTHING, loose=True)
    assert isinstance(loose, Target)
    assert names_of(loose) == [".lock", "meta.properties"]
    assert loose[:4] == (None, None, str(tmp_path), None)
    assert loose.whole
    assert {file[2:] for file in loose.files} == {(None, None, None, False)}
    assert isinstance(orders, Target)
    for selection in (Selection("orders"), Selection(partition=0)):
        assert named([*resolve([str(tmp_path)], selection, loose=True)]) == [("orders", 0)]  # type: ignore[list-item]
    stray = partition(tmp_path / "d1", "orders-1", 0).parent
    (stray / f"{0:020}.log").write_bytes(b"")
    (stray / "meta.properties").write_bytes(b"")
    several = resolve([str(stray)], EVERYTHING, loose=True)
    assert [isinstance(one, Target) and one.topic for one in several] == [None, "orders"]


def test_partition_has_its_data_directory(tmp_path: Path) -> None:
    (target,) = targets(partition(tmp_path, "orders-0", 0))
    around = target.log_dir()
    assert around is not None
    assert around.path == str(tmp_path)
    gone = target._replace(log=target.log and type(target.log)(f"{tmp_path}/no/orders-0", []))
    assert gone.log_dir() is None


def test_unlistable_partition_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an error; one that vanished between listing and looking is none."""
    partition(tmp_path, "orders-0", 0)
    (tmp_path / "meta.properties").write_bytes(b"")
    path = partition(tmp_path, "users-0", 0)
    listdir = os.listdir

    def denied(at: str) -> list[str]:
        if at == str(path):
            raise PermissionError(errno.EACCES, "Permission denied")
        return listdir(at)

    monkeypatch.setattr(os, "listdir", denied)
    orders, error = resolve([str(tmp_path)], EVERYTHING)
    assert isinstance(orders, Target)
    assert isinstance(error, PathError)
    assert (error.path, error.reason) == (str(path), "Permission denied")
    (alone,) = resolve([str(path)], EVERYTHING)
    assert isinstance(alone, PathError)
    lexists = os.path.lexists
    monkeypatch.setattr(os.path, "lexists", lambda at: at != str(path) and lexists(at))
    assert len([*resolve([str(tmp_path)], EVERYTHING)]) == 1


def test_impossible_name_is_an_error() -> None:
    (error,) = resolve(["a\0b"], EVERYTHING)
    assert isinstance(error, PathError)
    assert error.path == "a\0b"
    (error,) = resolve(["gone"], EVERYTHING)
    assert isinstance(error, PathError)
    assert (error.path, error.reason) == ("gone", "No such file or directory")


def test_bad_path_does_not_stop_the_others(tmp_path: Path) -> None:
    path = partition(tmp_path, "orders-0", 0)
    found = list(resolve([str(tmp_path / "nobody"), str(path)], EVERYTHING))
    assert isinstance(found[0], PathError)
    assert isinstance(found[1], Target)


def test_missing_paths_are_an_error() -> None:
    assert [type(item) for item in resolve([], EVERYTHING)] == [NothingToDo]


def test_link_to_a_partition_is_followed(tmp_path: Path) -> None:
    path = partition(tmp_path, "elsewhere", 0)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "orders-5").symlink_to(path)
    assert named(targets(tmp_path / "data")) == [("orders", 5)]


def test_dangling_link_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "orders-5").symlink_to(tmp_path / "nobody")
    (error,) = resolve([str(tmp_path / "orders-5")], EVERYTHING)
    assert isinstance(error, PathError)


def settings(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(text)
    return path


def test_server_properties(tmp_path: Path) -> None:
    partition(tmp_path / "d1", "orders-0", 0)
    partition(tmp_path / "d2", "orders-1", 0)
    partition(tmp_path / "meta", "__cluster_metadata-0", 0)
    path = settings(
        tmp_path,
        f"# disks\nlog.dirs = {tmp_path}/d1 , {tmp_path}/d2\nlog.dir={tmp_path}/nobody\n"
        f"metadata.log.dir:{tmp_path}/meta\n",
    )
    assert data_directories(str(path)) == [f"{tmp_path}/{name}" for name in ("d1", "d2", "meta")]
    assert named(targets(server_properties=path)) == [
        ("orders", 0),
        ("orders", 1),
        ("__cluster_metadata", 0),
    ]


def test_repeated_directory_in_server_properties_is_read_once(tmp_path: Path) -> None:
    path = settings(tmp_path, "log.dir=/a\nmetadata.log.dir=/a\n")
    assert data_directories(str(path)) == ["/a"]


def test_server_properties_without_a_directory_are_an_error(tmp_path: Path) -> None:
    path = str(settings(tmp_path, "broker.id=1\nlog.dirs=,\n"))
    with pytest.raises(PathError, match="does not set log") as caught:
        data_directories(path)
    assert caught.value.path == path


def test_oversize_server_properties_are_an_error(tmp_path: Path) -> None:
    text = "log.dirs=/a\n"
    assert data_directories(str(settings(tmp_path, text.ljust(1 << 20)))) == ["/a"]
    with pytest.raises(PathError, match="files of this kind"):
        data_directories(str(settings(tmp_path, text.ljust((1 << 20) + 1))))


def test_metadata_snapshot_is_not_a_log(tmp_path: Path) -> None:
    path = partition(tmp_path, "__cluster_metadata-0", 0)
    (path / f"{245:020}-0000000001.checkpoint").write_bytes(b"")
    (target,) = targets(path)
    assert target.files[-1].name.kind.name == "METADATA_SNAPSHOT"
    (tmp_path / "bootstrap.checkpoint").write_bytes(b"")
    (one,) = targets(tmp_path)
    assert one.topic == "__cluster_metadata"


def test_server_properties_with_paths_give_only_settings(tmp_path: Path) -> None:
    partition(tmp_path / "d1", "orders-0", 0)
    partition(tmp_path / "d2", "orders-1", 0)
    path = settings(tmp_path, f"log.dirs={tmp_path}/d1,{tmp_path}/d2\n")
    assert named(targets(tmp_path / "d1", server_properties=path)) == [("orders", 0)]


def test_targets_are_unique(tmp_path: Path) -> None:
    """However it is spelled: through links, as a file of a directory that is named as well."""
    one = partition(tmp_path / "d1", "orders-0", 0, 9)
    partition(tmp_path / "d1", "orders-1", 0)
    (tmp_path / "link").symlink_to(tmp_path / "d1")
    log = one / f"{9:020}.log"
    spelled = [tmp_path / "d1", f"{tmp_path}/d1/", tmp_path / "link", f"{tmp_path}/./d1/orders-0"]
    assert named(targets(*spelled)) == [("orders", 0), ("orders", 1)]
    assert [target.whole for target in targets(log, one)] == [True]
    assert [target.whole for target in targets(tmp_path / "d1", log)] == [True, True]
    assert names_of(targets(log, log)[0]) == [log.name]
    # What the directory would not show is read where it is named.
    retired = one / f"{0:020}.log.deleted"
    retired.write_bytes(b"")
    assert [target.whole for target in targets(one, retired)] == [True, False]
    narrowed = targets(tmp_path / "d1", log, selection=Selection(topic="other"))
    assert [target.whole for target in narrowed] == [False]


@pytest.mark.parametrize("names", [("d1", "d2"), ("kafka-1", "kafka-2"), ("b1/d1", "b2/kafka-0")])
def test_data_directories_below_a_folder_are_found(tmp_path: Path, names: tuple[str, str]) -> None:
    first, second = (tmp_path / name for name in names)
    partition(first, "orders-0", 0)
    second.mkdir(parents=True)
    (second / "meta.properties").write_text("version=1\n")
    partition(second, "users-3", 0)
    (tmp_path / "lost+found").mkdir()
    assert named(targets(tmp_path)) == [("orders", 0), ("users", 3)]
    assert data_directories_below(str(tmp_path)) == [str(first), str(second)]
    for path in (first, first / "orders-0", first / "orders-0" / f"{0:020}.log"):
        assert data_directories_below(str(path)) == []


def test_data_directories_are_found_at_any_depth(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b" / "c" / "d" / "e"
    partition(deep, "orders-0", 0)
    partition(tmp_path / "f", "a copy", 0)
    copy = tmp_path / "f" / "a copy"
    assert data_directories_below(str(tmp_path)) == [str(deep), str(copy)]
    assert named(targets(tmp_path)) == [("orders", 0), (None, None)]


@each(
    "mark",
    [
        "meta.properties",
        "log-start-offset-checkpoint",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
    ],
)
def test_data_directory_without_partitions_is_recognized_by_a_file(
    tmp_path: Path, mark: str
) -> None:
    (tmp_path / "d1").mkdir()
    (tmp_path / "d2").mkdir()
    (tmp_path / "d2" / mark).write_bytes(b"")
    (tmp_path / "d3" / "orders-0").mkdir(parents=True)  # holds no segment
    assert data_directories_below(str(tmp_path)) == [str(tmp_path / "d2")]
    assert data_directories_below(str(tmp_path / "d2")) == []
    assert data_directories_below(str(tmp_path / "d2" / mark)) == []
    assert data_directories_below(str(tmp_path / "gone")) == []


def test_unlistable_folders_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        partition(tmp_path / name, "orders-0", 0)
    scandir = os.scandir

    def denied(at: str) -> object:
        if at == str(tmp_path / "b"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return scandir(at)

    monkeypatch.setattr(os, "scandir", denied)
    below = look_below(str(tmp_path))
    assert below.found == [str(tmp_path / "a"), str(tmp_path / "c")]
    (error,) = below.unsearched
    words = f"{tmp_path}/b: was not searched for data directories: Permission denied"
    assert str(error) == words
    found = list(resolve([str(tmp_path)], EVERYTHING))
    assert [isinstance(one, Target) for one in found] == [False, True, True]
    assert str(found[0]) == words


def test_links_to_other_directories_are_reported_not_followed(tmp_path: Path) -> None:
    partition(tmp_path / "elsewhere", "orders-0", 0)
    partition(tmp_path / "here" / "d1", "users-0", 0)
    (tmp_path / "here" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "here" / "loop").symlink_to(tmp_path / "here")
    (tmp_path / "here" / "again").symlink_to("d1")
    (tmp_path / "here" / "dangling").symlink_to("gone")
    below = look_below(str(tmp_path / "here"))
    assert below.found == [str(tmp_path / "here" / "d1")]
    (error,) = map(str, below.unsearched)
    assert error.startswith(f"{tmp_path}/here/link: was not searched")


def test_remote_storage_is_reported_once(tmp_path: Path) -> None:
    partition(tmp_path / "d1", "users-0", 0)
    for name in ("orders-0-LWgrMmVrT0a__7a4SasuPA", "orders-1-LWgrMmVrT0a__7a4SasuPA"):
        folder = tmp_path / "tier" / name
        folder.mkdir(parents=True)
        (folder / f"{0:020}-bCqX9UaaSb6U8XUM9II25Q.log").write_bytes(b"")
    below = look_below(str(tmp_path))
    assert below == ([str(tmp_path / "d1")], [], [str(tmp_path / "tier")])
    shutil.rmtree(tmp_path / "d1")
    (error,) = map(str, look_below(str(tmp_path)).unsearched)
    assert error.startswith(f"{tmp_path}/tier: was not searched for data directories: it is remote")


def test_bounded_search_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10):
        (tmp_path / f"{number:04}").mkdir()
    partition(tmp_path / "0003", "orders-0", 0)
    monkeypatch.setattr("kdump.storage.data_directories._FOLDERS", 6)
    below = look_below(str(tmp_path))
    assert below.found == [str(tmp_path / "0003")]
    (error,) = map(str, below.unsearched)
    assert "0005: was not searched" in error
    assert "after 6 directories" in error
    assert "nor were 4 others" in error


def test_retired_directories_are_reported_if_alone(tmp_path: Path) -> None:
    partition(tmp_path, f"orders-0.{'0' * 32}-delete", 0)
    partition(tmp_path, f"orders-1.{'0' * 32}-stray", 0)
    (error,) = resolve([str(tmp_path)], EVERYTHING)
    words = f"; orders-0.{'0' * 32}-delete and 1 more can be read with --retired"
    assert str(error).endswith(words)
    (error,) = resolve([str(tmp_path)], Selection(topic="users"))
    assert "--retired" not in str(error)
    (error,) = resolve([str(tmp_path)], Selection(partition=1))
    assert str(error).endswith(
        f" that matches partition 1; orders-1.{'0' * 32}-stray can be read with --retired"
    )


def test_nothing_is_kept_of_what_an_earlier_run_saw(tmp_path: Path) -> None:
    data = tmp_path / "data"
    partition(data, "a-0", 0)
    assert LOG_DIRS.find_parent(str(data / "a-0")) is not None
    assert LOG_DIRS._known
    targets(partition(tmp_path / "other", "b-0", 0))
    assert str(data) not in LOG_DIRS._known
