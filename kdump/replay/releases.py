"""The release whose rules hold for what lies in a data directory (D14).

The one that was asked for; else the newest that can have written the directory, as its files and
the registrations in its cluster's metadata log date it.

    Releases(None).of("/data")      (2, 8), where a 2.8 broker wrote it
"""

from __future__ import annotations

from collections.abc import Iterable

from kdump.broker.versions import NEWEST, Version
from kdump.storage import places


class Releases:
    """Gives the release for each data directory; goes to workers with what was dated so far.

    `given` holds for all. `others` are data directories that may be of the same nodes, or have
    their cluster's metadata log.
    """

    def __init__(self, given: Version | None = None, others: Iterable[str] = ()) -> None:
        self._given = given
        self._others = tuple(others)
        self._found: dict[str, tuple[Version, Version]] = {}

    def of(self, directory: str) -> Version:
        """Return the release for what lies in a data directory, or in a folder that is none."""
        return self.range_of(directory)[1]

    def range_of(self, directory: str) -> tuple[Version, Version]:
        """Return the oldest and the newest release that it can be; the one asked for as both.

        Of a folder without anything that only a broker writes, nothing bounds the oldest.
        """
        if self._given is not None:
            return self._given, self._given
        place = places.real(directory)
        if place not in self._found:
            from kdump.replay.written_by import writers

            self._found[place] = NEWEST, NEWEST  # once: dating may fail
            self._found[place] = writers(directory, self._others)
        return self._found[place]

    def newest(self, directories: Iterable[str]) -> Version:
        """Return the newest release of some data directories, for what is done to them at once."""
        return max(map(self.of, directories), default=self._given or NEWEST)
