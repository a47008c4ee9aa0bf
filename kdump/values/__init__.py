"""What keys and values hold: decoded by topic, and with secrets masked.

`registry.py` finds the decoder of a topic among the modules of `decoders/`; `shown.py` puts what it
returns into chunks of records, in the place of the bytes; `secrets.py` hides secrets in bytes. The
engine does this before it filters and yields records, so that filters, every format, Spark and the
library see the same.
"""
