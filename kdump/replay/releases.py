"""The release whose rules hold for what lies in a data directory (D14).

The one that was asked for; else the newest that can have written the directory, as its files and
the registrations in its cluster's metadata log date it.

    Releases(None).of("/data")      (2, 8), where a 2.8 broker wrote it
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kdump.broker.versions import NEWEST, Version, same_answer, text_of
from kdump.storage import places

if TYPE_CHECKING:
    from kdump.findings.rows import Row
    from kdump.rows.words import Oldest

    Answer = TypeVar("Answer", bound=Row)


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
        if directory in self._found:
            return self._found[directory]
        place = places.real(directory)
        if place not in self._found:
            from kdump.replay.directory_releases import writers

            self._found[place] = NEWEST, NEWEST  # once: dating may fail
            self._found[place] = writers(directory, self._others)
        self._found[directory] = self._found[place]
        return self._found[place]

    def restrict_to(self, directory: str) -> Releases:
        """Return what holds for one data directory, as it was found: no more is read."""
        found = Releases(self._given)
        if self._given is None:
            found._found[places.real(directory)] = self.range_of(directory)
        return found

    def answer(
        self, directory: str, ask: Callable[[Version], Answer], members: Iterable[str]
    ) -> Answer:
        """Return what the newest release answers, with what the oldest does where they differ.

        Only these members are compared. The row has a member `oldest`.
        """
        first, last = self.range_of(directory)
        row, is_same = same_answer(partial(ask, last), [(last, first)])
        return row if is_same else with_oldest(row, first, ask(first), members)

    def newest(self, directories: Iterable[str]) -> Version:
        """Return the newest release of some data directories, for what is done to them at once."""
        return max(map(self.of, directories), default=self._given or NEWEST)


def with_oldest(row: Answer, first: Version, older: Row, members: Iterable[str]) -> Answer:
    """Return a row with what the oldest release answers, where that differs in some members."""
    differ: Oldest = {name: older.get(name) for name in members if older.get(name) != row.get(name)}
    if not differ:
        return row
    return row.replaced(oldest={"broker_version": text_of(first), **differ})
