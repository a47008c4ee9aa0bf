"""The rows of `reindex`."""

from __future__ import annotations

from typing import Annotated, TypedDict

from kdump.rows.row import Row
from kdump.rows.words import Bytes, Int32, Oldest, Setting, Word


class Difference(TypedDict):
    """The first entry that is another: its slot, and what it is before and after.

    An entry of an index is an object, a line of a checkpoint a text; null: there is none.
    """

    slot: int
    before: dict[str, int] | str | None
    after: dict[str, int] | str | None


class Reindex(Row, kind="reindex", omits=("oldest",)):
    """A file that a broker's recovery would write, and what is done about it."""

    path: Annotated[str, "the file"]
    topic: Annotated[str | None, "its topic"]
    partition: Annotated[Int32 | None, "its partition"]
    segment: Annotated[int | None, "base offset of the segment"]
    kind: Annotated[Word, "index, timeindex, txnindex, leader-epochs and others"]
    entries_before: Annotated[int | None, "entries that it has"]
    entries_after: Annotated[int | None, "entries that recovery writes"]
    first_difference: Annotated[Difference | None, "the first entry that is another"]
    action: Annotated[Word, "keep, rebuild, create and others, or what was done"]
    reason: Annotated[str, "why"]
    bytes_to_read: Annotated[Bytes | None, "bytes of logs that a rebuild reads"]
    backup: Annotated[str | None, "where the old file was kept"]
    written: Annotated[str | None, "where the new file is, if elsewhere"]
    settings: Annotated[list[Setting] | None, "settings that the index depends on"]
    broker_version: Annotated[Word | None, "the release whose recovery writes it"] = None
    oldest: Annotated[
        Oldest | None, "what the oldest release writes that it can be, where that differs"
    ] = None
