"""Directories of tiered storage, as partitions."""

import os
from pathlib import Path

import pytest

from kdump.storage.tier_layout import find_tiered_members

ID = "rraOOnGkTwyqNubAoHVjnQ"


@pytest.mark.parametrize("name", ["leader_epoch_checkpoint", "leader-epoch-checkpoint"])
def test_epochs_come_from_the_last_segment(tmp_path: Path, name: str) -> None:
    """LocalTieredStorage spells the file with underscores, Aiven's plugin as a broker does."""
    folder = tmp_path / f"orders-0-{ID}"
    folder.mkdir()
    for base in (0, 640):
        (folder / f"{base:020}-{ID}.log").write_bytes(b"")
        (folder / f"{base:020}-{ID}.{name}").write_text(f"0\n1\n0 {base}\n")
    found = find_tiered_members(str(tmp_path))
    assert found is not None
    members, older, problems = found
    epochs = members["orders-0/leader-epoch-checkpoint"]
    assert Path(epochs.file).name == f"{640:020}-{ID}.{name}"
    assert sorted(members) == [
        f"orders-0/{0:020}.log",
        f"orders-0/{640:020}.log",
        "orders-0/leader-epoch-checkpoint",
    ]
    assert older == problems == []


def test_metadata_decides_between_two_segments(tmp_path: Path) -> None:
    """Without it the one with more of its objects; never the newer file."""
    folder = tmp_path / f"orders-0-{ID}"
    folder.mkdir()
    ids = [letter * 22 for letter in "abc"]
    for segment, kinds, size in ((0, "log index timeindex snapshot", 5), (1, "log", 9)):
        for kind in kinds.split():
            (folder / f"{0:020}-{ids[segment]}.{kind}").write_bytes(bytes(size))
    (folder / f"{7:020}-{ids[2]}.log").write_bytes(b"half")
    for known, chosen in ((frozenset[str](), ids[0]), (frozenset({ids[1]}), ids[1])):
        found = find_tiered_members(str(tmp_path), known.copy)
        assert found is not None
        members, others, _ = found
        assert Path(members[f"orders-0/{0:020}.log"].file).name == f"{0:020}-{chosen}.log"
        assert len(others) == 1 + (chosen == ids[0])
        snapshots = {name for name in members if name.endswith("snapshot")}
        assert not snapshots
    for kind in ("index", "timeindex", "snapshot"):
        (folder / f"{7:020}-{ids[2]}.{kind}").write_bytes(b"")
    found = find_tiered_members(str(tmp_path))
    assert found is not None
    # A snapshot has the state at the end of its segment, where the next one begins.
    assert Path(found[0][f"orders-0/{7:020}.snapshot"].file).name.startswith(f"{0:020}-{ids[0]}")


def test_entries_that_are_no_files_are_skipped(tmp_path: Path) -> None:
    """What cannot be read of a folder costs nothing else in it."""
    folder = tmp_path / f"orders-0-{ID}"
    folder.mkdir()
    for base in range(8):
        at = folder / f"{base:020}-{ID}.log"
        match base % 4:
            case 0:
                os.mkfifo(at)
            case 1:
                at.symlink_to("nowhere")
            case _:
                at.write_bytes(b"")
    found = find_tiered_members(str(tmp_path))
    assert found is not None
    members, _, problems = found
    assert sorted(members) == [f"orders-0/{base:020}.log" for base in (2, 3, 6, 7)]
    assert sum(one.endswith("was skipped: it is not a regular file") for one in problems) == 2
    assert sum(one.endswith("was skipped: No such file or directory") for one in problems) == 2


def test_folder_that_cannot_be_listed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        folder = tmp_path / f"orders-{number}-{ID}"
        folder.mkdir()
        (folder / f"{0:020}-{ID}.log").write_bytes(b"")
    scan = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith(f"orders-1-{ID}"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found = find_tiered_members(str(tmp_path))
    assert found is not None
    assert list(found[0]) == [f"orders-0/{0:020}.log"]
    assert found[2] == [f"orders-1-{ID} was not searched: Permission denied"]
