"""Join extents of images that are of one log.

What joins them is named, and each says so by itself: bytes of one batch in both; the same batches;
a place right behind, in one block of a file system or where a torn batch ends; a page of an offset
index; sequence numbers of producers that go on where offsets do; or, where batches have no
producer, offsets of whole segments that meet in no other pair. Where two would do as well as each
other neither is joined: what is not known is left apart.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from kdump.engine.salvage.carved_indexes import logs_of_pages
from kdump.engine.salvage.carved_pieces import Pieces, Start
from kdump.engine.salvage.carving import SECTOR, SMALLEST_BLOCK, Extent, ImageContents, Piece
from kdump.engine.salvage.merge import Ranges, add_range
from kdump.kernels import columns as c
from kdump.kernels.columns import BatchHeader
from kdump.kernels.members import sequence_at
from kdump.storage.source import Source

At = tuple[str, Piece]  # a stretch of an image

_WRAPPED = 1 << 20  # a wrapper that claims more messages is not believed
_SAMPLES = 1 << 18

BYTES, SAME, NEIGHBOURS, INDEX, SEQUENCES, OFFSETS = (
    "bytes-of-a-batch same-batches neighbours index sequences offsets".split()
)


class Group:
    """Extents of one log, what joins them, and the pages of indexes among this.

    `bases` are base offsets of its segments that pages of indexes tell.
    """

    def __init__(
        self, extents: list[Extent], joined_by: set[str], pages: list[At], bases: set[int]
    ) -> None:
        self.bases = frozenset(bases)
        self.extents = sorted(extents, key=lambda one: (one.first, one.last, one.position))
        self.joined_by = sorted(joined_by)
        self.pages = sorted(pages)

    @property
    def place(self) -> tuple[str, int]:
        """Where it begins, of all images."""
        return min((one.path, one.position) for one in self.extents)

    @property
    def end(self) -> int:
        """The offset behind its last batch."""
        return max(one.last for one in self.extents) + 1

    @property
    def is_doubtful(self) -> bool:
        """Whether these may be at offsets that are not theirs."""
        return self.extents[0].is_doubtful

    def layers(self) -> list[list[Extent]]:
        """Lay the extents out as copies of the log, each of one image, in which offsets rise."""
        found: list[list[Extent]] = []
        for extent in self.extents:
            for layer in found:
                if layer[-1].last < extent.first and layer[-1].path == extent.path:
                    layer.append(extent)
                    break
            else:
                found.append([extent])
        return found


class Joins:
    """The extents of all images, and which of them are of one log."""

    def __init__(self, images: Sequence[ImageContents]) -> None:
        extents = [extent for image in images for extent in image.extents]
        starts = _group_by_first(extents)
        pieced: list[tuple[Extent, list[Extent]]] = []
        for image in images:
            pieced += _piece_together(image, starts)
        added = [found for found, _ in pieced]
        whole = {(one.path, one.position) for one in added}
        #: By their image, headers whose batch was not found.
        self.torn = {
            image.path: [each for each in image.torn if (image.path, each.position) not in whole]
            for image in images
        }
        self.extents = [*_without_inner(extents, added), *added]
        _doubt(self.extents, [header for torn in self.torn.values() for header in torn])
        self.in_two_pieces = sum(len(found.pieces) == 2 for found in added)
        self.in_more_pieces = len(added) - self.in_two_pieces
        self._parents = list(range(len(self.extents)))
        self._why: list[tuple[int, str]] = []
        self._numbers = {id(extent): number for number, extent in enumerate(self.extents)}
        self._starts = _group_by_first([one for one in self.extents if not one.is_doubtful])
        for found, beside in pieced:
            for extent in beside:
                if id(extent) in self._numbers:
                    self._join(self._numbers[id(extent)], self._numbers[id(found)], BYTES)
        begin = {(one.path, one.position): self._numbers[id(one)] for one in added}
        for found in added:  # another of them right behind
            other = begin.get((found.path, found.end))
            if other is not None and self.extents[other].first == found.last + 1:
                self._join(self._numbers[id(found)], other, BYTES)
        self.known = self._same_batches()
        self._neighbours({(one.path, one.end) for one in added})
        self._pages: list[tuple[int, At]] = []
        self._bases: list[tuple[int, int]] = []
        for image in images:
            self._in_one_log(image)
        self._go_on()

    def groups(self) -> list[Group]:
        """Return what belongs together, by where it begins."""
        members: dict[int, list[Extent]] = defaultdict(list)
        why: dict[int, set[str]] = defaultdict(set)
        for number, extent in enumerate(self.extents):
            members[self._root(number)].append(extent)
        for number, reason in self._why:
            why[self._root(number)].add(reason)
        pages: dict[int, list[At]] = defaultdict(list)
        for number, page in self._pages:
            pages[self._root(number)].append(page)
        bases: dict[int, set[int]] = defaultdict(set)
        for number, base in self._bases:
            bases[self._root(number)].add(base)
        groups = [
            Group(extents, why[root], pages[root], bases[root]) for root, extents in members.items()
        ]
        return sorted(groups, key=lambda group: group.place)

    def _root(self, number: int) -> int:
        parents = self._parents
        while parents[number] != number:
            parents[number] = number = parents[parents[number]]
        return number

    def _join(self, one: int, other: int, why: str) -> None:
        first, second = sorted((self._root(one), self._root(other)))
        if first != second:
            self._parents[second] = first
            self._why.append((first, why))

    def _same_batches(self) -> dict[int, int]:
        """Join extents that have the same batch: another copy of the log, or a part of one.

        Returns extents by what tells batches of theirs from others.
        """
        found: dict[int, int] = {}
        kept = 1  # one in so many
        for number, extent in enumerate(self.extents):
            for sample in () if extent.is_doubtful else extent.sample:
                if sample % kept:
                    continue
                other = found.setdefault(sample, number)
                if other != number:
                    self._join(other, number, SAME)
            while len(found) > _SAMPLES:
                kept *= 2
                found = {sample: at for sample, at in found.items() if not sample % kept}
        return found

    def _neighbours(self, pieces: set[tuple[str, int]]) -> None:
        """Join extents between which there is only damage, and no last piece of a batch."""
        order = [
            number
            for number, one in enumerate(self.extents)
            if len(one.pieces) == 1 and not one.is_doubtful
        ]
        order.sort(key=lambda number: (self.extents[number].path, self.extents[number].position))
        for number, other in pairwise(order):
            extent, behind = self.extents[number], self.extents[other]
            if (behind.path, behind.position) in pieces:
                continue
            if _are_neighbours(extent, behind, alone=len(self._starts[behind.first]) == 1):
                self._join(number, other, NEIGHBOURS)

    def _in_one_log(self, image: ImageContents) -> None:
        """Join extents that lie in the log of one index; none of those of which pages disagree."""
        if not image.index_pages:
            return
        members: dict[int, list[Extent]] = defaultdict(list)
        whole = {}
        for number, one in enumerate(self.extents):
            members[self._root(number)].append(one)
            if one.path == image.path and len(one.pieces) == 1 and not one.is_doubtful:
                whole[number] = one
        logs: dict[int, set[int]] = {}  # roots, by each of them
        pages: dict[int, set[At]] = defaultdict(set)
        with Source(image.path) as source:
            for page, numbers, base in logs_of_pages(source, image.index_pages, whole):
                if base is not None:
                    self._bases.append((numbers[0], base))
                if len(numbers) < 2:
                    continue
                log = {self._root(number) for number in numbers}
                pages[min(log)].add((image.path, page))
                log.update(*(logs[root] for root in log if root in logs))
                logs.update(dict.fromkeys(log, log))
        for log in {id(log): log for log in logs.values()}.values():
            if len(log) > 1 and _is_one_log([members[root] for root in log]):
                self._pages += [(root, page) for root in log for page in pages.get(root, ())]
                for root, other in pairwise(log):
                    self._join(root, other, INDEX)

    def _go_on(self) -> None:
        """Join extents that go on where others end, where only one of each does."""
        onward: dict[int, list[tuple[int, int]]] = defaultdict(list)
        back: dict[int, list[tuple[int, int]]] = defaultdict(list)
        known = {(root, after) for root, to, after, *_ in self._meetings() if root == to}
        for root, to, after, number, other in self._meetings():
            if (root, after) in known or (to, after) in known:
                continue  # what lies on the other side is joined to it
            if strength := _strength(self.extents[number], self.extents[other]):
                onward[root].append((strength, other))
                back[to].append((strength, number))
        found: list[tuple[int, int, int]] = []
        for one, links in onward.items():
            strength, target = self._best(links)
            if target is not None and self._best(back[target])[1] == one:
                found.append((one, target, strength))
        for first, second, strength in found:
            self._join(first, second, SEQUENCES if strength > 1 else OFFSETS)

    def _meetings(self) -> Iterator[tuple[int, int, int, int, int]]:
        """Yield the roots of extents that may meet at an offset, this, and their own numbers."""
        for number, extent in enumerate(self.extents):
            for after in () if extent.is_doubtful else {extent.last + 1, _find_torn_end(extent)}:
                for behind in self._starts.get(after, ()):
                    other = self._numbers[id(behind)]
                    yield self._root(number), self._root(other), after, number, other

    def _best(self, links: list[tuple[int, int]]) -> tuple[int, int | None]:
        """Return where the strongest links lead, None where that is not one log alone."""
        top = max(strength for strength, _ in links)
        roots = {self._root(number) for strength, number in links if strength == top}
        return top, roots.pop() if len(roots) == 1 else None


def _is_one_log(parts: list[list[Extent]]) -> bool:
    """Whether extents may be of one log: in no two parts are the same offsets."""
    ordered = sorted(
        (one.first, number, id(one), one) for number, extents in enumerate(parts) for one in extents
    )
    _, of, _, last = ordered[0]
    for first, number, _, one in ordered[1:]:
        if number != of and (first <= last.last or not last.may_precede(one)):
            return False
        if one.last >= last.last:
            last, of = one, number
    return True


def _group_by_first(extents: list[Extent]) -> dict[int, list[Extent]]:
    found: dict[int, list[Extent]] = defaultdict(list)
    for extent in extents:
        found[extent.first].append(extent)
    return found


def _piece_together(
    image: ImageContents, starts: dict[int, list[Extent]]
) -> Iterator[tuple[Extent, list[Extent]]]:
    """Put batches in pieces together, each right before what goes on where it ends, torn or not.

    Yields each with the extents that it lies between.
    """
    owners = {id(extent.torn): extent for extent in image.extents if extent.torn is not None}
    plain = [torn for torn in image.torn if not torn.flags & c.WRAPPER]
    torn_starts: dict[int, list[BatchHeader]] = defaultdict(list)
    for torn in plain:
        torn_starts[torn.base_offset].append(torn)
    by_place: dict[int, list[Start]] = defaultdict(list)
    for first, at in sorted(
        [(one.first, one.position) for one in image.extents]
        + [(torn.base_offset, torn.position) for torn in plain]
    ):
        by_place[at % SECTOR].append((first, at))
    begin = {one.position: one for one in image.extents}
    ends = {one.end: one for one in image.extents}
    with Source(image.path) as source:
        pieces = Pieces(source, _sound(image.extents))
        for torn in image.torn:
            after = torn.last_offset + 1
            places = [one.position for one in starts.get(after, ()) if one.path == image.path]
            places += [header.position for header in torn_starts.get(after, ())]
            for end in dict.fromkeys(places):
                found = pieces.assemble(torn, end)
                if found is not None:
                    begin[found.position] = ends[end] = found
                    yield found, _neighbors(owners.get(id(torn)), begin.get(end))
                    break
        for at, before in list(ends.items()):
            if at in begin or before.is_doubtful or (before.is_plain and before.position % SECTOR):
                continue  # perhaps a message in a wrapper
            found = pieces.with_cut_header(before, by_place)
            if found is not None:
                yield found, _neighbors(before, begin.get(found.end))


def _neighbors(*extents: Extent | None) -> list[Extent]:
    return [one for one in extents if one is not None]


def _sound(extents: list[Extent]) -> Iterator[Piece]:
    """Yield where batches lie whole, but for what may be messages inside one in pieces."""
    for extent in extents:
        if not (extent.is_plain and extent.position % SECTOR):
            yield extent.pieces[0]


def _without_inner(extents: list[Extent], pieced: list[Extent]) -> Iterator[Extent]:
    """Leave out messages of wrappers in pieces, left as they were by the compression."""
    places: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for extent in pieced:
        places[extent.path] += [(piece.position, piece.end - 1) for piece in extent.pieces]
    used = {path: _merge(ranges) for path, ranges in places.items()}
    return (one for one in extents if not _holds(used.get(one.path, []), one.position))


def _doubt(extents: list[Extent], torn: list[BatchHeader]) -> None:
    """Take note of messages that may lie in a wrapper which is not whole, where there are any.

    A file begins where a sector does; messages that begin elsewhere have bytes before them that are
    no message, unless these are a torn one's that ends there.
    """
    if not any(one.has_wrappers for one in extents) and not any(
        header.flags & c.WRAPPER for header in torn
    ):
        return
    torn_ends = {
        (one.path, one.torn.position + one.torn.size_bytes, _find_torn_end(one))
        for one in extents
        if one.torn is not None
    }
    for one in extents:
        follows = (one.path, one.position, one.first) in torn_ends
        if one.is_plain and one.position % SECTOR and not follows:
            one.is_doubtful = True


def _merge(ranges: list[tuple[int, int]]) -> Ranges:
    found: Ranges = []
    for first, last in sorted(ranges):
        add_range(found, first, last)
    return found


def _holds(ranges: Ranges, number: int) -> bool:
    at = bisect_right(ranges, number, key=lambda each: each[0])
    return at > 0 and number <= ranges[at - 1][1]


def _find_torn_end(extent: Extent) -> int:
    """Where an extent ends with the torn batch behind it, if it has one that goes on."""
    end, torn = extent.last + 1, extent.torn
    if torn is None:
        return end
    if torn.flags & c.WRAPPER:
        goes_on = end <= torn.last_offset < end + _WRAPPED
    else:
        goes_on = torn.base_offset == end
    return torn.last_offset + 1 if goes_on else end


def _strength(extent: Extent, behind: Extent) -> int:
    """How well an extent goes on where another ends, by what else than offsets says so; 0: not."""
    if not extent.may_precede(behind):
        return 0
    tails = dict(extent.tails)
    torn = extent.torn
    if torn is not None and torn.base_sequence >= 0 and behind.first == torn.last_offset + 1:
        more = torn.last_offset - torn.base_offset
        tails[torn.producer_id] = torn.producer_epoch, sequence_at(torn.base_sequence, more)
    shared = tails.keys() & behind.heads.keys()
    for producer in shared:
        (epoch, last), (then, first) = tails[producer], behind.heads[producer]
        goes_on = first == sequence_at(last, 1) if then == epoch else then > epoch and not first
        if not goes_on:
            return 0
    if shared:
        return 2
    # Without producers only a whole segment with the next: pieces of files are too many.
    is_next = torn is None and not behind.position % SECTOR and behind.layout == extent.layout
    return int(is_next and not (tails or behind.heads))


def _are_neighbours(extent: Extent, behind: Extent, *, alone: bool) -> bool:
    """Whether only damage lies between two: the torn batch, or bytes of the same block.

    A file begins where a block does, so what does not begin there has more of its file before it.
    Where a block begins inside the torn batch its rest may be another log's, if batches are all of
    one size and files grew side by side; so the extent behind has to be `alone` at its offset.
    """
    torn, at = extent.torn, behind.position
    if (
        extent.path != behind.path
        or behind.first < _find_torn_end(extent)
        or not extent.may_precede(behind)
    ):
        return False
    if torn is not None and behind.first == _find_torn_end(extent):
        is_here = alone or torn.position // SMALLEST_BLOCK == at // SMALLEST_BLOCK
        return is_here and at == torn.position + torn.size_bytes
    return extent.end // SMALLEST_BLOCK == at // SMALLEST_BLOCK and at % SECTOR > 0
