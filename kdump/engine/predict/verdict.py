"""Make findings of predictions that lose records or fail, and sum all of them up.

How long recovery takes, the files cannot tell. The estimate divides the bytes to be read by a rate,
and says which: each of a data directory's recovery threads takes a partition at a time, and the
directories are worked on at once. A rate that was measured gives a range: at most what one stream
gets at its slowest for all threads together, at best its fastest for each.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kdump.broker.versions import REMOTE_INDEX_CACHE, TWO_RECOVERY_THREADS, Version, has
from kdump.findings.finding import Finding, finding
from kdump.findings.ranges import records_text
from kdump.rows.verify import REFUSALS, DiskSpeed, Forecast, Recovery
from kdump.storage import names, places
from kdump.storage.directory_facts import meta_of
from kdump.storage.disk_rate import DiskRate

if TYPE_CHECKING:
    from kdump.storage.log_dir import LogDir


def predict_directory(
    directory: LogDir,
    partitions: Iterable[Recovery],
    broker: Version,
    *,
    others: Sequence[LogDir] = (),
) -> Recovery | None:
    """Say why the broker would not start with this data directory, None where it would.

    `partitions` are the rows predicted for it (others are passed over), `others` the broker's
    other data directories: a partition may lie in one of them only (R13).
    """
    reasons = [*_find_refused(directory, partitions), *_names(directory, broker)]
    reasons += _doubles(directory, others)
    if not reasons:
        return None
    return Recovery(
        outcome="out-of-memory" if reasons[0][0] == REFUSALS[1] else REFUSALS[0],
        reason="the broker would not start: " + "; ".join(reason for _, reason in reasons),
        path=directory.path,
    )


def _find_refused(directory: LogDir, partitions: Iterable[Recovery]) -> Iterator[tuple[str, str]]:
    paths = {path for _, path in directory.partitions}
    inside = {places.real(path) for path in paths}
    refused = [
        row
        for row in partitions
        if row.outcome in REFUSALS and places.real(str(row.path)) in inside
    ]
    if not refused:
        return
    first = refused[0]
    others = len(refused) - 1
    more = f", and so {'does' if others == 1 else 'do'} {others:,} more" if others else ""
    yield first.outcome, f"{first.topic}-{first.partition} stops it{more}"


def _names(directory: LogDir, broker: Version) -> Iterator[tuple[str, str]]:
    """Directories that are no partition's (R12)."""
    try:
        listed = places.entries(directory.path)
        found = sorted(entry.name for entry in listed if places.is_dir(entry))
    except OSError:
        return
    for name in found:
        if names.parse_directory(name) is not None:
            continue
        if name == names.REMOTE_LOG_INDEX_CACHE and has(broker, REMOTE_INDEX_CACHE):
            continue
        yield REFUSALS[0], f"the directory {name} is not a partition"
        return


def _doubles(directory: LogDir, others: Sequence[LogDir]) -> Iterator[tuple[str, str]]:
    """A partition that lies in two data directories (R13)."""
    elsewhere = {
        (name.topic, name.partition): other.path
        for other in others
        if other.path != directory.path
        for name, _ in other.partitions
        if name.retirement is None
    }
    for name, _ in directory.partitions:
        place = elsewhere.get((name.topic, name.partition))
        if name.retirement is None and place is not None:
            yield REFUSALS[0], f"{name.topic}-{name.partition} is also in {place}"
            return


#: What one recovery thread is taken to read in a second where nothing is said: a plain disk.
DEFAULT_RATE = 100 << 20


def default_threads(broker: Version) -> int:
    """Kafka's own number of recovery threads for each data directory."""
    return 2 if has(broker, TWO_RECOVERY_THREADS) else 1


def verdict(row: Recovery) -> Finding | None:
    """Make a finding of a `recovery` row that loses records, or with which no broker starts."""
    if row.outcome in REFUSALS:
        reason = str(row.reason)
        return _start_finding("start-refused", row, f"{reason[:1].upper()}{reason[1:]}.")
    name = names.parse_directory(os.path.basename(places.absolute(str(row.path))))
    if name is not None and name.retirement is not None:
        return None  # no consumer reads there
    lost, first = row.records_lost, row.first_lost_offset
    if lost:
        where = "" if first is None else f" from offset {first:,} on"
        records = records_text(lost)
        message = f"The next start loses {records}{where}: {row.reason}."
        if row.outcome in ("clean", "recover"):  # the end is gone already
            were = "was" if lost == 1 else "were"
            message = f"{records}{where} {were} lost already, before this start: {row.reason}."
        return _start_finding("start-loses-records", row, message)
    if _is_recreated(row):
        message = (
            "The next start makes the partition empty, from offset 0 on (its log now ends at "
            f"{row.log_end_before:,}): {row.reason}."
        )
        return _start_finding("start-loses-records", row, message)
    return None


def _is_recreated(row: Recovery) -> bool:
    """Whether a partition that the cluster knows is set aside, in a directory of KRaft's.

    An older directory lacks what would tell, and no broker that sets anything aside starts on it.
    """
    if row.outcome != "stray" or row.log_end_after != 0 or not row.log_end_before:
        return False
    return meta_of(places.parent(str(row.path))).get("version") == "1"


def _start_finding(code: str, row: Recovery, message: str) -> Finding:
    return finding(
        code,
        path=row.path or "",
        topic=row.topic,
        partition=row.partition,
        segment=row.truncate_segment,
        offset=row.first_lost_offset,
        expected=row.log_end_before,
        actual=row.log_end_after,
        message=message,
        lost_at_least=row.records_lost or None,
        lost_at_most=row.records_lost or None,
    )


class Totals:
    """Adds up forecasts; `rate` is in bytes a second and thread, `threads` a data directory's.

    `measured` are rates of disks, by data directory.
    """

    def __init__(
        self, rate: int, threads: int, measured: Mapping[str, DiskRate | None] | None = None
    ) -> None:
        self._rate = rate
        self._measured = measured
        self._threads = max(1, threads)
        self._outcomes: Counter[str] = Counter()
        self._records_lost = self._losing = self._segments = 0
        self._bytes: Counter[str] = Counter()  # by data directory
        self._largest: dict[str, int] = {}

    def add(self, row: Recovery) -> None:
        """Add what is foretold for one partition."""
        self._outcomes[row.outcome] += 1
        reported = verdict(row)
        if reported is not None and reported.code == "start-loses-records":
            self._losing += 1
            self._records_lost += reported.lost_at_least or 0
        read, size = row.segments_read, row.bytes_read
        self._segments += len(read or ())
        directory = places.parent(str(row.path))
        if size is not None:
            self._bytes[directory] += size
            self._largest[directory] = max(size, self._largest.get(directory, 0))

    def fields(self) -> Forecast:
        """Give the sums for the summary."""
        found = Forecast(
            outcomes=dict(sorted(self._outcomes.items())),
            partitions_losing=self._losing,
            records_lost=self._records_lost,
            segments_to_read=self._segments,
            bytes_to_read=sum(self._bytes.values()),
            # The slowest data directory; a partition is read by one thread.
            seconds=round(
                max((self._work(each) / self._rate for each in self._bytes), default=0), 1
            ),
            bytes_per_second=self._rate,
            recovery_threads=self._threads,
        )
        if self._measured is not None:
            self._add_range(found, self._measured)
        return found

    def _work(self, directory: str) -> float:
        """The bytes of the thread of a data directory that ends last."""
        return max(self._bytes[directory] / self._threads, self._largest[directory])

    def _add_range(self, found: Forecast, measured: Mapping[str, DiskRate | None]) -> None:
        known = {each: rate for each in self._bytes if (rate := measured.get(each)) is not None}
        least = max((self._work(each) / rate.high for each, rate in known.items()), default=None)
        most = max((self._bytes[each] / rate.low for each, rate in known.items()), default=None)
        found["seconds_at_least"] = None if least is None else round(least, 1)
        found["seconds_at_most"] = None if most is None else round(most, 1)
        unknown = (None, None, None)
        found["disks"] = [
            DiskSpeed(path=path, low=low, high=high, cached=cached)
            for path, (low, high, cached) in (
                (path, rate or unknown) for path, rate in measured.items()
            )
        ]
