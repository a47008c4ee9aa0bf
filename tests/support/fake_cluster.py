"""A cluster in memory that records are produced to; nothing but lists."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kdump.client.cluster import SentRecord, TopicFacts
from kdump.client.group_offsets import COMMITTED, Place

Place_ = tuple[str, int]


class FakeCluster:
    """Stands in for `Cluster` with some topics; `before_send` is called each time."""

    id = "the-cluster"

    def __init__(self, topics: Mapping[str, TopicFacts]) -> None:
        self.topics = dict(topics)
        self.logs: dict[Place_, list[SentRecord]] = {}
        self.committed: dict[Place, int] = {}
        self.limits: set[int] = set()  # of the senders, in bytes
        self.before_send: Callable[[], None] = lambda: None

    def __call__(self, *_: object) -> "FakeCluster":
        return self

    def __enter__(self) -> "FakeCluster":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def topic(self, name: str) -> TopicFacts | None:
        return self.topics.get(name)

    def admin(self) -> Any:
        return self

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        return 0, len(self.logs.get((topic, partition), ()))

    def still_bounds(self, topic: str, partition: int, _: object) -> tuple[int, int]:
        return self.bounds(topic, partition)

    def records(
        self, topic: str, partition: int, start: int, end: int
    ) -> Iterator[tuple[int, SentRecord]]:
        log = self.logs.get((topic, partition), [])
        return iter(list(enumerate(log))[start:end])

    def sender(self, max_bytes: int, _: object) -> "FakeCluster":
        self.limits.add(max_bytes)
        return self

    def send(
        self,
        topic: str,
        partition: int,
        messages: Sequence[SentRecord],
        arrived: Callable[[int], None] | None = None,
    ) -> None:
        self.before_send()
        log = self.logs.setdefault((topic, partition), [])
        log += messages
        if arrived is not None:
            arrived(len(log) - 1)

    def finish(self) -> None:
        pass


class FakeGroups:
    """Stands in for `GroupOffsets`."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster

    def fetch(self, places: Any) -> dict[Place, int | str | None]:
        return {place: self._cluster.committed.get(place) for place in places}

    def commit(self, offsets: Mapping[Place, int]) -> dict[Place, str]:
        self._cluster.committed.update(offsets)
        return dict.fromkeys(offsets, COMMITTED)
