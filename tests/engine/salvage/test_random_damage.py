"""Three copies of a partition, each broken at random: what any of them has whole is in the result.

With --split-batches it is joined by parts of batches that none has whole. The log is one that the
broker's append code writes. What is whole in a copy is told from the bytes that were changed, not
by kdump. KDUMP_FUZZ=long takes 2,000 cases; KDUMP_FUZZ_COUNT any number, KDUMP_FUZZ_SEED others.
"""

import base64
import itertools
import random
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import damage
import pytest
from directories import findings
from each import each
from long_runs import LONG, SEED, how_many
from oracle import Oracle, oracle
from salvaging import Entry, make_log

from kdump import kernels
from kdump.engine.salvage.contents import records_of
from kdump.engine.salvage.options import SalvageOptions
from kdump.engine.salvage.run import salvage
from kdump.findings.rows import Row

pytestmark = pytest.mark.oracle

_COUNT = how_many(8, 2000)
SEEDS = (
    *range(SEED, SEED + _COUNT),
    *(20797, 40632, 41200, 41310, 41777, 90552, 91016),
)  # these broke it
NOW = 1_700_000_000_000
NAME = "orders-0"
COPIES = 3
#: Damage of header fields that no checksum covers may look like another log; not these.
UNCOVERED = {0: range(8), 1: range(8), 2: (*range(8), *range(12, 16))}


class Copy:
    """One copy, and which batches of it are as they were."""

    def __init__(self, source: Path, root: Path, entries: list[Entry], rng: random.Random) -> None:
        self.path = root / NAME
        shutil.copytree(source, self.path)
        self.entries = entries
        self.whole = set(range(len(entries)))
        self.rng = rng
        self.files = sorted({entry.file for entry in entries})
        self.done: list[str] = []

    def broken(self, file: str, start: int, end: int) -> None:
        """Take note that bytes of a file are not what they were."""
        self.whole -= {
            number
            for number, entry in enumerate(self.entries)
            if entry.file == file and entry.position < end and entry.end > start
        }

    def _file(self) -> tuple[str, bytes] | None:
        here = [name for name in self.files if (self.path / name).exists()]
        here = [name for name in here if (self.path / name).stat().st_size]
        if not here:
            return None
        name = self.rng.choice(here)
        return name, (self.path / name).read_bytes()

    def flip(self) -> None:
        chosen = self._file()
        if chosen is None:
            return
        name, data = chosen
        inside = [each for each in self.entries if each.file == name and each.end <= len(data)]
        if not inside:
            return
        entry = self.rng.choice(inside)
        free = [at for at in range(entry.size) if at not in UNCOVERED[entry.magic]]
        at = entry.position + self.rng.choice(free)
        self._put(name, damage.flip_bit(data, at, self.rng.randrange(8)), at, at + 1)

    def overwrite(self) -> None:
        """Zeros, or bytes of nothing, over a range, and so over whole headers or none."""
        chosen = self._file()
        if chosen is None:
            return
        name, data = chosen
        start = self.rng.randrange(len(data))
        count = min(self.rng.choice((64, 512, 4096, 1 << 16, 1 << 20)), len(data) - start)
        new = bytes(count) if self.rng.random() < 0.5 else self.rng.randbytes(count)
        self._put(name, data[:start] + new + data[start + count :], start, start + count)

    def cut(self) -> None:
        chosen = self._file()
        if chosen is not None:
            name, data = chosen
            size = self.rng.randrange(len(data))
            self._put(name, damage.cut(data, size), size, len(data))

    def remove(self) -> None:
        chosen = self._file()
        if chosen is not None:
            name, data = chosen
            start = self.rng.randrange(len(data))
            count = self.rng.randrange(1, min(200, len(data) - start) + 1)
            (self.path / name).write_bytes(damage.remove(data, start, count))
            self.broken(name, start, start + count)
            self.files.remove(name)  # positions in it are not what they were

    def drop(self) -> None:
        chosen = self._file()
        if chosen is not None:
            (self.path / chosen[0]).unlink()
            self.broken(chosen[0], 0, 1 << 62)

    def retire(self) -> None:
        """Put a segment aside as a broker does that deletes or cleans it."""
        chosen = self._file()
        if chosen is not None:
            ending = self.rng.choice((".deleted", ".swap", ".cleaned"))
            (self.path / chosen[0]).rename(self.path / (chosen[0] + ending))
            self.files.remove(chosen[0])

    def retire_directory(self) -> None:
        new = self.path.with_name(f"{NAME}.{'0123456789abcdef' * 2}-delete")
        if self.path.name == NAME:
            self.path.rename(new)
            self.path = new

    def drop_others(self) -> None:
        for path in self.path.iterdir():
            if ".log" not in path.name:
                path.unlink()

    def _put(self, name: str, data: bytes, start: int, end: int) -> None:
        (self.path / name).write_bytes(data)
        self.broken(name, start, end)


KINDS = ("flip", "flip", "overwrite", "cut", "remove", "drop", "retire", "retire_directory",
         "drop_others")  # fmt: skip


def ranges_of(offsets: set[int]) -> list[list[int]]:
    found: list[list[int]] = []
    for offset in sorted(offsets):
        if found and found[-1][1] == offset - 1:
            found[-1][1] = offset
        else:
            found.append([offset, offset])
    return found


def run_salvage(sources: list[Path], out: Path, **options: Any) -> Row:
    """Salvage the one partition of some directories; an error fails the test."""
    asked = SalvageOptions(out=str(out), **options)
    (row,) = salvage(list(map(str, sources)), asked)
    assert isinstance(row, Row), row
    return row


def break_copies(
    asked: Oracle,
    seed: int,
    tmp_path: Path,
    rng: random.Random,
    kinds: Sequence[str],
    count: int = COPIES,
) -> tuple[list[Entry], list[Copy]]:
    """Write a log; break copies of it."""
    source = tmp_path / "source" / NAME
    source.parent.mkdir()
    entries = make_log(asked, seed, source)
    copies = []
    for number in range(count):
        root = tmp_path / f"copy{number}"
        root.mkdir()
        copy = Copy(source, root, entries, rng)
        for _ in range(rng.randrange(1, 5)):
            copy.done.append(rng.choice(kinds))
            getattr(copy, copy.done[-1])()
        copies.append(copy)
        end = entries[-1].last + 1 if entries else 0
        (root / "replication-offset-checkpoint").write_text(f"0\n1\norders 0 {end}\n")
    return entries, copies


@pytest.mark.fuzz
@each("seed", SEEDS)
def test_complete_batches_of_any_copy_are_used_once(seed: int, tmp_path: Path) -> None:
    asked, rng = oracle(), random.Random(f"salvage {seed}")
    entries, copies = break_copies(asked, seed, tmp_path, rng, KINDS)
    whole = set.union(*(copy.whole for copy in copies))
    kept = [entry for number, entry in enumerate(entries) if number in whole]
    out = tmp_path / "out"
    row = run_salvage(
        [copy.path.parent for copy in copies],
        out,
        topic_configs=False,
        server_properties=_properties(tmp_path, rng),
    )
    said = {"seed": seed, "done": [copy.done for copy in copies], "row": row.fields}

    served = [
        data for log in sorted((out / NAME).glob("*.log")) for data in entries_in(log.read_bytes())
    ]
    there = {entry.data for entry in kept}
    assert [data for data in served if data in there] == [entry.data for entry in kept], said
    loose = _loose([data for data in served if data not in there], entries, kept)
    assert row.fields["conflicts"] == [], said
    assert row.fields["diverged"] == [], said
    assert row.fields["batches"] == len(served), said
    _hold_lost(row, entries, kept, copies, loose)
    _hold_to_recovery(asked, out / NAME)
    wrong = [one for one in findings(out, deep=True) if one.severity.value != "note"]
    assert not wrong, (said, wrong)


#: Damage after which the records of a batch that are there are as they were.
HARMLESS = ("cut", "cut", "cut", "drop", "retire", "retire_directory", "drop_others")


@pytest.mark.fuzz
@each("seed", [*range(SEED, SEED + (_COUNT if LONG else 3)), 81208])
def test_rebuilt_parts_equal_the_written_records(seed: int, tmp_path: Path) -> None:
    asked, rng = oracle(), random.Random(f"split {seed}")
    kinds = HARMLESS if seed % 2 else (*KINDS, "cut", "flip")
    entries, copies = break_copies(asked, seed, tmp_path, rng, kinds, rng.choice((1, 1, 2)))
    whole = set.union(*(copy.whole for copy in copies))
    out = tmp_path / "out"
    row = run_salvage(
        [copy.path.parent for copy in copies], out, topic_configs=False, split_batches=True
    )
    said = {"seed": seed, "done": [copy.done for copy in copies], "row": row.fields}
    there = [records_at(entry.data) for entry in entries]
    written = {offset: record for records in there for offset, record in records.items()}
    parts: Any = row.fields["reencoded"]
    kept = {entry.data: number for number, entry in enumerate(entries) if number in whole}
    served: dict[int, int] = {}
    sound = set()
    loose = 0
    for log in sorted((out / NAME).glob("*.log")):
        for data in entries_in(log.read_bytes()):
            records = records_at(data)
            assert min(records, default=0) > max(served, default=-1) or not records, said
            served |= records
            if data in kept:
                sound.add(kept[data])
                continue
            anew = [one for one in parts if one["from"] <= min(records) <= one["to"]]
            # A message that lay in a torn wrapper as it was, not compressed, was found there.
            loose += 0 if anew else len(records)
            assert records.keys() <= written.keys(), said
            if kinds is HARMLESS or not anew or not anew[0]["doubtful"]:
                assert records.items() <= written.items(), said
    assert sound == whole or (
        _is_last_by_one_bit(entries, copies) and sound == whole - {max(whole)}
    ), said
    assert (
        sum(one["records_count"] for one in parts) + sum(len(there[number]) for number in sound)
        == len(served) - loose
    ), said
    lost: Any = row.fields["lost"]
    for low, high in lost:
        assert not any(low <= offset <= (high or low) for offset in served), said
    # Of a segment that no copy has, a log with holes does not tell that it was there.
    bases = {int(path.name[:20]) for copy in copies for path in copy.path.glob("*.log*")}
    for entry, records in zip(entries, there, strict=True):
        if int(entry.file[:20]) not in bases:
            continue
        for offset in records.keys() - served.keys():
            assert any(low <= offset and (high is None or offset <= high) for low, high in lost), (
                offset, said,
            )  # fmt: skip
    _hold_to_recovery(asked, out / NAME)
    wrong = [one for one in findings(out, deep=True) if one.severity.value != "note"]
    assert not wrong, (said, wrong)


def _is_last_by_one_bit(entries: list[Entry], copies: list[Copy]) -> bool:
    """Whether the only copy of a whole batch has its first hole right before it, its last batch.

    Where a single bit of the offset makes that hole, which no checksum covers, nothing tells which
    of the two it is: such a batch is lost.
    """
    whole = [number for number in sorted(copies[0].whole) if len(copies) == 1]
    if len(whole) < 2 or whole[-1] != whole[-2] + 1:
        return False
    *before, (expected, first) = [
        (entries[one].last + 1, entries[two].first)
        for one, two in itertools.pairwise(whole)
        if entries[two].magic == 2 or entries[two].first == entries[two].last  # no wrapper
    ]
    is_first = all(one == two for one, two in before)
    return is_first and (expected ^ first).bit_count() == 1


def entries_in(data: bytes) -> Iterator[bytes]:
    position = 0
    while position < len(data):
        size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        yield data[position : position + size]
        position += size


def records_at(data: bytes) -> dict[int, int]:
    """What stands for each record of an entry, by its offset."""
    rows, _, _ = kernels.walk(data, 0, len(data), 0, -1, True, 1)
    return records_of(data, rows, 1 << 26)


def _properties(path: Path, rng: random.Random) -> str:
    at = path / "server.properties"
    at.write_text(f"log.segment.bytes={rng.choice((3_000, 50_000, 1 << 30))}\n")
    return str(at)


def _loose(served: list[bytes], entries: list[Entry], kept: list[Entry]) -> set[int]:
    """Return offsets of messages that lay in wrappers, not compressed, of which no header is left.

    Of magic 0 they have offsets of their own there, and a checksum: they are what was written.
    """
    found: set[int] = set()
    for data in served:
        assert data[16] == 0, data[:40]
        ((offset, record),) = records_at(data).items()
        (around,) = (entry for entry in entries if entry.first <= offset <= entry.last)
        assert around not in kept
        assert records_at(around.data)[offset] == record
        assert offset > max(found, default=-1)
        found.add(offset)
    return found


def _hold_lost(
    row: Row, entries: list[Entry], kept: list[Entry], copies: list[Copy], loose: set[int]
) -> None:
    """What is lost are the offsets of batches that no copy has whole, and no offset that is served.

    Holes of the log itself may count with a batch beside them, and where one segment ends and the
    next begins: a segment may have been there.
    """
    lost: Any = row.fields["lost"]
    # The high watermark says the end. What is left behind messages of a last wrapper of magic 0
    # whose header is gone may be one more.
    has_rest = entries[-1].magic == 0 and any(len(entries) - 1 not in one.whole for one in copies)
    assert has_rest or all(high is not None for _, high in lost), row
    lost = [one for one in lost if one != [entries[-1].last + 1, None]]
    bases = [int(path.name[:20]) for copy in copies for path in copy.path.glob("*.log*")]
    start = min(bases, default=0)
    gone = [entry for entry in entries if entry not in kept and entry.last >= start]
    for entry in gone:
        of_it = sorted(offset for offset in loose if entry.first <= offset <= entry.last)
        ends = [max(entry.first, start) - 1, *of_it, entry.last + 1]
        for before, after in itertools.pairwise(ends):
            assert before + 1 == after or any(
                low <= before + 1 and after - 1 <= high for low, high in lost
            ), (entry[:6], row)
    apart = [
        (one.last + 1, two.first - 1)
        for one, two in itertools.pairwise(entries)
        if one.file != two.file
    ] + [(start, entries[0].first - 1)]
    for low, high in lost:
        assert not any(low <= entry.last and entry.first <= high for entry in kept), (low, row)
        assert not any(low <= offset <= high for offset in loose), (low, row)
        near = [(entry.first, entry.last) for entry in gone] + apart
        assert any(low <= last and first <= high for first, last in near), (low, high, row)
    is_dense = all(one.last + 1 == two.first for one, two in itertools.pairwise(entries))
    if is_dense:
        offsets = {at for one in gone for at in range(max(one.first, start), one.last + 1)}
        assert lost == ranges_of(offsets - loose), row


def _hold_to_recovery(asked: Oracle, path: Path) -> None:
    """Every file is as the broker's own recovery writes it, and it cuts nothing."""
    answer = asked.ask(
        "recover", dir=path, now=NOW, segmentBytes=1 << 30,
        delete=["index", "timeindex", "txnindex"],
    )  # fmt: skip
    assert answer["truncatedBytes"] == {}
    ours = {at.name: at.read_bytes() for at in path.iterdir() if at.suffix.endswith("index")}
    theirs = {
        name: base64.b64decode(one["base64"])
        for name, one in answer["files"].items()
        if name.endswith("index") and (one["size"] or not name.endswith(".txnindex"))
    }
    assert ours == theirs
    for name, one in asked.ask("sanity", dir=path).items():
        assert name == "segmentsOnLoad" or one["ok"], (name, one)
