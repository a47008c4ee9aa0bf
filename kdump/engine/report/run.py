"""Run `report`: the commands that tell a case, one after the other, each as a part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from kdump.engine.report.evidence import Evidence
from kdump.engine.report.options import ReportOptions
from kdump.engine.work.pace import Progress
from kdump.engine.work.pipeline import ONE_BY_ONE, Driver
from kdump.errors import KdumpError, NothingToDo, guard
from kdump.findings.finding import Finding, Severity
from kdump.findings.shell import format_command
from kdump.kernels.text_form import time_text
from kdump.rows.report import ReportPart
from kdump.storage.data_directories import spread_all
from kdump.storage.targets import data_directories

if TYPE_CHECKING:
    from kdump.findings.rows import Row

    Reported = Row | Finding | KdumpError

#: So many places of damage have records shown around them.
_PLACES = 20
_WHOLE = 1 << 62  # no partition is read in pieces: its files are hashed from front to back


def report(
    paths: Iterable[str],
    options: ReportOptions,
    *,
    progress: Progress | None = None,
    driver: Driver = ONE_BY_ONE,
) -> Iterator[Any]:
    """Yield the rows of each part behind a `report-part` row; what stops one leaves the others.

    An error that several parts meet is yielded once. That there are no groups, say, is no error.
    """
    given = list(paths)
    if options.server_properties is not None and not given:
        given = data_directories(options.server_properties)
    met: set[str] = set()
    run = _Report(given, options, progress or Progress(), driver)
    for part, at_ms, words, items in run.parts():
        yield ReportPart(part, at_ms, format_command(("kdump", *words)))
        for item in _until_error(part, items):
            if isinstance(item, KdumpError):
                is_other = isinstance(item, NothingToDo) and part not in ("info", "verify")
                if str(item) in met or is_other:
                    continue
                met.add(str(item))
            yield item


def _until_error(part: str, items: Iterable[Any]) -> Iterator[Any]:
    try:
        yield from guard(f"the part {part}", items)
    except KdumpError as error:
        yield error


Part = tuple[str, int | None, tuple[str, ...], Iterator[Any]]


class _Report:
    def __init__(
        self, paths: list[str], options: ReportOptions, progress: Progress, driver: Driver
    ) -> None:
        self._paths, self._options = paths, options
        self._progress, self._driver = progress, driver
        self._damage: list[Finding] = []

    def parts(self) -> Iterator[Part]:
        """Yield the name of each part, its moment, the command that shows the same, and rows."""
        options = self._options
        yield "info", None, ("info", "--explain"), self._info()
        words = ("predict", *(("--deep",) if options.deep else ()))
        yield "verify", None, words, self._verify()
        yield "why", None, ("why", "--now", time_text(options.now_ms)), self._why()
        ends = [] if options.from_ms is None else [options.from_ms]
        for at_ms in (*ends, None if options.to_ms is None else options.to_ms - 1):
            moment = () if at_ms is None else ("--at", time_text(at_ms))
            yield "cluster", at_ms, ("cluster", *moment), self._cluster(at_ms)
            yield "groups", at_ms, ("groups", *moment), self._groups(at_ms)
        words = ("timeline",)
        for name, time_ms in (("--from", options.from_ms), ("--to", options.to_ms)):
            words += () if time_ms is None else (name, time_text(time_ms))
        yield "timeline", None, words, self._timeline()
        if options.records and self._damage:
            yield "records", None, ("dump",), self._records()

    def _select_options(self, *names: str) -> dict[str, Any]:
        return {name: getattr(self._options, name) for name in ("server_properties", *names)}

    def _info(self) -> Iterator[Reported]:
        from kdump.engine.info.run import InfoOptions, info

        shared = self._select_options("selection", "now_ms")
        yield from info(self._paths, InfoOptions(explain=True, **shared))

    def _verify(self) -> Iterator[Reported]:
        from kdump.engine.verify.options import VerifyOptions
        from kdump.engine.verify.run import verify

        evidence = Evidence(self._driver, hashes=self._options.hashes)
        shared = self._select_options("deep", "decompress_limit", "broker_version")
        selection = self._options.selection._replace(retired=True)
        asked = VerifyOptions(selection=selection, predict=True, volumes=True, **shared)
        found = verify(
            self._paths, asked, progress=self._progress, driver=evidence, split_bytes=_WHOLE
        )
        for item in found:
            yield from evidence.take()
            if isinstance(item, Finding) and item.severity is Severity.DAMAGE:
                is_new = not item.entry.forecast and len(self._damage) < _PLACES
                self._damage += [item] if is_new else []
            yield item
        yield from evidence.take()
        yield from evidence.sum_written()
        yield from evidence.find_others(spread_all(self._paths)[0])

    def _why(self) -> Iterator[Reported]:
        from kdump.engine.why.options import WhyOptions
        from kdump.engine.why.run import why

        shared = self._select_options("now_ms", "selection", "broker_version", "decompress_limit")
        yield from why(self._paths, WhyOptions(**shared))

    def _cluster(self, at_ms: int | None) -> Iterator[Reported]:
        from kdump.engine.cluster.options import ClusterOptions, to_until
        from kdump.engine.cluster.run import cluster

        at = to_until(None if at_ms is None else (None, at_ms))
        shared = self._select_options("selection", "decompress_limit")
        yield from cluster(self._paths, ClusterOptions(at=at, **shared))

    def _groups(self, at_ms: int | None) -> Iterator[Reported]:
        from kdump.engine.groups.options import GroupOptions
        from kdump.engine.groups.run import groups

        shared = self._select_options("selection", "broker_version", "decompress_limit")
        yield from groups(self._paths, GroupOptions(at_ms=at_ms, **shared))

    def _timeline(self) -> Iterator[Reported]:
        from kdump.engine.timeline.options import TimelineOptions
        from kdump.engine.timeline.run import timeline

        shared = self._select_options(
            "selection", "from_ms", "to_ms", "scratch", "decompress_limit"
        )
        yield from timeline(self._paths, TimelineOptions(**shared), driver=self._driver)

    def _records(self) -> Iterator[Reported]:
        """Yield the records before and after each place of damage."""
        from kdump.engine.dump.run import dump
        from kdump.engine.reading.options import DumpOptions
        from kdump.findings.rows import RecordChunk, RecordRow

        most, shown = self._options.records, set[tuple[str, int | None]]()
        for found in self._damage:
            if found.offset is None or (found.path, found.offset) in shown:
                continue
            shown.add((found.path, found.offset))
            after = found.offset if found.next_offset is None else found.next_offset
            for first, end in ((max(0, found.offset - most), found.offset), (after, after + most)):
                asked = DumpOptions(from_offset=first, to_offset=end, limit=most)
                rows: list[Any] = []
                for item in dump([found.path], asked):
                    if isinstance(item, RecordChunk):
                        rows += item.iter_records()
                    elif isinstance(item, RecordRow):
                        rows.append(item)
                yield from islice(rows, most)
