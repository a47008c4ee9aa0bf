"""Choose the offsets that groups had committed in the topics of a salvage.

When a topic is deleted, the coordinators write a tombstone for each offset committed in it. So the
offsets from just before the deletion count: those that its tombstones removed, and those that none
removed, but not what was committed since in a new topic of the same name.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kdump.client.group_offsets import Place
from kdump.engine.groups.options import GroupOptions
from kdump.engine.groups.run import groups
from kdump.errors import KdumpError, NothingToDo
from kdump.findings.finding import Finding
from kdump.findings.rows import Row
from kdump.rows.salvage import GroupOffsets
from kdump.storage import places
from kdump.storage.names import Retirement
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.salvage.copies import Copy
    from kdump.engine.salvage.options import SalvageOptions

_SLACK_MS = 120_000  # by which clocks of brokers differ, and how long coordinators take
_AT_ONCE_MS = 300_000  # within which the tombstones of one deletion are written

#: Why an offset is not committed, beside what came of the commit itself.
ENDED, GONE, SINCE, PENDING, SHARE, NOT_PRODUCED = (
    "ended", "gone", "committed-since", "pending", "share-group", "not-produced",
)  # fmt: skip


class FormerOffset(NamedTuple):
    """An offset that a group had committed."""

    place: Place  # by the name that the topic has in the copies
    offset: int


class LeftOut(NamedTuple):
    """An offset that is not to be committed, and why; None where it is not known."""

    place: Place
    offset: int | None
    why: str


class FormerOffsets:
    """What groups had committed in some topics, as it is to be brought back."""

    def __init__(self) -> None:
        self.offsets: list[FormerOffset] = []
        self.left_out: list[LeftOut] = []
        self.deleted_ms: int | None = None  # of the topic whose offsets were removed last

    def read(
        self, paths: Sequence[str], options: SalvageOptions, copies: Sequence[Sequence[Copy]]
    ) -> Iterator[KdumpError | Finding]:
        """Replay what lies among the paths, and choose."""
        asked = GroupOptions(
            selection=options.selection._replace(retired=False),
            server_properties=options.server_properties,
            at_ms=options.groups_at,
            ended=options.groups_at is None,
            broker_version=options.broker_version,
            decompress_limit=options.decompress_limit,
        )
        known: dict[Place, _GroupHistory] = {}
        shares = set()
        for item in groups(paths, asked):
            if isinstance(item, NothingToDo):
                raise item
            if isinstance(item, (KdumpError, Finding)):
                yield item
            elif isinstance(item, Row) and item.row == "group" and item.fields["type"] == "Share":
                shares.add(str(item.fields["group"]))
            elif isinstance(item, Row) and item.row in ("committed-offset", "ended-offset"):
                one = item.fields
                place = Place(str(one["group"]), str(one["topic"]), int(str(one["partition"])))
                known.setdefault(place, _GroupHistory()).take(item)
        for topic, of_topic in _topics(copies).items():
            self._choose(
                {place: one for place, one in known.items() if place.topic == topic},
                of_topic,
                shares,
                is_exact=options.groups_at is not None,
            )

    def _choose(
        self, known: dict[Place, _GroupHistory], topic: _Topic, shares: set[str], *, is_exact: bool
    ) -> None:
        """Choose of each group and partition of one topic."""
        ended_ms: int | None = None
        if topic.is_deleted and not is_exact:
            ended = [at for one in known.values() if (at := one.find_end_ms(topic)) is not None]
            ended_ms = max(ended, default=topic.deleted_ms)
            self.deleted_ms = max(filter(None, (ended_ms, self.deleted_ms)), default=None)
        for place, one in sorted(known.items()):
            if place.partition not in topic.partitions:
                continue
            offset, why = one.choose(topic, ended_ms)
            if place.group in shares:
                offset, why = None, SHARE
            if why:
                self.left_out.append(LeftOut(place, offset, why))
            elif offset is not None:
                self.offsets.append(FormerOffset(place, offset))


class _Topic(NamedTuple):
    """One topic of a salvage; `deleted_ms`: not later than that, None where nothing tells."""

    topic_id: str | None
    partitions: frozenset[int]
    is_deleted: bool
    deleted_ms: int | None

    def is_other(self, topic_id: object) -> bool:
        """Whether a commit says that it is of another topic."""
        return None not in (topic_id, self.topic_id) and topic_id != self.topic_id


def _topics(copies: Sequence[Sequence[Copy]]) -> dict[str, _Topic]:
    """Say of each topic in which partitions it is here, and when it was deleted at the latest."""
    found: dict[str, _Topic] = {}
    for of_partition in copies:
        for copy in of_partition:
            name, number = copy.found.topic or "", copy.found.partition or 0
            known = found.get(name, _Topic(None, frozenset(), False, None))
            if copy.found.retirement is Retirement.DELETE:
                at = min(filter(None, (known.deleted_ms, _rename_ms(copy))), default=None)
                known = known._replace(is_deleted=True, deleted_ms=at)
            found[name] = known._replace(
                topic_id=known.topic_id or copy.topic_id, partitions=known.partitions | {number}
            )
    return found


def _rename_ms(copy: Copy) -> int | None:
    """When a directory was renamed, at the latest: its inode was changed then."""
    try:
        if places.is_uri(copy.found.directory):
            return None
        return os.stat(copy.found.directory).st_ctime_ns // 1_000_000
    except OSError:
        return None


class _GroupHistory:
    """What is known of the offsets of one group in one partition."""

    def __init__(self) -> None:
        self._offset: int | None = None
        self._topic_id: object = None
        self._commit_ms = 0
        self._is_pending = False
        self._ended: list[tuple[int | None, object, int]] = []

    def take(self, row: Row) -> None:
        """Take up a row of `groups`."""
        one = row.fields
        offset = None if one["offset"] is None else int(str(one["offset"]))
        if row.row == "ended-offset":
            self._ended.append((offset, one["topic_id"], int(str(one["ended_ms"]))))
        elif one["pending"]:
            self._is_pending = True
        elif offset is not None:
            self._offset, self._commit_ms = offset, int(str(one["commit_ms"]))
            self._topic_id = one.get("topic_id")

    def find_end_ms(self, topic: _Topic) -> int | None:
        """When the last tombstone was written that may be of the deletion."""
        found = self._of(topic)
        return None if found is None else found[2]

    def _of(self, topic: _Topic) -> tuple[int | None, object, int] | None:
        latest = None if topic.deleted_ms is None else topic.deleted_ms + _SLACK_MS
        for one in reversed(self._ended):
            is_late = latest is not None and one[2] > latest
            is_same = one[1] is not None and one[1] == topic.topic_id
            if is_same or not (is_late or topic.is_other(one[1])):
                return one
        return None

    def choose(self, topic: _Topic, ended_ms: int | None) -> tuple[int | None, str]:
        """Give the offset, or why there is none that counts."""
        if not topic.is_deleted or ended_ms is None:
            if self._offset is not None:
                return self._offset, ""
            if self._ended:
                return self._ended[-1][0], ENDED
            return None, PENDING if self._is_pending else ENDED
        ended = self._of(topic)
        if ended is not None and ended[2] >= ended_ms - _AT_ONCE_MS:
            return ended[0], "" if ended[0] is not None else GONE
        if self._offset is None:
            last = self._ended[-1][0] if self._ended else None
            return last, ENDED if self._ended else PENDING
        if topic.is_other(self._topic_id):
            return self._offset, SINCE
        is_same = self._topic_id is not None and self._topic_id == topic.topic_id
        if is_same or self._commit_ms <= ended_ms:
            return self._offset, ""
        return self._offset, SINCE


def summary_row(
    outcomes: Sequence[str], applied: frozenset[str], former: FormerOffsets, at_ms: int | None
) -> Row:
    """Say how many offsets were committed and how many not, and why."""
    counts = Counter(outcomes)
    as_of = "time" if at_ms is not None else "now" if former.deleted_ms is None else "deletion"
    return GroupOffsets(
        applied_count=sum(counts[word] for word in applied),
        not_applied_count=sum(count for word, count in counts.items() if word not in applied),
        outcomes=dict(sorted(counts.items())),
        as_of=as_of,
        as_of_ms=at_ms if at_ms is not None else former.deleted_ms,
    )
