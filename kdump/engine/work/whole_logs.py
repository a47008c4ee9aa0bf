"""Do a step for each split where only whole logs count: pieces that do not fit are done as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from kdump.engine.reading.split_edges import SplitEdges
from kdump.engine.work.splits import Split, splits_to_reread
from kdump.errors import KdumpError

if TYPE_CHECKING:
    from kdump.engine.work.pace import Progress
    from kdump.engine.work.pipeline import Driver, Step


class Seamed(Protocol):
    """What comes of a split: `seam` says how a piece was read, None where logs were whole."""

    @property
    def seam(self) -> SplitEdges | None:
        """Where the piece began and ended."""


Result = TypeVar("Result", bound=Seamed)


def of_whole_logs(
    splits: Sequence[Split], step: Step[Split, Result], driver: Driver, progress: Progress
) -> Iterator[Result | KdumpError]:
    """Yield what came of each split, in order. All results are held, so they should be small."""
    came = {split.number: result for split, result in driver(splits, step, progress)}
    seams = {
        number: None if isinstance(result, KdumpError) else result.seam
        for number, result in came.items()
    }
    logs = splits_to_reread(splits, seams)
    for number in (split.number for pieces in logs for split in pieces):
        del came[number]
    again = [pieces[0].uncut() for pieces in logs]
    came |= {split.number: result for split, result in driver(again, step, progress)}
    for number in sorted(came):
        yield came[number]
