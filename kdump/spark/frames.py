"""The views of the data source as functions, for those who write Python.

    import kdump.spark
    kdump.spark.records(spark, "/mnt/brokers/*/data", topic="orders*", fromOffset=48_301_220)

Options have the names of the data source (`kdump-spark(7)`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Paths = str | Sequence[str]
Value = str | int | bool | Mapping[str, Mapping[str, int]]


def records(spark: SparkSession, paths: Paths, **options: Value) -> DataFrame:
    """Read the records of logs."""
    return _read(spark, "records", paths, options)


def batches(spark: SparkSession, paths: Paths, **options: Value) -> DataFrame:
    """Read the headers of batches; nothing is decompressed."""
    return _read(spark, "batches", paths, options)


def index_entries(spark: SparkSession, paths: Paths, **options: Value) -> DataFrame:
    """Read the entries of offset and time indexes."""
    return _read(spark, "index-entries", paths, options)


def segments(spark: SparkSession, paths: Paths, **options: Value) -> DataFrame:
    """List segments with their sizes and times; no log is read."""
    return _read(spark, "segments", paths, options)


def findings(spark: SparkSession, paths: Paths, **options: Value) -> DataFrame:
    """Verify partitions, data directories, nodes, and replicas, as `kdump verify` does."""
    return _read(spark, "findings", paths, options)


def summary(spark: SparkSession, paths: Paths, **options: Value) -> DataFrame:
    """Verify partitions, and sum up for each what was read, found, and passed over."""
    return _read(spark, "summary", paths, options)


def groups(spark: SparkSession, paths: Paths, **options: Value) -> DataFrame:
    """Replay consumer groups, members, and committed offsets."""
    return _read(spark, "groups", paths, options)


def commits(spark: SparkSession, paths: Paths, **options: Value) -> DataFrame:
    """Replay the changes of committed offsets."""
    return _read(spark, "commits", paths, options)


def transactions(spark: SparkSession, paths: Paths, **options: Value) -> DataFrame:
    """Replay transactions."""
    return _read(spark, "transactions", paths, options)


def metadata(spark: SparkSession, paths: Paths, **options: Value) -> DataFrame:
    """Replay the metadata of clusters."""
    return _read(spark, "metadata", paths, options)


def _read(spark: SparkSession, view: str, paths: Paths, options: Mapping[str, Value]) -> DataFrame:
    """Read a view."""
    reader = spark.read.format("kdump").option("view", view)
    for name, value in options.items():
        reader = reader.option(name, json.dumps(value) if isinstance(value, Mapping) else value)
    return reader.load(paths if isinstance(paths, str) else list(paths))
