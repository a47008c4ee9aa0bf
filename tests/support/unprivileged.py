"""Runs of the command line that modes of files bind, also where a superuser runs the tests."""

import ctypes
import os
import sys
from subprocess import CompletedProcess

import forked
import pytest

_VERSION = 0x20080522  # of the structures that capset(2) takes: two sets of 32 capabilities
_MODES_DO_NOT_BIND = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH


def run_unprivileged(*args: object) -> "CompletedProcess[str]":
    """Run a command that modes of files bind, as they do not bind a superuser."""
    is_superuser = not os.geteuid()
    if is_superuser and sys.platform != "linux":
        pytest.skip("no capabilities here")
    words = [str(one) for one in args]
    done = forked.run(*words, before=_give_up if is_superuser else None)
    return CompletedProcess(words, done.returncode, done.stdout.decode(), done.stderr.decode())


def _give_up() -> None:
    """Drop what a superuser may do besides what modes allow."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; twice
    if libc.capget(header, sets):
        raise OSError(ctypes.get_errno(), "capget")
    for number in range(3):
        sets[number] &= ~_MODES_DO_NOT_BIND
    if libc.capset(header, sets):
        raise OSError(ctypes.get_errno(), "capset")
