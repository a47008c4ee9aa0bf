"""`kdump groups`: what the group coordinators' topics say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import LOOKUP_FORMATS, TIME, shared_options, version_option

if TYPE_CHECKING:
    from kdump.broker.versions import Version
    from kdump.cli.run_context import Engine, Writing

_ASKED = under("What is asked for")


@click.command(cls=Command)
@_ASKED(
    "--group",
    metavar="GLOB",
    help="Only groups that match, as in 'billing*'; of one name, only its partition is read.",
)
@_ASKED("--at", "at_ms", type=TIME, help="As of this time: what was written later is not there.")
@_ASKED("--history", help="Each change of a committed offset, in the order of the log.")
@_ASKED("--backwards", help="With --history: only changes to a lower offset.")
@_ASKED("--from", "from_ms", type=TIME, help="With --history: earliest time shown.")
@_ASKED("--to", "to_ms", type=TIME, help="With --history: stop before this time.")
@version_option(_ASKED, "Offsets expire as this version has it. Default: the newest.")
@shared_options(LOOKUP_FORMATS, on_spark=False)
def groups(
    paths: tuple[str, ...],
    *,
    broker_version: Version,
    engine: Engine,
    writing: Writing,
    **asked: Any,
) -> int:
    """Replay __consumer_offsets, and __share_group_state where there are share groups, from the
    directories under PATHS: groups of all kinds, their members and their committed offsets, at the
    end of the log or at an earlier time.

    --topic and --partition are those of committed offsets. Where the partition lies under PATHS
    too, a row says where its log begins and ends and how far the group is behind: the high
    watermark that the directory's checkpoint names, which is written every five seconds, less the
    committed offset. They are those of the disks as they lie, whatever --at says.

    An offset that was committed in a transaction counts from its marker on; before, it is a row
    with `pending`. --history says who moved what, when, and how many members the group had then:
    none where an admin client did it. --format reset-csv gives what kafka-consumer-groups
    --reset-offsets --from-file takes.

    States that live in a coordinator's memory alone (PreparingRebalance) are not on disk. The
    cleaner takes records whose key changed later: what --at and --history then lack, they say.

    \b
    Examples:
        kdump groups /var/lib/kafka
        kdump groups --group billing --topic orders --history /var/lib/kafka
        kdump groups --history --backwards --from now-2h /var/lib/kafka
        kdump groups --group billing --at 2026-11-19T03:11:30 --format reset-csv /var/lib/kafka
    """
    from kdump.cli.reports import GroupsReport
    from kdump.cli.results import run_plan
    from kdump.cli.run_context import wrong_usage
    from kdump.engine.registry import COMMANDS
    from kdump.errors import UsageError

    command = COMMANDS["groups"]
    options = command.options(broker_version=broker_version, **asked)
    with wrong_usage():
        if options.history and writing.form == "reset-csv":
            raise UsageError("--history has no reset-csv: give --at a time before the change")
        of_history = {
            "--backwards": options.backwards,
            "--from": options.from_ms is not None,
            "--to": options.to_ms is not None,
        }
        for name, is_given in of_history.items():
            if is_given and not options.history:
                raise UsageError(f"{name} goes with --history")
    report = GroupsReport(options, paths)
    return run_plan(command, paths, options, engine=engine, writing=writing, report=report)
