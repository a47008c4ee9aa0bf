"""Compare what cheap changes before a start would lose, and name the one that loses least.

After a clean stop a broker recovers nothing. Where the newest segment lost its end, its index names
an offset that the log no longer reaches, and the start takes the whole segment for empty (R5).
Recovery would cut it at the damage and keep the rest. It is brought about by the removal of the
mark of the clean stop, for all partitions of the data directory, or of an offset index, for one
segment (R6). But recovery cuts at every wrong checksum, which a clean start leaves alone. So both
are forecast for each partition that has damage, and the mark is only given up where no other
partition of the directory loses by that.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kdump.broker.log_reader import RefusalError
from kdump.broker.shutdown_state import stop_of
from kdump.engine.predict.recovery import predict_partition
from kdump.engine.predict.verdict import verdict
from kdump.findings.commands import remove_command
from kdump.findings.finding import Finding
from kdump.findings.shell import format_command
from kdump.rows.verify import REFUSALS, Recovery, Remedy
from kdump.storage import names, places
from kdump.storage.local_log import LocalLog
from kdump.storage.names import Kind

if TYPE_CHECKING:
    from kdump.broker.settings import Settings
    from kdump.broker.versions import Version
    from kdump.replay.cluster_state import ClusterState
    from kdump.storage.targets import Target

MARK, INDEX = "clean-shutdown-mark", "offset-index"
#: What a remedy makes a start recover.
_SCOPES = {
    MARK: "(so that every partition of the directory is recovered)",
    INDEX: "(so that the segment is recovered)",
}
#: Of outcomes that no number of records describes.
_NO_REMEDY = (*REFUSALS, "unknown", "stray", "wrong-log-end")
#: More than any log holds: what a partition that stops the start costs.
_EVERYTHING = 1 << 63


def remedies(
    target: Target, broker: Version, settings: Settings, cluster: ClusterState | None
) -> Iterator[Remedy]:
    """Forecast the start after each file is removed whose absence makes it recover the log.

    Of a partition whose broker did not stop cleanly there is none: it is recovered anyway.
    """
    log, directory = target.log, target.log_dir()
    if log is None or directory is None or not log.logs:
        return
    try:
        stop = stop_of(log, directory, broker)
    except RefusalError:
        return
    if not stop.clean:
        return

    def forecast(what: str, path: str, row: Recovery) -> Remedy:
        return Remedy(
            remove=what,
            path=path,
            outcome=row.outcome,
            log_end_after=row.log_end_after,
            records_lost=row.records_lost,
            first_lost_offset=row.first_lost_offset,
        )

    unclean = stop._replace(clean=False)
    row = predict_partition(target, broker, settings, cluster=cluster, stop=unclean)
    mark = os.path.join(os.path.dirname(log.path), names.CLEAN_SHUTDOWN)
    yield forecast(MARK, mark, row)
    index = log.logs[-1].files.get(Kind.OFFSET_INDEX)
    if index is not None:
        rest = {
            name: log.statuses[name] for name in log.statuses if name != os.path.basename(index)
        }
        without = target._replace(log=LocalLog(log.path, rest))
        yield forecast(INDEX, index, predict_partition(without, broker, settings, cluster=cluster))


def findings_with_remedies(rows: Iterable[Recovery]) -> Iterator[tuple[Finding | None, Recovery]]:
    """Give the finding of each row, if there is one, with what to do so that less is lost."""
    rows = list(rows)
    by_directory: dict[str, list[Recovery]] = {}
    for row in rows:
        by_directory.setdefault(places.parent(str(row.path)), []).append(row)
    for row in rows:
        found = verdict(row)
        words = _best_words(row, by_directory[places.parent(str(row.path))])
        if found is not None and words is not None:
            found = found._replace(message=f"{found.message} {words}")
        yield found, row


def _best_words(row: Recovery, of_directory: Iterable[Recovery]) -> str | None:
    """Name the remedies that lose least; None where none is better than a start as is."""
    before = _count_lost(row)
    allowed = [
        remedy
        for remedy in _remedies(row)
        if remedy["remove"] != MARK
        or not any(_loses_by(other, MARK) for other in of_directory if other is not row)
    ]
    least = min(map(_count_lost, allowed), default=before)
    if least >= before:
        return None
    best = [remedy for remedy in allowed if _count_lost(remedy) == least]
    count = f"{least:,} record" + "s" * (least != 1)
    rather = "and does not fail" if before == _EVERYTHING else f"instead of {before:,}"
    without = _without(best)
    return f"{without[0].upper()}{without[1:]}, the start loses {count} {rather}."


def _without(best: list[Remedy]) -> str:
    """Say how to start without one of the files; a store has no command that removes one."""
    paths = [str(remedy["path"]) for remedy in best]
    in_store = places.is_uri(paths[0])
    files = paths if in_store else [format_command(remove_command(path)) for path in paths]
    scopes = [_SCOPES[str(remedy["remove"])] for remedy in best]
    listed = " or ".join(f"{file} {scope}" for file, scope in zip(files, scopes, strict=True))
    return f"{'in a copy without' if in_store else 'if you first run'} {listed}"


def _loses_by(row: Recovery, what: str) -> bool:
    """Whether a remedy costs a partition more than a start as is."""
    return any(
        _count_lost(remedy) > _count_lost(row)
        for remedy in _remedies(row)
        if remedy["remove"] == what
    )


def _remedies(row: Recovery) -> list[Remedy]:
    return row.remedies or []


def _count_lost(forecast: Recovery | Remedy) -> int:
    lost = forecast["records_lost"]
    if forecast["outcome"] in _NO_REMEDY or not isinstance(lost, int):
        return _EVERYTHING
    return lost
