"""Topics with keys, filled by the Java client and by librdkafka on a real broker, and read back."""

import json
import random
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from broker_box import Broker, program

TIME = 1_700_000_000_000
JAVA = "murmur2"  # the Java client's
#: The name of a partitioner here -> that of librdkafka.
LIBRDKAFKA = {
    "murmur2": "murmur2_random",
    "crc32": "consistent",
    "consistent-random": "consistent_random",
    "fnv1a": "fnv1a_random",
}
KEYS = [
    b"", b"a", b"ab", b"abc", b"abcd", "\u00fcber".encode(), bytes(range(200)), b"\xff\xfe",
    *(f"customer-{number}".encode() for number in range(40)),
]  # fmt: skip


class ConsumedRecord(NamedTuple):
    """A record as a consumer is handed it."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Clients:
    """Clients of one broker, which is started on a directory."""

    def __init__(self, directory: Path) -> None:
        self.confluent = pytest.importorskip("confluent_kafka")
        from confluent_kafka.admin import AdminClient  # type: ignore[import-not-found,unused-ignore]

        self.broker = Broker(directory, "4.4.0")
        self.broker.start()
        status = self.broker.run("status").stdout
        self.bootstrap = f"127.0.0.1:{json.loads(status)['port']}"
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def create(self, topics: dict[str, int]) -> None:
        """Make topics with so many partitions."""
        from confluent_kafka.admin import NewTopic

        made = self._admin.create_topics([NewTopic(*each, 1) for each in topics.items()])
        for each in made.values():
            each.result(60)

    def grow(self, topics: dict[str, int]) -> None:
        """Give topics more partitions."""
        from confluent_kafka.admin import NewPartitions

        grown = self._admin.create_partitions([NewPartitions(*each) for each in topics.items()])
        for each in grown.values():
            each.result(60)

    def java(self, records: list[tuple[str, bytes | None, bytes | None, int]]) -> None:
        """Send topic, key, value and time by the Java client."""
        lines = (
            f"{topic}\t{_hex(key)}\t{_hex(value)}\t{time}\n" for topic, key, value, time in records
        )
        path = (program().parent / "target" / "4.4.0" / "classpath.txt").read_text().strip()
        source = Path(__file__).with_name("KeyedProducer.java")
        done = subprocess.run(
            ["java", "-XX:TieredStopAtLevel=1", "-cp", path, str(source), self.bootstrap],
            input="".join(lines), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    def librdkafka(
        self,
        partitioner: str,
        records: list[tuple[str, bytes | None, bytes | None, int]],
        *,
        end: str | None = None,
        headers: Any = (),
    ) -> None:
        """Send them by librdkafka; `end` commits or aborts a transaction of them."""
        settings = {
            "bootstrap.servers": self.bootstrap,
            "partitioner": LIBRDKAFKA[partitioner],
            "linger.ms": 5,
            "log_level": 0,
            "enable.idempotence": True,
        }
        if end is not None:
            settings["transactional.id"] = f"{partitioner}-{random.random()}"
        producer = self.confluent.Producer(settings)
        if end is not None:
            producer.init_transactions(60)
            producer.begin_transaction()
        for topic, key, value, time in records:
            producer.produce(topic, key=key, value=value, timestamp=time, headers=list(headers))
            producer.poll(0)
        assert producer.flush(60) == 0
        if end == "commit":
            producer.commit_transaction(60)
        elif end == "abort":
            producer.abort_transaction(60)

    def consumed(
        self, topics: dict[str, int], isolation: str = "read_uncommitted"
    ) -> dict[str, list[ConsumedRecord]]:
        """Give all records of topics, as a consumer is handed them."""
        consumer = self.confluent.Consumer(
            {
                "bootstrap.servers": self.bootstrap, "group.id": "none", "log_level": 0,
                "enable.auto.commit": False, "enable.partition.eof": True,
                "isolation.level": isolation,
            }
        )  # fmt: skip
        places = [
            self.confluent.TopicPartition(topic, partition, 0)
            for topic, count in topics.items()
            for partition in range(count)
        ]
        consumer.assign(places)
        left = len(places)
        came: dict[str, list[ConsumedRecord]] = defaultdict(list)
        while left:
            for one in consumer.consume(1000, 1):
                if one.error() is not None:
                    assert one.error().code() == self.confluent.KafkaError._PARTITION_EOF
                    left -= 1
                    continue
                came[one.topic()].append(
                    ConsumedRecord(
                        one.partition(), one.offset(), one.timestamp()[1], one.key(), one.value(),
                        tuple(one.headers() or ()),
                    )
                )  # fmt: skip
        consumer.close()
        return came


def _hex(data: bytes | None) -> str:
    return "-" if data is None else data.hex()
