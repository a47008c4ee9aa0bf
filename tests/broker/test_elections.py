"""Votes, positions of metadata logs, cuts of followers, and whom a controller may elect."""

import random

from each import each

from kdump.broker.elections import Position, cut_point, is_elected, may_lead, raft_position

Log = list[int]  # the leader epoch of each offset


def epochs(log: Log) -> list[tuple[int, int]]:
    return [(epoch, at) for at, epoch in enumerate(log) if not at or log[at - 1] != epoch]


def test_newer_epoch_outranks_a_higher_log_end() -> None:
    assert raft_position([(1, 0), (3, 90)], 100, []) == (Position(3, 100), False)
    assert Position(3, 100) > Position(2, 500)
    assert Position(3, 100) < Position(3, 101)


def test_newer_snapshot_replaces_the_log() -> None:
    log = [(2, 0)]
    assert raft_position(log, 50, [(2, 40), (1, 10)]) == (Position(2, 50), False)
    assert raft_position(log, 50, [(2, 50)]) == (Position(2, 50), False)
    assert raft_position(log, 50, [(2, 51)]) == (Position(2, 51), True)
    assert raft_position(log, 50, [(3, 20)]) == (Position(3, 20), True)
    assert raft_position([], 70, [(4, 70)]) == (Position(4, 70), True)
    assert raft_position([], 0, []) == (Position(0, 0), False)


@each(
    ("others", "voters", "elected"),
    [([], 1, True), ([], 3, False), ([(2, 10)], 3, True), ([(2, 11)], 3, False),
     ([(2, 11), (2, 9)], 3, True), ([(2, 11), (3, 1)], 3, False), ([(2, 1), (2, 1)], 5, True),
     ([(2, 1)], 4, False)],
)  # fmt: skip
def test_leader_needs_more_than_half_of_the_votes(
    others: list[tuple[int, int]], voters: int, elected: bool
) -> None:
    candidate = Position(2, 10)
    assert is_elected(candidate, [Position(*other) for other in others], voters) is elected


def test_truncation_point_is_where_logs_diverge() -> None:
    """Logs as elections make them: each leader goes on from its own, others are cut and copy."""
    draw = random.Random(3)
    for _ in range(3000):
        logs: list[Log] = [[], [], []]
        for epoch in range(draw.randint(1, 6)):
            leader = draw.choice(logs)
            leader += [epoch] * draw.randint(1, 4)
            for log in logs:
                if log is not leader and draw.random() < 0.6:
                    upto = draw.randint(0, len(leader))
                    if upto >= count_common(log, leader) or log == leader[: len(log)]:
                        log[:] = leader[: max(upto, count_common(log, leader))]
        for leader in logs:
            for follower in logs:
                cut = cut_point(epochs(leader), len(leader), epochs(follower), len(follower))
                assert cut <= count_common(leader, follower) or not leader or not follower
                if leader and follower:
                    assert cut == count_common(leader, follower), (leader, follower)


def count_common(one: Log, other: Log) -> int:
    """How many offsets two logs have in common."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def test_logs_without_epochs_are_truncated_to_the_shorter() -> None:
    assert cut_point([], 10, [], 7) == 7
    assert cut_point([(1, 0)], 10, [], 12) == 10


def test_leader_with_a_later_log_start() -> None:
    assert cut_point([(5, 100)], 120, [(2, 0)], 110) == 100
    assert cut_point([(5, 100)], 120, [(2, 0), (4, 90)], 95) == 95
    assert cut_point([(2, 0)], 50, [(5, 40)], 60) == 40


def test_eligible_replicas_lead_without_in_sync_replicas() -> None:
    assert may_lead((2, 3), (1,)) == (2, 3)
    assert may_lead((), (1,)) == (1,)
