"""Find the schemas for a run: the registry's topic under its paths, and files of the user's."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from kdump.engine.reading.log_files import logs_of
from kdump.engine.reading.options import DumpOptions
from kdump.errors import KdumpError, PathError, StoreError, UsageError
from kdump.findings.finding import Finding
from kdump.findings.rows import RecordChunk
from kdump.storage.source import Source
from kdump.storage.targets import Selection, Target, resolve
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.values.schemas.framed_values import Schemas
    from kdump.values.schemas.registry import Registry, Schema

REGISTRY_TOPIC = "_schemas"
_TYPES = {".avsc": "avro", ".proto": "protobuf", ".json": "json"}
_MOST_FILE_BYTES = 4 << 20


class SchemaSources(NamedTuple):
    """Where the schemas of a run come from; what workers are handed, who read them again.

    `reports_missing`: a frame without a registry is reported. `run` is a different number for each
    run, so that no run uses what another read.
    """

    paths: tuple[str, ...]
    server_properties: str | None
    given: tuple[str, ...]
    at_ms: int | None
    reports_missing: bool
    run: int
    decoder: str | None = None
    decoder_timeout_s: float = 0.0
    as_latest: bool = False

    def open(self) -> Schemas | None:
        """Return the schemas, read once; None: there are none."""
        return _open(self)


def with_schemas(paths: tuple[str, ...], options: DumpOptions) -> DumpOptions:
    """Return options that decode values by the schemas found."""
    if not options.decode or options.mode != "records" or options.schemas is not None:
        return options
    source = SchemaSources(
        paths,
        options.server_properties,
        options.schema_files,
        options.schemas_at_ms,
        options.schema_rows or bool(options.schema_files),
        time.monotonic_ns(),
        options.decoder,
        options.decoder_timeout_s,
        options.reader_schema == "latest",
    )
    made = DumpOptions()
    vars(made).update(vars(options) | {"schemas": source})
    return made


@lru_cache(2)
def _open(source: SchemaSources) -> Schemas | None:
    topic, places = REGISTRY_TOPIC, source.paths
    files = {}
    for one in source.given:
        named, equals, path = one.partition("=")
        if equals:
            files[named] = path
        elif os.path.exists(one):
            places = (one,)
        else:
            topic = one
    registry = registry_under(places, source.server_properties, topic, source.at_ms)
    if registry is None and source.decoder is None and not (files or source.reports_missing):
        return None
    from kdump.values.schemas.framed_values import Schemas

    given = {name: schema_of(path) for name, path in files.items()}
    command = None
    if source.decoder is not None:
        from kdump.values.schemas.command import Command

        try:
            command = Command(source.decoder, source.decoder_timeout_s)
        except ValueError as error:
            raise UsageError(f"--decoder: {error}") from None
    return Schemas(
        registry, given, command, reports_missing=source.reports_missing, as_latest=source.as_latest
    )


def schema_of(path: str) -> Schema:
    """Read a schema from a file of the user's. Raises UsageError."""
    from kdump.values.schemas.registry import Schema

    type_ = _TYPES.get(os.path.splitext(path)[1])
    if type_ is None:
        raise UsageError(f"--schemas {path}: schema files must end in {', '.join(_TYPES)}")
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_MOST_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"--schemas {path}: {error.strerror}") from None
    except ValueError:
        raise UsageError(f"--schemas {path}: is not UTF-8 text") from None
    return Schema(os.path.basename(path), 0, 0, type_, text)


def registry_under(
    paths: tuple[str, ...], server_properties: str | None, topic: str, at_ms: int | None
) -> Registry | None:
    """Replay the registry's topic under some paths; None where there is none.

    Of several replicas each has what a cleaner took from another, so all are read.
    """
    from kdump.values.schemas.registry import Registry

    found = all_records(paths, server_properties, topic, at_ms)
    if found is None:
        return None
    registry = Registry()
    records, registry.damaged = found
    for (_, offset), record in sorted(records.items()):
        registry.take(offset, *record)
    return registry


#: Keys and values by partition and offset.
_Records = dict[tuple[int, int], tuple[bytes | None, bytes | None]]


def all_records(
    paths: tuple[str, ...], server_properties: str | None, topic: str, at_ms: int | None = None
) -> tuple[_Records, int] | None:
    """Return the records of a topic in all its replicas, and how many findings there are.

    None where there is no such topic.
    """
    found: _Records = {}
    has_topic, damaged = False, 0
    for target in resolve(paths, Selection(topic), server_properties):
        if isinstance(target, KdumpError) or target.topic != topic:
            continue
        has_topic = True
        partition = target.partition or 0
        for item in _records(target):
            if isinstance(item, Finding):
                damaged += 1
                continue
            records, times = item.records, item.records.timestamps
            for number, key, value in records.contents(item.data, item.numbers):
                if at_ms is None or times[number] <= at_ms:
                    found.setdefault((partition, records.offset(number)), (key, value))
    return (found, damaged) if has_topic else None


def _records(target: Target) -> Iterator[RecordChunk | Finding]:
    from kdump.engine.reading.segment_reader import SegmentReader

    options = DumpOptions()
    for file in logs_of(target):
        try:
            with Source(file.path) as source:
                reader = SegmentReader(source, file, options, options.filters, as_stored=True)
                for item in reader.items():
                    if isinstance(item, (RecordChunk, Finding)):
                        yield item
        except (PathError, StoreError):
            continue  # said where the topic itself is read
