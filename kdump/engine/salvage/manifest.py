"""The manifest of a salvage: what was read, what was taken from where, what was written.

It lies beside the result, as JSON and as a page to read; `check` holds a result to it later.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypedDict

from kdump import __version__
from kdump.engine.salvage.build import (
    JSON_ENDING,
    PAGE_ENDING,
    DataDirectory,
    file_sum,
    write_alongside,
)
from kdump.errors import KdumpError, PathError
from kdump.findings.escape import escape_json, name_text
from kdump.findings.rows import Row
from kdump.rows.salvage import SalvageCheck
from kdump.storage.source import Source, read_whole
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.salvage.copies import Item

_FORM = 1
_SIZE_LIMIT = 1 << 30


class _LogSource(TypedDict):
    """A log that was read."""

    path: str
    size_bytes: int
    mtime_ms: int
    sha256: str


def sources_of(items: Iterable[Item]) -> list[_LogSource]:
    """Say of each log that was read its size, time and SHA-256."""
    found: dict[str, _LogSource] = {}
    for item in items:
        for copy in item.copies:
            for path in copy.files():
                if path in found:
                    continue
                size, digest = file_sum(path)
                found[path] = {
                    "path": path,
                    "size_bytes": size,
                    "mtime_ms": _change_ms(path),
                    "sha256": digest,
                }
    return list(found.values())


def _change_ms(path: str) -> int:
    with Source(path) as source:
        return source.status().st_mtime_ns // 1_000_000


def write(
    built: DataDirectory, sources: list[_LogSource], rows: Iterable[Row], version: str
) -> None:
    """Write the manifest beside the place of the result."""
    content = {
        "manifest": _FORM,
        "kdump": __version__,
        "broker_version": version,
        "sources": sources,
        "partitions": [row.fields for row in rows],
        "files": [file._asdict() for file in sorted(built.files)],
    }
    # Names that are not UTF-8 become escapes, which JSON reads back as they were.
    text = escape_json(json.dumps(content, indent=1, ensure_ascii=False))
    data = text.encode("utf-8", "backslashreplace") + b"\n"
    page = "\n".join(_page(content)).encode("utf-8", "backslashreplace") + b"\n"
    write_alongside(built.out, {JSON_ENDING: data, PAGE_ENDING: page})


def _range(first: int | None, last: int | None) -> str:
    dash = " to " if min(first or 0, last or 0) < 0 else "-"
    return f"{first}{dash}{'?' if last is None else last}"


def ranges_text(ranges: Iterable[Iterable[int | None]]) -> str:
    """Write ranges of offsets; one without an end goes on nobody knows how far."""
    parts = []
    for first, last in ranges:
        parts.append(str(first) if first == last else _range(first, last))
    return " ".join(parts)


def _page(content: dict[str, Any]) -> Iterator[str]:
    yield f"Salvaged by kdump {content['kdump']}, for a broker of {content['broker_version']}."
    for row in content["partitions"]:
        yield ""
        yield name_text(f"{row['topic']}-{row['partition']}")
        yield (
            f"  {row['records_count']:,} records in {row['batches']:,} batches, offsets "
            f"{row['first_offset']} to {row['last_offset']}, SHA-256 {row['sha256']}"
        )
        for one in row["from"]:
            yield f"  from {name_text(one['path'])}: {ranges_text(one['offsets'])}"
            if "bytes" in one:
                yield f"    at bytes {ranges_text(one['bytes'])}"
        for one in row["carved"]:
            why = ", ".join(one["joined_by"]) or "nothing"
            named = one["named_by"] or "nothing"
            if (at := one["named_at"]) is not None:
                named += f" at {name_text(at['path'])}, bytes {ranges_text([at['bytes']])}"
            yield f"  {name_text(one['group'])}: named by {named}, joined by {why}"
            for at in one["joined_at"]:
                span = ranges_text([at["bytes"]])
                yield f"    an index page at {name_text(at['path'])}, bytes {span}"
            if one["doubtful"]:
                yield "    DOUBTFUL: offsets may be wrong (inside a torn wrapper, or truncated)"
        for one in row["reencoded"]:
            doubtful = ", DOUBTFUL: not covered by any checksum" if one["doubtful"] else ""
            offsets = ranges_text([[one["from"], one["to"]]])
            at = f"the torn batch at byte {one['position']} of {name_text(one['path'])}"
            yield f"  re-encoded: {offsets}, from {at}{doubtful}"
        for one in row["mended"]:
            fields = ", ".join(
                f"{each['name']} {each['stored']} to {each['inferred']}" for each in one["fields"]
            )
            offsets = ranges_text([[one["from"], one["to"]]])
            yield f"  REPAIRED HEADER: {offsets}, byte {one['position']} of {one['path']}: {fields}"
        if row["lost"]:
            yield f"  LOST: {ranges_text(row['lost'])}"
        for one in row["conflicts"]:
            told = f"{_range(one['from'], one['to'])} of {', '.join(map(name_text, one['paths']))}"
            chosen = "none" if one["chosen"] is None else name_text(one["chosen"])
            yield f"  CONFLICT: {told}; chosen: {chosen}"
        for one in row["diverged"]:
            yield f"  diverged: {name_text(one['path'])}: {ranges_text(one['offsets'])}"
    for what in ("sources", "files"):
        yield ""
        yield f"{what.capitalize()} (bytes, SHA-256, path)"
        for one in content[what]:
            yield f"  {one['size_bytes']:>14,}  {one['sha256']}  {name_text(one['path'])}"


def check(manifest: str, directory: str) -> Iterator[Row | KdumpError]:
    """Yield a `salvage-check` row for each file of the manifest and for each that it has not."""
    try:
        content = json.loads(read_whole(manifest, _SIZE_LIMIT))
        if content["manifest"] != _FORM:
            raise ValueError
        files = {file.path: file for file in map(_file_of, content["files"])}
    except (ValueError, KeyError, TypeError, RecursionError):
        raise PathError(manifest, "is not a salvage manifest") from None
    root = os.path.join(os.path.realpath(directory), "")
    for path, said in sorted(files.items()):
        at = os.path.join(directory, path)
        if not os.path.realpath(at).startswith(root):
            yield PathError(manifest, f"names a file outside {directory}: {path}")
            continue
        try:
            size, digest = file_sum(at)
        except PathError as error:
            if os.path.lexists(at):
                yield error
                continue
            yield _check_row(path, "missing", said.sha256, None)
            continue
        is_same = (size, digest) == (said.size_bytes, said.sha256)
        yield _check_row(path, "same" if is_same else "differs", said.sha256, digest)
    for path in sorted(_below(directory)):
        if path not in files:
            yield _check_row(path, "not-in-manifest", None, None)


def _file_of(said: Any) -> _File:
    """Read what a manifest says of one file; ValueError where it is no such thing."""
    match said:
        case {"path": str(path), "size_bytes": int(size), "sha256": str(digest)}:
            if "\0" not in path:
                return _File(path, size, digest)
    raise ValueError


class _File(NamedTuple):
    path: str
    size_bytes: int
    sha256: str


def _check_row(path: str, outcome: str, expected: str | None, actual: str | None) -> Row:
    severity = None if outcome == "same" else "damage"
    return SalvageCheck(
        path=path,
        outcome=outcome,
        severity=severity,
        expected=expected,
        actual=actual,
    )


def _below(directory: str) -> Iterator[str]:
    def fail(error: OSError) -> None:
        raise PathError.from_os(str(error.filename or directory), error)

    for folder, _, files in os.walk(directory, onerror=fail):
        for name in files:
            yield os.path.relpath(os.path.join(folder, name), directory)
