"""Keys and values written by a schema: a registry's topic, and what reads by each kind of schema.

`registry.py` replays the topic in which a registry keeps its schemas; `avro.py`, `protobuf.py` with
`wire.py` and `json_document.py` make of a schema what reads bytes; `framed_values.py` says for each
side of a topic which schema it was written by. Imported only where values are decoded.
"""
