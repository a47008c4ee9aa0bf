"""Load a partition only as far as one lookup needs: `Loading`, a segment at a time.

A broker is up only when all is loaded. What a lookup asks is what became of one segment: whether
those before it were cut, and whether its own indexes were rebuilt. So a segment is recovered here
when it is asked for, after those before it that a start would recover first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.loading import Loading
from kdump.broker.log_reader import RefusalError, UnknowableError
from kdump.broker.segment import OffsetOverflowError, Segment
from kdump.broker.versions import Version

if TYPE_CHECKING:
    from kdump.broker.settings import Settings
    from kdump.broker.shutdown_state import Stop
    from kdump.storage.local_log import LocalLog


class Partway(Loading):
    """The segments of a partition, each as a start leaves it once it was asked for.

    `segments` has those that are there as far as is known: a cut or a split changes it. What a
    split further behind puts in the place of a segment already asked for is not waited for. Files
    left as .swap are put in at once, with all that goes with that.
    """

    def __init__(
        self, log: LocalLog, broker: Version, settings: Settings, stop: Stop, *, limit: int
    ) -> None:
        super().__init__(log, broker, settings, stop, limit=limit)
        self._seen: set[int] = set()
        self._waiting: list[Segment] = []
        self._failed: tuple[int, RefusalError | UnknowableError] | None = None  # asked for, and why
        if self.files.swaps or self.files.swapped:
            self.run()
            self._seen.update(self.segments)
            return
        for base in self.files.bases():
            self.segments[base] = self.files.open(base)
        if not stop.clean:
            self._waiting = self._unflushed()

    def settle(self, base: int) -> bool:
        """Go on until it is known what becomes of a segment; whether anything was recovered.

        Raises where the start fails on the way there, however often it is asked.
        """
        if self._failed is not None and base >= self._failed[0]:
            raise self._failed[1]
        try:
            return self._settle(base)
        except (RefusalError, UnknowableError) as error:
            self._failed = base, error
            raise

    def _settle(self, base: int) -> bool:
        if self._waiting and base >= self._waiting[0].base_offset:
            self._recover_to(base)
            return True
        if base in self._seen or base not in self.segments:
            return False
        self._seen.add(base)
        known = len(self.rebuilt)
        self._mend_or_split(self.segments[base])
        return len(self.rebuilt) > known

    def settled(self, base: int) -> bool:
        """Whether it is known what becomes of a segment."""
        return base in self._seen

    def _recover_to(self, base: int) -> None:
        """Recover what was not flushed, in order; the loading of all of it comes first (R6)."""
        if any(segment.base_offset not in self._seen for segment in self._waiting):
            for segment in self._waiting:
                self._seen.add(segment.base_offset)
                self._mend_or_split(segment)
            self._waiting = self._unflushed()
            self._seen.update(segment.base_offset for segment in self._waiting)
        while self._waiting and self._waiting[0].base_offset <= base:
            segment, *self._waiting = self._waiting
            try:
                if self._recover_unflushed(segment, self._waiting):
                    self._waiting = []
            except OffsetOverflowError:
                self._split(segment, recovering=True)
                self._waiting = self._unflushed()  # all over again
                self._seen.update(part.base_offset for part in self._waiting)

    def _mend_or_split(self, segment: Segment) -> None:
        try:
            self._mend(segment)
        except OffsetOverflowError:
            self._split(segment, recovering=False)
