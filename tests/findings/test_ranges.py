"""How ranges of offsets are written in sentences and in tables."""

from kdump.findings.ranges import offsets_clause, offsets_text, range_cell


def test_single_offset_is_one_number() -> None:
    assert range_cell(7, 7) == "7"
    assert range_cell(7, 8) == "7\N{EN DASH}8"
    assert offsets_text(7, 7) == "offset 7"
    assert offsets_text(-4, -3) == "offsets -4 to -3"
    assert offsets_clause(7, 7, "do", "does") == "Offset 7 does"
    assert offsets_clause(7, 1_008, "do", "does") == "Offsets 7-1,008 do"
