"""Rebuild one partition: plan each segment in order and, if asked, write."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.broker.index_builder import IndexBuilder, Rules, Stop
from kdump.broker.producer_state import ProducerStates
from kdump.broker.versions import text_of
from kdump.broker.visibility import log_start
from kdump.engine.reading.damage import gap_finding
from kdump.engine.reading.segment_pass import SegmentPass
from kdump.engine.reindex.epochs import EpochBuilder, wrong_epochs
from kdump.engine.reindex.index_writer import Facts, IndexWriter
from kdump.engine.reindex.judge import Judge, wrong_transactions
from kdump.engine.reindex.rows import entries_of, first_difference
from kdump.errors import PathError
from kdump.findings.finding import Finding
from kdump.findings.rows import Place, Row
from kdump.record.frames import Gap
from kdump.storage import checkpoints, lock, names, places
from kdump.storage.file_records import walk
from kdump.storage.local_log import LocalLog, LogSegment, with_next_base
from kdump.storage.names import Kind
from kdump.storage.offsets import Offsets, ResolvedGap, end_of
from kdump.storage.source import Source, read_whole

if TYPE_CHECKING:
    from kdump.engine.reindex.options import Item, Job, ReindexOptions


_BEING_WRITTEN = "tail-being-written"


class WalkResult:
    """What one walk came to. `finding` is about the damage at which recovery stops, if it is one.

    `lost_batches` are sound ones behind the stop; the last of them ends at `lost_last`.
    """

    def __init__(self, builder: IndexBuilder, judge: Judge, size_bytes: int, *, live: bool) -> None:
        self.builder = builder
        self.judge = judge
        self.size_bytes = size_bytes
        self.live = live  # a broker may be at work
        self.older: IndexBuilder | None = None  # by the rules of the oldest release
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
        text = f"{stop.what} at position {stop.position:,}: recovery of the segment "
        if stop.outcome == "split":
            return text + "splits it at the next start"
        if stop.outcome == "fail":
            return text + "fails, and the broker does not start"
        if stop.outcome == "empty":
            text += "empties it, and loses offsets " + str(self.builder.base_offset)
        else:
            text += f"truncates it there, and loses offsets {stop.offset}"
        if self.lost_batches:
            batches = "1 sound batch" if self.lost_batches == 1 else (
                f"{self.lost_batches:,} sound batches"
            )  # fmt: skip
            text += f" to {self.lost_last}, including {batches}"
        else:
            text += " and above"
        if later:
            more = f"the {later:,} segments after it" if later > 1 else "the next segment"
            text += f"; recovery also deletes {more}"
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
    oldest: Rules | None = None,
) -> WalkResult:
    """Walk the log once, for the builder up to where recovery stops, for the judge to its end."""
    base = segment.base_offset
    active = next_base is None
    judge = Judge(base, segment.files, active=active)
    with Source(segment.files[Kind.LOG]) as source:
        builder = IndexBuilder(base, rules, states)
        reading = WalkResult(builder, judge, source.size, live=live)
        older = reading.older = None if oldest is None else IndexBuilder(base, oldest, None)
        going = True
        offsets = Offsets(base - 1, end_of(base, next_base))
        log = SegmentPass(source, offsets, limit=rules.limit, next_base=next_base)
        released: list[ResolvedGap] = []  # of the gap at which it stops
        for item in log.items():
            if older is not None and older.stop is None:
                older.take(item)
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
        if older is not None:
            older.finish()
        released += offsets.release(None)
        if released:
            reading.finding = gap_finding(released[0], place, source, active=active)
    return reading


def states_of_snapshot(log: LocalLog, base_offset: int) -> ProducerStates | None:
    """What the producer snapshot at a segment's base offset says; None without a sound one."""
    path = dict(log.snapshots()).get(base_offset)
    return None if path is None else ProducerStates.from_file(path)


def replay_states(logs: list[LogSegment], rules: Rules) -> ProducerStates | None:
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


_UNKNOWN = (
    "the transactions open at its start are unknown: there is no producer snapshot, and the log "
    "before it is damaged"
)
_UP_TO_DAMAGE = "; --up-to-damage builds it up to there"


class Partition:
    """Plans the files of one partition, and writes them if asked."""

    def __init__(
        self, job: Job, options: ReindexOptions, rules: Rules, utc: str, oldest: Rules | None = None
    ) -> None:
        log = job.target.log
        assert log is not None
        self.job = job
        self.log = log
        self.options = options
        self.rules = rules
        self._oldest = None if oldest is None or rules.writes_as(oldest) else oldest
        self.logs = [segment for segment in log.logs if Kind.LOG in segment.files]
        self._next_bases = [following for _, following in with_next_base(self.logs)]
        self._live = lock.is_held(os.path.dirname(os.path.realpath(log.path))) is not False
        self._carrier = IndexWriter(log.path, options, utc, settings=rules.settings)
        self._epochs = EpochBuilder() if Kind.LEADER_EPOCHS in job.kinds else None
        self._carried: ProducerStates | None = None
        self._damage: str | None = None  # the first, for what is built from the whole log

    def items(self) -> Iterator[Item]:
        """Yield a row for each file, and findings about the logs."""
        if not self.logs:
            raise PathError(self.log.path, "has no log of 0.8 or later, so no index to rebuild")
        with self._carrier:
            for number, segment in enumerate(self.logs):
                if self.job.bases is None or segment.base_offset in self.job.bases:
                    yield from self._unless_gone(number)
                else:
                    self._carried = None
            if self._epochs is not None:
                yield self._leader_epochs(self._epochs)
        if self.options.write:
            yield from self._carrier.refused.values()

    def _unless_gone(self, number: int) -> Iterator[Item]:
        """Plan a segment; one that retention takes away meanwhile needs no indexes any more."""
        try:
            yield from self._segment(number)
        except PathError as error:
            if self.options.write or os.path.lexists(error.path):
                raise
            self._carried = None

    def _segment(self, number: int) -> Iterator[Item]:
        reading, known = self._read(number)
        if reading.finding is not None:
            yield reading.finding
        loss = reading.loss(len(self.logs) - number - 1)
        self._damage = self._damage or loss
        size_bytes = reading.size_bytes
        for facts in self._facts(self.logs[number], reading, loss, known=known):
            row = self._carrier.apply(facts, size_bytes)
            row = row.replaced(broker_version=text_of(self.rules.broker))
            yield self._with_oldest(row, facts, reading.older)
            size_bytes = 0  # the log is read once

    def _with_oldest(self, row: Row, facts: Facts, older: IndexBuilder | None) -> Row:
        """Add the first entry that the oldest release writes otherwise than the newest."""
        if older is None or facts.kind not in (Kind.OFFSET_INDEX, Kind.TIME_INDEX):
            return row
        other = bytes(older.index.offsets if facts.kind is Kind.OFFSET_INDEX else older.index.times)
        if other == facts.after:
            return row
        oldest = {
            "broker_version": text_of(older.rules.broker),
            "entries_after": entries_of(facts.kind, other),
            "first_difference": first_difference(
                facts.kind, facts.after, other, facts.place.segment or 0
            ),
        }
        return row.replaced(oldest=oldest)

    def _read(self, number: int) -> tuple[WalkResult, bool]:
        """Walk a segment's log; say also whether the transactions open at its start were known."""
        wanted = self.rules.has_transactions and Kind.TRANSACTION_INDEX in self.job.kinds
        states = self._states(number) if wanted else None
        first = states
        if first is None and self.rules.has_transactions:
            first = ProducerStates()  # a marker that no broker can read is one from any state
        reading = self._walk(number, first, self._epochs)
        known = states is not None
        if wanted and not known and reading.builder.abort_markers:
            states = replay_states(self.logs[:number], self.rules)
            known = states is not None
            if known:
                reading = self._walk(number, states, None)
        elif not known:
            known = True  # without an ABORT marker nothing hangs on it
            states = None
        self._carried = states if reading.stop is None else None
        return reading, known

    def _states(self, number: int) -> ProducerStates | None:
        if number == 0:
            return ProducerStates()
        if self._carried is not None:
            return self._carried
        return states_of_snapshot(self.log, self.logs[number].base_offset)

    def _walk(
        self, number: int, states: ProducerStates | None, epochs: EpochBuilder | None
    ) -> WalkResult:
        segment = self.logs[number]
        return read_segment(
            segment,
            self._place(segment, Kind.LOG),
            self.rules,
            states,
            next_base=self._next_bases[number],
            live=self._live,
            epochs=epochs,
            oldest=self._oldest,
        )

    def _facts(
        self, segment: LogSegment, reading: WalkResult, loss: str | None, *, known: bool
    ) -> Iterator[Facts]:
        """Hold what is there against what was built, for each index asked for."""
        builder, judge = reading.builder, reading.judge
        log = segment.files[Kind.LOG]
        refusal = self._refusal(loss) or builder.over_limit()
        built = {Kind.OFFSET_INDEX: bytes(builder.index.offsets)}
        if self.rules.has_time_index:
            built[Kind.TIME_INDEX] = bytes(builder.index.times)
        for kind, after in built.items():
            if kind in self.job.kinds:
                before = judge.contents.get(kind)
                if kind is Kind.TIME_INDEX and not after and self._needs_none(segment):
                    continue
                wrong = None if before is None else judge.explain_fault(kind)
                yield Facts(
                    log, self._place(segment, kind), kind, before, after, wrong, refusal,
                    judge.written.get(kind),
                )  # fmt: skip
        if Kind.TRANSACTION_INDEX not in self.job.kinds or not self.rules.has_transactions:
            return
        place = self._place(segment, Kind.TRANSACTION_INDEX)
        before = _content(segment.files.get(Kind.TRANSACTION_INDEX))
        after = bytes(builder.aborted)
        if before is None and not after and known:
            return  # no file and an empty one are the same (I21)
        wrong = None if before is None else wrong_transactions(before, builder)
        entries = None if before is None else entries_of(Kind.TRANSACTION_INDEX, before)
        refusal = refusal or (None if known else _UNKNOWN)
        yield Facts(log, place, Kind.TRANSACTION_INDEX, before, after, wrong, refusal, entries)

    def _needs_none(self, segment: LogSegment) -> bool:
        """Whether no time index is missing: brokers before 0.10.1 wrote the partition.

        One that comes later starts with an empty one beside an `.index` that is there.
        """
        return (
            not self.options.every
            and Kind.OFFSET_INDEX in segment.files
            and not any(Kind.TIME_INDEX in one.files for one in self.logs)
        )

    def _refusal(self, loss: str | None) -> str | None:
        if loss is None or self.options.up_to_damage:
            return None
        return loss + _UP_TO_DAMAGE

    def _leader_epochs(self, epochs: EpochBuilder) -> Row:
        log = self.log
        start = log_start(
            self.logs[0].base_offset, self.job.target.log_dir(), log.topic, log.partition
        )
        path = os.path.join(self.log.path, names.LEADER_EPOCH_CHECKPOINT)
        before = _content(path if os.path.lexists(path) else None, checkpoints.SIZE_LIMIT)
        facts = Facts(
            self.logs[0].files[Kind.LOG],
            Place(self.log.topic, self.log.partition, None, path),
            Kind.LEADER_EPOCHS,
            before,
            epochs.text(start),
            None if before is None else wrong_epochs(before, epochs, start),
            self._refusal(self._damage),
            None if before is None else len(checkpoints.parse_leader_epochs(before).entries),
        )
        size_bytes = sum(places.size_or_zero(log.files[Kind.LOG]) for log in self.logs)
        return self._carrier.apply(facts, size_bytes)

    def _place(self, segment: LogSegment, kind: Kind) -> Place:
        path = segment.files.get(kind)
        if path is None:
            path = os.path.join(self.log.path, names.file_name(kind, segment.base_offset))
        return Place(self.log.topic, self.log.partition, segment.base_offset, path)


def _content(path: str | None, limit: int = 64 << 20) -> bytes | None:
    return None if path is None else read_whole(path, limit)
