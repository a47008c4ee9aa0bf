"""Make members that all lookup rows share: index entry, error, steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kdump.findings.rows import Row

if TYPE_CHECKING:
    from kdump.broker.partition import Step
    from kdump.storage.offset_index import OffsetPosition
from kdump.engine.find.options import FindOptions


def entry_fields(entry: OffsetPosition | None) -> dict[str, int] | None:
    """An index entry as a member of a row."""
    return None if entry is None else entry._asdict()


def finished(
    kind: str,
    row: dict[str, object],
    error: str | None,
    steps: Iterable[Step],
    options: FindOptions,
) -> Row:
    """Add what every lookup row ends with: the error, if any, and the steps, if asked for."""
    row["error"] = error
    if options.explain:
        row["steps"] = [step.fields() for step in steps]
    return Row(kind, row)
