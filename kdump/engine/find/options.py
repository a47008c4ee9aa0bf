"""Options of a lookup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.partition import PartitionView
from kdump.broker.settings import SettingsOnDemand
from kdump.broker.versions import NEWEST, Version
from kdump.replay.releases import Releases
from kdump.storage import places
from kdump.storage.file_records import DEFAULT_LIMIT
from kdump.storage.targets import Selection, Target
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.settings import TopicConfig
    from kdump.replay.topic_settings import TopicSettings


class FindOptions(NamedTuple):
    """What is asked for; the names are those of the command line.

    `message_format` is the format the topic is configured to, where that is known. `now_ms` is the
    moment of the question, one for all partitions: the old request compares it with file times.
    `settings` tell by what a start rebuilds the indexes of a topic; None: by Kafka's defaults.
    `list_offsets_version` is that of the request; None: the newest that the broker knows.
    `none` is where a reset goes in a partition without an answer: latest, earliest or skip; None:
    no reset is asked for. `max_bytes` asks for the bytes of one fetch, `max_offset` ends it.
    """

    selection: Selection = Selection()
    server_properties: str | None = None
    topic_configs: bool = True
    configs: tuple[TopicConfig, ...] = ()
    isolation: str = "read_uncommitted"
    as_is: bool = False
    message_format: Version | None = None
    broker_version: Version | None = None  # None: of each directory, the newest it can be of
    explain: bool = False
    check: bool = False
    list_offsets_version: int | None = None
    max_offsets: int = 1
    now_ms: int | None = None
    decompress_limit: int = DEFAULT_LIMIT
    settings: TopicSettings | None = None
    none: str | None = None
    tier: str | None = None
    max_bytes: int | None = None
    max_offset: int | None = None
    tier_key: str | None = None

    def settings_of(self, target: Target) -> SettingsOnDemand | None:
        """Return what gives the settings of a partition's topic, once one is needed."""
        settings = self.settings
        if settings is None:
            return None
        return SettingsOnDemand(lambda: settings.of(target.path, target.topic))

    @property
    def releases(self) -> Releases:
        """What gives the release that wrote a data directory, unless one was named."""
        if self.settings is None or self.broker_version is not None:
            return Releases(self.broker_version or NEWEST)
        return self.settings.releases

    def view(self, target: Target) -> PartitionView:
        """Look at a partition in the way asked for."""
        return PartitionView(
            target,
            isolation=self.isolation,
            as_is=self.as_is,
            broker=self.releases.of(places.parent(target.path)),
            limit=self.decompress_limit,
            settings=self.settings_of(target),
        )
