"""Files that are not of this machine: object stores, HDFS, whatever pyarrow or fsspec can open.

    s3://bucket/prefix/orders-0        gs://bucket/..     abfss://container@account/..
    hdfs://namenode:8020/backup/..     file:///mnt/..     by pyarrow.fs
    webhdfs://host:9870/..             memory://..        by fsspec, and all else that it knows

One interface of three questions (`status`, `entries`, `open`) and ranged reads. Nothing is written
here, and nothing of a store is imported before a URI is met. Names are taken as they are: no
percent signs are decoded. Where a store is and who asks (endpoint, region, credentials) is said by
its environment, so that executors of Spark can have their own.

A store that does not answer says nothing about the bytes it holds. So only what it says for certain
(not there, not allowed, no file) is an OSError, which readers may take for a fact; all else is a
`StoreError`, which ends the work at hand.
"""
