"""Make one line of what Spark says when something fails."""

from __future__ import annotations

import re

#: Stands before what a task of ours has to say, to be found again in what Spark makes of it.
MARK = "kdump-task:"
_LONGEST = 400


def one_line(error: BaseException) -> str:
    """Return the line of an error that tells a person something.

    What a task of ours said comes first; else the last line of Python's part of a traceback, else
    the first of all.
    """
    text = str(error) or type(error).__name__
    said = re.search(rf"{MARK} (.*)", text) or re.search(r"(Cannot run program \".*)", text)
    if said:
        return said[1].strip()[:_LONGEST]
    lines = [line.strip(": ") for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        del lines[0]  # Py4J's, before what Java says
    named = [line for line in lines if re.match(r"[A-Za-z_.]+(Error|Exception|Exit)\b: ", line)]
    reason = [line for line in lines if "Caused by:" in line or "Reason:" in line]
    chosen = (named or reason or lines or [type(error).__name__])[-1 if named else 0]
    return chosen[:_LONGEST]


def host_of(error: BaseException) -> str | None:
    """Return the host of the executor that Spark blames, where it names one."""
    blamed = re.search(r"\(TID \d+\) \((\S+) executor ", str(error))
    return blamed[1] if blamed else None
