"""The file that `verify` keeps its state in from one run to the next."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from kdump.engine.verify.state import SIZE_LIMIT, VerifyState, is_state
from kdump.errors import PathError
from kdump.output.target import content_before, prepare_output, write_whole

Item = TypeVar("Item")


class StateFile:
    """A state file, read at once and rewritten where something was seen.

    Refused where it would replace what kdump did not write, or lie among the `inputs`. One that
    cannot be believed is reported, and everything is verified again.
    """

    def __init__(
        self, path: str, inputs: Sequence[str], tell: Callable[[str], None], *, force: bool = False
    ) -> None:
        self.path = path
        prepare_output(path, inputs, "--state", force=force, is_ours=is_state)
        self.seen = self._read(tell)

    def _read(self, tell: Callable[[str], None]) -> VerifyState:
        now_s = int(time.time())
        try:
            before = content_before(self.path, SIZE_LIMIT + 1)
            if before is None:
                return VerifyState(now_s)
            if len(before) > SIZE_LIMIT:
                raise ValueError("is too large for one")
            return VerifyState.read(before, now_s)
        except OSError as error:
            raise PathError.from_os(self.path, error) from error
        except ValueError as error:
            tell(f"{self.path}: the state is ignored and everything is verified again: {error}")
            return VerifyState(now_s)

    def save_after(self, items: Iterator[Item]) -> Iterator[Item]:
        """Pass on what a run yields; then write what was seen, also where it was left early."""
        try:
            yield from items
        finally:
            self.save()

    def save(self) -> None:
        """Write what was seen, if it changed."""
        if self.seen.changed:
            write_whole(self.path, self.seen.lines(), "--state")
            self.seen.changed = False
