"""One damage, one finding: what only follows from another finding becomes its consequence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kdump.engine.checks import Suspect

if TYPE_CHECKING:
    from kdump.engine.checks import Reported
    from kdump.engine.findings import Finding


def fold(reported: Iterable[Reported]) -> tuple[Finding, ...]:
    """Return the findings that stand by themselves, each with the codes that follow from it."""
    return tuple(at.finding if isinstance(at, Suspect) else at for at in reported)
