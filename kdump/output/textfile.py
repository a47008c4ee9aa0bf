"""Write metrics as the textfile collector of Prometheus' node exporter reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kdump.output.escape import visible

#: So many places are told apart; a monitoring system keeps a series for each.
SERIES = 10_000


def is_textfile(head: bytes) -> bool:
    """Whether a file begins as those that kdump writes for the collector."""
    return head.startswith(b"# HELP kdump_")


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
    return f"{{{','.join(f'{name}={_quote(str(text))}' for name, text in pairs.items())}}}"


def last_runs(command: str, now_s: int, before: str, *, succeeded: bool) -> Iterator[str]:
    """Yield when a command last ran, and when it last did all; the file held `before` until now."""
    name = f"kdump_{command}_last_run_timestamp_seconds"
    yield from metric(name, "When the last run ended.", {"": now_s})
    name = f"kdump_{command}_last_success_timestamp_seconds"
    found = re.search(rf"^{name} (\d{{1,12}})$", before, re.MULTILINE)
    last = now_s if succeeded else found and int(found[1])
    if last is not None:
        yield from metric(name, "When a run last ended with all paths read.", {"": last})


def _quote(text: str) -> str:
    escaped = visible(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
