"""Say how a choice of leader is carried out: a sentence, and what is typed for it (E1, E4)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from kdump.findings.commands import as_path, shell_text
from kdump.storage import names

_SERVER, _CONTROLLER = "HOST:9092", "HOST:9093"


def commands_of(
    fields: dict[str, Any], directory_ids: Sequence[tuple[int, str]]
) -> dict[str, object]:
    """Return the members `advice` and `commands` of a `replica-election` row.

    `directory_ids` are those that the voters of a quorum are known by.
    """
    best = next(each for each in fields["choices"] if each["path"] == fields["leader"])
    if fields["topic"] == names.CLUSTER_METADATA_TOPIC:
        advice, commands = _of_quorum(fields, best, dict(directory_ids))
    else:
        advice, commands = _of_partition(fields, best)
    return {"advice": advice, "commands": commands}


def _of_partition(fields: dict[str, Any], best: dict[str, Any]) -> tuple[str, list[str]]:
    node = _named(best)
    others = [_named(each) for each in fields["choices"] if each is not best]
    if not fields["at_stake"]:
        return f"Nothing is lost whoever leads; {node} goes furthest.", []
    asked = shell_text((
        "kafka-leader-election.sh", "--bootstrap-server", _SERVER, "--election-type", "UNCLEAN",
        "--topic", str(fields["topic"]), "--partition", str(fields["partition"]),
    ))  # fmt: skip
    wait = f"leave {_list(others)} down until it leads, and have it elected where it does not by"
    if best["in_sync"]:
        return f"Start {node} first, {wait} itself, as after a crash.", [asked]
    why = "" if fields["rule"] == "in-sync" else "No metadata log here says who is in sync. "
    return f"{why}Start {node}, {wait} itself.", [asked]


def _of_quorum(
    fields: dict[str, Any], best: dict[str, Any], directory_ids: dict[int, str]
) -> tuple[str, list[str]]:
    node, choices = _named(best), fields["choices"]
    voters, here = fields["voters_count"], fields["voters_here"] or 0
    if voters is None:
        sure = f"{node} goes furthest; who the voters are is not on these disks. "
    elif best["electable"]:
        return _start_first(fields, best)
    elif not best["voter"]:
        sure = f"{node} goes furthest, and is no voter: its log has to be given to the voters. "
    else:
        sure = f"{here} of {voters} voters are here, too few to elect a leader. "
    commands = []
    for each in choices:
        if each is not best and each["voter"] is not False:
            commands += _copied(best["path"], each["path"])
    missing = [
        number
        for number in fields["assigned"] or ()
        if all(each["node_id"] != number or not each["voter"] for each in choices)
    ]
    lacking = (voters or 0) // 2 + 1 - here
    for number in missing[: max(lacking, 0)]:
        commands += _formatted(best["path"], number, directory_ids.get(number))
    return sure + "With all nodes stopped, give its log to the others, then start them.", commands


def _start_first(fields: dict[str, Any], best: dict[str, Any]) -> tuple[str, list[str]]:
    """Start so few that nobody but the best can be elected."""
    node = _named(best)
    if not fields["at_stake"]:
        return f"Nothing is lost whoever leads; {node} goes furthest.", []
    needed = fields["voters_count"] // 2
    able = [each for each in fields["choices"] if each["voter"] and each is not best]
    with_it = [_named(each) for each in able if each["refused"] is None][:needed]
    rest = [_named(each) for each in able if _named(each) not in with_it]
    status = shell_text((
        "kafka-metadata-quorum.sh", "--bootstrap-controller", _CONTROLLER, "describe", "--status",
    ))  # fmt: skip
    if not rest:
        return f"Start {_list([node, *with_it])}: only {node} can be elected.", [status]
    together = "started together, a shorter log may be elected"
    first = f"Start {_list([node, *with_it])}, and {_list(rest)} once {node} leads"
    return f"{first}: {together}.", [status]


def _copied(source: str, path: str) -> list[str]:
    """Put a log in the place of another, which is kept; the vote of each node stays its own."""
    kept = os.path.dirname(path) + ".metadata-before"
    return [
        shell_text(("mv", as_path(path), as_path(kept))),
        shell_text(("cp", "-a", as_path(source), as_path(path))),
        shell_text(("cp", "-a", as_path(os.path.join(kept, names.QUORUM_STATE)), as_path(path))),
    ]


def _formatted(source: str, number: int, directory_id: str | None) -> list[str]:
    """Make a voter anew whose disk is gone."""
    form = "kafka-storage.sh format --cluster-id CLUSTER_ID --no-initial-controllers --config"
    commands = [
        f"{form} controller-{number}.properties",
        shell_text(("cp", "-a", as_path(source), f"METADATA_LOG_DIR_{number}/")),
        f"rm METADATA_LOG_DIR_{number}/{names.CLUSTER_METADATA_TOPIC}-0/{names.QUORUM_STATE}",
    ]
    if directory_id is not None:
        meta = f"METADATA_LOG_DIR_{number}/{names.META_PROPERTIES}"
        commands.append(f"sed -i 's/^directory.id=.*/directory.id={directory_id}/' {meta}")
    return commands


def _named(choice: dict[str, Any]) -> str:
    node = choice["node_id"]
    return str(choice["path"]) if node is None else f"node {node}"


def _list(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
