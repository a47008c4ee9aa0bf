"""Whose a data directory is."""

from pathlib import Path

from each import each

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
