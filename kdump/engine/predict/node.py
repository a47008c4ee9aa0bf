"""Foretell whether a node starts: its settings, whose its directories are, its metadata (N1 to N12).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kdump.broker.node_directories import User, directory_facts, doubled
from kdump.broker.node_identity import identity_facts, read_metas
from kdump.broker.node_settings import (
    REFUSES,
    STARTS,
    UNKNOWN,
    Fact,
    read_node,
    settings_refused,
)
from kdump.engine.predict.node_quorum import quorum_facts
from kdump.findings.finding import Finding, finding
from kdump.findings.rows import Row

if TYPE_CHECKING:
    from kdump.broker.node_settings import NodeSettings
    from kdump.broker.versions import Version


def node_start(
    directories: Iterable[str],
    broker: Version,
    *,
    server_properties: str | None = None,
    user: User | None = None,
) -> list[Fact]:
    """Say whether a node would start: facts in the order of the broker, at least one.

    `directories` are used where no settings name them. `user`: who runs the broker; None: whoever
    has all rights that it needs.
    """
    node = read_node(server_properties, tuple(directories), broker)
    found = list(_facts(node, broker, user))
    if not any(fact.outcome == REFUSES for fact in found):
        where = node.path or next(iter(node.log_dirs), None)
        found.insert(0, Fact(STARTS, "none", "Nothing that was looked at stops the start.", where))
    if node.values is None:
        found.append(_not_known(node))
    elif not node.kraft:
        found.append(_zookeeper(node))
    return found


def _facts(node: NodeSettings, broker: Version, user: User | None) -> Iterator[Fact]:
    """Yield facts up to the stage that refuses: what is behind it no broker comes to."""
    stages = (
        lambda: settings_refused(node, broker),
        lambda: identity_facts(node, read_metas(node, user), broker),
        lambda: directory_facts(node, broker, user),
        lambda: quorum_facts(node, broker) if node.kraft else iter(()),
        lambda: doubled(node, broker),
    )
    for stage in stages:
        for fact in stage():
            yield fact
            if fact.outcome == REFUSES:
                return


def _not_known(node: NodeSettings) -> Fact:
    ids = "node.id, process.roles, the voters" if node.kraft else "broker.id"
    message = (
        f"Not known without --server-properties: {ids}, whether all of log.dirs are here, and "
        "what other settings refuse."
    )
    return Fact(UNKNOWN, "settings", message, None, "Give the file that the broker is started by.")


def _zookeeper(node: NodeSettings) -> Fact:
    message = "Not known from here: the cluster's id in ZooKeeper, which meta.properties must name."
    return Fact(UNKNOWN, "zookeeper", message, node.values and node.values.get("zookeeper.connect"))


def row_of(fact: Fact) -> Row:
    """Make the row of a fact."""
    return Row("node-start", fact._asdict())


def finding_of(fact: Fact) -> Finding | None:
    """Make a finding of what stops a node; a broker that runs holds its lock rightly."""
    if fact.outcome != REFUSES or fact.cause == "lock":
        return None
    return finding(
        "start-refused",
        path=fact.path or "",
        message=f"The node does not start ({fact.cause}): {fact.message}",
    )
