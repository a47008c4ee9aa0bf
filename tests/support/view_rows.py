"""The rows of a view of Spark's, planned and read here as tasks do it, without Spark."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from kdump.engine.reading.options import DumpOptions
from kdump.spark import replays
from kdump.spark.request import Request
from kdump.spark.schema import columns_of
from kdump.spark.scope import EVERYTHING, ClosedSegments, Scope
from kdump.spark.views import plan_tasks, rows_of


def view_rows(
    view: str,
    paths: Sequence[Path],
    options: Any = None,
    scope: Scope | ClosedSegments = EVERYTHING,
    pack_bytes: int = 1 << 20,
    columns: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Give the rows of a view, with all columns or some."""
    pytest.importorskip("pyarrow")
    from kdump.spark.schema import arrow_schema

    if options is None:
        mode = "batches" if view == "batches" else "records"
        in_replay = view in replays.VIEWS
        options = replays.options_of(view, {}) if in_replay else DumpOptions(mode=mode)
    known = columns_of(view)
    schema = arrow_schema({name: known[name] for name in columns or known})
    request = Request(view, [str(path) for path in paths], options, pack_bytes, scope)
    batches = (rows_of(request, pieces, schema) for pieces in plan_tasks(request))
    return [row for batch in chain.from_iterable(batches) for row in batch.to_pylist()]
