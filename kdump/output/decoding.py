"""Look for records of internal topics, and import what decodes them for the first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.findings.rows import RecordChunk
from kdump.output.sink import PassingOn

if TYPE_CHECKING:
    from kdump.output.items import Item


class Decoding(PassingOn):
    """Passes everything on, records of internal topics as chunks that say what is in them."""

    def write(self, item: Item) -> None:
        """Take one item."""
        self._sink.write(decoding(item))


def decoding(item: Item) -> Item:
    """Give an item back; records of internal topics as a chunk that says what is in them."""
    if isinstance(item, RecordChunk) and (item.place.topic or "__").startswith("__"):
        from kdump.output.decoded import decoded

        return decoded(item)
    return item
