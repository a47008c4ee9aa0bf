"""What rows of a kind have."""

from __future__ import annotations

from kdump.errors import UsageError
from kdump.findings.schema import fields_of
from kdump.rows.declarations import Field


def schema(kind: str) -> tuple[Field, ...]:
    """Return the members of a kind of row, in order. Raises UsageError for one that is not."""
    known = fields_of()
    if kind not in known:
        raise UsageError(f"{kind}: unknown row kind")
    return known[kind]
