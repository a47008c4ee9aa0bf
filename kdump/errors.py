"""What stops a run; the exit status sits on the class.

Damage is data and comes out as findings. An exception means that the work could not be done, was
asked for wrongly, or was refused. The statuses are those of the command line: 1 not done, 2 wrong
usage, 5 refused. Findings (3) and the broker's answer "none" (4) are no errors.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeVar

    Yielded = TypeVar("Yielded")

#: Set in the environment, an exception that nobody foresaw ends the run with its traceback.
TRACEBACK = "KDUMP_TRACEBACK"
_LONGEST = 300  # characters of such an exception's own text
#: What a URI says of who asks: user and password, or of HTTP a token alone. A slash in the
#: password, which should be spelled %2F, ends nothing.
_PASSWORD = r":(?:[^/?#\s]*|(?!\d*[/?#])[^@\s]*)"
MASK = "***"


@cache  # a start has no time to make patterns that hardly any run asks for
def login_pattern() -> re.Pattern[str]:
    """Return the pattern of a login: of HTTP in the second group, else user and password."""
    return re.compile(
        rf"(https?:/{{1,2}})([^/?#:@\s]+(?:{_PASSWORD})?)@"
        rf"|([A-Za-z][A-Za-z0-9+.-]*:/{{1,2}}[^/?#:@\s]*)({_PASSWORD})@",
        re.IGNORECASE,
    )


@cache
def _member_pattern() -> re.Pattern[str]:
    """Return the pattern of a member of a query: what is before it, its name, its value."""
    return re.compile(r"([?&;#](?:amp;)?)([^=&;#?\s]+)=([^&;#\s]+?)(?=[:.,)'\"]*(?:[&;#\s]|$))")


@cache
def _lets_in_pattern() -> re.Pattern[str]:
    """Return the pattern of names that let in whoever has their value, but for punctuation."""
    return re.compile(
        r"(?:.*(?:token|secret|secretkey|passw(?:or)?d|signature|credentials?|apikey|accesskey|accessid"
        r"|accesskeyid|keypairid)|sig|sas|pwd|jwt|auth|authorization|code|key|policy|session)",
        re.IGNORECASE,
    )


def mask_login(text: str) -> str:
    """Return a text with every login of a URI masked."""
    return login_pattern().sub(_mask_login, text)


def _mask_login(found: re.Match[str]) -> str:
    return f"{found[1]}{MASK}@" if found[1] else f"{found[3]}:{MASK}@"


def mask_members(text: str, mask: str = MASK) -> str:
    """Return a text with the values masked of what lets in whoever has it in a URI's query."""
    return _member_pattern().sub(lambda found: _mask_member(found, mask), text)


def _mask_member(found: re.Match[str], mask: str) -> str:
    from urllib.parse import unquote

    is_masked = found[3].startswith(MASK)
    if is_masked or not _lets_in_pattern().fullmatch(
        re.sub(r"[^A-Za-z0-9]", "", unquote(found[2]))
    ):
        return found[0]
    return f"{found[1]}{found[2]}={mask}"


class KdumpError(Exception):
    """The work could not be done or finished."""

    status = 1

    def __str__(self) -> str:
        return mask_members(mask_login(self._text()))

    def _text(self) -> str:
        return super().__str__()


class UsageError(KdumpError):
    """The command was asked for wrongly; nothing was read."""

    status = 2


class _OfPath(KdumpError):
    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def _text(self) -> str:
        return f"{self.path}: {self.reason}"


class PathError(_OfPath):
    """A path cannot be opened or is not what was asked for; the other paths are still worked on."""

    @classmethod
    def from_os(cls, path: str, error: OSError) -> PathError:
        """Say what the operating system said, without the errno and the path it repeats."""
        return cls(path, error.strerror or str(error) or type(error).__name__)

    @property
    def is_denied(self) -> bool:
        """Whether this user may not open the path, though another one may."""
        from errno import EACCES  # of an error that came from another process, the text is left

        return self.reason == os.strerror(EACCES)


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


class RefusedError(PathError):
    """The change was not made: a broker may be running, or something would be lost."""

    status = 5


class InternalError(_OfPath):
    """An exception that nobody foresaw: what one path was asked for is not finished.

    It is reported as the finding `internal-error` and the other paths are still worked on.
    """

    topic: str | None = None
    partition: int | None = None


def unforeseen(
    path: str, error: Exception, *, topic: str | None = None, partition: int | None = None
) -> KdumpError:
    """Return the error to report for an exception that ended the work on a path."""
    if isinstance(error, KdumpError):
        return error
    if os.environ.get(TRACEBACK):
        raise error
    if isinstance(error, OSError):
        named = error.filename
        return PathError.from_os(named if isinstance(named, str) else path, error)
    text = " ".join(str(error).split())[:_LONGEST]
    words = f"{type(error).__name__}: {text}" if text else type(error).__name__
    reported = InternalError(path, f"{words} ({_find_origin(error)})")
    reported.topic, reported.partition = topic, partition
    return reported


def _find_origin(error: Exception) -> str:
    """Name the place in kdump's code that an exception comes from, or the last of any."""
    places = []
    frame = error.__traceback__
    while frame is not None:
        code = frame.tb_frame.f_code
        places.append((code.co_filename, f"{frame.tb_lineno}, in {code.co_name}"))
        frame = frame.tb_next
    own = os.path.dirname(os.path.abspath(__file__))
    in_own = [place for place in places if place[0].startswith((own, "kdump/"))]
    if not places:
        return "kdump"
    file, line = (in_own or places)[-1]
    return f"{os.path.relpath(file, os.path.dirname(own)) if in_own else file}:{line}"


def guard(
    path: str,
    items: Iterable[Yielded],
    *,
    topic: str | None = None,
    partition: int | None = None,
) -> Iterator[Yielded | KdumpError]:
    """Yield items; where getting the next one fails, yield the error in place of the rest."""
    try:
        yield from items
    except (KdumpError, BrokenPipeError):
        raise
    except Exception as error:
        yield unforeseen(path, error, topic=topic, partition=partition)


def attempt(
    path: str,
    work: Callable[[], Yielded],
    otherwise: Yielded,
    failed: list[KdumpError],
    *,
    topic: str | None = None,
    partition: int | None = None,
) -> Yielded:
    """Return what some work gives, or else a default, with the error added to those that failed."""
    try:
        return work()
    except KdumpError:
        raise
    except Exception as error:
        failed.append(unforeseen(path, error, topic=topic, partition=partition))
        return otherwise
