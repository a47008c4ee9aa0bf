"""One data directory of a node, with what was found in its partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kdump.storage.log_dir import LogDir

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
