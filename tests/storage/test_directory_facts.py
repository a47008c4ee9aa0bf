"""Whose a data directory is."""

import os
from pathlib import Path

import pytest
from each import each

from kdump.storage import directory_facts
from kdump.storage.directory_facts import DirectoryFacts, facts_of, owner_of


@each(
    ("text", "owner"),
    [
        ("version=1\nnode.id=3\ncluster.id=abc\n", ("3", "abc")),
        ("version=0\nbroker.id=4\n", ("4", None)),
        ("version=1\nnode.id=3\nbroker.id=4\n", ("3", None)),
        ("", (None, None)),
        ("node.id=3\n".ljust(1 << 20), ("3", None)),
        ("node.id=3\n".ljust((1 << 20) + 1), (None, None)),  # too large to be one
    ],
)
def test_node_and_cluster(tmp_path: Path, text: str, owner: tuple[str | None, str | None]) -> None:
    (tmp_path / "meta.properties").write_text(text)
    assert owner_of(str(tmp_path)) == owner


def test_facts_of_a_directory(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=3\ncluster.id=abc\n")
    assert facts_of(str(tmp_path)) == DirectoryFacts(str(tmp_path), "3", "abc", False)


def test_facts_of_an_empty_directory(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    assert facts_of(gone)[:3] == (gone, None, None)


def test_no_lock_is_checked_in_a_store(tmp_path: Path) -> None:
    assert facts_of(f"file://{tmp_path}").locked is None


def test_unchanged_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    real = directory_facts.read_whole
    monkeypatch.setattr(
        directory_facts, "read_whole", lambda path, most: read.append(path) or real(path, most)
    )
    file = tmp_path / "meta.properties"
    for text in ("node.id=1", "node.id=2"):
        file.write_text(text)
        os.utime(file, (1, int(text[-1])))
        assert [owner_of(str(tmp_path)) for _ in range(3)] == [(text[-1], None)] * 3
    assert read == [str(file)] * 2


def test_file_that_changed_just_now_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "meta.properties"
    for text in ("node.id=1", "node.id=2"):
        file.write_text(text)
        os.utime(file, (1 << 33, 1 << 33))  # a time that is not past
        assert owner_of(str(tmp_path)) == (text[-1], None)
