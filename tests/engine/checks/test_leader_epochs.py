"""Leader epochs of batches, among themselves and against the checkpoint."""

from pathlib import Path

import builders
import damage
import pytest
from each import each
from producing import codes, data, epochs, log_of, run_checks, write_log
from segments import partition_of

from kdump.engine.checks.leader_epochs import LeaderEpochs
from kdump.engine.reading.check import Conditional, RestsOn
from kdump.engine.reading.scan import scan
from kdump.findings.finding import Finding


def write(parent: Path, *of_batches: int, checkpoint: str | None = None) -> Path:
    """Write batches of one offset each with these epochs, and the checkpoint."""
    batches = [data(base, leader_epoch=epoch) for base, epoch in enumerate(of_batches)]
    path = write_log(parent, {0: batches})
    if checkpoint is not None:
        (path / "leader-epoch-checkpoint").write_text(checkpoint)
    return path


def only(path: Path) -> Finding:
    (found,) = run_checks(path)
    return found


@each(
    ("of_batches", "entries"),
    [
        ((0, 0, 0), [(0, 0)]),
        ((0, 1, 1, 4), [(0, 0), (1, 1), (4, 3)]),
        ((0, 0, 3, 3), [(0, 0), (3, 2)]),  # an epoch without a record
        ((2, 2, 3, 3), [(2, 1), (3, 2)]),  # trimmed at the log start
        ((2, 2, 3, 3), [(3, 2)]),
        ((2, 2, 3, 3), [(3, 3)]),
        ((5, 5), [(5, 0), (6, 90)]),  # a stale entry beyond the log end
        ((5, 5), [(5, 0), (6, 2)]),  # a leader that wrote nothing yet
        ((-1, -1), []),
    ],
)
def test_matching_checkpoint_is_sound(
    tmp_path: Path, of_batches: tuple[int, ...], entries: list[tuple[int, int]]
) -> None:
    assert codes(write(tmp_path, *of_batches, checkpoint=epochs(*entries))) == []


@each(
    ("entries", "code", "expected"),
    [
        ([(0, 0), (1, 1), (4, 5)], "leader-epochs-start", "epoch 0 at offset 1"),
        ([(0, 0), (1, 3), (4, 5)], "leader-epochs-start", "epoch 1 at offset 2"),
        ([(0, 0), (1, 2), (4, 4)], "leader-epochs-start", "epoch 1 at offset 4"),
        ([(0, 0), (4, 5)], "leader-epochs-missing", "epoch 1 at offset 2"),
        ([(0, 0), (1, 2)], "leader-epochs-missing", "epoch 4 at offset 5"),
        ([(0, 0), (1, 2), (3, 4), (4, 5)], "leader-epochs-start", "epoch 1 at offset 4"),
        ([], "leader-epochs-missing", "epoch 4 at offset 5"),
    ],
)
def test_checkpoint_must_match_the_log(
    tmp_path: Path, entries: list[tuple[int, int]], code: str, expected: str
) -> None:
    path = write(tmp_path, 0, 0, 1, 1, 1, 4, 4, checkpoint=epochs(*entries))
    found = only(path)
    assert (found.code, found.expected) == (code, expected)
    assert found.severity.value == "rebuild"
    assert found.path == str(path / "leader-epoch-checkpoint")


def test_log_truncated_to_its_start(tmp_path: Path) -> None:
    """All that is left lies below it, and the checkpoint has no entry."""
    path = write_log(tmp_path, {0: [data(0), data(1)]}, log_start=2)
    (path / "leader-epoch-checkpoint").write_text(epochs())
    assert codes(path) == []
    write_log(tmp_path, {0: [data(0), data(1)]}, log_start=1)
    (path / "leader-epoch-checkpoint").write_text(epochs())
    assert codes(path) == ["leader-epochs-missing"]


def test_completely_wrong_file_has_one_finding(tmp_path: Path) -> None:
    found = only(write(tmp_path, 2, 2, 3, 3, 5, 5, checkpoint=epochs((7, 0), (9, 2))))
    assert found.code == "leader-epochs-missing"
    assert "2 more epochs are wrong" in found.message


def test_missing_checkpoint_is_reported(tmp_path: Path) -> None:
    path = write(tmp_path, 0, 0)
    (path / "leader-epoch-checkpoint").unlink()
    assert codes(path) == []  # a log may have been copied away alone
    (path / "partition.metadata").write_text("version: 0\ntopic_id: nr8MK1zTQBOXGgbVmb82Iw\n")
    found = only(path)
    assert (found.code, found.path) == (
        "leader-epochs-missing",
        str(path / "leader-epoch-checkpoint"),
    )
    assert "there is no checkpoint" in found.message


def test_checkpoint_deleted_while_reading_is_not_compared(tmp_path: Path) -> None:
    path = write(tmp_path, 0, 0)
    partition = partition_of(path)
    (path / "leader-epoch-checkpoint").unlink()
    assert not list(scan(partition, [LeaderEpochs(partition)]))
    assert not partition.errors


def test_epoch_without_a_record_between_offsets_that_are_missing(tmp_path: Path) -> None:
    path = write_log(tmp_path, {0: [data(0), data(1), data(9, leader_epoch=3)]})
    (path / "leader-epoch-checkpoint").write_text(epochs((0, 0), (1, 4), (3, 7)))
    assert codes(path) == []


def test_old_formats_have_no_epochs(tmp_path: Path) -> None:
    """An append of an old format clears it (V28)."""
    old = [builders.message(0), data(1), builders.message(2, magic=0)]
    path = write_log(tmp_path, {0: old})
    (path / "leader-epoch-checkpoint").unlink()
    assert codes(path) == []


def test_directory_being_deleted_has_an_empty_checkpoint(tmp_path: Path) -> None:
    path = write(tmp_path, 0, 0, checkpoint=epochs())
    assert codes(path) == ["leader-epochs-missing"]
    path.rename(tmp_path / f"orders-7.{'0' * 32}-delete")
    assert codes(tmp_path / f"orders-7.{'0' * 32}-delete") == []


@each("text", ["", "0\n", "0\n1\n0\n", "0\n1\n0 -1\n", "1\n0\n", "0\n2\n0 0\n"])
def test_malformed_checkpoint_is_reported(tmp_path: Path, text: str) -> None:
    """An empty file is one without entries."""
    found = only(write(tmp_path, 0, 0, checkpoint=text))
    assert found.code == ("checkpoint-malformed" if text else "leader-epochs-missing")


def test_several_malformed_lines_have_one_finding(tmp_path: Path) -> None:
    found = only(write(tmp_path, 0, 0, checkpoint="0\n3\nx\ny\nz\n"))
    assert found.code == "checkpoint-malformed"
    assert found.message.endswith("The same in 2 more places.")


def test_entries_out_of_order_are_reported(tmp_path: Path) -> None:
    found = only(write(tmp_path, 0, 0, 1, checkpoint=epochs((1, 2), (0, 0))))
    assert (found.code, found.expected, found.actual) == (
        "leader-epochs-order",
        "2 entries",
        "1 entries",
    )


@each(
    ("of_batches", "entries", "odd"),
    [
        ((5, 5, 9, 5, 5), [(5, 0)], 2),
        ((5, 5, 1, 5, 5), [(5, 0)], 2),
        ((5, 5, 9, 7, 7), [(5, 0), (7, 3)], 2),
        ((5, 5, 1, 7, 7), [(5, 0), (7, 3)], 2),
        ((5, 5, 6, 7, 7), [(5, 0), (7, 3)], 2),  # fits, but the checkpoint knows no 6
        ((5, 5, 5, 1), [(5, 0)], 3),
        ((5, 5, 5, 261), [(5, 0)], 3),
        ((9, 5, 5, 5), [(5, 0)], 0),
        ((1, 5, 5, 5), [(5, 0)], 0),
        ((5, 5, -7, 5), [(5, 0)], 2),
        ((5, 6, 5), [(5, 0)], 1),
    ],
)
def test_one_batch_of_another_epoch(
    tmp_path: Path, of_batches: tuple[int, ...], entries: list[tuple[int, int]], odd: int
) -> None:
    path = write(tmp_path, *of_batches, checkpoint=epochs(*entries))
    found = only(path)
    assert (found.code, found.severity.value) == ("leader-epoch-odd", "damage")
    size = len(data(0))
    assert (found.path, found.position, found.size_bytes, found.offset) == (
        str(log_of(path, 0)),
        odd * size,
        size,
        odd,
    )
    assert (found.expected, found.actual) in ((5, of_batches[odd]), (7, of_batches[odd]))


@pytest.mark.parametrize("of_batches", [(5, 5, 9, 5, 5), (5, 5, 5, 1), (5, 5, -7, 5)])
def test_one_batch_of_another_epoch_without_a_checkpoint(
    tmp_path: Path, of_batches: tuple[int, ...]
) -> None:
    path = write(tmp_path, *of_batches)
    (path / "leader-epoch-checkpoint").unlink()
    assert codes(path)[0] == "leader-epoch-odd"


def test_epoch_around_an_odd_batch_is_one_span(tmp_path: Path) -> None:
    """The checkpoint, which lacks it, is wrong once, over all of its offsets."""
    path = write(tmp_path, 5, 5, 9, 5, 5, checkpoint=epochs((3, 0)))
    odd, missing = run_checks(path)
    assert (odd.code, odd.offset) == ("leader-epoch-odd", 2)
    assert missing.code == "leader-epochs-missing"
    assert missing.message == (
        "Leader epoch 5 has batches at offsets 0-4, but the checkpoint has epoch 3 there instead."
    )


def test_new_epoch_of_one_batch(tmp_path: Path) -> None:
    """Each epoch of the log is in the checkpoint: nothing is odd."""
    assert codes(write(tmp_path, 5, 6, 7, checkpoint=epochs((5, 0), (6, 1), (7, 2)))) == []


def test_falling_epochs_are_reported(tmp_path: Path) -> None:
    path = write(tmp_path, 5, 5, 3, 3, checkpoint=epochs((5, 0)))
    codes_found = codes(path)
    assert codes_found[0] == "leader-epoch-falls"


def test_epoch_may_end_in_the_next_segment(tmp_path: Path) -> None:
    path = write_log(
        tmp_path,
        {0: [data(0)], 1: [data(1), *(data(base, leader_epoch=5) for base in (2, 3))]},
    )
    (path / "leader-epoch-checkpoint").write_text(epochs((0, 0), (5, 2)))
    assert codes(path) == []
    (path / "leader-epoch-checkpoint").write_text(epochs((0, 0), (5, 1)))
    assert "offsets 0-1, but in the checkpoint, epoch 5 starts at 1" in only(path).message


def test_wrong_epoch_across_segments(tmp_path: Path) -> None:
    path = write_log(
        tmp_path,
        {0: [data(0), data(1)], 2: [data(2, leader_epoch=4)], 3: [data(3), data(4)]},
    )
    found = only(path)
    assert (found.code, found.segment, found.position) == ("leader-epoch-odd", 2, 0)


def test_every_flipped_bit_of_an_epoch_is_found(tmp_path: Path) -> None:
    path = write(tmp_path, 3, 3, 3, 3, 3, checkpoint=epochs((3, 0)))
    sound = log_of(path, 0).read_bytes()
    size = len(data(0))
    for row in (0, 2, 4):
        for bit in range(32):
            at = row * size + 12 + bit // 8
            log_of(path, 0).write_bytes(damage.flip_bit(sound, at, bit % 8))
            found = run_checks(path)
            assert [(one.code, one.position) for one in found] == [
                ("leader-epoch-odd", row * size)
            ], (row, bit)


def test_epoch_start_inside_a_bad_range(tmp_path: Path) -> None:
    """The first batch of epoch 1 is lost; where it began is still right."""
    path = write(tmp_path, 0, 0, 1, 1, checkpoint=epochs((0, 0), (1, 2)))
    log = log_of(path, 0).read_bytes()
    log_of(path, 0).write_bytes(damage.flip(log, 2 * len(data(0)) + 64))
    assert codes(path) == ["crc-mismatch"]


def test_more_changes_than_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdump.broker.leader_epochs.SPANS_KEPT", 3)
    assert codes(write(tmp_path, 0, 1, 2, checkpoint=epochs((7, 0)))) == ["leader-epochs-missing"]
    assert codes(write(tmp_path, 0, 1, 2, 3, checkpoint=epochs((7, 0)))) == []


NO_SUCH, MORE = "has epoch 7 there instead", "1 more epochs are wrong."


def suspects(path: Path) -> list[Conditional]:
    partition = partition_of(path)
    found = [*scan(partition, [LeaderEpochs(partition)])]
    return [one for one in found if isinstance(one, Conditional)]


@each(
    ("entries", "actual", "message"),
    [
        (
            [(0, 0), (1, 3)],
            "3",
            "1 has batches at offsets 2-3, but in the checkpoint it starts at 3.",
        ),
        (
            [(0, 0), (1, 1)],
            "1",
            "0 has batches at offsets 0-1, but in the checkpoint, epoch 1 starts at 1.",
        ),
        (
            [(0, 0)],
            "epoch 0",
            "1 has batches at offsets 2-3, but the checkpoint has epoch 0 there instead.",
        ),
        (
            [(7, 0)],
            "epoch 7",
            f"0 has batches at offsets 0-1, but the checkpoint {NO_SUCH}; {MORE}",
        ),
        (
            [(7, 1)],
            "epoch 7",
            f"0 has batches at offsets 0-1, but the checkpoint {NO_SUCH}; {MORE}",
        ),
        ([], "none", "1 has batches at offsets 2-3, but the checkpoint has no entry."),
    ],
)
def test_messages_about_a_checkpoint(
    tmp_path: Path, entries: list[tuple[int, int]], actual: str, message: str
) -> None:
    path = write(tmp_path, 0, 0, 1, 1, checkpoint=epochs(*entries))
    ((told, touches),) = suspects(path)
    assert (told.actual, told.message) == (actual, f"Leader epoch {message}")
    assert (told.topic, told.partition) == ("orders", 7)
    size = len(data(0))
    start = 2 if message.startswith("1") else 0
    assert touches == RestsOn(0, start * size, (start + 1) * size, start, start + 1)


@each(
    ("of_batches", "codes_of"),
    [
        ((9, 5), ["leader-epoch-odd"]),
        ((9, 5, 5), ["leader-epoch-odd"]),
        ((9, 9, 5), ["leader-epoch-odd"]),
        ((5, 9), []),
        ((5, 5, 9), []),
        ((5, 9, 9, 5), ["leader-epoch-odd"]),  # the two before it are not
        ((5, 9, 9, 5, 5), ["leader-epoch-falls"]),
        ((9, 9, 5, 5, 9, 9), ["leader-epoch-falls"]),
        ((5, 5, 9, 5, 5, 1, 5), ["leader-epoch-odd", "leader-epoch-odd"]),
        ((-1, 5, -1), []),
    ],
)
def test_epochs_must_rise(tmp_path: Path, of_batches: tuple[int, ...], codes_of: list[str]) -> None:
    path = write(tmp_path, *of_batches)
    (path / "leader-epoch-checkpoint").unlink()
    assert [one.finding.code for one in suspects(path)] == codes_of


def test_messages_about_a_falling_epoch(tmp_path: Path) -> None:
    path = write(tmp_path, 5, 5, 3, 3)
    (path / "leader-epoch-checkpoint").unlink()
    ((told, touches),) = suspects(path)
    size = len(data(0))
    assert (told.position, told.size_bytes, told.offset) == (2 * size, size, 2)
    assert (told.expected, told.actual) == (5, 3)
    assert told.message == "At offset 2, the leader epoch falls from 5 to 3."
    assert touches == RestsOn(0, 2 * size, 3 * size, 2, 3)


def test_epoch_over_several_segments_is_sound(tmp_path: Path) -> None:
    """Three segments of one batch each: the epoch falls, it is not that of a changed batch."""
    segments = {0: [data(0, leader_epoch=9), data(1, leader_epoch=9)]}
    segments |= {base: [data(base, leader_epoch=5)] for base in (2, 3, 4)}
    path = write_log(tmp_path, segments)
    (path / "leader-epoch-checkpoint").unlink()
    assert [one.finding.code for one in suspects(path)] == ["leader-epoch-falls"]


@pytest.mark.parametrize("doubtful", [0, 1, 2])
def test_batches_out_of_order_are_not_compared_with_the_checkpoint(
    tmp_path: Path, doubtful: int
) -> None:
    """Whichever of the segments they lie in that have the same epoch."""
    segments = {base: [data(base), data(base + 1)] for base in (0, 2, 4)}
    segments[2 * doubtful][1] = data(2 * doubtful)
    path = write_log(tmp_path, segments)
    (path / "leader-epoch-checkpoint").write_text(epochs((7, 0)))
    assert suspects(path) == []
    write_log(tmp_path, {base: [data(base), data(base + 1)] for base in (0, 2, 4)})
    (path / "leader-epoch-checkpoint").write_text(epochs((7, 0)))
    assert len(suspects(path)) == 1
