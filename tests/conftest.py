"""Fixtures for all tests."""

import gc
import importlib
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import ModuleType

import pytest
from corpus import find_shared
from each import most_cases
from file_order import PendingOnly, put_longest_first, send_less
from memory_folder import is_in_memory, memory_folder, remove
from xdist.remote import Producer

from kdump import kernels
from kdump.errors import TRACEBACK

# A defect fails the test that meets it, in every process; it is no finding among others.
os.environ[TRACEBACK] = "1"

# The disk is not waited for: no test sees what a loss of power leaves behind.
os.fsync = lambda fd: None  # type: ignore[assignment]

#: What no kernel decides is not asked once more of the pure one.
collect_ignore = (
    [
        *("client", "manuals", "spark", "cli/test_process.py"),
        *("test_architecture.py", "test_pyproject.py", "test_writing.py"),
    ]
    if "KDUMP_PURE" in os.environ
    else []
)


def pytest_configure(config: pytest.Config) -> None:
    """Let processes share what Python compiled, also where nothing of it may lie in the checkout.

    Without that, each kdump that a test starts compiles all of it once more: half of its time.
    Where tests run side by side without recorded directories, their files lie in memory; with `-n0`
    they stay to be looked at.
    """
    config.option.loadscopereorder = False  # the order is our own
    if hasattr(config, "workerinput"):
        return
    if sys.dont_write_bytecode:
        folder = tempfile.TemporaryDirectory(prefix="kdump-tests-")
        config.add_cleanup(folder.cleanup)
        del os.environ["PYTHONDONTWRITEBYTECODE"]
        os.environ["PYTHONPYCACHEPREFIX"] = folder.name
    is_told_where = "TMPDIR" in os.environ or config.option.basetemp
    is_small = config.getoption("numprocesses", 0) and find_shared() is None  # no corpora to unpack
    if is_small and not is_told_where and (made := memory_folder()):
        in_memory, end = made
        config.add_cleanup(end)
        os.environ["TMPDIR"] = tempfile.tempdir = str(in_memory)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Rewrite this worker's share of the assertions, so that each worker finds the others' done.

    Each collects all tests, and nearly all of that time goes into rewriting them the first time.
    """
    ours = getattr(session.config, "workerinput", None)
    if ours is None:
        return
    wants_all = session.config.option.xmlpath or session.config.option.durations
    for plugin in session.config.pluginmanager.get_plugins() if not wants_all else ():
        if type(plugin).__name__ == "WorkerInteractor":
            send_less(plugin)
    number, count = int(ours["workerid"].removeprefix("gw")), ours["workercount"]
    try:
        from _pytest.assertion import rewrite

        state = session.config.stash[rewrite.assertstate_key]
        for file in sorted(Path(__file__).parent.rglob("test_*.py"))[number::count]:
            cache = rewrite.get_cache_dir(file)
            made = cache / (file.stem + rewrite.PYC_TAIL)
            if rewrite._read_pyc(file, made) is None and rewrite.try_makedirs(cache):
                source, code = rewrite._rewrite_test(file, session.config)
                rewrite._write_pyc(state, code, source, made)
    except (AttributeError, TypeError, SyntaxError):
        return  # another release of pytest; what is no Python is reported when it is collected


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what brokers and their code are asked, for the same reason, and most cases.

    That the kernels do the same is what their own tests are for.
    """
    if hasattr(config, "workerinput"):
        put_longest_first(items)
    if "KDUMP_PURE" not in os.environ:
        return
    seen = Counter[tuple[Path, str]]()
    kept, left_out = [], []
    for item in items:
        if item.get_closest_marker("broker") or item.get_closest_marker("oracle"):
            item.add_marker(pytest.mark.skip(reason="brokers are not asked of both kernels"))
        name = item.path, getattr(item, "originalname", item.name)
        seen[name] += 1
        is_kept = seen[name] <= most_cases(item.path)
        (kept if is_kept else left_out).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def pytest_collection_finish() -> None:
    """Keep the collected tests out of each later look for what refers to itself.

    There are so many that a look takes as long as a few tests.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Take one worker more than there are processors where tests wait for brokers."""
    if find_shared() is None or config.option.usepdb or not hasattr(os, "sched_getaffinity"):
        return None
    return len(os.sched_getaffinity(0)) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> PendingOnly:
    """Distribute by file, whatever --dist says."""
    return PendingOnly(config, log)


@pytest.fixture(scope="module")
def folder_of_module(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Path, Iterator[int]]]:
    """Keep the folders of a module's tests by themselves: each is numbered after a look at all."""
    folder = tmp_path_factory.mktemp("module")
    yield folder, count()
    if is_in_memory(folder):
        remove(folder)


@pytest.fixture
def tmp_path(folder_of_module: tuple[Path, Iterator[int]]) -> Path:
    """Lie so deep that the data directories of other tests are beside none of this one's.

    kdump looks beside a data directory for others of its node (`metadata_log_for`).
    """
    folder, numbers = folder_of_module
    deep = folder / str(next(numbers)) / "in" / "its" / "own"
    deep.mkdir(parents=True)
    return deep


@pytest.fixture
def disk_path(tmp_path: Path) -> Iterator[Path]:
    """Lie on a file system that tells which bytes wait for no device; one in memory does not."""
    for place in (tmp_path, Path("/var/tmp")):
        with tempfile.TemporaryDirectory(prefix="kdump-tests-", dir=place) as name:
            folder = Path(name)
            (folder / "asked").write_bytes(b"x")
            with (folder / "asked").open("rb") as file:
                try:
                    os.preadv(file.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT)
                except (AttributeError, OSError):
                    continue
            yield folder
            return
    pytest.skip("no file system here tells which bytes wait for no device")


@pytest.fixture(scope="module", autouse=True)
def forget_stores() -> Iterator[None]:
    """Leave no store open for the tests of another module: workers would not be forked there."""
    yield
    if (opening := sys.modules.get("kdump.stores.opening")) is not None:
        opening._open.clear()


@pytest.fixture(params=["pure", "compiled"])
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    """Give each twin in turn; the compiled one only where it was built."""
    if request.param == "compiled":
        try:
            importlib.import_module("kdump.kernels._fast")
        except ImportError:
            pytest.skip("the compiled kernel is not built")
    module, name = kernels.pick(request.param == "pure")
    assert name == request.param
    return module
