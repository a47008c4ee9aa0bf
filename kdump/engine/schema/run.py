"""Give the members of every kind of row, records and batches too."""

from __future__ import annotations

from collections.abc import Mapping

from kdump.findings.schema import BATCH, MARKS, PRE08, RECORD
from kdump.rows.declared import Field, kinds, members


def fields_of() -> Mapping[str, tuple[Field, ...]]:
    """Return the members of each kind by its name, the bulk of `dump` first."""
    of_some = tuple(one._replace(omitted=True) for one in (*PRE08, *MARKS))
    bulk = {"record": (*RECORD, *of_some), "batch": BATCH}
    return bulk | {name: members(kind) for name, kind in kinds().items()}
