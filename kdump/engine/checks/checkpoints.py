"""Check the offset checkpoints of a data directory against its partitions (X1, X3, X4).

Each is written on a schedule of its own and replaced by a rename, so that on a live broker, and
after an unclean stop, any of them may be older than the log: behind it, or, after a truncation,
beyond its end. A clean stop writes all of them last, and none but the recovery point, which old
brokers leave where it was when recovery cuts a log, beyond the end: what a log lacks then is lost.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from kdump.engine.checks.files import first_and_more
from kdump.engine.checks.survey import PartitionFacts, read_small
from kdump.engine.reading.damage import at_place
from kdump.errors import PathError
from kdump.findings.finding import Finding, finding
from kdump.findings.rows import Place
from kdump.storage import checkpoints, names, places
from kdump.storage.offsets import RELATIVE_MAX

if TYPE_CHECKING:
    from kdump.storage.log_dir import LogDir

_ALL = (
    names.RECOVERY_POINT_CHECKPOINT,
    names.REPLICATION_CHECKPOINT,
    names.LOG_START_CHECKPOINT,
    names.CLEANER_CHECKPOINT,
)
# These list every partition; the others only those of which they have something to say.
_COMPLETE = (names.RECOVERY_POINT_CHECKPOINT, names.REPLICATION_CHECKPOINT)
# What each says, as far as it bounds the log end from below.
_BOUNDS = {
    names.RECOVERY_POINT_CHECKPOINT: "was flushed up to",
    names.REPLICATION_CHECKPOINT: "had a high watermark of",
    names.LOG_START_CHECKPOINT: "started at",
}

Offsets = dict[tuple[str, int], int]


def check_checkpoints(
    directory: LogDir, facts: Sequence[PartitionFacts]
) -> Iterator[Finding | PathError]:
    """Yield what is wrong with the checkpoints of a data directory, and what they prove."""
    found: dict[str, Offsets] = {}
    facts = [
        one
        for one in facts
        if one.is_live and not one.pre08 and one.topic != names.CLUSTER_METADATA_TOPIC
    ]
    for checkpoint in _ALL:
        path = os.path.join(directory.path, checkpoint)
        if not places.lexists(path):
            continue
        read, reported = read_small(
            Place(None, None, None, path),
            checkpoints.parse_offsets,
            checkpoints.SIZE_LIMIT,
            "checkpoint-malformed",
        )
        yield from reported
        if read is not None and not read.problems:
            offsets = {(topic, partition): offset for topic, partition, offset in read.entries}
            found[checkpoint] = offsets
            yield from _stale_entries(directory, path, offsets)
            if checkpoint in _COMPLETE:
                yield from _find_unlisted(path, offsets, facts)
    yield from _find_missing(directory, found)
    clean = was_stopped_cleanly(directory)
    for one in facts:
        yield from _order(directory, one, found, clean=clean)


def was_stopped_cleanly(directory: LogDir) -> bool:
    """Whether the mark of a clean stop is there; being there is all that counts (X6).

    Nobody is writing then, and nothing is preallocated. A broker that starts takes the mark away,
    which the listing of the directory may not know yet.
    """
    return any(
        os.path.basename(path) == names.CLEAN_SHUTDOWN and places.lexists(path)
        for path in directory.files
    )


def _stale_entries(directory: LogDir, path: str, offsets: Offsets) -> Iterator[Finding]:
    """Tell of partitions that are listed and not here: brokers drop them when they write next."""
    here = {(name.topic, name.partition) for name, _ in directory.partitions}
    gone = [key for key in offsets if key not in here]
    if gone:
        yield at_place(
            "checkpoint-stale-entry",
            Place(*gone[0], None, path),
            offset=offsets[gone[0]],
            actual=len(gone),
            message=f"{_partitions(gone)} in the checkpoint, but not in this data directory.",
        )


def _find_unlisted(
    path: str, offsets: Offsets, facts: Sequence[PartitionFacts]
) -> Iterator[Finding]:
    missing = [(one.topic, one.partition) for one in facts]
    missing = [key for key in missing if key not in offsets]
    if missing:
        is_recovery_point = os.path.basename(path) == names.RECOVERY_POINT_CHECKPOINT
        after = (
            ". After an unclean shutdown, a start recovers all their segments"
            if is_recovery_point
            else ""
        )
        yield at_place(
            "checkpoint-lacks-partition",
            Place(*missing[0], None, path),
            actual=len(missing),
            message=f"{_partitions(missing)} not in the checkpoint{after}.",
        )


def _find_missing(directory: LogDir, found: dict[str, Offsets]) -> Iterator[Finding]:
    """Tell of a recovery point that is gone while the high watermark, as old as it, is there."""
    path = os.path.join(directory.path, names.RECOVERY_POINT_CHECKPOINT)
    if names.REPLICATION_CHECKPOINT in found and not places.lexists(path):
        # Before 0.8.1 there was none, and no directory says which release wrote it.
        yield finding("checkpoint-missing", path=path)


def _order(
    directory: LogDir, one: PartitionFacts, found: dict[str, Offsets], *, clean: bool
) -> Iterator[Finding]:
    key = (one.topic, one.partition)
    end = one.next_offset
    if end is None and one.base_offset is None:
        end = 0  # no segment at all
    if end is None:
        return
    beyond = [
        (found[checkpoint][key], checkpoint)
        for checkpoint in _BOUNDS
        if found.get(checkpoint, {}).get(key, 0) > end
    ]
    proofs = [
        item
        for item in beyond
        if clean
        and item[1] != names.RECOVERY_POINT_CHECKPOINT
        and item[0] <= end + RELATIVE_MAX  # further up it is the checkpoint that is wrong
    ]
    if beyond and not one.still_holds():
        return
    if proofs:
        yield _lost_finding(one, max(proofs, key=itemgetter(0)), end)
    elif beyond:
        yield _beyond_finding(directory, one, max(beyond, key=itemgetter(0)), end)
    cleaned = found.get(names.CLEANER_CHECKPOINT, {}).get(key)
    start = max(one.base_offset or 0, found.get(names.LOG_START_CHECKPOINT, {}).get(key, 0))
    if cleaned is not None and not beyond and not start <= cleaned <= end:
        outside = f"beyond the log end, {end:,}"
        if cleaned < start:
            outside = f"below the log start, {start:,}"
        yield at_place(
            "cleaner-offset",
            one.place,
            path=os.path.join(directory.path, names.CLEANER_CHECKPOINT),
            offset=cleaned,
            expected=f"{start}-{end}",
            actual=cleaned,
            message=f"The cleaner's checkpoint, {cleaned:,}, is {outside}: the next cleaning "
            f"starts over from {start:,}.",
        )


def _beyond_finding(
    directory: LogDir, one: PartitionFacts, most: tuple[int, str], end: int
) -> Finding:
    offset, checkpoint = most
    return at_place(
        "checkpoint-beyond-end",
        one.place,
        path=os.path.join(directory.path, checkpoint),
        offset=end,
        expected=end,
        actual=offset,
        message=f"The log {_BOUNDS[checkpoint]} {offset:,} according to the checkpoint, but "
        f"ends at {end:,}: it may have been truncated since.",
    )


def _lost_finding(one: PartitionFacts, most: tuple[int, str], end: int) -> Finding:
    offset, checkpoint = most
    return at_place(
        "log-end-lost",
        one.place,
        offset=end,
        expected=offset,
        actual=end,
        message=f"The log {_BOUNDS[checkpoint]} {offset:,} when the broker was stopped cleanly, "
        f"and ends at {end:,}: {offset - end:,} offsets are lost at its end.",
        lost_at_least=0,
        lost_at_most=offset - end,
    )


def _partitions(keys: list[tuple[str, int]]) -> str:
    return first_and_more([names.directory_name(*key) for key in keys])
