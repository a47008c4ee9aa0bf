"""What a broker of a release makes of a set that is sent to a partition: stored how, or refused.

`append` is a leader's from 0.10 on (before: `appending_old`), `append_as_follower` a follower's;
the state of producers is asked afterwards (`append_producers`). Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import islice
from operator import or_

from kdump import kernels
from kdump.broker import versions as v
from kdump.broker.append_set import (
    BAD_TIME,
    CLOSES,
    CODEC_AT,
    CORRUPT,
    MAGIC_AT,
    UNKNOWN,
    ProducedSet,
    RefusedError,
    Topic,
    check_codec,
    codec_of,
    refuse_corrupt,
)
from kdump.broker.versions import has
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.kernels.columns import DecodedRecords, RecordBatches
from kdump.kernels.text_form import time_text
from kdump.record.batch import read_batch
from kdump.record.compression import GZIP_CUT
from kdump.record.decoded_part import DecodedPart
from kdump.record.layout import (
    CODEC_MASK,
    CRC_START_LEGACY,
    FORMATS,
    LOG_OVERHEAD,
    NONE,
    SMALLEST_MESSAGE,
    TIMESTAMP_TYPE_BIT,
    ZSTD,
    format_of,
    int64,
)
from kdump.record.rewriter import NO_TIMESTAMP, Rewriter, TooManyBytesError
from kdump.tuples import NamedTuple

_BATCHES_LISTED = 1000
_GZIP_HEAD_BYTES = 10
_SOUND = (reasons.END, reasons.FULL)
_WRONG_INSIDE = c.INNER_MAGIC_OTHER | c.INNER_CRC_BAD
_UNREAD = (reasons.KEY_LENGTH, reasons.VALUE_LENGTH)


class StoredRun(NamedTuple):
    """Entries that follow one another in the log and are alike: plain messages, or one batch."""

    first_offset: int
    last_offset: int
    entries: int
    magic: int
    codec: int
    stamped: bool  # LogAppendTime
    max_timestamp_ms: int
    size_bytes: int
    largest_bytes: int

    @property
    def timestamp_type(self) -> str | None:
        """The type of its timestamps, None where the format has none."""
        if not format_of(self.magic).has_timestamps:
            return None
        return "LogAppendTime" if self.stamped else "CreateTime"

    def joins(self, other: StoredRun) -> bool:
        """Whether entries that follow are messages like these."""
        return self.last_offset + 1 == other.first_offset and self[3:6] == other[3:6]

    def join(self, other: StoredRun) -> StoredRun:
        """Return both as one."""
        return other._replace(
            first_offset=self.first_offset,
            entries=self.entries + other.entries,
            max_timestamp_ms=max(self.max_timestamp_ms, other.max_timestamp_ms),
            size_bytes=self.size_bytes + other.size_bytes,
            largest_bytes=max(self.largest_bytes, other.largest_bytes),
        )


class Answer:
    """What is stored, and the steps that led there; `is_listed` is false where not all are."""

    def __init__(self, next_offset: int) -> None:
        self.first_offset = self.next_offset = next_offset
        self.stored: list[StoredRun] = []
        self.steps: list[tuple[str, str]] = []
        self.rewritten = False
        self.valid_bytes = self.size_bytes = self.entries = self.largest_bytes = 0
        self.max_timestamp_ms = NO_TIMESTAMP
        self.is_listed = True
        self.duplicate_of: tuple[int, int] | None = None

    def note(self, step: str, text: str) -> None:
        """Keep a step."""
        self.steps.append((step, text))

    def store(self, one: StoredRun) -> None:
        """Add entries that are stored, plain messages to those before."""
        self.entries += one.entries
        self.size_bytes += one.size_bytes
        self.largest_bytes = max(self.largest_bytes, one.largest_bytes)
        self.max_timestamp_ms = max(self.max_timestamp_ms, one.max_timestamp_ms)
        if self.stored and not one.codec and self.stored[-1].joins(one):
            self.stored[-1] = self.stored[-1].join(one)
        elif len(self.stored) < _BATCHES_LISTED:
            self.stored.append(one)
        else:
            self.is_listed = False


class FirstPass(NamedTuple):
    """What the first look at a set finds (`analyzeAndValidateRecords`)."""

    entries: int
    codec: int
    first_offset: int
    is_rising: bool
    magics: frozenset[int]


def check_framing(sent: ProducedSet, topic: Topic, *, follower: bool) -> FirstPass:
    """Check each entry unopened: framing, offsets, size, checksum, codec (V1, V3, V4, V5)."""
    broker = topic.broker
    count, codec, first, last, rising = 0, NONE, -1, -1, True
    magics = set()
    for rows, row in sent.entries():
        read = rows.format(row)
        offset = 0 if follower or read.is_legacy else rows.base_offset(row)
        if offset and has(broker, v.RECORD_BATCHES):
            raise RefusedError(topic.invalid, f"a base offset of {offset:,}, not 0")
        if not count:
            first = rows.last_offset(row) if read.is_legacy else rows.base_offset(row)
        rising = rising and last < rows.last_offset(row)
        last = rows.last_offset(row)
        if not (follower and has(broker, v.FOLLOWER_SIZES_FREE)):
            topic.refuse_large(rows.size_bytes(row))
        refuse_corrupt(rows, row, broker)
        codec = codec_of(rows, row, broker) or codec
        magics.add(rows.magic(row))
        count += 1
    return FirstPass(count, codec, first, rising, frozenset(magics))


def note_look(answer: Answer, sent: ProducedSet, shallow: FirstPass) -> None:
    """Keep what the first look found: what follows the last whole entry is dropped."""
    answer.valid_bytes = sent.end
    rest = len(sent.data) - sent.end
    answer.note("look", f"{shallow.entries:,} entries, {sent.end:,} bytes, {rest:,} dropped")


def append(sent: ProducedSet, topic: Topic, answer: Answer, *, is_requested: bool = True) -> None:
    """Fill an answer with what a leader stores of a set; raises what it refuses it with.

    `is_requested`: a client asks for it, whose request is checked first (V32).
    """
    if is_requested and has(topic.broker, v.REQUEST_CHECKED):
        _check_request(sent, topic)
    shallow = check_framing(sent, topic, follower=False)
    note_look(answer, sent, shallow)
    if not shallow.entries:
        return
    codec = shallow.codec if topic.codec is None else topic.codec
    plain = shallow.codec == codec == NONE
    if has(topic.broker, v.ONE_BATCH):
        _check_one_batch(sent, shallow, topic)
    try:
        if plain and shallow.magics == {topic.format.magic}:
            _in_place(sent, topic, answer)
        else:
            _unpack_set(sent, topic, shallow.codec, codec, answer)
    except TooManyBytesError:
        words = f"more than {topic.limit:,} uncompressed bytes (--decompress-limit)"
        raise RefusedError("UNKNOWN", words) from None
    check_sizes(answer, topic)


def check_sizes(answer: Answer, topic: Topic) -> None:
    """Check the sizes of what is to be written (V26)."""
    if answer.rewritten:
        topic.refuse_large(answer.largest_bytes)
    most = topic.settings.segment_bytes
    if answer.size_bytes > most and has(topic.broker, v.SETS_FIT_SEGMENTS):
        words = f"{answer.size_bytes:,} bytes, segment.bytes is {most:,}"
        raise RefusedError("RECORD_LIST_TOO_LARGE", words)


def append_as_follower(sent: ProducedSet, topic: Topic, answer: Answer) -> None:
    """Fill an answer with what a follower stores of what it fetched: as it is, or nothing (V27)."""
    log_end = answer.next_offset
    shallow = check_framing(sent, topic, follower=True)
    note_look(answer, sent, shallow)
    if not shallow.entries:
        return
    named = has(topic.broker, v.OFFSETS_REFUSED)
    if not shallow.is_rising:
        error = "OffsetsOutOfOrderException" if named else "IllegalArgumentException"
        raise RefusedError(error, "the last offsets of the entries do not increase")
    if shallow.first_offset < log_end:
        error = "UnexpectedAppendOffsetException" if named else "IllegalArgumentException"
        words = f"offset {shallow.first_offset:,} is below the log end, {log_end:,}"
        raise RefusedError(error, words)
    for rows, row in sent.entries():
        last, size = rows.last_offset(row), rows.size_bytes(row)
        stamped = bool(rows.attributes(row) & TIMESTAMP_TYPE_BIT & rows.format(row).meant_bits)
        first = last if rows.base_offset(row) < 0 else rows.base_offset(row)
        codec = codec_of(rows, row, topic.broker)
        time = rows.max_timestamp(row)
        answer.store(StoredRun(first, last, 1, rows.magic(row), codec, stamped, time, size, size))
        answer.next_offset = last + 1
    answer.first_offset = shallow.first_offset
    check_sizes(answer, topic)


def _check_request(sent: ProducedSet, topic: Topic) -> None:
    """Check what a produce request may carry: a batch of magic 2, and that alone (V32)."""
    only = has(topic.broker, v.BATCHES_ONLY)
    begun = sent.data[MAGIC_AT : MAGIC_AT + 1]
    named = format_of(begun[0]) if begun else FORMATS[0]
    is_new = bool(begun) and not named.is_legacy and named.magic == begun[0]  # from version 3 on
    first: list[bool] = []
    try:
        for rows, row in islice(sent.entries(), 2):
            first.append(rows.format(row).is_legacy)
            if first[0]:
                break
    except RefusedError as refused:
        is_checked = is_new and not has(topic.broker, v.REQUEST_ANSWERED)
        if is_checked or (not first and has(topic.broker, v.FIRST_ENTRY_LOOKED_AT)):
            raise _refuse_request(topic, refused.reason, always=True) from None
        raise
    if not first:
        if has(topic.broker, v.FIRST_ENTRY_LOOKED_AT):
            raise _refuse_request(topic, "a set without a complete entry", always=True)
        if is_new or only:
            raise _refuse_request(topic, "a request without a complete batch")
    elif only and first[0]:
        raise _refuse_request(topic, "a request with messages in place of a batch")
    elif len(first) > 1:
        raise _refuse_request(topic, "a request with more than one record batch")


def _refuse_request(topic: Topic, reason: str, *, always: bool = False) -> RefusedError:
    """Say that a request is refused; `always`: and that even later releases do not answer it."""
    if has(topic.broker, v.REQUEST_ANSWERED) and not always:
        return RefusedError(topic.invalid, reason)
    return RefusedError("InvalidRecordException", reason + CLOSES)


def _check_one_batch(sent: ProducedSet, shallow: FirstPass, topic: Topic) -> None:
    """Refuse several batches, of a format or codec that allows one (V9)."""
    first = next(rows.format(row) for rows, row in sent.entries())
    if shallow.entries > 1 and (not first.is_legacy or shallow.codec):
        raise RefusedError(topic.invalid, "more than one batch in a compressed set")


class _Records:
    """Opens the entries of a set one by one, and checks every record (V10, V11, V15, V19, V20)."""

    def __init__(self, sent: ProducedSet, topic: Topic, codec: int, *, packs: bool) -> None:
        self._sent, self._topic, self._codec = sent, topic, codec
        self.count = 0  # records of the entry
        self.newest = NO_TIMESTAMP
        self._first_magic: int | None = None
        self._errors: set[str] = set()
        self._why = ""
        self._times_count = has(topic.broker, v.RECORD_BATCHES) or (
            topic.format.has_timestamps or not packs
        )
        self.rewrites = False
        self.converts = False  # each record is rewritten as soon as it is checked
        self.unwritable = self.was_skipped = self.has_bad_inside = False

    def pieces(self, rows: RecordBatches, row: int) -> Iterator[DecodedPart]:
        """Yield the records of an entry, checked; raises what they are refused for."""
        self.count, self.newest = 0, NO_TIMESTAMP
        self._errors.clear()
        self._check_entry(rows, row)
        decoded: Iterator[DecodedPart] = read_batch(
            self._sent.data, 0, rows, row, limit=self._topic.limit
        )
        if rows.is_wrapper(row) or self._is_measured_first:
            decoded = iter(self._read_all(decoded, rows, row))
        for piece in decoded:
            self._check(piece, rows, row)
            if piece.reason in _UNREAD and self._is_kept(rows, row):
                self._check_unread(rows, row)
            elif piece.reason not in _SOUND:
                self._refuse_undecoded(piece, rows, row)
            self.count += piece.records.count
            yield piece
        if self.was_skipped and not self._errors:
            raise RefusedError(UNKNOWN, "offsets inside a compressed batch that are not 0, 1, …")
        if self._errors:
            error = BAD_TIME if BAD_TIME in self._errors else self._topic.invalid
            raise RefusedError(error, self._why)

    def _read_all(
        self, decoded: Iterator[DecodedPart], rows: RecordBatches, row: int
    ) -> list[DecodedPart]:
        """All records of an entry that is read to its end before the first is looked at."""
        pieces = list(decoded)
        if pieces[-1].reason == reasons.WRAPPER_OFFSET and not has(
            self._topic.broker, v.RECORD_BATCHES
        ):
            zero = rows.slice(row, row + 1)  # whose messages keep their own offsets (F14)
            zero.put(0, last_offset=0)
            pieces = list(read_batch(self._sent.data, 0, zero, 0, limit=self._topic.limit))
        if pieces[-1].reason not in (*_SOUND, reasons.INNER_COMPRESSED):
            self._refuse_undecoded(pieces[-1], rows, row)
        return pieces

    def _is_kept(self, rows: RecordBatches, row: int) -> bool:
        """Whether an entry is a message that is stored as it is, its value not looked at."""
        return rows.format(row).is_legacy and not (self.rewrites or rows.is_wrapper(row))

    def _check_unread(self, rows: RecordBatches, row: int) -> None:
        """Take a plain message whose key or value runs past it, which nobody looks at."""
        self.count, self.newest = 1, rows.max_timestamp(row)
        if (
            self._topic.is_compacted
            and int.from_bytes(
                self._sent.data[rows.position(row) + rows.format(row).header_size - 4 :][:4],
                "big",
                signed=True,
            )
            < 0
        ):
            self._note(self._topic.invalid, "a record without a key, for a compacted topic")
        elif rows.has_timestamps(row):
            self._is_mistimed(self.newest, rows.attributes(row))

    def _check_entry(self, rows: RecordBatches, row: int) -> None:
        topic, magic = self._topic, rows.magic(row)
        broker = topic.broker
        if self._first_magic is None:
            self._first_magic = magic
        if has(broker, v.ONE_BATCH) and magic != self._first_magic:
            raise RefusedError(topic.invalid, "entries of different magics")
        if not has(broker, v.RECORD_BATCHES):
            if rows.format(row).magic != magic:
                raise RefusedError(UNKNOWN, f"a magic byte of {magic}")
            return
        if rows.format(row).is_legacy:
            return
        span = int64(rows.last_offset(row) - rows.base_offset(row) + 1)
        count = rows.records_count(row)
        if has(broker, v.COUNTS_COMPARED):
            if span <= 0 or count <= 0 or span != count:
                raise RefusedError(topic.invalid, f"{count:,} records in {span:,} offsets")
        elif not count:
            raise RefusedError(topic.invalid, "a batch without records")
        if rows.flags_of(row) & c.CONTROL:
            raise RefusedError(topic.invalid, "a control batch from a client")
        if rows.producer_id(row) >= 0:
            if rows.base_sequence(row) < 0:
                raise RefusedError(topic.invalid, "a producer id without a sequence number")
            if not topic.format.has_producer_fields:
                words = "a producer id, which the topic's format cannot store"
                raise RefusedError("UNSUPPORTED_FOR_MESSAGE_FORMAT", words)
        if rows.flags_of(row) & c.TRANSACTIONAL and not topic.format.has_producer_fields:
            words = "a transaction, which the topic's format cannot store"
            raise RefusedError("UNSUPPORTED_FOR_MESSAGE_FORMAT", words)

    def _refuse_undecoded(self, piece: DecodedPart, rows: RecordBatches, row: int) -> None:
        topic, reason = self._topic, piece.reason
        if reason == reasons.OVER_LIMIT:
            raise TooManyBytesError
        words = f"records that cannot be read ({reasons.NAMES[reason]})"
        error = _DECODE_ERRORS.get(reason, topic.invalid)
        is_opened = rows.size_bytes(row) >= rows.format(row).header_size + _GZIP_HEAD_BYTES
        if piece.detail == GZIP_CUT and is_opened and not rows.format(row).is_legacy:
            error = topic.invalid
        if reason in _UNREAD and not rows.format(row).is_legacy:
            error = topic.invalid
        if reason == reasons.INNER_EMPTY and not has(topic.broker, v.RECORD_BATCHES):
            error = UNKNOWN if self._by_clients_code else ""
        if reason == reasons.CODEC_FAILED and not self._by_clients_code:
            error = "" if piece.detail == GZIP_CUT and is_opened else CORRUPT
        is_zstd = rows.attributes(row) & CODEC_MASK == ZSTD and reason == reasons.CODEC_FAILED
        is_zstd = is_zstd and has(topic.broker, v.ZSTD_END_NOT_READ)
        if is_zstd and self.count + piece.records.count == rows.records_count(row):
            return  # what is missing is not asked for
        if reason == reasons.INNER_SIZE:
            size = int.from_bytes(piece.data[piece.stop + 8 :][:4], "big", signed=True)
            error = CORRUPT if size < SMALLEST_MESSAGE else UNKNOWN
        checked = reason in (*_UNREAD, reasons.INNER_SIZE) and has(topic.broker, v.RECORD_BATCHES)
        if checked and rows.is_wrapper(row) and _has_bad_crc(piece):
            error = CORRUPT
        if reason == reasons.INNER_COMPRESSED:
            check_codec(piece.data[piece.stop + CODEC_AT], topic.broker)
        if error:
            raise RefusedError(error, words)

    def _check(self, piece: DecodedPart, rows: RecordBatches, row: int) -> None:
        """Check some records of an entry; one by one where any may be wrong."""
        records = piece.records
        if not records.count:
            return
        unwritable = self._topic.format.is_legacy and self._has_headers(records, rows, row)
        may_be_wrong = self._topic.is_compacted and min(records.key_sizes) < 0
        inside = reduce(or_, records.row_flags, 0)
        self.has_bad_inside |= bool(inside & c.INNER_CRC_BAD)
        may_be_wrong |= bool(inside & _WRONG_INSIDE)
        if rows.has_timestamps(row):
            low, high = min(records.timestamps), max(records.timestamps)
            self.newest = max(self.newest, high)
            may_be_wrong |= bool(rows.attributes(row) & TIMESTAMP_TYPE_BIT)
            unwritable |= low < NO_TIMESTAMP and (
                has(self._topic.broker, v.RECORD_BATCHES)
                or (self._by_clients_code and not self._topic.format.has_timestamps)
            )
            may_be_wrong |= low <= NO_TIMESTAMP or self._is_off(low) or self._is_off(high)
        elif self._is_timed_anyway:
            may_be_wrong |= self._is_off(NO_TIMESTAMP)
        self.unwritable |= unwritable
        if may_be_wrong or (unwritable and self.converts):
            for number in range(records.count):
                self._check_one(records, number, rows, row)

    def _check_one(
        self, records: DecodedRecords, number: int, rows: RecordBatches, row: int
    ) -> None:
        """Check a record: magic, checksum, key, timestamp; the first that is wrong counts."""
        topic, flags = self._topic, records.flags_of(number)
        if flags & c.INNER_MAGIC_OTHER:
            error = topic.invalid if has(topic.broker, v.INNER_MAGIC_NAMED) else UNKNOWN
            self._note(error, "a message of another magic in a wrapper")
        elif flags & c.INNER_CRC_BAD and has(topic.broker, v.RECORD_BATCHES):
            raise RefusedError(CORRUPT, BAD_INSIDE)
        elif topic.is_compacted and records.key_size(number) < 0:
            self._note(topic.invalid, "a record without a key, for a compacted topic")
        elif not (
            (rows.has_timestamps(row) or self._is_timed_anyway)
            and self._is_mistimed(records.timestamp(number), rows.attributes(row))
        ):
            headers = self._topic.format.is_legacy and records.headers_count(number)
            is_early = rows.has_timestamps(row) and records.timestamp(number) < NO_TIMESTAMP
            is_early &= self._by_clients_code
            if (headers or is_early) and self.converts and not self._errors:
                raise RefusedError(UNKNOWN, UNWRITABLE)

    @property
    def _by_clients_code(self) -> bool:
        """Whether what is in a wrapper is read, and written, as clients do (V21, V24)."""
        return has(self._topic.broker, v.READ_BY_CLIENTS_CODE)

    def moves(self, rows: RecordBatches, row: int) -> bool:
        """Whether offsets in a wrapper end at its own even if that is 0 (F14)."""
        return not (self._by_clients_code or rows.last_offset(row))

    @property
    def _is_measured_first(self) -> bool:
        """Whether the size after a conversion is estimated first, from all records."""
        return self.converts and has(self._topic.broker, v.RECORD_BATCHES)

    @property
    def _is_timed_anyway(self) -> bool:
        """Whether messages without a timestamp are held to its limits: -1 is theirs (V22)."""
        return self.converts and not has(self._topic.broker, v.RECORD_BATCHES)

    @staticmethod
    def _has_headers(records: DecodedRecords, rows: RecordBatches, row: int) -> bool:
        return not rows.format(row).is_legacy and any(records.headers_counts)

    def refuse_skipped(self, rows: RecordBatches, row: int) -> None:
        """Fail where records are to be rewritten whose keys and values were skipped (V16)."""
        kept = rows.magic(row) == self._topic.format.magic and not rows.format(row).is_legacy
        if kept and has(self._topic.broker, v.KEYS_SKIPPED):
            self.was_skipped = True

    def _is_mistimed(self, time: int, attributes: int) -> bool:
        """Note that a timestamp, or its type, is not what a producer may send (V22)."""
        topic = self._topic
        if self._is_off(time):
            words = (
                f"a timestamp of {time_text(time)}, outside the topic's limits at "
                f"{time_text(topic.now_ms)}"
            )
            self._note(BAD_TIME, words)
            return True
        limited = topic.settings.timestamp_type == "CreateTime" and time != NO_TIMESTAMP
        passes = limited and has(topic.broker, v.BEFORE_AND_AFTER)
        if attributes & TIMESTAMP_TYPE_BIT and self._times_count and not passes:
            self._note(BAD_TIME, "the timestamp type LogAppendTime, set by a producer")
            return True
        return False

    def _is_off(self, time: int) -> bool:
        """Whether a timestamp is out of the topic's limits (V22)."""
        topic, settings = self._topic, self._topic.settings
        if settings.timestamp_type != "CreateTime" or not self._times_count:
            return False
        if time == NO_TIMESTAMP and has(topic.broker, v.TIMESTAMP_NOT_NEEDED):
            return False
        old = int64(topic.now_ms - time)
        if has(topic.broker, v.BEFORE_AND_AFTER):
            before, after = settings.timestamp_before_max_ms, settings.timestamp_after_max_ms
            return old > before or int64(-old) > after
        return (old if old >= 0 else int64(-old)) > settings.timestamp_before_max_ms

    def _note(self, error: str, why: str) -> None:
        if not has(self._topic.broker, v.RECORD_ERRORS):
            raise RefusedError(error, why)
        if error not in self._errors:
            self._errors.add(error)
            self._why = why if error == BAD_TIME or not self._why else self._why


BAD_INSIDE = "a wrong checksum in a wrapper"
UNWRITABLE = "a time below -1, or headers in a format without them: it cannot be rewritten"
_DECODE_ERRORS = {
    reasons.CODEC_FAILED: UNKNOWN,
    reasons.CODEC_MISSING: "UNKNOWN",
    reasons.VALUE_NULL: UNKNOWN,
    reasons.INNER_CUT_SHORT: "",
    reasons.KEY_LENGTH: UNKNOWN,
    reasons.VALUE_LENGTH: UNKNOWN,
}


def _has_bad_crc(piece: DecodedPart) -> bool:
    """Whether the message of a wrapper that a piece stops at has a wrong checksum."""
    data, start = piece.data, piece.stop + CRC_START_LEGACY
    end = piece.stop + LOG_OVERHEAD + int.from_bytes(data[piece.stop + 8 :][:4], "big")
    return int.from_bytes(data[start - 4 : start], "big") != kernels.crc32(data, start, end)


def _in_place(sent: ProducedSet, topic: Topic, answer: Answer) -> None:
    """Give offsets to entries that are stored as they came, plain and in the topic's format."""
    records = _Records(sent, topic, NONE, packs=False)
    for rows, row in sent.entries():
        for _ in records.pieces(rows, row):
            pass
        size = rows.size_bytes(row)
        last = answer.next_offset + records.count - 1
        span = rows.last_offset(row) - rows.base_offset(row)
        time = topic.now_ms if topic.has_append_time else records.newest
        magic = rows.magic(row)
        answer.store(
            StoredRun(last - span, last, 1, magic, NONE, topic.has_append_time, time, size, size)
        )
        answer.next_offset = last + 1
    answer.note("offsets", "uncompressed and in the topic's format: only offsets and times are set")


def _unpack_set(sent: ProducedSet, topic: Topic, source: int, codec: int, answer: Answer) -> None:
    """Take a set apart that is compressed, to be compressed, or of another format (V24)."""
    read = topic.format
    kept = source == codec != NONE and read.relative_offsets
    converts = source == codec == NONE
    records = _Records(sent, topic, source, packs=not converts)
    inner_stamp = (
        topic.now_ms if topic.has_append_time and has(topic.broker, v.RECORD_BATCHES) else None
    )
    rewriter = Rewriter(read.magic, codec, answer.next_offset, inner_stamp, topic.limit)
    expected = 0
    newest = NO_TIMESTAMP
    first: tuple[RecordBatches, int] | None = None
    others = entries = 0
    records.rewrites, records.converts = True, converts
    for rows, row in sent.entries():
        first = first or (rows, row)
        entries += 1
        others += rows.size_bytes(row)
        had_timestamps = rows.has_timestamps(row)
        for piece in records.pieces(rows, row):
            offsets = piece.records.offsets
            if had_timestamps and read.has_timestamps:
                wanted = range(expected, expected + len(offsets))
                if (
                    not converts
                    and list(offsets) != list(wanted)
                    and has(topic.broker, v.ORDER_INSIDE)
                ):
                    raise RefusedError(topic.invalid, "offsets inside that are not 0, 1, 2, …")
                is_moved = wanted.stop > 1 and records.moves(rows, row)
                if kept and (is_moved or list(offsets) != list(wanted)):
                    records.refuse_skipped(rows, row)
                    kept = False
                expected += len(offsets)
            is_empty = not (piece.records.count or has(topic.broker, v.READ_BY_CLIENTS_CODE))
            kept = kept and (is_empty or rows.magic(row) == read.magic)
            rewriter.add(piece.data, piece.records, has_timestamps=had_timestamps)
        newest = max(newest, records.newest)
    assert first is not None
    if codec == ZSTD and not _knows_zstd(topic):
        raise RefusedError("UNSUPPORTED_COMPRESSION_TYPE", "zstd, before protocol 2.1")
    if not kept and (records.unwritable or (read.is_legacy and codec == ZSTD)):
        raise RefusedError(UNKNOWN, UNWRITABLE if records.unwritable else "zstd in a message")
    time = (
        topic.now_ms if topic.has_append_time else newest if read.has_timestamps else NO_TIMESTAMP
    )
    begin, last = answer.next_offset, answer.next_offset + rewriter.count - 1
    answer.next_offset = last + 1
    if kept and records.has_bad_inside:
        raise RefusedError(CORRUPT, BAD_INSIDE)
    if kept:
        size, count, (rows, row) = others, entries, first
        magic = read.magic if rewriter.count else rows.magic(row)
        if not (topic.has_append_time or has(topic.broker, v.WRAPPERS_TIMED)):
            time = rows.max_timestamp(row)
        time = time if format_of(magic).has_timestamps else NO_TIMESTAMP
        answer.note("offsets", "compressed with the topic's codec: only offsets and times are set")
        answer.store(
            StoredRun(begin, last, count, magic, codec, topic.has_append_time, time, size, size)
        )
        return
    written = rewriter.summarize()
    answer.rewritten = True
    answer.note("rewrite", f"{rewriter.count:,} records rewritten, {others:,} bytes before")
    if written.entries:
        made = (written.entries, read.magic, codec, topic.has_append_time, time, *written[1:])
        answer.store(StoredRun(begin, last, *made))


def _knows_zstd(topic: Topic) -> bool:
    """Whether the protocol between brokers is one that has zstd."""
    protocol = v.protocol_version(topic.settings.protocol) if topic.settings.protocol else None
    return has(protocol or topic.broker, v.ZSTD)
