"""The forms that results are written in, each in one line: what sets it apart, and its sink.

A new form is a module with a sink and a line here; options, `--output`, the filters of rows and the
manual follow from it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.output.sink import Sink


class Place(NamedTuple):
    """Where a sink writes, and how: `file` where it is one, with the path that errors name."""

    write: Callable[[bytes], object]
    file: BinaryIO | None
    path: str
    #: A terminal that a person reads.
    terminal: TextIO | None
    #: How bytes are written, as `output/values.py` numbers it.
    mode: int
    #: What is said on standard error.
    tell: Callable[[str], object]
    csv_safe: bool = False
    wide: bool = False
    #: Records are the rows, and headers stand for batches that cannot be read.
    records: bool = False
    #: Keys and values may be decoded, and Arrow has columns for that.
    decode: bool = False


class Form(NamedTuple):
    """A form: how to make its sink, and what a file of it is called at its end.

    `one_kind`: a reader of it takes rows of one kind; `binary`: only a file can have it.
    """

    make: Callable[[str, Place], Sink]
    suffix: str
    one_kind: bool = False
    binary: bool = False


def _table(form: str, place: Place) -> Sink:
    import sys

    from kdump.output.table import Table

    among = place.records
    file = place.terminal or sys.stdout
    return Table(place.write, file, place.mode, headers_among_records=among, wide=place.wide)


def _json_lines(form: str, place: Place) -> Sink:
    from kdump.output.jsonl import JsonLines

    return JsonLines(place.write, place.mode)


def _csv(form: str, place: Place) -> Sink:
    from kdump.output.delimited import DelimitedSink

    terminal = place.terminal is not None
    return DelimitedSink(place.write, place.mode, terminal=terminal, safe=place.csv_safe)


def _markdown(form: str, place: Place) -> Sink:
    from kdump.output.markdown import Markdown

    return Markdown(place.write, place.mode)


def _arrow(form: str, place: Place) -> Sink:
    from kdump.output.arrow import arrow_sink

    assert place.file is not None
    return arrow_sink(form, place.file, place.path, decode=place.decode)


def _kafka(form: str, place: Place) -> Sink:
    from kdump.output.kafka_text import KafkaText

    return KafkaText(place.write, place.tell, terminal=place.terminal is not None)


FORMS: dict[str, Form] = {
    "table": Form(_table, ".txt"),
    "jsonl": Form(_json_lines, ".jsonl"),
    "csv": Form(_csv, ".csv", one_kind=True),
    "markdown": Form(_markdown, ".md"),
    "parquet": Form(_arrow, ".parquet", one_kind=True, binary=True),
    "arrow": Form(_arrow, ".arrow", one_kind=True, binary=True),
}
#: What the output of Kafka's own tool is like; only records have it.
FORMS_OF_DUMP = FORMS | {"kafka": Form(_kafka, ".txt")}


def form_of_name(path: str) -> str | None:
    """Return the form that a file's name ends like; None: like that of none."""
    suffix = path[path.rfind(".") :]
    return next((form for form, of in FORMS.items() if of.suffix == suffix != ".txt"), None)


def make_sink(form: str, place: Place) -> Any:
    """Import and make the sink of a form; each is paid for only where it is used."""
    return FORMS_OF_DUMP[form].make(form, place)
