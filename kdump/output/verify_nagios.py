"""Print one line for a monitoring plug-in, with performance data and its own statuses.

Behind it come lines of long text, for whoever opens the alarm: the worst findings, one a line.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence

from kdump.findings.commands import command_for
from kdump.findings.finding import Finding, Severity
from kdump.findings.shell import format_command
from kdump.output.amounts import count_text
from kdump.output.escape import visible
from kdump.output.sink import Sink
from kdump.rows.verify import VerifySummary

OK, WARNING, CRITICAL, UNKNOWN = 0, 1, 2, 3
_WORDS = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
_WORST = 10
#: A bar would start performance data, and a line end the long output.
_PLAIN = str.maketrans({"|": "/", "\n": " ", "\r": " "})


class PluginText(Sink):
    """Writes the text when everything was found, with the worst of it.

    Those are ten of the findings that are at least as severe as what has lines of its own.
    """

    def __init__(
        self, write: Callable[[bytes], object], fail_on: str, text: Callable[[list[Finding]], str]
    ) -> None:
        self._write = write
        self._least = lowest_severity(fail_on)
        self._text = text
        self._worst: list[Finding] = []

    def finding(self, finding: Finding) -> None:
        """Keep the worst, of those as urgent the first."""
        if finding.severity.rank >= self._least.rank:
            insort(self._worst, finding, key=lambda one: [-number for number in one.urgency])
            del self._worst[_WORST:]

    def finish(self) -> None:
        """Write it all; half a run has no outcome."""
        self._write(self._text(self._worst).encode("utf-8", "backslashreplace") + b"\n")


def plugin_status(summary: VerifySummary | None, errors: int, fail_on: str = "rebuild") -> int:
    """Return the status: damage stays true even if the rest could not be read.

    What was found to be rebuilt does not hide that a path was not read, for there may be damage.
    What is less severe than `fail_on` alarms nobody.
    """
    alarming = _select_alarming(_findings(summary), fail_on)
    if alarming.get("damage"):
        return CRITICAL
    if errors or summary is None:
        return UNKNOWN
    return WARNING if alarming else OK


def _select_alarming(findings: dict[str, int], fail_on: str) -> dict[str, int]:
    """Give the counts at or above a severity, the worst first; nothing where there is none."""
    if fail_on == "never":
        return {}
    least = Severity(fail_on).rank
    return {word: n for word, n in findings.items() if n and Severity(word).rank >= least}


def lowest_severity(fail_on: str) -> Severity:
    """From which severity on findings are lines of their own: notes only where they alarm."""
    return Severity.NOTE if fail_on == Severity.NOTE.value else Severity.REBUILD


def plugin_text(
    worst: Sequence[Finding], summary: VerifySummary | None, errors: int, why: str, fail_on: str
) -> str:
    """Write the line, and behind it a line for each of the worst findings."""
    first = plugin_line(worst[0] if worst else None, summary, errors, why, fail_on)
    lines = [first, *map(_long_line, worst)]
    alarming = _select_alarming(_findings(summary), lowest_severity(fail_on).value)
    more = sum(alarming.values()) - len(worst)
    if worst and more > 0:
        lines.append(f"and {more:,} more: kdump verify without --nagios lists them")
    return "\n".join(lines)


def plugin_line(
    worst: Finding | None,
    summary: VerifySummary | None,
    errors: int,
    why: str,
    fail_on: str = "rebuild",
) -> str:
    """Write the line; `why` is the last error, for when there is nothing better to say."""
    status = plugin_status(summary, errors, fail_on)
    findings = _findings(summary)
    if worst is not None and status in (WARNING, CRITICAL):
        sentence = _sentence(worst, findings)
    elif status == UNKNOWN:
        sentence = why or "nothing was checked"
    else:
        assert summary is not None
        sentence = _coverage_text(summary)
        below = {word: n for word, n in findings.items() if n and word != "note"}
        if below:
            sentence += f"; not reported under --fail-on {fail_on}: " + ", ".join(
                f"{n} {word}" for word, n in below.items()
            )
    line = f"KDUMP {_WORDS[status]} - {visible(sentence).translate(_PLAIN)}"
    return line if summary is None else f"{line} | {_performance(summary)}"


def _coverage_text(row: VerifySummary) -> str:
    """Say how much was looked at, and of what: --quick reads no log through."""
    partitions = count_text(row.paths, "partition")
    if row.mode != "quick":
        return f"{partitions}, {count_text(row.segments, 'segment')} checked"
    tails = count_text((row.tails or 0), "segment")
    return f"{partitions}, names, sizes, indexes and tails of {tails} checked (--quick)"


def _long_line(finding: Finding) -> str:
    """Write what follows from a finding, where it is, and what to do next."""
    words = command_for(finding)
    entry = finding.entry
    sentence = (
        f"{finding.severity.value.upper()} {finding.code} in {_place(finding)}: {entry.meaning}"
    )
    line = visible(f"{sentence} File: {finding.path}").translate(_PLAIN)
    if words is None:
        return f"{line} Next: {entry.remedy}"
    return f"{line} Next: {format_command(words)}"


def _sentence(worst: Finding, findings: dict[str, int]) -> str:
    """Name the worst finding and where it is."""
    word = worst.severity.value
    parts = [f"{findings[word]} {word}: {worst.code} in {_place(worst)}"]
    if worst.lost_at_most:
        least = worst.lost_at_least or 0
        lost = worst.lost_at_most
        parts.append(f"({lost if least == lost else f'{least} to {lost}'} records)")
    return " ".join(parts)


def _place(finding: Finding) -> str:
    where = finding.path
    if finding.topic is not None:
        where = f"{finding.topic}-{finding.partition}"
    if finding.offset is not None:
        return f"{where} at offset {finding.offset}"
    return where if finding.position is None else f"{where} at position {finding.position}"


def _performance(row: VerifySummary) -> str:
    findings = row.findings
    figures = (
        f"damaged={findings['damage']};;0 rebuild={findings['rebuild']};0"
        f" bytes={row.bytes}B seconds={row.seconds:g}"
        f" not_checked={row.unchecked}"
    )
    if forecast := row.forecast:
        figures += (
            f" start_records_lost={forecast['records_lost']};;0"
            f" start_bytes={forecast['bytes_to_read']}B start_seconds={forecast['seconds']:g}"
        )
    return figures


def _findings(summary: VerifySummary | None) -> dict[str, int]:
    return (summary and summary.findings) or {}
