"""Walk a segment's log once: what recovery would write, what is there, where it stops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.index_builder import IndexBuilder, Rules, Stop
from kdump.broker.producer_state import ProducerStates
from kdump.engine.reading.damage import gap_finding
from kdump.engine.reading.segment_pass import SegmentPass
from kdump.engine.reindex.judge import Judge
from kdump.findings.finding import Finding
from kdump.record.frames import Gap
from kdump.storage.file_records import walk
from kdump.storage.local_log import LocalLog, LogSegment, with_next_base
from kdump.storage.names import Kind
from kdump.storage.offsets import Offsets, Released
from kdump.storage.segment_range import end_of
from kdump.storage.source import Source

if TYPE_CHECKING:
    from kdump.engine.reindex.epochs import EpochBuilder
    from kdump.findings.rows import Place

_BEING_WRITTEN = "tail-being-written"


class Reading:
    """What one walk came to. `finding` is about the damage at which recovery stops, if it is one.

    `lost_batches` are sound ones behind the stop; the last of them ends at `lost_last`.
    """

    def __init__(self, builder: IndexBuilder, judge: Judge, size_bytes: int, *, live: bool) -> None:
        self.builder = builder
        self.judge = judge
        self.size_bytes = size_bytes
        self.live = live  # a broker may be at work
        self.finding: Finding | None = None
        self.lost_batches = 0
        self.lost_last = -1

    @property
    def stop(self) -> Stop | None:
        """Where recovery ends before the log does; not at a batch a broker is just writing."""
        if self.live and self.finding is not None and self.finding.code == _BEING_WRITTEN:
            return None
        return self.builder.stop

    def loss(self, later: int) -> str | None:
        """Say what a broker would do at the stop, `later` segments being behind this one."""
        stop = self.stop
        if stop is None:
            return None
        text = f"{stop.what} at position {stop.position}: a broker that recovers the segment "
        if stop.outcome == "split":
            return text + "splits it at the next start"
        if stop.outcome == "fail":
            return text + "fails, and does not start"
        if stop.outcome == "empty":
            text += "empties it, and loses offset " + str(self.builder.base_offset)
        else:
            text += f"cuts it there, and loses offset {stop.offset}"
        if self.lost_batches:
            batches = "1 sound batch" if self.lost_batches == 1 else (
                f"{self.lost_batches:,} sound batches"
            )  # fmt: skip
            text += f" up to {self.lost_last}, {batches} among them"
        else:
            text += " on"
        if later:
            text += f"; it deletes the {later} behind it" if later > 1 else "; it deletes the next"
        return text


def read_segment(
    segment: LogSegment,
    place: Place,
    rules: Rules,
    states: ProducerStates | None,
    *,
    next_base: int | None,
    live: bool = False,
    epochs: EpochBuilder | None = None,
) -> Reading:
    """Walk the log once, for the builder up to where recovery stops, for the judge to its end."""
    base = segment.base_offset
    active = next_base is None
    judge = Judge(base, segment.files, active=active)
    with Source(segment.files[Kind.LOG]) as source:
        builder = IndexBuilder(base, rules, states)
        reading = Reading(builder, judge, source.size, live=live)
        going = True
        offsets = Offsets(base - 1, end_of(base, next_base))
        log = SegmentPass(source, offsets, limit=rules.limit, next_base=next_base)
        released: list[Released] = []  # of the gap at which it stops
        for item in log.items():
            if isinstance(item, Gap):
                if going:
                    going = builder.take(item)
                    if builder.stop is not None:
                        released += log.take(item)
                continue
            released += log.take(item)
            if going:
                going = builder.take(item)
                reading.lost_batches = builder.lost
                if epochs is not None:
                    epochs.feed(item.batches)
            else:
                reading.lost_batches += item.batches.count
            if reading.lost_batches:
                reading.lost_last = offsets.last
            judge.feed(item.batches)
        builder.finish()
        released += offsets.release(None)
        if released:
            reading.finding = gap_finding(released[0], place, source, active=active)
    return reading


def states_of_snapshot(log: LocalLog, base_offset: int) -> ProducerStates | None:
    """What the producer snapshot at a segment's base offset says; None without a sound one."""
    path = dict(log.snapshots()).get(base_offset)
    return None if path is None else ProducerStates.from_file(path)


def states_replayed(logs: list[LogSegment], rules: Rules) -> ProducerStates | None:
    """What replaying these segments from their first on says; None where one of them is damaged."""
    states = ProducerStates()
    for segment, following in with_next_base(logs):
        path, before = segment.files[Kind.LOG], segment.base_offset - 1
        for item in walk(path, limit=rules.limit, next_base=following, last_offset=before):
            if not isinstance(item, Gap):
                states.replay(item)
            elif item.reason != "zeros":
                return None
    return states
