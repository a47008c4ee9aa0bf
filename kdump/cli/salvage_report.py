"""What `salvage` makes of its results beside writing them: the commands to type next."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from kdump.cli import status
from kdump.cli.reports import again
from kdump.findings.finding import Finding
from kdump.findings.rows import Row
from kdump.findings.shell import (
    ASIDE,
    COPY,
    DIRECTORY,
    LOG_DIR,
    SERVER_PROPERTIES,
    Variable,
    Word,
    format_command,
    path_word,
)
from kdump.output.amounts import count_text
from kdump.output.escape import is_terminal
from kdump.output.report import Report
from kdump.storage.names import CLEAN_SHUTDOWN

if TYPE_CHECKING:
    from kdump.engine.salvage.options import SalvageOptions
    from kdump.output.report import Page, Result
    from kdump.output.sink import Sink
    from kdump.rows.salvage import CarvedGroup


class SalvageReport(Report):
    """Says at the end what to type next: how to build it, and how to bring it into a cluster."""

    def __init__(
        self, options: SalvageOptions, *, is_check: bool, propose_map: str | None = None
    ) -> None:
        self._options = options
        self._propose_map = propose_map
        self._carved: dict[str, tuple[str, CarvedGroup]] = {}
        self._is_check = is_check
        self._partitions: list[str] = []
        self._conflicts = 0
        self._unnamed: list[str] = []
        self._is_short = self._is_table = False

    def sink(self, form: str, page: Page) -> Sink | None:
        """Leave the form of output as it is."""
        self._is_table = form == "table"
        return super().sink(form, page)

    def takes(self, item: Result) -> bool:
        """Take note of the partitions, and of what is not decided; print commands as they come."""
        if isinstance(item, Row) and item.row == "salvage-step":
            if not self.quiet:
                self.messages.line(f"kdump: {item.fields['text']}")
                self.messages.line(f"  {item.fields['command']}")
            return not self._is_table
        if isinstance(item, Row) and item.row == "group-offsets":
            if not self.quiet:
                self.messages.line(_applied_words(item.fields))
            return not self._is_table
        if isinstance(item, Finding) and item.code == "produced-short":
            self._is_short = True
        from kdump.rows.salvage import Salvaged

        if isinstance(item, Salvaged):
            self._partitions.append(f"{item.topic}-{item.partition}")
            self._conflicts += sum(one["chosen"] is None for one in item.conflicts)
            self._unnamed += [one["group"] for one in item.carved if one["named_by"] is None]
            for one in item.carved:
                self._carved[one["group"]] = self._partitions[-1], one
        return True

    def status(self, reached: int) -> int:
        """Say what to type next; a run that did not finish has a status of its own."""
        if self._is_short and reached == status.FINDINGS:
            reached = status.NOT_DONE
        if self._propose_map is not None:
            from kdump.output.reset_csv import map_text
            from kdump.output.target import write_whole

            write_whole(self._propose_map, [map_text(self._carved)], "--propose-map")
            groups = count_text(len(self._carved), "group")
            self.messages.line(f"kdump: wrote {self._propose_map}, {groups}")
        if self._is_check or self.quiet or not self._partitions or not is_terminal(sys.stderr):
            return reached
        if self._unnamed:
            self.messages.prose(
                f"The partition of {_some(self._unnamed)} is unknown. If you know it, add "
                f"--topic-map FILE with lines such as {self._unnamed[0]},TOPIC-PARTITION; "
                "--propose-map FILE writes such a file to edit"
            )
        if self._options.produce is not None:
            for line in _produce_lines(self._options):
                self.messages.line(line)
        elif self._options.out is None or self._options.dry_run:
            out = () if self._options.out else ("--out", DIRECTORY)
            prefer = ("--prefer", COPY) if self._conflicts else ()
            command = again(*out, *prefer, without="--dry-run")
            if self._propose_map is not None:  # it was written, and is to be read when it is edited
                command = command.replace("--propose-map", "--topic-map", 1)
            self.messages.line("Nothing was written. To build it:")
            self.messages.line(f"  {command}")
        elif not self.messages.statuses:
            where, *steps = _steps(self._options.out, self._partitions)
            self.messages.prose(where)
            for line in steps:
                self.messages.line(line)
        return reached


def _produce_lines(options: SalvageOptions) -> list[str]:
    """Say where a run that produces has written what, and what to type next."""
    if options.dry_run:
        return [f"Nothing was sent. To send it: {again(without='--dry-run')}"]
    state = str(options.resume)
    lines = [f"The new offset of each record: {state}.offsets.csv"]
    if options.groups and not options.apply_groups:
        tool = ("kafka-consumer-groups.sh", "--bootstrap-server", str(options.produce))
        plan = ("--all-groups", "--reset-offsets", "--from-file", f"{state}.groups.csv")
        lines.append(
            f"To commit the offsets of groups: {format_command((*tool, *plan, '--execute'))}"
        )
    return lines


#: Why an offset of a group was not committed, in words.
_NOT_APPLIED = {
    "planned": "only written to the file; --apply-groups commits them",
    "has-members": "the group has active members",
    "moved": "another offset was committed since",
    "failed": "a broker refused",
    "ended": "removed earlier, by expiry or by hand; --groups-at selects another time",
    "gone": "removed with the topic and no longer in the log",
    "committed-since": "committed after the deletion",
    "pending": "in a transaction that did not end",
    "share-group": "in a share group",
    "not-produced": "in partitions that were not produced completely",
}


def _applied_words(fields: dict[str, Any]) -> str:
    """Say how many offsets of groups were committed, and why others were not."""
    from kdump.output.amounts import time_text

    applied, left = fields["applied_count"], fields["not_applied_count"]
    words = f"kdump: offsets of groups: {applied:,} applied, {left:,} not applied"
    why = [
        f"{count:,} {_NOT_APPLIED[word]}"
        for word, count in fields["outcomes"].items()
        if word in _NOT_APPLIED
    ]
    words += f" ({'; '.join(why)})" if why else ""
    if fields["as_of"] != "now":
        before = "just before the deletion, " if fields["as_of"] == "deletion" else ""
        words += f"; as of {before}{time_text(fields['as_of_ms'])}"
    return words


_STEPS_SHOWN = 20
_GROUPS_SHOWN = 5


def _some(groups: list[str]) -> str:
    more = len(groups) - _GROUPS_SHOWN
    return ", ".join(groups[:_GROUPS_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def _steps(out: str, partitions: list[str]) -> list[str]:
    """Say how what was built gets into a running cluster, as commands."""
    where = "a broker that is their only replica"
    lines = [
        (
            f"To bring the partitions of {out} to {where}: set {LOG_DIR} to its data directory and "
            f"{ASIDE} to a directory for the old files, and type:"
        ),
        _step("kafka-server-stop.sh"),
    ]
    for name in partitions[:_STEPS_SHOWN]:
        there, owner = Variable(LOG_DIR, f"/{name}"), Variable(LOG_DIR, option="--reference=")
        lines.append(_step("mv", there, Variable(ASIDE)))
        lines.append(_step("cp", "-a", path_word(f"{out}/{name}"), Variable(LOG_DIR)))
        lines.append(_step("chown", "-R", owner, there))
    if len(partitions) > _STEPS_SHOWN:
        lines.append(f"  # and so on for {len(partitions) - _STEPS_SHOWN:,} more")
    lines += [
        _step("rm", "-f", Variable(LOG_DIR, f"/{CLEAN_SHUTDOWN}")),
        _step("kafka-server-start.sh", "-daemon", SERVER_PROPERTIES),
    ]
    return lines


def _step(*words: Word) -> str:
    return f"  {format_command(words)}"
