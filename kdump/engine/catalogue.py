"""The catalogue of findings: every code kdump can report, once.

A code is a stable word. With it stand how severe it is, what is wrong in one sentence, what that
means for readers, and what to do next. The manual page is held to this list by a test.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Severity(Enum):
    """How much a finding matters, in rising order."""

    NOTE = "note"  # legal but unusual, or something that could not be known; nothing to do
    REBUILD = "rebuild"  # an index or checkpoint is wrong, the records are whole
    DAMAGE = "damage"  # records are lost or cannot be read

    @property
    def rank(self) -> int:
        """0 note, 1 rebuild, 2 damage."""
        return _RANKS[self.value]


_RANKS = {"note": 0, "rebuild": 1, "damage": 2}


class Code(NamedTuple):
    """One entry of the catalogue."""

    severity: Severity
    sentence: str
    remedy: str  # what to do next
    meaning: str = ""  # what it means for readers and for the broker


_N, _R, _D = Severity.NOTE, Severity.REBUILD, Severity.DAMAGE

CATALOGUE: dict[str, Code] = {
    "crc-mismatch": Code(
        _D,
        "The stored checksum of a batch is not the checksum of its bytes.",
        "Look at the batch with dump --hex; a consumer gets past it by seeking to the next good "
        "offset.",
    ),
    "batch-length": Code(
        _D,
        "A length field is below the smallest message, so nothing behind it can be framed.",
        "Read on from the next good offset; recover the range from a replica.",
    ),
    "batch-cut-short": Code(
        _D,
        "A batch says it is longer than the bytes that are left, and valid batches follow it.",
        "Read on from the next good offset; recover the range from a replica.",
    ),
    "batch-too-small": Code(
        _D,
        "A batch is shorter than its own header.",
        "Read on from the next good offset; recover the range from a replica.",
    ),
    "torn-tail": Code(
        _D,
        "The last entry of the file is incomplete or no entry at all: a write that did not finish.",
        "Nothing on a running broker (it may be writing); at the next unclean start it is cut off.",
    ),
    "tail-being-written": Code(
        _N,
        "The last entry of an active segment is incomplete, and the file was written to just now.",
        "Nothing; a broker is writing. Ask again.",
    ),
    "search-given-up": Code(
        _D,
        "So much looks like an entry and is none that the rest of the file was not searched.",
        "Recover the rest of the segment from a replica.",
    ),
    "preallocated-tail": Code(
        _N,
        "The file ends in zeros that were reserved and never written.",
        "Nothing; the broker trims them when it rolls or closes the segment.",
    ),
    "magic-unknown": Code(
        _D,
        "The magic byte names no known format.",
        "Look at the bytes with dump --hex.",
    ),
    "codec-unknown": Code(
        _D,
        "The attributes name a compression codec that does not exist for this format.",
        "Look at the bytes with dump --hex.",
    ),
    "offset-not-rising": Code(
        _D,
        "Offsets do not rise from batch to batch.",
        "Readers may see records twice or out of order; compare with a replica.",
    ),
    "batch-count": Code(
        _D,
        "The header's record count, or its last offset delta, cannot be right.",
        "Look at the batch with dump --hex.",
    ),
    "records-undecodable": Code(
        _D,
        "The checksum is right but the records inside cannot be decoded to the end.",
        "The batch was written so; consumers stop here and get past by seeking beyond it.",
    ),
    "inner-crc-mismatch": Code(
        _D,
        "The checksum of a message inside a compressed wrapper is wrong.",
        "Consumers that check sums stop at this message.",
    ),
    "inner-cut-short": Code(
        _N,
        "The plain text of a wrapper ends in a piece of a message, which brokers pass over.",
        "Nothing; no reader sees that piece.",
    ),
    "over-decompress-limit": Code(
        _N,
        "The plain text of a batch is larger than --decompress-limit, so it was not looked at.",
        "Raise --decompress-limit to read it.",
    ),
    "codec-missing": Code(
        _N,
        "The library for this codec is not installed, so the records were not looked at.",
        "Install the library.",
    ),
    "control-record": Code(
        _D,
        "The key or value of a control record is not what its type asks for.",
        "Look at the batch with dump --hex.",
    ),
    "unreadable": Code(
        _D,
        "The device gave an I/O error for this range of the file.",
        "Copy the file away with a rescue tool; recover the range from a replica.",
    ),
    "file-shrank": Code(
        _N,
        "The file became shorter while it was read, as on a live broker that truncates or deletes.",
        "Nothing; ask again.",
    ),
    "file-vanished": Code(
        _N,
        "The file was there when the directory was listed and is gone, as after retention.",
        "Nothing; ask again.",
    ),
    "high-watermark-unknown": Code(
        _N,
        "The high watermark is not on disk or is older than the data, so the log end serves.",
        "Records above the true high watermark may be shown.",
    ),
    "log-start-unknown": Code(
        _N,
        "The checkpoint of log start offsets cannot be read, so the first segment's base serves.",
        "Records below the true log start may be shown.",
    ),
    "last-stable-offset": Code(
        _N,
        "What disk alone says about open transactions is incomplete, so the last stable offset "
        "is a best estimate.",
        "Ask the broker if it matters.",
    ),
    "directory-name": Code(
        _N,
        "The directory's name is no topic and partition.",
        "Nothing, if it is not a partition.",
    ),
    "pre08-gap": Code(
        _D,
        "0.7 segments do not join: one does not start where the one before it ends.",
        "A 0.7 broker refuses to start here; find the missing file.",
    ),
    "offset-index-size": Code(
        _R,
        "The offset index is no whole number of entries long.",
        "Rebuild it: delete the file before a start, or let the broker recover the segment.",
    ),
    "offset-index-order": Code(
        _R,
        "Entries of the offset index do not rise.",
        "Rebuild it: delete the file before a start, or let the broker recover the segment.",
    ),
    "offset-index-stale": Code(
        _N,
        "An untrimmed offset index holds old entries behind its end, as after a truncation.",
        "Nothing; the broker does not look at them.",
    ),
    "time-index-size": Code(
        _R,
        "The time index is no whole number of entries long.",
        "Rebuild it: delete the file together with the .index before a start.",
    ),
    "time-index-order": Code(
        _R,
        "Entries of the time index do not rise.",
        "Rebuild it: delete the file together with the .index before a start.",
    ),
    "time-index-stale": Code(
        _N,
        "An untrimmed time index holds old entries behind its end, as after a truncation.",
        "Nothing; the broker does not look at them.",
    ),
    "offset-lookup-differs": Code(
        _R,
        "The offset index leads a fetch to another record than a scan of the log finds.",
        "Rebuild it: delete the .index file before a start, or let the broker recover the segment.",
    ),
    "time-lookup-differs": Code(
        _R,
        "The indexes lead a lookup by time to another record than a scan of the log finds.",
        "Rebuild them: delete the .timeindex and .index files before a start.",
    ),
    "time-lookup-passes-over": Code(
        _N,
        "A lookup by time answers otherwise than a scan, by the broker's own rules.",
        "Nothing; the indexes are sound. scan_offset says where the record is.",
    ),
    "transaction-index-size": Code(
        _R,
        "The transaction index ends in a piece of an entry, which brokers pass over.",
        "Nothing at once; recovery of the segment rewrites it.",
    ),
    "transaction-index-version": Code(
        _R,
        "An entry of the transaction index has a version no broker reads.",
        "Recovery of the segment rewrites it.",
    ),
    "transaction-index-order": Code(
        _R,
        "Entries of the transaction index do not rise.",
        "Recovery of the segment rewrites it.",
    ),
    "snapshot-size": Code(
        _R,
        "A producer snapshot is shorter or longer than its entry count says.",
        "The broker deletes it at the next start and rebuilds it from the log.",
    ),
    "snapshot-version": Code(
        _R,
        "A producer snapshot has a version no broker reads.",
        "The broker deletes it at the next start and rebuilds it from the log.",
    ),
    "snapshot-crc": Code(
        _R,
        "The checksum of a producer snapshot is wrong.",
        "The broker deletes it at the next start and rebuilds it from the log.",
    ),
    "checkpoint-malformed": Code(
        _R,
        "A checkpoint file is not in the form a broker reads.",
        "Restore it, or delete it before a start if the broker can do without.",
    ),
    "properties-malformed": Code(
        _R,
        "A properties or JSON file is not in the form a broker reads.",
        "Restore it from another directory of the same broker.",
    ),
}
