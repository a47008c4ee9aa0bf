"""Decode the topics in which Kafka Connect keeps connectors, their offsets and states."""

from __future__ import annotations

from kdump.values.decoder import Decoder

TOPICS = ("*connect*config*", "*connect*offset*", "*connect*status*")


def decoder(topic: str) -> Decoder:
    """Return the decoder of a topic of Connect's."""
    from kdump.values import connect

    return Decoder(connect.read_key, connect.read_value, connect.as_json, redact=connect.redact)
