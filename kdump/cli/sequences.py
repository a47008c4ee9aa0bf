"""`kdump sequences`: gaps and repeats in what producers sent."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kdump.cli.headings import Command, under
from kdump.cli.options import ISOLATION, Read, scratch_option, shared_options
from kdump.errors import UsageError
from kdump.option_values import read_duration

if TYPE_CHECKING:
    from kdump.cli.run_context import Engine, Writing

_LISTED = under("What is listed")
_DUPLICATES = under("Duplicates")
_WORDS = ("key", "value")
_HEADER = "header:"


class Compared(NamedTuple):
    """What of records is compared: words, and the name of a header where that is one."""

    by: tuple[str, ...]
    header: bytes | None


class Within(NamedTuple):
    """How far a copy may lie behind the one before."""

    within_ms: int | None = None
    within_records: int | None = None


def read_compared(text: str) -> Compared:
    """Read key, value, key,value or header:NAME."""
    if text.startswith(_HEADER) and len(text) > len(_HEADER):
        return Compared(("header",), os.fsencode(text[len(_HEADER) :]))
    given = [word.strip() for word in text.split(",")]
    if set(given) - set(_WORDS):
        raise ValueError("is none of key, value, key,value and header:NAME")
    return Compared(tuple(word for word in _WORDS if word in given), None)


def read_within(text: str) -> Within:
    """Read a length of time, as in 10m, or a number of records, as in '1000 records'."""
    if match := re.fullmatch(r"\s*(\d{1,18})\s*records?\s*", text):
        return Within(within_records=int(match[1]))
    try:
        return Within(within_ms=round(read_duration(text) * 1000))
    except ValueError:
        raise ValueError("is neither a length of time, as in 10m, nor '1000 records'") from None


@click.command(cls=Command)
@_LISTED(
    "--explained", help="Rows also for what has an innocent explanation; else it is only counted."
)
@_DUPLICATES(
    "--duplicates-by",
    type=Read("what", read_compared),
    help="Find records that say the same, whoever sent them, by key, value, key,value or "
    "header:NAME.",
)
@_DUPLICATES(
    "--within",
    type=Read("distance", read_within),
    help="Only copies so near the one before: 10m by their times, '1000 records' by offsets.",
)
@_DUPLICATES("--visible", help="Only what a consumer would be handed, as in dump.")
@_DUPLICATES(
    "--isolation",
    type=ISOLATION,
    default="read_uncommitted",
    help="read_committed (which implies --visible): no aborted data either.",
)
@scratch_option(_DUPLICATES)
@shared_options(has_bytes=True)
def sequences(
    paths: tuple[str, ...],
    *,
    explained: bool,
    duplicates_by: Compared | None,
    within: Within | None,
    visible: bool,
    isolation: str,
    scratch: str | None,
    engine: Engine,
    writing: Writing,
    **asked: Any,
) -> int:
    """Follow the sequence numbers of idempotent and transactional producers through the partitions
    under PATHS, and say where numbers are missing and where they come a second time.

    Only headers of batches are read. A gap is one where numbers are missing and offsets are not;
    where both are, the cleaner took something (or a segment is gone: verify tells). A producer
    that was idle for producer.id.expiration.ms (a day, unless --server-properties says otherwise)
    may have been forgotten by the broker and may go on at any number. An epoch begins at 0, and so
    does a producer in a log that is whole from offset 0 on. Elsewhere what came before the first
    batch of a producer cannot be judged, nor what lies around damage.

    A retry by another producer, or a topic that was replayed, has numbers of its own.
    --duplicates-by reads all records instead, and lists those of a topic that say the same, on
    whatever partition they lie, with place, time and producer of each copy. It is exact and takes
    memory for none of them: what is compared is sorted in scratch files, about as large.

    Gaps, repeats and duplicates are notes, as in verify: the exit status is 3 when there are any
    and --fail-on is note, or when there is damage on the way.

    \b
    Examples:
        kdump sequences /var/lib/kafka
        kdump sequences --fail-on note --topic 'payments*' -j 4 /var/lib/kafka
        kdump sequences --duplicates-by key,value --within 10m --topic payments /var/lib/kafka
    """
    from kdump.cli.results import run_plan
    from kdump.cli.run_context import wrong_usage

    if duplicates_by is None:
        from kdump.engine.sequences.run import SequenceOptions
        from kdump.engine.sequences.run import sequences as follow

        with wrong_usage():
            if within or visible or scratch or isolation != "read_uncommitted":
                raise UsageError(
                    "--within, --visible, --isolation and --scratch go with --duplicates-by"
                )
        asked.pop("decompress_limit")  # nothing is decompressed
        options = SequenceOptions(explained=explained, **asked)
        return run_plan(follow, paths, options, engine=engine, writing=writing)
    from kdump.engine.duplicates.entries import DuplicateOptions
    from kdump.engine.duplicates.run import duplicates

    with wrong_usage():
        if explained:
            raise UsageError("--explained and --duplicates-by exclude each other")
    of_records = DuplicateOptions(
        **duplicates_by._asdict(),
        **(within or Within())._asdict(),
        visible=visible or isolation == "read_committed",
        isolation=isolation,
        scratch=scratch,
        **asked,
    )
    return run_plan(
        duplicates, paths, of_records, engine=engine, writing=writing, unit="piece", decodes=True
    )
