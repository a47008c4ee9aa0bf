"""Decide what may stand in a reset plan, which another program carries out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.findings.finding import Finding, finding
from kdump.storage.names import DirectoryName

if TYPE_CHECKING:
    from kdump.findings.rows import Row


def refused_topic(row: Row) -> Finding | None:
    """Say that the topic of a lookup has a name that Kafka does not allow; None where it does.

    A plan has no quotes: a name with a comma or a line end in it would be read as other lines.
    """
    topic, partition = row.fields["topic"], row.fields["partition"]
    if topic is None or DirectoryName(str(topic), 0).legal:
        return None
    return finding("topic-name", path=f"{topic}-{partition}", actual=str(topic))


def refused_group(name: str) -> bool:
    """Whether a plan cannot have a group's name: one that its reader would take apart."""
    return not name.isprintable() or name != name.strip() or bool({*name} & {*',"'})
