"""Give the command to type next, as words a shell takes as they are printed.

What a finding's command is follows from its entry in the catalogue; verify, compare and reindex
all take theirs from here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kdump.findings.code import Severity, Show
from kdump.findings.shell import BOOTSTRAP, GROUP, Word, format_command, path_word, topic_word
from kdump.storage import names

if TYPE_CHECKING:
    from kdump.findings.finding import Finding

#: How files end that hold batches: logs of either kind, metadata snapshots.
_LOGS = frozenset({"log", "kafka", "checkpoint"})


def command_for(finding: Finding) -> tuple[Word, ...] | None:
    """Give the words of the command that looks closer or mends; None where there is none.

    A batch is shown with `dump --hex`, an index is rebuilt with `reindex`, which plans first and
    changes nothing by itself. Small files are shown entry by entry. What hangs is ended by Kafka's
    own tool, on a running cluster.
    """
    entry = finding.entry
    if entry.show is Show.NOTHING or entry.severity is Severity.NOTE:
        return None
    if finding.code == "transaction-hanging" and finding.topic is not None:
        return abort_command(finding.topic, finding.partition or 0, finding.offset or 0)
    if entry.reindex and finding.topic is not None:
        return ("kdump", "reindex", "--only", entry.reindex, path_word(directory_of(finding)))
    in_log = finding.path.rpartition(".")[2] in _LOGS
    if not in_log and entry.show is not Show.ENTRIES:  # a loose log of any name
        in_log = names.parse(os.path.basename(finding.path)).kind is names.Kind.UNKNOWN
    if entry.show is Show.ENTRIES and not in_log:
        return ("kdump", "dump", "--entries", path_word(finding.path))
    if finding.position is None or not in_log:
        return None
    if entry.offsets_lie or finding.offset is None or finding.offset < 0:
        return ("kdump", "dump", "--batches", path_word(finding.path))
    return record_command(finding.path, finding.offset, "--hex")


def as_owner(words: Iterable[Word], uid: int) -> tuple[Word, ...]:
    """Return the words of a command that runs as the user who may read a file; root may, too."""
    from kdump.storage.owners import user_name  # few runs meet a file that they may not read

    return ("sudo", *(("-u", user_name(uid)) if uid else ()), *words)


def access_text(path: str, words: Iterable[Word]) -> str | None:
    """Say as whom kdump runs, whom a path that cannot be read belongs to, and what to type.

    `words` is the command that could not read it; None where nothing shows who could.
    """
    from kdump.storage.owners import find_closed_path, user_name

    if not hasattr(os, "geteuid") or (closed := find_closed_path(path)) is None:
        return None
    user, owner = user_name(os.geteuid()), user_name(closed.uid)
    is_own = closed.uid == os.geteuid()
    whose = f"{user}, but with mode {closed.mode:o}" if is_own else f"user {owner}"
    command = format_command(as_owner(words, 0 if is_own else closed.uid))
    return f"kdump is running as user {user}, and {closed.path} belongs to {whose}: {command}"


def remove_command(path: str) -> tuple[Word, ...]:
    """Remove a file."""
    return ("rm", path_word(path))


def verify_command(path: str) -> tuple[Word, ...]:
    """Say what is wrong under a path."""
    return ("kdump", "verify", path_word(path))


def producer_command(path: str, producer_id: int, offset: int) -> tuple[Word, ...]:
    """Show the batches of one producer from an offset on."""
    picks = ("--producer-id", str(producer_id), "--from-offset", str(offset))
    return ("kdump", "dump", "--batches", *picks, path_word(path))


def abort_command(topic: str, partition: int, first: int) -> tuple[Word, ...]:
    """End a transaction on a running cluster."""
    return (
        *("kafka-transactions.sh", "--bootstrap-server", BOOTSTRAP, "abort", "--topic"),
        *(topic_word(topic), "--partition", str(partition), "--start-offset", str(first)),
    )


def shell_line(finding: Finding) -> str | None:
    """Format that command; of many batches it picks the one."""
    words = command_for(finding)
    if words is None:
        return None
    picks = words[1:3] == ("dump", "--batches")
    pipe = ("grep", f'"position":{finding.position},') if picks else ()
    return format_command(words, pipe_to=pipe)


def way_lines(finding: Finding, *, is_planned: bool = False) -> Iterator[str]:
    """Write the commands that lead a group past damage, and show what it then passes over.

    `is_planned`: a plan for several partitions resets the group, and no command does.
    """
    first, served, skipped = finding.next_offset, finding.served_from, finding.skipped_by_seek
    if first is None or finding.served_by is None or finding.topic is None:
        return
    if served is not None and not is_planned:
        yield format_command(
            reset_command(GROUP, topic_word(finding.topic, finding.partition), served)
        )
    if skipped:
        words = ["kdump", "dump", "--from-offset", str(first)]
        words += [] if served is None else ["--to-offset", str(served)]
        yield format_command((*words, path_word(directory_of(finding))))


def reset_command(
    group: str, partition: Word, offset: int, bootstrap: str = BOOTSTRAP
) -> tuple[Word, ...]:
    """Set the committed offset of a group, on a running cluster, while it has no members."""
    return (
        *("kafka-consumer-groups.sh", "--bootstrap-server", bootstrap, "--group", group),
        *("--reset-offsets", "--topic", partition, "--to-offset", str(offset), "--execute"),
    )


def record_command(path: str, offset: int, *how: str) -> tuple[Word, ...]:
    """Show the record at an offset."""
    picks = ("--from-offset", str(offset), "--limit", "1")
    return ("kdump", "dump", *how, *picks, path_word(path))


def directory_of(finding: Finding) -> str:
    """The partition directory a finding is about; some name a file in it, some the directory."""
    name = os.path.basename(finding.path)
    if name == f"{finding.topic}-{finding.partition}":
        return finding.path
    return os.path.dirname(finding.path) or "."
