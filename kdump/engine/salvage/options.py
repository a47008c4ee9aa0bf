"""Options of a salvage."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from kdump.broker.versions import NEWEST, Version
from kdump.errors import PathError
from kdump.storage.file_records import DEFAULT_LIMIT
from kdump.storage.names import DirectoryName
from kdump.storage.source import whole
from kdump.storage.targets import Selection

NEWEST_EPOCH, LONGEST = "newest-epoch", "longest"


class SalvageOptions(NamedTuple):
    """What is asked for; the names are those of the command line.

    `prefer` is one of the words above or a path; None: as `newest-epoch`, and what no epoch decides
    stays undecided. `names` are the new names of topics by their old ones, and names of partitions
    of what was carved. `carve`: files are images.
    """

    selection: Selection = Selection()
    server_properties: str | None = None
    broker_version: Version = NEWEST
    prefer: str | None = None
    from_offset: int | None = None
    to_offset: int | None = None
    names: Mapping[str, str] = MappingProxyType({})
    topic_id: str | None = None
    topic_configs: bool = True
    out: str | None = None
    carve: bool = False
    decompress_limit: int = DEFAULT_LIMIT


def read_topic_map(path: str) -> dict[str, str]:
    """Read new names of topics: a line `OLD,NEW` for each; empty lines and # comments are none."""
    found = {}
    for line in whole(path, 1 << 20).decode("utf-8", "replace").splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        old, comma, new = (part.strip() for part in line.partition(","))
        if not (old and comma and DirectoryName(new, 0).legal):
            raise PathError(path, f"has a line {line!r}: give OLD,NEW, names that a topic can have")
        found[old] = new
    return found
