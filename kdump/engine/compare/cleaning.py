"""Decide whether records that one replica lacks were removed by its cleaner, or lost.

Brokers compact at their own times. What a cleaner removes has a later record with the same key in
the log (F28), is a tombstone or marker past its time, or belongs to an aborted transaction. So a
missing record is explained where the replica was compacted at all at its offset, and its key comes
again. That is looked for in a second pass, which only partitions that need it pay for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kdump.engine.compare.cursor import Entry
from kdump.engine.compare.records import Record, UndecodedRest, records_of
from kdump.engine.compare.replica import Block, Replica
from kdump.kernels import columns as c
from kdump.tuples import NamedTuple

#: Keys of missing records that are looked for; of more than these nothing is said.
_KEYS_KEPT = 1 << 17
#: Places where records are missing that are kept apart.
_PLACES_KEPT = 10_000


class LostRange(NamedTuple):
    """Adjoining offsets of records that no cleaner can have removed."""

    first: int
    last: int
    records_count: int
    holder: Replica


class _MissingRange(NamedTuple):
    offset: int
    holder: int


class CleanerLosses:
    """What one replica lacks inside its log, and why that may be."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.count = 0
        self.places = 0
        self.first = self.last = -1
        self.unchecked = 0
        self.unexplained = 0
        self.holders: list[Replica] = []
        self._keys: dict[int, _MissingRange] = {}
        self._spans: list[LostRange] = []
        self._before = -2

    def may_lack(self, offset: int) -> bool:
        """Whether its broker may have compacted it there, as far as disk tells."""
        cleaned_to = self.replica.cleaned_to
        return cleaned_to is None or offset < cleaned_to

    def lacks(self, record: Record, holder: Replica) -> None:
        """Take up a record that only another replica has."""
        offset = record.offset
        if self.first < 0:
            self.first = offset
        if offset != self._before + 1:
            self.places += 1
        if self._spans and (offset == self._before + 1 or len(self._spans) >= _PLACES_KEPT):
            span = self._spans[-1]
            self._spans[-1] = span._replace(last=offset, records_count=span.records_count + 1)
        else:
            self._spans.append(LostRange(offset, offset, 1, holder))
        self.last = self._before = offset
        self.count += 1
        if holder not in self.holders:
            self.holders.append(holder)
        if record.may_go_for_good:
            return
        if len(self._keys) >= _KEYS_KEPT:
            self.unchecked += 1
            return
        self._keys[hash(record.key)] = _MissingRange(offset, holder.number)

    def resolve(self, replicas: Sequence[Replica]) -> bool:
        """Say whether all that is missing may have been compacted away; reads logs again.

        Where it may not, `unexplained` records are left whose keys do not come again. What lies in
        holes nobody can tell: a key may have come again there.
        """
        replica = self.replica
        cleaned = bool(replica.cleaned_to) or replica.compacted
        if not cleaned and (self.places < 2 or self._repeats_keys()):
            self.unexplained = self.count
            return False
        for each in (replica, *(other for other in replicas if other is not replica)):
            if not self._keys:
                break
            self._find(each)
        if self._keys and not cleaned:
            # Nothing but the keys spoke for a cleaner, and these do not.
            self.unexplained = self.count
            return False
        if any(each.holes for each in replicas):
            self._keys.clear()
        # A later record with the key may have come and gone where the holder has not read yet.
        ends = {each.number: each.end for each in replicas}
        far = max(ends[replica.number], replica.cleaned_to or 0)
        self._keys = {
            key: missing for key, missing in self._keys.items() if ends[missing.holder] >= far
        }
        self.unexplained = len(self._keys)
        return not self._keys

    def find_lost(self, replicas: Sequence[Replica]) -> list[LostRange]:
        """Give what is missing and not explained, once `resolve` said that there is any."""
        if self.unexplained == self.count:
            return self._spans
        by_number = {each.number: each for each in replicas}
        found: list[LostRange] = []
        for offset, holder in sorted(self._keys.values()):
            if found and found[-1].last == offset - 1:
                count = found[-1].records_count + 1
                found[-1] = found[-1]._replace(last=offset, records_count=count)
            else:
                found.append(LostRange(offset, offset, 1, by_number[holder]))
        return found

    def _find(self, replica: Replica) -> None:
        """Strike out keys that come again later in a log."""
        keys = self._keys
        least = min(missing.offset for missing in keys.values())
        for record in _records(replica, least + 1):
            key = record.key
            if key is None:
                continue
            number = hash(key)
            missing = keys.get(number)
            if missing is not None and missing.offset < record.offset:
                del keys[number]
                if not keys:
                    return

    def _repeats_keys(self) -> bool:
        """Whether a key comes twice where the log would have to be compacted, if it were."""
        seen: set[int] = set()
        for record in _records(self.replica, self.replica.start):
            if record.offset > self.last or len(seen) >= _KEYS_KEPT:
                return False
            if record.key is None or record.may_go_for_good:
                continue
            number = hash(record.key)
            if number in seen:
                return True
            seen.add(number)
        return False


def _records(replica: Replica, from_offset: int) -> Iterator[Record]:
    """Decode what a replica has from an offset on."""
    for item in replica.reread(from_offset):
        if not isinstance(item, Block):
            continue
        for row in range(item.batches.count):
            wrapper = item.batches.flags_of(row) & c.WRAPPER
            if item.batches.last_offset(row) < from_offset and not wrapper:
                continue
            for record in records_of(Entry(item.place, item.batches, row, 0), replica):
                if not isinstance(record, UndecodedRest) and record.offset >= from_offset:
                    yield record
