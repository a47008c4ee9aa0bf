"""Decode the topics in which Kafka keeps its own state, by Kafka's message specifications.

`{"type": …, "version": …, "data": {…}}`, with the field names of the specifications. Bytes among
the fields are base64, as in Kafka's own JSON. What is not known keeps its bytes: `problem` says
why, and `trailing` are the bytes after the last field. Secrets are masked.
"""

from __future__ import annotations

import math
from binascii import b2a_base64
from functools import partial
from typing import TYPE_CHECKING, Any

from kdump.values.decoder import Decoder

if TYPE_CHECKING:
    from kdump.messages.records import DecodedValue

TOPICS = ("__*",)
_AS_IT_IS = frozenset((int, str, bool, type(None)))


def decoder(topic: str) -> Decoder | None:
    """Return the decoder of one of Kafka's internal topics."""
    from kdump.messages.consumer_protocol import OPENED_TYPES, open_value
    from kdump.messages.records import CLUSTER_METADATA, decode_control, decoders, writer
    from kdump.messages.records import TOPICS as KNOWN
    from kdump.messages.secrets import SECRET_TYPES, blot_fields, mask

    if topic not in KNOWN:
        return None

    def opened_members(value: DecodedValue, secrets: bool) -> object:
        return members(open_value(value))

    def masked_members(value: DecodedValue, secrets: bool) -> object:
        return members(value if secrets else mask(value))

    if topic != CLUSTER_METADATA:
        write = writer(topic, OPENED_TYPES if KNOWN[topic] == "group" else ())
        return Decoder(*decoders(topic), opened_members, decode_control, None, write)
    redact = partial(blot_fields, is_sure=True)
    write = writer(topic, SECRET_TYPES)
    return Decoder(*decoders(topic), masked_members, decode_control, redact, write)


def members(shown: DecodedValue) -> dict[str, object]:
    """Return the JSON object for a key or a value."""
    found: dict[str, object] = {"type": shown.type or "unknown"}
    if shown.type is None and shown.type_id is not None:
        found["type_id"] = shown.type_id
    if shown.version is not None:
        found["version"] = shown.version
    if shown.data is not None:
        found["data"] = _plain(shown.data)
        if shown.rest:
            found["trailing"] = _plain(shown.rest)
    else:
        found["problem"] = shown.problem
        found["bytes"] = _plain(shown.rest)
    return found


def _plain(held: Any) -> Any:
    """Return a value as JSON can hold it; what it can is not copied."""
    if isinstance(held, dict):
        for inner in held.values():
            if type(inner) not in _AS_IT_IS:
                return {name: _plain(inner) for name, inner in held.items()}
        return held
    if isinstance(held, list):
        return [_plain(inner) for inner in held]
    if isinstance(held, bytes):
        return b2a_base64(held, newline=False).decode("ascii")
    if isinstance(held, float) and not math.isfinite(held):
        return "NaN" if math.isnan(held) else "Infinity" if held > 0 else "-Infinity"
    return held
