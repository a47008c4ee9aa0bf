"""The row of a finding, which all commands may have."""

from __future__ import annotations

from typing import Annotated

from kdump.rows.row import Row
from kdump.rows.words import Bytes, Int32, Json, Oldest, Severe, Word


class FindingRow(Row, kind="finding", omits=("oldest",)):
    """A problem, or something worth knowing, at one place."""

    code: Annotated[Word, "name of the finding, stable across releases"]
    severity: Annotated[Severe, "note, rebuild, or damage"]
    path: Annotated[str, "the file or directory"]
    topic: Annotated[str | None, "its topic"]
    partition: Annotated[Int32 | None, "its partition"]
    segment: Annotated[int | None, "base offset of the segment"]
    position: Annotated[int | None, "position in the file"]
    size_bytes: Annotated[Bytes | None, "number of bytes affected"]
    offset: Annotated[int | None, "the offset affected"]
    expected: Annotated[Json, "the expected value"]
    actual: Annotated[Json, "the actual value"]
    message: Annotated[str, "description of the problem"]
    consequences: Annotated[list[str], "codes of its consequences"]
    lost_at_least: Annotated[int | None, "fewest records that cannot be read"]
    lost_at_most: Annotated[int | None, "most records that cannot be read"]
    next_offset: Annotated[int | None, "the next offset that can be read from the disk"]
    served_from: Annotated[int | None, "the offset from which a broker serves consumers again"]
    skipped_by_seek: Annotated[int | None, "sound records that a seek there skips"]
    served_by: Annotated[str | None, "the broker that serves: its version, running or starting"]
    oldest: Annotated[Oldest | None, "the same for the oldest possible release, if different"] = (
        None
    )
