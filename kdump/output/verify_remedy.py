"""Give the command to type next for each finding, quoted for a shell."""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING

from kdump.broker.transaction_text import abort_command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.findings.finding import Finding

#: Codes about a small file whose entries are worth a look, by how they start.
_ENTRIES = ("snapshot-", "checkpoint-", "properties-", "leader-epoch", "transaction-index-")
#: Codes about batches whose offsets cannot be gone by; they are found by their position.
_LYING_OFFSETS = frozenset(
    {
        "offset-not-rising",
        "offset-below-base",
        "offset-past-next",
        "offset-past-range",
        "record-offset",
        "wrapper-offset",
    }
)
#: Codes about what is not there, so that nothing can be shown, or whose remedy comes first.
_NO_COMMAND = frozenset(
    {
        "segment-missing",
        "log-too-short",
        "zero-tail",
        "log-end-astray",
        "metadata-snapshot-damaged",
    }
)
#: How files end that hold batches: logs of either kind, metadata snapshots.
_LOGS = frozenset({"log", "kafka", "checkpoint"})
#: Codes whose file `reindex` rebuilds, by how they start -> the word of its --only.
_REINDEX = {
    "offset-index": "index",
    "offset-lookup": "index",
    "time-index": "timeindex",
    "time-lookup": "index,timeindex",
    "transaction-index": "txnindex",
    "leader-epoch": "leader-epochs",
}


def command_for(finding: Finding) -> tuple[str, ...] | None:
    """Give the words of the command that looks closer or mends; None where there is none.

    A batch is shown with `dump --hex`, an index is rebuilt with `reindex`, which plans first and
    changes nothing by itself. Small files are shown entry by entry. What hangs is ended by Kafka's
    own tool, on a running cluster.
    """
    severity = finding.severity.value
    if finding.code in _NO_COMMAND:
        return None
    if finding.code == "transaction-hanging" and finding.topic is not None:
        return abort_command(finding.topic, finding.partition or 0, finding.offset or 0)
    if severity == "rebuild":
        for start, only in _REINDEX.items():
            if finding.code.startswith(start) and finding.topic is not None:
                return ("kdump", "reindex", "--only", only, as_path(_directory(finding)))
    if severity == "note":
        return None
    in_log = finding.path.rpartition(".")[2] in _LOGS
    if finding.code.startswith(_ENTRIES) and not in_log:
        return ("kdump", "dump", "--entries", as_path(finding.path))
    if finding.position is None or not in_log:
        return None
    if finding.code in _LYING_OFFSETS or finding.offset is None or finding.offset < 0:
        return ("kdump", "dump", "--batches", as_path(finding.path))
    where = ("--from-offset", str(finding.offset), "--limit", "1")
    return ("kdump", "dump", "--hex", *where, as_path(finding.path))


def shell_line(finding: Finding) -> str | None:
    """Write that command as a line for a shell; of many batches it picks the one."""
    words = command_for(finding)
    if words is None:
        return None
    picks = words[1:3] == ("dump", "--batches")
    return shell_text(words) + (f" | grep '\"position\":{finding.position},'" if picks else "")


def way_lines(finding: Finding) -> Iterator[str]:
    """Write the commands that lead a group past damage, and show what it then passes over."""
    first, served, skipped = finding.next_offset, finding.served_from, finding.skipped_by_seek
    if first is None or finding.served_by is None or finding.topic is None:
        return
    if served is not None:
        group = "kafka-consumer-groups … --reset-offsets --topic"
        where = shell_text((f"{finding.topic}:{finding.partition}",))
        yield f"{group} {where} --to-offset {served} --execute"
    if skipped:
        words = ["kdump", "dump", "--from-offset", str(first)]
        words += [] if served is None else ["--to-offset", str(served)]
        yield shell_text((*words, as_path(_directory(finding))))


def shell_text(words: tuple[str, ...]) -> str:
    """Write words so that a shell reads exactly them; what a terminal would obey is spelled out."""
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    if word.isprintable() and not re.search("[\ud800-\udfff]", word):
        return shlex.quote(word)
    spelled = "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b"'\\" else f"\\x{byte:02x}"
        for byte in os.fsencode(word)
    )
    return f"$'{spelled}'"


def as_path(path: str) -> str:
    """Keep a path from being read as an option."""
    return f"./{path}" if path.startswith("-") else path


def _directory(finding: Finding) -> str:
    """The partition directory a finding is about; some name a file in it, some the directory."""
    name = os.path.basename(finding.path)
    if name == f"{finding.topic}-{finding.partition}":
        return finding.path
    return os.path.dirname(finding.path) or "."
