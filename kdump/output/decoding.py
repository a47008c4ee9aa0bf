"""Look for records of internal topics, and import what decodes them for the first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.findings.rows import DecodedChunk, RecordChunk, RecordRow
from kdump.findings.secret_values import row_without_secrets, without_secrets
from kdump.output.sink import PassingOn

if TYPE_CHECKING:
    from kdump.output.items import Item
    from kdump.output.sink import Sink


class Decoding(PassingOn):
    """Passes everything on, records of internal topics as chunks that say what is in them.

    With `decode` False as they are; without `secrets` what must not be shown is hidden.
    """

    def __init__(self, sink: Sink, *, decode: bool = True, secrets: bool = False) -> None:
        super().__init__(sink)
        self._decode, self._secrets = decode, secrets

    def write(self, item: Item) -> None:
        """Take one item."""
        self._sink.write(decoding(item, decode=self._decode, secrets=self._secrets))


def decoding(item: Item, *, decode: bool = True, secrets: bool = False) -> Item:
    """Give an item back; records of internal topics as a chunk that says what is in them."""
    if isinstance(item, RecordChunk) and (item.place.topic or "__").startswith("__"):
        if decode and not isinstance(item, DecodedChunk):
            from kdump.output.decoded import decoded

            item = decoded(item, secrets=secrets)
        return item if secrets else without_secrets(item)
    if secrets:
        return item
    if isinstance(item, RecordRow):
        return row_without_secrets(item)
    inside = getattr(item, "records", None)  # of kafka-dump-log's forms
    if isinstance(inside, RecordChunk):
        return item._replace(records=without_secrets(inside))  # type: ignore[union-attr, call-arg]
    return item
