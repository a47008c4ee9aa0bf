"""Find what nodes of ZooKeeper held last, in its transaction logs and snapshots.

Both write a node as its path, with its size before it, and its data in the same way: a transaction
that creates a node or sets its data, and an entry of a snapshot. So nothing else of them is read. A
node that was deleted is found as it was before, as long as ZooKeeper has not purged the log.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from kdump.errors import PathError
from kdump.storage import places
from kdump.storage.source import Source

_NAME = re.compile(r"(log|snapshot)\.([0-9a-f]{1,16})\Z")
_VERSION_FOLDER = "version-2"
_BLOCK_BYTES = 4 << 20
_NODE_BYTES = 1 << 20  # the most that ZooKeeper takes for one
_FILES = 100


def newest_values(directories: Iterable[str], nodes: Sequence[str]) -> dict[str, bytes]:
    """Give the last JSON that each node had; what is in no file is left out."""
    files = sorted(file for each in directories for file in _files(each))
    found: dict[str, bytes] = {}
    for _, _, path in files[-_FILES:]:
        for node in nodes:
            with suppress(PathError):
                for data in _values(path, node):
                    found[node] = data
    return found


def is_folder(directory: str) -> bool:
    """Whether a directory is ZooKeeper's, whose name could be that of a partition."""
    return os.path.basename(directory) == _VERSION_FOLDER and any(
        os.path.dirname(path) == directory for _, _, path in _files(directory)
    )


def _files(directory: str) -> Iterator[tuple[bool, int, str]]:
    """Name snapshots and then logs, the oldest first."""
    for folder in (directory, os.path.join(directory, _VERSION_FOLDER)):
        try:
            names = places.listdir(folder)
        except (OSError, PathError):
            continue
        for name in names:
            if found := _NAME.match(name):
                yield found[1] == "log", int(found[2], 16), os.path.join(folder, name)


def _values(path: str, node: str) -> Iterator[bytes]:
    """Yield the JSON objects behind a node's path, in the order of the file."""
    name = node.encode("utf-8", "surrogateescape")
    wanted = len(name).to_bytes(4, "big") + name
    with Source(path) as source:
        position = 0
        while position < source.size:
            position = source.next_data(position)
            block = source.read(position, _BLOCK_BYTES + _NODE_BYTES + len(wanted))
            at = block.find(wanted)
            while 0 <= at < _BLOCK_BYTES:
                start = at + len(wanted) + 4
                size = int.from_bytes(block[start - 4 : start], "big", signed=True)
                data = block[start : start + size] if 0 < size <= _NODE_BYTES else b""
                with suppress(ValueError):
                    if isinstance(json.loads(data), dict):
                        yield data
                at = block.find(wanted, at + 1)
            position += _BLOCK_BYTES
