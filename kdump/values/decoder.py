"""What a module in `kdump/values/decoders/` gives for a topic, and which of them has it."""

from __future__ import annotations

import os
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kdump.tuples import NamedTuple
from kdump.values import decoders

if TYPE_CHECKING:
    from kdump.kernels._pure.messages import Write


class Decoder(NamedTuple):
    """Reads keys and values; none of its functions raises on data.

    `read_key` and `read_value` return what bytes hold in any form; `read_value` is also passed what
    `read_key` returned, None for a null key. `as_json` makes a JSON value of that, or returns bytes
    where they are not decoded; its second argument says whether secrets are shown. `read_control`
    reads the key and the value of a control record; without it they keep their bytes. `redact`
    returns the bytes of a value with the secrets in them as asterisks, None where there are none.
    `write` is the kernel's way to write many records as JSON, to the same text.
    `inner_key` returns the bytes of a key within a key, which may be written by a schema, and the
    JSON value that stands for it.
    """

    read_key: Callable[[bytes], Any]
    read_value: Callable[[Any, bytes], Any]
    as_json: Callable[[Any, bool], object]
    read_control: Callable[[bytes | None, bytes | None], tuple[Any, Any]] | None = None
    redact: Callable[[bytes], bytes | None] | None = None
    write: Write | None = None
    inner_key: Callable[[bytes], tuple[bytes, object] | None] | None = None


@cache
def decoder_of(topic: str) -> Decoder | None:
    """Return the decoder of a topic, of several the first by the name of its module."""
    for module in _modules():
        if any(fnmatchcase(topic, pattern) for pattern in module.TOPICS):
            found: Decoder | None = module.decoder(topic)
            if found is not None:
                return found
    return None


@cache
def _modules() -> list[Any]:
    """Import the modules of decoders, in the order of their names."""
    try:
        files = os.listdir(decoders.__path__[0])
        names = {file.partition(".")[0] for file in files if file.endswith((".py", ".pyc"))}
    except NotADirectoryError:  # in a zip, as Spark may hand a package around
        from pkgutil import iter_modules

        names = {module.name for module in iter_modules(decoders.__path__)}
    return [import_module(f"{decoders.__name__}.{name}") for name in sorted(names - {"__init__"})]
