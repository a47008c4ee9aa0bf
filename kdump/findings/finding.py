"""Findings: one thing wrong, or worth knowing, at one place.

Codes are stable words, listed in `catalogue.py`. Severity is decided there and nowhere else; a
command only compares it with `--fail-on`. Both sides of a failed comparison stand in the finding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from kdump.errors import InternalError
from kdump.findings.catalogue import CATALOGUE
from kdump.findings.code import Code, Severity
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.rows.finding import FindingRow
    from kdump.rows.words import Oldest


class Finding(NamedTuple):
    """One thing wrong, or worth knowing, about `size_bytes` bytes from `position` on."""

    code: str
    severity: Severity
    path: str
    topic: str | None = None
    partition: int | None = None
    segment: int | None = None
    position: int | None = None
    size_bytes: int | None = None
    offset: int | None = None
    expected: object = None
    actual: object = None
    message: str = ""
    consequences: tuple[str, ...] = ()
    lost_at_least: int | None = None  # records, where a range of the log cannot be read
    lost_at_most: int | None = None
    next_offset: int | None = None  # the first behind it that can be read from disk
    served_from: int | None = None  # the first from which on a broker serves consumers again
    skipped_by_seek: int | None = None  # sound records that a seek there passes over
    served_by: str | None = None  # the version asked, "running" or "starting"; None: nobody was
    oldest: Oldest | None = None  # what the oldest release serves that it can be
    more: int = 0  # so many others of its code were counted and are not reported one by one

    @property
    def entry(self) -> Code:
        """What the catalogue says of its code."""
        return CATALOGUE[self.code]

    @property
    def urgency(self) -> tuple[int, bool]:
        """How soon it is to be reported, in rising order."""
        return self.severity.rank, self.entry.loudest

    def as_row(self) -> FindingRow:
        """Make its row; how many more there are its message says."""
        from kdump.rows.finding import FindingRow

        members: dict[str, Any] = self._asdict()
        del members["more"]
        members["severity"] = self.severity.value
        members["consequences"] = list(self.consequences)
        return FindingRow(**members)

    def fields(self) -> dict[str, object]:
        """The members of its row, in order."""
        return self.as_row().fields


class About(TypedDict, total=False):
    """What a finding may say beside its code and its place."""

    position: int | None
    size_bytes: int | None
    offset: int | None
    expected: object
    actual: object
    message: str | None
    consequences: tuple[str, ...]
    lost_at_least: int | None
    lost_at_most: int | None
    next_offset: int | None


def finding(
    code: str,
    *,
    path: str,
    topic: str | None = None,
    partition: int | None = None,
    segment: int | None = None,
    **about: Unpack[About],
) -> Finding:
    """Make a finding of a code in the catalogue; the message defaults to the code's sentence."""
    entry = CATALOGUE[code]
    if about.get("message") is None:
        about["message"] = entry.sentence
    place = (path, topic, partition, segment)
    return Finding(code, entry.severity, *place, **about)  # type: ignore[arg-type]


def internal_error(error: InternalError) -> Finding:
    """Make the finding of an exception that nobody foresaw."""
    return finding(
        "internal-error",
        path=error.path,
        topic=error.topic,
        partition=error.partition,
        actual=error.reason,
        message=f"kdump failed here: {error.reason}. "
        + (
            "Other partitions were checked."
            if error.topic
            else "Findings of other partitions remain valid."
        ),
    )


def and_more(finding: Finding, more: int) -> Finding:
    """Add to a finding's message at how many more places it is the same."""
    if not more:
        return finding
    return finding._replace(
        message=f"{finding.message} The same in {more:,} more place{'s' * (more != 1)}."
    )


__all__ = ["CATALOGUE", "About", "Finding", "Severity", "and_more", "finding", "internal_error"]
