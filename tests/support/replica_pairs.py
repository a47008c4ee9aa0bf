"""Pairs of replicas that differ in known ways."""

from pathlib import Path

from comparing import (
    Batch,
    ComparisonResult,
    batches,
    compare_directories,
    replica,
)

LOG = batches(0, 100)


def pair(tmp_path: Path, left: list[Batch | bytes], right: list[Batch | bytes]) -> ComparisonResult:
    return compare_directories(replica(tmp_path, "left", left), replica(tmp_path, "right", right))


def with_epoch(log: list[Batch], epoch: int) -> list[Batch]:
    return [batch._replace(epoch=epoch) for batch in log]
