"""`kdump dump` into a directory of Parquet files: by worker processes, or by Spark."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kdump.errors import UsageError

if TYPE_CHECKING:
    from kdump.engine.dump import DumpOptions
    from kdump.output.bulk_dump import Driver


def dump_into_directory(
    paths: tuple[str, ...],
    options: DumpOptions,
    *,
    form: str,
    output: str | None,
    quiet: bool,
    fail_on: str,
    jobs: int | None,
    engine: str,
    master: str | None,
    remote: str | None,
) -> int:
    """Write the parts and return the exit status."""
    from kdump.cli.engines import refuse_without_spark
    from kdump.cli.results import Results
    from kdump.engine.pace import Progress
    from kdump.output.arrow import need_arrow
    from kdump.output.bulk_dump import dump_parts
    from kdump.output.part_directory import PartDirectory

    _refuse(options, form, output)
    refuse_without_spark(engine, master, remote)
    assert output is not None
    need_arrow(form)
    results = Results(
        form,
        output=None,
        inputs=paths,
        bytes_mode="auto",
        quiet=quiet,
        fail_on=fail_on,
        records=False,
        elsewhere=True,
    )
    progress = Progress()
    results.follow(progress)
    with ExitStack() as stack:
        driver = _driver(stack, engine, jobs, master, remote)
        directory = PartDirectory(output, paths)
        return results.take(dump_parts(paths, options, directory, driver, progress=progress))


def _refuse(options: DumpOptions, form: str, output: str | None) -> None:
    """Say what cannot be written to a directory."""
    if form != "parquet" or output is None:
        raise UsageError("a directory takes --format parquet: --format parquet --output DIR/")
    if options.mode not in ("records", "batches"):
        raise UsageError(f"--{options.mode} has no parts; give --output FILE")
    if options.limit is not None:
        raise UsageError("--limit stops a reader, and here are several; give --output FILE")


def _driver(
    stack: ExitStack, engine: str, jobs: int | None, master: str | None, remote: str | None
) -> Driver:
    """Return what does the work; a session of Spark lasts as long as the stack."""
    if engine == "spark":
        from kdump.cli.engines import session
        from kdump.spark.driver import splits_on

        return splits_on(session(stack, master, remote), tasks=jobs)
    from kdump.output.bulk_dump import in_process

    return in_process(jobs or _processors())


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
