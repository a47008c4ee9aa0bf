"""Remember what earlier runs of verify read, so that a sealed segment is read once.

    {"row":"verify-state","version":1,"kdump":"0.1.0"}
    {"path":"/var/lib/kafka/orders-7","segments":[[48230114,"9f0c…",1,1763719200,[]],…]}

One line of JSON for each partition directory: base offset, identity, depth, time, findings. The
identity is a digest over size, modification time and inode of all files of that base offset: a
segment that was touched in any way is verified anew. So is everything after another kdump wrote
the file, for its checks may see what these did not.

Findings of a segment that is left out are kept here and reported again, so that a damage never
falls silent because it was seen before. Findings that belong to no segment are found anew each
time; where one of them was more than a note, nothing of its partition is left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kdump import __version__
from kdump.engine.verify.options import VERIFIED_BEFORE, Item, Skip
from kdump.errors import KdumpError
from kdump.findings.finding import CATALOGUE, Finding, Severity
from kdump.storage import places
from kdump.storage.names import Kind
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.verify.results import Result
    from kdump.storage.local_log import LocalLog

VERSION = 1
SHALLOW, DEEP = 1, 2
#: Above this no state file is believed: it is read into memory.
SIZE_LIMIT = 1 << 30


def is_state(head: bytes) -> bool:
    """Whether a file begins as a state file does, of whatever kdump."""
    return head.startswith(b'{"row":"verify-state"')


class VerifiedSegment(NamedTuple):
    """One segment as it was when it was last verified; `verified_s` is epoch seconds."""

    identity: str
    depth: int
    verified_s: int
    findings: tuple[Finding, ...]


class VerifyState:
    """The segments seen, by partition directory. Lines are kept as text until they are needed."""

    def __init__(self, now_s: int) -> None:
        self.now_s = now_s
        self._lines: dict[str, bytes] = {}
        self.changed = False

    @classmethod
    def read(cls, data: bytes, now_s: int) -> VerifyState:
        """Take up a state file; ValueError says what is wrong with one that cannot be believed."""
        state = cls(now_s)
        lines = data.splitlines()
        if not lines:
            return state
        head = _object(lines[0])
        if head.get("row") != "verify-state":
            raise ValueError("is not a kdump verify state file")
        if head.get("version") != VERSION or head.get("kdump") != __version__:
            return state  # written by another kdump: all is to be seen anew
        if not data.endswith(b"\n"):
            raise ValueError("its last line is incomplete")
        for line in lines[1:]:
            path, _ = _partition(line)
            state._lines[path] = line
        return state

    def lines(self) -> Iterator[bytes]:
        """Yield the file's lines; partitions that are gone from a directory that is there go."""
        yield _json({"row": "verify-state", "version": VERSION, "kdump": __version__})
        for path in sorted(self._lines):
            if not _is_gone(path):
                yield self._lines[path] + b"\n"

    def narrow(self, item: Item, log: LocalLog, *, deep: bool, recheck_s: float | None) -> Item:
        """Leave out of an item what was seen before and has not changed since."""
        seen = self._of(item.path)
        identities = identities_of(log)
        sizes = dict(item.sizes)
        skips = dict(item.skips)
        oldest = self.now_s
        # What follows a segment that is still there may be missing now.
        gone = [base for base in seen if base is not None and base not in item.sizes | item.skips]
        before_gone = {max((base for base in sizes if base < one), default=None) for one in gone}
        for base, identity in identities.items():
            before = seen.get(base)
            if base not in sizes or base in before_gone:
                continue
            if before is None or before.identity != identity:
                oldest = 0
                continue
            expired = recheck_s is not None and self.now_s - before.verified_s >= recheck_s
            if before.depth < (DEEP if deep else SHALLOW) or expired or None in seen:
                oldest = min(oldest, before.verified_s)
                continue
            # A finding's file as this run names the directory.
            known = tuple(
                finding._replace(path=os.path.join(item.path, os.path.basename(finding.path)))
                for finding in before.findings
            )
            skips[base] = Skip(VERIFIED_BEFORE, known)
            del sizes[base]
        return item._replace(sizes=sizes, skips=skips, identities=identities, verified_s=oldest)

    def record(self, item: Item, result: Result, *, deep: bool) -> None:
        """Remember what was read of an item to its end, and keep what was left out."""
        if not item.identities:
            return
        found: dict[int | None, list[Finding]] = {}
        for finding in result.findings:
            found.setdefault(finding.segment, []).append(finding)
        before = self._of(item.path)
        after: dict[int | None, VerifiedSegment] = {}
        for base, identity in item.identities.items():
            if base in result.verified:
                depth = DEEP if deep else SHALLOW
                after[base] = VerifiedSegment(
                    identity, depth, self.now_s, tuple(found.get(base, ()))
                )
            elif base in before and before[base].identity == identity:
                after[base] = before[base]
        grave = [each for each in found.get(None, ()) if each.severity is not Severity.NOTE]
        if grave:
            after[None] = VerifiedSegment("", 0, self.now_s, ())
        self.changed = self.changed or after != before
        path = places.absolute(item.path)
        self._lines[path] = _line(path, after)

    def _of(self, path: str) -> dict[int | None, VerifiedSegment]:
        line = self._lines.get(places.absolute(path))
        return {} if line is None else _partition(line)[1]


def _is_gone(path: str) -> bool:
    """Whether a partition is no longer in a directory that is there."""
    try:
        return not places.isdir(path) and places.isdir(places.parent(path))
    except KdumpError:  # a store that does not answer, or whose client is not installed
        return False


def identities_of(log: LocalLog) -> dict[int, str]:
    """Give each sealed segment's identity; the newest, which a broker may be writing, has none."""
    from hashlib import blake2b

    snapshots = dict(log.snapshots())
    found = {}
    for segment in log.logs[:-1]:
        paths = [segment.files[kind] for kind in Kind if kind in segment.files]
        if segment.base_offset in snapshots:
            paths.append(snapshots[segment.base_offset])
        try:
            words = [_identity(path) for path in paths]
        except OSError:
            continue  # it is going away, or cannot be looked at: nothing to be remembered
        found[segment.base_offset] = blake2b("|".join(words).encode(), digest_size=8).hexdigest()
    return found


def _identity(path: str) -> str:
    status = places.stat(path)
    name = os.path.basename(path).rpartition(".")[2]
    return f"{name} {status.st_size} {status.st_mtime_ns} {status.st_ino}"


def _json(members: object) -> bytes:
    return json.dumps(members, separators=(",", ":")).encode() + b"\n"


def _line(path: str, segments: dict[int | None, VerifiedSegment]) -> bytes:
    rows = [
        [
            base,
            seen.identity,
            seen.depth,
            seen.verified_s,
            [{**each.fields(), "more": each.more} for each in seen.findings],
        ]
        for base, seen in segments.items()
    ]
    return _json({"path": path, "segments": rows})[:-1]


def _partition(line: bytes) -> tuple[str, dict[int | None, VerifiedSegment]]:
    members = _object(line)
    match members:
        case {"path": str(path), "segments": list(rows)}:
            return path, dict(map(_read_segment, rows))
    raise ValueError("a line has no path or no segments")


def _read_segment(row: object) -> tuple[int | None, VerifiedSegment]:
    match row:
        case [int() | None as base, str(identity), int(depth), int(verified_s), list(found)]:
            return base, VerifiedSegment(identity, depth, verified_s, tuple(map(_finding, found)))
    raise ValueError("a line has a malformed segment")


def _finding(members: object) -> Finding:
    if not isinstance(members, dict) or members.get("code") not in CATALOGUE:
        raise ValueError("a finding in it has an unknown code")
    severity = CATALOGUE[members["code"]].severity
    consequences = members.get("consequences")
    if not isinstance(consequences, list) or not all(isinstance(c, str) for c in consequences):
        raise ValueError("a finding has malformed consequences")
    try:
        return Finding(**{**members, "severity": severity, "consequences": tuple(consequences)})
    except TypeError:
        raise ValueError("a finding has malformed fields") from None


def _object(line: bytes) -> dict[str, Any]:
    try:
        members = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("a line is not JSON") from None
    if not isinstance(members, dict):
        raise ValueError("a line is not a JSON object")  # noqa: TRY004 the file's, not ours
    return members
