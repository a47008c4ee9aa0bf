"""Make findings of what a walk could not use or flagged: what it is, where, what is lost."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar, Unpack

from kdump.engine.reading.write_activity import is_being_written
from kdump.errors import KdumpError, PathError
from kdump.findings.catalogue import CATALOGUE, GAPS, UNDECODED
from kdump.findings.finding import About, Finding, finding
from kdump.findings.ranges import offsets_text, records_text
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.record.batch import read_batch
from kdump.record.layout import SMALLEST_RECORD
from kdump.storage import places
from kdump.storage.offsets import end_of
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.findings.rows import Place
    from kdump.kernels.columns import RecordBatches
    from kdump.record.frames import Gap, Run
    from kdump.storage.offsets import ResolvedGap
    from kdump.storage.source import Source

_GONE = os.strerror(errno.ENOENT)
ErrorType = TypeVar("ErrorType", bound=KdumpError)

# No record is smaller, and no codec makes 32 KiB of less than one byte.
RECORDS_A_BYTE = (32 << 10) // SMALLEST_RECORD + 1


def at_place(
    code: str, place: Place, *, path: str | None = None, **about: Unpack[About]
) -> Finding:
    """Make a finding about a place; `path`: a file beside the one that the place names."""
    return finding(
        code,
        path=place.path if path is None else path,
        topic=place.topic,
        partition=place.partition,
        segment=place.segment,
        **about,
    )


def unread_finding(error: ErrorType, place: Place) -> Finding | ErrorType:
    """Say what came of a file that could not be read: gone since it was listed, it is a note.

    So is one that was not there for a moment: the cleaner takes a segment away and puts another in
    its place (X16). A link to nothing is no such file.
    """
    was_gone = isinstance(error, PathError) and (error.path, error.reason) == (place.path, _GONE)
    if places.lexists(place.path) and not (was_gone and places.isfile(place.path)):
        return error
    return at_place("file-vanished", place)


class BatchAt(NamedTuple):
    """One batch among others, and the log it lies in."""

    place: Place
    batches: RecordBatches
    row: int

    def finding(self, code: str, **about: Unpack[About]) -> Finding:
        """Make a finding about it; where nothing else is said, its last offset names it."""
        about.setdefault("offset", self.batches.last_offset(self.row))
        about["position"] = self.batches.position(self.row)
        about["size_bytes"] = self.batches.size_bytes(self.row)
        return at_place(code, self.place, **about)


def first_offset(run: Run, row: int, limit: int) -> int:
    """The offset of a batch's first record; a wrapper has to be opened for it (F18)."""
    known = first_record(run, row, limit)
    return run.batches.last_offset(row) if known is None else known


def first_record(run: Run, row: int, limit: int) -> int | None:
    """The offset of a batch's first record; None for a wrapper that cannot be opened."""
    batches = run.batches
    if not batches.flags_of(row) & c.WRAPPER:
        return batches.base_offset(row)
    for piece in read_batch(run.data, run.base, batches, row, limit=limit, max_records=1):
        if piece.records.count:
            return piece.records.offset(0)
        break
    return None


def wrapper_maximum(run: Run, row: int, limit: int) -> tuple[int, int] | None:
    """The greatest offset and timestamp inside a wrapper; None where not all of it opens.

    Its own fields do not prove them: they are the producer's word, or a broker's of another
    release (F12, F19).
    """
    offset = time_ms = -1
    for piece in read_batch(run.data, run.base, run.batches, row, limit=limit):
        if piece.reason not in (reasons.END, reasons.FULL):
            return None
        offset = max(offset, *piece.records.offsets)
        time_ms = max(time_ms, *piece.records.timestamps)
    return offset, time_ms


def gap_finding(
    released: ResolvedGap, place: Place, source: Source, *, active: bool, brief: bool = False
) -> Finding:
    """Say what a gap is, which offsets are lost at least and at most, and where to read on.

    `brief` leaves out what takes long to find: a second opinion on a checksum, the flipped bit
    that explains it.
    """
    gap, last_offset, next_offset, _, end = released
    code = gap_code(gap, source, active=active)
    if CATALOGUE[code].empty:
        return _at_gap(code, released, place)
    words: list[str] = []
    expected = actual = None
    least = 0
    if gap.header is not None:
        behind = end if next_offset is None else next_offset
        least = believable_count(gap.header, last_offset, behind)
        if code == "crc-mismatch":
            expected = gap.header.computed_crc(0)
            actual = gap.header.crc(0)
            sums = f"stored {actual:08x}, computed {expected:08x}."
            words.append(sums if brief else _magic_words(gap) or _crc_words(gap))
    if not words:
        words.append(_words(code, gap))
    most = _count_most_lost(released)
    words.append(_loss_words(least, most, last_offset + 1, next_offset))
    return _at_gap(
        code,
        released,
        place,
        expected=expected,
        actual=actual,
        message=" ".join(words),
        lost_at_least=least if most is None else min(least, most),
        lost_at_most=most,
    )


def brief_gap_finding(code: str, released: ResolvedGap, place: Place) -> Finding:
    """Say where a gap is and no more, for one that is only counted."""
    most = _count_most_lost(released)
    return _at_gap(code, released, place, lost_at_least=0, lost_at_most=most)


def _at_gap(code: str, released: ResolvedGap, place: Place, **about: Unpack[About]) -> Finding:
    gap = released.gap
    return at_place(
        code,
        place,
        position=gap.position,
        size_bytes=gap.size_bytes,
        offset=released.last_offset + 1,
        next_offset=released.next_offset,
        **about,  # type: ignore[misc]
    )


def _count_most_lost(released: ResolvedGap) -> int | None:
    """How many records a gap can have held; None where it is not known where offsets go on."""
    gap, last_offset, next_offset, spared, _ = released
    if next_offset is None:
        return None
    most = max(0, next_offset - last_offset - 1 - spared)
    return most if gap.to_end else min(most, gap.size_bytes * RECORDS_A_BYTE)


def gap_code(gap: Gap, source: Source, *, active: bool) -> str:
    """Name what a gap is."""
    end = gap.position + gap.size_bytes
    if any(low < end and high > gap.position for low, high in source.unreadable):
        return "unreadable"
    if gap.reason == "zeros" and not active:
        return "zero-tail"
    if not gap.to_end or gap.reason not in ("cut-short", "short-tail"):
        return GAPS[gap.reason]
    if source.shrank or (active and is_being_written(source)):
        return "tail-being-written"
    return "torn-tail"


def _words(code: str, gap: Gap) -> str:
    if code == "unreadable":
        return "The device gave an I/O error for bytes in this range."
    if code == "torn-tail":
        return f"The last {gap.size_bytes:,} bytes are an incomplete batch."
    if code == "batch-length":
        return "The length field is smaller than the smallest possible message."
    if code == "batch-cut-short":
        return (
            "By its length field, the batch extends past the end of the file, yet valid batches "
            "follow it."
        )
    return "The length field is too small: the batch would be shorter than its own header."


def believable_count(header: RecordBatches, last_offset: int, behind: int) -> int:
    """How many records a damaged header speaks of, if all it says fits its neighbours."""
    base, last = header.base_offset(0), header.last_offset(0)
    count = header.records_count(0)
    if header.flags & (c.TOO_SMALL | c.MAGIC_UNKNOWN | c.DELTA_COUNT):
        return 0
    if header.flags & c.WRAPPER:
        base, count = last, 1
    size = header.size_bytes(0)
    room = size * RECORDS_A_BYTE if header.flags & c.COMPRESSED else size // SMALLEST_RECORD
    fits = last_offset < base <= last < behind
    return count if fits and 0 <= count <= min(last - base + 1, room) else 0


def _loss_words(least: int, most: int | None, first: int, next_offset: int | None) -> str:
    if most is None and not least:
        return f"Records from offset {first:,} on cannot be read; how many there were is unknown."
    if most is None:
        records = "record" if least == 1 else "records"
        return (
            f"At least {least:,} {records} lost, from offset {first:,} on; nothing follows "
            "the damage."
        )
    assert next_offset is not None
    if most == 0:
        return f"No offset is missing before the next on disk, {next_offset:,}."
    least = min(least, most)
    count = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    if least == 0:
        count = f"At most {most:,}"
    last = next_offset - 1
    span = offsets_text(first, last)
    records = "record" if most == 1 else "records"
    return f"{count} {records} lost, {span}. The log continues at offset {next_offset:,}."


def _magic_words(gap: Gap) -> str | None:
    """Say that a checksum is right with another magic, if it is."""
    if len(gap.data) < gap.size_bytes:
        return None
    data = bytes(gap.data[: gap.size_bytes])
    from kdump.record.header_repair import MAGIC_AT, with_known_magic  # few batches are as odd

    magic = with_known_magic(data)
    if magic is None:
        return None
    return f"The magic byte is {data[MAGIC_AT]}; with magic {magic}, the checksum would match."


def _crc_words(gap: Gap) -> str:
    """Give both sums, crcmod's result, and the one flipped bit that explains them, if one does."""
    assert gap.header is not None
    header = gap.header
    stored, computed = header.crc(0), header.computed_crc(0)
    read = header.format(0)
    start = read.crc_start
    words = f"stored {stored:08x}, computed {computed:08x}"
    size = header.size_bytes(0)
    if len(gap.data) >= size > start:
        from kdump.kernels.crcmod_check import crcmod_check

        covered = memoryview(gap.data)[start:size]
        second = crcmod_check(read.crc_kind, covered)
        if second == computed:
            words += " (checked twice)."
        else:
            words += f" (but {second:08x} by a second library, crcmod: report this)."
    else:
        words += " (too large to be checked twice)."
    if gap.size_bytes != size:
        return words  # the checksum is of bytes that may not be the entry's
    from kdump.record import bitflip

    polynomial = bitflip.POLYNOMIALS[read.crc_kind]
    flip = bitflip.find_flip(stored, computed, max(size - start, 0), polynomial)
    if flip is None:
        return words
    byte, bit = flip.place(gap.position + start, gap.position + read.crc_position)
    return f"{words} One flipped bit explains it: bit {bit} of byte {byte:,}."


def flag_findings(
    batches: RecordBatches,
    place: Place,
    last_offset: int,
    next_base: int | None,
    admitted: bytearray | None = None,
) -> list[Finding]:
    """Findings for rows with right checksums of which something else is wrong.

    `last_offset` is that of the entry before; `admitted` marks the rows asked for, None: all.
    """
    found: list[Finding] = []
    end = end_of(place.segment, next_base)
    past_end = batches.last_offset(batches.count - 1) >= end
    if not (past_end or batches.flags & (c.WRONG & ~(c.CRC_BAD | c.TOO_SMALL))):
        return found
    for row, flags in enumerate(batches.row_flags):
        base = batches.base_offset(row)
        last = batches.last_offset(row)
        first = last if flags & c.WRAPPER else base
        past_end = last >= end
        if past_end or (last_offset < first and (first <= last or flags & c.DELTA_COUNT)):
            # Above the entry before it: flagged for one further back that lies too high, or for
            # a last offset delta below 0, which is reported by another code.
            flags &= ~c.OFFSET_NOT_RISING
        count = batches.records_count(row)
        for wrong, code, expected, actual in (
            (past_end, past_code(next_base), last_offset + 1, first),
            (flags & c.OFFSET_NOT_RISING, "offset-not-rising", last_offset + 1, first),
            (flags & c.DELTA_COUNT, "batch-count", last - base + 1, count),
            (flags & c.CODEC_UNKNOWN, "codec-unknown", None, batches.attributes(row) & 7),
            (flags & c.MAGIC_UNKNOWN, "magic-unknown", None, batches.magic(row)),
        ):
            if wrong and (admitted is None or admitted[row]):
                offset = last if 0 <= last < end else last_offset + 1
                batch = BatchAt(place, batches, row)
                if code == "magic-unknown":
                    found.append(_magic_finding(batch, first if 0 <= first < end else offset))
                    continue
                found.append(batch.finding(code, offset=offset, expected=expected, actual=actual))
        if not past_end:
            last_offset = max(first, last)
    return found


def _magic_finding(batch: BatchAt, first: int) -> Finding:
    """Say which records readers lose with a batch of an unknown magic, and that they are sound.

    Of a message the magic is under the checksum, so it was written like that.
    """
    batches, row = batch.batches, batch.row
    magic, last = batches.magic(row), batches.last_offset(row)
    if batches.is_legacy(row):
        return batch.finding(
            "magic-unknown", offset=first, actual=magic, lost_at_least=1, lost_at_most=1
        )
    count = max(batches.records_count(row), 0)
    records = records_text(count)
    span = f"offset {first:,}" if first == last else f"offsets {first:,}-{last:,}"
    read = batches.format(row).magic
    return batch.finding(
        "magic-unknown",
        offset=first,
        expected=read,
        actual=magic,
        message=f"No format has the magic byte {magic}, so consumers cannot read {records}, "
        f"{span}. Only that byte is wrong: with magic {read}, the checksum matches.",
        lost_at_least=count,
        lost_at_most=count,
    )


def reserved_finding(batches: RecordBatches, row: int, place: Place, count: int = 1) -> Finding:
    """Say that reserved attribute bits are set, of the first batch of `count` in a segment."""
    attributes, meant = batches.attributes(row), batches.format(row).meant_bits
    return BatchAt(place, batches, row).finding(
        "attributes-reserved",
        expected=attributes & meant,
        actual=attributes,
        message=f"Reserved attribute bits are set: 0x{attributes & ~meant:02x}"
        + (f"; the same in {count:,} batches of the segment." if count > 1 else "."),
    )


def find_reserved_rows(batches: RecordBatches) -> list[int]:
    """The rows whose attributes have reserved bits."""
    if not batches.flags & c.RESERVED:
        return []
    return [row for row, flags in enumerate(batches.row_flags) if flags & c.RESERVED]


def past_code(next_base: int | None) -> str:
    """What to call a batch that lies above all that its segment can hold."""
    return "offset-past-range" if next_base is None else "offset-past-next"


def describe_undecoded(reason: int, detail: str, decoded: int) -> tuple[str, str, str | None]:
    """Give code, word and message for records that end before they should."""
    word = reasons.NAMES.get(reason, str(reason))
    code = UNDECODED.get(word, "records-undecodable")
    if code == "records-undecodable":
        if detail:
            return code, word, f"Decoding stops after {records_text(decoded)}: {detail}."
        part = (
            f"Only {records_text(decoded)} can be decoded: the next"
            if decoded
            else "No record can be decoded: the first"
        )
        return code, word, f"{part} is malformed ({word})."
    return code, word, detail or None


def decode_findings(
    reason: int, detail: str, place: Place, batches: RecordBatches, row: int, decoded: int
) -> Iterator[Finding]:
    """Say why the records of a batch with a right checksum end before they should, if they do."""
    if reason in (reasons.END, reasons.FULL):
        return
    code, word, message = describe_undecoded(reason, detail, decoded)
    count = batches.records_count(row)
    expected = count if count >= 0 else None  # a wrapper's header does not say
    batch = BatchAt(place, batches, row)
    if reason == reasons.INNER_COMPRESSED:
        message = (
            f"After {records_text(decoded)}, a message inside is itself compressed. Consumers up "
            "to 0.8 decompress it, 0.9 consumers receive its bytes (as in dump), and later ones "
            "fail."
        )
    yield batch.finding(code, expected=expected, actual=word, message=message)
