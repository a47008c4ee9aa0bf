"""Whatever a crash leaves of a salvage: result and manifest are there whole, or not at all."""

from pathlib import Path

import pytest
from comparing import batches, replica
from crash_states import Tree

from kdump import writing
from kdump.engine.salvage.options import SalvageOptions
from kdump.engine.salvage.run import salvage
from kdump.errors import RefusedError
from kdump.storage.names import OURS


def test_all_files_are_flushed_before_the_result_is_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, out = replica(tmp_path, "one", batches(0, 50)), tmp_path / "out"
    put: list[str] = []

    def look(tree: Tree, name: str, other: str) -> None:
        if other.startswith(out.name):  # the result, its manifest and its page
            assert tree.waits(tmp_path if other == out.name else tmp_path / name) == []
            put.append(other)

    tree = Tree(look)
    monkeypatch.setattr(writing, "_os", tree)
    list(salvage([str(one)], SalvageOptions(out=str(out))))
    assert put == ["out.manifest.json", "out.manifest.txt", "out"]
    assert tree.waits(tmp_path) == [], "what was reported done may be undone by a crash"
    assert not list(tmp_path.glob(f"**/*{OURS}"))
    assert len(tree.calls) > 60


def test_result_inside_a_source_is_refused(tmp_path: Path) -> None:
    one = replica(tmp_path, "one", batches(0, 50))
    source = next(path for path in (one, *one.iterdir()) if path.name.endswith("-0"))
    copy = tmp_path / "saved"
    copy.mkdir()
    for log in source.glob("*.log"):
        (copy / log.name).write_bytes(log.read_bytes())
    before = sorted(copy.rglob("*"))
    for out in (copy, copy / "out"):
        out.mkdir(exist_ok=True)
        with pytest.raises(RefusedError, match=r"is not empty|is inside the partition itself"):
            list(salvage([str(source), str(copy)], SalvageOptions(out=str(out))))
    assert sorted(copy.rglob("*")) == sorted([*before, copy / "out"])
