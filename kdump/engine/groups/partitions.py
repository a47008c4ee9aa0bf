"""Choose the partitions of internal topics to replay, and read their records."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kdump.broker.lookup_records import BrokerError
from kdump.broker.partition import PartitionView
from kdump.engine.dump.run import log_items
from kdump.engine.reading.damage import at_place
from kdump.engine.reading.going import Going
from kdump.engine.reading.options import DumpOptions
from kdump.errors import KdumpError
from kdump.findings.code import Hides
from kdump.findings.finding import Finding, finding
from kdump.findings.rows import Place, RecordChunk
from kdump.storage import names, places
from kdump.storage.log_dir import LOG_DIRS
from kdump.storage.targets import Selection, Target, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


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


def items_of(targets: Iterable[Target], topic: str, *, retired: bool) -> Iterator[Item | Finding]:
    """Yield an item for each partition of a topic; of several replicas the one that goes furthest.

    Where two go equally far the first is replayed; the others are named in findings.
    """
    found: dict[int, list[Target]] = {}
    for target in targets:
        if target.topic == topic and target.partition is not None and target.log is not None:
            found.setdefault(target.partition, []).append(target)
    for partition, replicas in sorted(found.items()):
        best = max(replicas, key=_log_end) if len(replicas) > 1 else replicas[0]
        for other in replicas:
            if other is not best:
                yield finding(
                    "replica-not-replayed",
                    path=other.path,
                    topic=topic,
                    partition=partition,
                    expected=best.path,
                    message=f"{best.path} goes as far or further, and is replayed in its place.",
                )
        assert best.log is not None
        size = sum(places.planned_size(str(one.log)) for one in best.log.logs)
        yield Item(best.path, topic, partition, retired, size)


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
        self._going = Going(item.size_bytes, pace)
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
            for one in log_items(target, self._options):
                if isinstance(one, RecordChunk):
                    self._going.reached(one)
                    yield one
                elif isinstance(one, Finding):
                    yield one
                    self._take(one)
                elif isinstance(one, KdumpError):
                    yield one
        self._going.end()
        if self.lost:
            yield self._incomplete()

    def _take(self, found: Finding) -> None:
        """See whether records are missing from here on."""
        entry = found.entry
        unread = entry.hides is not Hides.NOTHING and not (entry.empty or entry.live)
        if unread or found.code == "file-shrank":
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
            message=f"{places_lost} of the log cannot be read{where}: commits, tombstones, members "
            "and transaction markers in it are missing in what is shown, and what they ended is "
            "shown as if it had not ended, unless later records say otherwise.",
        )


def cleaned_to(item: Item) -> int:
    """Return the offset up to which the cleaner says that it came; 0 where it does not say."""
    directory = LOG_DIRS.around(item.path)
    said = directory.offsets(names.CLEANER_CHECKPOINT) if directory else None
    return (said or {}).get((item.topic, item.partition), 0)


def compacted(item: Item, end: int) -> Finding:
    """Tell that the cleaner took records out of what is asked for."""
    return at_place(
        "replay-compacted",
        item.place,
        offset=end,
        message=f"The cleaner took records below offset {end:,}: of a key that changed again "
        "before it, what was there earlier is gone, and not shown.",
    )


def unexplained(item: Item, count: int) -> Finding:
    """Tell that some records could not be understood."""
    words = "One record is" if count == 1 else f"{count:,} records are"
    return at_place(
        "replay-unexplained",
        item.place,
        actual=count,
        message=f"{words} of no type that is known, or not what the type says, and left out; "
        "kdump dump shows what lies there.",
    )
