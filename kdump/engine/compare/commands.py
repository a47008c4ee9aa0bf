"""Say how a choice of leader is carried out: a sentence, and what is typed for it (E1, E4)."""

from __future__ import annotations

import os
from collections.abc import Sequence

from kdump.findings.shell import (
    BOOTSTRAP,
    CONTROLLER,
    Variable,
    cluster_id_word,
    format_command,
    path_word,
    topic_word,
    uuid_word,
)
from kdump.rows.compare import Choice, ReplicaElection
from kdump.storage import names
from kdump.tuples import NamedTuple


class Registration(NamedTuple):
    """What the metadata log says of a partition, or of the quorum: then `assigned` are its voters.

    `directory_ids` are those of voters that are known by their directory, too; `brokers` are the
    ids of all brokers.
    """

    assigned: tuple[int, ...]
    isr: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    directory_ids: tuple[tuple[int, str], ...] = ()
    brokers: tuple[int, ...] = ()
    cluster_id: str | None = None


def add_advice(row: ReplicaElection, known: Registration, *, alone: bool = True) -> ReplicaElection:
    """Return an election with its advice and commands.

    `alone`: there are no others, whose nodes could not be started in the order of this one.
    """
    best = next(each for each in row.choices if each["path"] == row.leader)
    if row.topic == names.CLUSTER_METADATA_TOPIC:
        advice, commands = _of_quorum(row, best, known)
    else:
        advice, commands = _of_partition(row, best, alone=alone)
    return row.replaced(advice=advice, commands=commands)


def _of_partition(row: ReplicaElection, best: Choice, *, alone: bool) -> tuple[str, list[str]]:
    node = node_name(best)
    others = [node_name(each) for each in row.choices if each is not best]
    if not row.at_stake:
        return f"No choice loses records; {node} has {_rank(row, best)}.", []
    asked = format_command((
        "kafka-leader-election.sh", "--bootstrap-server", BOOTSTRAP, "--election-type", "UNCLEAN",
        "--topic", topic_word(str(row.topic)), "--partition", str(row.partition),
    ))  # fmt: skip
    why = (
        ""
        if row.rule == "in-sync"
        else "The in-sync replicas are unknown: there is no metadata log here. "
    )
    crash = " as after a crash," if best["in_sync"] else ""
    if alone:
        first = f"Start {node} first; start {_list(others)} when it leads"
        otherwise = f"If {node} does not become the leader by itself,{crash} elect {node}"
        return f"{why}{first}. {otherwise}.", [asked]
    first = f"{node} has {_rank(row, best)}; the summary gives the start order of all nodes"
    first = first if best["node_id"] is None else first.capitalize()
    return f"{why}{first}. If this partition still has no leader,{crash} elect {node}.", [asked]


def _rank(row: ReplicaElection, best: Choice) -> str:
    """Say why a log is the best one: a newer leader epoch counts more than a longer log."""
    is_longest = best["log_end"] == max(each["log_end"] for each in row.choices)
    return "the longest log" if is_longest else "the log of the newest epoch"


def _of_quorum(row: ReplicaElection, best: Choice, known: Registration) -> tuple[str, list[str]]:
    node, choices = node_name(best), row.choices
    at_start = node if best["node_id"] is None else node.capitalize()
    voters, here = row.voters_count, row.voters_here or 0
    if voters is None:
        sure = f"{at_start} has the longest log; these disks do not name the voters. "
    elif best["electable"]:
        return _start_first(row, best)
    elif not best["voter"]:
        sure = f"{at_start} has the longest log, but is not a voter: copy its log to the voters. "
    else:
        are = "is" if here == 1 else "are"
        sure = f"Of {voters} voters {here} {are} here, too few to elect a leader. "
    commands = []
    for each in choices:
        if each is not best and each["voter"] is not False:
            commands += _copy_commands(best["path"], each["path"])
    missing = [
        number
        for number in row.assigned or ()
        if all(each["node_id"] != number or not each["voter"] for each in choices)
    ]
    lacking = (voters or 0) // 2 + 1 - here
    formatted = missing[: max(lacking, 0)]
    for number in formatted:
        commands += _format_commands(best["path"], number, known)
    advice = sure + "Stop all nodes, copy this log to the others, then start them."
    for number in formatted:
        advice += f" First set METADATA_LOG_DIR_{number} to node {number}'s metadata log directory."
    if empty := [f"node {number}" for number in formatted if number in known.brokers]:
        advice += _empty_brokers(empty)
        tool = ("kafka-leader-election.sh", "--bootstrap-server", BOOTSTRAP, "--election-type")
        commands.append(format_command((*tool, "UNCLEAN", "--all-topic-partitions")))
    return advice, commands


def _empty_brokers(nodes: list[str]) -> str:
    """Keep brokers whose disks are gone from leading: all others truncate to their empty logs."""
    return (
        f" {_list(nodes).capitalize()}, with an empty disk, must not lead a partition: the other "
        "replicas would delete their records to match. Start such nodes with "
        "process.roles=controller and no broker listener, then the others; elect leaders with the "
        "last command, and only then restore process.roles."
    )


def quorum_start(row: ReplicaElection, best: Choice) -> tuple[list[Choice], list[Choice]]:
    """Return so few voters that nobody but the best can be elected, and the other voters."""
    needed = (row.voters_count or 0) // 2
    able = [each for each in row.choices if each["voter"] and each is not best]
    with_it = [each for each in able if each["refused"] is None][:needed]
    return [best, *with_it], [each for each in able if each not in with_it]


def _start_first(row: ReplicaElection, best: Choice) -> tuple[str, list[str]]:
    node = node_name(best)
    if not row.at_stake:
        return f"No choice loses records; {node} has the longest log.", []
    together, rest = (list(map(node_name, some)) for some in quorum_start(row, best))
    status = format_command((
        "kafka-metadata-quorum.sh", "--bootstrap-controller", CONTROLLER, "describe", "--status",
    ))  # fmt: skip
    if not rest:
        return f"Start {_list(together)}: only {node} can be elected.", [status]
    first = f"Start {_list(together)}; start {_list(rest)} only when {node} leads"
    return f"{first}. Otherwise a node with a shorter log may be elected.", [status]


def _copy_commands(source: str, path: str) -> list[str]:
    """Put a log in the place of another, which is kept; the vote of each node stays its own."""
    kept = os.path.dirname(path) + ".metadata-before"
    vote = os.path.join(kept, names.QUORUM_STATE)
    return [
        format_command(("mv", path_word(path), path_word(kept))),
        format_command(("cp", "-a", path_word(source), path_word(path))),
        format_command(("cp", "-a", path_word(vote), path_word(path))),
    ]


def _format_commands(source: str, number: int, known: Registration) -> list[str]:
    """Make a voter anew whose disk is gone; where voters are known by directory, with its id (E5).

    It takes over what the other knows of the last vote: one that has led, and does not know that
    any more, ends when the other names it as the leader.
    """
    directory_id, where = dict(known.directory_ids).get(number), f"METADATA_LOG_DIR_{number}"
    form = ("kafka-storage.sh", "format", "--cluster-id", cluster_id_word(known.cluster_id))
    log = Variable(where, f"/{names.METADATA_LOG}")
    initial = ("--no-initial-controllers",) if directory_id else ()
    commands = [
        format_command((*form, *initial, "--config", f"controller-{number}.properties")),
        format_command(("rm", "-rf", log)),
        format_command(("cp", "-a", path_word(source), log)),
    ]
    if directory_id is not None:
        named = uuid_word(directory_id)
        change = f"s/^directory.id=.*/directory.id={named}/" if isinstance(named, str) else named
        file = Variable(where, f"/{names.META_PROPERTIES}")
        commands.append(format_command(("sed", "-i", change, file)))
    return commands


def node_name(choice: Choice) -> str:
    """Name the node of a replica, else its directory."""
    node = choice["node_id"]
    return str(choice["path"]) if node is None else f"node {node}"


def _list(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
