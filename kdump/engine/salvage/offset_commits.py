"""Commit translated offsets for groups in the cluster, each once, however often a run is killed.

What a group had before stands in the state before anything is committed for it. A run that comes
after a kill so knows what the group may have, the one before or the new one, and leaves alone what
somebody else has committed since: a consumer that went on would be sent back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, islice

from kdump.client.cluster import PATIENCE_SECONDS, ClusterError
from kdump.client.group_offsets import COMMITTED, HAS_MEMBERS, UNCLEAR, GroupOffsets, Place
from kdump.engine.salvage.state import PendingCommit, State
from kdump.errors import KdumpError, RefusedError
from kdump.findings.commands import reset_command
from kdump.findings.rows import Row
from kdump.findings.shell import format_command, topic_word
from kdump.rows.salvage import GroupOffset
from kdump.storage import names
from kdump.tuples import NamedTuple

_AT_ONCE = 100  # groups
_NAP_SECONDS = 0.5
#: What else may come of an offset.
_DONE_BEFORE, _MOVED, _FAILED = "committed-before", "moved", "failed"
#: What counts as applied, and the word for what is only written to a file.
APPLIED, PLANNED = frozenset((COMMITTED, _DONE_BEFORE)), "planned"


def left_out_row(place: Place, old: int | None, why: str) -> Row:
    """Say of an offset why it is not committed."""
    return GroupOffset(*place, old, None, None, why)


class TranslatedOffset(NamedTuple):
    """What an offset that a group committed becomes."""

    place: Place
    old: int
    new: int

    @property
    def line(self) -> str:
        """Give it as `kafka-consumer-groups --reset-offsets --from-file` takes it."""
        return f"{self.place.group},{self.place.topic},{self.place.partition},{self.new}\n"

    @property
    def partition(self) -> str:
        """Name the partition as its directory is named."""
        return names.directory_name(self.place.topic, self.place.partition)


def commit_offsets(
    offsets: GroupOffsets,
    brokers: str,
    state: State,
    plan: Sequence[TranslatedOffset],
    tick: Callable[[], None],
) -> Iterator[Row | KdumpError]:
    """Yield a `group-offset` row for each, and an error for each group that was refused."""
    groups = (list(each) for _, each in groupby(sorted(plan), key=lambda one: one.place.group))
    while some := list(islice(groups, _AT_ONCE)):
        chunk = _Chunk(offsets, state, [one for group in some for one in group])
        chunk.run(tick)
        for group in some:
            yield from map(chunk.row, group)
            yield from chunk.errors(group, brokers)


class _Chunk:
    """The offsets of some groups while they are being committed."""

    def __init__(self, offsets: GroupOffsets, state: State, wanted: list[TranslatedOffset]) -> None:
        self._offsets = offsets
        self._state = state
        self._open = {one.place: one for one in wanted}
        self._came: dict[Place, str] = {}
        self._before: dict[Place, int | None] = {}

    def run(self, tick: Callable[[], None]) -> None:
        """Commit until each has an answer; what a lost answer said is seen by asking again."""
        until = time.monotonic() + PATIENCE_SECONDS
        for one in list(self._open.values()):
            if (known := self._find_known(one)) is not None and known.is_done:
                self._settle(one, _DONE_BEFORE, known.before)
        while self._open:
            ready = self._select_changes()
            self._state.save()  # what groups had is on disk before any of it is changed
            came = self._offsets.commit({one.place: one.new for one in ready})
            for one in ready:
                self._handle_answer(one, came[one.place])
            self._state.save()
            tick()
            if self._open:
                if time.monotonic() > until:
                    group = next(iter(self._open)).group
                    raise ClusterError(f"group {group}: no broker returned its committed offsets")
                time.sleep(_NAP_SECONDS)

    def _find_known(self, one: TranslatedOffset) -> PendingCommit | None:
        return self._state.groups.get(one.place.group, {}).get(one.partition)

    def _note(self, one: TranslatedOffset, known: PendingCommit | None) -> None:
        offsets = self._state.groups.setdefault(one.place.group, {})
        if known is None:
            offsets.pop(one.partition, None)
        else:
            offsets[one.partition] = known

    def _settle(self, one: TranslatedOffset, came: str, before: int | None) -> None:
        del self._open[one.place]
        self._came[one.place], self._before[one.place] = came, before

    def _select_changes(self) -> list[TranslatedOffset]:
        """Ask what groups have, and give what is to be committed."""
        ready = []
        for place, found in self._offsets.fetch(self._open).items():
            one = self._open[place]
            known = self._find_known(one)
            if isinstance(found, str):
                self._refuse(one, found)
            elif found == one.new:
                before = found if known is None else known.before
                self._note(one, PendingCommit(before, is_done=True))
                self._settle(one, _DONE_BEFORE, before)
            elif known is None or found == known.before:
                self._note(one, PendingCommit(found))
                ready.append(one)
            else:
                self._settle(one, _MOVED, found)
        return ready

    def _handle_answer(self, one: TranslatedOffset, answer: str) -> None:
        """Take the answer to a commit."""
        known = self._find_known(one)
        before = None if known is None else known.before
        if answer == COMMITTED:
            self._note(one, PendingCommit(before, is_done=True))
            self._settle(one, COMMITTED, before)
        else:
            self._refuse(one, answer)

    def _refuse(self, one: TranslatedOffset, why: str) -> None:
        """Take note that a broker did not commit; nothing of it stays in the state."""
        if why == UNCLEAR:
            return
        known = self._find_known(one)
        self._note(one, None)
        self._settle(one, why, None if known is None else known.before)

    def row(self, one: TranslatedOffset) -> Row:
        """Say what came of an offset."""
        came = self._came[one.place]
        words = (COMMITTED, _DONE_BEFORE, HAS_MEMBERS, _MOVED)
        return GroupOffset(
            **one.place._asdict(),
            old_offset=one.old,
            offset=one.new,
            previous_offset=self._before[one.place],
            outcome=came if came in words else _FAILED,
        )

    def errors(self, group: Sequence[TranslatedOffset], brokers: str) -> Iterator[KdumpError]:
        """Say why offsets of a group were not committed, each reason once."""
        name = group[0].place.group
        said: set[str] = set()
        for one in group:
            came = self._came[one.place]
            if came in (COMMITTED, _DONE_BEFORE) or came in said:
                continue
            if came == HAS_MEMBERS:
                why = "has active members, and only they can commit: stop them, then run the same"
                yield RefusedError(f"group {name}", f"{why} command again")
            elif came == _MOVED:
                yield RefusedError(f"group {name}", self._explain_move(one, brokers))
                continue  # each partition has its own command
            else:
                yield ClusterError(f"group {name}: {one.partition}: {came}")
            said.add(came)

    def _explain_move(self, one: TranslatedOffset, brokers: str) -> str:
        _, topic, partition = one.place
        reset = reset_command(one.place.group, topic_word(topic, partition), one.new, brokers)
        return (
            f"has committed offset {self._before[one.place]} for {one.partition} since the state "
            "was written, so it was not changed; to change it: " + format_command(reset)
        )
