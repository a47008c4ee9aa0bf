"""`kdump dump` into a directory of Parquet files: by worker processes, or by Spark."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.errors import UsageError

if TYPE_CHECKING:
    from kdump.cli.run_context import Engine, Writing
    from kdump.engine.reading.options import DumpOptions


def dump_into_directory(
    paths: tuple[str, ...], options: DumpOptions, form: str, engine: Engine, writing: Writing
) -> int:
    """Write the parts and return the exit status."""
    from kdump.cli.results import Results
    from kdump.cli.run_context import wrong_usage
    from kdump.engine.work.pace import Progress
    from kdump.output.arrow import need_arrow
    from kdump.output.bulk_dump import dump_parts
    from kdump.output.part_directory import PartDirectory
    from kdump.output.progress import PartsTally

    output = writing.output
    with wrong_usage():
        _refuse(options, form, output)
        assert output is not None
        need_arrow(form)
        progress = Progress()
        results = Results(
            writing._replace(output=None),
            inputs=paths,
            form=form,
            tally=PartsTally(progress),
            elsewhere=True,
        )
    with engine.driver(jobs=_processors(), decodes=True) as driver:
        directory = PartDirectory(output, paths)
        return results.take(dump_parts(paths, options, directory, driver, progress=progress))


def _refuse(options: DumpOptions, form: str, output: str | None) -> None:
    """Say what cannot be written to a directory."""
    if form != "parquet" or output is None:
        raise UsageError("a directory, or --engine spark, takes --format parquet --output DIR/")
    if options.mode not in ("records", "batches"):
        raise UsageError(f"--{options.mode} has no parts; give --output FILE")
    if options.limit is not None:
        raise UsageError("--limit stops a reader, and here are several; give --output FILE")


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
