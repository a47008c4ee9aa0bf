"""One item of a plan of verify, and what it leaves out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kdump.engine.reading.header_columns import PackedHeaders
    from kdump.findings.finding import Finding


# Why a segment's log is not read.
NOT_NAMED = "not-named"  # another file of the partition was
VERIFIED_BEFORE = "segments_verified_before"
OUTSIDE_SUBSET = "segments_outside_subset"
OUT_OF_TIME = "segments_out_of_time"
OUT_OF_TIME_BYTES = "bytes_out_of_time"


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
    def bytes(self) -> int:
        """What is to be read, in bytes of logs."""
        return sum(self.sizes.values())
