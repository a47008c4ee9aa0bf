"""Tell internal topics by what their first records say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kdump.kernels import columns as c
from kdump.messages.records import decoders
from kdump.record.batch import read_batch
from kdump.record.frames import Run
from kdump.replay.coordinators import partition_for
from kdump.storage import names
from kdump.storage.raw_image import RawImage
from kdump.storage.source import Source

if TYPE_CHECKING:
    from kdump.engine.salvage.carving import Extent

_LOOKED_AT = 200  # records
_PARTITIONS = 50  # of coordinators' topics, unless a cluster was set up otherwise (G1)
_KEYS, _KEY_BYTES = 3, 60
_AGREEING = 3  # so many names that lead to one of these partitions show that it was not
#: Topics of coordinators, and the member of their keys that a partition is chosen by.
_COORDINATORS = {"__consumer_offsets": "group", "__transaction_state": "transactionalId"}


def internal_topic(extent: Extent, limit: int) -> tuple[str, int] | None:
    """Say of which partition of an internal topic some batches are; None where of none."""
    pairs = [pair for _, pair in zip(range(_LOOKED_AT), _pairs(extent, limit), strict=False)]
    if not pairs:
        return None
    read_value = decoders(names.CLUSTER_METADATA_TOPIC)[1]
    if all(key is None and value is not None for key, value in pairs):
        said = [read_value(None, value) for _, value in pairs if value is not None]
        if all(one.data is not None and not one.rest for one in said):
            return names.CLUSTER_METADATA_TOPIC, 0
    for topic, member in _COORDINATORS.items():
        told = {_name(topic, member, key) for key, _ in pairs}
        found = {partition_for(name, _PARTITIONS) for name in told if name is not None}
        if None not in told and len(told) >= _AGREEING and len(found) == 1:
            return topic, found.pop()
    return None


def topics_by_id(extents: Iterable[Extent], limit: int) -> dict[str, str]:
    """Give the names that records of the metadata of a cluster give to topic ids."""
    read_value = decoders(names.CLUSTER_METADATA_TOPIC)[1]
    found: dict[str, str] = {}
    for extent in extents:
        for _, value in _pairs(extent, limit):
            said = None if value is None else read_value(None, value)
            if said is not None and said.type == "topic_record" and said.data is not None:
                found[str(said.data["topicId"])] = str(said.data["name"])
    return found


def sample_keys(extent: Extent, limit: int) -> list[str]:
    """Give some different keys of the first records, as text and in short."""
    found: dict[str, None] = {}
    for _, (key, _value) in zip(range(_LOOKED_AT), _pairs(extent, limit), strict=False):
        if key is not None:
            found.setdefault(key[:_KEY_BYTES].decode("utf-8", "backslashreplace"))
        if len(found) == _KEYS:
            break
    return list(found)


def _name(topic: str, member: str, key: bytes | None) -> str | None:
    """Return the name that a key is about, None where it is no such key."""
    said = None if key is None else decoders(topic)[0](key)
    if said is None or said.data is None or said.rest:
        return None
    name = said.data.get(member)
    return name if isinstance(name, str) else None


def _pairs(extent: Extent, limit: int) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Yield keys and values of the records that are not control records."""
    if len(extent.pieces) > 1:
        return
    with Source(extent.path) as source:
        for run in RawImage(source, limit=limit).walk(extent.position, extent.end):
            if not isinstance(run, Run):
                continue
            for row in range(run.batches.count):
                if run.batches.flags_of(row) & c.CONTROL:
                    continue
                for piece in read_batch(run.data, run.base, run.batches, row, limit=limit):
                    records = piece.records
                    for number in range(records.count):
                        yield records.key(piece.data, number), records.payload(piece.data, number)
