"""Where a group goes on behind damage."""

from kdump.engine.verify.ways import MOST, WaysPast
from kdump.findings.finding import Finding, finding


def damage(partition: int | None, served: int | None, offset: int | None) -> Finding:
    one = finding("crc-mismatch", path="/d", topic="t", partition=partition, offset=offset)
    return one._replace(served_from=served)


def test_first_way_of_each_partition_is_the_reset_offset() -> None:
    ways = WaysPast()
    for one in (
        damage(1, 90, 80),
        damage(1, 30, 25),
        damage(1, 30, 20),
        damage(1, 30, None),
        damage(0, 7, None),
        damage(0, None, 9),
        damage(None, 7, 1),
    ):
        ways.add(one)
    assert [tuple(row) for row in ways.rows()] == [
        ("t", 0, 7, None, True),
        ("t", 1, 30, 20, True),
        ("t", 1, 90, 80, False),
    ]


def test_only_the_first_of_very_many_are_kept() -> None:
    ways = WaysPast()
    for served in (*range(1, 2 * MOST), 0):
        ways.add(damage(0, served, served))
    assert [row.offset for row in ways.rows()] == list(range(MOST))
