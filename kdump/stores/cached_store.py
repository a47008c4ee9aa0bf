"""List a store's directories once and answer for their entries from that for some seconds.

Readers ask of many files whether they are there: a request each, of a store that answers in tens of
milliseconds, for what one listing has said already.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock

from kdump.stores.store import Entry, RangedFile, Status, Store

#: How long a listing answers for its entries, and how long for being asked again as a whole.
ENTRIES_SECONDS = 10.0
LISTING_SECONDS = 2.0
#: How many directories are listed at the same time, where there are many.
LISTED_AT_ONCE = 8
_KEPT = 4 * LISTED_AT_ONCE


class CachedStore:
    """Asks a store, and remembers its listings."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self.store = store
        self._clock = clock
        self._lock = Lock()  # of the next, by threads that list
        self._listings: dict[str, tuple[float, dict[str, Status]]] = {}  # the oldest use first

    def status(self, path: str) -> Status | None:
        """Say what lies at a path; None for nothing."""
        above, _, name = path.rpartition("/")
        if not name or above not in self._listings or "?" in path:  # no listing has a query
            return self.store.status(path)
        try:
            return self._listing(above, ENTRIES_SECONDS).get(name)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def entries(self, path: str, uri: str, *, fresh: bool = False) -> list[Entry]:
        """List a directory; what names it is put before the entries' names."""
        prefix = uri if uri.endswith("/") else uri + "/"
        listing = self._listing(path, -1.0 if fresh else LISTING_SECONDS)
        return [Entry(name, prefix + name, status) for name, status in listing.items()]

    def open(self, path: str) -> RangedFile:
        """Open a file for reading."""
        try:
            file = self.store.open(path)
        except FileNotFoundError:
            self.forget(path)
            raise
        listing, name = self._parent_listing(path)
        if name in listing and listing[name].st_size != file.size:
            listing[name] = listing[name]._replace(st_size=file.size)
        return file

    def forget(self, path: str) -> None:
        """Take note that what was listed of a path is no longer so."""
        listing, name = self._parent_listing(path)
        listing.pop(name, None)

    def _parent_listing(self, path: str) -> tuple[dict[str, Status], str]:
        above, _, name = path.rpartition("/")
        return self._listings.get(above, (0.0, {}))[1], name

    def _listing(self, path: str, seconds: float) -> dict[str, Status]:
        now = self._clock()
        with self._lock:
            taken, listing = self._listings.pop(path, (float("-inf"), {}))
        if now - taken > seconds:
            try:
                listing = dict(self.store.entries(path))
            except FileNotFoundError:
                self.forget(path)
                raise
            taken = now
        with self._lock:
            self._listings[path] = (taken, listing)
            while len(self._listings) > _KEPT:
                del self._listings[next(iter(self._listings))]
        return listing
