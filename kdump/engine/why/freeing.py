"""Plan how to free space, what loses least first: `why --free`.

First what the broker deletes by itself and what no broker knows any more, then what retention would
have deleted if no record pinned it, then the oldest records of all topics. Each step that deletes
records is a pass worked out with the log start that the step makes; what that pass deletes is what
the step promises. Only the oldest segments of a log can go, and never the active one.

No step touches a topic that is compacted, where an old record may be the only one of its key; one
that is tiered, where deleting records deletes the copies too; or one of the cluster's own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from kdump.broker.retention import LogFacts, Policy, is_past, retention_pass
from kdump.findings.commands import as_path, shell_text
from kdump.findings.rows import Row

if TYPE_CHECKING:
    from kdump.engine.why.fates import Fates

_NEXT_PASS = "goes with the next retention pass"


class Retired(NamedTuple):
    """A directory that is no partition in use. `held`: a broker runs on the directory around it."""

    path: str
    why: str  # delete, stray or future
    size_bytes: int
    held: bool


class Freeable(NamedTuple):
    """A partition with the sizes of its segments' files; `may_lose` records, or must not."""

    topic: str
    partition: int
    log: LogFacts
    policy: Policy
    sizes: tuple[int, ...]
    deleted: int  # segments that the next pass deletes anyway
    may_lose: bool


class Lost(NamedTuple):
    """What a step deletes: bytes of files, and the offsets that are gone, None where none is."""

    size_bytes: int
    first_offset: int | None
    last_offset: int | None
    latest_ms: int | None


class Plan:
    """Steps until enough is free; `planned_bytes` is what they come to."""

    def __init__(self, asked_bytes: int, now_ms: int) -> None:
        self.planned_bytes = 0
        self._asked_bytes = asked_bytes
        self._now_ms = now_ms
        self._orders = count(1)

    def steps(self, retired: Iterable[Retired], logs: list[Freeable]) -> Iterator[Row]:
        """Yield the steps as rows, the cheapest first."""
        yield from self._by_itself(logs)
        logs = [log for log in logs if log.may_lose]
        for one in retired:
            if not self._is_enough() and one.why != "future":
                yield self._of_retired(one)
        done = {(log.topic, log.partition): log.deleted for log in logs}
        for log in logs:
            to = _behind_pins(log, self._now_ms)
            if to > log.deleted and not self._is_enough():
                what = "that retention would have deleted"
                gone, rows = self._of_records(log, log.deleted, to, what)
                done[log.topic, log.partition] = gone
                yield from rows
        yield from self._oldest(logs, done)

    def _is_enough(self) -> bool:
        return self.planned_bytes >= self._asked_bytes

    def _by_itself(self, logs: list[Freeable]) -> Iterator[Row]:
        size = sum(sum(log.sizes[: log.deleted]) for log in logs)
        if size:
            records = sum(_lost(log, 0, log.deleted)[1] for log in logs if log.deleted)
            latest = max(
                log.log.segments[number].time_ms for log in logs for number in range(log.deleted)
            )
            text = f"nothing to do: {_NEXT_PASS} of a broker that runs"
            yield self._row(None, None, None, Lost(size, None, None, latest), records, text)

    def _of_retired(self, one: Retired) -> Row:
        command: str | None = shell_text(("rm", "-r", "--", as_path(one.path)))
        text = "a broker that starts removes it, too"
        if one.why == "stray":
            text = "the cluster does not have this partition here; look whether others do"
        elif one.held:
            command, text = None, f"the broker removes it by itself: {one.path}"
        lost = Lost(one.size_bytes, None, None, None)
        return self._row(command, None, None, lost, 0 if one.why == "delete" else None, text)

    def _of_records(
        self, log: Freeable, first: int, to: int, what: str
    ) -> tuple[int, tuple[Row, ...]]:
        """Delete the records of segments [first, to); say how many segments a pass then deletes.

        What lies past the high watermark does not go: a broker refuses.
        """
        offset = log.log.end_of(to - 1)
        moved = log.log._replace(log_start=max(offset, log.log.log_start))
        gone = len(retention_pass(moved, log.policy, self._now_ms).deleted)
        if gone < to:
            return first, ()
        lost, records = _lost(log, first, gone)
        text = f"loses {records:,} records of {log.topic}-{log.partition} {what}; {_NEXT_PASS}"
        row = self._row(_command(log, offset), log.topic, log.partition, lost, records, text)
        return gone, (row,)

    def _oldest(self, logs: list[Freeable], done: dict[tuple[str, int], int]) -> Iterator[Row]:
        """Choose among the segments that are left, always that with the oldest last record."""
        waiting = []
        for number, log in enumerate(logs):
            first = done[log.topic, log.partition]
            if first < len(log.sizes) - 1:
                waiting.append((log.log.segments[first].time_ms, number, first))
        heapify(waiting)
        chosen: dict[int, tuple[int, int]] = {}
        left = self._asked_bytes - self.planned_bytes
        while waiting and left > 0:
            _, number, at = heappop(waiting)
            log = logs[number]
            if not log.log.below_high_watermark(at):
                continue
            chosen[number] = chosen.get(number, (at, at))[0], at + 1
            left -= log.sizes[at]
            if at + 1 < len(log.sizes) - 1:
                heappush(waiting, (log.log.segments[at + 1].time_ms, number, at + 1))
        for number, (first, to) in chosen.items():
            yield from self._of_records(logs[number], first, to, "that retention keeps")[1]

    def _row(
        self,
        command: str | None,
        topic: str | None,
        partition: int | None,
        lost: Lost,
        records: int | None,
        text: str,
    ) -> Row:
        self.planned_bytes += lost.size_bytes
        fields: dict[str, object] = {
            "order": next(self._orders),
            "command": command,
            "frees_bytes": lost.size_bytes,
            "loses_records": records,
            "loses_from": lost.first_offset,
            "loses_to": lost.last_offset,
            "loses_to_ms": lost.latest_ms,
            "topic": topic,
            "partition": partition,
            "text": text,
        }
        return Row("plan-step", fields)


def freeable(
    topic: str | None, partition: int | None, judged: Fates, sizes: tuple[int, ...]
) -> Freeable | None:
    """Make of a judged partition what a plan goes by; None without a name."""
    if topic is None or partition is None:
        return None
    policy = judged.policy
    may_lose = policy.deletes and not (policy.compacts or policy.tiered or topic.startswith("__"))
    deleted = len(judged.next_pass.deleted)
    return Freeable(topic, partition, judged.log, policy, sizes, deleted, may_lose)


def _behind_pins(log: Freeable, now_ms: int) -> int:
    """Count the segments up to the last closed one that is past retention.ms itself."""
    if log.policy.retention_ms < 0:
        return 0
    closed = log.log.segments[: len(log.sizes) - 1]
    past = (at for at, one in enumerate(closed, 1) if is_past(one, log.policy, now_ms))
    return max(past, default=0)


def _lost(log: Freeable, first: int, to: int) -> tuple[Lost, int]:
    """Say what the segments [first, to) hold; records are counted by their offsets."""
    start = max(log.log.segments[first].base_offset, log.log.log_start)
    end = log.log.end_of(to - 1)
    latest = max(one.time_ms for one in log.log.segments[first:to])
    size = sum(log.sizes[first:to])
    if end <= start:
        return Lost(size, None, None, None), 0
    return Lost(size, start, end - 1, latest), end - start


def _command(log: Freeable, offset: int) -> str:
    """Write the command that makes an offset the first of a partition."""
    one = {"topic": log.topic, "partition": log.partition, "offset": offset}
    asked = json.dumps({"partitions": [one], "version": 1}, separators=(",", ":"))
    words = ("kafka-delete-records.sh", "--bootstrap-server", "HOST:PORT")
    file = ("--offset-json-file", "/dev/stdin")
    return f"{shell_text((*words, *file))} <<< {shell_text((asked,))}"
