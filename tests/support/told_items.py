"""Rows and findings among what a command yields."""

from collections.abc import Iterable
from typing import Any

from kdump.findings.finding import Finding
from kdump.findings.rows import Row


def rows(items: Iterable[object], kind: str | None = None) -> list[dict[str, Any]]:
    """Return the fields of the rows, all or those of one kind."""
    found = [item for item in items if isinstance(item, Row) and kind in (None, item.row)]
    return [item.fields for item in found]


def codes(items: Iterable[object]) -> list[str]:
    """Return the codes of the findings."""
    return [item.code for item in items if isinstance(item, Finding)]
