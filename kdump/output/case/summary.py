"""Write the summary of a case from what was found: loss, causes with their times, what is open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.findings.finding import CATALOGUE, Finding, Severity
from kdump.findings.shell import DIRECTORY, format_command, path_word
from kdump.output.amounts import count_text, time_text
from kdump.output.case.blocks import Block, Commands, Heading, Table, Text
from kdump.output.tables.timeline import event_text, middle
from kdump.rows.groups import CommittedOffset
from kdump.rows.info import Hint
from kdump.rows.verify import NodeStart, VerifySummary

if TYPE_CHECKING:
    from kdump.output.case.case import Case
    from kdump.rows.timeline import Event

_TURNS, _PLACES, _SURE_MS = 15, 8, 1000
#: How the texts of stops begin that were asked for.
_ORDERLY = ("asked", "fenced once more")
#: What an event means, where its own words do not say so to a reader who sees only this table.
_MEANINGS = {
    "start-unclean": "started after an unclean shutdown",
    "commit-back": "group was set back",
    "transaction-hangs": "transaction did not end",
    "topic-delete": "topic was deleted",
    "delete": "records were deleted on request",
    "time-jump": "timestamps decrease",
    "damage": "batch is damaged",
}


def summary(case: Case) -> Iterator[Block]:
    """Write what someone reads who has one minute."""
    yield Heading("Summary", "summary")
    yield from _loss(case)
    yield from _forecast(case)
    yield from _open(case)
    turns = list(_turning_points(case))
    if turns:
        columns = ("time", "what", "of", "in words")
        yield Table("Turning points, in order", columns, turns)
        if len(case.events) > len(turns):
            yield Text("The timeline below has more events.")
    yield from _next_steps(case)


def lost_text(found: Finding) -> str:
    """Write how many records are lost by a finding."""
    least, most = found.lost_at_least, found.lost_at_most
    if least is None and most is None:
        return ""
    if least == most:
        return count_text(most or 0, "record")
    return (
        f"at least {least or 0:,} records"
        if most is None
        else f"{least or 0:,} to {most:,} records"
    )


def other_copies(case: Case, found: Finding) -> list[str]:
    """Return the other copies of a partition that have no damage where a finding has it."""
    if found.topic is None or found.partition is None or found.offset is None:
        return []
    end = found.offset + 1 if found.next_offset is None else found.next_offset
    copies = case.copies.get((found.topic, found.partition), [])
    return [
        path
        for path, log_end in copies
        if not found.path.startswith(path)
        and case.starts.get(path, 0) <= found.offset
        and log_end >= end
        and not any(first < end and found.offset < last for first, last in case.hurt.get(path, ()))
    ]


def list_damage(case: Case) -> list[Finding]:
    """Return the damage that is there, without what a start would do."""
    damage = [found for found in case.damage if found.severity is Severity.DAMAGE]
    return [found for found in damage if not found.entry.forecast]


def is_complete(case: Case) -> bool:
    """Say whether all that was given was checked for damage."""
    sums = case.rows("verify", VerifySummary)
    has_problems = any(part.problems for part in case.part("verify"))
    return bool(sums) and bool(sums[0].finished) and not has_problems


def no_damage(case: Case) -> Text:
    """Say that no damage was found, of as much as was read."""
    if not sum(one.segments for one in case.rows("verify", VerifySummary)):
        return Text("Nothing was checked for damage: no log was read.", "note")
    if not is_complete(case):
        return Text("No damage was found in the logs that were read.")
    return Text("No damage was found: every batch is complete.", "good")


def _loss(case: Case) -> Iterator[Block]:
    found = list_damage(case)
    count = sum(
        many
        for (severity, code), many in case.findings.items()
        if severity == "damage" and not CATALOGUE[code].forecast
    )
    if not is_complete(case):
        yield Text("Not everything could be checked; see what was not checked.", "note")
    if not count:
        yield no_damage(case)
    else:
        least = sum(one.lost_at_least or 0 for one in found)
        most = sum(one.lost_at_most or one.lost_at_least or 0 for one in found)
        many = count_text(least, "record") if least == most else f"{least:,} to {most:,} records"
        places = {
            (one.topic, one.partition, one.path if one.topic is None else "") for one in found
        }
        text = f"Damage at {count_text(count, 'place')} in {count_text(len(places), 'partition')}: "
        yield Text(f"{text}{many} cannot be read from the damaged copies.", "damage")
        named = "; ".join(dict.fromkeys(_place(one) for one in found[:_PLACES]))
        yield Text(case.hide(named) + ("; …" if count > _PLACES else "."))
        copied = [one for one in found if other_copies(case, one)]
        if copied and len(copied) == len(found) == count:
            text = "Another copy here is sound at each place: if the copies agree (kdump compare),"
            yield Text(f"{text} nothing is lost.", "good")
        elif copied:
            rest = count_text(count - len(copied), "place")
            yield Text(f"For {rest} of these, no other copy here is sound.", "damage")
    unclean = [one for one in case.events if one.what == "leader" and "unclean" in one.text]
    lost = [one for one in case.events if _gravity(one) == 1 and one.what == "stop"]
    if lost:
        who = dict.fromkeys(
            f"{one.subject} at {_time(case, one)}" + " (or asked to stop)" * ("asked" in one.text)
            for one in lost[:_PLACES]
        )
        yield Text(f"Brokers lost without a clean stop: {', '.join(who)}.", "damage")
    if unclean:
        names = ", ".join(dict.fromkeys(case.hide(one.subject) for one in unclean[:_PLACES]))
        text = f"Unclean leader election of {names} at {_time(case, unclean[0])}: records that only"
        yield Text(f"{text} the former leader had are lost, and are not counted above.", "damage")


def _place(found: Finding) -> str:
    where = found.path if found.topic is None else f"{found.topic}-{found.partition}"
    if found.offset is None:
        return where
    last = found.offset if found.next_offset is None else found.next_offset - 1
    first = f"offset {found.offset}" if last <= found.offset else f"offsets {found.offset}–{last}"
    return f"{where} {first}"


def _forecast(case: Case) -> Iterator[Block]:
    stops = [row for row in case.rows("verify", NodeStart) if row.outcome == "refuses"]
    for row in stops[:3]:
        yield Text(f"A node does not start: {case.hide(row.message)}", "damage")
    for one in (row.forecast for row in case.rows("verify", VerifySummary) if row.forecast):
        if lost := one["records_lost"]:
            of = count_text(one["partitions_losing"], "partition")
            yield Text(f"The next start loses {count_text(lost, 'record')}, in {of}.", "damage")
        elif one["outcomes"] and not stops and is_complete(case):
            yield Text("According to the forecast, the next start loses no further records.")


def _open(case: Case) -> Iterator[Block]:
    parts = case.part("cluster")
    if parts and (none := parts[-1].counts["without leader"]):
        yield Text(f"{count_text(none, 'partition')} had no leader at the end.", "damage")
    if parts and (few := parts[-1].counts["under-replicated"]):
        yield Text(
            f"{count_text(few, 'partition')} had fewer in-sync replicas than replicas at the end."
        )
    hanging = dict.fromkeys(
        case.hide(one.subject) for one in case.events if one.what == "transaction-hangs"
    )
    if hanging:
        names = ", ".join(list(hanging)[:_PLACES])
        more = len(hanging) - _PLACES
        text = f"Transactions that did not end: {names}" + (
            f" and {more:,} more" if more > 0 else ""
        )
        yield Text(f"{text}; read_committed consumers wait for them.", "note")
    pinned = [part.counts["pinned-segments"] for part in case.part("why")]
    if any(pinned):
        many = count_text(sum(pinned), "partition")
        yield Text(f"{many} with future timestamps, which keep segments.", "note")
    for part in case.part("groups")[-1:]:
        below = [
            row
            for row in part.of(CommittedOffset)
            if None not in (row.log_start, row.offset) and row.offset < row.log_start
        ]
        if below:
            text = f"{count_text(len(below), 'committed offset')} below the log start offset: "
            yield Text(f"{text}records were deleted before they were consumed.", "note")


def _turning_points(case: Case) -> Iterator[tuple[str, str, str, str]]:
    seen: set[tuple[str, str, int | None]] = set()
    ranked = sorted(case.events, key=_gravity)[: 10 * _TURNS]
    chosen: list[Event] = []
    for event in ranked:
        of = event.broker_id if event.what == "damage" else None
        key = _explain(event), event.subject, of
        if key not in seen and len(chosen) < _TURNS:
            seen.add(key)
            chosen.append(event)
    for event in sorted(chosen, key=lambda one: (middle(one) is None, middle(one) or 0)):
        yield (
            _time(case, event),
            _explain(event),
            case.hide(event.subject),
            case.hide(event_text(event)),
        )


def _gravity(event: Event) -> int:
    """Say how grave an event is; of equal ones the earlier comes first."""
    if event.what == "leader":
        return 0
    if event.what in ("stop", "start-unclean"):
        return 5 if event.text.startswith(_ORDERLY) else 1
    return {"damage": 2, "commit-back": 3, "transaction-hangs": 3, "topic-delete": 3}.get(
        event.what, 4
    )


def _explain(event: Event) -> str:
    if event.what == "leader":
        return "unclean leader election" if "unclean" in event.text else "partition without leader"
    if event.what == "stop":
        return "broker stopped" if event.text.startswith(_ORDERLY) else "broker was lost"
    return _MEANINGS.get(event.what, event.what)


def _time(case: Case, event: Event) -> str:
    at_ms, earliest, latest = middle(event), event.at_earliest_ms, event.at_latest_ms
    if at_ms is None:
        return "not known"
    is_sure = None not in (earliest, latest) and (latest or 0) - (earliest or 0) <= _SURE_MS
    return time_text(at_ms) if is_sure else f"≈ {time_text(at_ms)}"


def _next_steps(case: Case) -> Iterator[Block]:
    copies: dict[tuple[str | None, int | None], set[str]] = {}
    for found in list_damage(case):
        if others := other_copies(case, found):
            directory = found.path if found.path in others else found.path.rpartition("/")[0]
            copies.setdefault((found.topic, found.partition), set()).update((directory, *others))
    lines = [
        case.hide(
            format_command(("kdump", "salvage", *map(path_word, sorted(of)), "--out", DIRECTORY))
        )
        for of in copies.values()
    ]
    if lines:
        lines = lines[:_PLACES]
        yield Commands("To rebuild the damaged partitions from all copies:", lines)
    hints = case.rows("info", Hint)
    lines = list(dict.fromkeys(case.hide(row.command) for row in hints))[:_PLACES]
    if lines:
        yield Commands("Further commands:", lines)
