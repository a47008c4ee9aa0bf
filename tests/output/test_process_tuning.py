"""How a process is tuned for bulk work."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("pyarrow")
PREPARE = "from kdump.output.process_tuning import prepare_for_bulk; prepare_for_bulk()"
SHOW = "print(pyarrow.default_memory_pool().backend_name)"


def allocator(*lines: str, **environment: str) -> str:
    """Return the name of PyArrow's allocator in a process that runs the lines."""
    variables = {name: text for name, text in os.environ.items() if not name.startswith("ARROW_")}
    done = subprocess.run(
        [sys.executable, "-c", "\n".join((*lines, SHOW))],
        env=variables | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize("lines", [(PREPARE, "import pyarrow"), ("import pyarrow", PREPARE)])
def test_arrow_allocates_as_the_rest_of_the_process(lines: tuple[str, str]) -> None:
    assert allocator("import pyarrow") != "system"
    assert allocator(*lines) == "system"


def test_allocator_of_the_environment_is_kept() -> None:
    other = allocator("import pyarrow")
    assert allocator(PREPARE, "import pyarrow", ARROW_DEFAULT_MEMORY_POOL=other) == other
