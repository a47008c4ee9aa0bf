"""Fold findings with one cause into one finding with consequences.

A range of a log that a finding declares bad is known by its positions in the file and, for a gap,
by the offsets that are lost in it. A suspect that rests on such a range goes to that finding; one
that does not stands for itself. Files may be hostile, so no list here grows with their size: of
one code a partition gives a thousand findings, the last of which says how many more there are.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from itertools import chain

from kdump.engine.reading.check import FINDINGS_A_CODE, Conditional, Reported, RestsOn
from kdump.findings.code import Extent, MisplacedScope, Severity
from kdump.findings.finding import Finding, and_more
from kdump.storage.names import OFFSET_MAX, Kind, parse

_CONSEQUENCES = 20


def fold(reported: Iterable[Reported]) -> tuple[Finding, ...]:
    """Return the findings that stand by themselves, each with the codes that follow from it."""
    reported = iter(reported)
    first = next(reported, None)
    if first is None:
        return ()
    kept = _Folder()
    about_logs: list[Conditional] = []
    suspects: list[Conditional] = []
    per_file: Counter[tuple[str, str]] = Counter()
    for item in chain((first,), reported):
        if not isinstance(item, Conditional):
            kept.add(item)
            continue
        key = (item.finding.code, item.finding.path)
        per_file[key] += 1
        if per_file[key] <= FINDINGS_A_CODE:
            (about_logs if _is_log(item.finding) else suspects).append(item)
    # Those about logs first: where they stand, others may follow from them in turn.
    kept.sort()
    standing = [at for at in about_logs if not kept.explains(at)]
    for suspect in standing:
        kept.add(suspect.finding)
    for code, path in {(at.finding.code, at.finding.path) for at in standing}:
        kept.places[code] += max(0, per_file[code, path] - FINDINGS_A_CODE)
    kept.sort()
    merged: dict[tuple[str, str], Finding] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for suspect in suspects:
        if not kept.explains(suspect):
            key = (suspect.finding.code, suspect.finding.path)
            merged.setdefault(key, suspect.finding)
            counts[key] += 1
    rest = (
        and_more(found, counts[key] - 1 + max(0, per_file[key] - FINDINGS_A_CODE))
        for key, found in merged.items()
    )
    return (*kept.finish(), *rest)


def _is_log(finding: Finding) -> bool:
    return parse(os.path.basename(finding.path)).kind is Kind.LOG


class _Folder:
    """Findings as they are reported, and the ranges they declare bad."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self._consequences: dict[int, list[str]] = {}
        self._more_consequences: Counter[int] = Counter()
        self.places: Counter[str] = Counter()  # code -> number of findings, kept or not
        self._last: dict[str, int] = {}  # code -> where the last that is kept stands
        # By segment, and for offsets by partition (-1): starts, ends, and whose they are.
        self._positions: dict[int | None, _Ranges] = {}
        self._offsets = _Ranges()

    def add(self, finding: Finding) -> None:
        self.places[finding.code] += 1
        if self.places[finding.code] <= FINDINGS_A_CODE:
            self._last[finding.code] = len(self.findings)
            self.findings.append(finding)
        self._declare(finding, self._last[finding.code])

    def _declare(self, finding: Finding, number: int) -> None:
        """Note what of the log a finding makes unusable."""
        if not _is_log(finding):
            return
        entry = finding.entry
        if entry.extent is Extent.FILE:
            self._ranges(finding.segment).add(0, OFFSET_MAX, number)
            return
        # A note about the end of a log: what points there is no news either.
        ends = entry.ends_log and finding.severity is Severity.NOTE
        if finding.position is None or not (ends or finding.severity is Severity.DAMAGE):
            return
        if entry.extent is Extent.TO_THE_END:
            end = OFFSET_MAX
        else:
            end = finding.position + max(finding.size_bytes or 0, 1)
        self._ranges(finding.segment).add(finding.position, end, number)
        if finding.offset is None:
            return
        if finding.lost_at_least is not None or ends:
            # To the next good offset; where nothing follows, all that would have.
            behind = OFFSET_MAX if finding.next_offset is None else finding.next_offset
            self._offsets.add(finding.offset, behind, number)
        else:
            self._offsets.add(finding.offset, finding.offset + 1, number)
            known = finding.next_offset is not None
            missing = entry.misplaced is MisplacedScope.FOR_GOOD or (
                known and entry.misplaced is MisplacedScope.UNTIL_NEXT
            )
            if missing and isinstance(finding.expected, int):
                behind = OFFSET_MAX if finding.next_offset is None else finding.next_offset
                if finding.expected < behind:
                    self._offsets.add(finding.expected, behind, number)

    def _ranges(self, segment: int | None) -> _Ranges:
        return self._positions.setdefault(segment, _Ranges())

    def sort(self) -> None:
        """Make ready to be asked."""
        self._offsets.sort()
        for ranges in self._positions.values():
            ranges.sort()

    def explains(self, suspect: Conditional) -> bool:
        """Whether a suspect only follows; then it is named with what it follows from."""
        cause = self._cause(suspect.touches)
        if cause is not None:
            self._add_consequence(cause, suspect.finding)
        return cause is not None

    def _cause(self, touches: RestsOn) -> int | None:
        """Find the finding whose range a suspect rests on, None if there is none."""
        ranges = self._positions.get(touches.segment)
        if ranges is not None and touches.segment is not None:
            if touches.position is not None:
                end = touches.end_position
                found = ranges.find_overlap(
                    touches.position, touches.position + 1 if end is None else end
                )
            else:
                found = ranges.find_complete()
            if found is not None:
                return found
        if touches.offset is not None:
            end = touches.end_offset
            found = self._offsets.find_overlap(
                touches.offset, touches.offset + 1 if end is None else end
            )
            if found is not None:
                return found
        return None if touches.also is None else self._cause(touches.also)

    def _add_consequence(self, cause: int, finding: Finding) -> None:
        """Name a finding that only follows; of many the first twenty."""
        names = self._consequences.setdefault(cause, [])
        if len(names) >= _CONSEQUENCES:
            self._more_consequences[cause] += 1
            return
        place = finding.position if finding.position is not None else finding.offset
        names.append(finding.code if place is None else f"{finding.code}@{place}")

    def finish(self) -> list[Finding]:
        """Give the findings with all that belongs to them."""
        for number, names in self._consequences.items():
            more = self._more_consequences[number]
            extra = [f"{more:,} more"] if more else []
            finding = self.findings[number]
            self.findings[number] = finding._replace(
                consequences=(*finding.consequences, *names, *extra)
            )
        for code, count in self.places.items():
            if count > FINDINGS_A_CODE:
                at = self._last[code]
                more = count - FINDINGS_A_CODE
                self.findings[at] = and_more(self.findings[at], more)._replace(more=more)
        return self.findings


class _Ranges:
    """Half-open ranges and whose they are, in arrays: a hostile file may hold a million."""

    def __init__(self) -> None:
        self._starts = array("q")
        self._ends = array("q")  # after `sort`: the furthest end so far
        self._whose = array("q")

    def add(self, start: int, end: int, number: int) -> None:
        start, end = min(start, OFFSET_MAX), min(end, OFFSET_MAX)  # what is behind it is no offset
        if self._ends and start == self._ends[-1] and number == self._whose[-1]:
            self._ends[-1] = end
            return
        self._starts.append(start)
        self._ends.append(end)
        self._whose.append(number)

    def sort(self) -> None:
        """Order by start; each range then ends no earlier than those before it."""
        order = range(len(self._starts))
        if any(self._starts[row] > self._starts[row + 1] for row in order[:-1]):
            order = sorted(order, key=self._starts.__getitem__)  # type: ignore[assignment]
        starts, ends, whose = array("q"), array("q"), array("q")
        furthest, owner = -1, -1
        for row in order:
            if self._ends[row] > furthest:
                furthest, owner = self._ends[row], self._whose[row]
            starts.append(self._starts[row])
            ends.append(furthest)
            whose.append(owner)
        self._starts, self._ends, self._whose = starts, ends, whose

    def find_overlap(self, start: int, end: int) -> int | None:
        """Find a range that has something in common with [start, end)."""
        row = bisect_right(self._starts, end - 1) - 1
        if row < 0 or self._ends[row] <= start:
            return None
        return self._whose[row]

    def find_complete(self) -> int | None:
        """Find a range that is all of a file."""
        if len(self._starts) and self._starts[0] == 0 and self._ends[0] == OFFSET_MAX:
            return self._whose[0]
        return None
