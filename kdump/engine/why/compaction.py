"""Say what the cleaner makes of a compacted partition: the place of `compaction` rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kdump.broker.retention import LogFacts, Policy
    from kdump.broker.settings import Settings
    from kdump.engine.why.options import WhyOptions
    from kdump.findings.rows import Row
    from kdump.storage.targets import Target


def compaction_rows(
    target: Target, facts: LogFacts, policy: Policy, settings: Settings, options: WhyOptions
) -> tuple[Row, ...]:
    """Give the row of a compacted partition; none of another."""
    del target, facts, policy, settings, options
    return ()
