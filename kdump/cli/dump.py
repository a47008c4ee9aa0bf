"""`kdump dump`: show what lies on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import (
    BYTES,
    FORMATS,
    FROM_0,
    INT64,
    ISOLATION,
    PATTERN,
    TIME,
    shared_options,
)
from kdump.errors import KdumpError, UsageError
from kdump.findings.finding import Finding

if TYPE_CHECKING:
    from kdump.cli.run_context import Engine, Writing
    from kdump.engine.reading.options import DumpOptions
    from kdump.output.items import Item

_SHOWN = under("What is shown")
_RANGES = under("Ranges")
_FILTERS = under("Filters")


@click.command(cls=Command)
@_SHOWN("--batches", help="Batch headers only; nothing is decompressed.")
@_SHOWN(
    "--entries",
    help="Entries of indexes, time and transaction indexes, producer snapshots, checkpoints.",
)
@_SHOWN("--hex", "as_hex", help="Every field of a batch with its bytes and position.")
@_SHOWN(
    "--records-only",
    help="No row for a batch whose records cannot be read; only the finding reports it.",
)
@_SHOWN(
    "--decode",
    type=click.Choice(("auto", "raw")),
    help="On internal topics: what keys and values say, or their bytes. "
    "Default: auto in a table and in JSON Lines.",
)
@_SHOWN("--deep", help="With --batches: open wrappers to count what is inside.")
@_RANGES("--from-offset", type=INT64, help="First offset shown.")
@_RANGES("--to-offset", type=INT64, help="First offset not shown any more.")
@_RANGES("--from-time", "from_time_ms", type=TIME, help="Earliest time shown.")
@_RANGES("--to-time", "to_time_ms", type=TIME, help="First time not shown any more.")
@_RANGES("-n", "--limit", type=FROM_0, help="Stop after N rows.")
@_FILTERS("--key", type=BYTES, help="Only records with exactly this key.")
@_FILTERS("--grep", type=PATTERN, help="Only records whose key or value matches.")
@_SHOWN("--show-secrets", help="Show keys of SCRAM users and sensitive settings, in all forms.")
@_FILTERS("--producer-id", type=INT64, help="Only what this producer wrote.")
@_FILTERS(
    "--visible",
    help="Only what a consumer would be handed: from the log start to the high watermark, "
    "no control records.",
)
@_FILTERS(
    "--isolation",
    type=ISOLATION,
    default="read_uncommitted",
    help="read_committed (which implies --visible): no aborted data either, "
    "and only up to the last stable offset.",
)
@_FILTERS(
    "--control/--no-control",
    "control",
    default=None,
    help="Only control records, or none. Default: all records.",
)
@shared_options(FORMATS, has_bytes=True)
def dump(
    paths: tuple[str, ...],
    *,
    batches: bool,
    entries: bool,
    as_hex: bool,
    records_only: bool,
    decode: str | None,
    engine: Engine,
    writing: Writing,
    **asked: Any,
) -> int:
    """Show the records that lie on disk under PATHS: segment files, topic-partition directories
    or whole data directories.

    Everything on disk is shown, also what no consumer can see any more: before the log start, after
    the high watermark, control records, aborted data. --visible shows the consumer's view.

    Reads the segments in order and each byte once; ranges use the indexes where they are sound.
    With --format parquet and an --output that ends in a slash, a directory of Parquet files by
    topic and partition is written by -j workers, or by --engine spark.
    Damage does not stop it: a finding on standard error says what is wrong, and reading goes on at
    the next valid batch. TIME is epoch milliseconds, @ and epoch seconds, ISO 8601 (UTC unless it
    says otherwise), now, or a distance back as in now-30m.

    \b
    Examples:
        kdump dump /var/lib/kafka/orders-0
        kdump dump --topic 'orders*' --from-time now-30m /var/lib/kafka | jq .value
        kdump dump --batches 00000000000048230114.log
        kdump dump --entries 00000000000048230114.timeindex
        kdump dump --hex --from-offset 48301220 --limit 1 orders-7
        kdump dump --format parquet --output orders.parquet /var/lib/kafka/orders-*
        kdump dump --format parquet --output all-topics/ -j 8 /var/lib/kafka
    """
    from kdump.cli.reports import DumpReport
    from kdump.cli.results import Results, form_of
    from kdump.cli.run_context import wrong_usage
    from kdump.engine.reading.options import DumpOptions

    results = None
    with wrong_usage():
        mode = _mode(batches=batches, entries=entries, as_hex=as_hex)
        if records_only and mode != "records":
            raise UsageError(f"--records-only and --{mode} exclude each other")
        form = _hex_form(writing.form) if as_hex else form_of(writing)
        asked["visible"] |= asked["isolation"] == "read_committed"
        asked["decode"] = _decodes(decode, mode, form, writing)
        options = DumpOptions(mode=mode, **asked)
        output = writing.output or ""
        if not (engine.is_spark or output.endswith("/") or os.path.isdir(output)):
            results = Results(
                writing,
                inputs=paths,
                form=form,
                report=DumpReport(options),
                records=mode == "records",
                headers=not records_only,
                decode=options.decode,
            )
    if results is None:
        return _into_directory(paths, options, form, engine, writing)
    return results.take(_items(form, paths, options))


def _items(
    form: str, paths: tuple[str, ...], options: DumpOptions
) -> Iterator[Item | Finding | KdumpError]:
    """Ask the engine."""
    if form == "kafka":
        from kdump.engine.kafka_text.dump import kafka_dump

        return kafka_dump(paths, options)
    from kdump.engine.dump.run import dump as dump_items

    return dump_items(paths, options)


def _mode(*, batches: bool, entries: bool, as_hex: bool) -> str:
    """Return which of the kinds of rows is asked for."""
    asked = [
        word for word, flag in (("batches", batches), ("entries", entries), ("hex", as_hex)) if flag
    ]
    if len(asked) > 1:
        raise UsageError(f"--{asked[0]} and --{asked[1]} exclude each other")
    return asked[0] if asked else "records"


def _decodes(decode: str | None, mode: str, form: str, writing: Writing) -> bool:
    """Whether records of internal topics are to say what they hold.

    Who asks for bytes in some form is not given anything else unless it is asked for, too.
    """
    if decode == "auto":
        if mode != "records":
            raise UsageError(f"--decode auto and --{mode} exclude each other")
        if form == "kafka":
            raise UsageError("--format kafka prints what the tool does, and takes no --decode auto")
        return True
    by_default = form in ("table", "jsonl") and writing.bytes_mode == "auto"
    return decode is None and mode == "records" and by_default


def _hex_form(form: str | None) -> str:
    if form not in (None, "table"):
        raise UsageError(f"--hex prints annotated text and takes no --format {form}")
    return "table"


def _into_directory(
    paths: tuple[str, ...], options: DumpOptions, form: str, engine: Engine, writing: Writing
) -> int:
    """Write parts by worker processes, or by Spark, and return the exit status."""
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
