"""Write the parts of a report that follow its summary: tables, plots, commands, evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from kdump import __version__
from kdump.findings.code import Severity
from kdump.findings.commands import shell_line, way_lines
from kdump.findings.finding import CATALOGUE
from kdump.findings.shell import format_command, path_word
from kdump.output import table_columns
from kdump.output.amounts import (
    count_text,
    number_cell,
    second_cell,
    size_text,
    time_cell,
    time_text,
)
from kdump.output.case.blocks import Block, Commands, Heading, Table, Text
from kdump.output.case.case import MOST_ROWS, Case, Part, is_grave
from kdump.output.case.plot import bars, ranges, series
from kdump.output.case.summary import lost_text, no_damage, other_copies, summary
from kdump.output.column_widths import cells_of
from kdump.output.tables.timeline import skew_text
from kdump.output.values import AUTO
from kdump.output.verify_recovery import COLUMNS as RECOVERY_COLUMNS
from kdump.output.verify_recovery import rank, totals_lines
from kdump.output.verify_text import describe, not_checked_text
from kdump.rows import cluster as of_cluster
from kdump.rows.groups import CommittedOffset, Group
from kdump.rows.info import DatingEvidence, Directory
from kdump.rows.report import Written
from kdump.rows.timeline import ClockSkew
from kdump.rows.verify import NodeStart, VerifySummary
from kdump.rows.why import PinnedSegments, TopicSpace, WhySummary

_LINES, _DIRECTORIES, _COMMANDS, _PROBLEMS = 400, 20_000, 40, 20
_SENTENCE = 10_000  # characters: wider than any text, so that none is broken
#: What is left out of a timeline that is too long, what matters least first.
_LEAST = (
    "file-created commit roll tier-copy tier-delete member rebalance isr epoch config feature"
    " transaction-begin transaction-commit group-empty clean retention leader topic-create".split()
)
_OUTSIDE = 0.005  # of all bytes: so few, far before and after the others, are not drawn
#: What makes the sum of a directory's files.
_LIST_SUM = (
    "cd DIRECTORY && find . -maxdepth 1 -type f -printf '%f\\n' | LC_ALL=C sort | "
    "xargs -d '\\n' sha256sum | sha256sum"
)
_LOCKED = {True: "runs", False: "does not run", None: "-"}


def blocks(case: Case, now_ms: int, command: str) -> Iterator[Block]:
    """Write all of a report."""
    yield from summary(case)
    yield from _damage(case)
    yield from _forecast(case)
    yield from _timeline(case)
    yield from _cluster(case)
    yield from _groups(case)
    yield from _disk(case, now_ms)
    yield from _records(case)
    yield from _method(case, command)
    yield from _evidence(case)


def _table(
    case: Case,
    caption: str,
    columns: str,
    rows: Sequence[Sequence[str]],
    *,
    most: int = MOST_ROWS,
    folded: bool = False,
) -> Iterator[Block]:
    """Write a table of data, if there are any, with names replaced where that is asked for."""
    if rows:
        shown = [tuple(map(case.hide, row)) for row in rows[:most]]
        yield Table(caption, columns.split("|"), shown, folded)
    if len(rows) > most:
        yield Text(f"The first {most:,} of {len(rows):,} are shown.", "note")


def _begin(case: Case, title: str, *names: str) -> Iterator[Block]:
    """Write a heading, and what of some parts could not be finished, and why."""
    yield Heading(title, title.lower().replace(" ", "-"))
    for part in (part for name in names for part in case.part(name)):
        for problem in list(part.problems)[:_PROBLEMS]:
            yield Text(f"Not complete: {case.hide(problem)}", "note")
        if len(part.problems) > _PROBLEMS:
            yield Text(f"And {len(part.problems) - _PROBLEMS:,} more.", "note")


def _damage(case: Case) -> Iterator[Block]:
    yield from _begin(case, "Damage and loss", "verify")
    rows: list[tuple[str, ...]] = []
    commands, meanings = dict[str, None](), dict[str, str]()
    ordered = sorted(case.damage, key=lambda one: (-one.severity.rank, one.topic or "", one.path))
    for found in ordered:
        line = shell_line(found)
        where = found.path if found.topic is None else f"{found.topic}-{found.partition}"
        place = found.severity.value, where, number_cell(found.offset), lost_text(found) or "-"
        texts, copies = " ".join(describe(found, "", line)), other_copies(case, found)
        rows.append((*place, texts, found.path, "; ".join(copies) or "-"))
        meanings[found.code] = f"{found.code}: {found.entry.meaning or found.entry.sentence}"
        if len(commands) < _COMMANDS:
            ways = (*([line] if line else []), *way_lines(found))
            commands |= dict.fromkeys(map(case.hide, ways))
    columns = "severity|where|offset>|lost here|what|file|sound copies"
    yield from _table(case, "Damage, and files to rebuild", columns, rows)
    yield from map(Text, meanings.values())
    if commands:
        yield Commands("To look closer, and to lead consumers past it:", list(commands))
    notes = [
        (code, f"{count:,}", CATALOGUE[code].sentence)
        for (severity, code), count in sorted(case.findings.items())
        if severity == Severity.NOTE.value
    ]
    yield from _table(case, "Notes: unusual, but not damage", "code|count>|what", notes)
    if not rows:
        yield no_damage(case)


def _forecast(case: Case) -> Iterator[Block]:
    yield from _begin(case, "Forecast of the next start")
    starts = case.rows("verify", NodeStart)
    nodes = dict.fromkeys((row.outcome, row.message, row.remedy or "-") for row in starts)
    yield from _table(case, "Nodes", "outcome|why|what to do", list(nodes))
    losing = [cells_of(RECOVERY_COLUMNS, row) for row in sorted(case.recoveries, key=rank)]
    caption = "Partitions that lose records, or at which consumers stop"
    yield from _table(case, caption, "partition|outcome|why, and what it costs", losing)
    for row in case.rows("verify", VerifySummary):
        if row.forecast:
            outcomes = sorted(row.forecast["outcomes"].items())
            cells = [(word, f"{count:,}") for word, count in outcomes]
            yield from _table(case, "Partitions by outcome", "outcome|partitions>", cells)
            yield Text(" ".join(totals_lines(row.forecast, _SENTENCE)))


def _timeline(case: Case) -> Iterator[Block]:
    yield from _begin(case, "Timeline", "timeline")
    for row in case.rows("timeline", ClockSkew):
        yield Text(f"T{skew_text(row)[1:]}.")
    lines, left_out = _condense(case)
    yield Text(
        "All times are on one clock. ≈: may have happened before the line above. Similar events "
        "close together share a line."
        if lines
        else "No events."
    )
    yield from _table(case, "Events in order", "time|what|of|in words", lines, most=_LINES)
    if left_out:
        words = ", ".join(f"{count:,} of {what}" for what, count in sorted(left_out.items()))
        yield Text(f"Lines omitted: {words}. kdump timeline shows them.", "note")
    if case.out_of_sync:
        ordered = sorted(case.out_of_sync)
        last = ordered[-1][0] + 1000, 0
        spans = [
            (at, max(at, after - 1), float(count))
            for (at, count), (after, _) in pairwise([*ordered, last])
        ]
        yield series("Replicas that left the ISR and did not return", "replicas", spans, _whole)


def _condense(case: Case) -> tuple[list[tuple[str, ...]], dict[str, int]]:
    """Return the lines that are shown, and how many of each kind are not."""
    lines, left_out = case.timeline.lines, dict[str, int]()
    if case.timeline.left_out:
        left_out["all kinds, at the end"] = case.timeline.left_out
    for what in _LEAST:
        if len(lines) > _LINES:
            kept = [one for one in lines if one.what != what or is_grave(one.what, one.text)]
            if len(kept) < len(lines):
                left_out[what] = len(lines) - len(kept)
            lines = kept
    pairs = pairwise([*lines, None])
    shown = [one for one, after in pairs if one and (one.what or (after and after.what))]
    return [(one.time, one.what, one.subject, one.text) for one in shown], left_out


def _cluster(case: Case) -> Iterator[Block]:
    yield from _begin(case, "Cluster", "cluster")
    parts = case.part("cluster")
    brokers: dict[int, list[str]] = {}
    sums: list[tuple[str, ...]] = []
    for at, part in enumerate(parts):
        for row in part.of(of_cluster.Broker):
            states = brokers.setdefault(row.broker_id, ["-"] * len(parts))
            stopping = ", stopping" if row.in_controlled_shutdown else ""
            states[at] = ("fenced" if row.fenced else "running") + stopping
        few = part.counts["without leader"], part.counts["under-replicated"]
        for row in part.of(of_cluster.ClusterSummary)[:1]:
            leader = "-" if row.leader_id is None else f"{row.leader_id}, epoch {row.leader_epoch}"
            numbers = (row.brokers_count, row.topics_count, row.partitions_count, *few)
            sums.append((_moment(part), time_cell(row.as_of_ms), leader, *map(_whole, numbers)))
    columns = "moment|last record|controller|brokers>|topics>|partitions>|without leader>"
    yield from _table(case, "The cluster", f"{columns}|under-replicated>", sums)
    moments = "|".join(map(_moment, parts))
    states_of = [(str(broker), *states) for broker, states in sorted(brokers.items())]
    yield from _table(case, "Brokers", f"broker>|{moments}", states_of)
    for part in parts:
        cells = [
            (f"{row.topic}-{row.partition}", number_cell(row.leader), number_cell(row.leader_epoch),
             _ids(row.replicas), _ids(row.isr), time_cell(row.changed_ms))
            for row in part.of(of_cluster.Partition)
        ]  # fmt: skip
        caption = f"Partitions with fewer in-sync replicas than replicas, {_moment(part)}"
        yield from _table(case, caption, "partition|leader>|epoch>|replicas|ISR|changed", cells)
    if not sums:
        yield Text("No metadata log found.")


def _groups(case: Case) -> Iterator[Block]:
    yield from _begin(case, "Consumer groups", "groups")
    parts = case.part("groups")
    groups: dict[str, list[str]] = {}
    offsets: dict[tuple[str, str, int], list[str]] = {}
    lags: dict[str, int] = {}
    for at, part in enumerate(parts):
        for row in part.of(Group):
            cells = groups.setdefault(row.group, ["-"] * len(parts))
            cells[at] = f"{row.state}, {count_text(row.members_count, 'member')}"
        for row in part.of(CommittedOffset):
            place = row.group, row.topic, row.partition
            cells = offsets.setdefault(place, ["-"] * (len(parts) + 2))
            cells[at], cells[-1] = number_cell(row.offset), second_cell(row.commit_ms)
            if part is parts[-1] and row.lag is not None:
                cells[-2] = number_cell(row.lag)
                lags[row.group] = lags.get(row.group, 0) + row.lag
    moments = "|".join(map(_moment, parts))
    states = [(group, *cells) for group, cells in sorted(groups.items())]
    yield from _table(case, "Groups", f"group|{moments}", states)
    found = [
        (group, f"{topic}-{number}", *cells)
        for (group, topic, number), cells in sorted(offsets.items())
    ]
    columns = "|".join(f"offset {_moment(part)}>" for part in parts)
    columns = f"group|partition|{columns}|lag>|committed"
    yield from _table(case, "Committed offsets", columns, found)
    if lags:
        largest = sorted(lags.items(), key=lambda one: (-one[1], one[0]))[:MOST_ROWS]
        amounts = [(case.hide(name), float(lag), f"{lag:,}") for name, lag in largest]
        yield bars("Lag of groups", "group", "records behind", amounts)
    if not groups:
        yield Text("No groups found.")


def _disk(case: Case, now_ms: int) -> Iterator[Block]:
    yield from _begin(case, "Disk", "info", "why")
    cells = [
        (row.path, number_cell(row.broker_id), row.written_by, f"{row.partitions:,}",
         size_text(row.size_bytes), _LOCKED[row.locked])
        for row in case.rows("info", Directory)
    ]  # fmt: skip
    columns = "data directory|broker>|written by|partitions>|logs>|the broker"
    yield from _table(case, "Data directories", columns, cells)
    for row in case.rows("why", WhySummary):
        verdicts = [
            (word, f"{row.segments_by_verdict.get(word, 0):,}", size_text(size))
            for word, size in sorted(row.bytes_by_verdict.items())
        ]
        caption = f"Segments, as of {time_text(row.now_ms)}"
        yield from _table(case, caption, "what retention does|segments>|size>", verdicts)
    spaces = sorted(case.rows("why", TopicSpace), key=lambda row: -row.size_bytes)[:MOST_ROWS]
    amounts = [
        (case.hide(f"{row.topic or '(around)'}{f' (-{row.retired})' if row.retired else ''}"),
         float(row.size_bytes), size_text(row.size_bytes))
        for row in spaces
    ]  # fmt: skip
    if amounts:
        yield bars("Size by topic", "topic", "size", amounts)
    pinned = [
        (f"{row.topic}-{row.partition}", f"{row.segments:,}", size_text(row.size_bytes), row.text)
        for row in case.rows("why", PinnedSegments)
    ]
    caption = "Segments kept by future timestamps"
    yield from _table(case, caption, "partition|segments>|size>|why", pinned)
    yield from _written_part(case, now_ms)


def _written_part(case: Case, now_ms: int) -> Iterator[Block]:
    rows = case.rows("verify", Written)
    if spans := _select_drawn([row for row in rows if row.topic is None]):
        seconds = (spans[0].to_ms - spans[0].from_ms + 1) / 1000
        size = [(row.from_ms, row.to_ms, row.size_bytes / seconds) for row in spans]
        caption = "per second, by timestamp; all replicas here, without internal topics"
        yield series(f"Bytes {caption}", "bytes/s", size, lambda value: f"{size_text(value)}/s")
        records = [(row.from_ms, row.to_ms, row.records_count / seconds) for row in spans]
        yield series(f"Records {caption}", "records/s", records, lambda value: f"{value:,.1f}")
    topics = [
        (case.hide(row.topic), row.from_ms, row.to_ms)
        for row in sorted(rows, key=lambda row: -(row.to_ms or 0))
        if row.topic is not None and row.from_ms is not None
    ]
    if topics:
        caption = "Timestamps of records by topic, latest first"
        yield ranges(caption, "topic", topics[:MOST_ROWS], now_ms)


def _select_drawn(spans: list[Any]) -> list[Any]:
    """Choose the spans that are drawn: all, but for few bytes that are far from the others."""
    if not spans:
        return []
    left = sum(row.size_bytes for row in spans) * _OUTSIDE
    first, last = 0, len(spans) - 1
    for step, at in ((1, 0), (-1, len(spans) - 1)):
        seen = spans[at].size_bytes
        while seen <= left and first < last:
            at += step
            seen += spans[at].size_bytes
            first, last = (at, last) if step > 0 else (first, at)
    low, high = spans[first].from_ms, spans[last].to_ms
    return [row for row in spans if 2 * low - high <= row.from_ms <= 2 * high - low]


def _records(case: Case) -> Iterator[Block]:
    if case.records:
        yield from _begin(case, "Records next to damage")
        made = [
            (f"{row.topic}-{row.partition}",
             *table_columns.record_cells(row, AUTO, table_columns.VALUE_WIDTH))
            for row in case.records
        ]  # fmt: skip
        columns = "partition|offset>|time|note|key|value"
        yield from _table(case, "The last records before, and the first after", columns, made)


def _method(case: Case, command: str) -> Iterator[Block]:
    yield from _begin(case, "How this page was made")
    yield Commands(
        f"kdump {__version__} read these paths and changed nothing:", [case.hide(command)]
    )
    words = format_command(map(path_word, case.paths))
    lines = dict.fromkeys(f"{part.row.command} {words}" for part in case.parts)
    yield Commands("The same information, command by command:", [case.hide(line) for line in lines])
    evidence = case.rows("info", DatingEvidence)
    cells = [(row.path, row.bound, row.release, row.text, row.file) for row in evidence]
    caption = "The release that wrote each directory, and the evidence"
    yield from _table(case, caption, "directory|bound|release|evidence|file", cells, folded=True)
    yield from _begin(case, "What was not checked")
    for row in case.rows("verify", VerifySummary):
        yield Text(not_checked_text(row))
    yield Text("Replicas on other brokers; what only a running broker knows; free space.")
    yield Text("For the timeline: the middle of segments of large logs.")
    if not case.records:
        yield Text("Keys and values of records.")


def _evidence(case: Case) -> Iterator[Block]:
    yield from _begin(case, "Evidence")
    many = f"{count_text(case.files_count, 'file')}, {size_text(case.files_bytes)}"
    yield Text(f"{many}. Files were hashed as they were verified.")
    if case.has_all_files:
        files = [
            (row.path, number_cell(row.size_bytes), time_cell(row.modified_ms),
             row.sha256 or row.text or "-")
            for row in sorted(case.files, key=lambda row: row.path)
        ]  # fmt: skip
        columns, most = "file|bytes>|modified|SHA-256", case.files_count
        yield from _table(case, "Files", columns, files, most=most)
        return
    caption = "Too many files to list. The SHA-256 is the hash of each directory's list:"
    yield Commands(caption, [_LIST_SUM])
    cells = [
        (row.path, f"{row.files:,}", number_cell(row.size_bytes), time_cell(row.modified_ms),
         row.sha256 or "-")
        for row in case.directories
    ]  # fmt: skip
    columns = "directory|files>|bytes>|last modified|SHA-256 of the list"
    yield from _table(case, "Directories", columns, cells, most=_DIRECTORIES)


def _moment(part: Part) -> str:
    return "at the end" if part.row.at_ms is None else f"at {time_text(part.row.at_ms)}"


def _ids(ids: Sequence[int] | None) -> str:
    return ",".join(map(str, ids or ())) or "none"


def _whole(value: float) -> str:
    return f"{value:,.0f}"
