"""How a broker stopped, as its data directory tells a start and a lookup."""

from pathlib import Path

import pytest
from each import each

from kdump.broker.log_reader import RefusalError
from kdump.broker.shutdown_state import Stop, stop_for_lookup, stop_of
from kdump.broker.versions import Version
from kdump.record.layout import MAX_INT64
from kdump.storage.local_log import LocalLog
from kdump.storage.log_dir import LogDir

NEW: Version = (4, 1)
MARK = ".kafka_cleanshutdown"


def make_directory(root: Path, name: str = "t-0", **checkpoints: object) -> tuple[LocalLog, LogDir]:
    """Make a data directory with one partition, and checkpoints of an offset each for it."""
    (root / name).mkdir(exist_ok=True)
    for part, given in checkpoints.items():
        text = given if isinstance(given, str) else f"0\n2\nt 0 {given}\nt 1 99\n"
        (root / f"{part.replace('_', '-')}-offset-checkpoint").write_text(text)
    return LocalLog(str(root / name), []), LogDir.open(str(root))


@each(
    ("broker", "point", "start"),
    [(NEW, 5, 3), ((0, 11), 5, 3), ((0, 10, 2), 5, 0), ((0, 8, 1), 5, 0), ((0, 8), MAX_INT64, 0)],
)
def test_offsets_of_the_checkpoints(
    tmp_path: Path, broker: Version, point: int, start: int
) -> None:
    make_directory(tmp_path, recovery_point=5, log_start=3)
    for clean in (False, True):
        if clean:
            (tmp_path / MARK).touch()
        log, around = make_directory(tmp_path)
        assert stop_of(log, around, broker) == Stop(clean, point, start, recovers=True)
        assert stop_for_lookup(log, around, broker) == Stop(clean, point, start, recovers=True)


def test_without_checkpoints(tmp_path: Path) -> None:
    log, around = make_directory(tmp_path)
    assert stop_of(log, around, NEW) == Stop(clean=False)
    assert stop_for_lookup(log, around, NEW) == Stop(clean=True)
    assert stop_of(log, None, NEW) == Stop(clean=False)
    assert stop_for_lookup(log, None, NEW) == Stop(clean=True)
    (tmp_path / MARK).touch()
    log, around = make_directory(tmp_path)
    assert stop_of(log, around, NEW) == Stop(clean=True)
    (tmp_path / MARK).unlink()
    (tmp_path / "meta.properties").touch()
    log, around = make_directory(tmp_path)
    assert stop_for_lookup(log, around, NEW) == Stop(clean=False)


def test_unreadable_checkpoint_is_handled(tmp_path: Path) -> None:
    log, around = make_directory(tmp_path, recovery_point="no checkpoint", log_start="nor this")
    for broker in (NEW, (0, 9)):
        assert stop_of(log, around, broker) == Stop(clean=False)
    with pytest.raises(RefusalError, match="the recovery point checkpoint cannot be read"):
        stop_of(log, around, (0, 8, 2))


def test_special_directories_start_differently(tmp_path: Path) -> None:
    (tmp_path / MARK).touch()
    log, around = make_directory(tmp_path, f"t-0.{'0' * 32}-delete", recovery_point=5)
    assert stop_of(log, around, NEW) == Stop(clean=True, recovery_point=5, recovers=False)
    log, around = make_directory(tmp_path, f"t-0.{'0' * 32}-future")
    assert stop_of(log, around, NEW).recovers
    log, around = make_directory(tmp_path, "__cluster_metadata-0")
    assert stop_of(log, around, NEW) == Stop(clean=False)
    log, around = make_directory(tmp_path, "nothing")
    assert stop_of(log, around, NEW) == Stop(clean=False)
