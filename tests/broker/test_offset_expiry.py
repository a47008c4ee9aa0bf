"""When committed offsets expire, by version (G6)."""

import pytest
from each import each

from kdump.broker.offset_expiry import KeepReason, expiry_ms, retention_ms
from kdump.broker.versions import NEWEST, Version

KEPT = KeepReason(
    commit_ms=100,
    stated_ms=None,
    has_members=False,
    is_subscribed=False,
    knows_topics=False,
    empty_since_ms=None,
)
DAY_MS = 86_400_000


@pytest.mark.parametrize(("version", "days"), [((1, 1), 1), ((2, 0), 7), (NEWEST, 7)], ids=str)
def test_retention_by_version(version: Version, days: int) -> None:
    assert retention_ms(None, version) == days * DAY_MS
    assert retention_ms(5, version) == 5


@each(
    ("changed", "before", "since"),
    [
        ({}, 110, 110),
        ({"stated_ms": 104}, 104, 104),
        ({"has_members": True}, 110, None),
        ({"has_members": True, "stated_ms": 104}, 104, None),
        ({"has_members": True, "knows_topics": True}, 110, 110),
        ({"has_members": True, "knows_topics": True, "is_subscribed": True}, 110, None),
        ({"empty_since_ms": 150}, 110, 160),
        ({"empty_since_ms": 150, "stated_ms": 104}, 104, 104),
    ],
)
def test_offsets_expire_as_in_the_broker(
    changed: dict[str, int | bool], before: int, since: int | None
) -> None:
    kept = KEPT._replace(**changed)  # type: ignore[arg-type]
    assert expiry_ms(kept, 10, (2, 0)) == before
    assert expiry_ms(kept, 10, (2, 1)) == since
    assert expiry_ms(kept, 10, NEWEST) == since
