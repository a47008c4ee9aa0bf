"""Runs of the command line that modes of files bind, also where a superuser runs the tests."""

import os
import shutil
import subprocess
import sys

import pytest

_WITHOUT = "-dac_override,-dac_read_search"
_BOUND = (f"--bounding-set={_WITHOUT}", f"--inh-caps={_WITHOUT}")


def unprivileged(*args: object) -> "subprocess.CompletedProcess[str]":
    """Run a command that modes of files bind, as they do not bind a superuser."""
    command = [sys.executable, "-m", "kdump", *map(str, args)]
    if not os.geteuid():
        if shutil.which("setpriv") is None:
            pytest.skip("no setpriv here")
        command = ["setpriv", *_BOUND, *command]
    return subprocess.run(command, capture_output=True, text=True, check=False)
