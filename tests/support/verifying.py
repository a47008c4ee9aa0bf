"""Runs verify whole, cut into pieces, and on other drivers, and gives what it said."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from declared_rows import without_times
from drivers import Through

from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.results import Result
from kdump.engine.verify.run import verify
from kdump.engine.verify.state import VerifyState
from kdump.engine.work.pace import Progress
from kdump.engine.work.pipeline import ONE_BY_ONE, Driver


def run_verify(
    *paths: Path,
    split_bytes: int | None = None,
    driver: Driver = ONE_BY_ONE,
    progress: Progress | None = None,
    state: VerifyState | None = None,
    **options: Any,
) -> tuple[list[Any], int]:
    """Give what verify yields, but for how long it took, and how many logs were replayed."""
    replayed = 0

    def counting(driver: Driver, *given: Any) -> Iterator[tuple[Any, Any]]:
        nonlocal replayed
        for item, result in driver(*given):
            replayed += result.replayed if isinstance(result, Result) else 0
            yield item, result

    items = verify(
        [str(path) for path in paths],
        VerifyOptions(**options),
        driver=Through(driver, counting),
        split_bytes=split_bytes,
        progress=progress,
        state=state,
    )
    told = [repr(item) if isinstance(item, Exception) else without_times(item) for item in items]
    return told, replayed
