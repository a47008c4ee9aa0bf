"""compare after random changes, against a comparison of plain lists; and on real logs."""

import random
from pathlib import Path

import comparing
import damage
import pytest
from comparing import NEVER_CLEANED, Batch, Item, compare_directories, replica, rewrite_record
from each import each
from long_runs import LONG, SEED

# Random changes against a comparison of plain lists ----------------------------------------------

SEEDS = range(SEED, SEED + (3000 if LONG else 80))
LACKING = ("damaged", "missing", "behind", "truncated", "start-differs")


ALL_CHANGES = (
    "flip", "drop_tail", "drop_head", "drop", "rewrite", "epoch", "rebatch", "compact",
)  # fmt: skip


class Change:
    """A log that is changed at random, and what the change means for each offset."""

    def __init__(
        self, seed: int, like: list[Batch] | None = None, kinds: tuple[str, ...] = ALL_CHANGES
    ) -> None:
        self.rng = random.Random(seed)
        self.left = like or self._make()
        self.right: list[Batch | bytes] = list(self.left)
        self.records = {
            item.offset: (item, batch.epoch) for batch in self.left for item in batch.items
        }
        self.held = dict(self.records)
        self.flips: dict[int, set[int]] = {}
        self.compacted = False
        for _ in range(self.rng.randrange(1, 4)):
            getattr(self, self.rng.choice(kinds))()

    def _make(self) -> list[Batch]:
        found: list[Batch] = []
        base, epoch = self.rng.randrange(3) * 1000, 0
        for _ in range(self.rng.randrange(8, 40)):
            count = self.rng.randrange(1, 9)
            epoch += self.rng.random() < 0.1
            items = tuple(
                Item(base + n, b"%d" % self.rng.randrange(30), b"%d" % self.rng.getrandbits(30), n)
                for n in range(count)
            )
            found.append(Batch(base, base + count - 1, items, epoch))
            base += count
        return found

    @property
    def flipped(self) -> set[int]:
        """The offsets of the batches that were flipped and are still there."""
        return set().union(*self.flips.values())

    def _pick(self) -> tuple[int, Batch] | None:
        """Choose a batch that is neither first nor last, and still as it was."""
        inner = list(enumerate(self.right))[1:-1]
        fit = [(n, each) for n, each in inner if isinstance(each, Batch) and each.items]
        return self.rng.choice(fit) if fit else None

    def flip(self) -> None:
        if (picked := self._pick()) is None:
            return
        number, batch = picked
        data = batch.data()
        at = self.rng.choice([*range(8, 12), *range(16, len(data))])  # all but offset and epoch
        self.right[number] = damage.flip_bit(data, at, self.rng.randrange(8))
        for item in batch.items:
            del self.held[item.offset]
        self.flips[batch.base] = {item.offset for item in batch.items}

    def drop_tail(self) -> None:
        self._cut(self.rng.randrange(len(self.right) // 2, len(self.right)), None)

    def drop_head(self) -> None:
        self._cut(None, self.rng.randrange(0, len(self.right) // 2))

    def drop(self) -> None:
        if (picked := self._pick()) is not None:
            self._forget([self.right.pop(picked[0])])

    def _cut(self, stop: int | None, start: int | None) -> None:
        gone = self.right[stop:] if stop is not None else self.right[:start]
        self.right = self.right[:stop] if stop is not None else self.right[start:]
        self._forget(gone)

    def _forget(self, gone: list[Batch | bytes]) -> None:
        for batch in gone:
            if isinstance(batch, Batch):
                for item in batch.items:
                    self.held.pop(item.offset, None)
            else:
                del self.flips[comparing.base_of(batch)]

    def rewrite(self) -> None:
        if (picked := self._pick()) is None:
            return
        number, batch = picked
        item = self.rng.choice(batch.items)
        self.right[number] = rewrite_record(batch, item.offset, b"rewritten")
        self.held[item.offset] = (item._replace(value=b"rewritten"), batch.epoch)

    def epoch(self) -> None:
        if (picked := self._pick()) is None:
            return
        number, batch = picked
        self.right[number] = batch._replace(epoch=batch.epoch + 7)
        for item in batch.items:
            self.held[item.offset] = (item, batch.epoch + 7)

    def rebatch(self) -> None:
        if (picked := self._pick()) is None:
            return
        number, batch = picked
        at = self.rng.randrange(len(batch.items)) + 1
        first, second = batch.items[:at], batch.items[at:]
        if second:
            middle = second[0].offset
            parts = [batch._replace(last=middle - 1, items=first)]
            parts.append(batch._replace(base=middle, items=second))
            self.right[number : number + 1] = parts

    def compact(self) -> None:
        """Remove what a later record replaces, as a cleaner does up to some batch."""
        end = self.rng.randrange(2, len(self.right)) if len(self.right) > 2 else 0
        newest = {
            item.key: item.offset
            for batch in self.right[:end]
            if isinstance(batch, Batch)
            for item in batch.items
        }
        kept: list[Batch | bytes] = []
        for batch in self.right[:end]:
            if not isinstance(batch, Batch):
                kept.append(batch)
                continue
            items = tuple(item for item in batch.items if newest[item.key] == item.offset)
            for item in batch.items:
                if item not in items:
                    del self.held[item.offset]
                    self.compacted = True
            if items or not kept:
                kept.append(batch._replace(items=items))
        self.right[:end] = kept


@each("seed", SEEDS)
def test_random_changes_are_found(seed: int, tmp_path: Path) -> None:
    change = Change(seed)
    rng = change.rng
    cuts = [{rng.randrange(40) for _ in range(rng.randrange(4))} for _ in range(2)]
    # Where all keys of lost batches come again only the checkpoint tells that no cleaner was there.
    files = {} if change.compacted else NEVER_CLEANED
    left = replica(tmp_path, "left", change.left, segments=cuts[0], files=files)
    right = replica(tmp_path, "right", change.right, segments=cuts[1], files=files)
    flip = rng.random() < 0.5
    found = compare_directories(*((right, left) if flip else (left, right)), shown=100_000)
    told_as_gone = change.records.keys() - change.held.keys()
    lacking = found.offsets(*LACKING)
    differing = {offset for offset, held in change.held.items() if held != change.records[offset]}
    assert found.offsets("record-differs", "epoch-differs") == differing
    assert not found.offsets("batch-differs", "not-compared", "damaged-everywhere")
    assert change.flipped <= found.offsets("damaged") | found.offsets("start-differs")
    compacted = [each for each in found.differences if each["kind"] == "compacted"]
    if not change.compacted:
        assert lacking == told_as_gone
        assert not compacted
    else:
        count = sum(each["records_count"] for each in compacted)
        of_kinds = sum(
            difference["records_count"]
            for difference in found.differences
            if difference["kind"] in LACKING
        )
        assert count + of_kinds == len(told_as_gone)
        assert not lacking & {*change.held}
    for difference in found.differences:
        side = difference["right" if flip else "left"]
        if difference["kind"] in ("damaged", "missing") and difference["records_count"]:
            assert difference["copy_from"] == side["path"] == str(left / "orders-0")
    if told_as_gone or differing:
        assert found.one["verdict"] != "equal"
    else:
        assert found.one["severity"] in (None, "note") or change.flipped


@each("seed", SEEDS)
def test_random_changes_on_both_sides_are_found(seed: int, tmp_path: Path) -> None:
    one = Change(seed, kinds=ALL_CHANGES[:-1])
    other = Change(seed + 1_000_000, like=one.left, kinds=ALL_CHANGES[:-1])
    left = replica(tmp_path, "left", one.right, segments=(seed % 7,), files=NEVER_CLEANED)
    right = replica(tmp_path, "right", other.right, files=NEVER_CLEANED)
    found = compare_directories(left, right, shown=100_000)
    both = one.held.keys() & other.held.keys()
    differing = {offset for offset in both if one.held[offset] != other.held[offset]}
    # What no side has may lie between.
    neither = one.records.keys() - one.held.keys() - other.held.keys()
    assert found.offsets("record-differs", "epoch-differs") - neither == differing
    single = one.held.keys() ^ other.held.keys()
    assert single <= found.offsets(*LACKING)
    everywhere = found.offsets("damaged-everywhere")
    assert not everywhere & (one.held.keys() | other.held.keys())
    assert one.flipped & other.flipped <= everywhere
    for difference in found.differences:
        if (
            difference["kind"] in ("damaged", "missing", "truncated")
            and difference["records_count"]
        ):
            holder = one if difference["copy_from"] == str(left / "orders-0") else other
            assert difference["offset"] in holder.held
            assert difference["last_offset"] in holder.held


def test_random_changes_cover_all_kinds() -> None:
    """The changes above reach what they are meant to; else they would prove little."""
    some = [Change(seed) for seed in range(1, 60)]
    assert any(change.flipped for change in some)
    assert any(change.compacted for change in some)
    assert any(len(change.held) == len(change.records) for change in some)


CLEAN = Path(__file__).parents[3] / "sample-data" / "clean"
PARTITIONS = sorted({path.parent for path in CLEAN.rglob("*.log") if path.stat().st_size})


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Change some bytes, as disks and hands do."""
    at, size = rng.randrange(len(data)), rng.randrange(1, 300)
    return rng.choice(
        (
            lambda: damage.flip_bit(data, at, rng.randrange(8)),
            lambda: data[:at],
            lambda: data[:at] + bytes(min(64, len(data) - at)) + data[at + 64 :],
            lambda: data[:at] + data[at : at + size] + data[at:],
            lambda: data[:at] + data[at + size :],
            lambda: data[:at] + rng.randbytes(size) + data[at:],
            lambda: data[:at] + rng.randbytes(8) + data[at + 8 :],
        )
    )()


@pytest.mark.parametrize("seed", range(SEED, SEED + (2000 if LONG else 100)))
def test_random_changes_in_real_logs_are_found(seed: int, tmp_path: Path) -> None:
    """All formats and codecs; whatever is changed, no comparison fails and each change is told."""
    rng = random.Random(seed)
    source = rng.choice(PARTITIONS)
    left = comparing.copy_directory(source, tmp_path / "left" / source.name)
    right = comparing.copy_directory(source, tmp_path / "right" / source.name)
    for _ in range(rng.randrange(1, 4)):
        log = rng.choice([path for path in sorted(right.glob("*.log")) if path.stat().st_size])
        log.write_bytes(mutate(log.read_bytes(), rng) or b"\0")
    comparing.age(tmp_path)
    found = compare_directories(*((left, right) if seed % 2 else (right, left)))
    assert not found.errors
    same = all(path.read_bytes() == (left / path.name).read_bytes() for path in right.glob("*.log"))
    assert (found.one["verdict"] == "equal" and not found.differences) is same
    for replica_row in found.one["replicas"]:
        assert replica_row["sound"] or replica_row["path"] == str(right)
