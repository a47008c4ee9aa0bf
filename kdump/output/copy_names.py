"""Call the copies of partitions A, B, C, so that their paths are written once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from string import ascii_uppercase

from kdump.output.escape import visible
from kdump.storage import places


class CopyNames:
    """Gives the directories that copies lie in a letter each, in the order they come."""

    def __init__(self) -> None:
        self._letters: dict[str, str] = {}

    def introduce(self, paths: Iterable[str]) -> Iterator[str]:
        """Yield a line for each directory that has no letter yet."""
        for path in paths:
            above = places.parent(path)
            if above not in self._letters:
                number = len(self._letters)
                letter = ascii_uppercase[number % 26] + (str(number // 26) if number > 25 else "")
                self._letters[above] = letter
                shown = path.removesuffix(places.file_name(path)).rstrip("/") or "."
                yield visible(f"{letter} = {shown}")

    def of(self, path: str, partition: str) -> str:
        """Return the letter of a copy, with its own name where that is not the partition's."""
        letter, name = self._letters.get(places.parent(path)), places.file_name(path)
        if letter is None:
            return path
        return letter if name == partition else f"{letter}/{name}"

    def replace_paths(self, text: str, paths: Iterable[str], partition: str) -> str:
        """Write a sentence that names paths of copies with their letters."""
        for path in sorted(paths, key=len, reverse=True):
            text = text.replace(path, self.of(path, partition))
        return text
