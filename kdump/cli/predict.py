"""`kdump predict`: how the next start of a node goes, and what it does to each partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kdump.cli.headings import under
from kdump.cli.options import (
    DURATION,
    FROM_1,
    LOOKUP_FORMATS,
    RATE,
    config_option,
    shared_options,
    topic_configs_option,
    version_option,
)
from kdump.cli.verify import MONITORING, NOTES, PluginCommand, run_verify
from kdump.errors import UsageError

if TYPE_CHECKING:
    from kdump.cli.run_context import Engine, Writing

_START = under("Which start")
_TIME = under("How long it takes")
_AMOUNT = under("How much is read")


@click.command(cls=PluginCommand)
@version_option(_START, "The version that is started. Default: the newest.", None)
@_START(
    "--as-user",
    metavar="USER",
    help="Check what this user may do with the files, by name or number. Default: rights are not "
    "looked at.",
)
@config_option(_START)
@topic_configs_option(_START)
@_TIME(
    "--recovery-rate",
    type=RATE,
    help="What a recovery thread reads in a second. Default: 100MiB.",
)
@_TIME(
    "--measure",
    help="Read for up to 3 s in the logs of each data directory, past the page cache, and give the "
    "time that recovery takes as a range.",
)
@_TIME(
    "--recovery-threads",
    type=FROM_1,
    help="Recovery threads of a data directory. Default: num.recovery.threads.per.data.dir of "
    "--server-properties, else 2, before 4.0 1.",
)
@_AMOUNT(
    "--quick",
    help="Read no log through that the start would not read. Where consumers stop at damage that "
    "the start leaves is then not said.",
)
@_AMOUNT(
    "--max-duration",
    "max_duration_s",
    type=DURATION,
    help="Begin no segment after this time, as in 2h; the summary says what is left.",
)
@_AMOUNT("--bwlimit", "bytes_per_second", type=RATE, help="Read so many bytes a second, as 50MiB.")
@MONITORING
@NOTES
@shared_options(LOOKUP_FORMATS, is_wide=False)
def predict(
    paths: tuple[str, ...],
    *,
    notes: bool,
    nagios: bool,
    textfile: str | None,
    engine: Engine,
    writing: Writing,
    **asked: Any,
) -> int:
    """Say whether the node whose data directories are PATHS starts, and if not, what stops it; what
    the start does to each partition, what is lost by it, and how long recovery takes.

    The answer is that of the version asked: its settings, checkpoints, metadata log, and each log
    as it would load it. Nothing is changed. The logs are checked as by kdump verify, so that it
    can be said where consumers still stop after the start; --quick leaves that out.

    Losses and refusals are findings: the exit status is 3 when one is at or above --fail-on.

    \b
    Examples:
        kdump predict --server-properties server.properties
        kdump predict --broker-version 3.9 /var/lib/kafka
        kdump predict --quick --as-user kafka --measure /var/lib/kafka
    """
    from kdump.cli.run_context import wrong_usage

    with wrong_usage():
        if asked["measure"] and engine.is_spark:
            raise UsageError("--measure reads disks of this machine, not of a cluster")
        if asked["as_user"] is not None:
            from kdump.engine.predict.node import user_of

            try:
                user_of(asked["as_user"])
            except ValueError as error:
                raise UsageError(f"--as-user: {error}") from error
    return run_verify(
        "predict",
        paths,
        asked,
        notes=notes,
        nagios=nagios,
        textfile=textfile,
        engine=engine,
        writing=writing,
    )
