"""Drivers and a data source for Spark. Nothing here reads a byte of a log: the engine does.

`driver` runs a step of the engine over the items of a plan, as `engine/work/pipeline.py` does in
process. `source` lets Spark's own SQL read data directories. Only `source` imports PySpark when it
is imported itself, and only Spark imports it.
"""
