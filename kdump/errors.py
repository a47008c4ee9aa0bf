"""What stops a run; the exit status sits on the class.

Damage is data and comes out as findings. An exception means that the work could not be done, was
asked for wrongly, or was refused. The statuses are those of the command line: 1 not done, 2 wrong
usage, 5 refused. Findings (3) and the broker's answer "none" (4) are no errors.
"""

from __future__ import annotations

from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class KdumpError(Exception):
    """The work could not be done or finished."""

    status = 1


class UsageError(KdumpError):
    """The command was asked for wrongly; nothing was read."""

    status = 2


class _OfPath(KdumpError):
    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class PathError(_OfPath):
    """A path cannot be opened or is not what was asked for; the other paths are still worked on."""

    @classmethod
    def from_os(cls, path: str, error: OSError) -> PathError:
        """Say what the operating system said, without the errno and the path it repeats."""
        return cls(path, error.strerror or str(error) or type(error).__name__)


@contextmanager
def path_errors(path: str) -> Iterator[None]:
    """Raise what the operating system refuses meanwhile as an error of this path."""
    try:
        yield
    except OSError as error:
        raise PathError.from_os(path, error) from error


class StoreError(_OfPath):
    """A store did not answer, or not with what was asked for.

    Nothing is known of the file then, so this is no `PathError`: whoever takes one of those for a
    file that is not there, or is not right, must not take this for one.
    """


class NothingToDo(KdumpError):
    """No partition under the paths, or a glob that matches none."""


class Refused(PathError):
    """The change was not made: a broker may be running, or something would be lost."""

    status = 5
