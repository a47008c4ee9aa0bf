"""`kdump dump`: show what lies on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import (
    BYTES,
    DURATION,
    FORMATS,
    FROM_0,
    INT64,
    ISOLATION,
    PATTERN,
    TIME,
    shared_options,
    tier_key_option,
    tier_option,
)
from kdump.errors import KdumpError, UsageError
from kdump.findings.finding import Finding

if TYPE_CHECKING:
    from kdump.cli.run_context import Engine, OutputSpec
    from kdump.engine.reading.options import DumpOptions
    from kdump.output.sink import Item

_ROWS_AND_VALUES = under("Rows and values")
_RANGES = under("Ranges")
_FILTERS = under("Filters")


@click.command(
    cls=Command,
    common="--batches --entries --from-offset --from-time --limit --key --visible --topic --format",
)
@_ROWS_AND_VALUES("--batches", help="Show batch headers; decompress nothing.")
@_ROWS_AND_VALUES(
    "--entries",
    help="Show the entries of indexes, producer snapshots, and checkpoints.",
)
@_ROWS_AND_VALUES(
    "--hex", "as_hex", help="Show every field of a batch with its bytes and position."
)
@_ROWS_AND_VALUES(
    "--records-only",
    help="Leave out the placeholder rows of batches whose records cannot be read; findings still "
    "report these batches.",
)
@_ROWS_AND_VALUES(
    "--decode",
    type=click.Choice(("auto", "schema", "raw")),
    help="auto: decode internal topics and data written with a schema. schema: the same, and add a "
    "row for each schema. raw: decode nothing. Default: auto in a table and in JSON Lines, else "
    "raw.",
)
@_ROWS_AND_VALUES(
    "--schemas",
    "schema_files",
    metavar="TOPIC=FILE",
    multiple=True,
    help="Decode TOPIC's values with this .avsc or .proto file (repeatable). "
    "Instead of TOPIC=FILE, name a schema registry's topic under PATHS (--schemas _schemas), or a "
    "directory with such a topic.",
)
@_ROWS_AND_VALUES(
    "--schemas-at", "schemas_at_ms", type=TIME, help="Use the schemas registered at this time."
)
@_ROWS_AND_VALUES(
    "--reader-schema",
    type=click.Choice(("latest",)),
    help="Convert Avro data to the newest schema version of its subject.",
)
@_ROWS_AND_VALUES(
    "--decoder",
    metavar="COMMAND",
    help="Decode keys and values with this program; kdump-dump(1) describes the protocol.",
)
@_ROWS_AND_VALUES(
    "--decoder-timeout",
    "decoder_timeout_s",
    type=DURATION,
    default="10s",
    help="Wait at most this long for the decoder.",
)
@_ROWS_AND_VALUES(
    "--deep", help="With --batches: decompress batches of magic 0 and 1 to count their messages."
)
@_RANGES("--from-offset", type=INT64, help="Start at this offset.")
@_RANGES("--to-offset", type=INT64, help="Stop before this offset.")
@_RANGES("--from-time", "from_time_ms", type=TIME, help="Start at this time.")
@_RANGES("--to-time", "to_time_ms", type=TIME, help="Stop before this time.")
@_RANGES("-n", "--limit", type=FROM_0, help="Stop after N rows.")
@_RANGES("--tail", type=FROM_0, help="Only the last N rows of each partition.")
@_FILTERS("--key", type=BYTES, help="Only records with exactly this key.")
@_FILTERS("--grep", type=PATTERN, help="Only records whose key or value matches.")
@_ROWS_AND_VALUES(
    "--show-secrets",
    help="Show sensitive settings, and the salts and keys of SCRAM users, in every format.",
)
@_FILTERS("--producer-id", type=INT64, help="Only records of this producer.")
@_FILTERS(
    "--visible",
    help="Only what a consumer receives: log start offset to high watermark, no control records.",
)
@tier_option(_ROWS_AND_VALUES)
@tier_key_option(_ROWS_AND_VALUES)
@_FILTERS(
    "--isolation",
    type=ISOLATION,
    default="read_uncommitted",
    help="read_committed (implies --visible): no aborted data, and stop at the last stable offset.",
)
@_FILTERS(
    "--control/--no-control",
    "control",
    default=None,
    help="Only control records, or none of them. Default: all records.",
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
    writing: OutputSpec,
    **asked: Any,
) -> int:
    """Show the records on disk under PATHS: segment files, partition directories, or data
    directories.

    Shows everything on disk, including what consumers cannot see: records before the log start
    offset, records after the high watermark, control records, and aborted data. --visible shows
    the consumer's view.

    Reads each segment once, in order. The start and the end of a range are looked up in the indexes
    if these are sound. Damage does not stop the dump: a finding on standard error reports it, and
    reading continues at the next valid batch.

    From a packet capture (pcap, pcapng), it shows the requests, the responses, and the records in
    them.

    TIME is epoch milliseconds, epoch seconds after an @, ISO 8601 (UTC by default), now, or a time
    before now (now-30m, '30 minutes ago'). --format parquet --output DIR/ (with the slash) writes a
    directory of Parquet files, one or more for each partition and row kind; -j N and --engine spark
    write them in parallel. --format kafka writes what Kafka's own kafka-dump-log prints.

    \b
    Examples:
        kdump dump /var/lib/kafka/orders-0
        kdump dump --topic 'orders*' --from-time now-30m /var/lib/kafka | jq .value
        kdump dump --tail 10 /var/lib/kafka/orders-0
        kdump dump --hex --from-offset 48301220 --limit 1 orders-7
        kdump dump --batches 00000000000048230114.log
        kdump dump --entries 00000000000048230114.timeindex
        kdump dump --rows frame orders.pcap
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
        if asked["tail"] is not None and mode == "entries":
            raise UsageError("--tail and --entries exclude each other")
        form = _hex_form(writing.form) if as_hex else form_of(writing)
        if as_hex and writing.output is None:
            from kdump.output.escape import terminal_columns

            asked["hex_width"] = terminal_columns()
        asked["visible"] |= asked["isolation"] == "read_committed"
        asked["decode"] = _decodes(decode, mode, form, writing)
        asked["schema_rows"] = decode == "schema" or asked["selection"].topic == "_schemas"
        given = {
            "--schemas": bool(asked["schema_files"]),
            "--decoder": asked["decoder"] is not None,
        }
        for option, is_given in given.items():
            if is_given and not asked["decode"]:
                raise UsageError(f"{option} needs --decode schema here")
        options = DumpOptions(mode=mode, **asked)
        if options.decode:
            from kdump.engine.reading.schemas import with_schemas

            options = with_schemas(paths, options)
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


def _decodes(decode: str | None, mode: str, form: str, writing: OutputSpec) -> bool:
    """Whether records of internal topics are to say what they hold.

    Who asks for bytes in some form is not given anything else unless it is asked for, too.
    """
    if decode in ("auto", "schema"):
        if mode != "records":
            raise UsageError(f"--decode {decode} and --{mode} exclude each other")
        if form == "kafka":
            raise UsageError(
                f"--format kafka prints the text of Kafka's dump tool: remove --decode {decode}"
            )
        return True
    by_default = form in ("table", "jsonl") and writing.bytes_mode == "auto"
    return decode is None and mode == "records" and by_default


def _hex_form(form: str | None) -> str:
    if form not in (None, "table"):
        raise UsageError(f"--hex prints annotated text and does not allow --format {form}")
    return "table"


def _into_directory(
    paths: tuple[str, ...], options: DumpOptions, form: str, engine: Engine, writing: OutputSpec
) -> int:
    """Write parts by worker processes, or by Spark, and return the exit status."""
    from kdump.cli.reports import UndecodedReport
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
            report=UndecodedReport(options),
            tally=PartsTally(progress),
            elsewhere=True,
        )
    with engine.driver(jobs=_processors(), decodes=True) as driver:
        directory = PartDirectory(output, paths)
        return results.take(dump_parts(paths, options, directory, driver, progress=progress))


def _refuse(options: DumpOptions, form: str, output: str | None) -> None:
    """Say what cannot be written to a directory."""
    if form != "parquet" or output is None:
        raise UsageError(
            "an output directory and --engine spark need --format parquet --output DIR/"
        )
    if options.mode not in ("records", "batches"):
        raise UsageError(f"--{options.mode} cannot be split into part files; use --output FILE")
    for name in ("limit", "tail"):
        if getattr(options, name) is not None:
            raise UsageError(f"--{name} needs a single output: add --output FILE")


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
