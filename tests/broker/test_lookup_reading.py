"""What a lookup reads of a partition of 1,000 segments and 100 GiB, most of it holes."""

import os
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import builders
import pytest
from partitions import view_of

from kdump.broker.list_offsets import list_offsets, list_offsets_v0
from kdump.storage.source import Source

T0 = 1_700_000_000_000
BATCH_BYTES = 4096
RECORDS = 8  # in a batch
SEGMENTS = 1000
SEGMENT_BYTES = 101 << 20
ACTIVE_BYTES = 1 << 30
OFFSETS = SEGMENT_BYTES // BATCH_BYTES * RECORDS  # in a segment
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
WRITTEN = 300  # batches around each place that is looked at


def time_of(offset: int) -> int:
    return T0 + offset


def one_batch(base: int) -> bytes:
    """A batch of 4096 bytes whose record times rise by one millisecond."""
    padding = 100
    while True:
        records = [builders.record(at, at, value=bytes(100)) for at in range(RECORDS - 1)]
        records.append(builders.record(RECORDS - 1, RECORDS - 1, value=bytes(padding)))
        data = builders.batch(
            records,
            base_offset=base,
            base_timestamp=time_of(base),
            max_timestamp=time_of(base + RECORDS - 1),
        )
        if len(data) == BATCH_BYTES:
            return data
        padding += BATCH_BYTES - len(data)


class Partition:
    """The files: every index is whole, the log is written only where a lookup may look."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True)
        self.bases = [number * OFFSETS for number in range(SEGMENTS)]
        for number, base in enumerate(self.bases):
            size = ACTIVE_BYTES if number == SEGMENTS - 1 else SEGMENT_BYTES
            slots = size // BATCH_BYTES
            with self.path(number, "log").open("wb") as log:
                log.truncate(size)
            with self.path(number, "index").open("wb") as index:
                index.truncate((slots - 1) * 8)
            with self.path(number, "timeindex").open("wb") as times:
                times.truncate((slots - 1) * 12)
                times.seek((slots - 2) * 12)
                last = slots * RECORDS - 1
                times.write(struct.pack(">qi", time_of(base + last), last))
        self.fill(SEGMENTS - 1, ACTIVE_BYTES // BATCH_BYTES - 1)
        none = struct.pack(">i", 0)  # producers, as brokers write it at a roll
        snapshot = struct.pack(">hI", 1, builders.crc32c(none)) + none
        self.path(SEGMENTS - 1, "snapshot").write_bytes(snapshot)

    def path(self, number: int, suffix: str) -> Path:
        return self.directory / f"{self.bases[number]:020d}.{suffix}"

    def fill(self, number: int, place: int) -> None:
        """Write the indexes of a segment, and its log around batch `place`."""
        base = self.bases[number]
        slots = self.path(number, "log").stat().st_size // BATCH_BYTES
        lasts = [(at + 1) * RECORDS - 1 for at in range(1, slots)]
        self.path(number, "index").write_bytes(
            b"".join(struct.pack(">ii", last, last // RECORDS * BATCH_BYTES) for last in lasts)
        )
        self.path(number, "timeindex").write_bytes(
            b"".join(struct.pack(">qi", time_of(base + last), last) for last in lasts)
        )
        with self.path(number, "log").open("r+b") as log:
            for at in range(max(0, place - WRITTEN), min(slots, place + WRITTEN)):
                log.seek(at * BATCH_BYTES)
                log.write(one_batch(base + at * RECORDS))


@pytest.fixture(scope="module")
def partition(tmp_path_factory: pytest.TempPathFactory) -> Partition:
    made = Partition(tmp_path_factory.mktemp("data") / "t-0")
    made.fill(400, 777)
    return made


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the bytes read of each file, by name."""
    counted: Counter[str] = Counter()
    opened, pread = Source.__init__, Source._pread

    def counting_open(self: Source, path: str | os.PathLike[str]) -> None:
        opened(self, path)
        counted[Path(self.path).name] += 0

    def counting_pread(self: Source, view: memoryview, position: int) -> int:
        count = pread(self, view, position)
        counted[Path(self.path).name] += count
        return count

    monkeypatch.setattr(Source, "__init__", counting_open)
    monkeypatch.setattr(Source, "_pread", counting_pread)
    return counted


@pytest.fixture(params=["alone", "clean", "unclean"])
def stopped(request: pytest.FixtureRequest, partition: Partition) -> Iterator[str]:
    """How its broker stopped; after an unclean stop the newest indexes are untrimmed."""
    how: str = request.param
    parent = partition.directory.parent
    beside = [parent / RECOVERY_POINTS, parent / "meta.properties", parent / ".kafka_cleanshutdown"]
    made = {"alone": [], "clean": beside, "unclean": beside[:2]}[how]
    sizes = {
        partition.path(SEGMENTS - 1, suffix): partition.path(SEGMENTS - 1, suffix).stat().st_size
        for suffix in ("index", "timeindex")
    }
    for path in made:
        path.write_bytes(b"")
    if made:
        made[0].write_text(f"0\n1\nt 0 {partition.bases[-1]}\n")
    if how == "unclean":
        for path in sizes:
            os.truncate(path, 10 << 20)
    yield how
    for path in made:
        path.unlink()
    for path, size in sizes.items():
        os.truncate(path, size)


def allowed(partition: Partition, *numbers: int) -> set[str]:
    files = {
        partition.path(number, suffix).name
        for number in (*numbers, SEGMENTS - 1)
        for suffix in ("log", "index", "timeindex", "snapshot")
    }
    return {*files, RECOVERY_POINTS}


def test_offset_lookup_reads_a_few_pages(
    partition: Partition, reads: Counter[str], stopped: str
) -> None:
    offset = partition.bases[400] + 777 * RECORDS + 5
    view = view_of(partition.directory)
    found = view.fetch(offset)
    assert found is not None
    assert (found.segment, found.position) == (partition.bases[400], 777 * BATCH_BYTES)
    assert view.record_at(found, offset) == (offset, time_of(offset))
    view.close()
    assert reads.keys() <= allowed(partition, 400)
    assert reads.total() < 1 << 20


def test_time_lookup_reads_a_few_pages_and_the_last_slots(
    partition: Partition, reads: Counter[str], stopped: str
) -> None:
    offset = partition.bases[400] + 777 * RECORDS + 5
    view = view_of(partition.directory)
    answer = list_offsets(view, time_of(offset))
    assert (answer.offset, answer.position) == (offset, 777 * BATCH_BYTES)
    view.close()
    others = {partition.path(number, "timeindex").name for number in range(400)}
    assert reads.keys() <= allowed(partition, 400) | others
    assert {reads[name] for name in others} == {12}
    assert reads.total() < 1 << 20


@pytest.mark.parametrize("stopped", ["alone", "clean"], indirect=True)
def test_both_ends_and_the_newest_records(
    partition: Partition, reads: Counter[str], stopped: str
) -> None:
    view = view_of(partition.directory)
    end = partition.bases[-1] + ACTIVE_BYTES // BATCH_BYTES * RECORDS
    assert list_offsets(view, -2).offset == 0
    assert list_offsets(view, -1).offset == end
    assert list_offsets(view, time_of(end - 3)).offset == end - 3
    assert list_offsets(view, -3).offset == end - 1
    assert list_offsets_v0(view, -1, 1) == [end]
    found = view.fetch(end - 1)
    assert found is not None
    assert view.record_at(found, end - 1) == (end - 1, time_of(end - 1))
    view.close()
    assert reads.total() < 1 << 20


@pytest.mark.parametrize("stopped", ["unclean"], indirect=True)
def test_log_end_after_unclean_stop_includes_unflushed_records(
    partition: Partition, reads: Counter[str], stopped: str
) -> None:
    view = view_of(partition.directory)
    # The newest log begins with a hole, at which recovery cuts it.
    assert list_offsets(view, -1).offset == partition.bases[-1]
    view.close()
    assert reads.keys() <= allowed(partition, SEGMENTS - 2)
    assert reads.total() < 1 << 20
