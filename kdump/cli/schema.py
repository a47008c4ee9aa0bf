"""`kdump schema`: the kinds of rows, and what each has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from kdump.cli.headings import Command
from kdump.cli.options import PLAIN_FORMATS, output_options, read_output_options

_JSON_SCHEMA = "json-schema"


@click.command(
    cls=Command,
    common="--format --output",
)
@click.argument("kinds", nargs=-1, metavar="[KIND]...")
@output_options((*PLAIN_FORMATS, _JSON_SCHEMA), has_bytes=False, is_wide=True)
def schema(*, kinds: tuple[str, ...], **asked: Any) -> int:
    """Show the row kinds that commands write, or one KIND: fields, types, units, and meaning.

    The fields are those of JSON Lines, in order; the types are those of the columns in Parquet
    and Arrow. --format json-schema writes a JSON Schema.

    \b
    Examples:
        kdump schema
        kdump schema committed-offset
        kdump schema --format json-schema finding > finding.schema.json
    """
    from kdump.cli.reports import SchemaReport
    from kdump.cli.results import Results
    from kdump.cli.run_context import wrong_usage
    from kdump.errors import UsageError
    from kdump.findings.schema import fields_of
    from kdump.rows.schema import SchemaField

    writing = read_output_options(asked, (*PLAIN_FORMATS, _JSON_SCHEMA))
    known = fields_of()
    with wrong_usage():
        for kind in kinds:
            if kind not in known:
                raise UsageError(f"{kind}: unknown row kind; kdump schema lists all kinds")
    wanted = {kind: known[kind] for kind in kinds or known}

    def rows() -> Iterator[SchemaField]:
        for kind, fields in wanted.items():
            for one in fields:
                yield SchemaField(
                    kind,
                    one.name,
                    "string" if one.type == "dictionary" else one.type,
                    one.unit,
                    one.role,
                    one.null,
                    one.omitted,
                    one.doc,
                )

    raise SystemExit(Results(writing, inputs=(), report=SchemaReport(wanted)).take(rows()))
