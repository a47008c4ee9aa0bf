"""What is asked about a path gets the same answer on this machine and in a store."""

import os
from pathlib import Path

import pytest

from kdump.storage import places
from kdump.stores import opening

pytest.importorskip("pyarrow", reason="PyArrow is not installed")


@pytest.fixture(params=["", "file://"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Give a directory with two files and a folder, as a path and as a URI."""
    directory = tmp_path / "data"
    (directory / "orders-0").mkdir(parents=True)
    (directory / "a.log").write_bytes(b"12345")
    (directory / "b.log").touch()
    return f"{request.param}{directory}"


def test_status_of_a_path(root: str) -> None:
    kinds = {}
    for name in ("orders-0", "a.log", "gone"):
        at = f"{root}/{name}"
        kinds[name] = (places.isdir(at), places.isfile(at), places.lexists(at))
    assert kinds == {
        "orders-0": (True, False, True),
        "a.log": (False, True, True),
        "gone": (False, False, False),
    }


def test_sizes(root: str) -> None:
    assert places.getsize(f"{root}/a.log") == places.stat(f"{root}/a.log").st_size == 5
    assert places.size_or_zero(f"{root}/a.log") == 5
    assert places.size_or_zero(f"{root}/gone") == 0
    assert places.size_or_zero("b.log\0") == 0
    with pytest.raises(FileNotFoundError):
        places.getsize(f"{root}/gone")


def test_entries_of_a_directory(root: str) -> None:
    assert sorted(places.listdir(root)) == ["a.log", "b.log", "orders-0"]
    found = {entry.name: places.is_dir(entry) for entry in places.entries(root)}
    assert found == {"a.log": False, "b.log": False, "orders-0": True}
    with pytest.raises(FileNotFoundError):
        places.listdir(f"{root}/gone")


def test_entry_of_unknown_type_is_not_a_directory() -> None:
    class Loop:
        def is_dir(self) -> bool:
            raise OSError

    assert not places.is_dir(Loop())  # type: ignore[arg-type]


def test_each_place_has_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    assert places.absolute("link/") == f"{tmp_path}/link"
    assert places.real("link/.") == f"{tmp_path.resolve()}/data"
    assert places.parent("link/") == str(tmp_path)
    assert places.parent("/") == "/"
    assert places.absolute("file:///a/./b/") == places.real("file:///a/b") == "file:///a/b"


def test_stores_with_reliable_file_times_are_known() -> None:
    assert places.keeps_times("/data/orders-0")
    for scheme in ("file", "sftp", "ssh"):
        assert places.keeps_times(f"{scheme}://host/orders-0")
    for scheme in ("s3", "hdfs", "http"):
        assert not places.keeps_times(f"{scheme}://host/orders-0")


def test_open_stores_are_recognized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_open", {})
    assert not places.is_any_store_open()
    places.isdir(str(tmp_path))
    assert not places.is_any_store_open()
    places.isdir(f"file://{tmp_path}")
    assert places.is_any_store_open()
    monkeypatch.setattr(os, "getpid", lambda: -1)  # a fork of the process that opened it
    assert not places.is_any_store_open()


def test_file_missing_in_a_store(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="No such file"):
        places.status_in_store(f"file://{tmp_path}/gone")
    with pytest.raises(OSError, match="No such file"):
        places.open_in_store(f"file://{tmp_path}/gone")
