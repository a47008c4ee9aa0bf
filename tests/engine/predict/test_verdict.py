"""What a forecast comes to: findings where records are lost or no broker starts, and the sums."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import batch, record
from damage import flip
from declared_rows import make_row
from each import each
from partitions import target_of

from kdump.broker.settings import Settings
from kdump.broker.versions import NEWEST
from kdump.engine.predict.verdict import Totals, default_threads, verdict
from kdump.engine.verify import predict
from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.run import verify
from kdump.findings.finding import Finding, Severity
from kdump.findings.rows import Row
from kdump.replay.releases import Releases
from kdump.storage.disk_rate import DiskRate

MIB = 1 << 20


def row(**fields: Any) -> Row:
    given: dict[str, Any] = {
        "topic": "orders",
        "partition": 7,
        "outcome": "truncate",
        "segments_read": [0, 40],
        "truncate_segment": 40,
        "truncate_position": 900,
        "log_end_before": 60,
        "log_end_after": 50,
        "first_lost_offset": 50,
        "records_lost": 10,
        "segments_deleted": [],
        "indexes_rebuilt": [],
        "reason": "segment 40 is truncated at position 900 (a checksum mismatch)",
        "bytes_read": MIB,
        "path": "/data/d1/orders-7",
    }
    return make_row("recovery", **given | fields)


def test_records_lost_are_damage() -> None:
    found = verdict(row())
    assert found is not None
    assert (found.code, found.severity) == ("start-loses-records", Severity.DAMAGE)
    assert (found.topic, found.partition, found.segment, found.offset) == ("orders", 7, 40, 50)
    assert (found.lost_at_least, found.lost_at_most) == (10, 10)
    assert (found.expected, found.actual) == (60, 50)
    assert "loses 10 records from offset 50 on: segment 40 is truncated" in found.message


@pytest.mark.parametrize("outcome", ["refuses-to-start", "out-of-memory"])
def test_failed_start_is_damage(outcome: str) -> None:
    found = verdict(row(outcome=outcome, records_lost=0, reason="the broker would stop at: X"))
    assert found is not None
    assert (found.code, found.severity) == ("start-refused", Severity.DAMAGE)
    assert found.message == "The broker would stop at: X."


def test_recreated_partition_is_damage(tmp_path: Path) -> None:
    stray = row(outcome="stray", records_lost=0, log_end_after=0, path=str(tmp_path / "orders-7"))
    assert verdict(stray) is None
    meta = tmp_path / "meta.properties"
    meta.write_text("version=0\nbroker.id=1\n")  # of ZooKeeper's days
    assert verdict(stray) is None
    meta.write_text("version=1\nnode.id=1\n")
    found = verdict(stray)
    assert found is not None
    assert found.code == "start-loses-records"
    assert found.lost_at_most is None


@each(
    "fields",
    [
        {"outcome": "clean", "records_lost": 0},
        {"outcome": "truncate", "records_lost": 0},
        {"outcome": "unknown", "records_lost": None},
        {"outcome": "stray", "records_lost": 0, "log_end_after": None},
        {"path": "/data/d1/orders-7.0123456789abcdef0123456789abcdef-delete"},
        {"path": "/data/d1/orders-7.0123456789abcdef0123456789abcdef-future"},
    ],
)
def test_lossless_starts(fields: dict[str, Any]) -> None:
    assert verdict(row(**fields)) is None


def test_totals_add_up() -> None:
    totals = Totals(rate=2 * MIB, threads=2)
    for directory, sizes in (("/data/d1", (8, 8, 4)), ("/data/d2", (12, 1))):
        for number, size in enumerate(sizes):
            path = f"{directory}/orders-{number}"
            totals.add(row(path=path, bytes_read=size * MIB, records_lost=number))
    totals.add(row(outcome="clean", segments_read=[], bytes_read=0, records_lost=0))
    fields = totals.fields()
    assert fields == {
        "outcomes": {"clean": 1, "truncate": 5},
        "partitions_losing": 3,
        "records_lost": 4,
        "segments_to_read": 10,
        "bytes_to_read": 33 * MIB,
        "seconds": 6.0,  # of d2: one thread reads its largest
        "bytes_per_second": 2 * MIB,
        "recovery_threads": 2,
    }


def test_duration_range_covers_measured_disks() -> None:
    disks = {
        "/data/d1": DiskRate(MIB, 4 * MIB, False),
        "/data/d2": DiskRate(3 * MIB, 3 * MIB, True),
    }
    totals = Totals(rate=2 * MIB, threads=2, measured=disks | {"/data/d3": None})
    for directory, sizes in (("/data/d1", (8, 8, 4)), ("/data/d2", (12, 1))):
        for number, size in enumerate(sizes):
            totals.add(row(path=f"{directory}/orders-{number}", bytes_read=size * MIB))
    fields = totals.fields()
    assert fields["seconds_at_least"] == 4.0  # of d2: one thread reads its largest
    assert fields["seconds_at_most"] == 20.0  # of d1: all of it at the slowest
    assert fields["disks"] == [
        {"path": "/data/d1", "low": MIB, "high": 4 * MIB, "cached": False},
        {"path": "/data/d2", "low": 3 * MIB, "high": 3 * MIB, "cached": True},
        {"path": "/data/d3", "low": None, "high": None, "cached": None},
    ]


def test_recovery_threads_depend_on_the_version() -> None:
    assert [default_threads(version) for version in ((3, 9), (4, 0), (4, 1))] == [1, 2, 2]


def make_broken(parent: Path) -> Path:
    """Write a data directory whose partition has a broken batch before a sound one."""
    directory = parent / "orders-0"
    directory.mkdir()
    (parent / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    log = [batch([record(0)], base_offset=base) for base in range(3)]
    log[1] = flip(log[1], 70)
    (directory / f"{0:020}.log").write_bytes(b"".join(log))
    (directory / f"{0:020}.index").write_bytes(b"")
    (directory / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    return parent


def run_predict(directory: Path, **options: Any) -> tuple[list[str], Any]:
    items = list(verify([str(directory)], VerifyOptions(predict=True, **options)))
    summary = items[-1]
    assert isinstance(summary, Row)
    return [item.code for item in items if isinstance(item, Finding)], summary.fields


def test_totals_of_a_run_add_up(tmp_path: Path) -> None:
    settings = tmp_path / "server.properties"
    settings.write_text("num.recovery.threads.per.data.dir=8\n")
    (tmp_path / "data").mkdir()
    codes, summary = run_predict(make_broken(tmp_path / "data"), broker_version=NEWEST)
    assert "start-loses-records" in codes
    assert summary["codes"]["start-loses-records"] == 1
    assert summary["findings"]["damage"] == 2
    forecast = summary["forecast"]
    assert (forecast["records_lost"], forecast["partitions_losing"]) == (2, 1)
    assert (forecast["bytes_per_second"], forecast["recovery_threads"]) == (100 * MIB, 2)


def test_given_threads_and_rate_are_used(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    settings = tmp_path / "server.properties"
    settings.write_text(f"log.dirs={data}\nnum.recovery.threads.per.data.dir=8\n")
    _, summary = run_predict(make_broken(data), server_properties=str(settings), recovery_rate=MIB)
    forecast = summary["forecast"]
    assert (forecast["bytes_per_second"], forecast["recovery_threads"]) == (MIB, 8)
    assert "disks" not in forecast
    _, summary = run_predict(data, measure=True)
    assert [disk["path"] for disk in summary["forecast"]["disks"]] == [str(data)]
    _, summary = run_predict(data, server_properties=str(settings), recovery_threads=3)
    assert summary["forecast"]["recovery_threads"] == 3


def test_cause_that_stops_the_broker_is_reported_once(tmp_path: Path) -> None:
    (make_broken(tmp_path) / "no partition").mkdir()
    codes, _ = run_predict(tmp_path)
    assert codes.count("start-refused") == 1


def test_loss_on_a_running_broker_is_checked_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first look may have come in the midst of a write."""
    log = make_broken(tmp_path) / "orders-0" / f"{0:020}.log"
    whole = b"".join(batch([record(0)], base_offset=base) for base in range(3))
    monkeypatch.setattr(predict.lock, "is_held_around", lambda _: True)
    monkeypatch.setattr(predict.time, "sleep", lambda _: log.write_bytes(whole))
    codes, _ = run_predict(tmp_path)
    assert "start-loses-records" not in codes


def foretold_beside(
    log: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[int], bytes]
) -> Row:
    """Foretell a partition whose log a broker writes anew before each further look."""
    looks = itertools.count(1)
    monkeypatch.setattr(predict.lock, "is_held_around", lambda _: True)
    monkeypatch.setattr(predict.time, "sleep", lambda _: log.write_bytes(write(next(looks))))
    target = target_of(log.parent, listed=False)
    return predict.Predictor(Releases(NEWEST), Settings(), {}).partition(target)


def test_loss_that_moves_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A preallocated log is appended to: what a cut removes is counted after the cut is found."""
    log = make_broken(tmp_path) / "orders-0" / f"{0:020}.log"

    def write(look: int) -> bytes:
        good = [batch([record(0)], base_offset=base) for base in range(look + 4)]
        good[look + 2] = flip(good[look + 2], 70)
        return b"".join(good)

    row = foretold_beside(log, monkeypatch, write)
    assert (row.fields["outcome"], row.fields["records_lost"]) == ("unknown", 0)
    assert predict.verdict(row) is None


def test_loss_that_stays_is_trusted_while_the_log_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_broken(tmp_path) / "orders-0" / f"{0:020}.log"
    more = b"".join(batch([record(0)], base_offset=base) for base in range(3, 9))
    size = len(more) // 6
    begun = log.read_bytes()
    row = foretold_beside(log, monkeypatch, lambda look: begun + more[: size * look])
    assert (row.fields["outcome"], row.fields["records_lost"]) == ("truncate", 3)
