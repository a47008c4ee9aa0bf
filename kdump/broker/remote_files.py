"""Read a remote segment as a broker reads it: its objects, and how it fails without one (W10)."""

from __future__ import annotations

from collections.abc import Mapping

from kdump.broker.lookup_records import BrokerError, RemoteOnlyError
from kdump.broker.remote_log import RemoteSegment, Tier
from kdump.broker.segment import Segment
from kdump.broker.settings import Settings
from kdump.broker.versions import Version
from kdump.errors import PathError
from kdump.storage.names import Kind
from kdump.storage.source import Source

_INDEXES = (Kind.OFFSET_INDEX, Kind.TIME_INDEX)


class RemoteFiles(Segment):
    """A remote segment; `objects` are its files, None where nothing was given."""

    remote: RemoteSegment

    def __init__(
        self,
        remote: RemoteSegment,
        objects: Mapping[Kind, str] | None,
        tier: Tier,
        broker: Version,
        settings: Settings,
        *,
        limit: int,
    ) -> None:
        super().__init__(remote.start_offset, objects or {}, broker, settings, limit=limit)
        self.remote = remote
        self._given = tier.objects is not None
        self._problem = tier.problem

    def log(self) -> Source:
        """The log object, which stays open until `close`."""
        if Kind.LOG not in self.files:
            self.check()
        return super().log()

    def check(self) -> None:
        """Raise what a broker answers where it cannot read the segment, or what was not given."""
        if self._problem is not None:
            raise BrokerError(f"no remote segment is served: {self._problem}")
        if not self._given:
            raise RemoteOnlyError(self.remote)
        for kind in (Kind.LOG, *_INDEXES):
            if kind not in self.files:
                raise BrokerError(
                    f"RemoteResourceNotFoundException: the {kind.value} object of remote segment "
                    f"{self.remote.segment_id} is missing"
                )
        try:
            wrong = self.offset_index().sanity() or self.time_index().sanity()
        except PathError as error:
            raise BrokerError(str(error)) from error
        if wrong:
            raise BrokerError(
                f"CorruptIndexException: an index of remote segment {self.remote.segment_id} "
                f"is damaged: {wrong}"
            )


def remote_files(
    remote: RemoteSegment, tier: Tier, broker: Version, settings: Settings, limit: int
) -> RemoteFiles:
    """Find the files of a remote segment among the objects that were given."""
    objects = None if tier.objects is None else tier.objects.files(remote.segment_id)
    return RemoteFiles(remote, objects, tier, broker, settings, limit=limit)
