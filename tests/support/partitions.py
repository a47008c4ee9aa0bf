"""A partition directory made file by file, and views of it as a reader opens it."""

import os
from pathlib import Path

from kdump.broker.partition import PartitionView
from kdump.broker.versions import NEWEST, Version
from kdump.storage.targets import Selection, Target, resolve

MODIFIED_MS = 1_600_000_000_000


def target_of(directory: Path, *, listed: bool = True) -> Target:
    """Find the partition in a directory, -delete, -future and -stray ones included."""
    target = next(resolve([str(directory)], Selection(retired=True), listed=listed))
    assert isinstance(target, Target)
    return target


def view_of(directory: Path, **options: object) -> PartitionView:
    """Open a partition for lookups."""
    return PartitionView(target_of(directory), **options)  # type: ignore[arg-type]


def write_segment(
    directory: Path,
    base: int,
    log: bytes,
    index: bytes | None = b"",
    times: bytes | None = b"",
    *,
    modified_ms: int = MODIFIED_MS,
) -> Path:
    """Write a segment, and return its log; an index that is None stays as it is."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{base:020d}.log"
    path.write_bytes(log)
    for suffix, data in ((".index", index), (".timeindex", times)):
        if data is not None:
            path.with_suffix(suffix).write_bytes(data)
    os.utime(path, ns=(modified_ms * 1_000_000,) * 2)
    return path


class Partition:
    """A directory `t-0` in a data directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / "t-0"
        self.path.mkdir()

    def segment(
        self, base: int, log: bytes, index: bytes | None = b"", times: bytes | None = b""
    ) -> Path:
        """Write a segment, modified in the order of offsets; an index of None is missing."""
        path = write_segment(self.path, base, log, index, times, modified_ms=MODIFIED_MS + base)
        if index is None:
            path.with_suffix(".index").unlink(missing_ok=True)
        return path

    def checkpoint(self, name: str, offset: int) -> None:
        """Write an offset checkpoint of this partition alone."""
        (self.root / f"{name}-offset-checkpoint").write_text(f"0\n1\nt 0 {offset}\n")

    def epochs(self, *entries: tuple[int, int]) -> None:
        """Write a leader-epoch-checkpoint."""
        lines = "".join(f"{epoch} {start}\n" for epoch, start in entries)
        (self.path / "leader-epoch-checkpoint").write_text(f"0\n{len(entries)}\n{lines}")

    def view(self, broker: Version = NEWEST, **options: object) -> PartitionView:
        """Open the partition for lookups."""
        return view_of(self.path, broker=broker, **options)
