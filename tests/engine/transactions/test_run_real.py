"""Transactions as a replay has them, against what the admin client said of them."""

import json
from pathlib import Path
from typing import Any

import pytest
from corpus import corpus, find_expected, read_moments
from each import each

from kdump.engine.transactions.run import TransactionOptions, transactions
from kdump.findings.rows import Row
from kdump.replay.coordinators import partition_for

#: What only a broker's memory has, so that a replay cannot have it: where, what.
MEMORY_ALONE: dict[str, str] = {}
COPIES = {"clean": 11, "killed": 13}  # moments that each copy holds
MODERN = ("clean", "killed", "live", "recovered")


def directories(root: Path) -> list[str]:
    return sorted(str(path.parent) for path in root.rglob("meta.properties"))


def run_transactions(root: Path, **asked: Any) -> dict[str | None, dict[str, Any]]:
    """Replay transactions: transactional id -> its row."""
    found: dict[str | None, dict[str, Any]] = {}
    for item in transactions(directories(root), TransactionOptions(**asked)):
        assert isinstance(item, Row), item
        assert item.fields["transactional_id"] not in found
        found[item.fields["transactional_id"]] = item.fields
    return found


def places(listed: list[dict[str, Any]]) -> list[str]:
    return sorted(f"{one['topic']}-{one['partition']}" for one in listed)


def assert_described(found: dict[str | None, dict[str, Any]], said: dict[str, Any]) -> None:
    """Compare with what `describeTransactions` answered."""
    assert found.keys() == said.keys()
    for name, about in said.items():
        ours = found[name]
        assert {
            "producer_id": ours["producer_id"],
            "epoch": ours["producer_epoch"],
            "state": ours["state"],
            "timeout_ms": ours["timeout_ms"],
            "start_ms": ours["start_ms"],
            "partitions": places(ours["partitions"]),
        } == {
            "producer_id": about["producer_id"],
            "epoch": about["epoch"],
            "state": about["state"],
            "timeout_ms": about["timeout_ms"],
            "start_ms": about.get("start_ms"),
            "partitions": sorted(about["partitions"]),
        }, name


def open_in(found: dict[str | None, dict[str, Any]]) -> set[tuple[str, int, int, int]]:
    return {
        (
            f"{one['topic']}-{one['partition']}",
            row["producer_id"],
            row["producer_epoch"],
            one["first_offset"],
        )
        for row in found.values()
        for one in row["open_in"]
    }


CASES = [(copy, moment) for copy, count in COPIES.items() for moment in read_moments()[:count]]


@pytest.mark.parametrize(
    ("copy", "said"), CASES, ids=[f"{copy}-{said['moment']}" for copy, said in CASES]
)
def test_transactions_match_the_broker_at_each_moment(copy: str, said: dict[str, Any]) -> None:
    found = run_transactions(corpus(f"newest/data/{copy}"), at_ms=said["begin_ms"])
    assert_described(found, said["transactions"])
    for name, row in found.items():
        assert row["state_partition"] == partition_for(str(name), 2)
    open_then = {
        (place, producer["producer_id"], producer["txn_start_offset"])
        for place, producers in said["producers"].items()
        for producer in producers
        if producer.get("txn_start_offset", -1) >= 0
    }
    assert {(place, one, first) for place, one, _, first in open_in(found)} == open_then
    hanging = {
        place
        for row in found.values()
        if row["hanging"]
        for place in places(row["open_in"])
        if place not in places(row["partitions"])
    }
    awaited = {place for one in said["transactions"].values() for place in one["partitions"]}
    assert hanging == {place for place, _, _ in open_then} - awaited
    for row in found.values():
        for one in row["open_in"]:
            stable = said["offsets"][f"{one['topic']}-{one['partition']}"]["latest_rc"]
            assert one["last_stable_offset"] == (stable if isinstance(stable, int) else stable[0])


@each("copy", MODERN)
def test_transactions_match_an_earlier_release(copy: str) -> None:
    said = json.loads(find_expected(f"modern/{copy}/transactions.json").read_text("utf-8"))
    found = run_transactions(corpus(f"modern/data/{copy}"))
    assert_described(found, said)
