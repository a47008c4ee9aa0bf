"""Find the data directories among paths, with what was seen of the partitions in each.

Apart from the checks of them, which a run over one partition does not need.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kdump.errors import PathError, StoreError
from kdump.storage import names, places
from kdump.storage.log_dir import LogDir
from kdump.storage.names import Kind
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.checks.survey import PartitionFacts


class Surveyed(NamedTuple):
    """A data directory and what was found of its partitions; `whole`: of all of them."""

    directory: LogDir
    facts: Sequence[PartitionFacts]
    whole: bool = True


class Member(NamedTuple):
    """A data directory among those of its broker, with what its `meta.properties` say."""

    surveyed: Surveyed
    meta: dict[str, str]

    @property
    def path(self) -> str:
        """The directory's path."""
        return self.surveyed.directory.path

    @property
    def node_id(self) -> str | None:
        """The broker, as the directory knows it."""
        return self.meta.get("node.id", self.meta.get("broker.id"))


def is_data_directory(directory: LogDir) -> bool:
    """Whether a broker kept its data here, rather than that someone put partitions together."""
    kinds = {names.parse(os.path.basename(path)).kind for path in directory.files}
    return bool(kinds & {Kind.META_PROPERTIES, Kind.OFFSET_CHECKPOINT})


def surveyed_under(
    paths: Iterable[str], facts: Iterable[PartitionFacts], *, whole: bool
) -> list[Surveyed]:
    """Find the data directories among paths, each once, with the facts of what lies in them."""
    by_parent: dict[str, list[PartitionFacts]] = {}
    for one in facts:
        by_parent.setdefault(places.parent(one.path), []).append(one)
    by_directory: dict[str, list[PartitionFacts]] = {}
    for parent, in_it in by_parent.items():
        by_directory.setdefault(places.real(parent), []).extend(in_it)
    found: dict[str, Surveyed] = {}
    for path in paths:
        try:
            real = places.real(path)
            if real in found or not places.isdir(path):
                continue
            directory = LogDir.open(path)
        except (PathError, StoreError):
            continue  # whoever listed it before has said so
        if is_data_directory(directory):
            of_it = by_directory.get(real, [])
            complete = {one.path for one in of_it} >= {at for _, at in directory.partitions}
            found[real] = Surveyed(directory, of_it, whole and complete)
    return list(found.values())
