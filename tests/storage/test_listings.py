"""Read a directory again where files went since it was listed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kdump.errors import PathError
from kdump.storage import places
from kdump.storage.places import read_listed


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "_PAUSE_SECONDS", 0.0)


def failing(times: int, error: Exception) -> Callable[[], int]:
    """Fail so often, then return how often it was called."""
    calls = 0

    def read() -> int:
        nonlocal calls
        calls += 1
        if calls <= times:
            raise error
        return calls

    return read


def test_vanished_files_are_listed_again(tmp_path: Path) -> None:
    gone = PathError(str(tmp_path / "0.log"), "No such file or directory")
    assert read_listed(failing(1, gone), str(tmp_path)) == 2
    assert read_listed(failing(2, FileNotFoundError(2, "gone")), str(tmp_path)) == 3
    with pytest.raises(PathError):
        read_listed(failing(99, gone), str(tmp_path))


def test_other_errors_are_not_listed_again(tmp_path: Path) -> None:
    gone = PathError(str(tmp_path / "0.log"), "No such file or directory")
    with pytest.raises(PathError):
        read_listed(failing(1, gone), str(tmp_path), str(tmp_path / "deleted"))
    with pytest.raises(PathError):
        read_listed(failing(1, PathError(str(tmp_path), "Permission denied")), str(tmp_path))
