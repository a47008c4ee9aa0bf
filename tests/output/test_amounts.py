"""Times for people, in UTC or in the zone that is asked for."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import run

from kdump.output.amounts import second_cell, show_times_at, time_text

SAMPLE = Path(__file__).parents[2] / "sample-data/clean/4.1.1/d1/orders.zstd-0"
TIME = 1_700_000_000_123  # 2023-11-14T22:13:20.123Z


@pytest.fixture
def zone() -> Iterator[None]:
    yield
    show_times_at(0)


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize(
    ("minutes", "text"),
    [
        (0, "2023-11-14T22:13:20.123Z"),
        (120, "2023-11-15T00:13:20.123+02:00"),
        (-210, "2023-11-14T18:43:20.123-03:30"),
    ],
)
def test_a_time_in_a_zone(minutes: int, text: str) -> None:
    show_times_at(minutes)
    assert time_text(TIME) == text
    assert second_cell(TIME) == text.replace(".123", "")
    assert (time_text(-1), second_cell(-1), second_cell(None)) == ("-1", "-1", "-")


def test_zone_applies_to_one_call() -> None:
    words = ["find-offset", "--format", "table", str(SAMPLE), "460"]
    shown = [
        run(*words, *more).stdout
        for more in (["--utc-offset", "-05:00"], ["--utc-offset", "+0200", "--explain"], [])
    ]
    assert "2023-11-15T04:27:38.620-05:00" in shown[0]
    assert "2023-11-15T11:27:38.620+02:00" in shown[1]
    assert "2023-11-15T09:27:38.620Z" in shown[2]
