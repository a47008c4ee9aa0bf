"""Put the nodes of a cluster in one order of starting, in which the least is lost (E1, E4).

Each partition by itself asks for the node whose log goes furthest to start first, and no two have
to agree. A controller elects the first replica in sync that is up, so a partition is decided by the
first of its nodes to start: of all partitions together these are chosen one after the other, each
time the node with which the least is lost of what is still open.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence

from kdump.engine.compare.commands import node_name, quorum_start
from kdump.findings.shell import format_command, path_word, topic_word
from kdump.rows.compare import Choice, ReplicaElection
from kdump.rows.verify import NodesInOrder
from kdump.tuples import NamedTuple

#: Partitions and commands that are named one by one.
_NAMED = 20
_COMMANDS = 5


class _Stake(NamedTuple):
    """A partition with records at stake: what is lost with each node that may lead it."""

    topic: str | None
    partition: int | None
    best: str
    lost: dict[str, int]
    paths: tuple[str, ...]


class StartOrder:
    """Takes the elections of all partitions, and then has the order."""

    def __init__(self, voters: Sequence[int]) -> None:
        self._voters = frozenset(f"node {number}" for number in voters)
        self._first: list[str] = []  # those with which alone the best log of the quorum can win
        self._nodes: dict[str, None] = {}
        self._stakes: list[_Stake] = []
        self._holders: set[str] = set()  # nodes with partitions of topics
        self._equal = 0

    def add(self, election: ReplicaElection) -> None:
        """Take the choices of one partition."""
        self._nodes.update(dict.fromkeys(map(_node, election.choices)))
        if election.rule == "raft":
            best = _best(election)
            if election.at_stake and best["electable"]:
                self._first = [_node(each) for each in quorum_start(election, best)[0]]
            return
        self._holders.update(map(_node, election.choices))
        if not election.at_stake:
            self._equal += 1
            return
        able = [
            each
            for each in election.choices
            if each["refused"] is None and each["in_sync"] is not False
        ]
        self._stakes.append(
            _Stake(
                election.topic,
                election.partition,
                _node(_best(election)),
                {_node(each): each["records_lost"] for each in able},
                tuple(os.path.dirname(each["path"]) for each in election.choices),
            )
        )

    def fields(self) -> NodesInOrder:
        """Return the members of the order; `steps` is empty where any order will do."""
        steps, decided = self._steps()
        losses = sorted(
            (
                (lost, stake, leaders)
                for stake, leaders in decided
                if (lost := max(stake.lost[node] for node in leaders))
            ),
            key=lambda one: -one[0],
        )
        rest = [node for node in self._nodes if not any(node in step for step in steps)]
        return {
            "steps": [*steps, rest] if steps and rest else steps,
            "partitions_at_stake": len(self._stakes),
            "partitions_equal": self._equal,
            "by_hand_count": len(self._stakes) - len(decided),
            "records_at_stake": sum(max(one.lost.values(), default=0) for one in self._stakes),
            "records_lost": sum(lost for lost, _, _ in losses),
            "losing_count": len(losses),
            "losing": [
                {
                    "topic": stake.topic,
                    "partition": stake.partition,
                    "may_lead": sorted(leaders),
                    "best": stake.best,
                    "records_lost": lost,
                }
                for lost, stake, leaders in losses[:_NAMED]
            ],
            "commands": _salvage_commands(stake for _, stake, _ in losses),
        }

    def _steps(self) -> tuple[list[list[str]], list[tuple[_Stake, list[str]]]]:
        """Return who starts together, step by step, and who may lead which partition then."""
        steps: list[list[str]] = []
        decided: list[tuple[_Stake, list[str]]] = []
        lost, best = Counter[str](), Counter[str]()
        of_node: dict[str, list[_Stake]] = {}
        for stake in self._stakes:
            best[stake.best] += max(stake.lost.values(), default=0)
            lost.update(stake.lost)
            for node in stake.lost:
                of_node.setdefault(node, []).append(stake)
        left = set(map(id, self._stakes))

        def start(together: list[str]) -> None:
            steps.append(together)
            for stake in (one for node in together for one in of_node.pop(node, ())):
                if id(stake) in left:
                    left.discard(id(stake))
                    decided.append((stake, [node for node in together if node in stake.lost]))
                    for node, count in stake.lost.items():
                        lost[node] -= count

        def next_node(among: Iterable[str]) -> str | None:
            able = (node for node in among if any(id(one) in left for one in of_node.get(node, ())))
            return min(able, key=lambda node: (lost[node], -best[node]), default=None)

        if self._first:
            start(self._first)
        while (best_node := next_node(of_node)) is not None:
            together = [best_node]
            if not steps and self._voters and self._voters <= self._holders:
                # Nobody is elected before most voters are up, and brokers are the voters here.
                while len(self._voters & set(together)) <= len(self._voters) // 2:
                    others = sorted(self._voters - set(together), key=lambda one: (lost[one], one))
                    together.append(others[0])
            start(together)
        return steps, decided


def _best(election: ReplicaElection) -> Choice:
    return next(each for each in election.choices if each["path"] == election.leader)


def _node(choice: Choice) -> str:
    """Name a node by its id, else by its data directory."""
    if choice["node_id"] is None:
        return os.path.dirname(str(choice["path"]))
    return node_name(choice)


def _salvage_commands(stakes: Iterable[_Stake]) -> list[str]:
    """Keep what the order loses: one copy that has each record of any replica."""
    commands: list[str] = []
    for stake in stakes:
        if stake.topic is None or stake.partition is None:
            continue
        if len(commands) == _COMMANDS:
            break
        commands.append(
            format_command((
                "kdump", "salvage", "--topic", topic_word(stake.topic),
                "--partition", str(stake.partition),
                "--out", f"SALVAGED-{stake.topic}-{stake.partition}",
                *map(path_word, dict.fromkeys(stake.paths)),
            ))
        )  # fmt: skip
    return commands
