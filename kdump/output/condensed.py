"""Leave out of a table the rows that say nothing new; what was left out is counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kdump.findings.rows import Row
from kdump.output.sink import ForwardingSink, Sink

if TYPE_CHECKING:
    from kdump.output.sink import Item

#: Rows of one place that are held; a place with more is not shown in full.
_MOST_HELD = 3000


class SinglePlaceFilter(ForwardingSink):
    """Passes on usual rows only of a run with a single place, as of one partition that was named.

    `leave_out` is called with each row that is not shown.
    """

    def __init__(
        self,
        sink: Sink,
        place_of: Callable[[Row], object],
        is_usual: Callable[[Row], bool],
        leave_out: Callable[[Row], None],
    ) -> None:
        super().__init__(sink)
        self._place_of, self._is_usual, self._leave_out = place_of, is_usual, leave_out
        self._held: list[Row] | None = []
        self.finish = self._finish  # type: ignore[method-assign]

    def write(self, item: Item) -> None:
        """Hold the rows of the first place; pass on one of another if it is not usual."""
        if not isinstance(item, Row):
            self._sink.write(item)
            return
        held = self._held
        if held is not None:
            same = not held or self._place_of(held[0]) == self._place_of(item)
            if same and len(held) < _MOST_HELD:
                held.append(item)
                return
            self._held = None
            for row in held:
                self._pass(row)
        self._pass(item)

    def stop(self) -> None:
        """The run was interrupted: show what is held."""
        self._release()
        self._sink.stop()

    def _finish(self) -> None:
        self._release()
        self._sink.finish()

    def _release(self) -> None:
        held, self._held = self._held, None
        for row in held or ():
            self._sink.write(row)

    def _pass(self, row: Row) -> None:
        if self._is_usual(row):
            self._leave_out(row)
        else:
            self._sink.write(row)
