"""Blot out secrets in the bytes of records, for every form that shows bytes.

The forms that say what a record holds mask its fields (`kdump/messages/secrets.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable

from kdump.findings.rows import DecodedChunk, Place, RecordChunk, RecordRow
from kdump.storage import names


def blotter(place: Place) -> Callable[[bytes], bytes | None] | None:
    """Return what blots values of records of a place; None where no record can hold a secret.

    A log without a name may be one of the metadata log.
    """
    topic = place.topic
    if topic is None:
        topic = _topic_by_name(place.path)
    if topic not in (None, names.CLUSTER_METADATA_TOPIC):
        return None
    from kdump.messages.secrets import blotted

    is_sure = topic is not None
    return lambda value: blotted(value, is_sure=is_sure)


def is_of_metadata(place: Place) -> bool:
    """Whether a place is for sure in the metadata log, so that all its bytes may be secrets."""
    return (place.topic or _topic_by_name(place.path)) == names.CLUSTER_METADATA_TOPIC


def without_secrets(chunk: RecordChunk) -> RecordChunk:
    """Return records with the values blotted that hold secrets; mostly the same chunk."""
    if isinstance(chunk, DecodedChunk) or (blot := blotter(chunk.place)) is None:
        return chunk
    data: bytearray | None = None
    view = memoryview(chunk.data)
    for number in chunk.numbers:
        if _is_control(chunk.control(number)):
            continue
        row = chunk.records.row(number)
        start, size = row[7], row[8]
        if size > 0 and (hidden := blot(bytes(view[start : start + size]))) is not None:
            data = data or bytearray(view)
            data[start : start + size] = hidden
    if data is None:
        return chunk
    return RecordChunk(
        chunk.place, bytes(data), chunk.batches, chunk.records, chunk.rows, chunk.controls,
        chunk.format,
    )  # fmt: skip


def row_without_secrets(row: RecordRow) -> RecordRow:
    """Return a record with its value blotted if that holds a secret."""
    if row.topic not in (None, names.CLUSTER_METADATA_TOPIC) or row.value is None:
        return row
    if _is_control(row.control):
        return row
    from kdump.messages.secrets import blotted

    hidden = blotted(bytes(row.value), is_sure=row.topic is not None)
    return row if hidden is None else row._replace(value=hidden)


def _is_control(control: dict[str, object] | None) -> bool:
    """Whether a record is a sound control record, which holds no secrets."""
    return control is not None and "malformed" not in control


def _topic_by_name(path: str) -> str | None:
    """Return the topic of a file without a place in a partition, by its name or its directory's."""
    above, name = os.path.split(path)
    if names.parse(name).kind is names.Kind.METADATA_SNAPSHOT:
        return names.CLUSTER_METADATA_TOPIC
    found = names.parse_directory(os.path.basename(os.path.abspath(above)))
    return None if found is None else found.topic
