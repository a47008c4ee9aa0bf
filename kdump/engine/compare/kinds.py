"""The kinds of differences between replicas, their severity, and the verdicts."""

from __future__ import annotations

from kdump.findings.code import Severity

RECORD = "record-differs"
EPOCH = "epoch-differs"
BATCH = "batch-differs"
DAMAGED = "damaged"
EVERYWHERE = "damaged-everywhere"
MISSING = "missing"
TRUNCATED = "truncated"
BEHIND = "behind"
STARTS = "start-differs"
COMPACTED = "compacted"
REWRITTEN = "rewritten"
TORN_TAIL = "torn-tail"
NOT_COMPARED = "not-compared"

#: Kind of difference -> how bad, and what it is. The worst come first.
KINDS: dict[str, tuple[Severity, str]] = {
    EVERYWHERE: (Severity.DAMAGE, "No replica here can be read at these offsets."),
    DAMAGED: (Severity.DAMAGE, "One side cannot be read at these offsets; the other can."),
    RECORD: (Severity.DAMAGE, "Both have a record at the offset, but the records differ."),
    BATCH: (Severity.DAMAGE, "Both have a batch, but they differ, and neither can be decoded."),
    EPOCH: (
        Severity.DAMAGE,
        "Appended under different leader epochs; `fields` has the other differences.",
    ),
    MISSING: (Severity.DAMAGE, "One side has nothing where the other has records."),
    TRUNCATED: (Severity.DAMAGE, "One log ends before offsets that it once reached."),
    COMPACTED: (
        Severity.NOTE,
        "Compacted further on one side: it no longer has records that later ones replace.",
    ),
    REWRITTEN: (Severity.NOTE, "Same records in different batches: compacted or converted."),
    STARTS: (Severity.NOTE, "One log starts later: retention or deleted records."),
    BEHIND: (Severity.NOTE, "One log ends earlier, and there is no sign that it was ever longer."),
    TORN_TAIL: (Severity.NOTE, "The last write was not finished; no other replica has more."),
    NOT_COMPARED: (Severity.NOTE, "The batches differ, and their records were not compared."),
}

#: Of the differences there are, the first here gives the verdict.
_VERDICTS = (
    ((EVERYWHERE, DAMAGED), "damaged"),
    ((RECORD, BATCH, EPOCH), "diverged"),
    ((MISSING,), "missing"),
    ((TRUNCATED,), "truncated"),
    ((NOT_COMPARED,), "not-compared"),
    ((COMPACTED, REWRITTEN), "compacted-differently"),
    ((BEHIND,), "behind"),
    ((STARTS,), "start-differs"),
    ((TORN_TAIL,), "equal"),
)
EQUAL = "equal"
VERDICTS = (*dict.fromkeys(word for _, word in _VERDICTS),)
#: Differences that count for the first divergent offset: of damage it is not known what was there.
DIVERGENT = frozenset({RECORD, BATCH, EPOCH, MISSING, TRUNCATED})


def verdict_of(kinds: dict[str, int]) -> str:
    """Say in one word what differences come to."""
    return next((word for kinds_of, word in _VERDICTS if any(map(kinds.get, kinds_of))), EQUAL)


def severity_of(verdict: str) -> Severity | None:
    """How bad the worst difference behind a verdict is; None where there is none."""
    if verdict == EQUAL:
        return None
    return next(KINDS[kinds[0]][0] for kinds, word in _VERDICTS if word == verdict)
