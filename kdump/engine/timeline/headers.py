"""The source of headers: damage, jumps of time, open transactions, and markers.

All headers of a log are read, so only of small logs and of internal topics.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kdump.broker.control_batch import read_control
from kdump.engine.timeline.clocks import SET_BACK_MS
from kdump.engine.timeline.raw_event import (
    CLIENT,
    DERIVED,
    LEADER,
    NO_CLOCK,
    Marker,
    Open,
    RawEvent,
    Spot,
    Tie,
)
from kdump.engine.timeline.sources import DECODED
from kdump.errors import PathError
from kdump.kernels import columns as c
from kdump.record import control
from kdump.record.frames import Gap, Run
from kdump.record.layout import TIMESTAMP_TYPE_BIT
from kdump.replay.groups import TOPIC as GROUPS
from kdump.replay.transactions import TOPIC as TRANSACTIONS
from kdump.storage import names
from kdump.storage.file_records import walk
from kdump.storage.local_log import with_next_base

if TYPE_CHECKING:
    from kdump.engine.timeline.replica import Replica
    from kdump.kernels.columns import RecordBatches
    from kdump.storage.local_log import LogSegment

_MOST_MARKERS = 100_000
_MOST_DAMAGE = 1_000
#: A CreateTime that goes back further than this had gone too far ahead.
_JUMP_MS = 600_000
#: Topics that a broker dates.
BY_BROKERS = frozenset((names.CLUSTER_METADATA_TOPIC, GROUPS, TRANSACTIONS))
_READ_WHOLE = DECODED | BY_BROKERS


def is_by_broker(topic: str, batches: RecordBatches, row: int) -> bool:
    """Whether a broker dated a batch, not a client."""
    if topic in BY_BROKERS or batches.flags_of(row) & c.CONTROL:
        return True
    return bool(batches.attributes(row) & TIMESTAMP_TYPE_BIT)


def header_events(replica: Replica) -> None:
    """Hand over what the headers of a log show, if all are to be read."""
    if not replica.item.whole and replica.item.topic not in _READ_WHOLE:
        return
    read, limit = _Headers(replica), replica.options.decompress_limit
    segments = [one for one in replica.log.logs if not one.is_pre08]
    for segment, following in with_next_base(segments):
        try:
            for item in walk(str(segment.log), limit=limit, next_base=following):
                if isinstance(item, Gap):
                    read.gap(item, segment, is_last=following is None)
                    continue
                for row in range(item.batches.count):
                    read.batch(item.batches, row, segment, item if isinstance(item, Run) else None)
        except PathError:
            read.open.clear()  # deleted meanwhile, or what verify reports
    read.done()


class _Headers:
    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._epochs = EpochTies(replica)
        self._markers: deque[Marker] = deque(maxlen=_MOST_MARKERS)
        self.open: dict[int, Open] = {}
        self._next: int | None = None
        self._epoch = -1  # of the last batch
        self._last_ms: tuple[int, int] | None = None
        self._damaged = 0

    def _event(
        self, what: str, text: str, batches: RecordBatches, row: int, segment: LogSegment,
        clock_of: int | None = None, *, by_broker: bool = False,
    ) -> RawEvent:  # fmt: skip
        """Make an event of a batch, which every replica shows."""
        return self._replica.event._replace(
            what=what,
            text=text,
            offset=batches.base_offset(row),
            epoch=batches.leader_epoch(row),
            node=None,
            broker_id=clock_of,
            clock=LEADER if by_broker else CLIENT,
            clock_of=clock_of,
            at_ms=batches.max_timestamp(row) if by_broker else batches.base_timestamp(row),
            path=str(segment.log),
            segment=segment.base_offset,
            position=batches.position(row),
        )

    def batch(self, batches: RecordBatches, row: int, segment: LogSegment, run: Run | None) -> None:
        """Take the header of a batch; `run` has the batch itself."""
        base, last = batches.base_offset(row), batches.last_offset(row)
        if self._next is not None and base > self._next:
            self._replica.holes_to = base
        if batches.records_count(row) not in (last - base + 1, -1):
            self._replica.holes_to = last
        epoch, before = batches.leader_epoch(row), self._epoch
        self._next, self._epoch = last + 1, epoch
        clock, at_ms = None, batches.max_timestamp(row)
        if by_broker := is_by_broker(self._replica.item.topic, batches, row):
            clock = self._epochs.batch(epoch, at_ms, base)
            if (back := self._epochs.back_ms) > SET_BACK_MS:
                text = f"the clock of broker {clock} was set back by {_seconds(back)}"
                event = self._event("time-jump", text, batches, row, segment, clock, by_broker=True)
                self._replica.take(event)
        else:
            self._jump(batches, row, segment)
        if epoch > before:
            text = f"the first batch of leader epoch {epoch}"
            place = batches, row, segment, clock
            event = self._event("epoch", text, *place, by_broker=by_broker)
            self._replica.take(event._replace(basis=DERIVED))
        if not batches.has_producer_fields(row):
            return
        producer, flags = batches.producer_id(row), batches.flags_of(row)
        if flags & c.CONTROL:
            ends = (control.ABORT, control.COMMIT)
            if run is not None and read_control(run, row).kind in ends:
                self.open.pop(producer, None)
                if clock is not None:
                    of = batches.producer_epoch(row), clock, at_ms, self._replica.event.subject
                    self._markers.append(
                        Marker(producer, *of, self._replica.find_spot(base, epoch))
                    )
        elif flags & c.TRANSACTIONAL and producer not in self.open:
            text = "its first batch; no marker ends it"
            event = self._event("transaction-hangs", text, batches, row, segment)
            self.open[producer] = Open(producer, event._replace(basis=DERIVED))

    def _jump(self, batches: RecordBatches, row: int, segment: LogSegment) -> None:
        """See whether CreateTime goes far back: what came before was too far ahead."""
        at_ms, before = batches.base_timestamp(row), self._last_ms
        self._last_ms = batches.max_timestamp(row), batches.base_offset(row)
        if before is not None and at_ms >= 0 and before[0] - at_ms >= _JUMP_MS:
            text = f"CreateTime decreases by {_seconds(before[0] - at_ms)}"
            text += f" after offset {before[1]:,}"
            self._replica.take(self._event("time-jump", text, batches, row, segment))

    def gap(self, gap: Gap, segment: LogSegment, *, is_last: bool) -> None:
        """Tell of damage; what was open may have ended in what cannot be read."""
        self.open.clear()
        if gap.to_end and is_last and gap.reason in ("zeros", "cut-short"):
            return
        self._damaged += 1
        if self._damaged > _MOST_DAMAGE:
            return
        offset = segment.base_offset if self._next is None else self._next
        if gap.header is not None and gap.header.base_offset(0) >= offset:
            offset = gap.header.base_offset(0)
        text = f"{gap.size_bytes:,} bytes at position {gap.position:,} contain no usable batch"
        self._replica.take(
            self._replica.event._replace(
                what="damage",
                text=f"{text} ({gap.reason})",
                offset=offset,
                path=str(segment.log),
                segment=segment.base_offset,
                position=gap.position,
                clock=NO_CLOCK,
            )
        )

    def done(self) -> None:
        """Leave what is known at the end."""
        read = self._replica.read
        read.ties += self._epochs.found
        read.markers += self._markers
        read.open += self.open.values()
        read.reached = self._epoch, -1 if self._next is None else self._next


class EpochTies:
    """Follows the leader epochs of a log whose batches bear the broker's time, for ties.

    A controller says who leads before that one appends; the last batch of a leader comes before
    the first of the next.
    """

    def __init__(self, replica: Replica) -> None:
        self.found: list[Tie] = []
        self._replica = replica
        self._epoch: int | None = None
        self._leader: int | None = None
        self._last_ms = -1
        self._last: Spot | None = None
        self.back_ms = 0

    def batch(self, epoch: int, at_ms: int, offset: int) -> int | None:
        """Take note of a batch; return whose clock dated it. `back_ms`: how far that went back."""
        self.back_ms = 0
        here = self._replica.find_spot(offset, epoch)
        if epoch != self._epoch:
            term = self._replica.find_term(epoch)
            leader = None if term is None else term.leader
            if term is not None and term.controller is not None and term.at_ms is not None:
                why = "a change of leader, then a batch of that epoch"
                changed = term.controller, term.at_ms, term.leader, at_ms, why
                self.found.append(Tie(*changed, first_at=term.spot, second_at=here))
            if self._leader is not None and leader is not None and self._last_ms >= 0:
                why = "the last batch of one leader, then the first of the next"
                self._follows(leader, at_ms, here, why)
            self._epoch, self._leader = epoch, leader
        elif self._leader is not None and at_ms < self._last_ms:
            self.back_ms = self._last_ms - at_ms
            self._follows(self._leader, at_ms, here, "set back")
        self._last_ms, self._last = at_ms, here
        return self._leader

    def _follows(self, leader: int, at_ms: int, here: Spot, why: str) -> None:
        assert self._leader is not None
        times = self._leader, self._last_ms, leader, at_ms, why
        self.found.append(Tie(*times, first_at=self._last, second_at=here))


def _seconds(ms: int) -> str:
    return f"{ms // 1000:,} s"
