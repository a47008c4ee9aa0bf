"""Drivers and a data source for Spark. Nothing here reads a byte of a log: the engine does.

`driver` runs a step of the engine over the items of a plan, as `engine/work/pipeline.py` does in
process. `source` lets Spark's own SQL read data directories, and here is a function for each of its
views. Only `source` imports PySpark when it is imported itself, and only Spark imports it.
"""

from kdump.spark.frames import (
    batches,
    commits,
    findings,
    groups,
    index_entries,
    metadata,
    records,
    segments,
    summary,
    transactions,
)

__all__ = [
    "batches",
    "commits",
    "findings",
    "groups",
    "index_entries",
    "metadata",
    "records",
    "segments",
    "summary",
    "transactions",
]
