"""Decide what a reset plan may contain, which another program carries out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.partition import PartitionView
    from kdump.findings.finding import Finding
    from kdump.findings.rows import Row

#: Where a reset goes: to the answer itself, or to an end of the log where there is none.
ANSWER, LATEST, EARLIEST, SKIP = "answer", "latest", "earliest", "skip"


class Reset(NamedTuple):
    """The offset to reset a group to, and which it is; None where the plan has none."""

    offset: int | None = None
    to: str | None = None


NO_RESET = Reset()


def reset_of(
    view: PartitionView, offset: int | None, error: str | None, none: str, target: int | None
) -> Reset:
    """Decide where the answer `offset` resets a group to.

    A partition without an answer goes where `none` says. An offset out of range (`target`) goes to
    the nearer end of the log, as with Kafka's own tool; any other error is no reason to move.
    """
    from kdump.broker.lookup_records import BrokerError

    word: str | None = ANSWER if offset is not None else none
    if error is not None:
        is_out = target is not None and error.startswith("OFFSET_OUT_OF_RANGE")
        near = EARLIEST if target is not None and target < view.log_start else LATEST
        word = None if not is_out else near if none != SKIP else SKIP
    if word in (LATEST, EARLIEST):
        try:
            offset = view.visible_end if word == LATEST else view.log_start
        except BrokerError:
            word = offset = None
    return Reset(offset, word)


def refuse_topic(row: Row) -> Finding | None:
    """Say that the topic of a lookup has a name that Kafka does not allow; None where it does.

    A plan has no quotes: a name with a comma or a line end in it would be read as other lines.
    """
    from kdump.findings.finding import finding
    from kdump.storage.names import DirectoryName

    topic, partition = row["topic"], row["partition"]
    if topic is None or DirectoryName(str(topic), 0).legal:
        return None
    return finding("topic-name", path=f"{topic}-{partition}", actual=str(topic))


def is_refused_group(name: str) -> bool:
    """Whether a plan cannot have a group's name: one that its reader would take apart."""
    return not name.isprintable() or name != name.strip() or bool({*name} & {*',"'})
