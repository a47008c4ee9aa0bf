"""Check a capture: its frames, and every record set in them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kdump.engine.frames.run import frame_items
from kdump.engine.reading.options import DumpOptions
from kdump.errors import PathError
from kdump.findings.finding import Finding, and_more
from kdump.findings.rows import BatchChunk, BatchRow, RecordChunk, RecordRow
from kdump.rows.frames import Frame
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.storage.names import Kind
    from kdump.storage.targets import Selection

#: Findings of a code that are reported one by one.
_MOST_FINDINGS = 1000


class CaptureCheck(NamedTuple):
    """What a capture came to."""

    findings: tuple[Finding, ...]
    batches: int
    records_count: int
    size_bytes: int


def check_capture(
    path: str, kind: Kind, selection: Selection, limit: int, *, deep: bool
) -> CaptureCheck:
    """Read all of a capture; `deep`: records are decoded, too. Raise `PathError` if it is none."""
    mode = "records" if deep else "batches"
    options = DumpOptions(mode=mode, selection=selection, decompress_limit=limit)
    findings: list[Finding] = []
    last: dict[str, int] = {}
    counts: Counter[str] = Counter()
    batches = records = size = 0
    for item in frame_items(path, kind, options):
        if isinstance(item, PathError):
            raise item
        if isinstance(item, Finding):
            counts[item.code] += 1
            if counts[item.code] <= _MOST_FINDINGS:
                last[item.code] = len(findings)
                findings.append(item)
        elif isinstance(item, Frame):
            batches += item.batches or 0
            size += item.records_bytes or 0
        elif isinstance(item, BatchChunk):
            records += sum(count for count in item.batches.records_counts if count > 0)
        elif isinstance(item, RecordChunk):
            records += len(item)
        elif isinstance(item, (BatchRow, RecordRow)):
            batches += 1
            records += 1
    for code, at in last.items():
        more = max(counts[code] - _MOST_FINDINGS, 0)
        findings[at] = and_more(findings[at], more)._replace(more=more)
    return CaptureCheck(tuple(findings), batches, records, size)
