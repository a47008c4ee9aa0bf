"""Find the decoder of a topic among the modules of `kdump/values/decoders/`."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kdump.values import decoders

if TYPE_CHECKING:
    from kdump.values.decoder import Decoder


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
