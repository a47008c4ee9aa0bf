"""Options of verify, and one item of its plan with what it leaves out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kdump.broker.versions import Version
from kdump.storage.file_records import DEFAULT_LIMIT
from kdump.storage.targets import Selection
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.settings import TopicConfig
    from kdump.engine.reading.header_columns import PackedHeaders
    from kdump.findings.finding import Finding


class VerifyOptions(NamedTuple):
    """What is asked for; sizes in bytes."""

    selection: Selection = Selection(retired=True)
    server_properties: str | None = None
    topic_configs: bool = True
    configs: tuple[TopicConfig, ...] = ()
    deep: bool = False
    quick: bool = False
    decompress_limit: int = DEFAULT_LIMIT
    max_duration_s: float | None = None
    subset: tuple[int, int] | None = None
    recheck_s: float | None = None  # what a state says was seen longer ago is read again
    predict: bool = False
    broker_version: Version | None = None  # None: of each directory, the newest
    recovery_rate: int | None = None  # bytes a second and thread; None: a plain disk's
    measure: bool = False  # also by what the disks give now
    recovery_threads: int | None = None  # a data directory's; None: as the broker has it
    as_user: str | None = None  # who runs the broker; None: whoever may do all it needs
    summary_by: tuple[str, ...] = ()  # broker, topic, or both
    tier: str | None = None  # where the objects of tiered topics are
    tier_key: str | None = None  # a file; decrypts those of Aiven's plugin
    # A set of batches, or the path of a capture with some: only say what a broker answers.
    append: bytes | str | None = None
    follower: bool = False  # the broker that is sent it is a follower
    explain: bool = False
    now_ms: int | None = None  # the broker's time, of an append
    volumes: bool = False  # add up bytes and records by time as well


# Why a segment's log is not read.
NOT_NAMED = "not-named"  # another file of the partition was
VERIFIED_BEFORE = "segments_verified_before"
OUTSIDE_SUBSET = "segments_outside_subset"
OUT_OF_TIME = "segments_out_of_time"
OUT_OF_TIME_BYTES = "bytes_out_of_time"
NOT_READ = "segments_not_read"


class Skip(NamedTuple):
    """Why a segment is left out, and what is known of it from an earlier run."""

    why: str
    known: tuple[Finding, ...] = ()


class Item(NamedTuple):
    """One partition, or the file of it that was named.

    `sizes` has the bytes of each log to be read, by base offset; `skips` says which others there
    are and why they are left out. `identities` tell a segment's files from what they may become.
    `verified_s` is when the one longest unseen was last verified; 0: never. `walked` has what is
    left of logs that were read in pieces, by base offset.
    """

    path: str
    topic: str | None
    partition: int | None
    whole: bool
    sizes: dict[int, int]
    skips: dict[int, Skip]
    identities: dict[int, str]
    verified_s: int = 0
    walked: Mapping[int, Sequence[PackedHeaders]] = {}

    @property
    def size_bytes(self) -> int:
        """What is to be read, in bytes of logs."""
        return sum(self.sizes.values())
