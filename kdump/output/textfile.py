"""Write metrics as the textfile collector of Prometheus' node exporter reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kdump.output.escape import visible

#: So many places are told apart; a monitoring system keeps a series for each.
SERIES = 10_000


def metric(name: str, help_text: str, values: Mapping[str, float]) -> Iterator[str]:
    """Yield the lines of a gauge, each value with its labels; none without values."""
    if not values:
        return
    yield f"# HELP {name} {help_text}"
    yield f"# TYPE {name} gauge"
    for of, value in values.items():
        yield f"{name}{of} {value}"


def labels(**pairs: object) -> str:
    """Write labels: names on a disk may hold anything."""
    return f"{{{','.join(f'{name}={_quoted(str(text))}' for name, text in pairs.items())}}}"


def number_before(before: str, name: str) -> int | None:
    """Read a whole number that a file held until now."""
    found = re.search(rf"^{name} (\d{{1,12}})$", before, re.MULTILINE)
    return int(found[1]) if found else None


def _quoted(text: str) -> str:
    escaped = visible(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
