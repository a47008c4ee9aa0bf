"""What a reader of a small file found wrong; the engine makes a finding of each."""

from __future__ import annotations

from kdump.tuples import NamedTuple


class Problem(NamedTuple):
    """One thing wrong in a file, both sides of the comparison with it.

    `code` is a word of the findings' catalogue. The same thing wrong in many places of one file is
    one problem: the first place, and how many there are.
    """

    code: str
    position: int | None
    size_bytes: int | None
    expected: object
    actual: object
    places: int = 1
