from pathlib import Path

import pytest
from each import each
from generated import given, st

from kdump.storage import checkpoints
from kdump.storage.checkpoints import EpochStart, PartitionOffset
from kdump.storage.log_dir import LogDir
from kdump.storage.problems import Problem

CODE = "checkpoint-malformed"


def test_leader_epochs() -> None:
    found = checkpoints.parse_leader_epochs(b"0\n3\n1 0\n2 467\n3 738\n")
    assert (found.version, found.declared, found.problems) == (0, 3, [])
    assert found.entries == [EpochStart(1, 0), EpochStart(2, 467), EpochStart(3, 738)]


def test_offsets() -> None:
    found = checkpoints.parse_offsets(b"0\n2\norders 0 48230114\n__consumer_offsets 12 0\n")
    assert found.entries == [
        PartitionOffset("orders", 0, 48230114),
        PartitionOffset("__consumer_offsets", 12, 0),
    ]
    assert found.problems == []


@pytest.mark.parametrize("data", [b"", b"0\n0\n", b"0\n0"])
def test_empty_checkpoint_has_no_entries(data: bytes) -> None:
    found = checkpoints.parse_offsets(data)
    assert (found.entries, found.problems) == ([], [])


@each("data", [b"0\r\n1\r\na 0 5\r\n", b"0\r1\ra 0 5", b"0\n1\na\t0   5  \n", b"0\n+1\na +0 +5\n"])
def test_forms_accepted_by_java(data: bytes) -> None:
    found = checkpoints.parse_offsets(data)
    assert (found.entries, found.problems) == ([PartitionOffset("a", 0, 5)], [])


@each(
    ("data", "position", "actual"),
    [
        (b"1\n1\na 0 5\n", 0, "1"),
        (b"zero\n", 0, "zero"),
        (b"0\nx\na 0 5\n", 2, "x"),
        (b"0\n1\na 0\n", 4, "a 0"),
        (b"0\n1\na 0 5 6\n", 4, "a 0 5 6"),
        (b"0\n1\n a 0 5\n", 4, " a 0 5"),
        (b"0\n1\na b 5\n", 4, "a b 5"),
        (b"0\n1\na 2147483648 5\n", 4, "a 2147483648 5"),
        (b"0\n1\na 0 9223372036854775808\n", 4, "a 0 9223372036854775808"),
        (b"0\n1\na 0 5\n\n", 10, ""),
        (b"0\n2\na 0 5\n", None, "1 entries"),
        (b"0\n0\na 0 5\n", None, "1 entries"),
        (b"0\n-1\n", None, "0 entries"),
        (b"0\n", 2, "end of file"),
        (b"\0" * 40, 0, "\0" * 40),
    ],
)
def test_malformed_checkpoint_has_a_problem(data: bytes, position: int | None, actual: str) -> None:
    (problem,) = checkpoints.parse_offsets(data).problems
    assert (problem.code, problem.position, problem.actual) == (CODE, position, actual)


def test_valid_lines_of_a_malformed_file_are_kept() -> None:
    found = checkpoints.parse_offsets(b"0\n4\na 0 5\nb x 5\nc\nd 1 6\n")
    assert found.entries == [PartitionOffset("a", 0, 5), PartitionOffset("d", 1, 6)]
    (problem,) = found.problems
    assert (problem.position, problem.size_bytes, problem.actual) == (10, 5, "b x 5")
    assert problem.places == 2


def test_negative_epoch_is_malformed() -> None:
    assert checkpoints.parse_leader_epochs(b"0\n1\n-1 0\n").problems
    assert checkpoints.parse_leader_epochs(b"0\n1\n0 -1\n").problems


def test_unknown_checkpoint_gives_fields() -> None:
    found = checkpoints.parse_other(b"0\n2\na 1 2 3\nb\n")
    assert found.entries == [("a", "1", "2", "3"), ("b",)]


def test_loading_drops_overtaken_epochs() -> None:
    entries = [EpochStart(1, 0), EpochStart(2, 50), EpochStart(4, 50), EpochStart(3, 70)]
    assert checkpoints.load_epochs(entries[:3]) == [EpochStart(1, 0), EpochStart(4, 50)]
    assert checkpoints.load_epochs(entries) == [EpochStart(1, 0), EpochStart(3, 70)]
    assert checkpoints.load_epochs([EpochStart(1, 9), EpochStart(2, 3)]) == [EpochStart(2, 3)]


def test_numbers_are_read_as_in_java() -> None:
    assert checkpoints.java_int("007") == 7
    assert checkpoints.java_int("-9223372036854775808") == -(2**63)
    assert checkpoints.java_int("2147483647", 1 << 31) == 2147483647
    assert checkpoints.java_int("-2147483648", 1 << 31) == -(2**31)
    assert checkpoints.java_int("\u0661") == 1  # digits of any script, as 4.1.1 was seen to
    for text in ("", "+", "1.0", "0x1", "1 ", " 1", "1_0", "9223372036854775808"):
        assert checkpoints.java_int(text) is None
    assert checkpoints.java_int("-2147483649", 1 << 31) is None


def test_long_line_is_shown_by_its_start() -> None:
    (problem,) = checkpoints.parse_offsets(b"0\n1\n" + b"x" * 1000 + b"\n").problems
    assert problem == Problem(CODE, 4, 1000, "topic partition offset", "x" * 200)


def test_written_checkpoint_can_be_read() -> None:
    data = checkpoints.text_of([("orders", 0, 5), ("users", 3, 7)])
    assert data == b"0\n2\norders 0 5\nusers 3 7\n"
    assert checkpoints.text_of([]) == b"0\n0\n"


@pytest.mark.parametrize(("more", "found"), [(0, {("orders", 0): 5}), (1, None)])
def test_checkpoint_over_eight_mebibytes_is_not_read(
    tmp_path: Path, more: int, found: object
) -> None:
    text = b"0\n1\norders 0 5"
    path = tmp_path / "replication-offset-checkpoint"
    path.write_bytes(text.ljust((8 << 20) + more))
    assert LogDir.open(str(tmp_path)).offsets(path.name) == found


LINES = st.lists(
    st.one_of(
        st.text("0123456789ab +-\t\r", max_size=12),
        st.text(max_size=8),
        st.just("0"),
        st.just("orders 0 5"),
        st.just("1 9"),
    ),
    max_size=8,
).map("\n".join)


@given(st.one_of(st.binary(max_size=100), LINES.map(lambda text: text.encode("utf-8", "replace"))))
def test_any_bytes_are_survived(data: bytes) -> None:
    for parse in (
        checkpoints.parse_offsets,
        checkpoints.parse_leader_epochs,
        checkpoints.parse_other,
    ):
        found = parse(data)
        assert len(found.problems) <= 1
        for problem in found.problems:
            assert problem.position is None or 0 <= problem.position <= len(data)
