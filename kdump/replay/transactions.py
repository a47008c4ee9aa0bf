"""Replay `__transaction_state` as a transaction coordinator loads it (T1, T2).

Of each transactional id the last record counts, and one without a value ends it. Values are read
at the end, of what is left.

    log = TransactionsLog()
    for chunk in chunks:             # of records, in the order of the log
        log.take(chunk)
    log.transactions(wanted)         # of the ids that are wanted, by id
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kdump.kernels import columns as c
from kdump.messages.records import decode
from kdump.messages.table import Fields
from kdump.replay import record_bytes
from kdump.replay.offset_holes import OffsetHoles
from kdump.replay.record_bytes import Stored
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.findings.rows import RecordChunk

TOPIC = "__transaction_state"

Partition = tuple[str, int]

_ONGOING = "Ongoing"
#: States by their number in records; the names are those of the admin client.
STATES = (
    "Empty",
    _ONGOING,
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
#: States in which markers are still to be written to the partitions of the record (T3).
UNDECIDED = frozenset((_ONGOING, "PrepareEpochFence"))
UNFINISHED = UNDECIDED | {"PrepareCommit", "PrepareAbort"}

_KEY_BEGINS, _BEHIND_KEYS = b"\0\0", b"\0\1"  # the type of the only record, and what follows
_SIZE_BYTES = 2
_LONGEST = (1 << 15) - 1  # no record has a longer one


class Transaction(NamedTuple):
    """What the last record of a transactional id says.

    Numbers that the record has as -1 are None. `problem` says why the value cannot be read; then
    `state` is None, and so is all but the id.
    """

    transactional_id: str
    written_ms: int
    source_offset: int
    state: str | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    previous_producer_id: int | None = None
    next_producer_id: int | None = None
    timeout_ms: int | None = None
    start_ms: int | None = None
    last_update_ms: int | None = None
    partitions: tuple[Partition, ...] = ()
    client_version: int | None = None
    problem: str | None = None

    @property
    def is_unfinished(self) -> bool:
        """Whether markers are still to be written."""
        return self.state in UNFINISHED

    def awaits(self, producer_id: int, partition: Partition) -> bool:
        """Whether the coordinator is still to write this producer's marker to a partition (T3)."""
        known = producer_id == self.producer_id and partition in self.partitions
        return known and self.is_unfinished


class TransactionsLog(OffsetHoles):
    """What one partition of the topic comes to, up to where it was replayed.

    `until_ms`: records above that time are passed over, and so are those of all ids but `only`.
    `newest_ms` is the time of the newest record that was taken up, `unknown` counts those that are
    of no known type.
    """

    def __init__(self, until_ms: int | None = None, only: str | None = None) -> None:
        super().__init__()
        self.newest_ms = -1
        self.unknown = 0
        self._stored: dict[bytes, Stored] = {}
        self._until_ms = until_ms
        self._only = None if only is None else key_of(only)

    def take(self, chunk: RecordChunk) -> None:
        """Take up records."""
        if not self.check_offsets(chunk):
            return
        keys = record_bytes.keys(chunk)
        if self._is_plain(chunk, keys):
            records, count = chunk.records, len(keys)
            self.end_offset = max(self.end_offset, records.offset(count - 1) + 1)
            self.newest_ms = max(self.newest_ms, max(records.timestamps))
            self._stored.update(zip(keys, record_bytes.read_stored(chunk, 0, count), strict=True))
            return
        for row, key in enumerate(keys):
            self._record(chunk, row, key)

    def _is_plain(self, chunk: RecordChunk, keys: list[bytes]) -> bool:
        """Whether all records count, and none ends an id: then nothing is looked at in any."""
        records, until_ms = chunk.records, self._until_ms
        return (
            not chunk.batches.flags & c.CONTROL
            and self._only is None
            and min(records.value_sizes) >= 0
            and min(keys) >= _KEY_BEGINS
            and max(keys) < _BEHIND_KEYS
            and (until_ms is None or max(records.timestamps) <= until_ms)
        )

    def _record(self, chunk: RecordChunk, row: int, key: bytes) -> None:
        records, batches = chunk.records, chunk.batches
        time_ms = records.timestamp(row)
        if self._until_ms is not None and time_ms > self._until_ms:
            return
        if batches.flags_of(records.batch(row)) & c.CONTROL:
            return
        offset = records.offset(row)
        self.end_offset = max(self.end_offset, offset + 1)
        self.newest_ms = max(self.newest_ms, time_ms)
        if not key.startswith(_KEY_BEGINS):
            self.unknown += 1
        elif self._only is None or key == self._only:
            value = records.payload(chunk.data, row)
            if value is None:
                self._stored.pop(key, None)
            else:
                self._stored[key] = offset, time_ms, value

    def transactions(self, wanted: Callable[[str], bool]) -> list[Transaction]:
        """Read what is left of the ids that are wanted, by id; what has no id is counted."""
        found = []
        for key, (offset, time_ms, value) in self._stored.items():
            read_key, read_value = decode(TOPIC, key, value)
            if read_key is None or read_key.data is None or read_value is None:
                self.unknown += 1
                continue
            name = read_key.data["transactionalId"]
            if not wanted(name):
                continue
            transaction = Transaction(name, time_ms, offset)
            if read_value.data is None:
                version = "" if read_value.version is None else f", version {read_value.version}"
                found.append(transaction._replace(problem=f"{read_value.problem}{version}"))
            else:
                found.append(_read(transaction, read_value.data))
        return sorted(found, key=lambda one: one.transactional_id)


def _read(transaction: Transaction, value: Fields) -> Transaction:
    number = value["transactionStatus"]
    return transaction._replace(
        state=STATES[number] if 0 <= number < len(STATES) else f"Unknown({number})",
        producer_id=value["producerId"],
        producer_epoch=value["producerEpoch"],
        previous_producer_id=_or_none(value.get("previousProducerId", -1)),
        next_producer_id=_or_none(value.get("nextProducerId", -1)),
        timeout_ms=value["transactionTimeoutMs"],
        start_ms=_or_none(value["transactionStartTimestampMs"]),
        last_update_ms=_or_none(value["transactionLastUpdateTimestampMs"]),
        partitions=tuple(
            (topic["topic"], partition)
            for topic in value["transactionPartitions"] or ()
            for partition in topic["partitionIds"]
        ),
        client_version=value.get("clientTransactionVersion"),
    )


def _or_none(number: int) -> int | None:
    return None if number < 0 else number


def key_of(transactional_id: str) -> bytes:
    """Return the key that the records of an id have."""
    name = transactional_id.encode("utf-8", "surrogateescape")
    return _KEY_BEGINS + min(len(name), _LONGEST).to_bytes(_SIZE_BYTES, "big") + name
