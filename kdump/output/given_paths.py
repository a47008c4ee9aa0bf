"""Name loose files as they were given, not by the view under which they are read."""

from __future__ import annotations

from typing import Any

from kdump.errors import PathError
from kdump.findings.finding import Finding
from kdump.findings.rows import Row
from kdump.stores.view_store import given_path, has_given_paths


def as_given(item: Any) -> Any:
    """Return an item of a run with the path that the user gave in the place of a view's."""
    if not has_given_paths():
        return item
    if isinstance(item, Row):
        if isinstance(path := item.fields.get("path"), str):
            item = item.replaced(path=given_path(path))
    elif isinstance(item, PathError):
        item = type(item)(given_path(item.path), item.reason)
    elif isinstance(item, Finding) or hasattr(item, "heading"):  # of kafka-dump-log: "Dumping PATH"
        item = item._replace(path=given_path(item.path))
    return item
