"""`salvage --tier`: partitions rebuilt from remote storage, alone and with what is left on disk."""

from pathlib import Path

import pytest
from corpus import find_shared
from counting_store import serve_counting_store
from tiered import moment, plant_faults, read_consumed_offsets

from kdump.engine.salvage.options import SalvageOptions
from kdump.engine.salvage.run import salvage
from kdump.errors import KdumpError
from kdump.replay.tiers import Tiers
from kdump.rows.salvage import Salvaged
from kdump.storage.names import Kind
from kdump.storage.remote_objects import RemoteObjects
from kdump.storage.targets import Selection

MOMENT = "last"


def rebuilt(
    paths: list[str], tier: str, out: Path | None, topic: str | None = None
) -> list[Salvaged]:
    options = SalvageOptions(
        out=None if out is None else str(out), tier=tier, selection=Selection(topic=topic)
    )
    rows = []
    for item in salvage(paths, options):
        assert not isinstance(item, KdumpError)
        if isinstance(item, Salvaged):
            rows.append(item)
    return rows


def read_wanted(data: str, tier: str) -> dict[tuple[str, int], bytes]:
    """Give the log of each partition that the metadata leads to, put together of its objects."""
    logs = Tiers([data])
    found = {}
    for (topic_id, number), log in logs.logs_in(logs.metadata_paths(data)).items():
        topic = logs.logs_in(logs.metadata_paths(data)).topics[topic_id]
        objects = RemoteObjects(tier).of(topic, number, topic_id)
        ids = log.reachable_ids()
        segments = sorted(
            (one for key, one in log.segments.items() if key in ids),
            key=lambda one: one.start_offset,
        )
        paths = [(objects.files(one.segment_id) or {})[Kind.LOG] for one in segments]
        if paths:
            found[topic, number] = b"".join(Path(path).read_bytes() for path in paths)
    return found


def log_in(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def test_remote_storage_alone_suffices(tmp_path: Path) -> None:
    data, tier = moment(MOMENT)
    rows = rebuilt([], tier, tmp_path / "out")
    assert not any(row.lost or row.conflicts for row in rows)
    checked = 0
    for (topic, number), log in read_wanted(data, tier).items():
        assert log_in(tmp_path / f"out/{topic}-{number}") == log, topic
        checked += 1
    assert checked >= 16


def test_bucket_is_read_once(tmp_path: Path) -> None:
    data, tier = moment(MOMENT)
    with serve_counting_store(Path(tier)) as store:
        rebuilt([], "counted://files", tmp_path / "out", "packed")
    read = sum(size for _, _, size in store.read)
    log = read_wanted(data, tier)["packed", 0]
    assert log_in(tmp_path / "out/packed-0") == log
    assert read <= 1.1 * len(log)


def test_tier_and_disk_give_all_consumed_records() -> None:
    data, tier = moment(MOMENT)
    received = read_consumed_offsets(MOMENT)
    for row in rebuilt([data], tier, None):
        for first, last in received.get((row.topic or "", row.partition or 0), [])[:1]:
            assert row.first_offset is not None
            assert row.last_offset is not None
            assert row.first_offset <= first
            assert row.last_offset >= last
            assert not row.lost


@pytest.mark.parametrize(
    ("fault", "topic", "lost"),
    [
        ("f01", "packed", [[75, 149]]),
        ("f02", "retries", []),
        ("f03", "retries", []),
        ("f05", "invoices", [[360, 399]]),
        ("f10", "trimmed", []),
        ("f12", "readings", []),
        ("f13", "audit", []),
        ("f14", "packed", []),
        ("f15", "jumbled", []),
        ("f16", "late.tier", []),
        ("f18", "payments", []),
    ] if find_shared() is not None else [],
)  # fmt: skip
def test_records_lost_by_a_fault(
    fault: str, topic: str, lost: list[list[int]], tmp_path: Path
) -> None:
    data, tier = plant_faults(fault, tmp_path / "planted")
    rows = rebuilt([data], tier, tmp_path / "out", topic)
    assert [span for row in rows for span in row.lost] == lost
