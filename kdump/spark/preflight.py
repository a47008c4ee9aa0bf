"""Check before any work that the executors have this kdump, and the files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from kdump import __version__
from kdump.errors import KdumpError
from kdump.output.process_tuning import KERNEL
from kdump.spark.errors import host_of, one_line
from kdump.spark.session import Session
from kdump.storage import places

#: Paths that each executor is asked about: some of the plan's, from its start to its end.
_SAMPLE = 64
_ANSWER = (
    "host string, version string, kernel string, path string, missing string, other string, "
    "code string"
)


class ExecutorError(KdumpError):
    """An executor cannot do the work; its host is named."""

    status = 5


def preflight(session: Session, paths: Sequence[str]) -> None:
    """Refuse, naming the host, where an executor has another kdump or does not see the files.

    Asked by one job of as many tasks as the cluster has slots. Spark decides where they run, so a
    host may be passed over; a task that lands there later says the same of its own file.
    """
    step = max(1, len(paths) // _SAMPLE)
    sizes = {path: _size(path) for path in (*paths[::step], *paths[-1:])}
    probe = _probe_of([*sizes.items()])
    try:
        slots = session.range(1 << 20).mapInArrow(probe, _ANSWER)
        answers = slots.collect()
    except Exception as error:  # Spark's, gRPC's and Py4J's have no base in common
        raise ExecutorError(_explain_failure(error)) from None
    code = code_digest()
    for answer in sorted(answers, key=lambda answer: str(answer["host"])):
        host = answer["host"]
        if answer["version"] is None:
            raise ExecutorError(
                f"executor on {host}: kdump cannot be imported there ({answer['other']}); install "
                f"kdump {__version__} on every executor, or send an environment that has it"
            )
        if answer["version"] != __version__:
            raise ExecutorError(
                f"executor on {host} has kdump {answer['version']}, but this is {__version__}: "
                "install the same version everywhere"
            )
        if answer["code"] != code:
            raise ExecutorError(
                f"executor on {host} has kdump {__version__} with different code: install the "
                "same build on every executor"
            )
        if KERNEL == "compiled" != answer["kernel"]:
            raise ExecutorError(
                f"executor on {host} has no compiled kernel, which is many times slower"
            )
        path = answer["path"]
        # Not there, or cut short, on this machine too: no host's fault, and the run will say so.
        if path is not None and sizes[path] is not None and _size(path) == sizes[path]:
            raise ExecutorError(f"executor on {host}: {path}: {answer['missing']}")


def _explain_failure(error: BaseException) -> str:
    """Say why there is no answer. Of what a worker lacks Spark tells, of where it is not."""
    host, why = host_of(error), one_line(error)
    if "ModuleNotFoundError" in why:
        why += (
            " (without PYSPARK_PYTHON and --archive, executors use the python3 on their own PATH)"
        )
    return (
        f"executor on {host} cannot run Python: {why}" if host else f"no executor responds: {why}"
    )


def _size(path: str) -> int | None:
    """The size of a file, 0 for a directory; None for what this machine does not see either."""
    try:
        return places.getsize(path) if places.isfile(path) else 0 if places.isdir(path) else None
    except (KdumpError, OSError, ValueError):
        return None


def code_digest() -> str:
    """Tell one build of a version from another by all modules of Python that it has."""
    import hashlib

    digest = hashlib.sha256()
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in sorted(files):
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                digest.update(os.path.relpath(path, root).encode() + b"\0")
                with open(path, "rb") as file:
                    digest.update(file.read() + b"\0")
    return digest.hexdigest()


def _probe_of(asked: list[tuple[str, int | None]]) -> Any:
    """Return the probe. It is sent by value: where kdump is not installed, it must still answer."""

    def probe(batches: Iterator[Any]) -> Iterator[Any]:
        import os
        import socket
        import time

        import pyarrow as pa

        for _ in batches:
            pass
        time.sleep(0.2)  # so that the next task is not for this executor too
        found: str | None = None
        kernel = at = missing = other = code = found
        try:
            from kdump import __version__
            from kdump.output.process_tuning import KERNEL

            found, kernel = __version__, KERNEL

            from kdump.spark.preflight import code_digest

            code = code_digest()
        except Exception as error:
            other = f"{type(error).__name__}: {error}"
        for path, size in asked:
            try:
                if "://" not in path:
                    there = os.stat(path).st_size
                elif found is None:
                    continue
                else:
                    from kdump.storage.places import getsize

                    there = getsize(path)
            except Exception as error:
                at, missing = path, getattr(error, "strerror", None) or str(error)
                break
            if size is not None and there < size:
                at, missing = path, f"has {there} bytes there, and {size} here"
                break
        row = [socket.gethostname(), found, kernel, at, missing, other, code]
        names = ["host", "version", "kernel", "path", "missing", "other", "code"]
        yield pa.RecordBatch.from_arrays([pa.array([value], pa.string()) for value in row], names)

    return probe
