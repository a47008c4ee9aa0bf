"""The table that sums up many findings."""

from kdump.findings.finding import Finding, finding
from kdump.output.verify_overview import overview_lines


def loss(code: str, offset: int, least: int, most: int | None) -> Finding:
    return finding(
        code,
        path="orders-0",
        topic="orders",
        partition=0,
        offset=offset,
        lost_at_least=least,
        lost_at_most=most,
    )


def lost(*findings: Finding) -> list[str]:
    *_, row = overview_lines(findings, 80)
    return row.split()[3:]


def test_what_a_start_removes_is_counted_once() -> None:
    damaged = loss("crc-mismatch", 349, 6, None)
    assert lost(damaged) == ["6+", "349"]
    removed = loss("start-loses-records", 349, 6, 6)
    assert lost(damaged, removed) == ["6", "349"]
    before = loss("crc-mismatch", 100, 3, 3)
    assert lost(before, damaged, removed) == ["9", "100"]
    assert lost(before, loss("crc-mismatch", 348, 1, None), removed) == ["10+", "100"]
