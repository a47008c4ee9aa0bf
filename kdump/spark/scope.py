"""What a frame leaves out by offsets of single partitions, and by the times of files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kdump.engine.reading.options import DumpOptions
from kdump.errors import KdumpError, UsageError
from kdump.spark.options import Offsets
from kdump.storage import places
from kdump.storage.targets import LogFile, Target
from kdump.tuples import NamedTuple

#: The first offset of a partition and the one after its last; None: nothing is left out.
Range = tuple[int | None, int | None]
_NONE: Offsets = {}
_WHOLLY: dict[int, int | None] = {}
_WHOLE: Range = (None, None)


def narrow(options: DumpOptions, bounds: Range) -> DumpOptions:
    """Return options that also leave out what is not between two offsets."""
    if bounds == _WHOLE:
        return options
    starts, ends = (options.from_offset, bounds[0]), (options.to_offset, bounds[1])
    given = vars(options) | {
        "from_offset": max((one for one in starts if one is not None), default=None),
        "to_offset": min((one for one in ends if one is not None), default=None),
    }
    return DumpOptions(**given)


class Scope(NamedTuple):
    """The first offset of partitions, the one after their last, and how old a file may be."""

    starting: Offsets = _NONE
    ending: Offsets = _NONE
    modified_after_ms: int | None = None

    def range_of(self, target: Target) -> Range:
        """Return the offsets of a partition that are read."""
        bounds = (of.get(target.topic or "", _WHOLLY) for of in (self.starting, self.ending))
        number = -1 if target.partition is None else target.partition
        first, end = (one.get(number) for one in bounds)
        return first, end

    def options_of(self, target: Target, options: DumpOptions) -> DumpOptions:
        """Return the options with which a partition is read."""
        return narrow(options, self.range_of(target))

    def check_targets(
        self, targets: Iterable[Target | KdumpError]
    ) -> Iterator[Target | KdumpError]:
        """Pass on partitions; at the end refuse offsets of those that are not among them."""
        named = {
            (topic, number)
            for offsets in (self.starting, self.ending)
            for topic, partitions in offsets.items()
            for number in partitions
        }
        for target in targets:
            if isinstance(target, Target):
                named.discard((target.topic or "", target.partition or 0))
            yield target
        if named:
            topic, number = min(named)
            raise UsageError(
                f"startingOffsets or endingOffsets name {topic}-{number}, which is not one of the "
                "partitions to read"
            )

    def files(self, target: Target, files: Iterable[LogFile]) -> list[LogFile]:
        """Return the files that are new enough; of unknown age all are."""
        return [file for file in files if self._admits(file.path)]

    def _admits(self, path: str) -> bool:
        if self.modified_after_ms is None:
            return True
        try:
            changed_ns = places.stat(path).st_mtime_ns
        except (OSError, ValueError):
            return True
        return changed_ns // 1_000_000 > self.modified_after_ms


class ClosedSegments(NamedTuple):
    """Of each partition, by its path, the offsets that a batch of a stream reads."""

    ranges: Mapping[str, Range]

    def range_of(self, target: Target) -> Range:
        """Return the offsets of a partition that are read."""
        return self.ranges.get(target.path, _WHOLE)

    def options_of(self, target: Target, options: DumpOptions) -> DumpOptions:
        """Return the options with which a partition is read."""
        return narrow(options, self.range_of(target))

    def check_targets(
        self, targets: Iterable[Target | KdumpError]
    ) -> Iterator[Target | KdumpError]:
        """Pass on partitions."""
        return iter(targets)

    def files(self, target: Target, files: Iterable[LogFile]) -> list[LogFile]:
        """Return the closed segments of a partition, none of one that a batch does not have."""
        if target.path not in self.ranges:
            return []
        return [one for one in files if one.next_base is not None and not one.name.is_retired]


EVERYTHING = Scope()
