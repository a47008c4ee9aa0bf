"""Runs of one leader epoch."""

from builders import batch
from each import each

from kdump import kernels
from kdump.broker.leader_epochs import runs_of_epochs


@each(
    ("epochs", "runs"),
    [
        ((), []),
        ((4,), [(4, 0, 1)]),
        ((4, 4, 4), [(4, 0, 3)]),
        ((4, 5), [(4, 0, 1), (5, 1, 2)]),
        ((4, 4, 5, 4, 4), [(4, 0, 2), (5, 2, 3), (4, 3, 5)]),
        ((-1, -1, 0), [(-1, 0, 2), (0, 2, 3)]),
    ],
)
def test_runs(epochs: tuple[int, ...], runs: list[tuple[int, int, int]]) -> None:
    log = b"".join(batch(base_offset=at, leader_epoch=epoch) for at, epoch in enumerate(epochs))
    rows, _, _ = kernels.walk(bytearray(log), 0, len(log), 0, -1, True, 9)
    assert [*runs_of_epochs(rows)] == runs
