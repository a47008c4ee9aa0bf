"""Hold what a report is made of, in bounded memory, as the rows of its parts come."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kdump.errors import KdumpError
from kdump.findings.finding import Finding, Severity
from kdump.findings.rows import RecordRow
from kdump.output.case.pseudonyms import Pseudonyms
from kdump.output.sink import Sink
from kdump.output.tables.timeline import CondensingSink, Line, middle
from kdump.rows import cluster as of_cluster
from kdump.rows.groups import CommittedOffset, Group, Member
from kdump.rows.info import DatingEvidence, Directory, Hint, TopicSummary
from kdump.rows.report import EvidenceFile, ReportPart, Written
from kdump.rows.timeline import ClockSkew, Event
from kdump.rows.verify import NodeStart, Recovery, VerifySummary
from kdump.rows.why import PinnedSegments, TopicSpace, WhySummary
from kdump.storage import names, places
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.output.report import Result

MOST_ROWS = 500
_FILES, _LINES, _EVENTS, _DAMAGE = 3000, 20_000, 500, 2000
_ISR = re.compile(r"ISR ([\d,]+|none) to ([\d,]+|none)")
_PLACE = re.compile(r"(\S+)-\d+ (?:at|back) ")
_AT_HOST = re.compile(r" at /?([^)\s]+)\)")
#: Rows that a part shows as they are, some of each kind.
_KEPT = (
    *(Directory, TopicSummary, Hint, DatingEvidence, NodeStart, VerifySummary, TopicSpace),
    *(WhySummary, PinnedSegments, Group, CommittedOffset, ClockSkew, Written),
    *(of_cluster.Broker, of_cluster.ClusterSummary),
)
_GRAVE = frozenset(
    "start-unclean stop commit-back transaction-hangs time-jump topic-delete delete damage".split()
)


class DirectoryFiles(NamedTuple):
    """The files of one directory together: `sha256` is that of the lines of `sha256sum`."""

    path: str
    files: int
    size_bytes: int
    modified_ms: int
    sha256: str | None


class Part:
    """What one part of a report came to."""

    def __init__(self, row: ReportPart) -> None:
        self.row = row
        self.rows: dict[type, list[Any]] = {}
        self.counts: Counter[str] = Counter()
        self.problems: dict[str, None] = {}

    def keep(self, row: Any, most: int = MOST_ROWS) -> None:
        """Keep a row, unless there are many of its kind."""
        self.counts[row.row] += 1
        rows = self.rows.setdefault(type(row), [])
        if len(rows) < most:
            rows.append(row)

    def of(self, kind: Any) -> list[Any]:
        """Return the rows of a kind that were kept."""
        return self.rows.get(kind, [])


class _Lines(Sink):
    """Takes the lines of a timeline."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.left_out = 0

    def write(self, item: Any) -> None:
        """Keep a line while there is room."""
        if len(self.lines) < _LINES:
            self.lines.append(item)
        else:
            self.left_out += 1


class Case:
    """What was found, part by part."""

    def __init__(self, paths: Sequence[str], *, redacted: bool) -> None:
        self.paths = paths
        self.names = Pseudonyms(paths) if redacted else None
        self.parts: list[Part] = []
        self.damage: list[Finding] = []
        self.findings: Counter[tuple[str, str]] = Counter()
        self.recoveries: list[Recovery] = []
        self.copies: dict[tuple[str, int], list[tuple[str, int]]] = {}
        self.starts: dict[str, int] = {}  # directory -> base offset of the first segment
        self.hurt: dict[str, list[tuple[int, int]]] = {}  # directory -> offsets that are damaged
        self.files: list[EvidenceFile] = []
        self.directories: list[DirectoryFiles] = []
        self.files_count = self.files_bytes = 0
        self._sums: dict[str, tuple[int, int, int, Any]] = {}
        self.records: list[RecordRow] = []
        self.out_of_sync: list[tuple[int, int]] = []
        self._behind: dict[str, int] = {}
        self.events: list[Event] = []
        self.timeline = _Lines()
        self.condensed = CondensingSink(self.timeline, detail=False)

    def hide(self, text: str) -> str:
        """Replace names in a text where that is asked for."""
        return text if self.names is None else self.names.hide(text)

    def part(self, name: str) -> list[Part]:
        """Return the parts of a name, in the order of their moments."""
        return [part for part in self.parts if part.row.part == name]

    def rows(self, name: str, kind: Any) -> list[Any]:
        """Return the rows of a kind that the parts of a name have."""
        return [row for part in self.part(name) for row in part.of(kind)]

    def add(self, item: Result) -> None:
        """Take what comes next."""
        if isinstance(item, ReportPart):
            self.parts.append(Part(item))
            return
        if not self.parts:
            return
        part = self.parts[-1]
        if isinstance(item, KdumpError):
            part.problems[str(item)] = None
        elif isinstance(item, Finding):
            self._finding(part, item)
        elif isinstance(item, EvidenceFile):
            self._file(item)
        elif isinstance(item, Event):
            self._event(item)
        elif isinstance(item, Recovery):
            self._recovery(item)
        elif isinstance(item, of_cluster.Partition):
            self._partition(part, item)
        elif isinstance(item, RecordRow):
            self.records.append(item)
        elif isinstance(item, _KEPT):
            part.keep(item, 4 * MOST_ROWS)
        elif row := getattr(item, "row", ""):
            part.counts[str(row)] += 1
        if self.names is not None:
            self._name(self.names, item)

    def end(self) -> None:
        """Close what was held back."""
        self.condensed.finish()
        for path, (count, size, modified, digest) in sorted(self._sums.items()):
            sha256 = None if digest is None else digest.hexdigest()
            self.directories.append(DirectoryFiles(path, count, size, modified, sha256))

    def _finding(self, part: Part, found: Finding) -> None:
        if part.row.part != "verify":
            part.problems[f"{found.message} ({found.path})"] = None
            return
        self.findings[found.severity.value, found.code] += 1 + found.more
        if found.severity is Severity.NOTE:
            return
        if len(self.damage) < _DAMAGE or found.urgency[1]:
            self.damage.append(found)
        if found.offset is not None and not found.entry.forecast:
            end = found.offset + 1 if found.next_offset is None else found.next_offset
            self.hurt.setdefault(_directory(found), []).append((found.offset, end))

    def _file(self, row: EvidenceFile) -> None:
        """Keep files while they are few; of many only what their directory comes to."""
        self.files_count += 1
        self.files_bytes += row.size_bytes or 0
        if len(self.files) <= _FILES:
            self.files.append(row)
        directory, name = places.parent(row.path), names.parse(places.file_name(row.path))
        if name.kind is names.Kind.LOG and name.base_offset is not None and not name.is_retired:
            base = self.starts.get(directory, name.base_offset)
            self.starts[directory] = min(base, name.base_offset)
        count, size, modified, digest = self._sums.get(directory, (0, 0, 0, hashlib.sha256()))
        if row.sha256 is None:
            digest = None
        elif digest is not None:
            line = f"{row.sha256}  {places.file_name(row.path)}\n"
            digest.update(line.encode("utf-8", "surrogateescape"))
        totals = size + (row.size_bytes or 0), max(modified, row.modified_ms or 0)
        self._sums[directory] = (count + 1, *totals, digest)

    @property
    def has_all_files(self) -> bool:
        """Whether each file is listed by itself."""
        return self.files_count <= _FILES

    def _event(self, event: Event) -> None:
        self.condensed.write(event)
        at_ms = middle(event)
        if is_grave(event.what, event.text) and len(self.events) < _EVENTS:
            self.events.append(event)
        if event.what == "topic-delete":
            for name in [one for one in self._behind if one.startswith(f"{event.subject}-")]:
                del self._behind[name]
        elif event.what != "isr" or not (match := _ISR.search(event.text)):
            return
        else:
            before, after = (0 if one == "none" else one.count(",") + 1 for one in match.groups())
            behind = self._behind.get(event.subject, 0) + before - after
            self._behind[event.subject] = max(behind, 0)
        if at_ms is not None:
            self.out_of_sync.append((at_ms, sum(self._behind.values())))
            if len(self.out_of_sync) > _LINES:
                del self.out_of_sync[1::2]

    def _recovery(self, row: Recovery) -> None:
        end = None if row.outcome == "delete-segments" else row.log_end_before
        if None not in (row.topic, row.partition, row.path, end):
            place = str(row.topic), row.partition or 0
            self.copies.setdefault(place, []).append((str(row.path), end or 0))
        ordinary = row.outcome in ("clean", "recover", "delete-segments") and row.records_lost == 0
        if not (ordinary and not row.unserved) and len(self.recoveries) < MOST_ROWS:
            self.recoveries.append(row)

    def _partition(self, part: Part, row: of_cluster.Partition) -> None:
        part.counts["partition"] += 1
        missing = set(row.replicas or ()) - set(row.isr or ())
        if row.leader == -1:
            part.counts["without leader"] += 1
        if missing:
            part.counts["under-replicated"] += 1
        if missing or row.leader == -1:
            part.keep(row)

    def _name(self, names: Pseudonyms, item: Any) -> None:
        names.add("topic", getattr(item, "topic", None))
        if isinstance(item, (Group, CommittedOffset, Member)):
            names.add("group", item.group)
        if isinstance(item, Member):
            names.add("host", item.client_host.removeprefix("/"))
        elif isinstance(item, (of_cluster.Broker, of_cluster.Controller)):
            for one in item.endpoints or ():
                names.add("host", one.get("host"))
        elif isinstance(item, of_cluster.ScramUser):
            names.add("principal", item.name)
        elif isinstance(item, of_cluster.Acl):
            names.add("principal", item.principal.partition(":")[2])
            names.add("host", None if item.host == "*" else item.host)
        elif isinstance(item, of_cluster.Quota):
            for kind, name in item.entity.items():
                names.add("host" if kind == "ip" else "principal", name)
        elif isinstance(item, Event):
            self._name_event(names, item)

    def _name_event(self, names: Pseudonyms, event: Event) -> None:
        what = event.what
        if what in ("member", "rebalance", "group-empty") or what.startswith("commit"):
            names.add("group", event.subject)
        elif what.startswith("tier-"):
            names.add("topic", event.subject.rpartition("-")[0])
        elif what.startswith("topic-"):
            names.add("topic", event.subject)
        elif what.startswith("transaction-") and event.clock != "leader":
            names.add("principal", event.subject)
        elif what in ("acl", "user", "quota", "token"):
            names.add("principal", event.subject.rpartition(":")[2])
        for match in _PLACE.finditer(event.text if what.startswith("commit") else ""):
            names.add("topic", match[1])
        for match in _AT_HOST.finditer(event.text if what == "member" else ""):
            names.add("host", match[1])


def is_grave(what: str, text: str) -> bool:
    """Whether an event is among those that explain an incident."""
    return what in _GRAVE or (what == "leader" and ("no leader" in text or "unclean" in text))


def _directory(found: Finding) -> str:
    name = f"{found.topic}-{found.partition}"
    is_directory = places.file_name(found.path).startswith(name)
    return found.path if is_directory else places.parent(found.path)
