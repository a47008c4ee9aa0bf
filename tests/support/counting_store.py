"""A store of files of this machine that counts what it is asked, and can be told to fail."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kdump.errors import StoreError
from kdump.stores import opening
from kdump.stores.cached_store import CachedStore
from kdump.stores.store import Status


class CountingStore:
    """Serves the files under a directory. `requests` counts what each path was asked.

    `before_read` is called with path, position and size of each read, and may raise.
    """

    files: Any = None

    def __init__(self, root: Path) -> None:
        self._root = root
        self.requests: Counter[tuple[str, str]] = Counter()
        self.read: list[tuple[str, int, int]] = []
        self.before_read: Callable[[str, int, int], None] = lambda path, position, size: None

    def of(self, path: str) -> int:
        """How often a file was asked for anything."""
        return sum(count for (_, asked), count in self.requests.items() if asked == path)

    def at(self, path: str) -> str:
        return str(self._root / path)

    def status(self, path: str) -> Status | None:
        self.requests["status", path] += 1
        return self._status(path)

    def _status(self, path: str) -> Status | None:
        at = self._root / path
        if not at.exists():
            return None
        found = at.stat()
        size = 0 if at.is_dir() else found.st_size
        return Status(at.is_dir(), at.is_file(), size, found.st_mtime_ns)

    def entries(self, path: str) -> Sequence[tuple[str, Status]]:
        self.requests["list", path] += 1
        names = sorted(one.name for one in (self._root / path).iterdir())
        found = ((name, self._status(f"{path}/{name}")) for name in names)
        return [(name, status) for name, status in found if status is not None]

    def open(self, path: str) -> "CountingFile":
        self.requests["open", path] += 1
        return CountingFile(self, path, (self._root / path).read_bytes())


class CountingFile:
    """One of its files, as it was when it was opened."""

    def __init__(self, store: CountingStore, path: str, data: bytes) -> None:
        self._store = store
        self._path = path
        self._data = data
        self.size = len(data)

    def read_at(self, position: int, size: int) -> bytes:
        self._store.requests["read", self._path] += 1
        self._store.read.append((self._path, position, size))
        self._store.before_read(self._path, position, size)
        return self._data[position : position + size]

    def close(self) -> None:
        pass


def no_answer(uri: str) -> StoreError:
    """What a store's failure comes to."""
    return StoreError(uri, "the line is broken")


@contextmanager
def serve_counting_store(root: Path) -> Iterator[CountingStore]:
    """Serve a directory as `counted://files`, in this process alone."""
    store = CountingStore(root)
    key = (os.getpid(), "counted://files")
    opening._open[key] = CachedStore(store)
    try:
        yield store
    finally:
        del opening._open[key]
