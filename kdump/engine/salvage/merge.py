"""Take each offset of a partition from one sound batch of its copies.

The copies are read side by side. Where their batches are the same, one that opens is taken; the
others stand by. Where they are not, the run of batches that overlap each other is opened record by
record: a copy that was compacted has fewer of the same records, and the batches with most of them
are taken. Other records at an offset of the same epoch are a conflict, which nothing here decides:
the preferred copy wins if there is one, and the conflict is named.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kdump.broker.leader_epochs import runs_of_epochs
from kdump.engine.salvage.contents import Contents, contents_from, contents_of
from kdump.engine.salvage.copies import Batch, Stretch, TornEntry
from kdump.engine.salvage.parallel_merge import merge_equal, one_by_one
from kdump.storage.names import OFFSET_MAX
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.salvage.copies import Copy
    from kdump.engine.salvage.history import History
    from kdump.engine.salvage.options import SalvageOptions
    from kdump.engine.salvage.split import RebuiltBatch

_CLUSTER_BATCHES = 4096  # that overlap each other and are opened at once
_COMPARED_BYTES = 64 << 20  # of batches that overlap; more are only chosen by their counts
_RANGES_KEPT = 100_000

Ranges = list[list[int]]


class MergedBatch(NamedTuple):
    """One batch of the result; `split` where it was written anew out of a torn one."""

    batch: Batch
    contents: Contents
    split: RebuiltBatch | None = None


class Conflict(NamedTuple):
    """Offsets that copies have other records at, in one epoch; the copy preferred, if any."""

    first: int
    last: int
    paths: tuple[str, ...]
    chosen: str | None


class Merge:
    """The merge of a partition's copies, and what it came to.

    `lost` are ranges of offsets that no copy has sound, both ends included. `open_end`: behind the
    last of them there was more, how much is not known.
    """

    def __init__(self, copies: Sequence[Copy], history: History, options: SalvageOptions) -> None:
        self.copies = copies
        self.lost: Ranges = []
        self.open_end = False
        self.conflicts: list[Conflict] = []
        starts = [copy.start for copy in copies if copy.start is not None]
        low, high = options.from_offset, options.to_offset
        self.start = max(min(starts, default=0), low or 0)
        self.next = self.start
        self._high = high
        self._low = low
        self._history = history
        self._prefer = options.prefer
        self._limit = options.decompress_limit
        self._splits = options.split_batches
        self._is_past = False  # a batch was opened that begins where the range ends
        self._torn_to = -1  # so far batches at the end of copies say that they go on
        self._left: Ranges = []
        self._source: Copy | None = None

    def batches(self) -> Iterator[MergedBatch]:
        """Yield the batches of the result in order; the rest is known when all were asked for."""
        cluster: list[Batch] = []
        end = -1
        for item in merge_equal([self._accept(copy) for copy in self.copies]):
            same = [] if isinstance(item, Batch) else item
            if same and (not cluster or same[0].first > end):
                yield from self._serve(cluster) if cluster else ()
                cluster = []
                if not self._is_ambiguous(same):
                    yield from self._serve_all(same)
                    continue
            for batch in (item,) if isinstance(item, Batch) else one_by_one(item):
                if cluster and (batch.first > end or len(cluster) >= _CLUSTER_BATCHES):
                    yield from self._serve(cluster)
                    cluster = []
                cluster.append(batch)
                end = max(end, batch.last) if len(cluster) > 1 else batch.last
        if cluster:
            yield from self._serve(cluster)
        yield from self._split(OFFSET_MAX if self._high is None else self._high - 1)
        self._end()

    def _is_ambiguous(self, same: Sequence[Stretch]) -> bool:
        """Whether damage in other copies may have to do with batches that some have the same."""
        first, last = same[0].first, same[0].last
        have = [one.copy for one in same]
        return self._splits or any(
            copy.holes or first <= (-1 if copy.tail_first is None else copy.tail_first) <= last
            for copy in self.copies
            if copy not in have
        )

    def _serve_all(self, same: list[Stretch]) -> Iterator[MergedBatch]:
        """Take batches that all copies have which have any, many at a time where they open."""
        is_first = True
        while same:
            start, count = self.next, 0
            one = min(same, key=lambda one: (one.copy is not self._source, one.rank))
            if not is_first and one.sound_from == start:
                for taken in contents_from(one, self._limit):
                    self.next, count = taken[0].last + 1, count + 1
                    self._source = one.copy
                    yield MergedBatch(*taken)
            if not count:
                count = 1
                yield from self._serve(list(one_by_one([each.cut(1) for each in same])))
            is_first = False
            same = [each.rest_after(count) for each in same] if count < one.batch_count else []

    def _accept(self, copy: Copy) -> Iterator[Batch | Stretch]:
        is_all = self._low is self._high is None
        for item in copy.items():
            if isinstance(item, Batch) or not is_all:
                batches = (item,) if isinstance(item, Batch) else item.batches()
                is_past = yield from self._accept_of(copy, batches)
                if is_past:
                    return
                continue
            rows = item.rows()
            for _, start, stop in runs_of_epochs(rows):
                part = (item.rest_after(start) if start else item).cut(stop - start)
                if self._history.accepts_all(part.rows()):
                    yield part
                else:
                    yield from self._accept_of(copy, part.batches())

    def _accept_of(self, copy: Copy, batches: Iterable[Batch]) -> Generator[Batch, None, bool]:
        """Yield batches of the epochs that their offsets belong to; give whether the end came."""
        for batch in batches:
            if self._history.accepts(batch):
                # Of a wrapper only its contents prove where it begins and ends.
                if self._low is not None and batch.last < self._low and not batch.is_wrapper:
                    continue
                is_known = self._is_past or not batch.is_wrapper
                if self._high is not None and batch.first >= self._high and is_known:
                    return True
                yield batch
            else:
                add_range(copy.diverged, batch.first, batch.last)
        return False

    def _serve(self, cluster: list[Batch]) -> Iterator[MergedBatch]:
        """Take what is best of some batches that overlap each other, and nothing else."""
        ends = [self.next]
        whole = [batch for batch in cluster if batch.mended is None]
        # What a copy has as it was written counts before what had to be inferred.
        cluster = whole + [
            batch
            for batch in cluster
            if batch.mended is not None
            and not any(
                # Where a wrapper begins is known only once it is opened.
                (one.last if one.is_wrapper else one.first) <= batch.last
                and batch.first <= one.last
                for one in whole
            )
        ]
        cluster.sort(key=lambda batch: (batch.copy is not self._source, batch.rank))
        groups: dict[tuple[int, ...], list[Batch]] = {}
        for batch in cluster:
            groups.setdefault(batch.identity, []).append(batch)
        kept = len(groups) > 1 and sum(batch.size_bytes for batch in cluster) <= _COMPARED_BYTES
        opened = [self._sound(group, kept=kept) for group in groups.values()]
        for group, taken in zip(groups.values(), opened, strict=True):
            if taken is None and self._splits:
                self._tear(group)
        sound = [taken for taken in opened if taken is not None and self._is_within(taken)]
        written = [taken.contents for taken in sound if taken.batch.mended is None]
        sound = [
            taken
            for taken in sound
            if taken.batch.mended is None
            or not any(
                one.first <= taken.contents.last and taken.contents.first <= one.last
                for one in written
            )
        ]
        chosen = self._choose(sound) if len(sound) > 1 else sound
        for taken in chosen:
            contents = taken.contents
            if self._source is not None and contents.first < self.next:
                # Only where very many overlap each other.
                self._leave(offset for offset in contents.records or () if offset >= self.next)
                continue
            if contents.first > self.next:
                yield from self._split(contents.first - 1)
            if contents.first > self.next:
                self._lose(self.next, contents.first - 1)
            self.next = contents.last + 1
            ends.append(self.next)
            self._source = taken.batch.copy
            yield taken
        for one in sound:
            first = one.contents.first
            same = groups[one.batch.identity]
            taken_to = ends[max(0, bisect_right(ends, first) - 1)]
            starts = [batch.sound_from for batch in same if _is_whole(batch, first, taken_to)]
            have = {batch.copy for batch in same}
            said = one.batch.last if one.batch.is_wrapper else first
            starts += [copy.holes.pop(said, -1) for copy in self.copies if copy not in have]
            for start in starts:
                if 0 <= start < first:
                    self._find(start, first - 1)
            for copy in self.copies:
                if copy.tail_first == first:
                    copy.tail = one.contents.last

    def _is_within(self, taken: MergedBatch) -> bool:
        """Whether a batch has records that are asked for."""
        contents = taken.contents
        if self._high is not None and contents.first >= self._high:
            self._is_past = True
            return False
        return self._low is None or contents.last >= self._low

    def _split(self, last: int) -> Iterator[MergedBatch]:
        """Take what can be had of torn batches from the next offset on, if that was asked for."""
        if not self._splits:
            return
        from kdump.engine.salvage.split import split

        for one in split(self.copies, self._history, self.next, last, self._limit):
            if one.batch.first > self.next:
                self._lose(self.next, one.batch.first - 1)
            self.next = one.batch.last + 1
            if one.torn.before is None:
                self._torn_to = max(self._torn_to, one.highest)
            yield MergedBatch(one.batch, one.contents, one)
        for copy in self.copies:
            copy.torn = [one for one in copy.torn if one.before is None or one.before > last]

    def _sound(self, group: list[Batch], *, kept: bool) -> MergedBatch | None:
        """Open copies of one batch until one is sound."""
        for batch in group:
            contents = contents_of(batch, self._limit, kept=kept)
            if contents is not None:
                return MergedBatch(batch, contents)
        return None

    def _tear(self, group: list[Batch]) -> None:
        """Have the sound messages taken of a wrapper whose own checksum is right."""
        for batch in group:
            if batch.is_wrapper:
                place = batch.path, batch.position, batch.size_bytes
                batch.copy.torn.append(
                    TornEntry(batch.copy, *place, batch.first - 1, None, before=batch.last)
                )

    def _choose(self, sound: list[MergedBatch]) -> list[MergedBatch]:
        """Choose among batches that differ: without conflict, and with most records."""
        kept: list[MergedBatch] = []
        held: dict[int, tuple[int, Batch]] = {}
        for taken in sorted(sound, key=lambda each: each.batch.rank):
            records = taken.contents.records or {}
            contested = [
                offset
                for offset, record in records.items()
                if offset in held and held[offset][0] != record
            ]
            if contested:
                others = {held[offset][1].copy.path for offset in contested}
                self._conflict(min(contested), max(contested), others, taken.batch.copy.path)
                continue
            for offset, record in records.items():
                held.setdefault(offset, (record, taken.batch))
            kept.append(taken)
        chosen = _heaviest(kept)
        served = {offset for one in chosen for offset in one.contents.records or ()}
        self._leave(offset for offset in sorted(held) if offset not in served)
        return chosen

    def _conflict(self, first: int, last: int, others: set[str], path: str) -> None:
        paths = tuple(sorted(others | {path}))
        chosen = None if self._prefer is None else min(others)
        old = self.conflicts[-1] if self.conflicts else None
        if old is not None and old[2:] == (paths, chosen) and first <= old.last + 1:
            self.conflicts[-1] = old._replace(first=min(old.first, first), last=max(old.last, last))
        elif old is None or len(self.conflicts) < _RANGES_KEPT:
            self.conflicts.append(Conflict(first, last, paths, chosen))

    def _lose(self, first: int, last: int) -> None:
        """Take note that no copy has some offsets."""
        if self._high is not None:
            last = min(last, self._high - 1)
        if first <= last:
            add_range(self.lost, first, last)

    def _find(self, first: int, last: int) -> None:
        """Take note that a copy lawfully has nothing at some offsets: nothing is lost there."""
        later: Ranges = []
        while self.lost and self.lost[-1][1] >= first:
            low, high = self.lost.pop()
            rest = [[low, min(high, first - 1)], [max(low, last + 1), high]]
            later = [each for each in rest if each[0] <= each[1]] + later
        self.lost += later

    def _leave(self, offsets: Iterable[int]) -> None:
        """Take note of records that only a batch written anew could have as well."""
        for offset in offsets:
            add_range(self._left, offset, offset)

    def _end(self) -> None:
        """See what is missing behind the last batch, and which holes are no losses."""
        followers = [copy for copy in self.copies if not copy.diverged]
        claims = [copy.high_watermark() for copy in self.copies]
        claims += [copy.find_claimed_end() for copy in followers[:1] if copy.rank == 0]
        claimed = max(claims, default=0)
        if self._high is None or self.next < self._high:
            if claimed > self.next:
                self._lose(self.next, claimed - 1)
            end = max(self.next, claimed)
            tails = [copy.tail for copy in followers if copy.tail is not None]
            tails.append(self._torn_to)
            self.open_end = any(tail >= end for tail in tails) and self._high is None
            if self.open_end and end == self.next:
                add_range(self.lost, self.next, self.next)
        if self._left:
            every = sorted(self.lost + self._left)
            self.lost = []
            for first, last in every:
                add_range(self.lost, first, last)


def _is_whole(batch: Batch, first: int, taken_to: int) -> bool:
    """Whether a copy has nothing before a batch because nothing was there.

    A segment that was cut between two entries looks like that too: where others have entries of it,
    only a copy that was cleaned may lack them.
    """
    cleaned_to = batch.copy.replica.cleaned_to or 0
    return batch.position > 0 or batch.sound_from >= taken_to or first <= cleaned_to


def _heaviest(taken: list[MergedBatch]) -> list[MergedBatch]:
    """Choose batches that do not overlap and have the most records in all, of as many the first."""
    taken = sorted(taken, key=lambda one: one.contents.last)
    lasts = [one.contents.last for one in taken]
    # Records, and minus the ranks, by how many are looked at.
    best: list[tuple[int, int]] = [(0, 0)]
    way: list[int | None] = []
    for number, one in enumerate(taken):
        before = bisect_right(lasts, one.contents.first - 1, 0, number)
        count, ranks = best[before]
        mine = count + max(one.contents.records_count, 0), ranks - one.batch.rank - 1
        if mine > best[number]:
            best.append(mine)
            way.append(before)
        else:
            best.append(best[number])
            way.append(None)
    chosen = []
    number = len(taken)
    while number:
        taken_after = way[number - 1]
        if taken_after is not None:
            chosen.append(taken[number - 1])
        number = number - 1 if taken_after is None else taken_after
    return chosen[::-1]


def add_range(ranges: Ranges, first: int, last: int) -> None:
    """Add a range to others; one that goes on where the last ends joins it."""
    goes_on = bool(ranges) and ranges[-1][0] <= first <= ranges[-1][1] + 1
    if goes_on or len(ranges) >= _RANGES_KEPT:
        ranges[-1][1] = max(ranges[-1][1], last)
    else:
        ranges.append([first, last])
