"""Split the batches of a log into runs of one leader epoch, as the epochs of a log are told by."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.kernels.columns import RecordBatches

NO_EPOCH = -1
RUNS_KEPT = 50_000  # a log of more changes than this is not looked at


def runs_of_epochs(batches: RecordBatches) -> Iterator[tuple[int, int, int]]:
    """Yield (epoch, start, stop) of consecutive rows with one epoch; most batches have one run."""
    epochs, count = batches.leader_epochs, batches.count
    if not count:
        return
    if epochs.tobytes() == epochs[:1].tobytes() * count:
        yield epochs[0], 0, count
        return
    start = 0
    for row in range(1, count + 1):
        if row == count or epochs[row] != epochs[start]:
            yield epochs[start], start, row
            start = row
