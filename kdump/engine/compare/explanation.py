"""Explain a comparison in a sentence or two: what differs, whose copy is sound, what next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kdump.engine.compare import kinds
from kdump.findings.ranges import records_text
from kdump.rows.compare import ReplicaComparison


def explain(row: ReplicaComparison, records: Counter[str], *, old: bool) -> str:
    """Say in words what a `replica-comparison` row says in members."""
    if old:
        return "Logs of 0.6 and 0.7 were not replicated: every broker had its own records."
    return " ".join(_sentences(row, records))


def _sentences(row: ReplicaComparison, records: Counter[str]) -> Iterator[str]:
    counts, replicas = row.differences, row.replicas
    many = {kind: records_text(records[kind]) for kind in counts}
    if kinds.EVERYWHERE in counts:
        if records[kinds.EVERYWHERE]:
            yield f"No copy here has a sound batch for up to {many[kinds.EVERYWHERE]}."
        else:
            yield "All sides have bytes that are not batches; their former contents are unknown."
    if kinds.DAMAGED in counts:
        if records[kinds.DAMAGED]:
            yield f"{_capital(many[kinds.DAMAGED])} can be read on one side only: copy from it."
        else:
            yield "One side has bytes that are not batches; no other side has records there."
    if kinds.RECORD in counts or kinds.BATCH in counts:
        count = records[kinds.RECORD] + records[kinds.BATCH]
        yield f"{_capital(records_text(count))} not the same on both sides."
    if kinds.EPOCH in counts:
        yield f"{_capital(many[kinds.EPOCH])} appended under different leader epochs."
    if kinds.MISSING in counts:
        yield (
            f"{_capital(many[kinds.MISSING])} missing on one side; compaction does not explain it."
        )
    if kinds.TRUNCATED in counts:
        gone = _capital(many[kinds.TRUNCATED])
        added_up = ", added up over these logs" if counts[kinds.TRUNCATED] > 1 else ""
        yield f"{gone} missing at the end of truncated logs{added_up}."
    if kinds.RECORD in counts or kinds.EPOCH in counts:
        yield from _explain_divergence(row)
        yield from _explain_uncommitted(row)
    if kinds.COMPACTED in counts:
        yield f"{_capital(many[kinds.COMPACTED])} compacted away on one side only."
    if kinds.REWRITTEN in counts and kinds.COMPACTED not in counts:
        yield "The same records are in different batches."
    if kinds.BEHIND in counts:
        most = max(replicas, key=lambda each: each["log_end"])
        short = [each for each in replicas if each["log_end"] < most["log_end"]]
        if len(short) == 1:
            yield f"{short[0]['path']} is behind by {many[kinds.BEHIND]}."
        for each in short[len(short) == 1 :]:
            count = most["log_end"] - each["log_end"]
            offsets = "1 offset" if count == 1 else f"{count:,} offsets"
            yield f"{each['path']} ends {offsets} before {most['path']}."
    if kinds.STARTS in counts:
        yield f"Logs start at different offsets: {many[kinds.STARTS]} only where it starts earlier."
    if kinds.NOT_COMPARED in counts:
        yield "Batches that differ were not opened: they are over --decompress-limit."
    if not counts or set(counts) == {kinds.TORN_TAIL}:
        yield "Same records, same leader epochs."
    if row.odd is not None:
        yield f"Only {row.odd} differs from the others."


def _explain_divergence(row: ReplicaComparison) -> Iterator[str]:
    """Say whether brokers would notice, and what is lost to whoever does not lead (KIP-101)."""
    first, end, epoch = (
        row.first_divergent_offset,
        row.common_end_offset,
        row.common_epoch,
    )
    if first is None:
        return
    if epoch is None and kinds.EPOCH in row.differences:
        yield "The logs have no leader epoch in common: neither is a copy of the other."
        return
    if kinds.EPOCH in row.differences and first < end:
        yield (
            f"At offset {first}, the leader epochs differ, but each fits the batches next to it: "
            f"on one side, epochs were changed later. No checksum covers this field."
        )
        return
    if epoch is None or first < end:
        where = "" if epoch is None else ", within a leader epoch that both have"
        yield (
            f"The logs diverge at offset {first}{where}: no broker notices, and consumers "
            "receive the leader's records."
        )
        return
    yield f"Up to offset {end} the logs have a common history, to leader epoch {epoch}."
    for replica in row.replicas:
        for span in replica["beyond_common"]:
            yield (
                f"{replica['path']} has offsets {span['first_offset']} to {span['last_offset']} "
                f"of epoch {span['leader_epoch']} ({records_text(span['records_count'])}): lost if "
                "it does not lead."
            )


def _explain_uncommitted(row: ReplicaComparison) -> Iterator[str]:
    known = (replica["high_watermark"] for replica in row.replicas)
    marks = [each for each in known if each is not None]
    first = row.first_divergent_offset
    if first is not None and len(marks) == len(row.replicas) and first >= max(marks):
        yield (
            f"No high watermark on disk is above that offset (the highest is {max(marks)}): as "
            f"far as they show, no consumer received these records."
        )


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
