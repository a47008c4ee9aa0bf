"""From paths to files: what is a partition, what is a data directory, and in which order."""

from pathlib import Path

import pytest

from kdump.errors import KdumpError, NothingToDo, PathError
from kdump.storage.data_directories import data_directories_below
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


def test_a_partition(tmp_path: Path) -> None:
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


def test_a_partition_by_another_name(tmp_path: Path) -> None:
    """A copy keeps its records, whatever it is called."""
    (target,) = targets(partition(tmp_path, "copy of orders", 0))
    assert (target.topic, target.partition) == (None, None)
    assert len(target.files) == 2


def test_paths_stay_as_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_file_knows_its_neighbours(tmp_path: Path) -> None:
    path = partition(tmp_path, "orders-3", 0, 50, 90)
    (target,) = targets(path / f"{50:020}.log")
    assert not target.whole
    (file,) = target.files
    assert (file.next_base, file.active) == (90, False)
    (target,) = targets(path / f"{90:020}.log")
    assert (target.files[0].next_base, target.files[0].active) == (None, True)


def test_a_file_outside_a_partition(tmp_path: Path) -> None:
    path = tmp_path / "anything.bin"
    path.write_bytes(b"")
    (target,) = targets(path)
    assert (target.topic, target.log, len(target.files)) == (None, None, 1)
    assert target.log_dir() is None


def test_a_data_directory(tmp_path: Path) -> None:
    for name in ("b-10", "b-9", "a-0"):
        partition(tmp_path, name, 0)
    (tmp_path / "meta.properties").write_text("version=1\n")
    (tmp_path / "lost+found").mkdir()
    assert named(targets(tmp_path)) == [("a", 0), ("b", 9), ("b", 10)]
    loose, *rest = resolve([str(tmp_path)], EVERYTHING, loose=True)
    assert isinstance(loose, Target)
    assert (loose.topic, names_of(loose)) == (None, ["meta.properties"])
    assert len(rest) == 3


def test_a_data_directory_that_is_called_like_a_partition(tmp_path: Path) -> None:
    """Content counts, not names: `data-1` is a common name for a data directory."""
    partition(tmp_path / "data-1", "orders-0", 0)
    assert named(targets(tmp_path / "data-1")) == [("orders", 0)]


def test_an_empty_directory_called_like_a_partition(tmp_path: Path) -> None:
    (tmp_path / "orders-4").mkdir()
    assert named(targets(tmp_path / "orders-4")) == [("orders", 4)]


def test_a_selection(tmp_path: Path) -> None:
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


def test_a_selection_that_matches_nothing_says_so(tmp_path: Path) -> None:
    partition(tmp_path, "orders-0", 0)
    for path in (tmp_path, tmp_path / "orders-0"):
        (error,) = resolve([str(path)], Selection("nobody", 3))
        assert isinstance(error, NothingToDo)
        assert "'nobody'" in str(error)
        assert "partition 3" in str(error)


def retired_directory(tmp_path: Path) -> Path:
    mark = "0123456789abcdef0123456789abcdef"
    partition(tmp_path, "orders-0", 0, 50)
    for name in (f"gone-0.{mark}-delete", f"moved-1.{mark}-future", f"lost-2.{mark}-stray"):
        partition(tmp_path, name, 0)
    for name in (f"{0:020}.log.deleted", f"{50:020}.log.cleaned", f"{50:020}.index.swap"):
        (tmp_path / "orders-0" / name).write_bytes(b"")
    return tmp_path


def test_retired_files_and_directories_only_when_asked_for(tmp_path: Path) -> None:
    path = retired_directory(tmp_path)
    (target,) = targets(path)
    assert (target.topic, len(target.files)) == ("orders", 4)
    every = targets(path, selection=Selection(retired=True))
    assert sorted(str(target.topic) for target in every) == ["gone", "lost", "moved", "orders"]
    orders = next(target for target in every if target.topic == "orders")
    assert len(orders.files) == 7


def test_retired_files_and_directories_when_named(tmp_path: Path) -> None:
    path = retired_directory(tmp_path)
    gone = next(path.glob("gone-*"))
    (target,) = targets(gone)
    assert (target.topic, target.partition, len(target.files)) == ("gone", 0, 2)
    (target,) = targets(path / "orders-0" / f"{0:020}.log.deleted")
    (file,) = target.files
    assert (file.topic, file.active, file.next_base) == ("orders", False, None)


def test_one_bad_path_among_good_ones(tmp_path: Path) -> None:
    path = partition(tmp_path, "orders-0", 0)
    found = list(resolve([str(tmp_path / "nobody"), str(path)], EVERYTHING))
    assert isinstance(found[0], PathError)
    assert isinstance(found[1], Target)


def test_no_path_at_all() -> None:
    assert [type(item) for item in resolve([], EVERYTHING)] == [NothingToDo]


def test_a_link_to_a_partition(tmp_path: Path) -> None:
    path = partition(tmp_path, "elsewhere", 0)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "orders-5").symlink_to(path)
    assert named(targets(tmp_path / "data")) == [("orders", 5)]


def test_a_link_that_leads_nowhere(tmp_path: Path) -> None:
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


def test_server_properties_name_a_directory_twice(tmp_path: Path) -> None:
    path = settings(tmp_path, "log.dir=/a\nmetadata.log.dir=/a\n")
    assert data_directories(str(path)) == ["/a"]


def test_server_properties_without_a_directory(tmp_path: Path) -> None:
    with pytest.raises(PathError, match="names no data directory"):
        data_directories(str(settings(tmp_path, "broker.id=1\n")))


def test_a_snapshot_of_the_metadata_log_is_no_log_of_the_partition(tmp_path: Path) -> None:
    path = partition(tmp_path, "__cluster_metadata-0", 0)
    (path / f"{245:020}-0000000001.checkpoint").write_bytes(b"")
    (target,) = targets(path)
    assert target.files[-1].name.kind.name == "METADATA_SNAPSHOT"
    (tmp_path / "bootstrap.checkpoint").write_bytes(b"")
    (one,) = targets(tmp_path)
    assert one.topic == "__cluster_metadata"


def test_server_properties_beside_paths_give_settings_only(tmp_path: Path) -> None:
    partition(tmp_path / "d1", "orders-0", 0)
    partition(tmp_path / "d2", "orders-1", 0)
    path = settings(tmp_path, f"log.dirs={tmp_path}/d1,{tmp_path}/d2\n")
    assert named(targets(tmp_path / "d1", server_properties=path)) == [("orders", 0)]


def test_nothing_is_read_twice(tmp_path: Path) -> None:
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
def test_data_directories_below_a_folder(tmp_path: Path, names: tuple[str, str]) -> None:
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


def test_data_directories_three_levels_below_are_not_looked_for(tmp_path: Path) -> None:
    partition(tmp_path / "a" / "b" / "c", "orders-0", 0)
    (error,) = resolve([str(tmp_path)], EVERYTHING)
    assert isinstance(error, NothingToDo)


def test_what_is_retired_is_named_where_there_is_nothing_else(tmp_path: Path) -> None:
    partition(tmp_path, f"orders-0.{'0' * 32}-delete", 0)
    partition(tmp_path, f"orders-1.{'0' * 32}-stray", 0)
    (error,) = resolve([str(tmp_path)], EVERYTHING)
    words = f"; orders-0.{'0' * 32}-delete and 1 more would be read with --retired"
    assert str(error).endswith(words)
    (error,) = resolve([str(tmp_path)], Selection(topic="users"))
    assert "--retired" not in str(error)
