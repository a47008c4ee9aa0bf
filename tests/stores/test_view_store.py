"""Views of what was unpacked, in the process that unpacked it and in others."""

import os
from pathlib import Path

import pytest

from kdump.errors import StoreError
from kdump.stores import view_store
from kdump.stores.unpacking import Unpacker
from kdump.stores.view_store import TABLE, Member, ViewStore, root_of


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(TABLE, "")  # it is as before when the test is over
    (tmp_path / "file").write_bytes(b"12345")
    found = root_of(str(tmp_path / "archive"))
    unpacker = Unpacker(str(tmp_path), None, lambda total: None)
    unpacker.publish(found, {"a/b": Member(str(tmp_path / "file"), 1, 3)}, ())
    return found


def test_view_is_listed_and_read(root: str) -> None:
    store = ViewStore(root)
    assert [name for name, _ in store.entries("")] == ["a"]
    assert [name for name, _ in store.entries("a")] == ["b"]
    assert store.open(store.at("a/b")).read_at(0, 9) == b"234"
    assert not store.is_replaced
    for missing in (lambda: store.entries("no"), lambda: store.open("a")):
        with pytest.raises(FileNotFoundError):
            missing()
    with pytest.raises(NotADirectoryError):
        store.entries("a/b")


def test_other_process_knows_a_view_by_the_table(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = os.environ[TABLE]
    monkeypatch.setattr(view_store, "_views", {})
    monkeypatch.delenv(TABLE)
    with pytest.raises(StoreError, match="is known only to the process that opened it"):
        ViewStore(root)
    monkeypatch.setenv(TABLE, table)
    assert ViewStore(root).status("a/b") is not None
