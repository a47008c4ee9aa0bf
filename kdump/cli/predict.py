"""`kdump predict`: how the next start of a node goes, and what it does to each partition."""

from __future__ import annotations

from typing import Any

import click

from kdump.cli.headings import under
from kdump.cli.options import (
    FROM_1,
    LOOKUP_FORMATS,
    RATE,
    config_option,
    shared_options,
    topic_configs_option,
    version_option,
)
from kdump.cli.verify import MONITORING, NOTES, PluginCommand, limits, run_verify
from kdump.errors import UsageError

_BROKER = under("Broker")
_RECOVERY_TIME = under("Recovery time")
_SCOPE_AND_PACE = under("Scope and pace")


@click.command(
    cls=PluginCommand,
    common="--server-properties --broker-version --quick --measure --as-user --nagios --format",
)
@version_option(_BROKER, "Version of the broker that starts.")
@_BROKER(
    "--as-user",
    metavar="USER",
    help="Check file permissions for this user, given by name or number. Default: permissions "
    "are not checked.",
)
@config_option(_BROKER)
@topic_configs_option(_BROKER)
@_RECOVERY_TIME(
    "--recovery-rate",
    type=RATE,
    help="Bytes that one recovery thread reads per second. Default: 100MiB.",
)
@_RECOVERY_TIME(
    "--measure",
    help="Read each data directory for up to 3 s, bypassing the page cache, and estimate the "
    "recovery time as a range.",
)
@_RECOVERY_TIME(
    "--recovery-threads",
    type=FROM_1,
    help="Recovery threads per data directory. Default: num.recovery.threads.per.data.dir of "
    "--server-properties, else 2 (1 before 4.0).",
)
@_SCOPE_AND_PACE(
    "--quick",
    help="Read only what the broker reads when it starts; damage elsewhere is not reported.",
)
@limits(_SCOPE_AND_PACE)
@MONITORING
@NOTES
@shared_options(LOOKUP_FORMATS, is_wide=False)
def predict(paths: tuple[str, ...], **asked: Any) -> int:
    """Predict whether a broker starts on PATHS, what the start does to each partition, and what
    is lost.

    Applies the rules of --broker-version to the settings, checkpoints, metadata log, and logs,
    and estimates the recovery time. Nothing is changed. The logs are also checked as in kdump
    verify, because damage can still stop consumers after the start; --quick skips that.

    Losses and failed starts are findings: the exit status is 3 if one is at or above --fail-on.

    \b
    Examples:
        kdump predict --server-properties server.properties
        kdump predict --broker-version 3.9 /var/lib/kafka
        kdump predict --quick --as-user kafka --measure /var/lib/kafka
    """
    from kdump.cli.run_context import wrong_usage

    with wrong_usage():
        if asked["measure"] and asked["engine"].is_spark:
            raise UsageError("--measure reads local disks and cannot run on a cluster")
        if asked["as_user"] is not None:
            from kdump.engine.predict.node import user_of

            try:
                user_of(asked["as_user"])
            except ValueError as error:
                raise UsageError(f"--as-user: {error}") from error
    return run_verify("predict", paths, asked)
