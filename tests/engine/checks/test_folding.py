"""One damage, one finding; and no list that grows with what a hostile file holds."""

from collections.abc import Iterator
from typing import Any

import pytest
from each import each

from kdump.engine.checks.folding import FINDINGS_A_CODE, fold
from kdump.engine.reading.check import Conditional, Reported, RestsOn
from kdump.findings.finding import Finding, finding

LOG, INDEX = "t-0/00000000000000000000.log", "t-0/00000000000000000000.index"


def gap(
    position: int = 1000, size: int = 100, offset: int = 10, following: int | None = 15
) -> Finding:
    return finding(
        "crc-mismatch",
        path=LOG,
        segment=0,
        position=position,
        size_bytes=size,
        offset=offset,
        next_offset=following,
        lost_at_least=0,
    )


def suspect(**touches: int) -> Conditional:
    found = finding("offset-index-position", path=INDEX, segment=0, position=8)
    return Conditional(found, RestsOn(**touches))


@each(
    "touches",
    [
        {"segment": 0, "position": 1000},
        {"segment": 0, "position": 1099},
        {"segment": 0, "position": 0, "end_position": 1001},
        {"offset": 10},
        {"offset": 14},
        {"offset": 3, "end_offset": 11},
    ],
)
@each("first", [True, False], ids=["before", "behind"])
def test_findings_on_a_bad_range_are_consequences(touches: dict[str, int], first: bool) -> None:
    """Whichever of the two was found first."""
    both: list[Reported] = [suspect(**touches), gap()]
    (found,) = fold(both if first else reversed(both))
    assert found.code == "crc-mismatch"
    assert found.consequences == ("offset-index-position@8",)


@each(
    "touches",
    [
        {"segment": 0, "position": 999},
        {"segment": 0, "position": 1100},
        {"segment": 7, "position": 1000},
        {"offset": 9},
        {"offset": 15},
        {"segment": 0},
    ],
)
def test_findings_on_sound_bytes_are_kept(touches: dict[str, int]) -> None:
    found = fold([gap(), suspect(**touches)])
    assert [one.code for one in found] == ["crc-mismatch", "offset-index-position"]
    assert found[0].consequences == ()


@pytest.mark.parametrize(
    ("gaps", "position"),
    [
        ([gap(5000), gap(1000)], 5050),
        ([gap(1000, 5000), gap(2000)], 3000),  # one inside the other
        ([gap(2000), gap(1000, 5000)], 3000),
    ],
)
def test_one_of_several_bad_ranges_is_the_cause(gaps: list[Finding], position: int) -> None:
    found = fold([*gaps, suspect(segment=0, position=position)])
    widest = max(gaps, key=lambda one: (one.size_bytes, one.position))
    assert [one.consequences for one in found] == [
        ("offset-index-position@8",) if one is widest else () for one in gaps
    ]


def test_other_dependencies_count() -> None:
    found = suspect(segment=0, position=5)
    also = found.touches._replace(also=RestsOn(0, 1050, 1051))
    assert len(fold([gap(), found._replace(touches=also)])) == 1


def test_final_gap_covers_all_later_offsets() -> None:
    assert len(fold([gap(following=None), suspect(offset=10**12)])) == 1


def test_confirmed_suspect_has_consequences() -> None:
    short = finding("log-too-short", path=LOG, segment=0, position=500, offset=7, lost_at_least=1)
    found = fold([suspect(segment=0, position=900), Conditional(short, RestsOn(0, 400, 501))])
    assert [(one.code, one.consequences) for one in found] == [
        ("log-too-short", ("offset-index-position@8",))
    ]


def test_confirmed_suspect_before_other_damage_has_consequences() -> None:
    short = finding("file-vanished", path=LOG.replace("0.log", "9.log"), segment=9)
    odd = finding("record-offset", path=LOG, segment=0, position=500, size_bytes=100, offset=7)
    found = fold([
        gap(5000), gap(6000), short,
        Conditional(odd, RestsOn(0, 500, 501)), suspect(segment=0, position=550),
    ])  # fmt: skip
    assert {one.position: one.consequences for one in found} == {
        5000: (), 6000: (), None: (), 500: ("offset-index-position@8",),
    }  # fmt: skip


def test_notes_and_index_findings_mark_no_bad_range() -> None:
    """Their positions are not those of a log."""
    order = finding("offset-index-order", path=INDEX, segment=0, position=1000, size_bytes=8)
    note = finding("slack-bytes", path=LOG, segment=0, position=1000, size_bytes=100)
    assert len(fold([order, note, suspect(segment=0, position=1000)])) == 3


def test_missing_file_covers_dependent_findings() -> None:
    gone = finding("file-vanished", path=LOG, segment=0)
    (found,) = fold([gone, suspect(segment=0, position=7), suspect(segment=0)])
    assert len(found.consequences) == 2


def test_suspects_of_a_kind_in_a_file_become_one_finding() -> None:
    found = fold(suspect(segment=0, position=at) for at in range(5000))
    assert len(found) == 1
    assert "The same in 4,999 more places." in found[0].message


def test_consequences_are_listed_up_to_twenty() -> None:
    (found,) = fold([gap(), *(suspect(segment=0, position=1001) for _ in range(30))])
    assert len(found.consequences) == 21
    assert found.consequences[-1] == "10 more"


def test_findings_of_a_million_gaps_are_limited() -> None:
    def gaps() -> Iterator[Reported]:
        for number in range(20_000):
            yield gap(200 * number, 100, 10 * number, 10 * number + 5)
        yield suspect(segment=0, position=200 * 19_999)
        yield suspect(offset=150_003)

    found = fold(gaps())
    assert len(found) == FINDINGS_A_CODE
    assert "The same in 19,000 more places." in found[-1].message
    assert [each.more for each in found] == [0] * (FINDINGS_A_CODE - 1) + [19_000]
    assert len(found[-1].consequences) == 2


def test_suspects_over_the_limit_are_counted() -> None:
    def suspects() -> Iterator[Reported]:
        for number in range(3000):
            found = finding("record-offset", path=LOG, segment=0, position=100 * number)
            yield Conditional(found, RestsOn(0, 100 * number, 100 * number + 1))

    found = fold(suspects())
    assert len(found) == FINDINGS_A_CODE
    assert "The same in 2,000 more places." in found[-1].message


def test_highest_possible_offset_is_reported() -> None:
    highest = (1 << 63) - 1
    found = finding(
        "offset-not-rising", path=LOG, segment=0, position=0, offset=highest, expected=highest + 1
    )
    assert fold([found]) == (found,)


def misplaced_finding(code: str, **about: int | None) -> Finding:
    given: dict[str, Any] = {"position": 1000, "size_bytes": 100, "offset": 50, "expected": 10}
    return finding(code, path=LOG, segment=0, **{**given, **about})


@each(
    ("cause", "follow", "stand"),
    [
        # It is where it should not be, and missing from where it should, up to what follows.
        (misplaced_finding("offset-not-rising", next_offset=15), [10, 14, 50], [9, 15, 49, 51]),
        (misplaced_finding("offset-past-next", next_offset=15), [10, 14, 50], [9, 15, 49, 51]),
        (misplaced_finding("offset-not-rising"), [10, 14, 50, 51, 10**12], [9]),
        (misplaced_finding("offset-past-next"), [50], [9, 10, 14, 49, 51]),
        (misplaced_finding("offset-not-rising", next_offset=10), [50], [9, 10, 11]),
        (misplaced_finding("batch-count", next_offset=15), [50], [10, 14, 49, 51]),
        (misplaced_finding("preallocated-tail", next_offset=60), [50, 59], [49, 60]),  # a note
        (misplaced_finding("torn-tail", lost_at_least=0), [50, 10**12], [49]),
        (misplaced_finding("slack-bytes"), [], [50]),
        (misplaced_finding("offset-not-rising", offset=None, next_offset=15), [], [10, 50]),
    ],
)
def test_offsets_covered_by_a_finding(cause: Finding, follow: list[int], stand: list[int]) -> None:
    for offset in follow:
        assert len(fold([cause, suspect(offset=offset)])) == 1, offset
    for offset in stand:
        assert len(fold([cause, suspect(offset=offset)])) == 2, offset


@each(
    ("cause", "follow", "stand"),
    [
        (misplaced_finding("offset-not-rising"), [1000, 1099], [999, 1100]),
        (misplaced_finding("torn-tail", size_bytes=None), [1000], [999, 1001]),
        (misplaced_finding("torn-tail", size_bytes=0), [1000], [999, 1001]),
        (misplaced_finding("log-too-short"), [1000, 10**12], [999]),
        (misplaced_finding("file-shrank"), [1000, 10**12], [999]),
        (misplaced_finding("file-vanished", position=None), [0, 1000, 10**12], []),
        (misplaced_finding("tail-being-written"), [1000, 1099], [999, 1100]),
        (misplaced_finding("slack-bytes"), [], [1000]),
        (misplaced_finding("torn-tail", position=None), [], [0, 1000]),
    ],
)
def test_bytes_covered_by_a_finding(cause: Finding, follow: list[int], stand: list[int]) -> None:
    for position in follow:
        assert len(fold([cause, suspect(segment=0, position=position)])) == 1, position
    for position in stand:
        assert len(fold([cause, suspect(segment=0, position=position)])) == 2, position


def test_consequence_has_its_position_or_its_offset() -> None:
    at = RestsOn(segment=0, position=1000)
    (found,) = fold([
        gap(),
        Conditional(finding("snapshot-differs", path="t-0/1.snapshot", offset=7), at),
        Conditional(finding("snapshot-stray", path="t-0/1.snapshot", offset=7, position=0), at),
        Conditional(finding("snapshot-missing", path="t-0"), at),
    ])  # fmt: skip
    assert found.consequences == ("snapshot-differs@7", "snapshot-stray@0", "snapshot-missing")


def test_suspects_of_other_kinds_or_files_are_separate() -> None:
    other = finding("offset-index-offset", path=INDEX, segment=0, position=8)
    elsewhere = finding("offset-index-position", path=INDEX + "2", segment=0, position=8)
    at = RestsOn(segment=0, position=5)
    found = fold([suspect(segment=0, position=5), Conditional(other, at),
                  Conditional(elsewhere, at), suspect(segment=0, position=6)])  # fmt: skip
    assert [(one.code, one.path, "1 more place" in one.message) for one in found] == [
        ("offset-index-position", INDEX, True),
        ("offset-index-offset", INDEX, False),
        ("offset-index-position", INDEX + "2", False),
    ]


@pytest.mark.parametrize(("count", "more"), [(FINDINGS_A_CODE, None), (FINDINGS_A_CODE + 1, 1)])
def test_findings_above_the_limit_are_counted(count: int, more: int | None) -> None:
    found = fold(gap(200 * number, 100, 10 * number, 10 * number + 5) for number in range(count))
    assert len(found) == FINDINGS_A_CODE
    assert found[-1].more == (more or 0)
    assert ("The same in 1 more place." in found[-1].message) == bool(more)
    every = fold(suspect(segment=0, position=number) for number in range(count))
    assert f"The same in {count - 1:,} more places." in every[0].message
    assert len(every) == 1
