"""`kdump sequences`: gaps and repeats in what producers sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import FILE_PATH, plain_output_options, spark_path_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.cli.run_context import Engine, Writing
    from kdump.errors import KdumpError
    from kdump.findings.finding import Finding
    from kdump.findings.rows import Row

_LISTED = under("What is listed")


@click.command(
    cls=Command, short_help="Find gaps and repeats in the sequence numbers of producers."
)
@click.argument("paths", nargs=-1, type=FILE_PATH)
@_LISTED(
    "--explained",
    is_flag=True,
    help="Rows also for what has an innocent explanation; else it is only counted.",
)
@spark_path_options
@plain_output_options
def sequences(
    paths: tuple[str, ...],
    *,
    explained: bool,
    engine: Engine,
    writing: Writing,
    **asked: Any,
) -> None:
    """Follow the sequence numbers of idempotent and transactional producers through the partitions
    under PATHS, and say where numbers are missing and where they come a second time.

    Only headers of batches are read. A gap is one where numbers are missing and offsets are not;
    where both are, the cleaner took something (or a segment is gone: verify tells). A producer
    that was idle for producer.id.expiration.ms (a day, unless --server-properties says otherwise)
    may have been forgotten by the broker and may go on at any number. What came before the first
    batch of a producer or of an epoch, and what lies around damage, cannot be judged.

    Gaps and repeats are notes, as in verify: the exit status is 3 when there are any and --fail-on
    is note, or when there is damage on the way.

    \b
    Examples:
        kdump sequences /var/lib/kafka
        kdump sequences --fail-on note --topic 'payments*' -j 4 /var/lib/kafka
        kdump sequences --explained --format csv /var/lib/kafka/orders-7
    """
    from kdump.cli.engines import check_engine_options, item_driver
    from kdump.cli.results import Results, form_of
    from kdump.cli.run_context import need_paths, wrong_usage
    from kdump.engine.sequences.run import SequenceOptions
    from kdump.engine.sequences.run import sequences as follow
    from kdump.engine.work.pace import Progress

    asked.pop("decompress_limit")  # nothing is decompressed
    with wrong_usage():
        need_paths(paths, asked, writing)
        check_engine_options(engine)
        options = SequenceOptions(explained=explained, **asked)
        form = form_of(writing)
        results = Results(form, writing, inputs=paths)
    progress = Progress()
    results.follow_plan(progress, "partition")
    with item_driver(engine) as driver:
        items = follow(paths, options, jobs=engine.jobs or 1, progress=progress, **driver)
        raise SystemExit(_status(results, items, form, writing.fail_on))


def _status(
    results: Any, items: Iterable[Row | Finding | KdumpError], form: str, fail_on: str
) -> int:
    """Write everything; rows may count as findings do."""
    from kdump.cli import status
    from kdump.findings.finding import Severity
    from kdump.findings.rows import Row

    found = False

    def watched() -> Iterator[Row | Finding | KdumpError]:
        nonlocal found
        for item in items:
            if isinstance(item, Row):
                results.rows_begin()
                if item.row == "sequence-summary":
                    if form == "csv":  # all rows have to be alike
                        continue
                elif item.fields["severity"] is not None:
                    found = found or status.fails(Severity(item.fields["severity"]), fail_on)
            yield item

    reached = results.take(watched())
    return status.first_of(reached, status.FINDINGS if found else status.DONE)
