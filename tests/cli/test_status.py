"""When several statuses apply, one stands."""

from each import each

from kdump.cli.status import FAIL_ON, fails, first_of
from kdump.findings.finding import Severity


@each(
    ("statuses", "stands"),
    [
        ((), 0),
        ((0, 4), 4),
        ((4, 1), 1),
        ((1, 3), 3),
        ((3, 5), 5),
        ((5, 2, 3, 1, 4, 0), 2),
    ],
)
def test_errors_take_precedence_by_severity(statuses: tuple[int, ...], stands: int) -> None:
    assert first_of(*statuses) == stands


@each(
    ("worst", "fail_on", "failed"),
    [
        (None, "note", False),
        (Severity.NOTE, "note", True),
        (Severity.NOTE, "rebuild", False),
        (Severity.REBUILD, "rebuild", True),
        (Severity.REBUILD, "damage", False),
        (Severity.DAMAGE, "damage", True),
        (Severity.DAMAGE, "never", False),
    ],
)
def test_fail_on_sets_the_status(worst: Severity | None, fail_on: str, failed: bool) -> None:
    assert fails(worst, fail_on) is failed


def test_fail_on_accepts_severities() -> None:
    assert ("never", *(severity.value for severity in Severity)) == FAIL_ON
