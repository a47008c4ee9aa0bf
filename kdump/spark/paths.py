"""The paths of the data source: patterns, lists, and the spellings of Hadoop and Databricks."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from glob import glob, has_magic

from kdump.errors import PathError, UsageError
from kdump.storage import places
from kdump.storage.inputs import is_archive

_NO_ARCHIVE = (
    "is an archive, which every task would have to unpack: unpack it to a path that "
    "executors can read"
)


def paths_of(given: list[str], *, fail_on_missing: bool) -> list[str]:
    """Return the paths to read; executors may run elsewhere than in this directory.

    A pattern that matches nothing gives no path, or is an error where that is asked for; a path
    that is not there is an error of whoever reads it.
    """
    found: list[str] = []
    for text in given:
        for path in map(_local, _split(text)):
            if places.has_password(path):
                raise UsageError("a path contains a password, which Spark would display: remove it")
            matches = sorted(_find_matches(path))
            if not matches and fail_on_missing:
                raise PathError(path, "matches no path")
            found += map(places.absolute, matches)
    for path in found:
        if is_archive(path):
            raise PathError(path, _NO_ARCHIVE)
    return list(dict.fromkeys(found))


def read_folder(text: str) -> str:
    """Read a folder that is not itself a path to read; executors may run elsewhere."""
    path = _local(text)
    if places.has_password(path):
        raise ValueError("contains a password, which Spark would display: remove it")
    if not places.is_uri(path) and not places.isdir(path):
        raise ValueError("is not a directory")
    return places.absolute(path)


def _split(text: str) -> list[str]:
    """Split a list of paths, as Hadoop takes it; a path with a comma that exists is none."""
    if "," not in text or places.lexists(_local(text)):
        return [text]
    return [part.strip() for part in text.split(",") if part.strip()]


def _local(path: str) -> str:
    """Return a path of this machine as such, where Spark or Databricks put a word before it."""
    if path.startswith("file:/"):
        return "/" + path.removeprefix("file:").lstrip("/")
    if path.startswith("dbfs:/"):
        inside = path.removeprefix("dbfs:").lstrip("/")
        return f"/{inside}" if inside.startswith("Volumes/") else f"/dbfs/{inside}"
    return path


def _find_matches(path: str) -> Iterator[str]:
    """Yield the paths that a pattern matches; a path that exists is not a pattern."""
    if not has_magic(path):
        yield path
    elif not places.is_uri(path):
        yield from [path] if places.lexists(path) else glob(path)
    else:
        root, _, inside = path.partition("://")
        place, _, rest = inside.partition("/")
        yield from _find_in_store(f"{root}://{place}", [part for part in rest.split("/") if part])


def _find_in_store(folder: str, parts: list[str]) -> Iterator[str]:
    """Yield the paths below a folder of a store that match, by one listing for each pattern."""
    if not parts:
        yield folder
        return
    part, rest = parts[0], parts[1:]
    if not has_magic(part):
        at = f"{folder}/{part}"
        if any(map(has_magic, rest)) or places.lexists(at):
            yield from _find_in_store(at, rest)
        return
    try:
        entries = places.entries(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if fnmatchcase(entry.name, part) and (not rest or places.is_dir(entry)):
            yield from _find_in_store(f"{folder}/{entry.name}", rest)
