"""Report data directories whose topics have settings that are not on these disks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.findings.finding import Finding, finding
from kdump.storage import names
from kdump.storage.about import meta_of

if TYPE_CHECKING:
    from kdump.replay.topic_settings import TopicSettings

_DEFAULTS = "Segments are judged by --config, server.properties and Kafka's defaults."


def unknown_settings(directory: str, topics: TopicSettings) -> Finding | None:
    """Report a data directory for which no metadata log was found; None where one was."""
    if topics.metadata_log(directory) is not None:
        return None
    meta = meta_of(directory)
    cluster, node = meta.get("cluster.id"), meta.get("node.id")
    if cluster is None:
        why = "meta.properties does not name a cluster whose metadata log could be looked for"
    elif node is None:
        why = "ZooKeeper has them, or a metadata log that is not on these disks"
    else:
        why = (
            f"no metadata log of cluster {cluster} was found here or in a nearby directory of "
            f"node {node}"
        )
    path = os.path.join(directory, names.META_PROPERTIES)
    return finding(
        "topic-settings-unknown",
        path=path,
        message=f"Topic settings of {directory} are unknown: {why}. {_DEFAULTS}",
    )
