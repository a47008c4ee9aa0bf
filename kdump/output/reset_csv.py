"""`topic,partition,offset` lines, as `kafka-consumer-groups --reset-offsets --from-file` takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.engine.rows import Row

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.output.sink import Item


class ResetCsv:
    """Writes one line for each lookup that has an answer; `tell` is told of every other one."""

    def __init__(self, write: Callable[[bytes], object], tell: Callable[[str], object]) -> None:
        self._write = write
        self._tell = tell

    def write(self, item: Item) -> None:
        """Write one lookup."""
        if not isinstance(item, Row):
            return
        topic, partition, offset, error = (
            item.fields.get(name) for name in ("topic", "partition", "offset", "error")
        )
        if topic is None:
            self._tell("kdump: left out: a partition whose directory's name is no topic")
        elif offset is None:
            self._tell(f"kdump: left out: {topic}-{partition}: {error or 'the answer is none'}")
        else:
            self._write(f"{topic},{partition},{offset}\n".encode("utf-8", "surrogateescape"))

    def settle(self) -> None:
        """Nothing is held back."""

    def finish(self) -> None:
        """Nothing is held back."""
