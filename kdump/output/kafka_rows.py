"""Write kafka-dump-log's lines for index entries, producers and closing reports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.output.escape import name_text
from kdump.storage.offset_index import OffsetPosition
from kdump.storage.time_index import TimestampOffset
from kdump.storage.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from kdump.engine.kafka_text.dump import Reports
    from kdump.engine.kafka_text.indexes import Entry
    from kdump.engine.kafka_text.pairs import Pairs
    from kdump.findings.rows import BatchRow
    from kdump.storage.producer_snapshot import ProducerState


def broken_text(batch: BatchRow, key_size: int, value_size: int) -> str:
    """Write what the tool prints of a message before it dies of its value's size."""
    timestamp = -1 if batch.max_timestamp_ms is None else batch.max_timestamp_ms
    return (
        f"| offset: {batch.last_offset} {batch.timestamp_type or 'NoTimestampType'}: {timestamp} "
        f"keySize: {key_size} valueSize: {value_size} "
        f"isValid: {_bool(batch.crc_valid)} crc: {batch.crc}}}"
    )


def entry_text(entry: Entry) -> str:
    """Write the line of one index entry or producer."""
    if isinstance(entry, OffsetPosition):
        return f"offset: {entry.offset} position: {entry.position}"
    if isinstance(entry, TimestampOffset):
        return f"timestamp: {entry.timestamp_ms} offset: {entry.offset}"
    if isinstance(entry, AbortedTransaction):
        return (
            f"version: {entry.version} producerId: {entry.producer_id} "
            f"firstOffset: {entry.first_offset} lastOffset: {entry.last_offset} "
            f"lastStableOffset: {entry.last_stable_offset}"
        )
    return _producer_text(entry)


def _producer_text(state: ProducerState) -> str:
    first = state.current_txn_first_offset
    line = (
        f"producerId: {state.producer_id} producerEpoch: {state.producer_epoch} "
        f"coordinatorEpoch: {state.coordinator_epoch} "
        f"currentTxnFirstOffset: {_optional(None if first < 0 else first)} "
        f"lastTimestamp: {state.last_timestamp_ms} "
    )
    if state.last_offset < 0:
        return line
    first_sequence = state.last_sequence - state.offset_delta
    if first_sequence < 0:  # sequence numbers wrap at 2^31-1
        first_sequence += 1 << 31
    return (
        f"{line}firstSequence: {first_sequence} lastSequence: {state.last_sequence} "
        f"lastOffset: {state.last_offset} offsetDelta: {state.offset_delta} "
        f"timestamp: {state.last_timestamp_ms}"
    )


def report_lines(reports: Reports) -> Iterator[str]:
    """Yield the lines printed to standard error at the end of a run, in the tool's order."""
    for member, heading, line in _REPORTS:
        for path, found in reports.mismatches:
            if pairs := getattr(found, member):
                yield heading.format(name_text(path))
                yield from _pair_lines(line, pairs, is_newest_first=member == "index")
    for path, pairs in reports.gaps:
        yield f"Non-consecutive offsets in {name_text(path)}"
        yield from _pair_lines("  {} is followed by {}", pairs, is_newest_first=True)


#: Mismatches of a file, the line above them, and the line of each.
_REPORTS = (
    ("index", "Mismatches in :{}", "  Index offset: {}, log offset: {}"),
    ("timestamp", "Found timestamp mismatch in :{}", "  Index timestamp: {}, log timestamp: {}"),
    (
        "order",
        "Found out of order timestamp in :{}",
        "  Index timestamp: {}, Previously indexed timestamp: {}",
    ),
    (
        "not_found",
        "The following indexed offsets are not found in the log.",
        "Indexed offset: {}, found log offset: {}",
    ),
)


def _pair_lines(line: str, pairs: Pairs, *, is_newest_first: bool) -> Iterator[str]:
    for pair in reversed(pairs) if is_newest_first else pairs:
        yield line.format(*pair)
    yield from _left_out(pairs)


def _left_out(pairs: Pairs) -> Iterator[str]:
    """The one line that is not the tool's own; it would have run out of memory."""
    if pairs.left_out:
        yield f"  and {pairs.left_out:,} more, too many to hold; raise --decompress-limit"


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _optional(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"
