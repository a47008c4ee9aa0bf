"""The rows of `reindex`."""

from __future__ import annotations

from typing import Annotated, TypedDict

from kdump.rows.row import Row
from kdump.rows.words import Bytes, Int32, Oldest, Setting, Word


class Difference(TypedDict):
    """The first entry that differs: its slot, before, and after.

    An entry of an index is an object, a line of a checkpoint a text; null: there is none.
    """

    slot: int
    before: dict[str, int] | str | None
    after: dict[str, int] | str | None


class Reindex(Row, kind="reindex", omits=("oldest",)):
    """A file that log recovery would write, and the action taken."""

    path: Annotated[str, "the file"]
    topic: Annotated[str | None, "its topic"]
    partition: Annotated[Int32 | None, "its partition"]
    segment: Annotated[int | None, "base offset of the segment"]
    kind: Annotated[Word, "index, timeindex, txnindex, leader-epochs, and others"]
    entries_before: Annotated[int | None, "entries in the file"]
    entries_after: Annotated[int | None, "entries that recovery writes"]
    first_difference: Annotated[Difference | None, "the first entry that differs"]
    action: Annotated[Word, "keep, rebuild, create, and others"]
    reason: Annotated[str, "why"]
    bytes_to_read: Annotated[Bytes | None, "bytes of log that a rebuild reads"]
    backup: Annotated[str | None, "path of the backup"]
    written: Annotated[str | None, "path of the new file, if different"]
    settings: Annotated[list[Setting] | None, "settings that the index depends on"]
    broker_version: Annotated[Word | None, "the release whose recovery is reproduced"] = None
    oldest: Annotated[Oldest | None, "the same for the oldest possible release, if different"] = (
        None
    )
