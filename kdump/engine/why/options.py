"""What `why` is asked for, and what it plans."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.broker.versions import Version
from kdump.storage import places
from kdump.storage.file_records import DEFAULT_LIMIT
from kdump.storage.targets import Selection
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.settings import TopicConfig
    from kdump.engine.why.volumes import FreeRequest


class WhyOptions(NamedTuple):
    """What is asked for. `configs` are settings of topics that count more than all others."""

    now_ms: int
    selection: Selection = Selection()
    server_properties: str | None = None
    topic_configs: bool = True
    configs: tuple[TopicConfig, ...] = ()
    free: tuple[FreeRequest, ...] = ()
    rolls: bool = False
    broker_version: Version | None = None  # None: of each directory, the newest it can be of
    cleaner: bool = False
    decompress_limit: int = DEFAULT_LIMIT
    tier: str | None = None  # where the objects of tiered topics are


class Item(NamedTuple):
    """One partition, one directory of a partition that is gone or to come, or what lies around.

    `kind` is `partition`, `retired` or `around`: the data directory less all partitions in it.
    """

    path: str
    kind: str
    topic: str | None = None
    partition: int | None = None
    size_bytes: int = 0
    bases: frozenset[int] | None = None  # the segments that were named; None: all

    @property
    def directory(self) -> str:
        """The data directory, as it was given."""
        if places.is_uri(self.path):
            return self.path if self.kind == "around" else places.parent(self.path)
        path = os.path.normpath(self.path)
        return path if self.kind == "around" else os.path.dirname(path) or "."
