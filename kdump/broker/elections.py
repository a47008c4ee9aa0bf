"""Say who can lead a partition, and where a follower cuts its log for a leader (E1 to E4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kdump.tuples import NamedTuple

#: Leader epochs of a log and the offset at which each begins, rising.
Epochs = Sequence[tuple[int, int]]


class Position(NamedTuple):
    """How far a log goes, as a vote holds it against another: last epoch, then log end (E1)."""

    epoch: int
    end: int


def raft_position(
    epochs: Epochs, end: int, snapshots: Iterable[tuple[int, int]]
) -> tuple[Position, bool]:
    """Return how far a metadata log goes, and whether a snapshot takes its place (E2).

    `snapshots` are (epoch, end offset). A newer one than the log's end empties the log at a start.
    """
    epoch = epochs[-1][0] if epochs else 0
    newest = max(snapshots, default=None)
    if newest is not None:
        if newest > (epoch, end):
            return Position(*newest), True
        if not epochs and newest[1] == end:
            return Position(*newest), False
    return Position(epoch, end), False


def is_elected(candidate: Position, others: Iterable[Position], voters: int) -> bool:
    """Say whether enough voters grant their vote: each to whom goes as far as itself (E1)."""
    granted = 1 + sum(candidate >= other for other in others)
    return granted > voters // 2


def cut_point(leader: Epochs, leader_end: int, follower: Epochs, follower_end: int) -> int:
    """Return the offset to which a follower cuts its log before it fetches (E3).

    It asks for the end of its last epoch; where the leader never had that one, the answer is about
    the next lower one, and the follower asks again. Logs without epochs are cut to the shorter.
    """
    end = min(follower_end, leader_end)
    if not leader or not follower:
        return end
    epoch = follower[-1][0]
    end = follower_end
    while True:
        known = [each for each in leader if each[0] <= epoch]
        if not known:
            return min(end, leader[0][1])
        answer = known[-1][0]
        end = min(end, find_epoch_end(leader, answer, leader_end))
        if answer == epoch:
            return end
        own = [each for each in follower if each[0] <= answer]
        if not own:
            return min(end, follower[0][1])
        epoch = own[-1][0]
        end = min(end, find_epoch_end(follower, epoch, follower_end))


def find_epoch_end(epochs: Epochs, epoch: int, end: int) -> int:
    """Where an epoch ends in a log that ends at `end`: at the start of the next one."""
    return next((start for other, start in epochs if other > epoch), end)


def may_lead(isr: Sequence[int], elr: Sequence[int]) -> Sequence[int]:
    """Return whom a controller elects without being told to: whichever is up first (E4)."""
    return isr or elr
