"""Every damage in the corpora that concerns logs and indexes is found; the control is not.

Both families hold one partition a kind of damage, in the state before the broker opened it. What
other files show (snapshots, checkpoints, names) is no matter here.
"""

import json
from pathlib import Path

import corpus
import pytest
from each import each
from segments import check_logs

ELSEWHERE = "concerns neither a log nor its indexes; other checks find it"
EPOCH = "the leader epoch lies outside every checksum; the epoch checkpoint may tell"
NAMES = "what is left over or lacks shows in names, which other checks read"
CUT = "crc-mismatch"

# Variant -> the code it is found by, or the reason why logs and indexes cannot tell.
MODERN: dict[str, str] = {
    "ok": "",
    "flip-last-crc": CUT,
    "flip-last": CUT,
    "flip-mid-active": CUT,
    "flip-mid-old": CUT,
    "attr-flip-last": CUT,
    "gz-flip-inner": CUT,
    "torn-mid": "torn-tail",
    "torn-header12": "torn-tail",
    "torn-header40": "torn-tail",
    "txn-torn": "torn-tail",
    "len-huge-last": "torn-tail",
    "len-neg-last": "batch-length",
    "len-zero-last": "batch-length",
    "garbage-tail": "batch-length",
    "zeros-tail": "preallocated-tail",  # a note: reserved space looks the same
    "flip-baseoffset-last": "log-end-astray",
    "dup-tail": "offset-not-rising",
    "magic-flip-last": "magic-unknown",
    "count-flip-last": "batch-count",
    "ts-flip-last": "batch-max-timestamp",
    "crcfix-bad-inner": "records-undecodable",
    "no-index-active": "offset-index-missing",
    "no-index-old": "offset-index-missing",
    "no-timeindex-active": "time-index-missing",
    "no-timeindex-old": "time-index-missing",
    "bad-index-old": "offset-index-order",
    "badsize-index-old": "offset-index-size",
    "zero-index-old": "offset-index-zeros",
    "bad-timeindex-old": "time-index-last",
    "badsize-timeindex-old": "time-index-size",
    "empty-log-active": "log-too-short",
    "flip-epoch-last": EPOCH,
    "flip-epoch-old": EPOCH,
    "no-segment-mid": NAMES,
    "swap-left": NAMES,
    "cleaned-left": NAMES,
    "deleted-left": NAMES,
    "orphan-index": NAMES,
    "no-snapshots": ELSEWHERE,
    "bad-snapshot": ELSEWHERE,
    "txn-no-txnindex": ELSEWHERE,
    "txn-bad-txnindex": ELSEWHERE,
    "no-epoch-cache": ELSEWHERE,
    "no-partmeta": ELSEWHERE,
}
# After kill -9 the index of the newest segment has its reserved length, and entries behind the end
# of the log are what a truncation leaves: notes.
STALE = {"offset-index-stale", "time-index-stale"}
OF_CASE: dict[tuple[str, str], set[str]] = {
    ("killed", "empty-log-active"): STALE,
    ("killed-norp", "empty-log-active"): STALE,
}


def codes(path: Path) -> set[str]:
    return {found.code for found in check_logs(path, deep=True)}


def is_code(word: str) -> bool:
    return word not in ("", ELSEWHERE, EPOCH, NAMES)


@pytest.mark.parametrize("case", ["killed", "clean", "killed-norp"])
def test_modern_damage_is_found(case: str) -> None:
    folder = f"modern/recovery/{case}"
    before = corpus.corpus(f"{folder}/before")
    root = corpus.find_shared()
    assert root is not None
    told = json.loads((root / "corpus" / folder / "damage.json").read_text())
    seen = 0
    for topic, members in told.items():
        variant = members["variant"]
        if members.get("fatal"):  # taken out; what is there is sound
            continue
        (path,) = before.rglob(f"{topic}-0")
        word = MODERN[variant]
        wanted = OF_CASE.get((case, variant), {word} if is_code(word) else set())
        assert codes(path) == wanted, (topic, members)
        seen += 1
    assert seen >= 38


@pytest.mark.parametrize("case", ["killed", "clean", "killed-norp"])
def test_modern_damage_that_prevented_the_start(case: str, tmp_path: Path) -> None:
    folder = f"modern/recovery/{case}"
    fatal = corpus.corpus(f"{folder}/fatal")
    found = sorted(path for path in fatal.rglob("rv-*") if path.is_dir())
    assert found
    for path in found:
        variant = path.name.removeprefix("rv-").removesuffix("-0")
        assert MODERN[variant] in codes(path), path


OLD: dict[str, set[str]] = {
    "none": set(),
    "znone": set(),
    "tornmsg": {"torn-tail"},
    "tornhead": {"torn-tail"},
    "tornsize": {"torn-tail"},
    "ztornmsg": {"torn-tail"},
    "negsize": {"torn-tail"},  # twelve bytes, which end a walk before they are looked at
    "fliplast": {CUT},
    "flipmid": {CUT},
    "flipold": {CUT},
    "zfliplast": {CUT},
    "zflipmid": {CUT},
    "zflipold": {CUT},
    "magic9": {CUT},
    "small": {"batch-length"},
    "sizemid": {"batch-length"},
    "sizebig": {"batch-cut-short"},
    "zeros": {"preallocated-tail"},
    "offdown": {"offset-not-rising"},
    "zoffdown": {"offset-not-rising"},
    "noindex": {"offset-index-missing"},
    "noindexl": {"offset-index-missing"},
    "nobothidx": {"offset-index-missing"},
    "emptyidx": {"offset-index-empty"},  # a note: every lookup is right, and slow
    "zeroidx": {"offset-index-zeros"},
    "badidx": {"offset-index-zeros"},
    "oddidx": {"offset-index-size"},
    "lieidx": {"offset-index-position"},
    "notimeidx": {"time-index-missing"},
    "notimeidxl": {"time-index-missing"},
    "zerotime": {"time-index-zeros"},
    "oddtime": {"time-index-size"},
    "badtime": {"time-index-last"},
    # Names only, for other checks: an index without a log, a hole, leftovers.
    "orphan": set(),
    "holeseg": set(),
    "swap": set(),
    "cleaned": set(),
    "deleted": set(),
}


@each(
    "name",
    [
        f"damage-{version}.{run}.before"
        for version in ("01022", "0822")
        for run in ("all", "full", "marker", "unclean")
    ],
)
def test_old_damage_is_found(name: str) -> None:
    found = [path for path in sorted(corpus.corpus(f"old/{name}").rglob("d-*-0")) if path.is_dir()]
    assert len(found) >= 20
    for path in found:
        kind = path.name.removeprefix("d-").removesuffix("-0")
        wanted = OLD[kind]
        if kind == "zeros" and (path.parent / ".kafka_cleanshutdown").exists():
            wanted = {"zero-tail"}
        assert codes(path) == wanted, path


def test_each_old_damage_has_one_finding() -> None:
    for name in ("damage-01022.all.before", "damage-0822.all.before"):
        for path in sorted(corpus.corpus(f"old/{name}").rglob("d-*-0")):
            kind = path.name.removeprefix("d-").removesuffix("-0")
            several = kind == "nobothidx"  # of four segments
            found = check_logs(path, deep=True)
            assert len(found) == (4 if several else len(OLD[kind])), (path, found)
