"""What the model of the cleaner and the broker's own cleaner make of a partition, side by side."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from directories import write_checkpoint
from oracle import oracle

from kdump.broker.cleaner import Choice, cleaner_log
from kdump.broker.cleaning import CleaningRound, FailedError
from kdump.broker.partition import PartitionView
from kdump.broker.retention import LogFacts
from kdump.broker.segment_facts import log_facts
from kdump.broker.settings import Settings
from kdump.storage.targets import Selection, resolve

Json = dict[str, Any]
#: That of the oracle.
BROKER = (4, 1, 1)


class Question(NamedTuple):
    """One partition directory at a moment; None: no entry in the checkpoint."""

    directory: Path
    now_ms: int
    configs: Mapping[str, str]
    checkpoint: int | None = None
    log_start: int | None = None
    high_watermark: int | None = None
    dedupe_buffer: int = 128 << 20

    @property
    def settings(self) -> Settings:
        return Settings(dedupe_buffer=self.dedupe_buffer).of_topic(self.configs)

    def view(self) -> PartitionView:
        """Write the checkpoints beside the partition, and read it."""
        topic, _, partition = self.directory.name.rpartition("-")
        for name, offset in (
            ("cleaner-offset-checkpoint", self.checkpoint),
            ("log-start-offset-checkpoint", self.log_start),
            ("replication-offset-checkpoint", self.high_watermark),
        ):
            entries = [] if offset is None else [(topic, partition, offset)]
            write_checkpoint(self.directory.parent / name, entries)
        return view_of(self.directory, self.settings)

    def ask(self, query: str, **more: object) -> Json:
        """Ask the oracle; a whole answer."""
        members: Json = {
            "cleanerCheckpoint": self.checkpoint,
            "logStartOffset": self.log_start,
            "highWatermark": self.high_watermark,
        }
        return oracle().answer(
            query,
            dir=self.directory,
            now=self.now_ms,
            config=self.configs,
            maxIndexSize=65536,
            clean=True,
            dedupeBufferBytes=self.dedupe_buffer,
            **more,
            **{name: number for name, number in members.items() if number is not None},
        )


def view_of(directory: Path, settings: Settings) -> PartitionView:
    """Read a partition as it lies, for committed data."""
    (target,) = resolve([str(directory)], Selection())
    assert not isinstance(target, Exception)
    return PartitionView(
        target, isolation="read_committed", as_is=True, broker=BROKER, settings=settings
    )


def facts_of(view: PartitionView) -> LogFacts:
    """Read what a broker that stopped in order goes by."""
    return log_facts(view.target, BROKER, clean=True)


class CleanerResult(NamedTuple):
    """What a cleaning drops and leaves, and where the next begins."""

    dead: frozenset[int]
    dropped_bytes: int
    checkpoint: int | None
    bytes_left: int


def ours(question: Question, view: PartitionView) -> tuple[Choice, CleanerResult | None]:
    """What the model says; None where the cleaner fails."""
    settings = question.settings
    log = cleaner_log(view, facts_of(view))
    choice = log.choice(settings, question.now_ms)
    cleaning = CleaningRound(view, choice, settings, question.now_ms)
    if log.corrupt:
        return choice, None
    try:
        changed = list(cleaning.batches())
    except FailedError:
        return choice, None
    assert not cleaning.is_lower_bound
    dead = frozenset(offset for batch in changed for offset in batch.dead)
    dropped = sum(batch.size_before - batch.size_bytes for batch in changed)
    nothing = choice.first_dirty_offset >= choice.end_offset
    left = sum(one.size_bytes for one in log.segments) - dropped
    checkpoint = question.checkpoint if nothing else cleaning.map.end
    return choice, CleanerResult(dead, dropped, checkpoint, left)


def theirs(question: Question) -> CleanerResult | None:
    """What the broker's cleaner leaves; None where it fails."""
    answer = question.ask("clean")
    if not answer["ok"]:
        return None
    result = answer["result"]
    before = offsets(oracle().ask("offsets", dir=question.directory))
    dead = before - offsets(result["segments"])
    dropped = result["bytesBefore"] - result["bytesAfter"]
    return CleanerResult(
        frozenset(dead), dropped, result["cleanerCheckpoint"], result["bytesAfter"]
    )


def offsets(segments: Iterable[Json]) -> set[int]:
    """The offsets in a listing of the oracle's, or of the corpus."""
    return {
        offset
        for segment in segments
        for first, last in segment.get("offsets", ())
        for offset in range(first, last + 1)
    }
