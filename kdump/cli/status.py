"""Choose the exit status where several apply."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.findings.finding import Severity

if TYPE_CHECKING:
    from kdump.output.messages import Messages

DONE, NOT_DONE, USAGE, FINDINGS, NONE, REFUSED = 0, 1, 2, 3, 4, 5

#: When several apply, the first of these is the status: damage found stays true even if the rest
#: could not be read.
_PRECEDENCE = (USAGE, REFUSED, FINDINGS, NOT_DONE, NONE, DONE)

#: The words of `--fail-on`.
FAIL_ON = ("never", *(severity.value for severity in Severity))


def fails(worst: Severity | None, fail_on: str) -> bool:
    """Say whether the worst finding is at or above what `--fail-on` names."""
    return worst is not None and fail_on != "never" and worst.rank >= Severity(fail_on).rank


def first_of(*statuses: int) -> int:
    """Return the status that stands when all of these apply."""
    return next(status for status in _PRECEDENCE if status in (*statuses, DONE))


def exit_status(messages: Messages, fail_on: str) -> int:
    """Return the status of what was reported so far."""
    found = fails(messages.worst, fail_on)
    return first_of(*messages.statuses, FINDINGS if found else DONE)
