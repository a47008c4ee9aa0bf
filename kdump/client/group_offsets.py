"""The offsets that groups committed in a running cluster: ask for them, and commit others.

A group's coordinator answers for each partition. Whoever commits asks again to find out what came
of an `UNCLEAR` answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kdump.client.cluster import ANSWER_SECONDS, may_pass
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from concurrent.futures import Future

    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

#: What came of a commit: a word of these, or the sentence that a broker refused it with.
COMMITTED, HAS_MEMBERS, UNCLEAR = "committed", "has-members", "unclear"


class Place(NamedTuple):
    """A partition of which a group commits offsets."""

    group: str
    topic: str
    partition: int


class GroupOffsets:
    """Asks the coordinators of groups, of as many groups at once as it is given."""

    def __init__(self, admin: AdminClient) -> None:
        import confluent_kafka

        self._admin = admin
        self._client = confluent_kafka

    def fetch(self, places: Iterable[Place]) -> dict[Place, int | str | None]:
        """Ask for offsets, None where there is none; a word or sentence where nobody told."""
        partition = self._client.TopicPartition
        asked = {place: partition(place.topic, place.partition) for place in places}
        found: dict[Place, int | str | None] = {}
        for place, answer in self._ask(self._admin.list_consumer_group_offsets, asked):
            told = answer if isinstance(answer, str) else answer.offset
            found[place] = None if isinstance(told, int) and told < 0 else told
        return found

    def commit(self, offsets: Mapping[Place, int]) -> dict[Place, str]:
        """Commit offsets for groups without members; say what came of each.

        They have no metadata, as those that Kafka's own tool resets have none: this client would
        write a NUL behind it.
        """
        partition = self._client.TopicPartition
        asked = {
            place: partition(place.topic, place.partition, offset)
            for place, offset in offsets.items()
        }
        return {
            place: answer if isinstance(answer, str) else COMMITTED
            for place, answer in self._ask(self._admin.alter_consumer_group_offsets, asked)
        }

    def _ask(
        self, ask: Callable[..., Any], places: Mapping[Place, Any]
    ) -> Iterator[tuple[Place, Any]]:
        """Yield what the answer has of each place: its partition, or why there is none."""
        from confluent_kafka import ConsumerGroupTopicPartitions

        groups: dict[str, list[Any]] = {}
        for place, partition in places.items():
            groups.setdefault(place.group, []).append(partition)
        futures: dict[str, Future[Any]] = {}
        for group, partitions in groups.items():  # one alone in each request, as librdkafka asks
            request = ConsumerGroupTopicPartitions(group, partitions)
            futures[group] = ask([request], request_timeout=ANSWER_SECONDS)[group]
        answers = {group: self._answer(future) for group, future in futures.items()}
        for place in places:
            answer = answers[place.group]
            at = place.topic, place.partition
            yield place, answer if isinstance(answer, str) else answer.get(at, UNCLEAR)

    def _answer(self, future: Future[Any]) -> dict[tuple[str, int], Any] | str:
        try:
            partitions = future.result().topic_partitions
        except self._client.KafkaException as error:
            return _describe_error(error.args[0])
        return {
            (one.topic, one.partition): one if one.error is None else _describe_error(one.error)
            for one in partitions
        }


def _describe_error(error: KafkaError) -> str:
    if error.name() == "UNKNOWN_MEMBER_ID":  # while a group has members, only they may commit
        return HAS_MEMBERS
    return UNCLEAR if may_pass(error) else str(error.str())
