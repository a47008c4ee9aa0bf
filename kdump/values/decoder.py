"""What a module in `kdump/values/decoders/` gives: functions that read the records of a topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kdump.tuples import NamedTuple


class Decoder(NamedTuple):
    """Reads keys and values; none of its functions raises on data.

    `read_key` and `read_value` return what bytes hold in any form; `read_value` is also passed what
    `read_key` returned, None for a null key. `as_json` makes a JSON value of that, or returns bytes
    where they are not decoded; its second argument says whether secrets are shown. `read_control`
    reads the key and the value of a control record; without it they keep their bytes. `redact`
    returns the bytes of a value with the secrets in them as asterisks, None where there are none.
    """

    read_key: Callable[[bytes], Any]
    read_value: Callable[[Any, bytes], Any]
    as_json: Callable[[Any, bool], object]
    read_control: Callable[[bytes | None, bytes | None], tuple[Any, Any]] | None = None
    redact: Callable[[bytes], bytes | None] | None = None
