"""Messages that Kafka writes into its internal topics and files, read by table.

`tables.json` has the facts of Kafka's message specifications: names of fields, types, versions,
tags, what may be null, defaults. `tools/message_tables.py` makes it from the jars of a
server. `table.py` is the interpreter, over the encodings in `wire.py`; `records.py` says which
message the key and the value of a record hold; `consumer_protocol.py` opens what members of classic
groups say, and `secrets.py` masks what must not be shown.

    message("OffsetCommitValue").read(4, data)        {"offset": 5, "leaderEpoch": -1, ...}
    decode("__consumer_offsets", key, value)          (Decoded, Decoded), or None for null
"""
