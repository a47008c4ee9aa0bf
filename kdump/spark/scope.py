"""What a frame leaves out by offsets of single partitions, and by the times of files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kdump.engine.reading.options import DumpOptions
from kdump.errors import KdumpError, UsageError
from kdump.spark.options import Offsets
from kdump.storage import places
from kdump.storage.targets import LogFile, Target

_NONE: Offsets = {}


class Scope(NamedTuple):
    """The first offset of partitions, the one after their last, and how old a file may be."""

    starting: Offsets = _NONE
    ending: Offsets = _NONE
    modified_after_ms: int | None = None

    @property
    def by_partition(self) -> bool:
        """Whether partitions are narrowed one by one."""
        return bool(self.starting or self.ending)

    def options_of(self, target: Target, options: DumpOptions) -> DumpOptions:
        """Return the options with which a partition is read."""
        if not self.by_partition:
            return options
        topic, number = target.topic or "", -1 if target.partition is None else target.partition
        starts = (options.from_offset, self.starting.get(topic, {}).get(number))
        ends = (options.to_offset, self.ending.get(topic, {}).get(number))
        given = vars(options) | {
            "from_offset": max((one for one in starts if one is not None), default=None),
            "to_offset": min((one for one in ends if one is not None), default=None),
        }
        return DumpOptions(**given)

    def admits(self, path: str) -> bool:
        """Whether a file is new enough; one of which nobody says how old it is, is."""
        if self.modified_after_ms is None:
            return True
        try:
            changed_ns = places.stat(path).st_mtime_ns
        except (OSError, ValueError):
            return True
        return changed_ns // 1_000_000 > self.modified_after_ms

    def checked(self, targets: Iterable[Target | KdumpError]) -> Iterator[Target | KdumpError]:
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
                f"startingOffsets or endingOffsets name {topic}-{number}, which is not among the "
                "partitions to read"
            )

    def files(self, files: Iterable[LogFile]) -> list[LogFile]:
        """Return the files that are new enough."""
        return [file for file in files if self.admits(file.path)]


EVERYTHING = Scope()
