"""What is asked of a running cluster: of librdkafka's own mock of one, and of one that fails.

Time is that of a clock that only waiting moves, so that each patience is met to the second.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, cast

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException

from kdump.client import cluster as module
from kdump.client.cluster import (
    Cluster,
    ClusterError,
    Sender,
    SentRecord,
    TopicFacts,
    UncertainSendError,
)
from kdump.client.group_offsets import COMMITTED, HAS_MEMBERS, UNCLEAR, GroupOffsets, Place
from kdump.errors import UsageError

ONE = SentRecord(1, b"a", b"bc", (("x", b"1"), ("é", None)))
NULLS = SentRecord(-1, None, None, ())


class Clock:
    """Stands in for the module `time`."""

    def __init__(self) -> None:
        self.now = Fraction(0)

    def monotonic(self) -> Fraction:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += Fraction(round(seconds * 1000), 1000)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def brokers() -> Iterator[str]:
    """Give the address of a broker with one record in `orders`."""
    producer = confluent_kafka.Producer(
        {"test.mock.num.brokers": 1, "bootstrap.servers": "x", "log_level": 0}
    )
    (broker,) = producer.list_topics(timeout=10).brokers.values()
    producer.produce("orders", b"first", b"k", 0, timestamp=5)
    producer.flush()
    yield f"{broker.host}:{broker.port}"
    producer.purge()  # the broker lives as long as it does


def failing(code: int, **more: Any) -> KafkaException:
    return KafkaException(KafkaError(code, "it is so", **more))


TRANSPORT = failing(KafkaError._TRANSPORT)
DENIED = failing(KafkaError.TOPIC_AUTHORIZATION_FAILED)


# A broker that answers ---------------------------------------------------------------------------


def test_sent_records_are_read_back(brokers: str) -> None:
    ends: list[int] = []
    with Cluster(brokers, {"linger.ms": "1"}) as cluster:
        assert cluster.id.startswith("mockCluster")
        assert cluster.topic("other") is None
        with cluster.sender(1_000_000, lambda: None) as sender:
            sender.send("orders", 0, [ONE, NULLS], ends.append)
            sender.finish()
        assert ends == [2]
        assert cluster.bounds("orders", 0) == (0, 3)
        *all_but_last, last = cluster.records("orders", 0, 0, 3)
        assert all_but_last == [(0, SentRecord(5, b"k", b"first", ())), (1, ONE)]
        assert last[1]._replace(timestamp_ms=-1) == NULLS
        assert [*cluster.records("orders", 0, 1, 2)] == [(1, ONE)]
        assert [*cluster.records("orders", 0, 2, 2)] == []
        groups = GroupOffsets(cluster.admin())
        one, other = Place("g", "orders", 0), Place("h", "orders", 0)
        assert groups.fetch([one, other]) == {one: None, other: None}
        assert groups.commit({one: 2}) == {one: COMMITTED}
        assert groups.fetch([one, other]) == {one: 2, other: None}
    with pytest.raises(RuntimeError, match="closed"):
        cluster.bounds("orders", 0)


# What its clients are given ----------------------------------------------------------------------


class Clients:
    """Notes the settings of each client."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.settings: dict[str, dict[str, Any]] = {}
        for where, name in (
            (confluent_kafka, "Consumer"),
            (confluent_kafka, "Producer"),
            (confluent_kafka.admin, "AdminClient"),
        ):
            monkeypatch.setattr(where, name, self._noting(name))

    def _noting(self, name: str) -> Callable[..., Any]:
        def make(settings: dict[str, Any], *, logger: Any) -> Any:
            assert (logger.name, logger.propagate, len(logger.handlers) > 0) == (
                "kdump.client", False, True,
            )  # fmt: skip
            settings.pop("error_cb", None)
            self.settings[name] = settings
            return SimpleNamespace()

        return make


OURS = {"bootstrap.servers": "b:9092", "reconnect.backoff.max.ms": 1000}
CONSUMERS = {
    "group.id": "kdump",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_uncommitted",
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "check.crcs": True,
}
PRODUCERS = {
    "enable.idempotence": True,
    "acks": "all",
    "enable.gapless.guarantee": True,
    "message.timeout.ms": 0,
    "retry.backoff.ms": 300_000,
    "retry.backoff.max.ms": 300_000,
    "queue.buffering.max.kbytes": 65536,
    "queue.buffering.max.messages": 200_000,
}


def test_each_client_has_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = Clients(monkeypatch)
    sending = {
        "compression.type": "zstd", "linger.ms": "5", "batch.size": "9", "request.timeout.ms": "99",
    }  # fmt: skip
    cluster = Cluster("b:9092", {**sending, "security.protocol": "SSL"})
    cluster.admin()
    shared = {**OURS, "security.protocol": "SSL"}
    for asked, limit in ((0, 1000), (5000, 5000), (1 << 40, 1_000_000_000)):
        cluster.sender(asked, lambda: None)
        assert clients.settings["Producer"] == {
            **shared, **sending, **PRODUCERS, "message.max.bytes": limit,
        }  # fmt: skip
    assert clients.settings["Consumer"] == {**shared, **CONSUMERS}
    assert clients.settings["AdminClient"] == {**shared, **sending}
    own = Cluster("b:9092", {"reconnect.backoff.max.ms": "7", "group.id": "mine"})
    assert clients.settings["Consumer"] == {**OURS, "reconnect.backoff.max.ms": "7", **CONSUMERS}
    assert own is not None


def test_unknown_client_settings_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r'^b:9092: No such configuration property: "nonsense"$'):
        Cluster("b:9092", {"nonsense": "1"})
    with (
        Cluster("b:9092", {"batch.size": "none"}) as cluster,
        pytest.raises(UsageError, match=r"^b:9092: Invalid value"),
    ):
        cluster.sender(5000, lambda: None)
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(UsageError, match=r"pip install 'kdump\[produce\]'$"):
        Cluster("b:9092", {})


# A broker that fails -----------------------------------------------------------------------------


class Reader:
    """Stands in for a consumer: gives what it was told to, or raises it; the last for ever."""

    def __init__(self, clock: Clock, *answers: Any) -> None:
        self.clock = clock
        self.answers = list(answers)
        self.asked: list[Any] = []

    def _next(self, *question: Any) -> Any:
        self.asked.append(question)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def get_watermark_offsets(self, place: Any, timeout: float) -> Any:
        return self._next(place.topic, place.partition, timeout)

    def list_topics(self, timeout: float) -> Any:
        return self._next(timeout)

    def assign(self, places: Sequence[Any]) -> None:
        self.asked += [(place.topic, place.partition, place.offset) for place in places]

    def unassign(self) -> None:
        self.asked.append("unassign")

    def consume(self, count: int, seconds: float) -> Any:
        self.clock.sleep(seconds)
        return self._next(count, seconds)


def reading(clock: Clock, monkeypatch: pytest.MonkeyPatch, *answers: Any) -> tuple[Cluster, Reader]:
    reader = Reader(clock, *answers)
    monkeypatch.setattr(confluent_kafka, "Consumer", lambda *_, **__: reader)
    return Cluster("b:9092", {}), reader


def test_client_waits_for_a_returning_broker(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, reader = reading(clock, monkeypatch, TRANSPORT)
    for patience in (20.5, 300.5):  # the longer, once somebody has answered
        began = clock.now
        with pytest.raises(ClusterError, match=r"^b:9092: it is so$"):
            cluster.bounds("orders", 1)
        assert clock.now - began == patience
        reader.answers = [TRANSPORT, TRANSPORT, (3, 4)]
        assert cluster.bounds("orders", 1) == (3, 4)
        assert clock.now - began == patience + 1
        reader.answers = [TRANSPORT]
    assert set(reader.asked) == {("orders", 1, 10.0)}
    reader.answers, began = [DENIED], clock.now
    with pytest.raises(ClusterError, match=r"^b:9092: it is so$"):
        cluster.bounds("orders", 1)
    assert clock.now == began


def test_bounds_are_read_until_they_are_stable(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks: list[Fraction] = []
    cluster, _ = reading(clock, monkeypatch, (0, 5), (0, 5), (0, 7), (0, 5), (1, 5))
    assert cluster.still_bounds("orders", 0, lambda: ticks.append(clock.now)) == (1, 5)
    assert ticks == [Fraction(number, 5) for number in range(1, 15)]


def message(offset: int, record: SentRecord) -> Any:
    timestamp, key, value, headers = record
    return SimpleNamespace(
        error=lambda: None, offset=lambda: offset, timestamp=lambda: (1, timestamp),
        key=lambda: key, value=lambda: value, headers=lambda: list(headers) or None,
    )  # fmt: skip


def broken(code: int) -> Any:
    return SimpleNamespace(error=lambda: KafkaError(code, "it is so"), offset=lambda: None)


def test_reading_back_ends_at_the_bound(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = message(2, ONE), message(4, NULLS), message(7, ONE)
    down, end = broken(KafkaError._ALL_BROKERS_DOWN), broken(KafkaError._PARTITION_EOF)
    found = [(2, ONE), (4, NULLS)]
    cluster, reader = reading(clock, monkeypatch, [])
    for end_offset, answers, expected in (
        (5, [[first], [], [second]], found),  # the last that was asked for
        (6, [[down, first], [second, third]], found),  # one behind it
        (6, [[first, second, end, third]], found),  # nothing is left
        (5, [[first, second, third]], found),
        (4, [[first, second]], found[:1]),
    ):
        reader.answers, reader.asked = [*answers, None], []
        assert [*cluster.records("orders", 3, 2, end_offset)] == expected
        asked = [(1000, 0.1)] * len(answers)
        assert reader.asked == [("orders", 3, 2), *asked, "unassign"]
    reader.asked.clear()
    assert [*cluster.records("orders", 3, 2, 2)] == reader.asked == []


def test_failed_read_back_is_an_error(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, reader = reading(clock, monkeypatch, [])
    for last, told, seconds in (
        ([broken(KafkaError.TOPIC_AUTHORIZATION_FAILED)], "it is so", 200.2),
        ([], "cannot be read back: no answer", 500.2),
    ):
        began = clock.now
        reader.answers = [*([[]] * 2000), [message(2, ONE)], last]
        found = cluster.records("orders", 3, 2, 9)
        assert next(found) == (2, ONE)
        with pytest.raises(ClusterError, match=f"^orders-3: {told}$"):
            next(found)
        assert clock.now - began == pytest.approx(seconds)
        assert reader.asked[-1] == "unassign"


def test_facts_of_a_topic(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = SimpleNamespace(partitions={0: 0, 1: 0})
    topics = SimpleNamespace(topics={"orders": orders}, cluster_id=7)
    cluster, reader = reading(clock, monkeypatch, topics)
    ids = ["ab+/cd==", "A" * 22 + "==", "AXXA=="]
    timeouts: list[float] = []

    class Admin:
        def describe_configs(self, asked: list[Any], *, request_timeout: float) -> Any:
            timeouts.append(request_timeout)
            (one,) = asked
            assert (one.restype.name, one.name) == ("TOPIC", "orders")
            values = {"a": SimpleNamespace(name="retention.ms", value=-1)}
            return {one: SimpleNamespace(result=lambda: values)}

        def describe_topics(self, asked: Any, *, request_timeout: float) -> Any:
            timeouts.append(request_timeout)
            facts = SimpleNamespace(topic_id=ids.pop(0))
            return {"orders": SimpleNamespace(result=lambda: facts)}

    monkeypatch.setattr(cluster, "admin", Admin)
    assert cluster.topic("orders") == TopicFacts(2, {"retention.ms": "-1"}, "ab-_cd==")
    assert cluster.topic("orders") == TopicFacts(2, {"retention.ms": "-1"}, None)
    assert cluster.topic("orders") == TopicFacts(2, {"retention.ms": "-1"}, "AXXA==")
    assert TopicFacts(2, {}) == TopicFacts(2, {}, None)
    assert timeouts == [10.0] * 6
    assert cluster.id == "7"
    assert reader.asked == [(10.0,)] * 4


# Sending -----------------------------------------------------------------------------------------


class Producer:
    """Stands in for a producer with room for two; `arrives` says which polls move one on."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.queue: list[Any] = []
        self.sent: list[Any] = []
        self.polls: list[float] = []
        self.settings: dict[str, Any] = {}
        self.answer: KafkaError | None = None
        self.arrives: Callable[[], bool] = lambda: False
        self.fails: KafkaException | None = None

    def make(self, settings: dict[str, Any]) -> "confluent_kafka.Producer":
        self.settings = settings
        return cast("confluent_kafka.Producer", self)

    def __len__(self) -> int:
        return len(self.queue)

    def produce(self, *what: Any) -> None:
        if len(self.queue) == 2:
            raise BufferError
        topic, value, key, partition, callback, *more = what
        self.sent.append((topic, value, key, partition, callback is not None, *more))
        self.queue.append(callback)

    def poll(self, seconds: float) -> None:
        self.polls.append(seconds)
        self.clock.sleep(seconds)
        if self.fails is not None:
            raise self.fails
        if self.queue and self.arrives():
            callback = self.queue.pop(0)
            if callback is not None:
                callback(self.answer, SimpleNamespace(offset=lambda: 100 + len(self.sent)))

    def purge(self) -> None:
        self.queue.clear()
        self.polls.append(-1)


def sending(clock: Clock) -> tuple[Sender, Producer, list[Fraction]]:
    producer, ticks = Producer(clock), list[Fraction]()
    return Sender(producer.make, {}, lambda: ticks.append(clock.now)), producer, ticks


def test_records_go_out_in_order(clock: Clock) -> None:
    sender, producer, ticks = sending(clock)
    producer.arrives = lambda: producer.polls[-1] > 0
    ends: list[int] = []
    with sender:
        sender.send("orders", 3, [ONE, NULLS, ONE], ends.append)
        assert (producer.polls, len(ticks), ends) == ([0.05, 0], 2, [])
        sender.finish()
        assert (producer.polls, len(ticks), ends) == ([0.05, 0, 0.05, 0.05, 0], 5, [103])
        sender.send("orders", 3, [NULLS])
        assert len(producer) == 1
    assert (len(producer), producer.polls[-2:]) == (0, [-1, 0])  # what was purged is told
    one = ("orders", b"bc", b"a", 3)
    headers = [("x", b"1"), ("é", None)]
    assert producer.sent == [
        (*one, False, None, 1, headers),
        ("orders", None, None, 3, False, None, -1, None),
        (*one, True, None, 1, headers),
        ("orders", None, None, 3, False, None, -1, None),
    ]
    assert (ONE.size_bytes, NULLS.size_bytes) == (27, 0)


def test_unacknowledged_records_are_lost(clock: Clock) -> None:
    sender, producer, _ = sending(clock)
    producer.arrives, producer.answer = lambda: True, KafkaError(KafkaError._MSG_TIMED_OUT, "late")
    with pytest.raises(UncertainSendError, match=r"^a record did not arrive: late$"):
        sender.send("orders", 0, [ONE], lambda _: None)
    sender, producer, _ = sending(clock)
    producer.settings["error_cb"](KafkaError(KafkaError._FATAL, "fenced", fatal=True))
    with pytest.raises(UncertainSendError, match=r"^a record did not arrive: fenced$"):
        sender.send("orders", 0, [ONE])
    sender, producer, _ = sending(clock)
    producer.fails = failing(KafkaError._FATAL)
    with pytest.raises(UncertainSendError, match=r"^a record did not arrive: it is so$"):
        sender.finish()


def test_unanswered_requests_are_retried_for_a_while(clock: Clock) -> None:
    def finishing(sender: Sender) -> float:
        began = clock.now
        with pytest.raises(UncertainSendError, match=told):
            sender.finish()
        return float(clock.now - began)

    down = KafkaError(KafkaError._TRANSPORT, "away")
    told = "^nothing has arrived for 60 s$"
    sender, producer, _ = sending(clock)
    clock.sleep(99)  # nothing was asked meanwhile
    sender.send("orders", 0, [ONE])
    assert finishing(sender) == 60.05
    sender, producer, _ = sending(clock)
    sender.send("orders", 0, [ONE])
    clock.sleep(30)
    sender.send("orders", 0, [ONE])
    assert finishing(sender) == 30.05
    sender, producer, _ = sending(clock)
    sender.send("orders", 0, [ONE, NULLS])
    producer.settings["error_cb"](down)
    arrives = clock.now + 1
    producer.arrives = lambda: clock.now == arrives
    assert finishing(sender) == 61.05  # what arrived came over a new connection
    told = "^nothing has arrived for 2 s$"
    sender, producer, _ = sending(clock)
    sender.send("orders", 0, [ONE])
    producer.settings["error_cb"](down)
    assert finishing(sender) == 2.05
    sender, producer, _ = sending(clock)
    clock.sleep(99)
    sender.finish()  # there is nothing to wait for


# Words -------------------------------------------------------------------------------------------


def test_transient_errors() -> None:
    numbers = [getattr(KafkaError, name) for name in dir(KafkaError) if name.lstrip("_").isupper()]
    passing = {KafkaError(one).name() for one in numbers if module.may_pass(KafkaError(one))}
    assert passing == {
        "BROKER_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE",
        "LEADER_NOT_AVAILABLE", "NOT_COORDINATOR", "NOT_LEADER_FOR_PARTITION", "REQUEST_TIMED_OUT",
        "_ALL_BROKERS_DOWN", "_RESOLVE", "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_TRANSPORT",
        "_UNKNOWN_PARTITION", "_WAIT_CACHE", "_WAIT_COORD",
    }  # fmt: skip
    assert module.may_pass(KafkaError(KafkaError.UNKNOWN, "x", retriable=True))
    assert module.words(ValueError("so")) == "so"
    assert module.words(ValueError()) == ""


# Offsets of groups -------------------------------------------------------------------------------


def test_answers_of_coordinators() -> None:
    requests: list[Any] = []
    unsure = KafkaError(KafkaError._TIMED_OUT, "no answer")

    def partition(number: int, offset: int, error: KafkaError | None = None) -> Any:
        return SimpleNamespace(topic="orders", partition=number, offset=offset, error=error)

    failed: dict[str, KafkaException] = {
        "working": failing(KafkaError.UNKNOWN_MEMBER_ID),
        "silent": KafkaException(unsure),
        "closed": failing(KafkaError.GROUP_AUTHORIZATION_FAILED),
    }
    answered = [partition(0, 0), partition(1, -1001), partition(2, 9, unsure), partition(4, 12)]

    def asked(request: list[Any], *, request_timeout: float) -> Any:
        (one,) = request
        places = [(each.topic, each.partition, each.offset) for each in one.topic_partitions]
        requests.append((one.group_id, places, request_timeout))

        def result() -> Any:
            if one.group_id in failed:
                raise failed[one.group_id]
            return SimpleNamespace(topic_partitions=answered)

        return {one.group_id: SimpleNamespace(result=result)}

    admin = SimpleNamespace(list_consumer_group_offsets=asked, alter_consumer_group_offsets=asked)
    offsets = GroupOffsets(cast("Any", admin))
    told = {"working": HAS_MEMBERS, "silent": UNCLEAR, "closed": "it is so"}
    ours = [Place("g", "orders", number) for number in range(4)]
    others = [Place(group, "orders", 0) for group in failed]
    assert offsets.fetch([ours[0], *others, *ours[1:]]) == {
        **dict(zip(ours, (0, None, UNCLEAR, UNCLEAR), strict=True)),
        **{place: told[place.group] for place in others},
    }
    assert requests == [
        ("g", [("orders", number, -1001) for number in range(4)], 10.0),
        *((group, [("orders", 0, -1001)], 10.0) for group in failed),
    ]
    requests.clear()
    given = {place: 5 + number for number, place in enumerate([*ours, *others])}
    assert offsets.commit(given) == {
        **dict(zip(ours, (COMMITTED, COMMITTED, UNCLEAR, UNCLEAR), strict=True)),
        **{place: told[place.group] for place in others},
    }
    assert requests[0] == ("g", [("orders", number, 5 + number) for number in range(4)], 10.0)
    assert (COMMITTED, HAS_MEMBERS, UNCLEAR) == ("committed", "has-members", "unclear")
