"""Match names of groups and transactional ids with what is asked for."""

from __future__ import annotations

from fnmatch import fnmatchcase

_PATTERN = frozenset("*?[")


def one_name(asked: str | None) -> str | None:
    """Return the one name that is asked for; None where it is a pattern, or nothing."""
    return None if asked is None or _PATTERN & {*asked} else asked


def matches(asked: str | None, name: str) -> bool:
    """Whether a name is asked for."""
    return asked is None or name == asked or fnmatchcase(name, asked)
