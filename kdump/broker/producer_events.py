"""The events that a replay of producer state (`broker/producer_state.py`) yields."""

from __future__ import annotations

from kdump.storage.producer_snapshot import ProducerState
from kdump.storage.transaction_index import VERSION, AbortedTransaction
from kdump.tuples import NamedTuple


class TransactionStart(NamedTuple):
    """A producer's first transactional batch since its last marker."""

    row: int
    producer_id: int
    first_offset: int


class TransactionEnd(NamedTuple):
    """A transaction marker. `first_offset` is -1 where no transaction was known to be open.

    `records_count` and `last_data_offset` are of the transaction's batches; `joined_from` and
    `joined_from_then` say from which offset on there was no hole, now and when it began.
    `last_stable_offset` is what the entry of the transaction index holds (I23), `others` the first
    offsets of the open transactions it follows from, rising. `previous_marker` is the offset of
    the producer's marker before, -1 for none.
    """

    position: int
    producer_id: int
    producer_epoch: int
    offset: int
    committed: bool
    first_offset: int
    last_stable_offset: int
    others: tuple[int, ...]
    records_count: int
    last_data_offset: int
    joined_from: int
    joined_from_then: int
    previous_marker: int

    def aborted_entry(self) -> AbortedTransaction | None:
        """The entry a broker adds to the transaction index of the marker's segment, if it does."""
        if self.committed or self.first_offset < 0:
            return None
        return AbortedTransaction(
            VERSION, self.producer_id, self.first_offset, self.offset, self.last_stable_offset
        )


class SequenceBreak(NamedTuple):
    """A batch whose sequence number does not follow its producer's last one.

    `previous` is the state before; `joined`: no offset is missing between the two batches;
    `known_first`: it begins at 0 and has the checksum of the first batch of this epoch.
    `is_first`: no batch of this epoch was seen, and none is missing: the producer is not in a log
    that is whole from offset 0, or its other epoch joins (`joined` is set).
    """

    row: int
    producer_id: int
    producer_epoch: int
    expected: int
    base_sequence: int
    previous: ProducerState
    joined: bool
    known_first: bool = False
    is_first: bool = False


class MixedBatch(NamedTuple):
    """A non-transactional batch inside its producer's transaction: a broker raises (R7)."""

    row: int
    producer_id: int
    first_offset: int
    joined: bool


class Unreadable(NamedTuple):
    """A control batch of a producer that no broker gets past when it replays the log.

    `problem` as in `Control`, or "type" for one that ends no transaction. For the latter brokers
    raise IllegalArgumentException, which stops the load; for the others InvalidRecordException,
    which ends the recovery of the segment here.
    """

    row: int
    producer_id: int
    problem: str
    kind: int | None


Event = TransactionStart | TransactionEnd | SequenceBreak | MixedBatch | Unreadable
