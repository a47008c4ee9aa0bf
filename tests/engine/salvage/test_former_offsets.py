"""Which offset of a group counts, by rows of `groups` and by when the topic was deleted."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kdump.client.group_offsets import Place
from kdump.engine.groups.options import GroupOptions
from kdump.engine.salvage import former_offsets as module
from kdump.engine.salvage.copies import Copy, CopySource
from kdump.engine.salvage.former_offsets import FormerOffset, FormerOffsets, LeftOut, summary_row
from kdump.engine.salvage.options import SalvageOptions
from kdump.errors import KdumpError, NothingToDo
from kdump.findings.finding import finding
from kdump.findings.rows import Row
from kdump.rows.groups import CommittedOffset, EndedOffset, Group
from kdump.storage.targets import Selection

RENAMED_MS = 10_000_000
SLACK_MS, AT_ONCE_MS = 120_000, 300_000
OURS, OTHER = "A" * 22, "B" * 22
DELETED = f"orders-0.{'0' * 32}-delete"


def commit(group: str, offset: int | None, at_ms: int = 0, **more: Any) -> Row:
    given = {"topic": "orders", "partition": 0, "pending": False, **more}
    given |= {"leader_epoch": None, "metadata": None, "expire_ms": None, "producer_id": None}
    given |= {"log_start": None, "log_end": None, "high_watermark": None, "lag": None}
    return CommittedOffset(group=group, offset=offset, commit_ms=at_ms, **given)


def make_ended(group: str, offset: int | None, at_ms: int, topic_id: str | None = None) -> Row:
    return EndedOffset(group, "orders", 0, offset, topic_id, at_ms)


def copy(path: str, topic_id: str | None = None, partition: int = 0) -> Copy:
    found = CopySource(path, path, "orders", partition)
    return cast("Copy", SimpleNamespace(found=found, topic_id=topic_id))


class Bench:
    """Chooses from rows; the directory was renamed at `RENAMED_MS`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: list[object] = []
        self.asked: list[tuple[object, GroupOptions]] = []

        def groups(paths: object, asked: GroupOptions) -> Iterator[object]:
            self.asked.append((paths, asked))
            return iter(self.rows)

        monkeypatch.setattr(module, "groups", groups)
        stat = SimpleNamespace(stat=lambda _: SimpleNamespace(st_ctime_ns=RENAMED_MS * 1_000_000))
        monkeypatch.setattr(module, "os", stat)

    def chosen(
        self, rows: Iterable[object], copies: Iterable[Copy], **options: Any
    ) -> tuple[FormerOffsets, list[object]]:
        self.rows = list(rows)
        former = FormerOffsets()
        items = former.read(["p"], SalvageOptions(**options), [[one] for one in copies])
        return former, list(items)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def read_offsets(former: FormerOffsets) -> dict[str, tuple[int | None, str]]:
    found: dict[str, tuple[int | None, str]] = {
        place.group: (offset, "") for place, offset in former.offsets
    }
    return found | {place.group: (offset, why) for place, offset, why in former.left_out}


def test_offsets_that_count_for_a_deleted_topic(bench: Bench) -> None:
    deletion = RENAMED_MS - 5
    long_ago, late = deletion - AT_ONCE_MS, RENAMED_MS + SLACK_MS
    former, _ = bench.chosen(
        [
            make_ended("at-once", 1, deletion),
            make_ended("just-before", 2, long_ago),
            make_ended("before", 3, long_ago - 1),
            make_ended("later", 4, late + 1),
            make_ended("of-another", 5, deletion, OTHER),
            *(
                make_ended("by-its-id", 6, late + 9, OURS),
                make_ended("by-its-id", 7, late + 9, OTHER),
            ),
            make_ended("compacted", None, deletion),
            *(make_ended("again", 8, deletion - 1), make_ended("again", 9, late + 1)),
            commit("untouched", 10, late + 9),
            commit("since", 11, late + 10),
            commit("ours", 12, late + 10, topic_id=OURS),
            commit("theirs", 13, 0, topic_id=OTHER),
            commit("pending", 14, pending=True),
            *(make_ended("again-since", 15, deletion), commit("again-since", 16, late)),
            *(make_ended("ended-and-since", 17, 0), commit("ended-and-since", 18, 5)),
            commit("elsewhere", 19, partition=1),
            commit("of-another-topic", 20, topic="other"),
        ],
        [copy(DELETED, OURS)],
    )
    assert read_offsets(former) == {
        "at-once": (1, ""),
        "just-before": (2, "ended"),
        "before": (3, "ended"),
        "later": (4, "ended"),
        "of-another": (5, "ended"),
        "by-its-id": (6, ""),
        "compacted": (None, "gone"),
        "again": (8, ""),
        "untouched": (10, ""),
        "since": (11, "committed-since"),
        "ours": (12, ""),
        "theirs": (13, "committed-since"),
        "pending": (None, "pending"),
        "again-since": (15, ""),
        "ended-and-since": (18, ""),
    }
    assert former.deleted_ms == late + 9
    former, _ = bench.chosen(
        [
            make_ended("at-once", 1, deletion),
            make_ended("just-before", 2, long_ago),
            make_ended("before", 3, long_ago - 1),
            make_ended("on-the-line", 4, late),
            make_ended("later", 5, late + 1),
            make_ended("compacted", None, late - 9),
            *(make_ended("again", 8, late - 1), make_ended("again", 9, late + 1)),
            *(make_ended("again-since", 15, late), commit("again-since", 16, late)),
        ],
        [copy(DELETED)],
    )
    assert read_offsets(former) == {
        "at-once": (1, ""),
        "just-before": (2, "ended"),
        "before": (3, "ended"),
        "on-the-line": (4, ""),
        "later": (5, "ended"),
        "compacted": (None, "gone"),
        "again": (8, ""),
        "again-since": (15, ""),
    }
    former, _ = bench.chosen(
        [
            make_ended("last", 1, deletion),
            make_ended("just-before", 2, long_ago),
            make_ended("before", 3, long_ago - 1),
        ],
        [copy(DELETED)],
    )
    assert read_offsets(former) == {"last": (1, ""), "just-before": (2, ""), "before": (3, "ended")}
    assert former.deleted_ms == deletion


def test_directory_dates_the_deletion_without_a_tombstone(bench: Bench) -> None:
    rows = [commit("before", 1, RENAMED_MS), commit("since", 2, RENAMED_MS + 1)]
    former, _ = bench.chosen(rows, [copy(DELETED)])
    assert read_offsets(former) == {"before": (1, ""), "since": (2, "committed-since")}
    assert former.deleted_ms == RENAMED_MS
    former, _ = bench.chosen(rows, [copy("s3://bucket/" + DELETED)])  # nobody knows
    assert read_offsets(former) == {"before": (1, ""), "since": (2, "")}
    assert former.deleted_ms is None


def test_offsets_of_live_topics_and_of_a_time_are_found(bench: Bench) -> None:
    rows = [
        *(make_ended("g", 1, 5), commit("g", 2, 9)),
        *(make_ended("ended", 3, 5), make_ended("ended", 4, 6)),
        commit("pending", 5, pending=True),
        commit("none-yet", None),
        *(commit("share", 6), Group("share", "Share", *("",) * 3, *(None,) * 3, 0, 0, None)),
        *(commit("classic", 7), Group("classic", "Classic", *("",) * 3, *(None,) * 3, 0, 0, None)),
        commit("g", 8, partition=1),
        commit("g", 9, partition=2),
    ]
    expected = {
        "ended": (4, "ended"),
        "pending": (None, "pending"),
        "none-yet": (None, "ended"),
        "share": (None, "share-group"),
        "classic": (7, ""),
    }
    live = [copy("orders-0"), copy("orders-2", partition=2)]
    former, items = bench.chosen(rows, live)
    places = [Place("g", "orders", 0), Place("g", "orders", 2)]
    ours = [FormerOffset(place, offset) for place, offset in zip(places, (2, 9), strict=True)]
    assert former.offsets == [FormerOffset(Place("classic", "orders", 0), 7), *ours]
    assert [each.place.group for each in former.left_out] == [
        "ended", "none-yet", "pending", "share",
    ]  # fmt: skip
    assert read_offsets(former) == {**expected, "g": (9, "")}
    assert (items, former.deleted_ms) == ([], None)
    settings = {"server_properties": "s", "decompress_limit": 77, "selection": Selection("orders")}
    former, _ = bench.chosen(rows, [copy(DELETED)], groups_at=33, **settings)
    assert read_offsets(former)["g"] == (2, "")
    assert former.deleted_ms is None
    common = {"selection": Selection("orders", retired=False), "server_properties": "s"}
    assert bench.asked[0] == (
        ["p"],
        GroupOptions(selection=Selection(retired=False), ended=True),
    )
    assert bench.asked[1][1] == GroupOptions(
        **cast("Any", common), at_ms=33, ended=False, decompress_limit=77
    )


def test_errors_and_findings_are_passed_on(bench: Bench) -> None:
    found = finding("source-is-target", path="x")
    error = KdumpError("so")
    former, items = bench.chosen([found, error, commit("g", 1)], [copy("orders-0")])
    assert items == [found, error]
    assert read_offsets(former) == {"g": (1, "")}
    with pytest.raises(NothingToDo):
        bench.chosen([NothingToDo("nothing")], [copy("orders-0")])


def test_deletion_time_is_the_time_of_the_rename(tmp_path: Path) -> None:
    assert module._rename_ms(copy(str(tmp_path))) == tmp_path.stat().st_ctime_ns // 1_000_000
    assert module._rename_ms(copy(str(tmp_path / "gone"))) is None
    assert module._rename_ms(copy("s3://bucket/orders-0")) is None
    first, second = tmp_path / DELETED, tmp_path / "later" / DELETED
    first.mkdir()
    second.mkdir(parents=True)
    earlier = first.stat().st_ctime_ns // 1_000_000
    copies = [copy(str(one), topic_id, at) for one, topic_id, at in (
        (second, None, 0), (first, OURS, 1), ("orders-2", OTHER, 2),
    )]  # fmt: skip
    assert module._topics([copies]) == {
        "orders": module._Topic(OURS, frozenset((0, 1, 2)), True, earlier)
    }


def test_summary_counts_outcomes() -> None:
    former = FormerOffsets()
    former.left_out = [LeftOut(Place("g", "t", 0), None, "gone")]
    words = ["b", "a", "b", "c"]
    applied = frozenset("ab")
    fields = dict(summary_row(words, applied, former, None).fields)
    assert (fields["applied_count"], fields["not_applied_count"]) == (3, 1)
    assert list(cast("dict[str, int]", fields["outcomes"]).items()) == [
        ("a", 1),
        ("b", 2),
        ("c", 1),
    ]
    assert (fields["as_of"], fields["as_of_ms"]) == ("now", None)
    former.deleted_ms = 9
    for at, expected in ((None, ("deletion", 9)), (5, ("time", 5)), (0, ("time", 0))):
        fields = dict(summary_row([], applied, former, at).fields)
        assert (fields["as_of"], fields["as_of_ms"]) == expected
