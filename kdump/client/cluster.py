"""Speak to a running cluster: what its topics are, where they end, what they hold; and send.

Whoever sends waits for no answer; the order of a partition is kept, and an idempotent producer
leaves no gap and repeats nothing as long as it lives. What a killed one has left is read back.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from kdump.errors import KdumpError, UsageError
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, Producer
    from confluent_kafka.admin import AdminClient

ANSWER_SECONDS = 10.0
_FIRST_SECONDS = 20.0  # nobody has answered yet
PATIENCE_SECONDS = 300.0  # a broker that was killed is back, or another leads
_SILENT_SECONDS = 60.0  # nothing arrives: as long as a broker may take for a request
_DROPPED_SECONDS = 2.0  # nothing arrives after a connection was lost
_STILL_SECONDS = 2.0
_NAP_SECONDS = 0.05
_QUEUE_KIB = 64 << 10

Headers = tuple[tuple[str, bytes | None], ...]


class SentRecord(NamedTuple):
    """What a record brings: no timestamp is -1; a null key or value is None."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def size_bytes(self) -> int:
        """Bytes that it takes at the most, without the batch around it."""
        headers = sum(len(key.encode()) + len(text or b"") + 10 for key, text in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers


class TopicFacts(NamedTuple):
    """What the cluster says of a topic; brokers before 2.8 have no topic ids."""

    partitions: int
    settings: Mapping[str, str]
    topic_id: str | None = None


class ClusterError(KdumpError):
    """The cluster did not answer, or not with what was asked for."""


class UncertainSendError(ClusterError):
    """What was sent last may have arrived or not; the rest has not been sent."""


class Cluster:
    """A running cluster; a context manager."""

    def __init__(self, brokers: str, settings: Mapping[str, str]) -> None:
        try:
            import confluent_kafka
        except ImportError:
            raise UsageError(
                "kdump produce needs the produce extra: pip install 'kdump[produce]'"
            ) from None
        self._client = confluent_kafka
        self._brokers = brokers
        logger = logging.getLogger("kdump.client")
        logger.addHandler(logging.NullHandler())
        logger.propagate = False  # what counts of it comes out as an error
        soon = {"reconnect.backoff.max.ms": 1000}  # a broker that comes back is asked at once
        self._settings: dict[str, Any] = {**soon, **settings, "bootstrap.servers": brokers}
        self._logger = logger
        self._patience = _FIRST_SECONDS
        self._reader = self._consumer()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    def _consumer(self) -> Consumer:
        ours = {
            "group.id": "kdump",  # never joined: partitions are assigned
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "isolation.level": "read_uncommitted",
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "check.crcs": True,
        }
        producers_own = ("compression.type", "linger.ms", "batch.size", "request.timeout.ms")
        shared = {name: one for name, one in self._settings.items() if name not in producers_own}
        try:
            return self._client.Consumer({**shared, **ours}, logger=self._logger)
        except self._client.KafkaException as error:
            raise UsageError(f"{self._brokers}: {words(error)}") from None

    def _ask(self, question: Callable[[], Any]) -> Any:
        """Ask until there is an answer, as a broker may just be coming back."""
        until = time.monotonic() + self._patience
        while True:
            try:
                answer = question()
            except self._client.KafkaException as error:
                if time.monotonic() > until or not may_pass(error.args[0]):
                    raise ClusterError(f"{self._brokers}: {words(error)}") from None
                time.sleep(_NAP_SECONDS * 10)
            else:
                self._patience = PATIENCE_SECONDS
                return answer

    @property
    def id(self) -> str:
        """The id of the cluster."""
        return str(self._ask(lambda: self._reader.list_topics(timeout=ANSWER_SECONDS)).cluster_id)

    def topic(self, name: str) -> TopicFacts | None:
        """Ask for a topic; None where there is none."""
        from confluent_kafka import TopicCollection
        from confluent_kafka.admin import ConfigResource

        # All of them: asked for by its name, a topic may be made by the question.
        found = self._ask(lambda: self._reader.list_topics(timeout=ANSWER_SECONDS)).topics
        if name not in found:
            return None
        admin = self.admin()
        asked = ConfigResource("TOPIC", name)

        def settings() -> dict[str, str]:
            answers = admin.describe_configs([asked], request_timeout=ANSWER_SECONDS)
            return {one.name: str(one.value) for one in answers[asked].result().values()}

        def topic_id() -> str | None:
            answers = admin.describe_topics(TopicCollection([name]), request_timeout=ANSWER_SECONDS)
            # Kafka writes ids in the alphabet of base64 that is safe in file names.
            found = str(answers[name].result().topic_id).replace("+", "-").replace("/", "_")
            return None if found.strip("A=") == "" else found

        return TopicFacts(len(found[name].partitions), self._ask(settings), self._ask(topic_id))

    def admin(self) -> AdminClient:
        """Make a client of the cluster's administration."""
        from confluent_kafka.admin import AdminClient

        return AdminClient(self._settings, logger=self._logger)

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Give the log start of a partition, and its high watermark."""
        place = self._client.TopicPartition(topic, partition)
        low, high = self._ask(
            lambda: self._reader.get_watermark_offsets(place, timeout=ANSWER_SECONDS)
        )
        return low, high

    def still_bounds(self, topic: str, partition: int, tick: Callable[[], None]) -> tuple[int, int]:
        """Give the bounds once they stand still: a killed sender's last request may be late."""
        found, since = self.bounds(topic, partition), time.monotonic()
        while time.monotonic() - since < _STILL_SECONDS:
            time.sleep(_NAP_SECONDS * 4)
            tick()
            now = self.bounds(topic, partition)
            if now != found:
                found, since = now, time.monotonic()
        return found

    def records(
        self, topic: str, partition: int, start: int, end: int
    ) -> Iterator[tuple[int, SentRecord]]:
        """Read back what a partition holds from `start` up to `end`, with offsets."""
        if start >= end:
            return
        reader = self._reader
        reader.assign([self._client.TopicPartition(topic, partition, start)])
        try:
            heard = time.monotonic()
            while True:
                for message in reader.consume(1000, _NAP_SECONDS * 2):
                    error = message.error()
                    if error is not None:
                        if error.code() == self._client.KafkaError._PARTITION_EOF:
                            return
                        if not may_pass(error):
                            raise ClusterError(f"{topic}-{partition}: {error.str()}")
                        continue
                    heard = time.monotonic()
                    if message.offset() >= end:
                        return
                    yield message.offset(), _to_sent_record(message)
                    if message.offset() == end - 1:
                        return
                if time.monotonic() - heard > PATIENCE_SECONDS:
                    raise ClusterError(f"{topic}-{partition}: cannot be read back: no answer")
        finally:
            reader.unassign()

    def sender(self, max_bytes: int, tick: Callable[[], None]) -> Sender:
        """Begin to send batches of so many bytes at the most."""
        limit = {"message.max.bytes": max(1000, min(max_bytes, 1_000_000_000))}
        try:
            return Sender(self._producer, {**self._settings, **limit}, tick)
        except self._client.KafkaException as error:
            raise UsageError(f"{self._brokers}: {words(error)}") from None

    def _producer(self, settings: dict[str, Any]) -> Producer:
        return self._client.Producer(settings, logger=self._logger)


class Sender:
    """An idempotent producer that never sends a record again by itself.

    Brokers forget a producer whose newest record is older than a day, by the time of the record:
    for old records they would take a repeat for new. So retries are put off for good; when nothing
    arrives anymore, it raises `UncertainSendError`, and the sender reads back what arrived.
    """

    SETTINGS: ClassVar[dict[str, Any]] = {
        "enable.idempotence": True,
        "acks": "all",
        "enable.gapless.guarantee": True,
        "message.timeout.ms": 0,  # what is given up would be a gap
        "retry.backoff.ms": 300_000,
        "retry.backoff.max.ms": 300_000,
        "queue.buffering.max.kbytes": _QUEUE_KIB,
        "queue.buffering.max.messages": 200_000,
    }

    def __init__(
        self, make: Callable[..., Producer], settings: Mapping[str, Any], tick: Callable[[], None]
    ) -> None:
        self._producer = make({**settings, **self.SETTINGS, "error_cb": self._handle_error})
        self._tick = tick
        self._failed: str | None = None
        self._is_dropped = False
        self._sent = self._arrived = 0
        self._moved: float  # when something arrived, or began to be waited for

    def __enter__(self) -> Sender:
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.purge()
        self._producer.poll(0)

    def send(
        self,
        topic: str,
        partition: int,
        messages: Sequence[SentRecord],
        arrived: Callable[[int], None] | None = None,
    ) -> None:
        """Queue records; `arrived` is called with the offset that the last of them got."""

        def report(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._failed = error.str()
            elif arrived is not None:
                arrived(message.offset())

        if self._sent == self._arrived:
            self._moved = time.monotonic()
        produce = self._producer.produce
        last = len(messages) - 1
        for number, (timestamp, key, value, headers) in enumerate(messages):
            callback = report if number == last and arrived is not None else None
            more = (callback, None, timestamp, list(headers) or None)
            while True:
                try:
                    produce(topic, value, key, partition, *more)
                    break
                except BufferError:
                    self._wait(_NAP_SECONDS)
            self._sent += 1
        self._wait(0)

    def finish(self) -> None:
        """Wait until everything has arrived."""
        while len(self._producer):
            self._wait(_NAP_SECONDS)
        self._wait(0)

    def _handle_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._failed = error.str()
        self._is_dropped = True

    def _wait(self, seconds: float) -> None:
        """Hear what has arrived; raise where nothing does any more."""
        import confluent_kafka

        try:
            self._producer.poll(seconds)
        except confluent_kafka.KafkaException as error:  # one that ends the producer
            self._failed = words(error)
        self._tick()
        if self._failed is not None:
            raise UncertainSendError(f"a record did not arrive: {self._failed}")
        left, now = len(self._producer), time.monotonic()
        if self._sent - left != self._arrived:
            self._arrived, self._moved, self._is_dropped = self._sent - left, now, False
        patience = _DROPPED_SECONDS if self._is_dropped else _SILENT_SECONDS
        if left and now - self._moved > patience:
            raise UncertainSendError(f"nothing has arrived for {patience:.0f} s")


def _to_sent_record(message: Message) -> SentRecord:
    headers = tuple(message.headers() or ())
    return SentRecord(message.timestamp()[1], message.key(), message.value(), headers)


def may_pass(error: KafkaError) -> bool:
    """Whether the same question may have an answer a little later."""
    return bool(error.retriable()) or error.name() in (
        "_UNKNOWN_PARTITION",  # as long as no broker says where it is
        "_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_WAIT_COORD", "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_FOR_PARTITION", "_RESOLVE", "BROKER_NOT_AVAILABLE",
        "_TIMED_OUT_QUEUE", "_WAIT_CACHE", "REQUEST_TIMED_OUT", "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS",
    )  # fmt: skip


def words(error: Exception) -> str:
    """Give the sentence of an error."""
    told = error.args[0] if error.args else error
    return str(told.str() if hasattr(told, "str") else told)
