"""Real brokers with 4 KiB of a log overwritten: a consumer that follows the advice gets on.

Each damage is tried twice: while the broker runs on the files, and after it was stopped and
started again. A consumer seeks to the offset advised and must be handed exactly that record.
KDUMP_FUZZ=long takes all brokers and more topics, and has consumers seek to the next offset on
disk, too, where that is another: none must be handed it. KDUMP_FUZZ_SEED draws anew. Needs
`broker/` of KDUMP_SHARED.
"""

import random
from collections.abc import Iterator
from pathlib import Path

import broker_box
import pytest
from broker_box import Json
from long_runs import LONG, SEED

from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.run import verify
from kdump.findings.finding import Finding

pytestmark = pytest.mark.broker

VERSIONS = ("4.4.0", "4.1.1", "2.8.2", "0.10.2.2") if LONG else ("4.1.1",)
TOPICS = 12 if LONG else 3
DAMAGED_BYTES = 4096


class Broker(broker_box.Broker):
    """A broker whose consumers seek."""

    def handed(self, seeks: list[tuple[str, int]], *, timeout: int = 30) -> list[int | str]:
        """Say for topics which offset a consumer gets that seeks to one; else why it gets none."""
        asked = [
            {"op": "consume", "topic": topic, "from": offset, "max": 1, "records": 1,
             "timeout": timeout}
            for topic, offset in seeks
        ]  # fmt: skip
        found: list[int | str] = []
        for answer in self.ask(*asked) if asked else []:
            records = answer.get("records") or []
            if not answer["ok"]:
                found.append(str(answer["error"]["message"]))
            else:
                found.append(int(records[0]["offset"]) if records else "nothing")
        return found


@pytest.fixture(params=VERSIONS)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    found = Broker(tmp_path / "data", request.param)
    yield found
    found.run("kill")


def fill_topics(broker: Broker, rng: random.Random) -> list[str]:
    """Let the broker write topics with sparse and dense indexes, small and large batches."""
    topics = []
    operations: list[Json] = []
    for number in range(TOPICS):
        topic = f"t{number}"
        topics.append(topic)
        interval = rng.choice((256, 4096, 4096, 16384))
        create = {
            "op": "create_topic",
            "topic": topic,
            "segmentBytes": rng.choice((150_000, 1_500_000)),
            "configs": {"index.interval.bytes": str(interval)},
        }
        produce = {
            "op": "produce",
            "topic": topic,
            "count": rng.choice((3000, 12000)),
            "batch": rng.choice((1, 5, 20, 100)),
            "valueSize": rng.choice(([20, 200], 100, [20, 900])),
            "codec": rng.choice(("none", "none", "gzip")),
            "seed": number,
        }
        operations += [create, produce]
    answers = broker.ask(*operations)
    assert all(answer["ok"] for answer in answers), answers
    return topics


def overwrite(directory: Path, rng: random.Random) -> tuple[str, int]:
    """Overwrite 4 KiB of a log, not of the tail that a start reads."""
    logs = sorted(path for path in directory.glob("*.log") if path.stat().st_size > 30_000)
    log = rng.choice(logs)
    size = log.stat().st_size
    start = rng.randrange(2000, size - 25_000)
    with log.open("r+b") as file:
        file.seek(start)
        file.write(rng.choice((rng.randbytes(DAMAGED_BYTES), bytes(DAMAGED_BYTES))))
    return log.name, start


def advice(broker: Broker) -> dict[str, Finding]:
    """Ask kdump; of one topic the last finding, behind which nothing is damaged."""
    version = tuple(map(int, broker.version.split(".")))
    options = VerifyOptions(broker_version=version)
    found = {}
    for item in verify([str(broker.directory)], options):
        if isinstance(item, Finding) and item.served_by is not None:
            assert item.topic is not None
            found[item.topic] = item
    return found


def try_advice(broker: Broker, told: dict[str, Finding]) -> Iterator[str]:
    """Do what was advised, and yield what is wrong; a long run tries the offsets on disk, too."""
    ways = [(topic, one.served_from) for topic, one in told.items() if one.served_from is not None]
    for (topic, offset), handed in zip(ways, broker.handed(ways), strict=True):
        if handed != offset:
            yield f"{topic} is advised {offset} and handed {handed}: {told[topic]}"
    if not LONG:
        return
    once = [
        (topic, one.next_offset)
        for topic, one in told.items()
        if one.next_offset is not None and one.served_from != one.next_offset
    ]
    for (topic, offset), handed in zip(once, broker.handed(once, timeout=3), strict=True):
        one = told[topic]
        print(f"{one.served_by} {topic}: {offset} on disk, handed {str(handed)[:90]};")
        print(f"  advised {one.served_from}, {one.skipped_by_seek} skipped")
        if handed == offset:
            yield f"{topic} is handed {handed}, though not served: {one}"


def test_consumer_receives_the_predicted_records(broker: Broker) -> None:
    rng = random.Random(f"served by {broker.version} {SEED}")
    broker.start()
    topics = fill_topics(broker, rng)
    places = {topic: overwrite(broker.directory / f"{topic}-0", rng) for topic in topics}
    wrong: list[str] = []
    for how in ("running", "starting"):
        told = advice(broker)
        assert told.keys() == set(topics), places
        assert {one.served_by for one in told.values()} == {f"{broker.version} {how}"}
        if how == "starting":
            broker.start()
        wrong += [f"{how}: {each}" for each in try_advice(broker, told)]
        broker.run("stop")
    print(f"{broker.version}: {2 * len(topics)} trials, {len(wrong)} wrong")
    assert not wrong, "\n".join(wrong)
