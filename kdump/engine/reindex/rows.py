"""Make the rows of `kdump reindex`: what is there, what would be, the first difference."""

from __future__ import annotations

import struct

from kdump.broker.settings import Settings, index_settings
from kdump.findings.rows import Place, Row
from kdump.rows.reindex import Difference, Reindex
from kdump.storage.layout import ABORTED_TRANSACTION, OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kdump.storage.names import Kind

#: The words of `--only`, in the order in which a segment's rows come.
WORDS = {
    Kind.OFFSET_INDEX: "index",
    Kind.TIME_INDEX: "timeindex",
    Kind.TRANSACTION_INDEX: "txnindex",
    Kind.LEADER_EPOCHS: "leader-epochs",
    Kind.OFFSET_CHECKPOINT: "checkpoints",
}
_OF_INDEX = frozenset((Kind.OFFSET_INDEX, Kind.TIME_INDEX))
_OF_LINES = frozenset((Kind.LEADER_EPOCHS, Kind.OFFSET_CHECKPOINT))
KEEP, CREATE, REBUILD, REFUSE = "keep", "create", "rebuild", "refuse"
CREATED, REBUILT, RESTORE, RESTORED = "created", "rebuilt", "restore", "restored"
#: What a plan says is done, once it is.
DONE = {CREATE: CREATED, REBUILD: REBUILT, RESTORE: RESTORED}

_LAYOUTS: dict[Kind, tuple[struct.Struct, tuple[str, ...]]] = {
    Kind.OFFSET_INDEX: (OFFSET_INDEX_ENTRY, ("offset", "position")),
    Kind.TIME_INDEX: (TIME_INDEX_ENTRY, ("timestamp_ms", "offset")),
    Kind.TRANSACTION_INDEX: (
        ABORTED_TRANSACTION,
        ("version", "producer_id", "first_offset", "last_offset", "last_stable_offset"),
    ),
}
_BLOCK_SLOTS = 4096
_SHOWN = 100  # characters of a line of a checkpoint


def entries_of(kind: Kind, data: bytes) -> int:
    """Count the entries of a file that was built; the lines of a checkpoint."""
    if kind in _OF_LINES:
        return max(0, len(data.splitlines()) - 2)
    layout, _ = _LAYOUTS[kind]
    return len(data) // layout.size


def first_difference(
    kind: Kind, before: bytes | None, after: bytes, base_offset: int
) -> Difference | None:
    """Say which slot is the first that changes, and both its contents; None if none does."""
    if before is None or before == after:
        return None
    if kind in _OF_LINES:
        return _line_difference(before, after)
    layout, names = _LAYOUTS[kind]
    block = _BLOCK_SLOTS * layout.size
    start = 0
    while before[start : start + block] == after[start : start + block]:
        start += block
    while before[start : start + layout.size] == after[start : start + layout.size]:
        start += layout.size

    def entry(data: bytes) -> dict[str, int] | None:
        if start + layout.size > len(data):
            return None
        fields = dict(zip(names, layout.unpack_from(data, start), strict=True))
        if kind is not Kind.TRANSACTION_INDEX:
            fields["offset"] += base_offset
        return fields

    return {"slot": start // layout.size, "before": entry(before), "after": entry(after)}


def _line_difference(before: bytes, after: bytes) -> Difference:
    old = before.decode("utf-8", "replace").splitlines()
    new = after.decode("utf-8", "replace").splitlines()
    number = 0
    while number < min(len(old), len(new)) and old[number] == new[number]:
        number += 1
    return {
        "slot": number - 2,
        "before": old[number][:_SHOWN] if number < len(old) else None,
        "after": new[number][:_SHOWN] if number < len(new) else None,
    }


def reindex_row(
    place: Place,
    kind: Kind,
    action: str,
    reason: str,
    *,
    entries_before: int | None = None,
    entries_after: int | None = None,
    difference: Difference | None = None,
    bytes_to_read: int | None = None,
    backup: str | None = None,
    written: str | None = None,
    settings: Settings | None = None,
) -> Row:
    """Make a row about one file; `place.path` is its path, `written` where else it was built.

    `settings` are those of its topic, of which the row has what the index hangs on.
    """
    return Reindex(
        path=place.path,
        topic=place.topic,
        partition=place.partition,
        segment=place.segment,
        kind=WORDS[kind],
        entries_before=entries_before,
        entries_after=entries_after,
        first_difference=difference,
        action=action,
        reason=reason,
        bytes_to_read=bytes_to_read,
        backup=backup,
        written=written,
        settings=index_settings(settings) if settings and kind in _OF_INDEX else None,
    )
