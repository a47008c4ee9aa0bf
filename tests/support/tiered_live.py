"""Hold what kdump answers on tiered topics against the running brokers that wrote them."""

from collections.abc import Callable, Iterable
from contextlib import closing
from time import sleep

from broker_box import Json

from kdump.broker.list_offsets import list_offsets
from kdump.engine.dump.run import dump
from kdump.engine.find.options import FindOptions
from kdump.engine.reading.options import DumpOptions
from kdump.errors import KdumpError
from kdump.findings.rows import RecordChunk
from kdump.replay.topic_settings import topic_settings
from kdump.storage.targets import Selection, resolve

Ask = Callable[..., list[Json]]
T0 = 1_700_000_000_000
LEVELS = ("read_uncommitted", "read_committed")
SPECIAL = {"earliest": -2, "latest": -1, "max": -3, "earliest-local": -4, "latest-tiered": -5}


def wait_until_settled(
    ask: Ask, topics: Iterable[str]
) -> dict[tuple[str, str], dict[object, list[object]]]:
    """Wait until nothing moves any more; give what the broker answers of each topic, and level."""
    times = [T0 + step * 50_000 for step in range(12)]
    places = [(topic, level) for topic in topics for level in LEVELS]
    asks: list[Json] = [
        {"op": "list_offsets", "topic": topic, "at": [*SPECIAL, *times], "isolation": level}
        for topic, level in places
    ]
    before: object = None
    for _ in range(40):
        answers = ask(*asks)
        now = [answer["offsets"] for answer in answers]
        if now == before:
            break
        before = now
        sleep(3)
    return {
        place: {one["at"]: [one["offset"], one["timestamp"]] for one in said}
        for place, said in zip(places, now, strict=True)
    }


def compare(ask: Ask, topics: list[str], data: str, tier: str) -> int:
    """Ask kdump what the broker was asked, beside it; return how many answers were equal."""
    answers = wait_until_settled(ask, topics)
    settings = topic_settings(None, [data], tier=tier)
    asked = 0
    for target in resolve([data], Selection()):
        assert not isinstance(target, KdumpError)
        if target.topic not in topics:
            continue
        for level in LEVELS:
            options = FindOptions(settings=settings, isolation=level)
            with closing(options.view(settings.with_tier(target))) as view:
                for at, answer in answers[target.topic or "", level].items():
                    found = list_offsets(view, SPECIAL[at] if at in SPECIAL else int(str(at)))
                    assert [found.offset, found.timestamp_ms] == answer, (target.topic, level, at)
                    asked += 1
    places = [(topic, level) for topic in topics for level in LEVELS]
    asks = [{"op": "consume", "topic": topic, "isolation": level} for topic, level in places]
    for (topic, level), consumed in zip(places, ask(*asks), strict=True):
        shown = DumpOptions(
            visible=True, isolation=level, tier=tier, selection=Selection(topic=topic)
        )
        chunks = [item for item in dump([data], shown) if isinstance(item, RecordChunk)]
        assert sum(map(len, chunks)) == consumed["count"], (topic, level)
        asked += 1
    return asked
