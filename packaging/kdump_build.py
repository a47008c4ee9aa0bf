"""setuptools' build backend, and the one thing it cannot say: when Cython is needed.

In a git checkout the kernel's C is generated from `_fast.pyx` and the rooms that it includes, so
Cython is asked for. A source distribution (it has PKG-INFO) carries the generated C and builds
without Cython. Not chosen: the generated C in git, where it would go stale, and Cython under
`build-system.requires`, which would ask for it in both places.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from setuptools import build_meta

CYTHON = ["cython>=3.1"]
SOURCE = Path("kdump/kernels/_fast.pyx")
GENERATED = SOURCE.with_suffix(".c")
SOURCE_DISTRIBUTION = Path("PKG-INFO").is_file() and GENERATED.is_file()

Settings = dict[str, Any] | None

build_wheel = build_meta.build_wheel
build_editable = build_meta.build_editable
prepare_metadata_for_build_wheel = build_meta.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = build_meta.prepare_metadata_for_build_editable


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """Ask for Cython unless the generated C came with the sources."""
    return [] if SOURCE_DISTRIBUTION else CYTHON


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    """Ask for Cython unless the generated C came with the sources."""
    return [] if SOURCE_DISTRIBUTION else CYTHON


def get_requires_for_build_sdist(config_settings: Settings = None) -> list[str]:
    """Ask for Cython unless the generated C came with the sources."""
    return [] if SOURCE_DISTRIBUTION else CYTHON


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Generate the C, then pack it with the rest."""
    if not SOURCE_DISTRIBUTION:
        from Cython.Build import cythonize

        cythonize([str(SOURCE)], force=True)
    return str(build_meta.build_sdist(sdist_directory, config_settings))
