"""What keys and values hold: decoded by topic or by schema, and with secrets masked.

`decoder.py` finds the decoder of a topic among the modules of `decoders/`; `schemas/` decodes what
was written by a schema; `decoded_values.py` puts what these return into chunks of records, in the
place of the bytes; `secrets.py` hides secrets in bytes. The engine does this before it filters and
yields records, so that filters, every format, Spark and the library see the same.
"""
