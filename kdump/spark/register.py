"""Register the data source in a session, so that a Python without kdump says so.

Spark finds `kdump` by itself where the Python that PYSPARK_PYTHON names has it. Where that one has
not, Spark knows no such format, and says no more; nor does it on an executor. What is registered
here travels by value, and knows at least why it cannot go on.
"""

from __future__ import annotations

from typing import Any


def register(spark: Any) -> None:
    """Make `format("kdump")` known to a session, whatever Python its workers are."""
    spark.dataSource.register(_source())


def _source() -> Any:
    """Return the class of the source. Made here, it is sent as code and not as a name."""
    import pickle

    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    def unpacked(packed: bytes) -> Any:
        try:
            import kdump.spark.source  # noqa: F401
        except ImportError as error:
            import socket
            import sys

            raise ImportError(
                f"{sys.executable} on {socket.gethostname()} has no kdump ({error}): install it "
                "there, or set PYSPARK_PYTHON to a Python that has it before the session starts"
            ) from None
        return pickle.loads(packed)

    class Packed(InputPartition):
        """What one task reads; the name of its class means nothing where kdump is not."""

    class Reader(DataSourceReader):
        """Unpacks the reader where it is to read."""

        def __init__(self, packed: bytes) -> None:
            self._packed = packed

        def partitions(self) -> Any:
            return [Packed(pickle.dumps(one)) for one in unpacked(self._packed).partitions()]

        def read(self, partition: Any) -> Any:
            reader = unpacked(self._packed)
            return reader.read(partition.value and unpacked(partition.value))

    class Source(DataSource):
        """Stands in for the source until it is known to be there."""

        @classmethod
        def name(cls) -> str:
            return "kdump"

        def _real(self) -> Any:
            of_source = b"ckdump.spark.source\nKdumpSource\n."  # the class, by its name
            return unpacked(of_source)(self.options)

        def schema(self) -> Any:
            return self._real().schema()

        def reader(self, schema: Any) -> Any:
            return Reader(pickle.dumps(self._real().reader(schema)))

        def writer(self, schema: Any, overwrite: bool) -> Any:
            return self._real().writer(schema, overwrite)

        def streamReader(self, schema: Any) -> Any:
            return self._real().streamReader(schema)

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:
            return self._real().streamWriter(schema, overwrite)

    return Source
