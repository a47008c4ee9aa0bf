"""compare on real logs: copies of a broker's, one that was cleaned, a million records."""

import resource
import sys
import time
from pathlib import Path

import builders
import comparing
import damage
import pytest
from comparing import ComparisonResult, compare_directories
from corpus import corpus
from long_runs import LONG
from oracle import oracle

# Real brokers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"), [("live", "clean"), ("clean", "killed"), ("killed", "recovered")]
)
def test_copies_of_one_broker_at_two_times_agree(one: str, other: str) -> None:
    """Copies of one broker's logs, between which it wrote, compacted, deleted and was killed: the
    earlier is as a follower that lags.
    """
    expected = {"equal", "behind", "compacted-differently", "start-differs"}
    seen = set()
    for name in ("d1", "d2"):
        roots = [_data(f"modern/data/{copy}", name) for copy in (one, other)]
        found = compare_directories(*roots, shown=10_000)
        assert {each["verdict"] for each in found.comparisons} <= expected
        assert [each for each in found.differences if each["severity"] == "damage"] == []
        seen |= {each["verdict"] for each in found.comparisons}
    assert "behind" in seen
    assert ("compacted-differently" in seen) is (one == "clean")


def _data(name: str, directory: str) -> Path:
    return next(path for path in corpus(name).rglob(directory) if path.is_dir())


def test_copy_before_its_recovery_agrees() -> None:
    """A broker's damaged logs against what its recovery left of them."""
    verdicts = {}
    for name in ("d1", "d2"):
        roots = [_data(f"modern/recovery/killed/{state}", name) for state in ("before", "after")]
        found = compare_directories(*roots)
        verdicts |= {each["topic"]: each["verdict"] for each in found.comparisons}
    bad = {topic: word for topic, word in verdicts.items() if word in ("damaged", "missing")}
    assert bad == {
        "rv-attr-flip-last": "damaged",
        "rv-dup-tail": "damaged",
        "rv-flip-last": "damaged",
        "rv-flip-last-crc": "damaged",
        "rv-flip-mid-active": "damaged",
        "rv-flip-mid-old": "damaged",
        "rv-garbage-tail": "damaged",
        "rv-gz-flip-inner": "damaged",
        "rv-len-neg-last": "damaged",
        "rv-len-zero-last": "damaged",
        "rv-magic-flip-last": "damaged",
        "rv-swap-left": "missing",
    }
    assert not {"diverged", "truncated"} & {*verdicts.values()}


def test_side_compacted_by_the_broker_agrees(tmp_path: Path) -> None:
    """The same appends, with and without a round of the broker's own cleaner."""
    appends = [
        {
            "op": "append", "codec": codec, "keySpace": 15, "keySize": [3, 3], "valueSize": 40,
            "count": 12, "epoch": 1, "rseed": number, "random": True, "nullValue": 0.1,
        }
        for number, codec in enumerate(("none", "lz4", "zstd", "none") * 5)
    ]  # fmt: skip
    common_ops = [*appends[:10], {"op": "roll"}, *appends[10:]]
    for name, ops in (
        ("left", common_ops),
        ("right", [*common_ops, {"op": "roll"}, {"op": "compact", "firstDirtyOffset": 0}]),
    ):
        directory = tmp_path / name / "orders-0"
        directory.parent.mkdir()
        recipe = {
            "dir": str(directory), "seed": 3, "engine": "follower", "ops": ops,
            "config": {"cleanup.policy": "compact"},
        }  # fmt: skip
        oracle().ask("make", recipe=recipe)
    comparing.age(tmp_path)
    for order in (("left", "right"), ("right", "left")):
        found = compare_directories(*(tmp_path / name for name in order))
        assert found.one["verdict"] == "compacted-differently", found.differences
        assert found.one["differences"].keys() <= {"compacted", "rewritten"}
        gone = next(each for each in found.differences if each["kind"] == "compacted")
        assert gone["records_count"] == 240 - found.one["replicas"][order.index("right")][
            "records_count"
        ]  # fmt: skip
        assert gone["records_count"] > 100


# A million records -------------------------------------------------------------------------------

RECORDS = 1_000_000 if LONG else 20_000


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """Write a partition of so many records; give it, and where its batches start."""
    log = tmp_path_factory.mktemp("many") / "left" / "orders-0" / f"{0:020}.log"
    log.parent.mkdir(parents=True)
    records = [builders.record(n, n, b"key-%d" % n, b"value-%060d" % n) for n in range(100)]
    plain = builders.batch(records)
    with log.open("wb") as file:
        for base in range(0, RECORDS, 100):
            file.write(base.to_bytes(8, "big") + plain[8:])
    comparing.age(log.parents[1])
    return log.parents[1], list(range(0, log.stat().st_size, len(plain)))


def _against(many: tuple[Path, list[int]], tmp_path: Path, data: bytes) -> ComparisonResult:
    right = tmp_path / "right" / "orders-0"
    right.mkdir(parents=True)
    (right / f"{0:020}.log").write_bytes(data)
    comparing.age(tmp_path / "right")
    started, before = time.monotonic(), _peak_bytes()
    found = compare_directories(many[0], tmp_path / "right")
    print(
        f"{RECORDS:,} records a side: {time.monotonic() - started:.2f} s, "
        f"{(_peak_bytes() - before) >> 20} MiB more at the peak"
    )
    # Whatever the size of the logs: some blocks of headers, and a batch.
    assert _peak_bytes() - before < 64 << 20
    return found


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10


def _log(many: tuple[Path, list[int]]) -> bytes:
    return (many[0] / "orders-0" / f"{0:020}.log").read_bytes()


def test_different_record_among_many_is_found(many: tuple[Path, list[int]], tmp_path: Path) -> None:
    data, positions = _log(many), many[1]
    at = positions[len(positions) // 2]
    size = positions[1]
    batch = data[at : at + size]
    where = batch.index(b"value-%060d" % 42) + 10
    odd = builders.with_right_crc(damage.put(batch, where, b"7"))
    found = _against(many, tmp_path, damage.put(data, at, odd))
    offset = RECORDS // 2 + 42
    assert found.spans == [("record-differs", offset, offset, 1)]
    (told,) = found.differences
    assert (told["fields"], told["key"]) == (["value"], b"key-42")
    assert told["left"]["position"] == told["right"]["position"] == at
    assert found.one["verdict"] == "diverged"
    assert found.one["first_divergent_offset"] == offset
    assert "1 record not the same on both sides" in found.one["explanation"]


def test_truncated_side_of_many_records_is_found(
    many: tuple[Path, list[int]], tmp_path: Path
) -> None:
    at = many[1][-3]
    found = _against(many, tmp_path, damage.cut(_log(many), at + 777))
    assert found.spans == [("truncated", RECORDS - 300, RECORDS - 1, 300)]
    assert found.differences[0]["right"]["position"] == at
    assert "300 records missing at the end of truncated logs." in found.one["explanation"]


def test_flipped_byte_among_many_records_is_found(
    many: tuple[Path, list[int]], tmp_path: Path
) -> None:
    at = many[1][7]
    found = _against(many, tmp_path, damage.flip_bit(_log(many), at + 300, 4))
    assert found.spans == [("damaged", 700, 799, 100)]
    (told,) = found.differences
    assert told["right"]["position"] == at
    assert f"bit 4 of byte {at + 300:,}" in told["right"]["detail"]
    assert told["copy_from"] == str(many[0] / "orders-0")
