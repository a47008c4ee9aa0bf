"""Decide whether output is a terminal and takes colours, without importing rich."""

from __future__ import annotations

import os
from typing import TextIO


def is_terminal(file: TextIO | None) -> bool:
    """Say whether a person sits at the other end."""
    try:
        return file is not None and file.isatty()
    except ValueError:  # closed
        return False


def wants_colour(file: TextIO | None) -> bool:
    """Say whether to send colours: a terminal that is not dumb, or FORCE_COLOR; never NO_COLOR."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return is_terminal(file) and os.environ.get("TERM") not in ("dumb", "unknown")


def silence(file: TextIO) -> None:
    """Point a standard file at nothing, so that the flush at exit cannot fail once more."""
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, file.fileno())
        os.close(nothing)
    except (OSError, ValueError):  # it is closed, or a stand-in without a number
        pass
