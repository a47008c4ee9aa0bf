"""The sentences of verify's report: where, what it means, what was not checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.output.amounts import count_text, size_text
from kdump.output.column_widths import pad, width_of
from kdump.output.escape import visible
from kdump.output.messages import way_past

if TYPE_CHECKING:
    from kdump.findings.finding import Finding
    from kdump.rows.verify import VerifySummary

_PARTITION_WIDEST = 32


class Columns:
    """Where findings are: partition and segment padded to columns of their own."""

    def __init__(self, findings: list[Finding]) -> None:
        self._partition = max((width_of(_partition(each)) for each in findings), default=0)
        self._partition = min(self._partition, _PARTITION_WIDEST)
        self._segment = max((len(_segment(each)) for each in findings), default=0)

    def where(self, finding: Finding) -> str:
        """Write where a finding is: partition, segment, then position or file."""
        if finding.topic is None:
            place = _position(finding)
            return visible(f"{finding.path}   {place}" if place else finding.path)
        last = _position(finding)
        name = finding.path.rpartition("/")[2]
        if not last:
            last = "" if name == _partition(finding) else name
        elif finding.segment is None or name.rpartition(".")[2] != "log":
            last = f"{name}   {last}"
        parts = [pad(_partition(finding), self._partition)]
        if self._segment and not last.startswith(f"{finding.segment or 0:020}."):
            parts.append(pad(_segment(finding), self._segment))
        return "   ".join((*parts, visible(last))).rstrip()


def _partition(finding: Finding) -> str:
    return visible(f"{finding.topic}-{finding.partition}")


def _segment(finding: Finding) -> str:
    return "" if finding.segment is None else f"segment {finding.segment}"


def _position(finding: Finding) -> str:
    if finding.position is None:
        return ""
    size = "" if finding.size_bytes is None else f" · {count_text(finding.size_bytes, 'byte')}"
    return f"position {finding.position:,}{size}"


def describe(finding: Finding, meaning: str, command: str | None) -> Iterator[str]:
    """Say what is wrong, what that means, what follows from it, and where a reader gets past it.

    `command` is printed below, on a line that can be pasted: the message does not repeat it.
    """
    message = finding.message
    if command is not None:
        message = message.replace(f": {command}", ": see below.")
    yield f"{finding.code}: {message}"
    if meaning:
        yield meaning
    if finding.consequences:
        sentences = [each for each in finding.consequences if each.endswith(".")]
        yield from dict.fromkeys(sentences)
        codes = (each for each in finding.consequences if not each.endswith("."))
        times = Counter(each.partition("@")[0] for each in codes)
        words = [f"{code} ×{count}" if count > 1 else code for code, count in times.items()]
        if words:
            yield f"Caused by this, so not counted separately: {', '.join(words)}."
    if past := way_past(finding):
        yield past


def not_checked_text(row: VerifySummary) -> str:
    """Say what this run did not look at, in words."""
    left = row.not_checked
    parts = []
    unsaid = {"bytes_out_of_time", "compressed_batches"}
    if row.mode == "quick":
        parts.append("the contents of the logs (--quick)")
        unsaid.add("segments_not_read")
    if row.mode == "default":
        many = count_text(row.batches, "batch")
        packed = left.get("compressed_batches", 0)
        more = f", {packed:,} of them compressed" if packed else ""
        command = "kdump verify --deep" if row.forecast else "--deep"
        parts.append(f"the records inside {many}{more} ({command} checks them)")
    for word, count in left.items():
        if word in unsaid or not count:
            continue
        thing, why = _NOT_CHECKED.get(word, (None, ""))
        many = f"{count:,} {word.replace('_', ' ')}" if thing is None else count_text(count, thing)
        parts.append(f"{many} {why}".rstrip())
        if word == "segments_out_of_time":
            parts[-1] += f", {size_text(left.get('bytes_out_of_time', 0))}"
    if unfinished := row.paths_unfinished:
        parts.append(f"{count_text(unfinished, 'path')} that could not be read")
    return f"Not checked: {'; '.join(parts)}." if parts else "Everything was checked."


#: What the summary names -> the thing that is counted, and why it was not looked at.
_NOT_CHECKED = {
    "segments_verified_before": ("segment", "unchanged since last verified (--state)"),
    "segments_outside_subset": ("segment", "outside this slice (--subset)"),
    "segments_out_of_time": ("segment", "out of time (--max-duration)"),
    "segments_not_read": ("segment", "not read completely"),
    "batches_over_limit": ("batch", "over --decompress-limit"),
    "batches_without_codec": ("batch", "with a codec that is not installed"),
}
