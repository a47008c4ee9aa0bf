"""Data directories made by hand, sound until a test breaks them, and what verify says of them."""

import base64
import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import builders

from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.run import verify
from kdump.engine.work.pipeline import ONE_BY_ONE, Driver
from kdump.errors import KdumpError
from kdump.findings.finding import Finding

TIME = 1_700_000_000_000
CLUSTER = "c0rpusSharedAAAAAAAAAA"
RECORDS_A_BATCH = 2


def identifier(number: int) -> str:
    """Write a UUID as Kafka does."""
    return base64.urlsafe_b64encode(number.to_bytes(16, "big")).decode().rstrip("=")


def batches(first: int, count: int, **members: int) -> bytes:
    """Write batches of two records each from an offset on; the times rise with the offsets."""
    out = b""
    for base in range(first, first + count * RECORDS_A_BATCH, RECORDS_A_BATCH):
        records = [builders.record(n, n, b"k", b"v") for n in range(RECORDS_A_BATCH)]
        out += builders.batch(
            records, base_offset=base, base_timestamp=TIME + base, max_timestamp=TIME + base + 1,
            **members,
        )  # fmt: skip
    return out


BATCH_BYTES = len(batches(0, 1))


def write_segment(directory: Path, base: int, log: bytes, *, next_offset: int) -> None:
    """Write a log and the indexes a broker would have made: it is below the index interval."""
    stem = f"{base:020}"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{stem}.log").write_bytes(log)
    (directory / f"{stem}.index").write_bytes(b"")
    entry = struct.pack(">qi", TIME + next_offset - 1, next_offset - 1 - base) if log else b""
    (directory / f"{stem}.timeindex").write_bytes(entry)


def write_checkpoint(path: Path, entries: Iterable[tuple[object, ...]]) -> None:
    """Write a checkpoint file of any kind."""
    lines = [" ".join(map(str, entry)) for entry in entries]
    path.write_text("\n".join(["0", str(len(lines)), *lines, ""]))


class DataDirectory:
    """A data directory of a KRaft broker. `offsets` are the log ends of its partitions."""

    def __init__(self, path: Path, *, node: int = 1, number: int = 1, version: int = 1) -> None:
        self.path = path
        self.directory_id = identifier(1000 + number)
        self.offsets: dict[tuple[str, int], int] = {}
        path.mkdir(parents=True)
        kept = "node.id" if version else "broker.id"
        self.meta = path / "meta.properties"
        self.meta.write_text(
            f"version={version}\n{kept}={node}\ncluster.id={CLUSTER}\n"
            f"directory.id={self.directory_id}\n"
        )

    def partition(
        self, topic: str, partition: int, segments: Sequence[int] = (0, 10), *, topic_id: int = 7
    ) -> Path:
        """Make a partition with segments at some base offsets; no offset is missing."""
        directory = self.path / f"{topic}-{partition}"
        for base, end in zip(segments, (*segments[1:], segments[-1] + 10), strict=True):
            log = batches(base, (end - base) // RECORDS_A_BATCH)
            write_segment(directory, base, log, next_offset=end)
            self.offsets[topic, partition] = end
        (directory / "partition.metadata").write_text(
            f"version: 0\ntopic_id: {identifier(topic_id)}"
        )
        write_checkpoint(directory / "leader-epoch-checkpoint", [(0, segments[0])])
        return directory

    def checkpoint(self, name: str, **changed: int) -> Path:
        """Write an offset checkpoint of all partitions; `changed` are offsets by topic."""
        path = self.path / f"{name}-offset-checkpoint"
        write_checkpoint(
            path,
            [(t, p, changed.get(t, offset)) for (t, p), offset in sorted(self.offsets.items())],
        )
        return path

    def stop(self, *, clean: bool = True) -> None:
        """Write what a broker leaves when it stops."""
        self.checkpoint("recovery-point")
        self.checkpoint("replication")
        write_checkpoint(self.path / "cleaner-offset-checkpoint", [])
        if clean:
            (self.path / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":7}')


def findings(*paths: Path, driver: Driver = ONE_BY_ONE, **options: object) -> list[Finding]:
    """Run verify; a path that could not be read fails the test."""
    chosen = VerifyOptions(**options)  # type: ignore[arg-type]
    return list(_findings([str(path) for path in paths], chosen, driver))


def _findings(paths: list[str], options: VerifyOptions, driver: Driver) -> Iterator[Finding]:
    for item in verify(paths, options, driver=driver):
        assert not isinstance(item, KdumpError), item
        if isinstance(item, Finding):
            yield item


def find_one(*paths: Path, **options: object) -> Finding:
    """Run verify and return the one finding there is."""
    found = findings(*paths, **options)
    assert len(found) == 1, [(told.code, told.message) for told in found]
    return found[0]


def codes(*paths: Path, **options: object) -> list[str]:
    """Run verify and name what it finds."""
    return sorted(found.code for found in findings(*paths, **options))
