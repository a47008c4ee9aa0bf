"""`kdump reindex`: plan indexes as recovery writes them, and write them with `--write`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import (
    FILE_PATH,
    INT_SIZE,
    config_option,
    shared_options,
    topic_configs_option,
    version_option,
)
from kdump.errors import UsageError
from kdump.stores.uris import is_uri, is_view

if TYPE_CHECKING:
    from kdump.cli.run_context import Engine, OutputSpec

_ACTION = under("Action")
_RECOVERY_SETTINGS = under("Recovery settings")


@click.command(
    cls=Command,
    common="--write --undo --out --only --topic --server-properties",
)
@_ACTION("--write", help="Replace the indexes. Without this option they stay as they are.")
@_ACTION(
    "--out",
    metavar="DIR",
    type=FILE_PATH,
    help="Build in DIR/TOPIC-PARTITION and leave the source untouched; does not need --write.",
)
@_ACTION(
    "--undo",
    help="Restore the files that the latest --write replaced. Without --write, only show them.",
)
@_ACTION("--all", "every", help="Also rebuild indexes that work, but are not what recovery writes.")
@_ACTION("--up-to-damage", help="Also build indexes for a damaged log, up to the damage.")
@_ACTION(
    "--only",
    metavar="KINDS",
    help="Rebuild only these, separated by commas: index, timeindex, txnindex, leader-epochs, "
    "checkpoints. Default: the first three.",
)
@_RECOVERY_SETTINGS(
    "--index-interval-bytes",
    type=INT_SIZE,
    help="The topic's index.interval.bytes. Default: from the metadata log, else 4096.",
)
@_RECOVERY_SETTINGS(
    "--max-index-bytes",
    type=INT_SIZE,
    help="The topic's segment.index.bytes. Default: from the metadata log, else 10485760.",
)
@config_option(_RECOVERY_SETTINGS)
@topic_configs_option(_RECOVERY_SETTINGS)
@version_option(_RECOVERY_SETTINGS, "Rebuild as the recovery of this version does.")
@shared_options(on_spark=False)
def reindex(
    paths: tuple[str, ...], *, only: str | None, engine: Engine, writing: OutputSpec, **asked: Any
) -> int:
    """Rebuild .index, .timeindex, and .txnindex files under PATHS, byte for byte as log
    recovery does.

    Without --write or --out, this only shows a plan: the entries of each index now and after the
    rebuild, the first difference, and the reason. Each log is read once, and its checksums are
    verified; nothing is decompressed, except magic 0 and 1 with --broker-version below 2.0. Sound
    indexes are left alone, unless --all is given.

    --write writes the new file next to the old one, keeps the old one as .bak-<UTC time>, and
    renames the new one; if interrupted at any point, each index is either the complete old file or
    the complete new one. --write is refused (exit status 5) while a broker runs on the data
    directory, and for a log that a broker would truncate. Topic configs come from the metadata log
    on the same disks; each row names them and their source.

    \b
    Examples:
        kdump reindex /var/lib/kafka/orders-0
        kdump reindex --write --topic 'orders*' --server-properties server.properties
        kdump reindex --write --undo /var/lib/kafka/orders-0
        kdump reindex --out rebuilt /mnt/image/kafka/orders-0
        kdump reindex --only leader-epochs /var/lib/kafka/orders-0
    """
    from kdump.cli.reports import ReindexReport
    from kdump.cli.results import Results
    from kdump.cli.run_context import wrong_usage
    from kdump.engine.registry import COMMANDS
    from kdump.engine.reindex.run import kinds_of
    from kdump.output.target import need_writable_directory
    from kdump.storage.evidence import refuse_among_evidence

    with wrong_usage():
        if only is not None:
            try:
                asked["only"] = kinds_of(only)
            except ValueError as error:
                raise UsageError(f"--only {error}") from None
        asked["write"] = asked["write"] or asked["out"] is not None
        command = COMMANDS["reindex"]
        options = command.options(**asked)
        if options.undo and options.out is not None:
            raise UsageError(
                "--undo and --out exclude each other: --out keeps no backup to restore"
            )
        for path in (*paths, options.out or ""):
            if is_view(path):
                raise UsageError(f"{path}: cannot write into an archive; unpack it first")
            if is_uri(path):
                raise UsageError(f"{path}: is in a store; copy it to the broker's local disk first")
        if options.out is not None:
            refuse_among_evidence(options.out, "--out")
            need_writable_directory(options.out, "--out")
        results = Results(writing, inputs=paths, report=ReindexReport(options))
    return results.take(command.run(paths, options))
