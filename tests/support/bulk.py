"""Bulk dumps into directories, by any driver, and what they leave there."""

import hashlib
from pathlib import Path
from typing import Any

import builders

from kdump.engine.reading.options import DumpOptions
from kdump.engine.work.pipeline import ONE_BY_ONE, Driver
from kdump.findings.finding import Finding
from kdump.output.bulk_dump import dump_parts
from kdump.output.part_directory import PartDirectory
from kdump.output.progress import WrittenRows

HERE = ONE_BY_ONE


def batches(base: int, count: int = 40) -> bytes:
    """Make batches of ten records each, a record a millisecond."""
    return b"".join(
        builders.batch(
            [builders.record(k, k, b"k%d" % k, b"v" * 50) for k in range(10)],
            base_offset=base + 10 * n,
            base_timestamp=1_700_000_000_000 + base + 10 * n,
        )
        for n in range(count)
    )


def two_partitions(root: Path) -> Path:
    """Make two partitions of three segments each."""
    for name in ("orders-0", "orders-1"):
        (root / name).mkdir(parents=True)
        for base in (0, 400, 800):
            (root / name / f"{base:020}.log").write_bytes(batches(base))
    return root


def run_bulk_dump(
    path: Path,
    output: Path,
    driver: Driver = HERE,
    split_bytes: int | None = None,
    **options: Any,
) -> tuple[int, list[Finding]]:
    """Dump; give the number of rows and the findings."""
    rows = 0
    found: list[Finding] = []
    directory = PartDirectory(str(output), [str(path)])
    for item in dump_parts(
        [str(path)], DumpOptions(**options), directory, driver, split_bytes=split_bytes
    ):
        if isinstance(item, WrittenRows):
            rows += item.rows
        elif isinstance(item, Finding):
            found.append(item)
        else:
            raise item
    return rows, found


def digest_files(directory: Path) -> dict[str, str]:
    """Give every file by its path with a digest of its bytes."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }
