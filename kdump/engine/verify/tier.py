"""Check remote storage three ways: objects, metadata, and the local logs (`verify --tier`).

Nothing is read twice, and of a log object no more than its first header and what lies behind the
last index entry, unless `deep` asks for every batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kdump.broker.remote_log import COPY_FINISHED, STATES, RemoteSegment
from kdump.engine.reading.damage import at_place, flag_findings, gap_finding
from kdump.engine.reading.remote_partitions import RemotePartition, gaps_of, remote_partitions
from kdump.engine.reading.segment_pass import SegmentPass
from kdump.errors import KdumpError, PathError, StoreError
from kdump.findings.finding import CATALOGUE, Finding
from kdump.findings.rows import Place
from kdump.record.frames import Gap
from kdump.rows.verify import RemoteSegmentRow
from kdump.storage import checkpoints, places
from kdump.storage.aiven import INDEXES, LOG, MANIFEST, AivenPartition, BadManifest, Manifest
from kdump.storage.file_records import FileRecords
from kdump.storage.index import OffsetIndex
from kdump.storage.names import Kind
from kdump.storage.offsets import Offsets, ResolvedGap, end_of
from kdump.storage.source import Source
from kdump.storage.time_index import TimeIndex

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kdump.engine.verify.options import VerifyOptions
    from kdump.replay.topic_settings import TopicSettings

WHOLE, MISSING, ORPHAN, TRUNCATED = "whole", "missing", "orphan", "truncated"
OVERLAPPED, EPOCH_DIFFERS = "overlapped", "epoch-differs"
UNREFERENCED, UNDECODABLE = "unreferenced", "undecodable"
_NEEDED = (
    Kind.LOG,
    Kind.OFFSET_INDEX,
    Kind.TIME_INDEX,
    Kind.PRODUCER_SNAPSHOT,
    Kind.LEADER_EPOCHS,
)
#: What a broker does without an object, by what it holds.
_WITHOUT = {
    Kind.TRANSACTION_INDEX: "Consumers with read_committed receive aborted records, without an "
    "error, unless the broker has the index in its cache",
    Kind.PRODUCER_SNAPSHOT: "No effect on consumers; a new replica needs it",
    Kind.LEADER_EPOCHS: "No effect on consumers; a new replica needs it",
}
_CACHED = ", unless the broker has the index in its cache"
_FIRST_BYTES = 61  # the header of a batch

Item = RemoteSegmentRow | Finding | KdumpError


def check_tier(
    paths: Iterable[str], options: VerifyOptions, settings: TopicSettings
) -> Iterator[Item]:
    """Yield a row for each remote segment, and findings, partition by partition."""
    objects = settings.tiers.objects
    assert objects is not None
    for partition in remote_partitions(list(paths), options.selection, settings, objects):
        if not isinstance(partition, RemotePartition):
            yield partition
            continue
        try:
            yield from _PartitionCheck(partition, options).items()
        except (PathError, StoreError) as error:
            yield error


class _PartitionCheck:
    """Checks one partition."""

    def __init__(self, partition: RemotePartition, options: VerifyOptions) -> None:
        self._of = partition
        self._options = options
        self._gaps: list[tuple[int, int]] = []
        self._findings: list[Finding] = []

    def items(self) -> Iterator[Item]:
        """Yield the rows in the order of offsets, each behind the findings about it."""
        of = self._of
        log = of.log
        known = dict(log.segments) if log is not None else {}
        self._gaps = list(gaps_of(of))
        yield from map(self._gap_finding, self._gaps)
        overlapped = self._find_overlapped(known)
        unknown = [one for one in of.objects.bases if one not in known]
        order = [(one.start_offset, key) for key, one in known.items()]
        order += [(of.objects.bases[key], key) for key in unknown]
        for base, segment_id in sorted(order):
            segment = known.get(segment_id)
            if isinstance(of.objects, AivenPartition):
                yield from self._of_plugin(of.objects, segment_id, base, segment)
                continue
            files = of.objects.files(segment_id) or {}
            size = self._size(files)
            if segment is None:
                verdict = self._judge_unknown(base, segment_id, files, size)
            elif segment.state != COPY_FINISHED or not self._is_read(segment):
                verdict = UNREFERENCED
            else:
                verdict = self._judge_finished(segment, files, size)
                if verdict == WHOLE and segment_id in overlapped:
                    verdict = self._overlap(segment, overlapped[segment_id])
            yield from self._findings
            self._findings.clear()
            yield self._row(segment_id, base, segment, size, verdict)

    # Metadata against metadata -----------------------------------------------------------------

    def _gap_finding(self, gap: tuple[int, int]) -> Finding:
        first, last = gap
        of = self._of
        inside = sorted(
            one
            for one, base in of.objects.bases.items()
            if first <= base <= last and (of.log is None or one not in of.log.reachable_ids())
        )
        message = (
            f"Offsets {first:,} to {last:,} are in no finished remote segment. "
            f"Consumers get OffsetOutOfRange at {first:,}, in the middle of the log."
        )
        if inside:
            message += f" Objects of this range exist, such as those of segment {inside[0]}."
        return self._make_finding("remote-gap", None, of.objects.folder, message, offset=first)

    def _find_overlapped(self, known: dict[str, RemoteSegment]) -> dict[str, RemoteSegment]:
        """Return the finished segments that overlap others, each with one of those.

        Of two it is the one that closes the gap, else the later copy.
        """
        found: dict[str, RemoteSegment] = {}
        ids = self._of.log.reachable_ids() if self._of.log is not None else ()
        read = filter(self._is_read, (known[one] for one in ids))
        left = sorted(read, key=lambda one: (one.start_offset, one.event_ms))
        number = 1
        while number < len(left):
            before, one = left[number - 1 : number + 1]
            if one.start_offset > before.end_offset:
                number += 1
                continue
            after = left[number + 1].start_offset if number + 1 < len(left) else None
            keeps_first = after == before.end_offset + 1 or before.event_ms <= one.event_ms
            extra, other = (one, before) if keeps_first else (before, one)
            found[extra.segment_id] = other
            del left[left.index(extra)]
            number = max(number - 1, 1)
        return found

    # Objects of Aiven's plugin ------------------------------------------------------------------

    def _of_plugin(
        self, objects: AivenPartition, segment_id: str, base: int, segment: RemoteSegment | None
    ) -> Iterator[Item]:
        """Check a segment by its manifest, with `deep` also what its chunks hold."""
        stored = objects.stored_paths(segment_id)
        size = places.getsize(stored[LOG]) if LOG in stored else None
        path = next(iter(stored.values()), objects.folder)
        found: Manifest | None = None
        code, verdict, why = "", WHOLE, ""
        try:
            found = objects.manifest(segment_id)
        except BadManifest as error:
            code, verdict = "remote-manifest-invalid", UNDECODABLE
            why = f"The manifest is invalid: {error}."
        if not code and (missing := [one for one in (MANIFEST, LOG, INDEXES) if one not in stored]):
            code, verdict = "remote-missing", MISSING
            why = f"The {missing[0]} object of segment {segment_id} is missing."
        elif found is not None and size != found.log_bytes:
            code, verdict = "remote-object-size", TRUNCATED
            why = (
                f"The log object has {size:,} bytes, but {found.log_bytes:,} according to its "
                "manifest."
            )
        elif found is not None and segment is not None and segment.size_bytes != found.size_bytes:
            code, verdict = "remote-object-size", UNDECODABLE
            why = (
                f"The segment has {found.size_bytes:,} bytes, but a different size in the metadata."
            )
        elif found is not None and objects.needs_key(found):
            code = "remote-not-checked"
        elif found is not None and self._options.deep:
            objects.files(segment_id)
            if segment_id in objects.failed:
                code, verdict = "remote-object-differs", UNDECODABLE
                why = f"The segment cannot be decoded: {objects.failed[segment_id]}."
        if code:
            yield self._make_finding(code, base, path, why or CATALOGUE[code].sentence, offset=base)
        if verdict == WHOLE and segment is None and found is not None:
            verdict = self._judge_unknown(base, segment_id, {}, size)
        elif self._options.deep and segment is not None and found is not None and not code:
            verdict = self._judge_finished(
                segment, objects.files(segment_id) or {}, found.size_bytes
            )
        yield from self._findings
        self._findings.clear()
        yield self._row(segment_id, base, segment, size, verdict)

    # Objects against metadata --------------------------------------------------------------------

    def _judge_unknown(
        self, base: int, segment_id: str, files: dict[Kind, str], size: int | None
    ) -> str:
        """Judge objects without a metadata record."""
        of = self._of
        if of.log is not None and of.log.problem is not None:
            return UNREFERENCED
        if not of.complete:
            return WHOLE if of.log is None else UNREFERENCED
        if not any(first <= base <= last for first, last in self._gaps):
            paths = of.objects.paths(segment_id)
            cost = sum(map(places.getsize, paths))
            deleted = of.log is not None and segment_id in of.log.deleted
            why = "was deleted according to the metadata" if deleted else "is in no metadata record"
            at = next(iter(paths), of.objects.folder)
            self._findings.append(
                self._make_finding(
                    "remote-orphan",
                    base,
                    at,
                    f"Segment {segment_id} {why}: {len(paths)} objects, {cost:,} bytes. Brokers "
                    "neither read, report, nor delete them.",
                    size_bytes=size,
                )
            )
        return ORPHAN if of.log is None else UNREFERENCED

    def _overlap(self, segment: RemoteSegment, other: RemoteSegment) -> str:
        self._findings.append(
            self._make_finding(
                "remote-overlap",
                segment.start_offset,
                self._path(segment, Kind.LOG),
                f"Offsets {segment.start_offset:,} to {segment.end_offset:,} overlap segment "
                f"{other.segment_id} ({other.start_offset:,} to {other.end_offset:,}). No effect "
                "on consumers; brokers do not report it.",
                offset=segment.start_offset,
            )
        )
        return OVERLAPPED

    def _judge_finished(
        self, segment: RemoteSegment, files: dict[Kind, str], size: int | None
    ) -> str:
        """Judge the objects of a finished segment."""
        needed = [*_NEEDED, Kind.TRANSACTION_INDEX] if segment.has_aborts else _NEEDED
        missing = [kind for kind in needed if kind not in files]
        if missing:
            self._findings.append(self._missing_finding(segment, missing))
            return MISSING
        verdict = WHOLE
        assert size is not None
        if size != segment.size_bytes:
            verdict = TRUNCATED if size < segment.size_bytes else UNDECODABLE
            self._findings.append(self._other_size(segment, files, size))
        else:
            verdict = self._content(segment, files)
        if verdict == WHOLE and (why := self._bad_index(segment, files, size)):
            self._add(
                "remote-index-invalid",
                segment,
                files[Kind.OFFSET_INDEX],
                f"{why}. {self._stops(segment)}{_CACHED}.",
            )
            verdict = UNDECODABLE
        if verdict == WHOLE and (why := _epochs_differ(segment, files[Kind.LEADER_EPOCHS])):
            self._add(
                "remote-epochs-differ",
                segment,
                files[Kind.LEADER_EPOCHS],
                f"{why}. No effect on consumers: a leader does not read it.",
            )
            verdict = EPOCH_DIFFERS
        return verdict

    def _missing_finding(self, segment: RemoteSegment, kinds: list[Kind]) -> Finding:
        """Tell of objects that are not there; what the worst of them means."""
        kind = kinds[0]
        effect = _WITHOUT.get(kind)
        if effect is None:
            effect = self._stops(segment) + ("" if kind is Kind.LOG else _CACHED)
        more = len(kinds) - 1
        others = f", as {'is' if more == 1 else 'are'} {more} more of its objects" if more else ""
        message = (
            f"The {kind.value} object of segment {segment.segment_id}, offsets "
            f"{segment.start_offset:,} to {segment.end_offset:,}, is missing{others}. {effect}."
        )
        return self._make_finding(
            "remote-missing",
            segment.start_offset,
            self._path(segment, kind),
            message,
            offset=segment.start_offset,
            expected=segment.size_bytes if kind is Kind.LOG else None,
        )

    def _stops(self, segment: RemoteSegment) -> str:
        """Say what consumers get of a segment that cannot be read."""
        if self._is_local(segment):
            return (
                "No effect while the local log also has these records; after that, consumers stop "
                f"at offset {segment.start_offset:,}"
            )
        return (
            f"Consumers stop at offset {segment.start_offset:,}, and lookups by time into the "
            "segment fail"
        )

    def _other_size(self, segment: RemoteSegment, files: dict[Kind, str], size: int) -> Finding:
        path = files[Kind.LOG]
        if size > segment.size_bytes:
            words = f"Consumers fail after offset {segment.end_offset:,}."
            offset = segment.end_offset + 1
        else:
            offset = _end_of_log(path, segment, files) + 1
            words = (
                f"Offsets {offset:,} to {segment.end_offset:,} are lost here: consumers skip them, "
                "without an error."
            )
        if self._is_local(segment):
            words = f"No effect while the local log also has these records. After that: {words}"
        return self._make_finding(
            "remote-object-size",
            segment.start_offset,
            path,
            f"The log object has {size:,} bytes, but {segment.size_bytes:,} according to the "
            f"metadata. {words}",
            offset=offset,
            size_bytes=size,
            expected=segment.size_bytes,
            actual=size,
        )

    def _content(self, segment: RemoteSegment, files: dict[Kind, str]) -> str:
        """Look at the first and the last batch of a log object; with `deep` at each."""
        path = files[Kind.LOG]
        with Source(path) as source:
            first = source.read(0, _FIRST_BYTES)
            base = int.from_bytes(first[:8], "big", signed=True) if len(first) >= 8 else -1
            last = _end_of_log(path, segment, files)
            if base != segment.start_offset or last != segment.end_offset:
                self._add(
                    "remote-object-differs",
                    segment,
                    path,
                    f"The log object has offsets {base:,} to {last:,}, but "
                    f"{segment.start_offset:,} to {segment.end_offset:,} according to the "
                    "metadata. Consumers skip the missing records without an error.",
                )
                return UNDECODABLE
            if self._options.deep:
                before = len(self._findings)
                self._findings += self._damage(segment, source, path)
                return UNDECODABLE if len(self._findings) > before else WHOLE
        return WHOLE

    def _damage(self, segment: RemoteSegment, source: Source, path: str) -> list[Finding]:
        """Read all of a log object, and tell of what is wrong in it."""
        place = Place(self._of.topic, self._of.number, segment.start_offset, path)
        following = segment.end_offset + 1
        offsets = Offsets(segment.start_offset - 1, end_of(segment.start_offset, following))
        log = SegmentPass(
            source, offsets, limit=self._options.decompress_limit, next_base=following
        )
        found: list[Finding] = []
        released: list[ResolvedGap] = []
        last = segment.start_offset - 1
        for item in log.items(0):
            released += log.take(item)
            if not isinstance(item, Gap):
                found += flag_findings(item.batches, place, last, following)
                last = item.batches.last_offset(item.batches.count - 1)
        released += offsets.release(following)
        return found + [gap_finding(one, place, source, active=False) for one in released]

    def _bad_index(self, segment: RemoteSegment, files: dict[Kind, str], size: int) -> str | None:
        """Say what is wrong with one of the indexes, by its own entries."""
        base = segment.start_offset
        with Source(files[Kind.OFFSET_INDEX]) as data:
            offsets = OffsetIndex(data, base)
            wrong = offsets.sanity()
            if wrong is None and offsets.logical_end(size) != offsets.entries:
                wrong = f"entry {offsets.logical_end(size):,} is out of order"
        if wrong is not None:
            return f"The offset index is damaged: {wrong}"
        with Source(files[Kind.TIME_INDEX]) as data:
            times = TimeIndex(data, base)
            wrong = times.sanity()
            if wrong is None and times.logical_end() != times.entries:
                wrong = f"entry {times.logical_end():,} is out of order"
        return None if wrong is None else f"The time index is damaged: {wrong}"

    # Words and rows ------------------------------------------------------------------------------

    def _is_read(self, segment: RemoteSegment) -> bool:
        """Whether a broker reads the segment: none below the log start, or of another log."""
        of = self._of
        if not of.tiered or of.tier is None or of.tier.log is None or of.tier.problem is not None:
            return of.tiered
        return of.tier.reads(segment)

    def _is_local(self, segment: RemoteSegment) -> bool:
        tier = self._of.tier
        return tier is not None and segment.start_offset >= tier.first_base

    def _size(self, files: dict[Kind, str]) -> int | None:
        path = files.get(Kind.LOG)
        if path is None:
            return None
        with suppress(OSError):
            return places.getsize(path)
        return None

    def _path(self, segment: RemoteSegment, kind: Kind) -> str:
        files = self._of.objects.files(segment.segment_id) or {}
        return files.get(kind) or files.get(Kind.LOG) or self._of.objects.folder

    def _add(self, code: str, segment: RemoteSegment, path: str, message: str) -> None:
        self._findings.append(
            self._make_finding(
                code, segment.start_offset, path, message, offset=segment.start_offset
            )
        )

    def _make_finding(
        self, code: str, segment: int | None, path: str, message: str, **about: Any
    ) -> Finding:
        of = self._of
        place = Place(of.topic, of.number, segment, path)
        return at_place(code, place, message=message, **about)

    def _row(
        self,
        segment_id: str,
        base: int,
        segment: RemoteSegment | None,
        size: int | None,
        verdict: str,
    ) -> RemoteSegmentRow:
        of = self._of
        return RemoteSegmentRow(
            topic=of.topic,
            topic_id=of.topic_id,
            partition=of.number,
            segment_id=segment_id,
            start_offset=base,
            end_offset=segment and segment.end_offset,
            state=STATES[segment.state] if segment else None,
            size_bytes=segment and segment.size_bytes,
            leader_epochs=[
                {"epoch": one.epoch, "start_offset": one.start_offset}
                for one in segment.leader_epochs
            ]
            if segment
            else None,
            object_bytes=size,
            local=None if of.tier is None else base >= of.tier.first_base,
            verdict=verdict,
        )


def _end_of_log(path: str, segment: RemoteSegment, files: dict[Kind, str]) -> int:
    """Return the last offset of the whole batches of a log object, from an index entry on."""
    last = segment.start_offset - 1
    with Source(path) as source:
        position = 0
        with suppress(KeyError, PathError), Source(files[Kind.OFFSET_INDEX]) as data:
            index = OffsetIndex(data, segment.start_offset)
            for slot in range(index.logical_end(source.size)):
                position = index.entry(slot).position
        for start in (position, 0):
            for batches in FileRecords(source).headers(start):
                last = max(last, batches.last_offset(batches.count - 1))
            if last >= segment.start_offset:
                break
    return last


def _epochs_differ(segment: RemoteSegment, path: str) -> str | None:
    """Say how the epochs' object differs from the metadata; it covers the log up to the end."""
    with Source(path) as source:
        read = checkpoints.parse_leader_epochs(source.read_whole(checkpoints.SIZE_LIMIT))
    if read.problems:
        return "The leader epoch object cannot be read"
    own = {one.epoch: one.start_offset for one in segment.leader_epochs}
    seen = {
        one.epoch: max(one.start_offset, segment.start_offset)
        for one, after in zip(read.entries, [*read.entries[1:], None], strict=True)
        if after is None or after.start_offset > segment.start_offset
    }
    return (
        None if own == seen else (f"The leader epoch object has {seen}, but the metadata has {own}")
    )
