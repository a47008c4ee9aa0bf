"""Say where consumers that meet damage can go on, as a broker serves them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.output.amounts import counted

if TYPE_CHECKING:
    from kdump.findings.finding import Finding


def way_past(finding: Finding) -> str:
    """Say what can be read from disk, and what a broker serves; nothing where nobody was asked."""
    following, served, skipped = finding.next_offset, finding.served_from, finding.skipped_by_seek
    if following is None or finding.served_by is None:
        return ""
    version, _, how = finding.served_by.partition(" ")
    broker = f"A {version} broker"
    if how == "running":
        broker = f"The running broker (if it is a {version})"
    elif how == "starting":
        broker += " that starts on these files"
    if served == following:
        return f"{broker} serves consumers again from offset {served}: seek there."
    disk = f"On disk the next offset is {following} (kdump dump gets it)."
    records = counted(skipped or 0, "sound record")
    lie = "lies" if skipped == 1 else "lie"
    if served is None:
        return (
            f"{disk} {broker} serves consumers nothing behind this place: {records} {lie} there, "
            "which only kdump dump can bring."
        )
    between = f"; {records} {lie} between, which only kdump dump can bring" if skipped else ""
    return f"{disk} {broker} serves consumers again from offset {served}: seek there{between}."
