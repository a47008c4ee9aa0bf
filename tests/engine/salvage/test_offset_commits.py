"""Offsets of groups are committed once, whatever is killed or lost meanwhile.

A cluster that is none: it loses questions and answers, and its consumers begin as soon as they find
the offset that was translated for them. Whoever commits may never send one of them back.
"""

import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from long_runs import LONG

from kdump.client.group_offsets import COMMITTED, HAS_MEMBERS, UNCLEAR, GroupOffsets, Place
from kdump.engine.salvage import offset_commits
from kdump.engine.salvage.offset_commits import TranslatedOffset, commit_offsets
from kdump.engine.salvage.state import State
from kdump.errors import KdumpError, RefusedError
from kdump.findings.rows import Row

RUNS = 5000 if LONG else 20


class KilledError(Exception):
    pass


class Groups:
    """What groups have committed in a cluster, and what befalls a request."""

    def __init__(
        self, rng: random.Random, plan: list[TranslatedOffset], *, calm: bool = False
    ) -> None:
        self.rng = rng
        self.calm = calm
        self.has: dict[Place, int] = {}
        self.members: set[str] = set()
        self.new = {one.place: one.new for one in plan}
        self.gone_on: set[Place] = set()

    def fetch(self, places: Iterable[Place]) -> dict[Place, int | str | None]:
        self._befall()
        return {
            place: UNCLEAR if not self.calm and self.rng.random() < 0.1 else self.has.get(place)
            for place in places
        }

    def commit(self, offsets: Mapping[Place, int]) -> dict[Place, str]:
        self._befall()
        answers = {}
        for place, offset in offsets.items():
            assert place not in self.gone_on, "a consumer was sent back"
            assert offset == self.new[place]
            if place.group in self.members:
                answers[place] = HAS_MEMBERS
                continue
            fate = 1.0 if self.calm else self.rng.random()
            if fate > 0.1:
                self.has[place] = offset
            answers[place] = COMMITTED if fate > 0.2 else UNCLEAR
        self._befall()
        return answers

    def _befall(self) -> None:
        if self.calm:
            return
        for place, offset in self.has.items():
            if offset == self.new[place] and self.rng.random() < 0.05:
                self.has[place] += self.rng.randrange(1, 9)
                self.gone_on.add(place)
        if self.rng.random() < 0.2:
            raise KilledError


def make_plan(groups: int) -> list[TranslatedOffset]:
    return [
        TranslatedOffset(Place(f"group-{number}", "orders", at), 10 * number + at, 5 * number + at)
        for number in range(groups)
        for at in range(1 + number % 3)
    ]


def came(groups: Groups, path: Path, plan: list[TranslatedOffset]) -> list[Row | KdumpError]:
    with State(str(path), "cluster") as state:
        offsets = cast("GroupOffsets", groups)
        return list(commit_offsets(offsets, "b:9092", state, plan, lambda: None))


def fields(items: list[Row | KdumpError]) -> list[dict[str, Any]]:
    return [dict(item.fields) for item in items if isinstance(item, Row)]


@pytest.mark.parametrize("seed", range(RUNS))
def test_kills_never_move_a_consumer_back(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_commits, "_NAP_SECONDS", 0)
    monkeypatch.setattr(offset_commits, "_AT_ONCE", 3)
    rng = random.Random(f"committing {seed}")
    plan = make_plan(rng.randrange(1, 9))
    groups = Groups(rng, plan)
    groups.has = {one.place: 1000 + one.old for one in plan if rng.random() < 0.5}
    before = {one.place: groups.has.get(one.place) for one in plan}
    while True:
        try:
            items = came(groups, tmp_path / "state", plan)
        except KilledError:
            continue
        break
    rows = fields(items)
    assert [(row["group"], row["partition"]) for row in rows] == [
        (one.place.group, one.place.partition) for one in plan
    ]
    for row in rows:
        place = Place(row["group"], row["topic"], row["partition"])
        if row["outcome"] == "moved":
            assert place in groups.gone_on
        else:
            assert row["outcome"] in ("committed", "committed-before")
            assert row["previous_offset"] == before[place]
            assert (groups.has[place] == row["offset"]) != (place in groups.gone_on)
    assert {row["outcome"] == "moved" for row in rows} >= {
        True for item in items if isinstance(item, KdumpError)
    }


def test_active_members_are_refused_without_side_effects(tmp_path: Path) -> None:
    plan = make_plan(3)
    groups = Groups(random.Random(1), plan, calm=True)
    groups.members = {"group-2"}
    items = came(groups, tmp_path / "state", plan)
    assert [row["outcome"] for row in fields(items)] == ["committed"] * 3 + ["has-members"] * 3
    (error,) = (item for item in items if isinstance(item, KdumpError))
    assert isinstance(error, RefusedError)
    assert str(error).startswith("group group-2: has active members")
    # They commit on their own, and are stopped: it is the user who wants it otherwise.
    groups.members = set()
    groups.has[plan[-1].place] = 77
    items = came(groups, tmp_path / "state", plan)
    assert [row["outcome"] for row in fields(items)] == ["committed-before"] * 3 + ["committed"] * 3
    assert [row["previous_offset"] for row in fields(items)][-1] == 77
    assert groups.has == groups.new


def test_newer_commits_of_others_are_kept(tmp_path: Path) -> None:
    plan = make_plan(1)
    groups = Groups(random.Random(1), plan, calm=True)
    with State(str(tmp_path / "state"), "cluster") as state:
        state.groups = {"group-0": {"orders-0": offset_commits.PendingCommit(3)}}
        state.save()
    groups.has[plan[0].place] = 9
    row, error = came(groups, tmp_path / "state", plan)
    assert isinstance(row, Row)
    assert (row.fields["outcome"], row.fields["previous_offset"]) == ("moved", 9)
    assert isinstance(error, RefusedError)
    told = (
        "kafka-consumer-groups.sh --bootstrap-server b:9092 --group group-0 --reset-offsets "
        "--topic orders:0 --to-offset 0 --execute"
    )
    assert str(error).endswith(told)
    assert groups.has[plan[0].place] == 9


def test_refusal_quotes_the_broker(tmp_path: Path) -> None:
    plan = make_plan(3)[-3:]

    class Refusing(Groups):
        def commit(self, offsets: Mapping[Place, int]) -> dict[Place, str]:
            done = super().commit(offsets)
            return {**done, plan[1].place: "Broker: Group authorization failed"}

    items = came(Refusing(random.Random(1), plan, calm=True), tmp_path / "state", plan)
    assert [row["outcome"] for row in fields(items)] == ["committed", "failed", "committed"]
    (error,) = (item for item in items if isinstance(item, KdumpError))
    assert str(error) == "group group-2: orders-1: Broker: Group authorization failed"
    assert error.status == 1
