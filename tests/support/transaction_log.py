"""Partitions of `__transaction_state`, written record by record."""

from collections.abc import Iterable
from typing import Any

from message_writing import message_bytes
from offsets_log import START_MS, Pair

from kdump.messages.table import message

STATES = (
    "Empty Ongoing PrepareCommit PrepareAbort CompleteCommit CompleteAbort Dead PrepareEpochFence"
).split()


def transaction(
    name: str,
    state: str | int | None,
    places: Iterable[str] = (),
    *,
    version: int = 1,
    **more: Any,
) -> Pair:
    """Write the record of a transactional id; state None: its tombstone; `places`: partitions."""
    key = b"\0\0" + message_bytes(message("TransactionLogKey"), 0, {"transactionalId": name})
    if state is None:
        return key, None
    topics: dict[str, list[int]] = {}
    for place in places:
        topic, _, partition = place.rpartition("-")
        topics.setdefault(topic, []).append(int(partition))
    value = {
        "producerId": 7,
        "producerEpoch": 0,
        "transactionTimeoutMs": 60_000,
        "transactionStatus": state if isinstance(state, int) else STATES.index(state),
        "transactionPartitions": [
            {"topic": topic, "partitionIds": numbers} for topic, numbers in topics.items()
        ],
        "transactionLastUpdateTimestampMs": START_MS,
        "transactionStartTimestampMs": START_MS,
        **more,
    }
    written = message_bytes(message("TransactionLogValue"), version, value)
    return key, version.to_bytes(2, "big") + written
