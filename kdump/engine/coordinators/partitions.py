"""Choose the partitions of internal topics to replay, and read their records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from kdump.broker.lookup_records import BrokerError
from kdump.broker.partition import PartitionView
from kdump.engine.dump.run import log_items
from kdump.engine.reading.damage import at_place
from kdump.engine.reading.options import DumpOptions
from kdump.engine.work.pace import ReadProgress
from kdump.errors import KdumpError
from kdump.findings.finding import Finding, finding
from kdump.findings.rows import Place, RecordChunk
from kdump.replay.cluster import read_cluster
from kdump.replay.cluster_state import ClusterState
from kdump.replay.coordinators import partition_for
from kdump.replay.topic_settings import TopicSettings, topic_settings
from kdump.replay.transactions import TOPIC, Transaction, TransactionsLog
from kdump.storage import names, places
from kdump.storage.file_records import DEFAULT_LIMIT
from kdump.storage.log_dir import LOG_DIRS
from kdump.storage.properties import read_topic_id
from kdump.storage.targets import Selection, Target, resolve
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.work.pace import Progress
    from kdump.engine.work.pipeline import Driver
    from kdump.replay.offset_holes import OffsetHoles


Reported = Finding | KdumpError
Kept = TypeVar("Kept", "Item", Target)


class Item(NamedTuple):
    """A partition of an internal topic, or the one file of it that was named."""

    path: str
    topic: str
    partition: int
    retired: bool
    size_bytes: int

    @property
    def place(self) -> Place:
        """The partition, as findings name it."""
        return Place(self.topic, self.partition, None, self.path)


def gather(found: Iterable[Kept | Reported], kept: list[Kept]) -> Iterator[Reported]:
    """Keep what was found, and yield what there is to report in its place."""
    for one in found:
        if isinstance(one, (Finding, KdumpError)):
            yield one
        else:
            kept.append(one)


def items_of(targets: Iterable[Target], topic: str, *, retired: bool) -> Iterator[Item | Finding]:
    """Yield an item for each partition of a topic; of several replicas the one that goes furthest.

    Where two go equally far the first is replayed; the others are named in findings.
    """
    of_topic = (target for target in targets if target.topic == topic)
    for best, others in furthest(of_topic):
        for other in others:
            yield finding(
                "replica-not-replayed",
                path=other.path,
                topic=topic,
                partition=best.partition,
                expected=best.path,
                message=f"{best.path} ends at the same offset or later, and is replayed instead.",
            )
        yield item_of(best, retired=retired)


def furthest(targets: Iterable[Target]) -> Iterator[tuple[Target, list[Target]]]:
    """Yield of each partition the replica whose log goes furthest, and the others."""
    found: dict[tuple[str, int], list[Target]] = {}
    for target in targets:
        if target.topic is not None and target.partition is not None and target.log is not None:
            found.setdefault((target.topic, target.partition), []).append(target)
    for _, replicas in sorted(found.items()):
        best = max(replicas, key=_log_end) if len(replicas) > 1 else replicas[0]
        yield best, [other for other in replicas if other is not best]


def item_of(target: Target, *, retired: bool) -> Item:
    """Make the item of a partition."""
    assert target.log is not None
    assert target.topic is not None
    assert target.partition is not None
    size = sum(places.size_or_zero(str(one.log)) for one in target.log.logs)
    return Item(target.path, target.topic, target.partition, retired, size)


def home_first(items: list[Item], name: str | None, marks: Marks) -> tuple[list[Item], list[Item]]:
    """Split the partitions of a topic into the one that has the one name, and those that have not.

    How many partitions the topic has is not told by the partitions; where all that lie here count
    from 0 on without a gap it is likely their number, else the cluster's metadata may say it. So
    where the name is not found in the first, it may be in the rest.
    """
    if name is None or not items:
        return items, []
    count: int | None = len(items)
    if [item.partition for item in items] != list(range(len(items))):
        count = marks.partitions_count(items[0].topic)
    home = None if count is None else partition_for(name, count)
    first = [item for item in items if item.partition == home]
    rest = [item for item in items if item.partition != home]
    return (first, rest) if first else (rest, [])


def _log_end(target: Target) -> int:
    """Return where a log ends, as far as a broker finds out: at least where its last segment is."""
    assert target.log is not None
    logs = target.log.logs
    try:
        return PartitionView(target, as_is=True).log_end
    except (BrokerError, KdumpError):
        return logs[-1].base_offset if logs else -1


class Records:
    """Reads the records of one item, in order, and keeps what else there is to tell.

    `on_lost` is called where what comes next lies behind damage; `lost` counts these places.
    """

    def __init__(
        self,
        item: Item,
        pace: Callable[[int], None],
        decompress_limit: int,
        on_lost: Callable[[], None],
    ) -> None:
        self._item = item
        self._options = DumpOptions(decompress_limit=decompress_limit)
        self._going = ReadProgress(item.size_bytes, pace)
        self._on_lost = on_lost
        self.lost = 0
        self.lost_from: int | None = None

    def items(self) -> Iterator[RecordChunk | Finding | KdumpError]:
        """Yield chunks of records, findings and errors."""
        selection = Selection(retired=self._item.retired)
        for target in resolve([self._item.path], selection):
            if isinstance(target, KdumpError):
                yield target
                continue
            for one in log_items(target, self._options, as_stored=True):
                if isinstance(one, RecordChunk):
                    self._going.advance(one)
                    yield one
                elif isinstance(one, Finding):
                    yield one
                    self._take(one)
                elif isinstance(one, KdumpError):
                    yield one
        self._going.end()
        if self.lost:
            yield self._incomplete()

    def into(self, take: Callable[[RecordChunk], None]) -> list[Reported]:
        """Hand over all records; return what else there is to tell."""
        rest: list[Reported] = []
        for one in self.items():
            if isinstance(one, RecordChunk):
                take(one)
            else:
                rest.append(one)
        return rest

    def _take(self, found: Finding) -> None:
        """See whether records are missing from here on."""
        if found.entry.leaves_out_records or found.code == "file-shrank":
            self.lost += 1
            if self.lost_from is None:
                self.lost_from = found.offset
            self._on_lost()

    def _incomplete(self) -> Finding:
        item = self._item
        where = "" if self.lost_from is None else f", the first at offset {self.lost_from:,}"
        places_lost = "One place" if self.lost == 1 else f"{self.lost:,} places"
        return at_place(
            "replay-incomplete",
            item.place,
            offset=self.lost_from,
            message=f"{places_lost} of the log cannot be read{where}: records and markers there "
            "are missing from the output. Transactions that they ended are shown as open, unless "
            "later records show their end.",
        )


def cleaner_offset(item: Item) -> int:
    """Return the offset up to which the cleaner says that it came; 0 where it does not say."""
    directory = LOG_DIRS.find_parent(item.path)
    said = directory.offsets(names.CLEANER_CHECKPOINT) if directory else None
    return (said or {}).get((item.topic, item.partition), 0)


def compaction_findings(item: Item, log: OffsetHoles) -> Iterator[Finding]:
    """Tell where the cleaner took records behind the time up to which a log was replayed.

    What gave way to records before that time is not missed.
    """
    if log.hole_end:
        end = max(log.hole_end, cleaner_offset(item))
        if log.end_offset < end:
            yield compaction_finding(item, end)


def compaction_finding(item: Item, end: int) -> Finding:
    """Tell that the cleaner took records out of what is asked for."""
    return at_place(
        "replay-compacted",
        item.place,
        offset=end,
        message=f"The cleaner compacted the log below offset {end:,}: for each key, only the last "
        "state before that offset remains; earlier states are not shown.",
    )


def unexplained_finding(item: Item, count: int) -> Finding:
    """Tell that some records could not be understood."""
    words = "One record is" if count == 1 else f"{count:,} records are"
    return at_place(
        "replay-unexplained",
        item.place,
        actual=count,
        message=f"{words} of an unknown type, or not matching their type, and omitted; kdump dump "
        "shows them.",
    )


class Work:
    """Does the steps of items, as a driver does them."""

    def __init__(self, options: object, progress: Progress, driver: Driver) -> None:
        self.progress = progress
        self._options = options
        self._driver = driver

    def do(self, items: list[Item], step: Callable[..., Any]) -> Iterator[tuple[Item, Any]]:
        """Yield each item with what came of it."""
        self.progress.planned_items += len(items)
        self.progress.planned_bytes += sum(item.size_bytes for item in items)
        bound = partial(step, options=self._options)
        return self._driver(items, bound, self.progress)


class ReplayResult(NamedTuple):
    """What came of one partition; `lost`: records of it cannot be read."""

    transactions: tuple[Transaction, ...]
    newest_ms: int
    lost: bool
    reported: tuple[Reported, ...]


def replay_state(
    item: Item,
    pace: Callable[[int], None],
    *,
    wanted: Callable[[str], bool],
    only: str | None = None,
    at_ms: int | None = None,
    decompress_limit: int = DEFAULT_LIMIT,
) -> ReplayResult:
    """Replay one partition to its end, or up to a time."""
    log = TransactionsLog(at_ms, only)
    records = Records(item, pace, decompress_limit, log.note_loss)
    reported = records.into(log.take)
    transactions = log.transactions(wanted)
    if at_ms is not None:
        reported += compaction_findings(item, log)
    if log.unknown:
        reported.append(unexplained_finding(item, log.unknown))
    lost = bool(records.lost or log.unknown) or any(isinstance(one, KdumpError) for one in reported)
    return ReplayResult(tuple(transactions), log.newest_ms, lost, tuple(reported))


def by_producer(transactions: Iterable[Transaction]) -> dict[int, Transaction]:
    """Find transactions by producer id: the present one before one that an id had before."""
    found: dict[int, Transaction] = {}
    previous: dict[int, Transaction] = {}
    for one in transactions:
        if one.producer_id is not None:
            found[one.producer_id] = one
        if one.previous_producer_id is not None:
            previous[one.previous_producer_id] = one
    return previous | found


def describe_missing(items: list[Item], marks: Marks) -> str:
    """Say what of the topic is not here; nothing where it is all here, as far as that is known."""
    if not items:
        return f"No partition of {TOPIC} is here"
    here = {item.partition for item in items}
    count = marks.partitions_count(TOPIC) or max(here) + 1
    lacks = next((number for number in range(count) if number not in here), None)
    return "" if lacks is None else f"Partition {lacks} of {TOPIC} is not here"


def describe_unread(item: Item) -> str:
    """Say that part of a partition cannot be read."""
    return f"Part of {TOPIC}-{item.partition} cannot be read"


class Mark(NamedTuple):
    """Where a log starts and ends, and up to where consumers are handed records.

    Without a mark on disk that can be believed the log end stands for `high_watermark`; that is
    None where damage keeps a broker from finding it.
    """

    log_start: int
    log_end: int | None
    high_watermark: int | None


class Marks:
    """The partitions under the paths; each is looked at when it is first asked for.

    Of several replicas the one that goes furthest counts.
    """

    def __init__(self, targets: Iterable[Target]) -> None:
        self._settings: TopicSettings | None = None
        self._targets: dict[tuple[str, int], list[Target]] = {}
        self._paths: dict[str, str] = {}  # topic -> one of its partitions
        self._marks: dict[tuple[str, int], Mark | None] = {}
        self._topic_names: dict[str, str] | None = None
        for target in targets:
            if target.topic is None or target.partition is None or target.log is None:
                continue
            if target.log.name is None or target.log.name.retirement is None:
                place = target.topic, target.partition
                self._targets.setdefault(place, []).append(target)
                self._paths.setdefault(target.topic, target.log.path)

    def of(self, topic: str, partition: int) -> Mark | None:
        """Return the marks of a partition, None where it does not lie here."""
        place = topic, partition
        if place not in self._marks:
            targets = map(self._with_tier, self._targets.get(place, ()))
            found = [mark for target in targets if (mark := _mark(target))]
            self._marks[place] = max(found, key=_furthest, default=None)
        return self._marks[place]

    def _with_tier(self, target: Target) -> Target:
        if self._settings is None:
            around = {places.parent(path): None for path in self._paths.values()}
            self._settings = topic_settings(None, around)
        return self._settings.with_tier(target)

    def topic_name(self, topic_id: str) -> str | None:
        """Return the topic that has or had an id: as the partitions here say, or the cluster."""
        if self._topic_names is None:
            found = {read_topic_id(path): topic for topic, path in self._paths.items()}
            self._topic_names = {key: topic for key, topic in found.items() if key is not None}
        if topic_id in self._topic_names:
            return self._topic_names[topic_id]
        cluster = self._cluster
        known = cluster and (cluster.topics.get(topic_id) or cluster.removed.get(topic_id))
        return known.topic if known else None

    def partitions_count(self, topic: str) -> int | None:
        """Return how many partitions a topic has, if the cluster's metadata lies here."""
        cluster = self._cluster
        topic_id = cluster and cluster.ids.get(topic)
        known = cluster.partitions.get(topic_id) if cluster and topic_id else None
        return len(known) if known else None

    def topic_id(self, topic: str) -> str | None:
        """Return the id of a topic, if the cluster's metadata lies here."""
        return self._cluster.ids.get(topic) if self._cluster else None

    def racks(self, topic: str) -> list[frozenset[str]]:
        """Return the racks of the replicas of each partition; nothing where that is not known."""
        cluster, topic_id = self._cluster, self.topic_id(topic)
        partitions = cluster.partitions.get(topic_id, {}) if cluster and topic_id else {}
        racks = {one.broker_id: one.rack for one in cluster.brokers.values()} if cluster else {}
        return [
            frozenset(rack for broker in one.replicas if (rack := racks.get(broker)))
            for _, one in sorted(partitions.items())
        ]

    @cached_property
    def _cluster(self) -> ClusterState | None:
        path = self._paths.get(names.CLUSTER_METADATA_TOPIC)
        return None if path is None else read_cluster(path)


def _mark(target: Target) -> Mark | None:
    end: int | None = None
    try:
        view = PartitionView(target, as_is=True)
        try:
            end = view.log_end
        except BrokerError:
            pass  # verify says what is wrong there
        finally:
            view.close()
    except KdumpError:
        return None  # and who reads that log that it cannot be read
    mark = view.high_watermark
    return Mark(view.log_start, end, end if mark is None else mark)


def _furthest(mark: Mark) -> int:
    return -1 if mark.log_end is None else mark.log_end
