"""Directories of tiered storage, as partitions."""

from pathlib import Path

import pytest

from kdump.storage.tiered import tiered_members

ID = "rraOOnGkTwyqNubAoHVjnQ"


@pytest.mark.parametrize("name", ["leader_epoch_checkpoint", "leader-epoch-checkpoint"])
def test_epochs_are_those_beside_the_last_segment(tmp_path: Path, name: str) -> None:
    """LocalTieredStorage spells the file with underscores, Aiven's plugin as a broker does."""
    folder = tmp_path / f"orders-0-{ID}"
    folder.mkdir()
    for base in (0, 640):
        (folder / f"{base:020}-{ID}.log").write_bytes(b"")
        (folder / f"{base:020}-{ID}.{name}").write_text(f"0\n1\n0 {base}\n")
    found = tiered_members(str(tmp_path))
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
