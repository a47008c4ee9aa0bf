"""The transaction index: `.txnindex`, 34 bytes for each aborted transaction (I21 to I24).

It lies with the segment that holds the ABORT marker; the transaction may have begun in an earlier
one. It is made at the first abort and never preallocated: absent and empty are the same.

    0000 0000000000000402 000000000000019f 00000000000001a6 000000000000019a
    version 0, producer 1026, first offset 415, last (the marker) 422, last stable offset 410
"""

from __future__ import annotations

from collections.abc import Iterator

from kdump.storage.index import EntryFile
from kdump.storage.layout import ABORTED_TRANSACTION
from kdump.storage.problems import Problem
from kdump.storage.source import Source
from kdump.tuples import NamedTuple

VERSION = 0


class AbortedTransaction(NamedTuple):
    """One entry; offsets are absolute. `last_offset` is that of the ABORT marker."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex(EntryFile):
    """The entries of one `.txnindex` file; total on any bytes.

    All go through them once, in order, so that a file of any size is left on disk.
    `one_byte`: for a broker that looks at the first byte of an entry's version only (I21).
    """

    def __init__(self, data: bytes | Source, base_offset: int, *, one_byte: bool = False) -> None:
        super().__init__(data, ABORTED_TRANSACTION, slotwise=True)
        self.base_offset = base_offset
        self._unread_bits = 8 if one_byte else 0

    def slots(self) -> Iterator[tuple[int, AbortedTransaction]]:
        """Yield every whole entry with its slot, also those brokers would stop at."""
        for slot, block in self.runs():
            for fields in ABORTED_TRANSACTION.iter_unpack(block):
                yield slot, AbortedTransaction(*fields)
                slot += 1

    def version_of(self, transaction: AbortedTransaction) -> int:
        """The version of an entry as the broker takes it."""
        return transaction.version >> self._unread_bits

    def readable(self) -> Iterator[AbortedTransaction]:
        """Yield what a broker reads: up to the first version above 0, where it throws (I22)."""
        for _, transaction in self.slots():
            if self.version_of(transaction) > VERSION:
                return
            yield transaction

    def find_refused_version(self) -> int | None:
        """The version at which a broker throws, None where it reads to the end."""
        for _, transaction in self.slots():
            if (version := self.version_of(transaction)) > VERSION:
                return version
        return None

    def problems(self) -> list[Problem]:
        """List what is wrong: versions, last offsets that do not rise from the base, a piece."""
        size = ABORTED_TRANSACTION.size
        version: Problem | None = None
        order: Problem | None = None
        least = self.base_offset
        for slot, transaction in self.slots():
            if transaction.version > VERSION:
                version = _note_problem(
                    version, "transaction-index-version", slot, VERSION, transaction.version
                )
            last = transaction.last_offset
            if last < least:
                order = _note_problem(order, "transaction-index-order", slot, least, last)
            else:
                least = last + 1
        found = [problem for problem in (version, order) if problem is not None]
        if self.trailing_bytes:
            whole = self.entries * size
            found.append(
                Problem(
                    "transaction-index-size", whole, self.trailing_bytes, whole, self.size_bytes
                )
            )
        return found

    def sanity(self) -> str | None:
        """Say why `sanityCheck` refuses the file, or None (I22); asked at load since 0.11."""
        for transaction in self.readable():
            if transaction.last_offset < self.base_offset:
                return (
                    f"last offset {transaction.last_offset} is below the base offset "
                    f"{self.base_offset}"
                )
        return None


def _note_problem(
    found: Problem | None, code: str, slot: int, expected: int, actual: int
) -> Problem:
    """Note a problem at a slot, or one more of the kind noted before."""
    if found is not None:
        return found._replace(places=found.places + 1)
    size = ABORTED_TRANSACTION.size
    return Problem(code, slot * size, size, expected, actual)
