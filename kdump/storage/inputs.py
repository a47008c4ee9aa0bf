"""Take what a user named for what it is: archives, odd names, standard input.

A path that is a partition, a data directory or a file of a known name goes through as it is. All
else becomes a view (`kdump/stores/view_store.py`), which every command reads as it reads a store.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kdump.errors import PathError, UsageError
from kdump.storage import names, places
from kdump.storage.names import Kind
from kdump.stores.uris import is_uri, is_view
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.stores.unpacking import UnpackedArchive, Unpacker
    from kdump.stores.view_store import Member

_NO_TOPIC = "input"
_HEAD_BYTES = 512
_ID_SIZE, _OFFSET_SIZE = 22, 20  # characters of a topic id, digits of a base offset


class FileOverrides(NamedTuple):
    """What the user says of a file that does not say it itself."""

    word: str | None = None
    base_offset: int | None = None
    topic: str | None = None
    partition: int | None = None
    unpack_limit: int | None = None

    @classmethod
    def take(cls, asked: dict[str, Any]) -> FileOverrides:
        """Take it out of all that is asked for."""
        return cls(
            asked.pop("as_kind"),
            asked.pop("base_offset"),
            asked.pop("topic_name"),
            asked.pop("partition_number"),
            asked.pop("unpack_limit"),
        )

    @property
    def is_given(self) -> bool:
        """Whether anything is said, so that no name of a file is to be believed."""
        return any(one is not None for one in self[:4])


def open_inputs(
    paths: Iterable[str],
    named: FileOverrides,
    *,
    on_spark: bool = False,
    tell: Callable[[str], object] = lambda text: None,
    progress: Callable[[int], None] = lambda total: None,
    finished: Callable[[Iterable[str]], frozenset[str]] = lambda paths: frozenset(),
) -> tuple[str, ...]:
    """Return the paths to read, with views in the place of what is no file of a known name.

    `tell` is called with what a user should know of an archive, `progress` with the bytes unpacked,
    `finished` for the ids of the remote segments that the metadata under some paths has.
    """
    paths = tuple(paths)
    inputs = _Inputs(named, tell, progress, lambda: finished(paths))
    found = [inputs.open(path) for path in paths]
    for path in found if on_spark else ():
        if is_view(path):
            raise UsageError(
                f"{path}: Spark cannot read archives: unpack it to a path that executors can read"
            )
    return tuple(dict.fromkeys(found))


def is_archive(path: str) -> bool:
    """Whether a path is that of an archive, or of a compressed file, as its first bytes say."""
    if is_uri(path):
        return is_view(path)
    if _is_known(path) or not os.path.isfile(path):
        return False
    from kdump.stores.quiet_open import open_quietly
    from kdump.stores.unpacking import kind_of

    with open(path, "rb", opener=open_quietly) as file:
        return kind_of(file.read(_HEAD_BYTES)) is not None


class _Inputs:
    """The paths of one run; all that is unpacked for them counts against one limit."""

    def __init__(
        self,
        named: FileOverrides,
        tell: Callable[[str], object],
        progress: Callable[[int], None],
        finished: Callable[[], frozenset[str]],
    ) -> None:
        self._named, self._tell, self._progress = named, tell, progress
        self._finished = finished

    @cached_property
    def _unpacker(self) -> Unpacker:
        from kdump.stores.unpacking import Unpacker, scratch_directory

        return Unpacker(scratch_directory(), self._named.unpack_limit, self._progress)

    def open(self, path: str) -> str:
        """Return what to read in the place of a path, or the path."""
        if path == "-":
            return self._of_stdin()
        if is_view(path):
            return self._reopen(path)
        if is_uri(path):
            from kdump.stores.passwords import without_password

            return without_password(path)
        if os.path.isdir(path):
            return self._tier_view(path) or path
        is_known = _is_known(path) and not self._named.is_given
        if is_known or not os.path.isfile(path):
            return path  # who reads it says what is wrong with it
        return self._view_of(path)

    def _view_of(self, path: str) -> str:
        """Make a view of an archive, or of a file under the name that it should have."""
        unpacked = None if _is_known(path) else self._unpacker.view_of(path)
        if unpacked is not None:
            return self._unpack(path, unpacked)
        from kdump.stores.quiet_open import open_quietly
        from kdump.stores.view_store import stat_of

        with open(path, "rb", opener=open_quietly) as file:
            member = stat_of(file)._replace(file=os.path.abspath(path))
        return self._alias(path, member)

    def _unpack(self, path: str, unpacked: UnpackedArchive) -> str:
        for note in unpacked.notes:
            self._tell(f"{path}: {note}")
        if not unpacked.members:
            raise PathError(path, [*unpacked.problems, "contains no files"][0])
        inside, member = next(iter(unpacked.members.items()))
        is_single = len(unpacked.members) == 1
        if is_single and (self._named.is_given or not _is_known(inside)):
            return self._alias(path, member, problems=unpacked.problems)
        inside = inside if is_single else ""
        return self._publish(path, unpacked.members, inside, unpacked.problems)

    def _publish(
        self, path: str, members: dict[str, Member], inside: str, problems: Sequence[str] = ()
    ) -> str:
        from kdump.stores.view_store import root_of

        root = root_of(path)
        self._unpacker.publish(root, members, problems)
        return f"{root}/{inside}"

    def _reopen(self, uri: str) -> str:
        """Open the archive of a path in it that kdump has printed."""
        from kdump.stores.view_store import file_of

        path = file_of(uri)
        root = self.open(path).partition("!")[0]
        return uri if root == uri.partition("!")[0] else path

    def _of_stdin(self) -> str:
        """Copy standard input to a file, as what is read of it is read more than once."""
        from kdump.stores.view_store import STDIN

        if sys.stdin is None or sys.stdin.isatty():
            raise UsageError(
                "standard input is a terminal: give it a file, as in kdump dump - < FILE"
            )
        member = self._unpacker.spool(sys.stdin.buffer, STDIN)
        unpacked = self._unpacker.view_of(member.file)
        if unpacked is not None:
            return self._unpack(STDIN, unpacked)
        return self._alias(STDIN, member, "log")

    def _alias(
        self,
        path: str,
        member: Member,
        default: str | None = None,
        problems: Sequence[str] = (),
    ) -> str:
        """Make a view of one file under the name that a broker would give it.

        One of which neither name nor bytes nor options say what it holds stays what it is.
        """
        from kdump.storage.recognize import file_name, recognize

        named = self._named
        found = recognize(member.file)
        word = named.word or found.word or default
        if word is None and problems:
            raise PathError(path, problems[0])
        if word is None:
            return path  # the command says what it is not
        base, topic, partition = named.base_offset, named.topic, named.partition
        if base is None:
            of_name = names.parse(os.path.basename(path)).base_offset
            base = (found.base_offset or 0) if of_name is None else of_name
        above = os.path.basename(os.path.dirname(os.path.abspath(path)))
        if topic is None and (place := names.parse_directory(above)) is not None:
            topic, partition = place.topic, place.partition if partition is None else partition
        if topic is None and partition is not None:
            raise UsageError(f"{path}: --partition-number requires --topic-name")
        directory = _NO_TOPIC if topic is None else names.directory_name(topic, partition or 0)
        inside = f"{directory}/{file_name(word, base)}"
        from kdump.stores.uris import name_view
        from kdump.stores.view_store import STDIN, root_of

        if path != STDIN and not named.is_given:  # else the path alone would not be read so again
            name_view(root_of(path), path)
        return self._publish(path, {inside: member}, inside, problems)

    def _tier_view(self, path: str) -> str | None:
        inner = os.path.join(path, names.LOCAL_TIERED_STORAGE)
        if os.path.isdir(inner):
            return self._tier_view(inner)
        if not _may_be_tiered(path):
            return None
        from kdump.storage.tier_layout import find_tiered_members

        found = find_tiered_members(path, self._finished)
        if found is None:
            return None
        for other in found[1]:
            self._tell(f"{other}: not read: an unfinished or replaced copy of its segment")
        return self._publish(path, found[0], "", found[2])


def _may_be_tiered(path: str) -> bool:
    """Whether names in or of a directory have room for a topic id, so that it is worth a look."""
    try:
        found = [os.path.basename(os.path.abspath(path)), *places.listdir(path)]
    except OSError:
        return False
    # In front of an id at the end, behind one at the start, behind the base offset of a segment.
    at = (-_ID_SIZE - 1, _ID_SIZE, _OFFSET_SIZE)
    return any(len(name) > _ID_SIZE and "-" in [name[one] for one in at] for name in found)


def _is_known(path: str) -> bool:
    """Whether a name says what its file holds."""
    kind = names.parse(os.path.basename(path)).kind
    return kind not in (Kind.UNKNOWN, Kind.OTHER_CHECKPOINT)
