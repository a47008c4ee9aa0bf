"""Run a comparison of replicas: plan, one step for each partition, then the summary."""

from __future__ import annotations

import errno
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial

from kdump.engine.compare.plan import CompareOptions, Item, plan
from kdump.engine.compare.verdict import compare_partition
from kdump.engine.work.pace import Pace, Progress
from kdump.engine.work.pipeline import ONE_BY_ONE, Driver, take_up
from kdump.errors import KdumpError, NothingToDo, PathError
from kdump.findings.finding import Finding
from kdump.findings.rows import Row
from kdump.kernels import NAME as KERNEL
from kdump.rows.compare import CompareSummary, ReplicaComparison
from kdump.storage import places
from kdump.storage.local_log import LocalLog
from kdump.storage.targets import Target
from kdump.tuples import NamedTuple

#: Names of partitions found once that the summary lists.
_NAMES_KEPT = 100
_OF_MIRRORS = "selection decompress_limit shown alias groups group ignore_times scratch".split()


class Result(NamedTuple):
    """What one partition came to: its differences, then its comparison; paths that failed."""

    rows: tuple[Row, ...]
    errors: tuple[KdumpError, ...] = ()


def compare(
    paths: Iterable[str],
    options: CompareOptions,
    *,
    progress: Progress | None = None,
    driver: Driver = ONE_BY_ONE,
) -> Iterator[Row | Finding | KdumpError]:
    """Yield for each partition its differences and its comparison, and one last `summary` row.

    The order is that of topics and partitions, for any number of workers and any driver.
    """
    if options.mirror:
        from kdump.engine.mirror.plan import MirrorOptions
        from kdump.engine.mirror.run import mirror

        asked = {name: getattr(options, name) for name in _OF_MIRRORS}
        yield from mirror(list(paths), MirrorOptions(**asked), progress=progress, driver=driver)
        return
    started = time.monotonic()
    progress = progress or Progress()
    planned = plan(list(paths), options)
    items: list[Item] = []
    yield from take_up((*planned.errors, *planned.items), items, progress)
    if not items and not planned.errors:
        yield NothingToDo(
            "no two of the directories have a partition in common; nothing to compare"
        )
    verdicts: Counter[str] = Counter()
    batches = records = size_bytes = 0
    errors = len(planned.errors)
    step = partial(compare_item, options=options)
    for _, result in driver(items, step, progress):
        if isinstance(result, KdumpError):
            errors += 1
            yield result
            continue
        errors += len(result.errors)
        yield from result.errors
        for row in result.rows:
            if isinstance(row, ReplicaComparison):
                verdicts[row.verdict] += 1
                for each in row.replicas:
                    batches += each["batches"]
                    records += each["records_count"]
                    size_bytes += each["bytes"]
            yield row
    found_once = planned.found_once
    yield CompareSummary(
        partitions=len(items),
        verdicts=dict(sorted(verdicts.items())),
        found_once_count=len(found_once),
        found_once=found_once[:_NAMES_KEPT],
        batches=batches,
        records_count=records,
        bytes=size_bytes,
        paths_unfinished=errors,
        seconds=round(time.monotonic() - started, 3),
        kernel=KERNEL,
    )


def compare_item(item: Item, pace: Pace, *, options: CompareOptions) -> Result:
    """Compare the replicas of one partition, which are listed again."""
    targets, errors = [], []
    for path in item.paths:
        try:
            log = LocalLog.open(path)
        except PathError as error:
            errors.append(error)
            continue
        targets.append(Target(item.topic, item.partition, path, log, (), whole=True))
    while len(targets) > 1:
        try:
            rows = tuple(compare_partition(targets, pace, options))
            for target in targets:  # of one that went meanwhile, what was not read is no difference
                if not places.isdir(target.path):
                    raise PathError(target.path, os.strerror(errno.ENOENT))
            return Result(rows, tuple(errors))
        except PathError as error:
            # One of the replicas cannot be read: the others still can be compared.
            errors.append(error)
            bad = [each for each in targets if _within(error.path, each.path)]
            if not bad:
                break
            targets = [each for each in targets if each not in bad]
    return Result((), tuple(errors))


def _within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(os.path.join(directory, ""))
