"""Rebuild `leader-epoch-checkpoint` from the leader epochs of a log's batches.

Recovery notes an epoch at the first batch of a higher one (R2). What a log cannot tell: an epoch
in which nothing was written, and where one began whose first batches compaction or retention
removed.
"""

from __future__ import annotations

from kdump.broker.leader_epochs import EpochSpans, spans_in
from kdump.kernels.columns import RecordBatches
from kdump.storage.checkpoints import EpochStart, load_epochs, parse_leader_epochs, text_of
from kdump.storage.names import OFFSET_MAX


class EpochBuilder(EpochSpans):
    """The epochs of one log that a broker notes, from its batches in order."""

    def __init__(self) -> None:
        super().__init__(rising=True)

    def feed(self, batches: RecordBatches) -> None:
        """Take the next batches."""
        for span in spans_in(batches):
            self.add(span)

    def text(self, log_start: int) -> bytes:
        """The checkpoint file that recovery writes: without an epoch it is empty."""
        entries = self.entries(log_start)
        return text_of(entries) if entries else b""

    def entries(self, log_start: int) -> list[EpochStart]:
        """The entries recovery writes, trimmed at the log start as a broker does (X2)."""
        found = [EpochStart(span.epoch, span.first_offset) for span in self.spans]
        before = [entry for entry in found if entry.start_offset <= log_start]
        if not before:
            return found
        kept = EpochStart(before[-1].epoch, log_start)
        return [kept, *found[len(before) :]]


def wrong_epochs(data: bytes, built: EpochBuilder, log_start: int) -> str | None:
    """Say why a checkpoint is not sound; None if every batch lies in the epoch it says.

    It may know more than the log: epochs in which nothing was written.
    """
    found = parse_leader_epochs(data)
    if found.problems:
        return f"{found.problems[0].actual!r} where {found.problems[0].expected} is expected"
    entries = load_epochs(found.entries)
    for epoch, first, last, *_ in built.spans:
        if last < log_start:
            continue
        at = next((n for n, entry in enumerate(entries) if entry.epoch == epoch), None)
        if at is None:
            return (
                f"epoch {epoch} is missing, although offset {max(first, log_start)} was "
                "written in it"
            )
        if entries[at].start_offset > max(first, log_start):
            return (
                f"epoch {epoch} starts at {entries[at].start_offset}, but its batches start at "
                f"{first}"
            )
        end = entries[at + 1].start_offset if at + 1 < len(entries) else OFFSET_MAX
        if end <= last:
            return f"epoch {epoch} ends at {end}, but its batches end at {last}"
    return None
