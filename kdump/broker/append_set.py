"""What a leader or follower is handed: a set of entries in memory, and the topic it is for (V1)."""

from __future__ import annotations

from collections.abc import Iterator

from kdump import kernels
from kdump.broker import versions as v
from kdump.broker.settings import DEFAULT, Settings
from kdump.broker.versions import Version, has
from kdump.kernels import columns as c
from kdump.kernels.columns import RecordBatches
from kdump.record.layout import (
    CODEC_MASK,
    FORMATS,
    GZIP,
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_OVERHEAD,
    LZ4,
    NONE,
    SMALLEST_MESSAGE,
    SNAPPY,
    ZSTD,
    Format,
    format_of,
)
from kdump.storage.file_records import BATCHES_A_RUN, DEFAULT_LIMIT
from kdump.tuples import NamedTuple

CODECS = {"uncompressed": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
CORRUPT, TOO_LARGE, UNKNOWN = "CORRUPT_MESSAGE", "MESSAGE_TOO_LARGE", "UNKNOWN_SERVER_ERROR"
BAD_TIME = "INVALID_TIMESTAMP"
_OLD_MESSAGE_MAX = 1_000_012
CLOSES = "; the broker closes the connection"
INTERNAL = "INVALID_TOPIC_EXCEPTION"
_HOUR_MS = 3_600_000
MAGIC_AT, CODEC_AT = 16, 17  # of a message, that with the attributes


class RefusedError(Exception):
    """What a broker answers in place of an append: the error's name, and why."""

    def __init__(self, error: str, reason: str) -> None:
        super().__init__(f"{error}: {reason}")
        self.error, self.reason = error, reason


class Topic(NamedTuple):
    """The release and the settings that decide what becomes of a set.

    `codec` is that of compression.type, None: the producer's. `limit` bounds uncompressed bytes.
    """

    broker: Version
    format: Format
    codec: int | None
    settings: Settings
    now_ms: int
    limit: int = DEFAULT_LIMIT

    @classmethod
    def of(cls, broker: Version, settings: Settings, now_ms: int, limit: int) -> Topic:
        """Take what holds for a topic, with what releases differ in where nothing is set."""
        changed = {}
        stated = settings.stated_fields
        if "message_max_bytes" not in stated and not has(broker, v.MESSAGES_OF_A_MEBIBYTE):
            changed["message_max_bytes"] = _OLD_MESSAGE_MAX
        if "timestamp_after_max_ms" not in stated and has(broker, v.FUTURE_LIMITED):
            changed["timestamp_after_max_ms"] = _HOUR_MS
        settings = settings.override(DEFAULT, changed)
        known = has(broker, v.TOPICS_HAVE_CODECS)
        codec = CODECS.get(settings.compression_type) if known else None
        return cls(broker, _format(broker, settings), codec, settings, now_ms, limit)

    @property
    def is_compacted(self) -> bool:
        """Whether records need keys."""
        policies = self.settings.cleanup_policy.split(",")
        return "compact" in policies and has(self.broker, v.KEYS_REQUIRED)

    @property
    def has_append_time(self) -> bool:
        """Whether the broker's time is written into records (V6)."""
        return self.settings.timestamp_type == "LogAppendTime" and self.format.has_timestamps

    @property
    def invalid(self) -> str:
        """The name of the error for a record that is not valid (V20)."""
        return "INVALID_RECORD" if has(self.broker, v.INVALID_NAMED) else CORRUPT

    def refuse_large(self, size: int) -> None:
        """Refuse an entry that is larger than a topic takes (V5)."""
        most = self.settings.message_max_bytes
        if size > most:
            raise RefusedError(TOO_LARGE, f"{size:,} bytes, max.message.bytes is {most:,}")


def _format(broker: Version, settings: Settings) -> Format:
    """The format that a leader of the topic writes (V33)."""
    names = [settings.message_format] if settings.message_format else []
    if has(broker, v.FORMATS_FIXED):
        old = v.protocol_version(settings.protocol) if settings.protocol else None
        if old is None or has(old, v.FORMATS_FIXED) or has(broker, v.BATCHES_ONLY):
            names = []
    named = v.protocol_version(names[0]) if names else None
    writes = broker if named is None else named
    changes = (v.MESSAGE_TIMESTAMPS, v.RECORD_BATCHES)
    return FORMATS[min(sum(has(one, each) for each in changes) for one in (writes, broker))]


class ProducedSet:
    """The entries of a set, framed as a broker of a release frames them in memory (V1, S8)."""

    def __init__(self, data: bytes, broker: Version) -> None:
        self.data = data
        self._broker = broker
        self.end = 0  # of the last whole entry that was met

    def entries(self) -> Iterator[tuple[RecordBatches, int]]:
        """Yield each entry as a row of batch columns; raises at what no entry can be."""
        at = self.end = 0
        size = len(self.data)
        while at < size:
            rows, at, _ = kernels.walk(self.data, at, size, 0, -1, True, BATCHES_A_RUN)
            for row in range(rows.count):
                if has(self._broker, v.RECORD_BATCHES):
                    _refuse_magic(rows.magic(row))
                self.end = rows.end_position(row)
                yield rows, row
            if not rows.count:
                self._refuse_rest(at)
                return

    def _refuse_rest(self, at: int) -> None:
        """Refuse what follows the last whole entry; a torn one is passed over in silence."""
        rest = self.data[at : at + HEADER_SIZE_UP_TO_MAGIC]
        if len(rest) < LOG_OVERHEAD:
            return
        claimed = int.from_bytes(rest[8:12], "big", signed=True)
        if claimed < SMALLEST_MESSAGE:
            raise RefusedError(CORRUPT, f"a size field of {claimed:,} at byte {at:,}")
        if len(rest) == HEADER_SIZE_UP_TO_MAGIC and has(self._broker, v.MAGIC_BEFORE_SIZE):
            _refuse_magic(int.from_bytes(rest[16:], "big", signed=True))


def _refuse_magic(magic: int) -> None:
    if format_of(magic).magic != magic:
        raise RefusedError(CORRUPT, f"a magic byte of {magic}")


def codec_of(rows: RecordBatches, row: int, broker: Version) -> int:
    """Return the codec of an entry; what the release has no name for fails it (F8)."""
    return check_codec(rows.attributes(row), broker)


def check_codec(attributes: int, broker: Version) -> int:
    """Return the codec that attributes name; one that the release does not know fails it."""
    codec = attributes & CODEC_MASK
    if codec > ZSTD or (codec == ZSTD and not has(broker, v.ZSTD)):
        raise RefusedError(UNKNOWN, f"an unknown codec, {codec}")
    return codec


def refuse_corrupt(rows: RecordBatches, row: int, broker: Version) -> None:
    """Refuse an entry whose checksum is wrong, as the release computes it (V6, F9, F22)."""
    flags, read = rows.flags_of(row), rows.format(row)
    wrong = flags & c.CRC_BAD
    if has(broker, v.RECORD_BATCHES):
        wrong |= flags & c.TOO_SMALL if not read.is_legacy else 0
        wrong |= rows.is_mislabelled(row)
    elif not read.is_legacy:
        wrong = True  # whose CRC-32C no such release knows
    if wrong:
        raise RefusedError(CORRUPT, f"a wrong checksum at byte {rows.position(row):,}")
