"""`kdump why`: why a disk is as full as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import (
    FILE_PATH,
    TIME,
    Read,
    config_option,
    shared_options,
    tier_option,
    topic_configs_option,
    version_option,
)
from kdump.option_values import read_size

if TYPE_CHECKING:
    from kdump.cli.run_context import OutputSpec
    from kdump.engine.why.volumes import FreeRequest

_SELECTION = under("Selection")


def read_free(text: str) -> FreeRequest:
    """Read SIZE or DIRECTORY=SIZE."""
    from kdump.engine.why.volumes import FreeRequest

    directory, sign, size = text.rpartition("=")
    if sign and not directory.strip():
        raise ValueError("does not name a data directory: use SIZE or DIRECTORY=SIZE")
    return FreeRequest(read_size(size), directory.strip() if sign else None)


@click.command(
    cls=Command,
    common="--free --topic --config --now --rolls --cleaner --format",
)
@_SELECTION(
    "--now",
    "now_ms",
    type=TIME,
    default="now",
    help="Evaluate retention at this time. Default: now.",
)
@config_option(_SELECTION)
@_SELECTION(
    "--free",
    "free",
    type=Read("[directory=]size", read_free),
    multiple=True,
    help="List commands that delete data of this size, least loss first. File systems that already "
    "have SIZE free are skipped, unless all of them do. With DIRECTORY=, only that data directory "
    "is considered; the end of its path is enough (d2=6MiB for /data/d2). Repeatable.",
)
@_SELECTION("--rolls", help="Show which rule rolled each segment; reads the first header of each.")
@_SELECTION(
    "--cleaner",
    help="Read compacted logs, and show what the cleaner would remove now, and the logs on which "
    "it would fail.",
)
@tier_option(_SELECTION)
@topic_configs_option(_SELECTION)
@version_option(_SELECTION, "Evaluate as a broker of this version.")
@under("Reports")(
    "--textfile",
    type=FILE_PATH,
    help="Write metrics to FILE for the textfile collector of the Prometheus node exporter.",
)
@shared_options()
def why(paths: tuple[str, ...], *, textfile: str | None, writing: OutputSpec, **asked: Any) -> int:
    """Explain why the disk that holds PATHS is full: what retention deletes next, and what keeps
    the rest.

    Applies the broker's own rules, with the topic configs in the metadata log on the same
    disks. Reads the time index and the end of each segment, and the start of a segment if its
    time index is not reliable. Writes only files that an option names.

    A broker's memory is not visible: the high watermark is that of the last checkpoint. Sizes are
    file lengths; totals match du --apparent-size.

    \b
    Examples:
        kdump why /var/lib/kafka
        kdump why --free 200GiB /var/lib/kafka
        kdump why --topic clicks --now 2026-12-01 /var/lib/kafka
        kdump why --config retention.ms=86400000 /var/lib/kafka
        kdump why --free d2=200GiB /data/d1 /data/d2
    """
    from kdump.cli.reports import WhyReport
    from kdump.cli.results import run_plan
    from kdump.cli.run_context import wrong_usage
    from kdump.output.target import prepare_output
    from kdump.output.textfile import is_textfile

    if textfile is not None:
        with wrong_usage():
            prepare_output(textfile, paths, "--textfile", force=writing.force, is_ours=is_textfile)
    return run_plan(
        "why",
        paths,
        asked | {"writing": writing},
        report=lambda options: WhyReport(textfile),
        decodes=asked["cleaner"],
    )
