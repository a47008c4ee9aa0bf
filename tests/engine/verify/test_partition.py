"""One partition as one unit of work: what is counted, and files that change while they are read."""

import os
import pickle
from collections.abc import Iterable
from pathlib import Path

import builders
import damage
import pytest
from segments import (
    batches,
    indexes,
    name,
    read,
    target_of,
    write,
    write_partition,
)

from kdump.broker.settings import Settings
from kdump.engine.checks.framing import Framing
from kdump.engine.checks.index_proof import IndexProof
from kdump.engine.checks.records import Records
from kdump.engine.reading.background_source import BackgroundSource
from kdump.engine.reading.check import Check, Reported
from kdump.engine.reading.partition_scan import PartitionScan, SegmentScan
from kdump.engine.verify import partition as verify
from kdump.engine.verify import run as verify_run
from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.partition import verify_partition
from kdump.engine.verify.results import Result
from kdump.findings.finding import Finding
from kdump.record.frames import Run

BASES = (0, 120, 240)


@pytest.fixture(autouse=True)
def logs_and_indexes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hand-made directories lack the other files of a partition."""

    def checks(partition: PartitionScan) -> list[Check]:
        deep: list[Check] = [Records(partition)] if partition.deep else []
        return [Framing(partition), *deep, IndexProof(partition)]

    monkeypatch.setattr(verify, "checks_of", checks)


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    return write_partition(tmp_path, {base: batches(base, base + 120) for base in BASES})


def looked_at(directory: Path, options: VerifyOptions | None = None) -> Result:
    return verify_partition(target_of(directory), options or VerifyOptions(), Settings())


def test_checked_parts_are_counted(sound: Path) -> None:
    result = looked_at(sound)
    assert result.findings == ()
    sizes = sum((sound / name(base, "log")).stat().st_size for base in BASES)
    assert result.counts.segments == 3
    assert result.counts.batches == 120
    assert result.counts.records_count == 360
    assert result.counts.bytes == sizes
    assert result.counts.not_checked == ()


def test_skipped_parts_are_counted(tmp_path: Path) -> None:
    inner = [builders.message(0), builders.message(1)]
    parts = [builders.wrapper(inner, 1, timestamp=1_400_000_000_000)]
    directory = write_partition(tmp_path, {0: parts, 2: []})
    assert dict(looked_at(directory).counts.not_checked) == {"compressed_batches": 1}
    deep = looked_at(directory, VerifyOptions(deep=True)).counts
    assert (deep.records_count, deep.not_checked) == (2, ())


def test_quick_reads_only_the_ends(sound: Path) -> None:
    counts = looked_at(sound, VerifyOptions(quick=True)).counts
    assert dict(counts.not_checked) == {"segments_not_read": 3}
    assert 0 < counts.bytes < looked_at(sound).counts.bytes / 4


def test_result_can_be_pickled(sound: Path) -> None:
    write(sound, 0, "log", damage.flip(read(sound, 0, "log"), 500))
    result = looked_at(sound)
    assert result.findings
    assert pickle.loads(pickle.dumps(result)) == result


def test_unreadable_log_does_not_stop_the_others(
    sound: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sound / name(120, "log")).unlink()
    (sound / name(120, "log")).mkdir()
    write(sound, 240, "log", damage.flip(read(sound, 240, "log"), 500))
    result = looked_at(sound)
    assert [error.path for error in result.errors] == [str(sound / name(120, "log"))]  # type: ignore[attr-defined]
    assert [found.code for found in result.findings] == ["crc-mismatch"]
    assert result.counts.segments == 2


def test_growth_of_the_newest_log_is_not_a_change(
    sound: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong elsewhere is told of at the first look."""

    class Growing(Check):
        looks = 0

        def begin(self, segment: SegmentScan) -> Iterable[Reported]:
            if segment.active:
                Growing.looks += 1
                with Path(segment.path).open("ab") as file:
                    file.write(b"".join(batches(360 + 30 * self.looks, 390 + 30 * self.looks)))
            return ()

    own = verify.checks_of
    monkeypatch.setattr(verify, "checks_of", lambda scan: [*own(scan), Growing(scan)])
    write(sound, 0, "log", damage.flip(read(sound, 0, "log"), 500))
    assert [found.code for found in looked_at(sound).findings] == ["crc-mismatch"]
    assert Growing.looks == 1


def test_index_entry_written_while_reading_is_sound(
    sound: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index is read first, the log's size taken then: entries name batches that are there."""

    class Appending(Check):
        def begin(self, segment: SegmentScan) -> Iterable[Reported]:
            if segment.active:
                log = read(sound, 240, "log") + b"".join(batches(360, 420))
                offsets, times = indexes(log, 240)
                write(sound, 240, "log", log)
                write(sound, 240, "index", offsets)
                write(sound, 240, "timeindex", times)
            return ()

    own = verify.checks_of
    monkeypatch.setattr(verify, "checks_of", lambda scan: [Appending(scan), *own(scan)])
    result = looked_at(sound)
    assert result.findings == ()
    assert result.counts.records_count == 420


def test_growing_tail_is_followed(sound: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read(sound, 240, "log")
    path = write(sound, 240, "log", whole[:-30])

    class Finishing(Check):
        def run(self, segment: SegmentScan, run: Run) -> Iterable[Reported]:
            if segment.active and path.stat().st_size < len(whole):
                with path.open("ab") as file:
                    file.write(whole[-30:])
            return ()

    own = verify.checks_of
    monkeypatch.setattr(verify, "checks_of", lambda scan: [*own(scan), Finishing(scan)])
    result = looked_at(sound)
    assert result.findings == ()
    assert result.counts.records_count == 360


def test_uncached_pages_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large"
    path.write_bytes(bytes(20 << 20))
    dropped: list[tuple[int, int]] = []
    monkeypatch.setattr(
        BackgroundSource, "advise_done", lambda self, at, size: dropped.append((at, size))
    )
    cached = {4 << 20: True, 12 << 20: False, 18 << 20: False}
    monkeypatch.setattr(BackgroundSource, "is_cached", lambda self, at: cached[at])
    paced: list[int] = []
    buffer = bytearray(1 << 20)
    with BackgroundSource(path, paced.append) as source:
        for position in range(0, 20 << 20, 1 << 20):
            assert source.read_into(buffer, position, 1 << 20) == 1 << 20
    assert dropped == [(8 << 20, 8 << 20), (16 << 20, 8 << 20)]
    assert sum(paced) == 20 << 20


def test_file_in_use_is_cached(tmp_path: Path) -> None:
    """Just written, its pages are in memory; where the system cannot tell, they count as such."""
    path = tmp_path / "small"
    path.write_bytes(b"x" * 10_000)
    with BackgroundSource(path) as source:
        assert source.is_cached(5_000)
        assert source.data_end() == 10_000
    with path.open("r+b") as file:
        os.truncate(file.fileno(), 1 << 20)
    with BackgroundSource(path) as source:
        assert source.data_end() <= 1 << 20


def test_broker_started_between_two_partitions_is_detected(tmp_path: Path) -> None:
    """The data directory is listed once for many partitions; a start makes that worthless."""
    reserved = [*batches(0, 30), bytes(300)]
    mark = tmp_path / ".kafka_cleanshutdown"
    mark.write_bytes(b"")
    for topic in ("a", "b"):
        directory = write_partition(tmp_path, {0: batches(0, 30)}, topic)
        write(directory, 0, "log", b"".join(reserved))
    told = verify_run.verify([str(tmp_path)], VerifyOptions())
    first = next(item for item in told if isinstance(item, Finding))
    assert first.code == "zero-tail"
    mark.unlink()
    codes = [item.code for item in told if isinstance(item, Finding)]
    assert codes[0] == "preallocated-tail"
