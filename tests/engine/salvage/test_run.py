"""What a salvage takes from copies that differ, what it names, and what it refuses."""

import fcntl
import json
import os
import shutil
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import builders
import damage
import pytest
from comparing import Item, batches, replica, rewrite_record
from salvaging import build_salvage, data_of, epochs_file, items_of, remove_batches, row_of

from kdump import writing
from kdump.engine.salvage import run
from kdump.engine.salvage.manifest import check
from kdump.engine.salvage.options import SalvageOptions, read_topic_map
from kdump.engine.salvage.run import salvage
from kdump.engine.work.pace import Progress
from kdump.errors import KdumpError, PathError, RefusedError
from kdump.findings.finding import Finding
from kdump.findings.rows import Row
from kdump.storage.names import OURS

LOG = batches(0, 50)
WATERMARK = {"replication-offset-checkpoint": "0\n1\norders 0 50\n"}
META = "version=1\nnode.id=1\ncluster.id=abc\n"
ID, OTHER_ID = "A" * 21 + "B", "A" * 21 + "C"


# What is taken -----------------------------------------------------------------------------------


def test_copies_complement_each_other(tmp_path: Path) -> None:
    one = replica(tmp_path, "one", remove_batches(LOG, 2, 3))
    two = replica(tmp_path, "two", remove_batches(LOG, 7))
    fields, data = build_salvage(tmp_path, one, two)
    assert data == data_of(LOG)
    assert (fields["lost"], fields["severity"], fields["records_count"]) == ([], None, 50)
    assert [each["offsets"] for each in fields["from"]] == [[[0, 9], [35, 49]], [[10, 34]]]


def test_records_in_no_copy_are_lost(tmp_path: Path) -> None:
    one = replica(tmp_path, "one", remove_batches(LOG, 2, 3))
    two = replica(tmp_path, "two", remove_batches(LOG, 3, 4))
    fields, data = build_salvage(tmp_path, one, two)
    assert data == data_of(LOG[:3] + LOG[4:])
    assert (fields["lost"], fields["severity"]) == ([[15, 19]], "damage")


def test_log_end_comes_from_a_watermark(tmp_path: Path) -> None:
    one = replica(tmp_path, "one", LOG[:8], files=WATERMARK)
    assert row_of(one)["lost"] == [[40, 49]]


def test_log_end_is_unknown_after_unreadable_bytes(tmp_path: Path) -> None:
    one = replica(tmp_path, "one", remove_batches(LOG, 9))
    assert row_of(one)["lost"] == [[45, None]]


def test_retired_directories_and_files_are_copies(tmp_path: Path) -> None:
    name = f"orders-0.{'0' * 32}-delete"
    one = replica(tmp_path, "one", LOG, segments=(0, 4), partition=name)
    (one / name / f"{0:020}.log").rename(one / name / f"{0:020}.log.deleted")
    fields, data = build_salvage(tmp_path, one)
    assert data == data_of(LOG)
    assert [each["path"][-12:] for each in fields["from"]] == [".log.deleted", f"{'0' * 5}-delete"]


def test_log_alone_is_a_copy_of_the_only_partition(tmp_path: Path) -> None:
    one = replica(tmp_path, "one", remove_batches(LOG, 2))
    apart = tmp_path / f"{0:020}.log"
    apart.write_bytes(data_of(LOG[:4]))
    assert row_of(one, apart)["lost"] == []


def test_metadata_log_is_left_out(tmp_path: Path) -> None:
    one = replica(tmp_path, "one", LOG, partition="__cluster_metadata-0")
    (error,) = items_of(one)
    assert isinstance(error, PathError)
    (one / "__cluster_metadata-0").rename(replica(tmp_path, "two", LOG) / "__cluster_metadata-0")
    assert row_of(tmp_path / "two")["topic"] == "orders"


def test_complete_batch_of_an_uncompacted_copy_is_taken(tmp_path: Path) -> None:
    thin = [each._replace(items=each.items[-1:]) for each in LOG[:4]]
    one = replica(tmp_path, "one", [*thin[:2], *LOG[4:]])
    two = replica(tmp_path, "two", remove_batches(LOG, 3))
    fields, data = build_salvage(tmp_path, one, two)
    assert data == data_of(LOG[:3] + LOG[4:])
    assert fields["conflicts"] == []
    assert fields["lost"] == []  # the cleaner of the first copy took what the second has broken


def test_from_and_to_limit_offsets(tmp_path: Path) -> None:
    one = replica(tmp_path, "one", remove_batches(LOG, 0, 9))
    fields, data = build_salvage(tmp_path, one, from_offset=12, to_offset=30)
    assert data == data_of(LOG[2:6])
    assert fields["lost"] == []
    start = (tmp_path / "out/log-start-offset-checkpoint").read_text()
    assert start == "0\n1\norders 0 12\n"


def test_settings_decide_the_segment_size(tmp_path: Path) -> None:
    settings = tmp_path / "server.properties"
    settings.write_text(f"log.segment.bytes={len(data_of(LOG[-3:]))}\n")
    one = replica(tmp_path, "one", LOG)
    _, data = build_salvage(tmp_path, one, server_properties=str(settings))
    assert data == data_of(LOG)
    names = sorted(path.name for path in (tmp_path / "out/orders-0").glob("*.log"))
    assert names == [f"{base:020}.log" for base in (0, 15, 30, 45)]


def test_messages_of_old_formats_are_kept(tmp_path: Path) -> None:
    wrappers = [
        builders.wrapper([builders.message(n) for n in range(2)], base + 1)
        for base in range(0, 20, 2)
    ]
    one = replica(tmp_path, "one", [*wrappers[:4], damage.flip_bit(wrappers[4], 40, 1)], start=0)
    two = replica(tmp_path, "two", [damage.flip_bit(wrappers[0], 40, 1), *wrappers[1:]], start=0)
    fields, data = build_salvage(tmp_path, one, two, broker_version=(0, 10, 2))
    assert data == b"".join(wrappers)
    assert (fields["records_count"], fields["lost"]) == (20, [])
    names = {path.suffix for path in (tmp_path / "out/orders-0").iterdir()}
    assert names == {".log", ".index", ".timeindex"}


# Histories ---------------------------------------------------------------------------------------


def test_records_truncated_by_a_newer_leader_diverged(tmp_path: Path) -> None:
    newer = [*LOG[:6], *batches(30, 45, epoch=4)]
    one = replica(tmp_path, "one", LOG)
    two = replica(tmp_path, "two", newer)
    fields, data = build_salvage(tmp_path, one, two)
    assert data == data_of(newer)
    assert fields["diverged"] == [{"path": str(one / "orders-0"), "offsets": [[30, 49]]}]
    assert (fields["conflicts"], fields["severity"]) == ([], None)


def test_longest_or_a_path_may_lead(tmp_path: Path) -> None:
    newer = [*LOG[:6], *batches(30, 45, epoch=4)]
    one = replica(tmp_path, "one", LOG)
    two = replica(tmp_path, "two", newer)
    assert row_of(one, two, prefer="longest")["last_offset"] == 49
    assert row_of(one, two, prefer=str(one))["last_offset"] == 49
    assert row_of(one, two, prefer="newest-epoch")["last_offset"] == 44


def test_checkpoint_gives_the_epoch_of_a_broken_batch(tmp_path: Path) -> None:
    """The leader's first batches of its epoch are broken; another copy has older ones there."""
    newer = [*LOG[:6], *batches(30, 45, epoch=4)]
    files = epochs_file((3, 0), (4, 30))
    one = replica(tmp_path, "one", LOG)
    two = replica(tmp_path, "two", remove_batches(newer, 6), files=files)
    fields = row_of(one, two)
    assert fields["lost"] == [[30, 34]]
    assert fields["diverged"][0]["offsets"] == [[30, 49]]


def test_changed_epoch_byte_makes_no_history(tmp_path: Path) -> None:
    odd = LOG[9]._replace(epoch=1 << 24)
    one = replica(tmp_path, "one", [*LOG[:9], odd])
    two = replica(tmp_path, "two", remove_batches(LOG, 3))
    three = replica(tmp_path, "three", LOG[:9])
    fields, data = build_salvage(tmp_path, one, two, three)
    assert data == data_of(LOG)
    assert fields["diverged"] == []


def test_different_records_in_one_epoch_are_a_conflict(tmp_path: Path) -> None:
    other = rewrite_record(LOG[4], 22, b"other")
    one = replica(tmp_path, "one", LOG)
    two = replica(tmp_path, "two", [*LOG[:4], other, *LOG[5:9]])
    fields = row_of(one, two)
    paths = sorted(str(path / "orders-0") for path in (one, two))
    assert fields["conflicts"] == [{"from": 22, "to": 22, "paths": paths, "chosen": None}]
    assert fields["severity"] == "damage"
    with pytest.raises(RefusedError, match="--prefer"):
        build_salvage(tmp_path, one, two)
    assert not (tmp_path / "out").exists()
    fields, data = build_salvage(tmp_path, one, two, prefer=str(two))
    assert data == data_of([*LOG[:4], other, *LOG[5:]])
    assert fields["conflicts"][0]["chosen"] == str(two / "orders-0")
    assert fields["severity"] is None


def test_batch_at_another_offset_is_used_once(tmp_path: Path) -> None:
    """The offset field of a last batch was changed, which no checksum covers."""
    moved = LOG[9]._replace(base=1069, last=1073, items=tuple(
        Item(one.offset + 1024, *one[1:]) for one in LOG[9].items
    ))  # fmt: skip
    one = replica(tmp_path, "one", [*LOG[:9], moved])
    two = replica(tmp_path, "two", LOG)
    fields, data = build_salvage(tmp_path, one, two)
    assert data == data_of(LOG)
    assert fields["lost"] == []


# Names and ids -----------------------------------------------------------------------------------


def test_topic_ids_distinguish_topics_of_one_name(tmp_path: Path) -> None:
    def metadata(topic_id: str) -> dict[str, str]:
        return {"/partition.metadata": f"version: 0\ntopic_id: {topic_id}"}

    one = replica(tmp_path, "one", LOG, files=metadata(ID))
    two = replica(tmp_path, "two", LOG[:5], files=metadata(OTHER_ID))
    (error,) = items_of(one, two)
    assert isinstance(error, RefusedError)
    assert ID in str(error)
    assert OTHER_ID in str(error)
    fields, _ = build_salvage(tmp_path, one, two, topic_id=OTHER_ID)
    assert fields["last_offset"] == 24
    written = (tmp_path / "out/orders-0/partition.metadata").read_text()
    assert written == f"version: 0\ntopic_id: {OTHER_ID}"


def test_topics_may_be_renamed(tmp_path: Path) -> None:
    names = tmp_path / "names"
    names.write_text("# old, new\norders, sales.eu\n")
    one = replica(tmp_path, "one", LOG)
    fields, _ = build_salvage(tmp_path, one, names=read_topic_map(str(names)))
    assert fields["topic"] == "sales.eu"
    assert (tmp_path / "out/sales.eu-0").is_dir()
    names.write_text("orders,a/b\n")
    with pytest.raises(PathError, match="with valid topic names"):
        read_topic_map(str(names))


# What is written ---------------------------------------------------------------------------------


def test_existing_output_is_refused(tmp_path: Path) -> None:
    one = replica(tmp_path, "one", LOG)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/file").touch()
    with pytest.raises(RefusedError, match="is not empty"):
        build_salvage(tmp_path, one)
    (tmp_path / "out/file").unlink()
    assert build_salvage(tmp_path, one)[1] == data_of(LOG)


def test_format_unknown_to_the_broker_is_refused(tmp_path: Path) -> None:
    one = replica(tmp_path, "one", LOG)
    items = salvage([str(one)], _to(tmp_path, broker_version=(0, 10, 2)))
    assert "that a 0.10.2 broker cannot read" in str(next(items))
    with pytest.raises(RefusedError, match="was not written"):
        next(items)
    assert not (tmp_path / "out").exists()


def _to(tmp_path: Path, **options: Any) -> SalvageOptions:
    return SalvageOptions(out=str(tmp_path / "out"), **options)


def test_running_broker_is_not_touched(tmp_path: Path) -> None:
    one = replica(tmp_path, "one", LOG)
    (tmp_path / ".lock").touch()
    context = get_context("fork")
    taken, done = context.Event(), context.Event()

    def hold() -> None:
        with (tmp_path / ".lock").open("rb+") as file:
            fcntl.lockf(file, fcntl.LOCK_EX)
            taken.set()
            done.wait(60)

    broker = context.Process(target=hold)
    broker.start()
    taken.wait(60)
    try:
        with pytest.raises(RefusedError, match="a broker is running here"):
            build_salvage(tmp_path, one)
    finally:
        done.set()
        broker.join()
    assert not (tmp_path / "out").exists()


def test_manifest_proves_the_result(tmp_path: Path) -> None:
    one = replica(tmp_path, "one", LOG, files=WATERMARK)
    build_salvage(tmp_path, one)
    manifest = tmp_path / "out.manifest.json"
    content = json.loads(manifest.read_text())
    (source,) = content["sources"]
    assert source["size_bytes"] == len(data_of(LOG))
    assert content["partitions"][0]["records_count"] == 50
    assert "orders-0" in (tmp_path / "out.manifest.txt").read_text()
    said = _checked(manifest, tmp_path / "out")
    assert set(said.values()) == {"same"}
    log = tmp_path / f"out/orders-0/{0:020}.log"
    log.write_bytes(damage.flip_bit(log.read_bytes(), 100, 1))
    (tmp_path / "out/log-start-offset-checkpoint").unlink()
    (tmp_path / "out/more").touch()
    now = _checked(manifest, tmp_path / "out")
    odd = {path: outcome for path, outcome in now.items() if outcome != "same"}
    assert odd == {
        f"orders-0/{0:020}.log": "differs",
        "log-start-offset-checkpoint": "missing",
        "more": "not-in-manifest",
    }


def _checked(manifest: Path, directory: Path) -> dict[str, str]:
    rows = [row for row in check(str(manifest), str(directory)) if isinstance(row, Row)]
    return {str(row.fields["path"]): str(row.fields["outcome"]) for row in rows}


# Ended in between --------------------------------------------------------------------------------


class KilledError(BaseException):
    """The process ends here: nobody clears up."""


class DyingOs:
    """Stands in for `os` where files are written: behind the Nth call there is nothing more."""

    def __init__(self, at: int) -> None:
        self._at = at
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if not callable(real):
            return real

        def call(*arguments: Any, **named: Any) -> Any:
            if self.calls >= self._at:
                raise KilledError
            self.calls += 1
            return real(*arguments, **named)

        return call


def test_killed_run_leaves_no_complete_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = replica(tmp_path, "one", LOG[:4])
    whole = tmp_path / "whole"
    list(salvage([str(one)], SalvageOptions(out=str(whole))))
    wanted = {path.name: path.read_bytes() for path in whole.rglob("*") if path.is_file()}
    monkeypatch.setattr(writing.NewDirectory, "drop", lambda _: None)
    monkeypatch.setattr(writing.NewFile, "drop", lambda _: None)
    at, ended, seen = 0, False, 0
    while not ended:
        room = tmp_path / str(at)
        room.mkdir()
        with monkeypatch.context() as patch:
            patch.setattr(writing, "_os", DyingOs(at))
            try:
                list(salvage([str(one)], SalvageOptions(out=str(room / "out"))))
                ended = True
            except KilledError:
                pass
        writing._unfinished.clear()
        if (room / "out").exists():
            files = (path for path in (room / "out").rglob("*") if path.is_file())
            assert {path.name: path.read_bytes() for path in files} == wanted
        elif (room / f"out{OURS}").exists():
            seen += 1
            with pytest.raises(RefusedError, match="another salvage is running, or was killed"):
                list(salvage([str(one)], SalvageOptions(out=str(room / "out"))))
        at += 1
    assert seen > 20
    assert at > 40


@pytest.mark.parametrize("call", ["write", "fsync", "rename", "mkdir"])
def test_failed_run_removes_its_files(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = replica(tmp_path, "one", LOG)

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    class Failing:
        def __getattr__(self, name: str) -> Any:
            return fail if name == call else getattr(os, name)

    with monkeypatch.context() as patch:
        patch.setattr(writing, "_os", Failing())
        with pytest.raises(KdumpError):
            build_salvage(tmp_path, one)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one"]


def test_unreadable_small_files_are_left_out(tmp_path: Path) -> None:
    files = {"meta.properties": "version=1\nnode.id=x\n", "/partition.metadata": "topic_id: short"}
    one = replica(tmp_path, "one", LOG, files=files)
    two = replica(tmp_path, "two", LOG, files={"meta.properties": META})
    row, metadata, meta = items_of(one, two, out=str(tmp_path / "out"))
    assert isinstance(row, Row)
    assert isinstance(metadata, Finding)
    assert isinstance(meta, Finding)
    assert {metadata.code, meta.code} == {"properties-malformed"}
    assert (metadata.path, meta.path) == (
        str(one / "orders-0/partition.metadata"),
        str(one / "meta.properties"),
    )
    assert not (tmp_path / "out/orders-0/partition.metadata").exists()
    assert (tmp_path / "out/meta.properties").read_text() == META


def test_concurrently_deleted_log_is_still_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = replica(tmp_path, "one", LOG, partition=f"orders-0.{'0' * 32}-delete", segments=(0, 4))
    opened = run.open_copies

    def late(*arguments: Any) -> Any:
        shutil.rmtree(one / f"orders-0.{'0' * 32}-delete", ignore_errors=True)
        return opened(*arguments)

    monkeypatch.setattr(run, "open_copies", late)
    fields, data = build_salvage(tmp_path, one)
    assert (fields["lost"], data) == ([], data_of(LOG))


def test_progress_counts_partitions(tmp_path: Path) -> None:
    progress = Progress()
    one = replica(tmp_path, "one", LOG)
    assert len([*salvage([str(one)], SalvageOptions(), progress=progress)]) == 1
    assert progress.items_done == 1
