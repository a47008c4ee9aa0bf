"""Which partitions are compared, and how much is reported."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import builders
import damage
import pytest
from comparing import (
    compare_directories,
    replica,
    rewrite_record,
)
from replica_pairs import LOG

from kdump.engine.compare.kinds import KINDS, VERDICTS, severity_of, verdict_of
from kdump.engine.compare.plan import CompareOptions
from kdump.engine.compare.run import compare
from kdump.engine.compare.verdict import compare_partition
from kdump.engine.work.pipeline import Workers
from kdump.errors import NothingToDo, PathError
from kdump.findings.rows import Row
from kdump.rows.compare import ReplicaComparison
from kdump.storage.targets import Selection, Target


def test_replica_that_differs_from_two_others(tmp_path: Path) -> None:
    odd = [*LOG[:8], rewrite_record(LOG[8], 42, b"other"), *LOG[9:]]
    roots = [replica(tmp_path, n, odd if n == "a" else LOG) for n in ("a", "b", "c")]
    found = compare_directories(*roots)
    assert found.spans == [("record-differs", 42, 42, 1)]
    (told,) = found.differences
    assert told["left"]["path"] == str(tmp_path / "b" / "orders-0")
    assert told["left"]["also"] == [str(tmp_path / "c" / "orders-0")]
    assert told["right"]["path"] == str(tmp_path / "a" / "orders-0")
    assert found.one["odd"] == str(tmp_path / "a" / "orders-0")
    assert "differs from the others" in found.one["explanation"]


def test_three_different_copies_are_compared(tmp_path: Path) -> None:
    roots = [
        replica(tmp_path, "a", LOG),
        replica(tmp_path, "b", [*LOG[:8], damage.flip(LOG[8].data(), 90), *LOG[9:]]),
        replica(tmp_path, "c", LOG[:12]),
    ]
    found = compare_directories(*roots)
    assert found.spans == [("damaged", 40, 44, 5), ("behind", 60, 99, 40)]
    assert found.differences[0]["left"]["also"] == [str(tmp_path / "c" / "orders-0")]
    assert found.one["verdict"] == "damaged"


def test_each_truncated_copy_is_named(tmp_path: Path) -> None:
    roots = [replica(tmp_path, n, LOG[:end]) for n, end in (("a", None), ("b", 12), ("c", 6))]
    words = compare_directories(*roots).one["explanation"]
    assert f"{tmp_path}/b/orders-0 ends 40 offsets before {tmp_path}/a/orders-0." in words
    assert f"{tmp_path}/c/orders-0 ends 70 offsets before {tmp_path}/a/orders-0." in words


def test_partition_found_once_is_reported(tmp_path: Path) -> None:
    left = replica(tmp_path, "left", LOG)
    replica(left, "", LOG, partition="alone-3")
    found = compare_directories(left, replica(tmp_path, "right", LOG))
    assert found.errors == []
    assert (found.summary["found_once"], found.summary["found_once_count"]) == (["alone-3"], 1)
    assert found.summary["partitions"] == 1


def test_nothing_in_common(tmp_path: Path) -> None:
    found = compare_directories(
        replica(tmp_path, "left", LOG), replica(tmp_path, "right", LOG, partition="other-0")
    )
    assert [type(error) for error in found.errors] == [NothingToDo]


def test_one_directory_named_twice(tmp_path: Path) -> None:
    left = replica(tmp_path, "left", LOG)
    (tmp_path / "link").symlink_to(left)
    assert [type(error) for error in compare_directories(left, left, tmp_path / "link").errors] == [
        NothingToDo
    ]


def test_directories_with_unknown_names(tmp_path: Path) -> None:
    left = replica(tmp_path, "left", LOG, partition="copy")
    right = replica(tmp_path, "right", LOG[:-1])
    assert compare_directories(left / "copy", right).one["topic"] == "orders"
    other = replica(tmp_path, "other", LOG[:-1], partition="copy")
    found = compare_directories(left / "copy", other / "copy").one
    assert (found["topic"], found["verdict"]) == (None, "behind")


def test_file_is_not_a_replica(tmp_path: Path) -> None:
    left, right = replica(tmp_path, "left", LOG), replica(tmp_path, "right", LOG)
    found = compare_directories(left / "orders-0" / f"{0:020}.log", right)
    assert [type(error) for error in found.errors] == [PathError]


def test_unreadable_replica_does_not_stop_the_others(tmp_path: Path) -> None:
    roots = [replica(tmp_path, name, LOG) for name in ("a", "b", "c")]
    log = roots[1] / "orders-0" / f"{0:020}.log"
    log.unlink()
    log.mkdir()
    found = compare_directories(*roots)
    assert [str(log) in str(error) for error in found.errors] == [True]
    assert found.one["verdict"] == "equal"
    assert found.one["records_count"] == max(one["records_count"] for one in found.one["replicas"])
    assert len(found.one["replicas"]) == 2


def test_logs_of_0_7_are_not_compared(tmp_path: Path) -> None:
    for name in ("left", "right"):
        directory = tmp_path / name / "orders-0"
        directory.mkdir(parents=True)
        (directory / f"{0:020}.kafka").write_bytes(builders.pre08_message(name.encode()))
    found = compare_directories(tmp_path / "left", tmp_path / "right")
    assert (found.one["verdict"], found.one["severity"]) == ("not-compared", None)


def test_topics_and_partitions_may_be_selected(tmp_path: Path) -> None:
    roots = [replica(tmp_path, name, LOG) for name in ("left", "right")]
    for root in roots:
        replica(root, "", LOG, partition="orders-1")
    assert len(compare_directories(*roots).comparisons) == 2
    assert compare_directories(*roots, selection=Selection(partition=1)).one["partition"] == 1
    assert [type(error) for error in compare_directories(*roots, selection=Selection("x*")).errors][
        :1
    ] == [NothingToDo]


def test_number_of_reported_differences_is_bounded(tmp_path: Path) -> None:
    odd = [rewrite_record(batch, batch.base + 2, b"other") for batch in LOG]
    left, right = replica(tmp_path, "left", LOG), replica(tmp_path, "right", odd[:-1])
    found = compare_directories(left, right, shown=3)
    assert found.spans == [("record-differs", n, n, 1) for n in (2, 7, 12)]
    assert found.one["differences"] == {"behind": 1, "record-differs": 19}
    assert compare_directories(left, right, shown=0).one["differences"] == found.one["differences"]


@pytest.mark.parametrize("jobs", [2, 3])
def test_workers_give_the_same_result(tmp_path: Path, jobs: int) -> None:
    roots = [replica(tmp_path, name, LOG) for name in ("left", "right")]
    for number in range(1, 5):
        replica(roots[0], "", LOG[:-number], partition=f"orders-{number}")
        replica(roots[1], "", LOG, partition=f"orders-{number}")
    one, many = compare_directories(*roots), compare_directories(*roots, driver=Workers(jobs))
    assert (one.differences, one.comparisons) == (many.differences, many.comparisons)
    assert len(one.comparisons) == 5


def test_verdicts_have_their_wording() -> None:
    assert verdict_of({}) == "equal"
    assert severity_of("equal") is None
    for kind, (severity, _) in KINDS.items():
        verdict = verdict_of({kind: 1})
        assert verdict in VERDICTS
        assert severity_of(verdict) in (severity, None)


def test_rows_are_in_partition_order(tmp_path: Path) -> None:
    roots = [replica(tmp_path, name, LOG) for name in ("left", "right")]
    for root in roots:
        for name in ("b-0", "a-10", "a-9"):
            replica(root, "", LOG, partition=name)
    rows = [item for item in compare([*map(str, roots)], CompareOptions()) if isinstance(item, Row)]
    names = [f"{row.fields['topic']}-{row.fields['partition']}" for row in rows[:-1]]
    assert names == ["a-9", "a-10", "b-0", "orders-0"]
    assert re.fullmatch("summary", rows[-1].row)


def test_replica_deleted_while_reading_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = [replica(tmp_path, name, LOG) for name in ("a", "b", "c")]

    def gone(targets: list[Target], *asked: Any) -> Iterator[Row]:
        if len(targets) == 3:
            shutil.rmtree(targets[0].path)
        return compare_partition(targets, *asked)

    monkeypatch.setattr("kdump.engine.compare.run.compare_partition", gone)
    error, row, _ = compare(list(map(str, roots)), CompareOptions())
    assert str(error) == f"{roots[0]}/orders-0: No such file or directory"
    assert isinstance(row, ReplicaComparison)
    assert (row.verdict, len(row.replicas)) == ("equal", 2)
