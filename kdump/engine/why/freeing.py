"""Plan how to free space, what loses least first: `why --free`.

First what the broker deletes by itself and what no broker knows any more, then what retention would
have deleted if no record pinned it, then the oldest records of all topics. Each step that deletes
records is a pass worked out with the log start, or the limit, that the step makes; what that pass
deletes is what the step promises. Only the oldest segments of a log can go, never the active one.
There is a plan for each goal: data directories of one file system, or one that was named. A limit
of a topic holds in all directories, so all of the topic's partitions are looked at, and what goes
in directories of another goal counts there.

No step touches a topic that is compacted, where an old record may be the only one of its key; one
that is tiered, where deleting records deletes the copies too; or one of the cluster's own.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain, count
from typing import TYPE_CHECKING

from kdump.broker.retention import retention_pass
from kdump.engine.why.fates import length_text, minute_text
from kdump.engine.why.freeable import (
    DeletedFiles,
    Freeable,
    RetiredDirectory,
    StepLoss,
    behind_pins,
    count_loss,
)
from kdump.engine.why.lowering import LowerLimit, WantedSegments, find_lower_limit
from kdump.findings.shell import (
    BOOTSTRAP,
    Unusable,
    Word,
    explain_refused_topic,
    format_command,
    path_word,
)
from kdump.rows.why import PartitionLoss, PlanOf, PlanStep

if TYPE_CHECKING:
    from kdump.engine.why.volumes import Goal


class Plan:
    """Steps until enough is free everywhere; `planned` has the bytes of each data directory.

    `plans` says of each goal which steps are for it: from an order up to another.
    """

    def __init__(self, goals: Sequence[Goal], now_ms: int) -> None:
        self.planned: Counter[str] = Counter()
        self.plans: list[PlanOf] = []
        self._goals = goals
        self._now_ms = now_ms
        self._orders = count(1)

    def steps(
        self,
        retired: Sequence[RetiredDirectory],
        going: Sequence[DeletedFiles],
        logs: Sequence[Freeable],
    ) -> Iterator[PlanStep]:
        """Yield the steps as rows, for each goal the cheapest first."""
        may_lose = [log for log in logs if log.may_lose]
        done = [log.deleted for log in may_lose]
        for goal in self._goals:
            here = goal.directories
            orders: list[int] = []
            for row in chain(
                self._automatic_steps(goal, going, logs),
                self._of_directories(goal, [one for one in retired if one.directory in here]),
                self._of_goal(goal, may_lose, done),
            ):
                orders.append(row.order)
                yield row
            self.plans.append({
                "directories": list(here),
                "asked_bytes": goal.asked_bytes,
                "planned_bytes": goal.asked_bytes - self._count_left(goal),
                "steps": orders,
            })  # fmt: skip

    def _of_goal(self, goal: Goal, logs: list[Freeable], done: list[int]) -> Iterator[PlanStep]:
        """Delete records, until it is enough."""
        pinned: dict[int, int] = {}
        left = self._count_left(goal)
        for number, log in enumerate(logs):
            to = behind_pins(log, self._now_ms)
            if log.directory in goal.directories and to > done[number] and left > 0:
                pinned[number] = to
                left -= sum(log.sizes[done[number] : to])
        yield from self._of_records(logs, done, pinned, "that retention should have deleted")
        chosen = self._oldest(goal, logs, done)
        yield from self._of_records(logs, done, chosen, "that retention keeps")

    def _count_left(self, goal: Goal) -> int:
        """How much is to be found yet; below 0 where more was."""
        return goal.asked_bytes - sum(self.planned[one] for one in goal.directories)

    def _automatic_steps(
        self, goal: Goal, going: Sequence[DeletedFiles], logs: Sequence[Freeable]
    ) -> Iterator[PlanStep]:
        """Count what goes without a command, in each of the goal's directories."""
        for directory in goal.directories:
            files = [one for one in going if one.directory == directory]
            if files:
                text = "nothing to do: deleted files (.deleted), which the next start removes"
                if files[0].held:
                    text = (
                        "nothing to do: deleted files (.deleted), which the broker removes "
                        "after file.delete.delay.ms (default: 1 minute)"
                    )
                size = sum(one.size_bytes for one in files)
                lost = StepLoss(size, None, None, None)
                yield self._row(None, None, None, lost, 0, text, {directory: size})
            gone = [log for log in logs if log.directory == directory and log.deleted]
            if gone:
                size = sum(sum(log.sizes[: log.deleted]) for log in gone)
                records = sum(count_loss(log, 0, log.deleted)[1] for log in gone)
                latest = max(
                    log.log.segments[number].time_ms
                    for log in gone
                    for number in range(log.deleted)
                )
                text = f"nothing to do while the broker runs: {_next_pass(gone)}"
                lost = StepLoss(size, None, None, latest)
                sizes = {directory: size}
                yield self._row(None, None, None, lost, records, text, sizes, logs=gone)

    def _of_directories(
        self, goal: Goal, retired: Sequence[RetiredDirectory]
    ) -> Iterator[PlanStep]:
        """Remove directories that are no partitions in use: first those that go by themselves."""
        for one in retired:
            if one.held and one.why == "delete":
                yield self._retired_step(one)
        for one in retired:
            if (
                self._count_left(goal) > 0
                and one.why != "future"
                and not (one.held and one.why == "delete")
            ):
                yield self._retired_step(one)

    def _retired_step(self, one: RetiredDirectory) -> PlanStep:
        command: str | None = format_command(("rm", "-r", "--", path_word(one.path)))
        text = "the next start removes this directory, too"
        if one.why == "stray":
            text = "not assigned to this broker by the cluster; check that other brokers have it"
        elif one.held:
            command, text = None, f"the broker removes this directory by itself: {one.path}"
        lost = StepLoss(one.size_bytes, None, None, None)
        records = 0 if one.why == "delete" else None
        return self._row(command, None, None, lost, records, text, {one.directory: one.size_bytes})

    def _of_records(
        self, logs: list[Freeable], done: list[int], chosen: dict[int, int], what: str
    ) -> Iterator[PlanStep]:
        """Delete the segments up to those that are chosen, and say in `done` what went.

        Topics come as they were chosen; each partition for itself, or all by one lower limit.
        """
        by_topic: dict[str, list[int]] = {}
        for number, log in enumerate(logs):
            by_topic.setdefault(log.topic, []).append(number)
        for topic in dict.fromkeys(logs[number].topic for number in chosen):
            numbers = by_topic[topic]
            limit = find_lower_limit(
                topic,
                [
                    WantedSegments(
                        number, logs[number], done[number], chosen.get(number, done[number])
                    )
                    for number in numbers
                ],
                self._now_ms,
            )
            if limit is not None:
                for one in limit.wanted:
                    done[one.number] = one.to
                yield self._of_limit(topic, limit, what)
                continue
            for number in numbers:
                log = logs[number]
                if number in chosen and log.has_delete_records:
                    done[number], rows = self._of_log(log, done[number], chosen[number], what)
                    yield from rows

    def _of_limit(self, topic: str, limit: LowerLimit, what: str) -> PlanStep:
        gone = [one for one in limit.wanted if one.to > one.first]
        losses = [count_loss(one.log, one.first, one.to) for one in gone]
        times = [lost.latest_ms for lost, _ in losses if lost.latest_ms is not None]
        size = sum(lost.size_bytes for lost, _ in losses)
        records = sum(count for _, count in losses)
        logs = [one.log for one in gone]
        where = f"{len(gone)} partitions" if len(gone) > 1 else f"{topic}-{gone[0].log.partition}"
        text = f"{limit.words} loses {records:,} records of {where} {what}; {_next_pass(logs)}"
        if limit.more_from_ms is None:
            text += "; keeps deleting as more is written, until you reset it"
        else:
            text += f"; deletes more from {minute_text(limit.more_from_ms)} on, unless you reset it"
        sizes: Counter[str] = Counter()
        for log, (lost, _) in zip(logs, losses, strict=True):
            sizes[log.directory] += lost.size_bytes
        if limit.undo is None:
            text += "; applies to all brokers; --describe shows the current value"
        partitions: list[PartitionLoss] = [
            {
                "partition": one.log.partition,
                "directory": one.log.directory,
                "frees_bytes": lost.size_bytes,
                "loses_from": lost.first_offset,
                "loses_to": lost.last_offset,
            }
            for one, (lost, _) in zip(gone, losses, strict=True)
        ]
        return self._row(
            limit.command,
            topic,
            None,
            StepLoss(size, None, None, max(times, default=None)),
            records,
            text,
            sizes,
            logs=logs,
            undo=limit.undo,
            partitions=partitions,
        )

    def _of_log(
        self, log: Freeable, first: int, to: int, what: str
    ) -> tuple[int, tuple[PlanStep, ...]]:
        """Delete the records of segments [first, to); say how many segments a pass then deletes.

        What lies past the high watermark does not go: a broker refuses.
        """
        offset = log.log.find_end(to - 1)
        moved = log.log._replace(log_start=max(offset, log.log.log_start))
        gone = len(retention_pass(moved, log.policy, self._now_ms).deleted)
        lost, records = count_loss(log, first, gone) if gone >= to else (None, 0)
        if lost is None or not lost.size_bytes:
            return first, ()
        text = (
            f"loses {records:,} records of {log.topic}-{log.partition} {what}; {_next_pass([log])}"
        )
        sizes = {log.directory: lost.size_bytes}
        command = _command(log, offset)
        row = self._row(command, log.topic, log.partition, lost, records, text, sizes, logs=[log])
        return gone, (row,)

    def _oldest(self, goal: Goal, logs: list[Freeable], done: list[int]) -> dict[int, int]:
        """Choose among the segments that are left, always that with the oldest last record."""
        waiting = []
        for number, log in enumerate(logs):
            first = done[number]
            if log.directory in goal.directories and first < len(log.sizes) - 1:
                waiting.append((log.log.segments[first].time_ms, number, first))
        heapify(waiting)
        chosen: dict[int, int] = {}
        left = self._count_left(goal)
        while waiting and left > 0:
            _, number, at = heappop(waiting)
            log = logs[number]
            if not log.log.below_high_watermark(at):
                continue
            chosen[number] = at + 1
            left -= log.sizes[at]
            if at + 1 < len(log.sizes) - 1:
                heappush(waiting, (log.log.segments[at + 1].time_ms, number, at + 1))
        return chosen

    def _row(
        self,
        command: str | None,
        topic: str | None,
        partition: int | None,
        lost: StepLoss,
        records: int | None,
        text: str,
        sizes: Mapping[str, int],
        *,
        logs: Sequence[Freeable] = (),
        undo: str | None = None,
        partitions: list[PartitionLoss] | None = None,
    ) -> PlanStep:
        """Make a step; `sizes` has the bytes by data directory, `logs` what a pass deletes from."""
        self.planned.update(sizes)
        return PlanStep(
            order=next(self._orders),
            command=command,
            frees_bytes=lost.size_bytes,
            loses_records=records,
            loses_from=lost.first_offset,
            loses_to=lost.last_offset,
            loses_to_ms=lost.latest_ms,
            topic=topic,
            partition=partition,
            text=text,
            undo=undo,
            acts_within_ms=_acts_within(logs) if logs else None,
            partitions=partitions,
            directory=next(iter(sizes)) if len(sizes) == 1 else None,
        )


def _acts_within(logs: Sequence[Freeable]) -> int:
    return max(log.every_ms for log in logs)


def _next_pass(logs: Sequence[Freeable]) -> str:
    return f"deleted by the next retention pass, within {length_text(_acts_within(logs))}"


def _command(log: Freeable, offset: int) -> str:
    """Write the command that makes an offset the first of a partition."""
    one = {"topic": log.topic, "partition": log.partition, "offset": offset}
    asked = json.dumps({"partitions": [one], "version": 1}, separators=(",", ":"))
    why = explain_refused_topic(log.topic)
    stdin: Word = Unusable(why) if why else asked
    words = ("kafka-delete-records.sh", "--bootstrap-server", BOOTSTRAP)
    return format_command((*words, "--offset-json-file", "/dev/stdin"), stdin=stdin)
