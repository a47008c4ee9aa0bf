"""Releases of Kafka by what changed with them, as far as more than one module asks."""

from __future__ import annotations

Version = tuple[int, ...]

#: The newest release whose rules are known here: what is assumed where nobody names a version.
NEWEST: Version = (4, 4)
