"""Keep the logs of a salvage open from planning on, whatever a broker deletes meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kdump.engine.salvage.copies import CopySource, Item
from kdump.errors import KdumpError, PathError
from kdump.findings.finding import Finding, finding
from kdump.storage.held_files import HeldFiles, UnheldFile, identity, size_of

_SHOWN = 20


def hold_files(
    items: Sequence[Item], held: HeldFiles
) -> tuple[list[Item], list[Finding | KdumpError]]:
    """Open all files of the copies; give the items, and what could not be kept open.

    Files of retired directories come first: they are the ones that go. An item of which a file is
    gone already is left out. A copy that is another under a second name, as a hard link is, is one
    copy.
    """
    copies = [copy for item in items for copy in item.copies]
    copies.sort(key=lambda copy: copy.retirement is None and not copy.is_file)
    wanted = [path for copy in copies for path in copy.files()]
    wanted += [path for copy in copies for path in copy.small_files()]
    failed = held.hold(wanted)
    gone = {each.path for each in failed if each.is_gone}
    kept: list[Item] = []
    reported: list[Finding | KdumpError] = list(_unheld_findings(failed))
    for item in items:
        missing = [path for copy in item.copies for path in copy.files() if path in gone]
        if missing:
            reason = "was deleted or renamed while it was listed: run the same command again"
            reported.append(PathError(missing[0], reason))
        else:
            kept.append(item._replace(copies=tuple(_unique_copies(item.copies))))
    return kept, reported


def _unheld_findings(failed: Sequence[UnheldFile]) -> Iterator[Finding]:
    """Say which files a broker could still delete from under the run."""
    left = [each for each in failed if not each.is_gone]
    for number, each in enumerate(left[:_SHOWN]):
        more = len(left) - _SHOWN if number == _SHOWN - 1 and len(left) > _SHOWN else 0
        others = f", and {more:,} others" if more else ""
        yield finding(
            "file-not-held",
            path=each.path,
            message=f"{each.path} cannot be kept open: {each.reason}{others}.",
        )._replace(more=more)


def _unique_copies(copies: Sequence[CopySource]) -> Iterator[CopySource]:
    """Yield each copy that is not wholly another one under a second name.

    Of an image each copy is a part.
    """
    seen: list[frozenset[tuple[int, int]]] = []
    for copy in copies:
        if copy.is_carved:
            yield copy
            continue
        files = [path for path in copy.files() if size_of(path)]
        inodes = [identity(path) for path in files]
        mine = frozenset(inode for inode in inodes if inode is not None)
        if mine and len(mine) == len(files) and any(mine <= other for other in seen):
            continue
        seen.append(mine)
        yield copy
