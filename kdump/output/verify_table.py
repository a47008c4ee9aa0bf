"""Print the findings of `verify` for a person: the worst first, with meaning and remedy.

Findings are held until the end, because the worst of them has to stand first; meanwhile the
progress bar says how many there are. Held are the worst few thousand; the rest is counted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from kdump.findings.commands import directory_of, shell_line, way_lines
from kdump.findings.finding import CATALOGUE, Finding, Severity
from kdump.output.amounts import count_text, seconds_text, size_text
from kdump.output.column_widths import join, width_of, wrap
from kdump.output.damage_plan import firsts, plan_commands, plan_words
from kdump.output.escape import visible
from kdump.output.report import Page, TextReport
from kdump.output.verify_overview import IN_FULL, overview_lines, worst_of
from kdump.output.verify_remote import RemoteSegments
from kdump.output.verify_text import Columns, describe, not_checked_text
from kdump.rows.verify import (
    REFUSALS,
    NodeStart,
    Recovery,
    RemoteSegmentRow,
    SummaryBy,
    VerifySummary,
    WayPast,
)

if TYPE_CHECKING:
    from kdump.output.sink import Item
    from kdump.storage.directory_facts import DirectoryFacts

#: Many findings are cut to this many lines, unless fewer than a few would remain in full.
_PAGE_LINES, _FEWEST = 118, 3
#: The lines that follow the findings: what was checked, what was not, and the status.
_CLOSING_LINES = 8
_INDENT = " " * 9
#: Of one code in one partition so many are reported in full.
_TOLD_EACH = 5
#: Room for " in 999.9 s.".
_DURATION = 12
#: A remedy that is longer is written once.
_SHORT_REMEDY = 60
#: So many are held of each severity.
_HELD = 2000
_SHOWN_DIRECTORIES = 12


class VerifyTable(TextReport):
    """Takes findings and the summary, and writes all of it at the end."""

    def __init__(
        self,
        page: Page,
        *,
        quiet: bool,
        all_notes: bool,
        all_findings: bool,
        directories: Callable[[], Iterable[DirectoryFacts]],
        status: Callable[[], int],
        plan: str,
    ) -> None:
        """`plan`: the command that writes the plan, for damage in many partitions."""
        super().__init__(page, quiet=quiet)
        self._all_notes = all_notes
        self._all_findings = all_findings
        self._in_full: set[int] | None = None  # by id; None: all
        self._directories = directories
        self._status = status
        self._plan = plan
        self._ways: list[WayPast] = []
        self._held: dict[Severity, list[Finding]] = defaultdict(list)
        self._left_out: Counter[Severity] = Counter()
        self._notes: Counter[str] = Counter()
        self._note_places: dict[str, set[int]] = defaultdict(set)
        self._beside_partitions: set[str] = set()  # codes of notes that are not all of partitions
        self._planned: set[tuple[str | None, int | None, int | None]] = set()
        self._recoveries: list[Recovery] = []
        self._forecasts: dict[str | None, Recovery] = {}  # by directory
        self._nodes: list[NodeStart] = []
        self._groups: list[SummaryBy] = []
        self._remote = RemoteSegments()
        self._summary: VerifySummary | None = None
        self._meant: set[str] = set()  # meanings that were reported
        self._suggests_reindex = False

    def finding(self, finding: Finding) -> None:
        """Hold a finding."""
        if finding.severity is Severity.NOTE and not self._all_notes:
            self._notes[finding.code] += 1
            place = hash((finding.topic, finding.partition) if finding.topic else finding.path)
            self._note_places[finding.code].add(place)
            if not finding.topic:
                self._beside_partitions.add(finding.code)
        elif len(self._held[finding.severity]) < _HELD or finding.urgency[1]:
            self._held[finding.severity].append(finding)
        else:
            self._left_out[finding.severity] += 1

    def write(self, item: Item) -> None:
        """Hold what a restart would do to a partition, the sum of a group, or the summary."""
        if isinstance(item, VerifySummary):
            self._summary = item
        elif isinstance(item, NodeStart):
            self._nodes.append(item)
        elif isinstance(item, WayPast):
            self._ways.append(item)
        elif isinstance(item, SummaryBy):
            self._groups.append(item)
        elif isinstance(item, Recovery):
            self._recoveries.append(item)
            self._forecasts[item.path] = item
        elif isinstance(item, RemoteSegmentRow):
            self._remote.add(item)

    def finish(self) -> None:
        """Write everything."""
        planned = firsts(self._ways)
        if len(planned) > 1:
            self._planned = {(row.topic, row.partition, row.offset) for row in planned}
        if not self._quiet:
            self._lines(_heading(list(self._directories()), self._width))
            self._line()
            self._node_lines()
        self._overview()
        for severity in sorted(Severity, key=lambda severity: -severity.rank):
            self._findings(severity)
            if severity is Severity.DAMAGE:
                self._lines(self._plan_lines(planned))
        self._more_line()
        self._lines(self._note_lines())
        if self._suggests_reindex and not self._quiet:
            self._line(
                "Each reindex command above only shows what it would do; add --write to do it."
            )
        if self._quiet and not self._recoveries:
            return
        if self._recoveries:
            from kdump.output.verify_node import REFUSES
            from kdump.output.verify_recovery import recovery_lines, totals_lines

            forecast = self._summary.forecast if self._summary else None
            every = self._all_findings
            causes = {row.cause for row in self._nodes if row.outcome == REFUSES}
            lines = recovery_lines(
                self._recoveries,
                forecast,
                self._width,
                every=every,
                is_refused=not causes <= {"partition", "lock"},
                is_assumed=self._is_assumed,
            )
            self._lines(lines)
            if forecast:
                self._lines(totals_lines(forecast, self._width))
        self._lines(self._remote.lines(self._width))
        if self._groups:
            from kdump.output.verify_groups import group_lines

            self._line()
            self._lines(group_lines(self._groups, self._width))
        if self._summary:
            self._write_closing(self._summary)

    def _node_lines(self) -> None:
        if self._nodes:
            from kdump.output.verify_node import node_lines

            self._lines(node_lines(self._nodes, self._width, self._word))
            if self._notes or any(map(self._select_shown, Severity)):
                self._line()

    def stop(self) -> None:
        """Write what was found so far."""
        self.finish()
        if not self._quiet:
            self._line()
            self._line("Interrupted: the results so far are above.")

    def _select_shown(self, severity: Severity) -> list[Finding]:
        """Return the findings of a severity without those that the node's verdict repeats.

        The finding of a partition that stops the start stays: it alone names what to do.
        """
        nodes = [] if self._quiet else self._nodes  # they are not written then
        said = [row.message for row in nodes if row.cause != "partition"]
        return [each for each in self._held[severity] if not any(at in each.message for at in said)]

    def _overview(self) -> None:
        """Write a table of many findings, and choose those that are shown in full."""
        found = [
            each for one in (Severity.DAMAGE, Severity.REBUILD) for each in self._select_shown(one)
        ]
        if self._quiet or self._all_findings or len(found) <= IN_FULL:
            return
        overview = [*overview_lines(found, self._width)]
        worst = self._on_one_page(worst_of(found), len(overview))
        self._in_full = {id(each) for each in worst}
        self._lines(overview)
        self._line()
        self._line(f"The {len(worst)} worst:")

    def _on_one_page(self, worst: list[Finding], overview_count: int) -> list[Finding]:
        """Keep the worst findings that have room on the page with everything else."""
        heading = len([*_heading(list(self._directories()), self._width)])
        more = len([*self._plan_lines(firsts(self._ways))]) + len([*self._note_lines()])
        room = _PAGE_LINES - heading - overview_count - more - _CLOSING_LINES
        meant, columns = set[str](), Columns(worst)
        for count, finding in enumerate(worst):
            room -= len([*self._finding_lines(finding, columns, meant)])
            if room < 0 and count >= _FEWEST:
                return worst[:count]
        return worst

    def _more_line(self) -> None:
        if self._in_full is not None:
            found = sum(len(self._select_shown(one)) for one in (Severity.DAMAGE, Severity.REBUILD))
            self._line()
            self._line(f"… {found - len(self._in_full):,} more: --all shows them in full.")

    def _findings(self, severity: Severity) -> None:
        counts: Counter[tuple[str | None, int | None, str]] = Counter()
        held = sorted(self._select_shown(severity), key=_place_key)
        if self._in_full is not None and severity is not Severity.NOTE:
            held = [each for each in held if id(each) in self._in_full]
        columns = Columns(held)
        for finding in held:
            kind = (finding.topic, finding.partition, finding.code)
            counts[kind] += 1
            if counts[kind] <= _TOLD_EACH or severity is Severity.NOTE:
                self._lines(self._finding_lines(finding, columns, self._meant))
        for (topic, partition, code), count in counts.items():
            if count > _TOLD_EACH and severity is not Severity.NOTE:
                more = f"{count - _TOLD_EACH:,} more {code} in {topic}-{partition}"
                self._line(f"{self._level(severity)}{visible(more)}; --format jsonl lists them")
        if self._left_out[severity]:
            more = f"{self._left_out[severity]:,} more findings"
            self._line(f"{self._level(severity)}{more}; --format jsonl lists them")

    def _finding_lines(self, finding: Finding, columns: Columns, meant: set[str]) -> Iterator[str]:
        """Write a finding in full; what it means only where `meant` does not have that yet."""
        first, *more = self._where(columns.where(finding))
        yield self._level(finding.severity) + first
        yield from (_INDENT + line for line in more)
        meaning = "" if finding.entry.meaning in meant else finding.entry.meaning
        meant.add(meaning)
        command = shell_line(finding)
        finding = self._with_forecast(finding)
        for text in describe(finding, meaning, command):
            yield from self._wrap(visible(text), _INDENT)
        if command is not None:
            yield f"{_INDENT}→ {visible(command)}"
            self._suggests_reindex |= command.startswith("kdump reindex")
        elif finding.severity is not Severity.NOTE:
            remedy = finding.entry.remedy
            is_known = remedy in meant and len(remedy) > _SHORT_REMEDY
            meant.add(remedy)
            again = f"As for {finding.code} above."
            yield from self._wrap(again if is_known else remedy, _INDENT, "→ ")
        place = (finding.topic, finding.partition, finding.served_from)
        for way in way_lines(finding, is_planned=place in self._planned):
            yield f"{_INDENT}→ {visible(way)}"

    def _with_forecast(self, finding: Finding) -> Finding:
        """Leave out the reset of groups to an offset that the predicted start truncates.

        Where it truncates nothing before that offset, the reset depends on no condition. A release
        that is only assumed decides neither.
        """
        row, served = self._forecasts.get(directory_of(finding)), finding.served_from
        if row is None or served is None or row.oldest or self._is_assumed:
            return finding
        if row.outcome in (*REFUSALS, "unknown"):
            return finding
        end = row.log_end_after
        if row.outcome == "stray" or (end is not None and end <= served):
            return finding._replace(next_offset=None)
        return finding._replace(served_by=(finding.served_by or "").removesuffix(" starting"))

    def _where(self, text: str) -> list[str]:
        """Keep a place in its columns where they have room."""
        room = self._width - len(_INDENT)
        if width_of(text) <= room:
            return [text]
        parts = [part.strip() for part in text.split("   ") if part.strip()]
        return [line for part in join(parts, room, "   ") for line in wrap(part, room)]

    def _plan_lines(self, planned: list[WayPast]) -> Iterator[str]:
        if self._planned:
            yield ""
            yield from self._wrap(plan_words(self._ways, "These commands move"))
            for command in plan_commands(planned, self._plan):
                yield f"{_INDENT}→ {visible(command)}"

    def _note_lines(self) -> Iterator[str]:
        for code, count in sorted(self._notes.items()):
            places = len(self._note_places[code])
            word = "place" if code in self._beside_partitions else "partition"
            where = count_text(places, word)
            many = f"{code} ({count:,} notes in {where})" if count > 1 else code
            lines = wrap(f"{many}: {CATALOGUE[code].sentence}", self._width - len(_INDENT))
            yield self._level(Severity.NOTE) + lines[0]
            yield from (_INDENT + line for line in lines[1:])

    def _write_closing(self, row: VerifySummary) -> None:
        findings, tails = row.findings, (row.tails or 0)
        if any(findings.values()) or self._recoveries or self._groups or self._remote.count:
            self._line()
        parts = [self._count_words(count, word) for word, count in findings.items() if count]
        if not row.paths:
            nothing = "no local log was checked" if self._remote.count else "nothing was checked"
            parts.insert(0, nothing)
        elif not row.segments_checked:
            parts.insert(0, "no segment was checked")
        elif row.paths_unfinished or row.segments_unchecked:
            parts.insert(0, _checked_part(row))
        elif not (findings["damage"] or findings["rebuild"]):
            parts.insert(0, "no damage, nothing to rebuild")
        strays = sum(row.outcome == "stray" for row in self._recoveries)
        if strays:
            named = "partition" if strays == 1 else "partitions"
            parts.append(f"a start would rename {strays:,} {named} to -stray")
        text = " · ".join(parts)
        read = [
            count_text(row.paths, "partition"),
            *([count_text(row.segments, "segment")] if row.segments or not tails else []),
            *([f"the tails of {count_text(tails, 'segment')}"] if tails else []),
            count_text(row.batches, "batch"),
            size_text(row.bytes),
        ]
        self._write_wrapped(f"{text[0].upper()}{text[1:]}.")
        # Where the line breaks does not depend on how long it took.
        *lines, last = wrap(f"Checked {', '.join(read)}", self._width - _DURATION)
        self._lines([*lines, f"{last} in {seconds_text(row.seconds)}."])
        self._write_wrapped(not_checked_text(row))
        self._line(f"exit status {self._status()}")

    def _count_words(self, count: int, word: str) -> str:
        """Count findings, and say how many of them only the node's verdict names."""
        severity = Severity(word)
        named = len(self._held[severity]) - len(self._select_shown(severity))
        hint = ""
        if self._notes and severity is Severity.NOTE:
            hint = " (--notes shows where)"
        if named:
            refuses = any(row.outcome == "refuses" for row in self._nodes)
            which = f"{named:,} of them " if named < count else ""
            hint = f" ({which}{'prevents the start: ' if refuses else ''}see the top)"
        return count_text(count, word) + hint

    @property
    def _is_assumed(self) -> bool:
        """Whether nothing shows the release that the node is started with."""
        return any(row.outcome == "unknown" and row.cause == "version" for row in self._nodes)

    def _level(self, severity: Severity) -> str:
        return self._word(f"{severity.value.upper():9}", severity.value)


def _checked_part(row: VerifySummary) -> str:
    """Say how much was checked of what was asked for."""
    read, left = row.segments_checked, row.segments_unchecked
    text = f"{read:,} of {count_text(read + left, 'segment')} checked"
    if not left:
        text = f"not everything was checked; {count_text(read, 'segment')} checked"
    found = row.findings
    return text if found["damage"] or found["rebuild"] else f"{text}, no problems found in them"


def _heading(directories: list[DirectoryFacts], width: int) -> Iterator[str]:
    for facts in directories[:_SHOWN_DIRECTORIES]:
        parts = []
        if facts.node_id is not None:
            parts.append(f"broker {facts.node_id}")
        if facts.cluster_id is not None:
            parts.append(f"cluster {facts.cluster_id}")
        if facts.locked:
            parts.append("a broker is running (it holds .lock); kdump only reads")
        elif facts.locked is False and parts:
            parts.append("no broker is running")
        yield visible(facts.path)
        yield from (f"  {line}" for line in join([*map(visible, parts)], width - 2))
    if len(directories) > _SHOWN_DIRECTORIES:
        yield f"and {len(directories) - _SHOWN_DIRECTORIES:,} more directories"


def _place_key(finding: Finding) -> tuple[object, ...]:
    return (
        not finding.urgency[1],
        finding.topic or "",
        -1 if finding.partition is None else finding.partition,
        finding.path if finding.topic is None else "",
        -1 if finding.segment is None else finding.segment,
        -1 if finding.position is None else finding.position,
        finding.code,
    )
