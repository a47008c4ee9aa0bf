"""Of index entries that do not hold, the one by which a lookup goes wrong is told of first."""

from kdump.engine.checks.proof import TRIES, BadEntry, most_harmful_first

ENTRIES = [BadEntry(0, number, 100 * number, None, -1) for number in range(TRIES + 2)]


def list_reported(astray: int) -> list[tuple[int, str | None, bool]]:
    """Let one entry lead astray; give the numbers in the order told, the answers, the first."""

    def wrong_of(entry: BadEntry) -> str | None:
        return "wrong" if entry.number == astray else None

    return [
        (entry.number, wrong, first)
        for entry, wrong, first in most_harmful_first(ENTRIES, wrong_of)
    ]


def test_harmful_entry_is_first_and_the_others_are_summed() -> None:
    rest = [(number, None, False) for number in range(len(ENTRIES)) if number != 2]
    assert list_reported(2) == [(2, "wrong", True), *rest]


def test_first_entry_is_kept_when_none_is_harmful() -> None:
    rest = [(number, None, False) for number in range(1, len(ENTRIES))]
    assert list_reported(TRIES) == [(0, None, True), *rest]


def test_no_finding_without_entries() -> None:
    assert list(most_harmful_first([], lambda entry: entry.number)) == []
