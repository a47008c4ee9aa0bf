"""Indexes as `reindex` builds them, to be held against those of the broker's own recovery."""

import base64
from pathlib import Path
from typing import Any

from kdump.engine.reindex.options import ReindexOptions
from kdump.engine.reindex.run import reindex
from kdump.errors import KdumpError
from kdump.findings.finding import Finding
from kdump.findings.rows import Row

INDEXES = (".index", ".timeindex", ".txnindex")


def items_of(directory: Path, **options: Any) -> list[Row | Finding | KdumpError]:
    """Run `reindex` on one path."""
    return list(reindex([str(directory)], ReindexOptions(**options)))


def rows_of(directory: Path, **options: Any) -> list[dict[str, Any]]:
    """Run `reindex` and return the members of its rows; there must be nothing else."""
    items = items_of(directory, **options)
    assert all(isinstance(item, Row) for item in items), items
    return [item.fields for item in items if isinstance(item, Row)]


def rebuilt(directory: Path, out: Path, **options: Any) -> dict[str, bytes]:
    """Build every index of a partition elsewhere, and return the files by name."""
    items = items_of(directory, write=True, out=str(out), every=True, **options)
    errors = [item for item in items if isinstance(item, KdumpError)]
    assert not errors, errors
    return {path.name: path.read_bytes() for path in sorted((out / directory.name).iterdir())}


def recovered_indexes(files: dict[str, dict[str, Any]]) -> dict[str, bytes]:
    """The indexes among the files that a recovery left, by name."""
    return {
        name: base64.b64decode(file["base64"])
        for name, file in files.items()
        if name.endswith(INDEXES)
    }


def differences(ours: dict[str, bytes], theirs: dict[str, bytes]) -> list[str]:
    """Name the indexes that differ; an empty transaction index is as none."""
    return [
        f"{name}: ours {_show(ours.get(name))}, theirs {_show(theirs.get(name))}"
        for name in sorted(ours.keys() | theirs.keys())
        if ours.get(name) != theirs.get(name)
        and not (name.endswith(".txnindex") and not ours.get(name) and not theirs.get(name))
    ]


def _show(data: bytes | None) -> str:
    return "absent" if data is None else f"{len(data)} bytes {data[:48].hex()}"
