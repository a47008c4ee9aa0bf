"""The strips of offsets: what each copy of a partition has."""

import random

from kdump.output.strip import HAS, NONE, SOME, Extent, strip_lines


def test_strip_shows_ends_holes_and_marks() -> None:
    extents = [Extent("A", 0, 100), Extent("B", 20, 90, [(40, 59)], [(70, 70)]), Extent("C", 0, 0)]
    assert [*strip_lines(extents, 13, high_watermark=95)] == [
        "A  ██████████",
        "B    ██──█▒█",
        "C  no records",
        "   high watermark 95",
        "   offsets 0 to 99, 10 per character",
        "   █ whole, ▒ partial or different, ─ missing",
    ]
    lines = [*strip_lines(extents, 80, high_watermark=95)]
    assert lines[0] == "A  " + HAS * 64
    assert lines[-1].startswith("   offsets 0 to 99, 2 per character, █ whole")
    assert "high watermark 95 ▲" in lines[3]
    assert lines[3].index("▲") == 3 + 95 * 64 // 100


def test_identical_copies_are_not_drawn() -> None:
    assert [*strip_lines([Extent("A", 5, 9), Extent("B", 5, 9)], 80)] == []
    assert [*strip_lines([Extent("A", 5, 5), Extent("B", 7, 7)], 80)] == []
    assert [*strip_lines([Extent("A", 0, 99), Extent("B", 0, 9)], 8)] == []


def test_one_record_in_a_million_is_seen() -> None:
    rng = random.Random(7)
    for _ in range(300):
        start, size = rng.randrange(1 << 40), rng.randrange(1, 1 << rng.randrange(2, 40))
        end, width = start + size, rng.randrange(11, 90)
        first = rng.randrange(start, end)
        lines = [
            *strip_lines(
                [Extent("A", start, end), Extent("B", start, end, [(first, first)])], width
            )
        ]
        if lines:
            assert set(lines[0][3:]) == {HAS}
            assert set(lines[1][3:]) - {HAS} in ({SOME}, {NONE})
        shorter = [*strip_lines([Extent("A", start, end), Extent("B", start, end - 1)], width)]
        if shorter:
            assert shorter[0] != shorter[1].replace("B", "A")
