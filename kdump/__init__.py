"""kdump reads Kafka data directories as they lie on disk, sound or damaged, and never changes them.

Data flows one way: bytes, frames, batches, records (`record`); files, segments, partitions, data
directories (`storage`); questions asked of them (`engine`); rows and findings made visible
(`output`); the command line (`cli`) and the library (`api`, whose names are those below). Nothing
is imported here before it is asked for, so that each start pays only for what it uses.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kdump.api.data import Data, Partition, dataset, open, scan_polars
    from kdump.api.schema import schema
    from kdump.errors import KdumpError
    from kdump.findings.finding import Finding, Severity
    from kdump.findings.rows import BatchRow, DecodedRow, RecordRow
    from kdump.rows.declarations import Field
    from kdump.rows.row import Row

__version__ = "0.1.0"
#: Where the names of the library are.
_MODULES = {
    "BatchRow": "findings.rows",
    "Data": "api.data",
    "DecodedRow": "findings.rows",
    "Field": "rows.declarations",
    "Finding": "findings.finding",
    "KdumpError": "errors",
    "Partition": "api.data",
    "RecordRow": "findings.rows",
    "Row": "rows.row",
    "Severity": "findings.finding",
    "dataset": "api.data",
    "open": "api.data",
    "scan_polars": "api.data",
    "schema": "api.schema",
}
__all__ = [
    "BatchRow",
    "Data",
    "DecodedRow",
    "Field",
    "Finding",
    "KdumpError",
    "Partition",
    "RecordRow",
    "Row",
    "Severity",
    "__version__",
    "dataset",
    "open",
    "scan_polars",
    "schema",
]


if not TYPE_CHECKING:  # type checkers then report an unknown name

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        found: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = found
        return found
