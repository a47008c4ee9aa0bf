"""`kdump report`: one page for a postmortem."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import (
    FROM_1,
    REPORT_FORMATS,
    TIME,
    scratch_option,
    shared_options,
    version_option,
)
from kdump.cli.run_context import wrong_usage
from kdump.errors import UsageError
from kdump.output.report import Report

if TYPE_CHECKING:
    from kdump.cli.run_context import OutputSpec
    from kdump.output.case.case import Case
    from kdump.output.report import Page, Result
    from kdump.output.sink import Sink

_CONTENTS = under("Contents")
_TITLE = "Kafka incident report"


class CaseReport(Report):
    """Makes a page of the rows and findings of a run."""

    has_findings = True

    has_summary = True
    has_rows = False

    def __init__(self, case: Case, title: str, now_ms: int, command: str) -> None:
        self._case = case
        self._about = title, now_ms, command

    def sink(self, form: str, page: Page) -> Sink:
        """Return what writes the page when all rows have come."""
        from kdump.output.case.page import CasePage

        return CasePage(page.write, self._case, form, *self._about)

    def takes(self, item: Result) -> bool:
        """Take up an item, of which a page is made at the end."""
        self._case.add(item)
        return False


@click.command(
    cls=Command,
    common="--output --title --from --to --redact --records --no-hashes --format",
)
@_CONTENTS("--title", default=_TITLE, metavar="TEXT", help="Title of the page.")
@_CONTENTS(
    "--from",
    "from_ms",
    type=TIME,
    help="Start the timeline here, and also show the state of the cluster at this time.",
)
@_CONTENTS(
    "--to",
    "to_ms",
    type=TIME,
    help="End the timeline before this time, and show the state of the cluster then.",
)
@_CONTENTS("--deep", help="Decompress and check every record, too.")
@_CONTENTS("--no-hashes", help="List the files without their SHA-256.")
@_CONTENTS(
    "--records",
    type=FROM_1,
    help="Show this many records before and after damage, with keys and values.",
)
@_CONTENTS(
    "--redact",
    help="Replace paths and the names of topics, groups, hosts, and principals with pseudonyms.",
)
@_CONTENTS(
    "--now",
    "now_ms",
    type=TIME,
    default="now",
    help="Time for which retention is evaluated, and date of the page. Default: now.",
)
@version_option(_CONTENTS, "Version of the broker whose next start is predicted.")
@scratch_option(_CONTENTS, on_spark=False)
@shared_options(REPORT_FORMATS, on_spark=False, is_wide=False)
def report(
    paths: tuple[str, ...],
    *,
    writing: OutputSpec,
    title: str,
    redact: bool,
    no_hashes: bool,
    records: int | None,
    **asked: Any,
) -> int:
    """Write one page with everything found: loss, causes, timeline, plots, and the evidence.

    The page contains a summary; damage and loss; what the next start does; the timeline; the state
    of the cluster and its groups at --to (and at --from, if given); disk usage; plots; the commands
    that show the same data; what was not checked; and the files that were read, with their SHA-256.
    Each log is read only once, both to verify and to hash it.

    The HTML has no script and loads nothing. Keys and values are included only with --records. The
    same files with the same --now give the same page, byte for byte.

    --format html and markdown write the page; the other formats write its rows, for example the
    list of files.

    \b
    Examples:
        kdump report --output case.html /data/broker1 /data/broker2 /data/broker3
        kdump report --redact --title 'Case 4711' --output vendor.html /data/broker*
        kdump report --from 03:00 --to 03:30 --output night.md /data/broker*
        kdump report --format csv --rows evidence-file /data/broker1
    """
    from kdump.cli.reports import InfoReport, again
    from kdump.cli.results import run_plan
    from kdump.output.case.case import Case
    from kdump.output.forms import form_of_name
    from kdump.stores.uris import find_given_path

    with wrong_usage():
        if redact and records:
            raise UsageError("--redact and --records exclude each other")
        from_ms, to_ms = asked["from_ms"], asked["to_ms"]
        if None not in (from_ms, to_ms) and from_ms >= to_ms:
            raise UsageError("--from must be before --to")
    if writing.form is None:
        named = None if writing.output is None else form_of_name(writing.output)
        writing = writing._replace(form=named or "html")
    is_page = writing.form in ("html", "markdown") and writing.rows is None
    if redact and not is_page:
        raise click.UsageError("--redact requires --format html or markdown")
    asked |= {"writing": writing, "hashes": not no_hashes, "records": records or 0}
    if not is_page:
        return run_plan("report", paths, asked, report=lambda options: InfoReport())
    case = Case([find_given_path(path) for path in paths], redacted=redact)
    page = CaseReport(case, title, asked["now_ms"], _without_output(again()))
    return run_plan("report", paths, asked, report=lambda options: page)


def _without_output(command: str) -> str:
    """Leave out what says where the page goes, which it does not depend on."""
    from kdump.findings.shell import format_command, words_of

    left = []
    words = iter(words_of(command))
    for word in words:
        if word in ("-o", "--output", "-j", "--jobs", "--scratch"):
            next(words, None)
        elif not word.startswith(("--output=", "--jobs=", "--scratch=")) and word != "--force":
            left.append(word)
    return format_command(left)
