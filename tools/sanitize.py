"""Run Python on a kernel with the address and undefined-behavior sanitizers of gcc in it.

    python tools/sanitize.py -m pytest -q -n0 tests/kernels tests/record
    PYTHONPATH=tools:tests/support python tools/sanitize.py -m fuzz.campaign --seed 7 --count 1000

The first undefined or out-of-bounds access ends the process with a report. Everything takes several
times longer and more memory, so the bounds of the campaign are not held (KDUMP_SANITIZED), and
those of a test may fail. KDUMP_SANITIZED_KERNEL names a directory that keeps what was built.
"""

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
FLAGS = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"
LIBRARIES = ("libasan.so", "libubsan.so", "libstdc++.so.6")
#: Python frees little at its end; crashes are what counts. Memory that is too much is refused.
ASAN = "detect_leaks=0:allocator_may_return_null=1:detect_stack_use_after_return=0:abort_on_error=1"


def build(directory: Path) -> None:
    """Put a package with such a kernel into a directory."""
    flags = os.environ | {"CFLAGS": FLAGS, "LDFLAGS": "-fsanitize=address,undefined"}
    words = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", directory, CHECKOUT]
    subprocess.run(words, check=True, env=flags)
    (wheel,) = directory.glob("kdump-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(directory)


def libraries() -> list[str]:
    """Give what must be loaded before Python."""
    return [
        subprocess.check_output(["gcc", f"-print-file-name={name}"], text=True).strip()
        for name in LIBRARIES
    ]


def main() -> int:
    """Build it unless that was done, and run Python with the arguments."""
    with tempfile.TemporaryDirectory(prefix="kdump-sanitized-") as scratch:
        directory = Path(os.environ.get("KDUMP_SANITIZED_KERNEL", scratch))
        if not (directory / "kdump").is_dir():
            build(directory)
        path = filter(None, (str(directory), os.environ.get("PYTHONPATH")))
        environment = os.environ | {
            "KDUMP_SANITIZED": "1",
            "PYTHONPATH": os.pathsep.join(path),
            "PYTHONSAFEPATH": "1",  # the package of the checkout would be found first
            "PYTHONMALLOC": "malloc",
            "LD_PRELOAD": os.pathsep.join(libraries()),
            "ASAN_OPTIONS": ASAN,
            "UBSAN_OPTIONS": "print_stacktrace=1:abort_on_error=1",
        }
        return subprocess.run(
            [sys.executable, *sys.argv[1:]], env=environment, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
