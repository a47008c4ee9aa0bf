"""A dump says of a leader epoch that it cannot be right, as verify does."""

from pathlib import Path

import builders
from each import each
from producing import data, run_checks, write_log

from kdump.engine.dump.run import dump
from kdump.engine.reading.options import DumpOptions
from kdump.findings.finding import Finding


def run_check(path: Path, **options: object) -> list[Finding]:
    items = dump([str(path)], DumpOptions(**options))  # type: ignore[arg-type]
    return [item for item in items if isinstance(item, Finding)]


def write(parent: Path, *of_batches: int) -> Path:
    batches = [data(base, leader_epoch=epoch) for base, epoch in enumerate(of_batches)]
    path = write_log(parent, {0: batches})
    (path / "leader-epoch-checkpoint").unlink(missing_ok=True)
    return path


@each(
    ("of_batches", "odd"),
    [
        ((0, 0, 7, 0, 0), [2]),
        ((5, 5, 1, 5, 5), [2]),
        ((3, 3, 9, 4, 4), [2]),
        ((0, 9, 0, 9, 0, 0), [1, 3]),
        ((7, 0, 0), [0]),
        ((0, 0, 1, 2, 2), []),
        ((0, 0, 1, 1), []),
        ((-1, -1, 0, 0), []),
        ((0, 1, 2, 3), []),
    ],
)
def test_epochs_contradicted_by_neighbors(
    tmp_path: Path, of_batches: tuple[int, ...], odd: list[int]
) -> None:
    path = write(tmp_path, *of_batches)
    found = run_check(path)
    assert [(one.code, one.offset) for one in found] == [("leader-epoch-odd", at) for at in odd]
    assert found == [one for one in run_checks(path) if one.code == "leader-epoch-odd"]
    assert found == run_check(path, mode="batches")


def test_only_for_selected_batches(tmp_path: Path) -> None:
    path = write(tmp_path, 0, 0, 7, 0, 0)
    assert [one.offset for one in run_check(path, from_offset=2, limit=1)] == [2]
    assert run_check(path, from_offset=3) == []
    assert run_check(path, to_offset=2) == []


def test_epochs_are_watched_across_blocks(tmp_path: Path) -> None:
    """The batch behind may be read much later than the one it speaks against."""
    records = [builders.record(value=b"v" * 700_000)]
    batches = [
        builders.batch(records, base_offset=base, leader_epoch=epoch)
        for base, epoch in enumerate((4, 9, 4))
    ]
    path = write_log(tmp_path, {0: batches})
    assert [one.offset for one in run_check(path)] == [1]
