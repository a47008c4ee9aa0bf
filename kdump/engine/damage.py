"""From what a walk could not use, or flagged, to findings: what it is, where, and what is lost."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kdump.engine.findings import Finding, finding
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.record.batch import read_batch
from kdump.record.layout import (
    CRC_POSITION_LEGACY,
    CRC_POSITION_V2,
    CRC_START_LEGACY,
    CRC_START_V2,
)

if TYPE_CHECKING:
    from kdump.engine.rows import Place
    from kdump.kernels.columns import Columns
    from kdump.record.frames import Gap, Run
    from kdump.storage.source import Source

# A log written to this short a time ago may have a last entry that is not there in full yet.
BEING_WRITTEN_SECONDS = 10

_CODES = {
    "crc-mismatch": "crc-mismatch",
    "batch-too-small": "batch-too-small",
    "length-too-small": "batch-length",
    "cut-short": "batch-cut-short",
    "short-tail": "torn-tail",
    "zeros": "preallocated-tail",
}

# Reasons for which nothing is known to be wrong: what the user's own limits or libraries exclude.
_NOT_LOOKED_AT = {
    reasons.OVER_LIMIT: "over-decompress-limit",
    reasons.CODEC_MISSING: "codec-missing",
    reasons.INNER_CUT_SHORT: "inner-cut-short",
}


def at_place(code: str, place: Place, **members: object) -> Finding:
    """Make a finding about a place in a segment."""
    return finding(
        code,
        path=place.path,
        topic=place.topic,
        partition=place.partition,
        segment=place.segment,
        **members,  # type: ignore[arg-type]
    )


def first_offset(run: Run, limit: int) -> int:
    """The offset of a run's first record; a wrapper has to be opened for it (F18)."""
    batches = run.batches
    if not batches.value(c.B_FLAGS, 0) & c.WRAPPER:
        return batches.value(c.B_BASE_OFFSET, 0)
    for piece in read_batch(run.data, run.base, batches, 0, limit=limit, max_records=1):
        if piece.records.count:
            return piece.records.value(c.R_OFFSET, 0)
        break
    return batches.value(c.B_LAST_OFFSET, 0)


def gap_finding(
    gap: Gap,
    place: Place,
    source: Source,
    *,
    last_offset: int,
    next_offset: int | None,
    active: bool,
    brief: bool = False,
) -> Finding:
    """Say what a gap is, which offsets are lost at least and at most, and where to read on.

    `last_offset` is the last good offset before the gap (the segment's base - 1 where there is
    none), `next_offset` the next good one behind it, None where nothing follows. `brief` leaves
    out what takes long to find: a second opinion on a checksum, the flipped bit that explains it.
    """
    code = gap_code(gap, source, active=active)
    if code in ("preallocated-tail", "tail-being-written", "zero-tail"):
        return at_place(
            code,
            place,
            position=gap.position,
            size_bytes=gap.size_bytes,
            offset=last_offset + 1,
            next_offset=next_offset,
        )
    words: list[str] = []
    expected = actual = None
    least = 0
    if gap.header is not None:
        least = _count_if_believable(gap.header, last_offset, next_offset)
        if code == "crc-mismatch":
            expected = gap.header.value(c.B_COMPUTED_CRC, 0)
            actual = gap.header.value(c.B_CRC, 0)
            sums = f"stored {actual:08x}, computed {expected:08x}."
            words.append(sums if brief else _crc_words(gap))
    if not words:
        words.append(_words(code, gap))
    most = None if next_offset is None else max(0, next_offset - last_offset - 1)
    words.append(_loss_words(least, most, last_offset + 1, next_offset))
    return at_place(
        code,
        place,
        position=gap.position,
        size_bytes=gap.size_bytes,
        offset=last_offset + 1,
        expected=expected,
        actual=actual,
        message=" ".join(words),
        lost_at_least=least if most is None else min(least, most),
        lost_at_most=most,
        next_offset=next_offset,
    )


def counted_gap(
    code: str, gap: Gap, place: Place, *, last_offset: int, next_offset: int | None
) -> Finding:
    """Say where a gap is and no more, for one that is only counted."""
    most = None if next_offset is None else max(0, next_offset - last_offset - 1)
    return at_place(
        code,
        place,
        position=gap.position,
        size_bytes=gap.size_bytes,
        offset=last_offset + 1,
        lost_at_least=0,
        lost_at_most=most,
        next_offset=next_offset,
    )


def gap_code(gap: Gap, source: Source, *, active: bool) -> str:
    """Name what a gap is."""
    end = gap.position + gap.size_bytes
    if any(low < end and high > gap.position for low, high in source.unreadable):
        return "unreadable"
    if gap.reason == "zeros" and not active:
        return "zero-tail"
    if not gap.to_end or gap.reason not in ("cut-short", "short-tail"):
        return _CODES[gap.reason]
    if source.shrank:
        return "tail-being-written"
    if active and not source.in_store:
        # The clock may be behind the file's: then, too, it was written just now.
        age = time.time() - source.status().st_mtime
        if source.is_growing() or age < BEING_WRITTEN_SECONDS:
            return "tail-being-written"
    return "torn-tail"


def _words(code: str, gap: Gap) -> str:
    if code == "unreadable":
        return "The device gave an I/O error for bytes in this range."
    if code == "torn-tail":
        return f"The last {gap.size_bytes:,} bytes are an entry that was not written to its end."
    if code == "batch-length":
        return "The length field is below the smallest message."
    if code == "batch-cut-short":
        return "The length field reaches beyond the file, yet valid batches follow."
    return "The entry is shorter than its own header."


def _count_if_believable(header: Columns, last_offset: int, next_offset: int | None) -> int:
    """How many records a damaged header speaks of, if all it says fits its neighbours."""
    base, last = header.value(c.B_BASE_OFFSET, 0), header.value(c.B_LAST_OFFSET, 0)
    count = header.value(c.B_RECORDS_COUNT, 0)
    if header.flags & (c.TOO_SMALL | c.MAGIC_UNKNOWN | c.DELTA_COUNT):
        return 0
    if header.flags & c.WRAPPER:
        base, count = last, 1
    fits = last_offset < base <= last and (next_offset is None or last < next_offset)
    return count if fits and 0 <= count <= last - base + 1 else 0


def _loss_words(least: int, most: int | None, first: int, next_offset: int | None) -> str:
    if most is None and not least:
        return f"Nothing can be read from offset {first:,} on; what was there is not known."
    if most is None:
        records = "record" if least == 1 else "records"
        return f"At least {least:,} {records} lost, from offset {first:,} on; nothing follows here."
    if most == 0:
        return f"No offset is missing before the next good one, {next_offset:,}."
    least = min(least, most)
    count = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    span = f"offset {first:,}" if most == 1 else f"offsets {first:,}-{first + most - 1:,}"
    records = "record" if most == 1 else "records"
    return f"{count} {records} lost, {span}. Next good offset: {next_offset:,}."


def _crc_words(gap: Gap) -> str:
    """Give both sums, crcmod's opinion, and the one flipped bit that explains them, if one does."""
    assert gap.header is not None
    header = gap.header
    stored, computed = header.value(c.B_CRC, 0), header.value(c.B_COMPUTED_CRC, 0)
    modern = header.value(c.B_LAYOUT, 0) == 2
    start = CRC_START_V2 if modern else CRC_START_LEGACY
    words = f"stored {stored:08x}, computed {computed:08x}"
    size = header.value(c.B_SIZE, 0)
    if len(gap.data) >= size > start:
        from kdump.kernels.second_opinion import second_opinion

        covered = memoryview(gap.data)[start:size]
        second = second_opinion("crc-32c" if modern else "crc-32", covered)
        if second == computed:
            words += " (crcmod agrees)."
        else:
            words += f" (crcmod differs: {second:08x}; please report this)."
    else:
        words += " (too large for a second opinion)."
    if gap.size_bytes != size:
        return words  # the sum is of bytes that may not be the entry's
    from kdump.record import bitflip

    polynomial = bitflip.CRC32C_POLYNOMIAL if modern else bitflip.CRC32_POLYNOMIAL
    flip = bitflip.find_flip(stored, computed, max(size - start, 0), polynomial)
    if flip is None:
        return words
    if flip.position is None:
        # The stored sum is big-endian: its lowest byte comes last.
        at = gap.position + (CRC_POSITION_V2 if modern else CRC_POSITION_LEGACY)
        byte, bit = at + 3 - flip.bit // 8, flip.bit % 8
    else:
        byte, bit = gap.position + start + flip.position, flip.bit
    return f"{words} One flipped bit explains it: byte {byte:,} bit {bit}."


def flag_findings(
    batches: Columns, place: Place, last_offset: int, admitted: bytearray | None = None
) -> list[Finding]:
    """Findings for rows with right checksums whose flags say that something else is wrong.

    `last_offset` is that of the entry before; `admitted` marks the rows asked for, None: all.
    """
    found: list[Finding] = []
    if not batches.flags & (c.WRONG & ~(c.CRC_BAD | c.TOO_SMALL)):
        return found
    for row, flags in enumerate(batches.column(c.B_FLAGS)):
        base = batches.value(c.B_BASE_OFFSET, row)
        last = batches.value(c.B_LAST_OFFSET, row)
        first = last if flags & c.WRAPPER else base
        if last_offset < first and (first <= last or flags & c.DELTA_COUNT):
            # Above the entry before it: flagged for one further back that lies too high, or for
            # a last offset delta below 0, which is told of by another code.
            flags &= ~c.OFFSET_NOT_RISING
        for bit, code, expected, actual in (
            (c.OFFSET_NOT_RISING, "offset-not-rising", last_offset + 1, first),
            (
                c.DELTA_COUNT,
                "batch-count",
                last - base + 1,
                batches.value(c.B_RECORDS_COUNT, row),
            ),
            (c.CODEC_UNKNOWN, "codec-unknown", None, batches.value(c.B_ATTRIBUTES, row) & 7),
            (c.MAGIC_UNKNOWN, "magic-unknown", None, batches.value(c.B_MAGIC, row)),
        ):
            if flags & bit and (admitted is None or admitted[row]):
                found.append(
                    at_place(
                        code,
                        place,
                        position=batches.value(c.B_POSITION, row),
                        size_bytes=batches.value(c.B_SIZE, row),
                        offset=last,
                        expected=expected,
                        actual=actual,
                    )
                )
        last_offset = max(first, last)
    return found


def decode_finding(
    reason: int, detail: str, place: Place, batches: Columns, row: int, decoded: int
) -> Finding | None:
    """Say why the records of a batch with a right checksum end before they should; None if not."""
    if reason in (reasons.END, reasons.FULL):
        return None
    code = _NOT_LOOKED_AT.get(reason, "records-undecodable")
    word = reasons.NAMES.get(reason, str(reason))
    message = None
    count = batches.value(c.B_RECORDS_COUNT, row)
    if code == "records-undecodable":
        message = f"Decoding stops after {decoded:,} records: {detail or word}."
    elif detail:
        message = detail
    return at_place(
        code,
        place,
        position=batches.value(c.B_POSITION, row),
        size_bytes=batches.value(c.B_SIZE, row),
        offset=batches.value(c.B_LAST_OFFSET, row),
        expected=count if count >= 0 else None,  # a wrapper's header does not say
        actual=word,
        message=message,
    )
