"""The rows of `report`, beside those of the commands that it runs."""

from __future__ import annotations

from typing import Annotated

from kdump.rows.row import Row
from kdump.rows.words import Bytes, Time, Word


class ReportPart(Row, kind="report-part", sums_up=True, leads=True):
    """The start of a part of a report; the rows up to the next start belong to it."""

    part: Annotated[Word, "info, verify, why, cluster, groups, timeline, records"]
    at_ms: Annotated[Time | None, "the time that it shows; null: the end"]
    command: Annotated[str, "the command that shows the same, without its paths"]


class EvidenceFile(Row, kind="evidence-file"):
    """A file that was read, with its size and hash at that time."""

    path: Annotated[str, "the file"]
    size_bytes: Annotated[Bytes | None, "its size"]
    modified_ms: Annotated[Time | None, "when it was last modified"]
    sha256: Annotated[str | None, "SHA-256 of its bytes; null: not hashed"]
    text: Annotated[str | None, "why it was not hashed"]


class Written(Row, kind="written"):
    """Batches of all replicas here: of one topic, or of all topics in a time span."""

    topic: Annotated[str | None, "the topic; null: all except internal topics, in this time span"]
    from_ms: Annotated[Time | None, "the earliest time of a batch, or the start of the span"]
    to_ms: Annotated[Time | None, "the latest time of a batch, or the end of the span"]
    records_count: Annotated[int, "records"]
    size_bytes: Annotated[Bytes, "bytes of the batches"]
