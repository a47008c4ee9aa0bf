"""The row of a finding, which all commands may have."""

from __future__ import annotations

from typing import Annotated

from kdump.rows.row import Row
from kdump.rows.words import Bytes, Int32, Json, Oldest, Severe, Word


class FindingRow(Row, kind="finding", omits=("oldest",)):
    """One thing wrong, or worth knowing, at one place."""

    code: Annotated[Word, "the finding's stable word"]
    severity: Annotated[Severe, "note, rebuild or damage"]
    path: Annotated[str, "the file or directory"]
    topic: Annotated[str | None, "its topic"]
    partition: Annotated[Int32 | None, "its partition"]
    segment: Annotated[int | None, "base offset of the segment"]
    position: Annotated[int | None, "where in the file"]
    size_bytes: Annotated[Bytes | None, "how many bytes from there on are meant"]
    offset: Annotated[int | None, "the offset that is meant"]
    expected: Annotated[Json, "what should be there"]
    actual: Annotated[Json, "what is there"]
    message: Annotated[str, "what is wrong, in words"]
    consequences: Annotated[list[str], "codes of what follows from it"]
    lost_at_least: Annotated[int | None, "at least so many records cannot be read"]
    lost_at_most: Annotated[int | None, "at most so many"]
    next_offset: Annotated[int | None, "the first offset behind it that can be read from the disk"]
    served_from: Annotated[int | None, "the first from which on a broker serves consumers again"]
    skipped_by_seek: Annotated[int | None, "sound records that a seek there passes over"]
    served_by: Annotated[str | None, "the broker that serves: a version, running or starting"]
    oldest: Annotated[
        Oldest | None, "where the oldest release serves from that it can be, if elsewhere"
    ] = None
