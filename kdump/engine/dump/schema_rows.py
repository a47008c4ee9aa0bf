"""Make rows of what internal topics add up to: the schemas of a registry, and connectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kdump.engine.dump.connect_rows import connect_rows
from kdump.engine.reading.schemas import REGISTRY_TOPIC
from kdump.rows.by_schema import SchemaRow
from kdump.rows.row import Row

if TYPE_CHECKING:
    from kdump.engine.reading.options import DumpOptions


def rows_of(topics: Iterable[str | None], options: DumpOptions) -> Iterator[Row]:
    """Yield the rows of those of some topics that add up to any."""
    source = options.schemas
    opened = None if source is None else source.open()
    if opened is not None and opened.registry is not None and REGISTRY_TOPIC in topics:
        for one in opened.registry:
            guid = one.guid.hex()
            yield SchemaRow(
                one.subject,
                one.version,
                one.id,
                f"{guid[:8]}-{guid[8:12]}-{guid[12:16]}-{guid[16:20]}-{guid[20:]}",
                one.type,
                [
                    {"name": name, "subject": subject, "version": version}
                    for name, subject, version in one.references
                ],
                one.deleted != "no",
                "live" if one.deleted == "no" else one.deleted,
                one.offset,
                one.text,
            )
    if source is not None:
        named = sorted(one for one in topics if one is not None)
        yield from connect_rows(source, named, secrets=options.show_secrets)
