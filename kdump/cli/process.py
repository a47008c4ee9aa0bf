"""Set up a run as a process: standard files, signals that end it, and its exit."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

#: What ends a run as Ctrl-C does: a service manager, and the terminal that goes away.
_ENDING = ("SIGTERM", "SIGHUP")
#: How long a finalizer has to end before an interrupt that it dropped is raised once more.
_SOON_SECONDS = 0.001


def fill_standard_files() -> None:
    """Put something in the place of standard files that are closed.

    The next file to be opened would be taken for one of them. What is written to it fails, as it
    does where the file is closed.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if number else os.O_WRONLY)  # the lowest that is free
        if number and getattr(sys, name) is None:
            setattr(sys, name, open(number, "w", closefd=False))  # noqa: SIM115


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let a signal end the run as Ctrl-C does, so that nothing unfinished is left behind.

    A signal that this process has to ignore, as by nohup, is ignored; a second one does not
    disturb the end. Python drops an exception that a finalizer raises, the interrupt too where it
    comes just then: it is raised once more.
    """
    process = os.getpid()

    def end(number: int, frame: object) -> None:
        if os.getpid() != process:  # a worker just forked; its parent ends it
            os._exit(1)
        signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    def again(dropped: sys.UnraisableHookArgs) -> None:
        if dropped.exc_type is not KeyboardInterrupt:
            hook(dropped)
            return
        # Not at once: it would be raised in here, and dropped as well.
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, _SOON_SECONDS)

    hook = sys.unraisablehook
    before = {}
    for name in _ENDING:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            with suppress(ValueError):  # not the main thread: signals are someone else's business
                before[number] = signal.signal(number, end)
    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


def tell(text: str) -> None:
    """Write a line to standard error, if that takes one."""
    from kdump.output.escape import silence, visible

    try:
        print(visible(text), file=sys.stderr, flush=True)
    except OSError:
        silence(sys.stderr)


def leave_quietly() -> None:
    """See to it that the flush at exit cannot fail once more, where something went wrong."""
    from kdump.output.escape import silence

    silence(sys.stdout)
    silence(sys.stderr)
