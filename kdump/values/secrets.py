"""Hide secrets in the bytes of records, for everything that shows bytes.

Where keys and values are decoded, the decoder of the topic masks the fields.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from kdump.findings.rows import Place, RecordChunk
from kdump.storage import names
from kdump.values.decoder import decoder_of

Redact = Callable[[bytes], bytes | None]


def redactor(place: Place) -> Redact | None:
    """Return what hides secrets in values of a place; None where no record can hold one.

    A log without a name may be one of the metadata log: what reads as one of its records to the end
    is taken for it.
    """
    topic = place.topic or _topic_by_name(place.path)
    if topic is not None:
        decoder = decoder_of(topic)
        return None if decoder is None else decoder.redact
    from kdump.messages.secrets import blot_fields

    return lambda value: blot_fields(value, is_sure=False)


def is_of_metadata(place: Place) -> bool:
    """Whether a place is for sure in the metadata log, so that all its bytes may be secrets."""
    return (place.topic or _topic_by_name(place.path)) == names.CLUSTER_METADATA_TOPIC


def without_secrets(chunk: RecordChunk, redact: Redact) -> RecordChunk:
    """Return records with the values hidden that hold secrets; mostly the same chunk."""
    data: bytearray | None = None
    view = memoryview(chunk.data)
    for number in chunk.numbers:
        if is_sound(chunk.control(number)):
            continue
        start, size = chunk.records.value_position(number), chunk.records.value_size(number)
        if size > 0 and (hidden := redact(bytes(view[start : start + size]))) is not None:
            data = data or bytearray(view)
            data[start : start + size] = hidden
    if data is None:
        return chunk
    return RecordChunk(
        chunk.place, bytes(data), chunk.batches, chunk.records, chunk.rows, chunk.controls,
        chunk.format,
    )  # fmt: skip


def is_sound(control: dict[str, object] | None) -> bool:
    """Whether a record is a sound control record, which holds no secrets."""
    return control is not None and "malformed" not in control


def _topic_by_name(path: str) -> str | None:
    """Return the topic of a file without a place in a partition, by its name or its directory's."""
    above, name = os.path.split(path)
    if names.parse(name).kind is names.Kind.METADATA_SNAPSHOT:
        return names.CLUSTER_METADATA_TOPIC
    found = names.parse_directory(os.path.basename(os.path.abspath(above)))
    return None if found is None else found.topic
