"""The views of what internal topics say, replayed: one task for each cluster under the paths.

`clusters.py` tells what belongs to one cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from kdump import __version__
from kdump.engine.cluster.options import ClusterOptions, to_until
from kdump.engine.cluster.run import cluster
from kdump.engine.groups.options import GroupOptions
from kdump.engine.groups.run import groups
from kdump.engine.transactions.run import TransactionOptions, transactions
from kdump.errors import KdumpError, NothingToDo
from kdump.findings.finding import Finding
from kdump.findings.rows import Row
from kdump.spark.clusters import ClusterPaths, clusters_of
from kdump.spark.columns import finding_row
from kdump.spark.owners import Owners
from kdump.storage.data_directories import spread
from kdump.storage.targets import data_directories
from kdump.tuples import NamedTuple


class _Replay(NamedTuple):
    """How a view is made: what is always asked for, and what yields the rows."""

    options: Callable[..., Any]
    run: Callable[[Iterable[str], Any], Iterator[Row | Finding | KdumpError]]
    always: Mapping[str, object] = {}


_REPLAYS = {
    "groups": _Replay(GroupOptions, groups, {"history": False}),
    "commits": _Replay(GroupOptions, groups, {"history": True, "commits_only": True}),
    "metadata": _Replay(ClusterOptions, cluster),
    "transactions": _Replay(TransactionOptions, transactions),
}
VIEWS = frozenset(_REPLAYS)


def options_of(view: str, asked: dict[str, Any]) -> Any:
    """Make the options of the command that a view is of; what it does not have is left out."""
    if "at_ms" in asked or "at_offset" in asked:
        asked["at"] = to_until((asked.get("at_offset"), asked.get("at_ms")))
    replay = _REPLAYS[view]
    known = replay.options._fields  # type: ignore[attr-defined]
    given = {name: value for name, value in asked.items() if name in known}
    return replay.options(**{**given, **replay.always})


def clusters(paths: Iterable[str], options: Any) -> Iterator[ClusterPaths]:
    """Yield what is to be read for each cluster, in the order of the paths."""
    named = list(paths)
    if not named and options.server_properties is not None:
        named = data_directories(options.server_properties)
    return clusters_of(one for path in named for one in spread(path))


def rows_of(view: str, of_cluster: ClusterPaths, options: Any) -> Iterator[dict[str, object]]:
    """Yield the rows of a cluster, findings about what is missing in them too.

    A cluster that has none of the topics under its paths has no rows.
    """
    owners = Owners()
    alone = {} if of_cluster.directory is None else owners.of_directory(of_cluster.directory).owner
    whole = alone | {"cluster_id": of_cluster.cluster_id}
    for one in _REPLAYS[view].run(of_cluster.paths, options):
        if isinstance(one, Finding):
            row = finding_row(one, __version__) | {"row": "finding"}
        elif isinstance(one, Row):
            row = one.fields | {"row": one.row}
            if one.row == "controller":
                row["leads"] = row.pop("leader")  # of a partition it is a broker's id
        elif isinstance(one, NothingToDo):
            continue
        else:
            raise one
        path = row.get("path")
        if not alone and isinstance(path, str):
            place = owners.of_place(path, in_partition=True)  # or a data directory, which says so
            row = place.owner | {"cluster_id": of_cluster.cluster_id} | row
        yield whole | row
