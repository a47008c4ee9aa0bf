"""Say for each partition what a broker answers to a set of batches that is sent to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial

from kdump.broker import versions as v
from kdump.broker.append_set import INTERNAL, ProducedSet, RefusedError, Topic
from kdump.broker.appending import Answer, StoredRun, append, append_as_follower
from kdump.broker.lookup_records import BrokerError
from kdump.broker.partition import PartitionView
from kdump.broker.settings import Settings
from kdump.broker.versions import Version, has, text_of
from kdump.engine.reading.sequence_rules import COORDINATED
from kdump.engine.verify.options import VerifyOptions
from kdump.errors import KdumpError, NothingToDo, PathError, guard
from kdump.findings.finding import Finding
from kdump.findings.rows import Row
from kdump.kernels.members import codec_name
from kdump.record.layout import format_of
from kdump.replay.topic_settings import TopicSettings, topic_settings
from kdump.rows.verify import Append, StoredEntries
from kdump.storage import names, places
from kdump.storage.names import Kind
from kdump.storage.source import Source
from kdump.storage.targets import Target, resolve
from kdump.tuples import NamedTuple

#: Members in which the answers of two releases are compared.
_COMPARED = ("accepted", "error", "duplicate", "first_offset", "last_offset", "entries")


def appends(paths: Iterable[str], options: VerifyOptions) -> Iterator[Row | Finding | KdumpError]:
    """Yield an `append` row for each partition under some paths, and errors."""
    named = list(paths)
    settings = topic_settings(
        options.server_properties,
        named,
        configs=options.configs,
        from_disk=options.topic_configs,
        broker_version=options.broker_version,
    )
    found: dict[tuple[str | None, int | None], list[Target]] = {}
    seen = set()
    for target in resolve(named, options.selection, options.server_properties):
        if isinstance(target, KdumpError):
            yield target
        elif target.log is None or not (target.whole or target.log.logs):
            yield PathError(target.path, "is neither a partition nor a segment")
        elif (place := places.real(target.path)) not in seen:
            seen.add(place)
            if isinstance(options.append, bytes):
                sent = BatchSet(None, options.append)
                yield from _answer_guarded(target, sent, settings, options)
            else:
                found.setdefault((target.topic, target.partition), []).append(target)
    if isinstance(options.append, str) and found:
        yield from _answer_capture(options.append, found, settings, options)


class BatchSet(NamedTuple):
    """A set of batches, and the number of the request of a capture that sends it."""

    frame: int | None
    data: bytes


def _answer_capture(
    capture: str,
    partitions: dict[tuple[str | None, int | None], list[Target]],
    settings: TopicSettings,
    options: VerifyOptions,
) -> Iterator[Row | Finding | KdumpError]:
    """Answer each set in a capture by itself, as if it came next."""
    from kdump.engine.frames.sent_sets import SentSet, read_sent_sets

    answered = False
    is_frames = names.parse(places.file_name(capture)).kind is Kind.FRAMES
    kind = Kind.FRAMES if is_frames else Kind.CAPTURE
    sets = read_sent_sets(capture, kind, options.selection, options.decompress_limit)
    for one in sets:
        if not isinstance(one, SentSet):
            yield one
            continue
        for target in partitions.get((one.topic, one.partition), ()):
            answered = True
            yield from _answer_guarded(target, BatchSet(one.number, one.data), settings, options)
    if not answered:
        named = places.given(capture)
        yield NothingToDo(f"{named}: no produce request for a partition in the given paths")


def _answer_guarded(
    target: Target, sent: BatchSet, settings: TopicSettings, options: VerifyOptions
) -> Iterator[Row | KdumpError]:
    rows = _answers(target, sent, settings, options)
    return guard(target.path, rows, topic=target.topic, partition=target.partition)


def _answers(
    target: Target, sent: BatchSet, settings: TopicSettings, options: VerifyOptions
) -> Iterator[Row]:
    """Answer by the newest release that can have written the partition, and by the oldest."""
    topic = settings.of(target.path, target.topic)
    directory = places.parent(target.path)
    answer = partial(_answer, target, sent, topic, options)
    yield settings.releases.answer(directory, answer, _COMPARED)


def _answer(
    target: Target, given: BatchSet, settings: Settings, options: VerifyOptions, broker: Version
) -> Append:
    row = Append(target.topic, target.partition, len(given.data), follower=options.follower)
    row = row.replaced(broker_version=text_of(broker), frame=given.frame)
    topic = Topic.of(broker, settings, options.now_ms or 0, options.decompress_limit)
    sent = ProducedSet(given.data, broker)
    view = PartitionView(target, broker=broker, limit=options.decompress_limit, settings=settings)
    with closing(view):
        answer = Answer(0)
        answer.note("topic", _topic_words(topic))
        try:
            end = _log_end(target, view)
            answer.note("log", f"the log ends at offset {end:,}")
            _take(sent, end, topic, answer, view, options)
        except RefusedError as refused:
            row = row.replaced(error=refused.error, reason=refused.reason)
            answer.note("refused", str(refused))
        except BrokerError as failed:
            row = row.replaced(error="KAFKA_STORAGE_ERROR", reason=str(failed))
            answer.note("refused", f"the partition does not load: {failed}")
        else:
            row = _fill_accepted(row, answer, topic)
    if options.explain:
        steps = [{"step": step, "file": "", "text": text} for step, text in answer.steps]
        row = row.replaced(steps=steps)
    return row


def _log_end(target: Target, view: PartitionView) -> int:
    logs = target.log.logs if target.log else []
    if logs and all(segment.is_pre08 for segment in logs):
        with Source(str(logs[-1].log or logs[-1].files[Kind.PRE08_LOG])) as log:
            return logs[-1].base_offset + log.size
    return view.log_end


def _take(
    sent: ProducedSet,
    log_end: int,
    topic: Topic,
    answer: Answer,
    view: PartitionView,
    options: VerifyOptions,
) -> None:
    """Append to a log that ends there; `answer` becomes what is stored (V35: internal topics)."""
    answer.first_offset = answer.next_offset = log_end
    if options.follower:
        append_as_follower(sent, topic, answer)
    elif view.target.topic in COORDINATED and has(topic.broker, v.SETS_FIT_SEGMENTS):
        raise RefusedError(INTERNAL, "an internal topic, which clients cannot write to")
    elif has(topic.broker, v.MESSAGE_TIMESTAMPS):
        append(sent, topic, answer)
    else:
        from kdump.broker.appending_old import append_old

        append_old(sent, topic, answer)
    if answer.entries and has(topic.broker, v.PRODUCER_STATE):
        from kdump.broker import append_producers as producers

        ids = producers.producers_of(sent)
        known = producers.known_producers(view, ids, topic.now_ms)
        producers.check_producers(sent, answer, known, topic.broker, follower=options.follower)


def _fill_accepted(row: Append, answer: Answer, topic: Topic) -> Append:
    stored = answer.stored
    has_times = has(topic.broker, v.MESSAGE_TIMESTAMPS)
    first = last = None
    if stored:
        first = None if _is_closed(stored[0], row) else stored[0].first_offset
        last = answer.next_offset - 1
    if answer.duplicate_of is not None:
        first, last = answer.duplicate_of
        return row.replaced(
            accepted=True, duplicate=True, valid_bytes=answer.valid_bytes, first_offset=first,
            last_offset=last, entries=0, size_bytes=0, rewritten=False, batches=[],
        )  # fmt: skip
    return row.replaced(
        accepted=True,
        valid_bytes=answer.valid_bytes,
        first_offset=first,
        last_offset=last,
        log_append_ms=topic.now_ms
        if topic.has_append_time and stored and not row.follower
        else None,
        entries=answer.entries,
        size_bytes=answer.size_bytes,
        rewritten=answer.rewritten,
        batches=[
            StoredEntries(
                first_offset=None if _is_closed(one, row) else one.first_offset,
                last_offset=one.last_offset,
                entries=one.entries,
                magic=one.magic,
                codec=codec_name(one.codec),
                timestamp_type=one.timestamp_type if has_times else None,
                max_timestamp_ms=None if one.max_timestamp_ms < 0 else one.max_timestamp_ms,
                size_bytes=one.size_bytes,
            )
            for one in stored
        ],
    )


def _is_closed(one: StoredRun, row: Append) -> bool:
    """Whether it is a wrapper that is not opened, so that its first offset is not known (F18)."""
    return row.follower and bool(one.codec) and format_of(one.magic).is_legacy


def _topic_words(topic: Topic) -> str:
    settings = topic.settings
    parts = (
        f"magic {topic.format.magic}",
        f"compression.type={settings.compression_type}",
        f"message.timestamp.type={settings.timestamp_type}",
        f"cleanup.policy={settings.cleanup_policy}",
        f"max.message.bytes={settings.message_max_bytes}",
    )
    return ", ".join(parts)
