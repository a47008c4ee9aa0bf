"""Find the types of SQL for keys and values, by the schemas under some paths."""

from __future__ import annotations

from kdump.engine.reading.options import DumpOptions
from kdump.engine.reading.schemas import with_schemas
from kdump.storage.targets import Selection
from kdump.tuples import NamedTuple


class SqlType(NamedTuple):
    """A type; of Protobuf it is that of some messages."""

    text: str
    messages: frozenset[str]


def sql_types(
    paths: tuple[str, ...], selection: Selection, server_properties: str | None
) -> dict[tuple[str, str], SqlType]:
    """Return what `key` and `value` of topics hold, where the registry's topic is there."""
    asked = DumpOptions(selection=selection, server_properties=server_properties, decode=True)
    source = with_schemas(paths, asked).schemas
    schemas = None if source is None else source.open()
    if schemas is None:
        return {}
    from kdump.values.schemas.shapes import shapes_of_topics, sql_type

    return {
        place: SqlType(sql_type(data.shape), data.messages)
        for place, data in shapes_of_topics(schemas).items()
    }
