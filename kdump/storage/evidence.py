"""Refuse to write where a broker's files are: everything there is evidence.

Whatever kdump writes under a name that a user gave is asked about here first, whether or not the
run reads that directory.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from itertools import islice

from kdump.errors import PathError, RefusedError
from kdump.storage import names
from kdump.storage.names import Kind
from kdump.storage.recognize import recognize
from kdump.storage.tier_layout import is_tiered

_LISTED = 10_000  # entries of one directory; nearly every entry of a broker's is one of its files
_LOGS = frozenset((Kind.LOG, Kind.PRE08_LOG, Kind.METADATA_SNAPSHOT))
_BESIDE_LOGS = names.INDEX_KINDS | {Kind.LEADER_EPOCHS, Kind.PARTITION_METADATA}
_OF_A_PARTITION = _LOGS | _BESIDE_LOGS | {Kind.PRODUCER_SNAPSHOT, Kind.QUORUM_STATE}
_OF_A_DATA_DIRECTORY = frozenset(
    (Kind.META_PROPERTIES, Kind.OFFSET_CHECKPOINT, Kind.CLEAN_SHUTDOWN)
)
#: Kinds of files that their bytes give away for sure; an index is only slots.
_SURE = frozenset((
    *("log", "kafka", "snapshot", "metadata-snapshot"),
    *(names.META_PROPERTIES, names.PARTITION_METADATA, names.QUORUM_STATE),
))  # fmt: skip
_HEAD_BYTES = 4096
#: Options whose files beside the result are never replaced, whatever is asked for.
_NO_FORCE = ("--out", "--resume")


def refuse_among_evidence(path: str, option: str) -> None:
    """Raise where writing a file, or into a directory, would be among a broker's files."""
    named = f"{option} {path}"
    try:
        target = os.path.realpath(path)
        mode: int | None = os.stat(target).st_mode
    except OSError:
        mode = None
    except ValueError:  # a null character: nothing can be written there
        return
    if mode is not None and stat.S_ISBLK(mode):
        raise RefusedError(named, "is a block device: kdump does not write to disks")
    if mode is not None and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        return
    is_directory = mode is not None and stat.S_ISDIR(mode)
    directory = target if is_directory else os.path.dirname(target)
    while True:
        if what := _describe(directory):
            raise RefusedError(named, f"is inside {what}, {directory}; choose a path outside it")
        above = os.path.dirname(directory)
        if above == directory:
            break
        directory = above
    if mode is not None and stat.S_ISREG(mode) and _is_brokers(target):
        raise RefusedError(named, "is a file of a broker; write to another file")


def refuse_replacing(
    path: str, option: str, *, force: bool = False, is_ours: Callable[[bytes], object] | None = None
) -> None:
    """Raise where a file with content would be replaced that kdump did not write for this purpose.

    `is_ours` judges the first bytes of a file.
    """
    try:
        if force or not stat.S_ISREG((status := os.stat(path)).st_mode) or not status.st_size:
            return
        if is_ours is not None:
            with open(path, "rb") as file:
                if is_ours(file.read(_HEAD_BYTES)):
                    return
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise PathError(f"{option} {path}", getattr(error, "strerror", "") or str(error)) from error
    what = "exists" if is_ours is None else "exists and is not an earlier output of this command"
    hint = "name another file" + ("" if option in _NO_FORCE else ", or add --force to replace it")
    raise RefusedError(f"{option} {path}", f"{what}; {hint}")


def _describe(directory: str) -> str:
    """Return what a directory looks like to a broker; empty if it is not one of Kafka's."""
    is_named = names.parse_directory(os.path.basename(directory)) is not None
    try:
        with os.scandir(directory) as entries:
            found = [entry.name for entry in islice(entries, _LISTED)]
    except FileNotFoundError:
        return ""
    except OSError:  # whoever cannot list it may be able to write in it
        return "what is named as a partition directory" if is_named else ""
    kinds = names.kinds(found)
    if kinds & _OF_A_DATA_DIRECTORY:
        return "a data directory"
    if (is_named and kinds & _OF_A_PARTITION) or (kinds & _LOGS and kinds & _BESIDE_LOGS):
        return "a partition directory"
    return "a directory of tiered storage" if is_tiered(directory, found) else ""


def _is_brokers(path: str) -> bool:
    if names.parse(os.path.basename(path)).kind is not Kind.UNKNOWN:
        return True
    try:
        return recognize(path).word in _SURE
    except (OSError, PathError):
        return False
