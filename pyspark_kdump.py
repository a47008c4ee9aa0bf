"""Lets Spark find the data source `kdump`: it looks into every top-level module `pyspark_*`."""

from kdump.spark.source import KdumpSource


class DefaultSource(KdumpSource):
    """`spark.read.format("kdump")`."""
