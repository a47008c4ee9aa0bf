"""The decoders of keys and values, a module for each kind of topic.

A module has `TOPICS`, names of topics or patterns as in a shell, and `decoder(topic)`, which
returns the `Decoder` of a topic that matches, or None. `kdump/values/decoder.py` finds every
module that is here, and imports all of them for a dump; so `decoder` imports what takes time.
"""
