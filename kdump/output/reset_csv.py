"""Write the lines that `kafka-consumer-groups --reset-offsets --from-file` takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kdump.engine.find.reset import refused_group, refused_topic
from kdump.findings.rows import Row
from kdump.output.sink import Sink

if TYPE_CHECKING:
    from kdump.output.items import Item
    from kdump.output.messages import Messages


class ResetCsv(Sink):
    """Writes one line for each lookup that has an answer; messages name every other one.

    Or for each committed offset; with `has_groups` it begins with the group, as the tool has it for
    several.
    """

    def __init__(
        self, write: Callable[[bytes], object], messages: Messages, *, has_groups: bool = False
    ) -> None:
        self._write = write
        self._messages = messages
        self._has_groups = has_groups

    def write(self, item: Item) -> None:
        """Write one lookup, or one committed offset."""
        if not isinstance(item, Row):
            return
        topic, partition, offset, error = (
            item.fields.get(name) for name in ("topic", "partition", "offset", "error")
        )
        tell = self._messages.line
        if topic is None:
            tell("kdump: left out: a partition whose directory's name is no topic")
        elif refused := refused_topic(item):
            self._messages.finding(refused)
        elif offset is None:
            tell(f"kdump: left out: {topic}-{partition}: {error or 'the answer is none'}")
        else:
            head = ""
            if self._has_groups:
                head = f"{item.fields['group']},"
                if refused_group(head[:-1]):
                    tell(f"kdump: left out: group {head[:-1]}: no plan can have such a name")
                    return
            self._write(f"{head}{topic},{partition},{offset}\n".encode())
