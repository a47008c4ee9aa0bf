"""Find what stops a start over a whole data directory: a partition, a name, a duplicate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kdump.broker.versions import REMOTE_INDEX_CACHE, Version, has
from kdump.rows.verify import Recovery
from kdump.storage import names, places

if TYPE_CHECKING:
    from kdump.storage.log_dir import LogDir

REFUSALS = ("refuses-to-start", "out-of-memory")


def predict_directory(
    directory: LogDir,
    partitions: Iterable[Recovery],
    broker: Version,
    *,
    others: Sequence[LogDir] = (),
) -> Recovery | None:
    """Say why the broker would not start with this data directory, None where it would.

    `partitions` are the rows predicted for it (others are passed over), `others` the broker's
    other data directories: a partition may lie in one of them only (R13).
    """
    reasons = [*_refused(directory, partitions), *_names(directory, broker)]
    reasons += _doubles(directory, others)
    if not reasons:
        return None
    return Recovery(
        outcome="out-of-memory" if reasons[0][0] == REFUSALS[1] else REFUSALS[0],
        reason="the whole broker would not start: " + "; ".join(reason for _, reason in reasons),
        path=directory.path,
    )


def _refused(directory: LogDir, partitions: Iterable[Recovery]) -> Iterator[tuple[str, str]]:
    paths = {path for _, path in directory.partitions}
    inside = {places.real(path) for path in paths}
    refused = [
        row
        for row in partitions
        if row.outcome in REFUSALS and places.real(str(row.path)) in inside
    ]
    if not refused:
        return
    first = refused[0]
    more = f", and {len(refused) - 1} more partitions" if len(refused) > 1 else ""
    yield first.outcome, f"{first.topic}-{first.partition} stops it{more}"


def _names(directory: LogDir, broker: Version) -> Iterator[tuple[str, str]]:
    """Directories that are no partition's (R12)."""
    try:
        listed = places.entries(directory.path)
        found = sorted(entry.name for entry in listed if places.is_dir(entry))
    except OSError:
        return
    for name in found:
        if names.parse_directory(name) is not None:
            continue
        if name == names.REMOTE_LOG_INDEX_CACHE and has(broker, REMOTE_INDEX_CACHE):
            continue
        yield REFUSALS[0], f"the directory {name} is no partition's"
        return


def _doubles(directory: LogDir, others: Sequence[LogDir]) -> Iterator[tuple[str, str]]:
    """A partition that lies in two data directories (R13)."""
    elsewhere = {
        (name.topic, name.partition): other.path
        for other in others
        if other.path != directory.path
        for name, _ in other.partitions
        if name.retirement is None
    }
    for name, _ in directory.partitions:
        place = elsewhere.get((name.topic, name.partition))
        if name.retirement is None and place is not None:
            yield REFUSALS[0], f"{name.topic}-{name.partition} lies in {place} too"
            return
