"""The state file of a run that produces, and the map of offsets beside it."""

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import pytest

from kdump.engine.salvage import state as module
from kdump.engine.salvage.options import default_state
from kdump.engine.salvage.state import PartitionPlan, PartitionProgress, PendingCommit, State
from kdump.errors import RefusedError

WHOLE = {
    "salvage_state": 1,
    "cluster_id": "c",
    "planned": {"orders-0": {"records_count": 9, "paths": ["a", "b"]}},
    "partitions": {
        "orders-0": {"start": 1, "records_count": 2, "next_offset": 3, "is_done": False}
    },
    "afterwards": ["one command"],
    "groups": {"g": {"orders-0": {"before": None, "is_done": True}}},
}


def test_state_round_trip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new" / "state"
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    with State(str(path), "c") as state:
        assert path.parent.stat().st_mode & 0o777 == 0o700
        state.put("orders-0", PartitionProgress(1), now=True)
        state.put("orders-0", PartitionProgress(1, 1))
        now[0] += 0.5
        assert json.loads(path.read_text())["partitions"]["orders-0"]["records_count"] == 0
        state.put("orders-0", PartitionProgress(1, 2, 3))
        assert json.loads(path.read_text())["partitions"]["orders-0"]["records_count"] == 2
        assert [state.plan("orders-0", count, "ab") for count in (9, 9, 8)] == [9, 9, 9]
        state.plan("orders-0", 9, ["later"])
        state.afterwards = ["one command"]
        state.groups = {"g": {"orders-0": PendingCommit(None, is_done=True)}}
        state.save()
        assert state.count_unfinished() == {"orders-0": 7}
    assert json.loads(path.read_text()) == WHOLE
    assert path.read_text().startswith('{\n "salvage_state": 1,\n')
    with State(str(path), "c") as state:
        assert state.planned == {"orders-0": PartitionPlan(9, ("a", "b"))}
        assert state.partitions == {"orders-0": PartitionProgress(1, 2, 3)}
        assert state.groups == {"g": {"orders-0": PendingCommit(None, is_done=True)}}
        assert state.afterwards == ["one command"]
        assert state.plan("orders-0", 10, ["d"]) == 10
        assert state.planned["orders-0"] == PartitionPlan(10, ("d",))
        state.planned |= {"a-0": PartitionPlan(4), "b-0": PartitionPlan(4), "c-0": PartitionPlan(4)}
        state.partitions |= {
            "b-0": PartitionProgress(0, 5),
            "c-0": PartitionProgress(0, 1, 1, is_done=True),
        }
        assert state.count_unfinished() == {"orders-0": 8, "a-0": 4, "b-0": 0}
    assert (PartitionProgress(3), PendingCommit(3)) == (
        PartitionProgress(3, 0, 0, False),
        PendingCommit(3, False),
    )


def test_foreign_state_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state"

    def refused(**more: Any) -> str:
        path.write_text(json.dumps({**WHOLE, **more}))
        with pytest.raises(RefusedError) as caught, State(str(path), "c"):
            pass
        return str(caught.value)

    is_none = f"{path}: is not a salvage state file"
    for wrong in (
        {"salvage_state": 2}, {"partitions": 1}, {"planned": {"a": {}}},
        {"groups": {"g": {"p": {"after": 1}}}}, {"partitions": {"p": {}}}, {"afterwards": 1},
    ):  # fmt: skip
        assert refused(**wrong) == is_none
    assert (
        refused(cluster_id="d")
        == f"{path}: belongs to another cluster, d: use a different --resume file"
    )
    for name in ("planned", "afterwards", "groups"):  # of an older kdump
        path.write_text(json.dumps({key: one for key, one in WHOLE.items() if key != name}))
        with State(str(path), "c") as state:
            assert not getattr(state, name)
    fd = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    assert refused() == f"{tmp_path}: another salvage is using this state file"
    os.close(fd)
    for ending, foreign in (
        ("", '{"other": 1}'), (".offsets.csv", "topic,partition\n"), (".groups.csv", "a,b,c,1\n"),
    ):  # fmt: skip
        path.write_text(json.dumps(WHOLE))
        beside = tmp_path / f"state{ending}"
        beside.write_text(foreign)
        with pytest.raises(RefusedError) as caught:
            State(str(path), "c")
        assert str(caught.value) == (
            f"--resume {beside}: exists and is not an earlier output of this command; name "
            "another file"
        )
        beside.unlink()
    log = tmp_path / "orders-0"
    log.mkdir()
    (log / f"{0:020}.log").touch()
    with pytest.raises(RefusedError, match="is inside a partition directory"):
        State(str(log / "state"), "c")


def test_leftover_state_files_are_removed_without_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(fcntl, "flock", failing)
    halves = [
        tmp_path / f"state{each}{module.OURS}" for each in ("", ".offsets.csv", ".groups.csv")
    ]
    for half in halves:
        half.touch()
    with State(str(tmp_path / "state"), "c") as state:
        assert not any(half.exists() for half in halves)
        state.write(".groups.csv", b"g,orders,0,1\n")
    assert (tmp_path / "state.groups.csv").read_bytes() == b"g,orders,0,1\n"
    State(str(tmp_path / "state"), "c")  # its own files are no others'


def test_offset_ranges_have_no_holes(tmp_path: Path) -> None:
    with State(str(tmp_path / "state"), "c") as state:
        with state.offset_map():
            pass
        assert not any(tmp_path.iterdir())
        with state.offset_map() as found:
            for at in range(3):
                found.add(("a", 0), 10 + at, at)
            for at in range(3):  # after a broker was away
                found.add(("a", 0), 10 + at, at)
            found.add(("a", 0), 13, 3)
            found.add(("a", 0), 15, 4)
            found.add(("a", 1), 16, 0)
            found.add(("b", 0), 0, 0)
            for at in range(1500):
                found.add(("c", 0), 2 * at, at)
            assert not (tmp_path / "state.offsets.csv").exists()
            found.finish()
    lines = (tmp_path / "state.offsets.csv").read_text().splitlines()
    assert lines == [
        "topic,partition,old,new,records_count",
        *("a,0,10,0,4", "a,0,15,4,1", "a,1,16,0,1", "b,0,0,0,1"),
        *(f"c,0,{2 * at},{at},1" for at in range(1500)),
    ]


def test_repeated_command_uses_the_same_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", "/states")
    asked: dict[str, object] = {"produce": "b:9092"}
    one = default_state(["x", "y"], asked)
    folder, _, name = one.rpartition("/")
    assert (folder, name[:8], len(name), name[-5:]) == ("/states/kdump", "salvage-", 29, ".json")
    assert default_state([str(tmp_path / "y"), "x"], {**asked, "rate": 5}) == one
    telling = (
        *("produce", "selection", "from_offset", "to_offset", "names", "server_properties"),
        *("split_batches", "mend_headers"),
    )
    others = {default_state(["x", "y"], {**asked, name: "other"}) for name in telling}
    others |= {default_state(["x"], asked)}
    assert len({one, *others}) == 10
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/me")
    assert default_state(["x", "y"], asked) == f"/me/.local/state/kdump/{name}"
