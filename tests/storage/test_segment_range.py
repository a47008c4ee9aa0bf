"""Which offsets a segment may hold."""

from kdump.storage.offsets import end_of, joins_on


def test_next_segment_ends_a_segment() -> None:
    assert end_of(100, 200) == 200
    assert end_of(100, 100 + 2**40) == 100 + 2**40
    assert end_of(0, 0) == 0


def test_newest_segment_ends_at_the_index_range() -> None:
    assert end_of(100, None) == 100 + 2**31
    assert end_of(None, None) == 2**31
    assert end_of(2**63 - 9, None) == 2**63 - 1


def test_range_that_continues_another() -> None:
    assert joins_on(9, 10)
    assert not joins_on(9, 9)
    assert not joins_on(9, 11)
