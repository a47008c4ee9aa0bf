"""Replace names of topics, groups, hosts and principals by others, each always by the same."""

from __future__ import annotations

import re
from collections.abc import Iterable

_WORD = re.compile(r"[\w.-]+")
_CUTS = re.compile(r"[.-]")
_ADDRESS = re.compile(
    r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])|(?<![\w:])[0-9a-fA-F:]*::[0-9a-fA-F:]*"
)


class Pseudonyms:
    """Takes names as they are met; `hide` replaces them in any text once all are known.

    Internal topics keep their names. Numbers go by the order of the names.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        disks = {path: f"DISK-{at}" for at, path in enumerate(paths, 1)}
        self._paths = dict(sorted(disks.items(), key=lambda one: -len(one[0])))
        self._names: dict[str, str] = {}
        self._new: dict[str, str] | None = None
        self._odd: re.Pattern[str] | None = None

    def add(self, kind: str, name: object) -> None:
        """Take a name of a kind: topic, group, host or principal."""
        if isinstance(name, str) and name and not (kind == "topic" and name.startswith("__")):
            self._names.setdefault(name, kind)

    def hide(self, text: str) -> str:
        """Replace all names in a text."""
        if self._new is None:
            self._settle()
        for path, new in self._paths.items():
            text = text.replace(path, new)
        assert self._new is not None
        if self._odd is not None:
            text = self._odd.sub(self._other, text)
        return _ADDRESS.sub("HOST", _WORD.sub(self._word, text))

    def _settle(self) -> None:
        counts: dict[str, int] = {}
        self._new = {}
        for name, kind in sorted(self._names.items()):
            counts[kind] = counts.get(kind, 0) + 1
            self._new[name] = f"{kind.upper()}-{counts[kind]}"
        odd = sorted((name for name in self._new if not _WORD.fullmatch(name)), key=len)
        if odd:
            self._odd = re.compile("|".join(map(re.escape, reversed(odd))))

    def _other(self, match: re.Match[str]) -> str:
        assert self._new is not None
        return self._new[match[0]]

    def _word(self, match: re.Match[str]) -> str:
        """Replace the longest names that a word consists of, cut at its dots and hyphens."""
        word, new = match[0], self._new
        assert new is not None
        if word in new:
            return new[word]
        cuts = [cut.start() for cut in _CUTS.finditer(word)]
        for start in (0, *(cut + 1 for cut in cuts)):
            for end in (*reversed([cut for cut in cuts if cut > start]), None):
                if end is None and start == 0:
                    continue
                if (name := word[start:end]) in new:
                    rest = "" if end is None else word[end] + _WORD.sub(self._word, word[end + 1 :])
                    return word[:start] + new[name] + rest
            tail = word[start:]
            if start and tail in new:
                return word[:start] + new[tail]
        return word
