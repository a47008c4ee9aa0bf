"""List the data directories around replicas, each once for all of its partitions."""

from __future__ import annotations

import time
from typing import NamedTuple

from kdump.errors import PathError
from kdump.storage import places
from kdump.storage.about import DirectoryFacts, facts_of
from kdump.storage.log_dir import LogDir

#: A data directory is listed again after so many seconds: checkpoints change under a broker.
_SECONDS = 30.0
_MOST = 64


class Around(NamedTuple):
    """A data directory: its listing, if it can be listed, and whose it is."""

    directory: LogDir | None
    facts: DirectoryFacts


#: In each worker its own; partition after partition asks for the same few.
_known: dict[str, tuple[Around, float]] = {}


def around(partition: str) -> Around:
    """Look at the data directory in which a partition's directory lies."""
    path = places.parent(partition)
    now = time.monotonic()
    known = _known.get(path)
    if known is not None and now - known[1] < _SECONDS:
        return known[0]
    try:
        directory = LogDir.open(path)
    except PathError:
        directory = None
    found = Around(directory, facts_of(path))
    if len(_known) >= _MOST:
        _known.clear()
    _known[path] = found, now
    return found


def forget() -> None:
    """Begin anew: what an earlier run saw may be long past."""
    _known.clear()
