"""From a seed and a number to one input: files, and what the command is asked about them.

The same pair gives the same input everywhere; that is what a failure report names.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from fuzz import mutations, seeds, traps
from fuzz.seeds import LIMIT, LOG, PRE08, Seeds

HAS_ARROW = find_spec("pyarrow") is not None
FORMS = ("jsonl", "csv", "table", "kafka", *(("arrow", "parquet") if HAS_ARROW else ()))
TRAP_BYTES = 512 << 10
MANY_ROWS = ("records", "words")
REGRESSIONS = Path(__file__).parents[2] / "tests/regressions"


class Run(NamedTuple):
    """One call of `kdump dump`: its mode and form, and the options that are not the default."""

    mode: str
    form: str
    bytes_mode: int
    terminal: bool
    options: dict[str, Any]

    def __str__(self) -> str:
        words = [f"--{self.mode}" if self.mode != "records" else "", f"--format {self.form}"]
        words.append(f"--bytes {('auto', 'utf8', 'hex', 'base64')[self.bytes_mode]}")
        words += [f"{name}={value!r}" for name, value in self.options.items()]
        return " ".join(filter(None, words)) + (" (terminal)" if self.terminal else "")


class Case(NamedTuple):
    """One input. `family` says how it came about."""

    number: int
    family: str
    files: dict[str, bytes]
    target: str
    runs: list[Run]
    fresh: bool  # written this moment, as a live log is, or long ago

    @property
    def size_bytes(self) -> int:
        """All bytes of all files."""
        return sum(map(len, self.files.values()))


def first_run(target: str) -> Run:
    """The plainest question about a file or directory."""
    mode = "records"
    if "." in target or target.endswith(("checkpoint", "quorum-state")):
        mode = "records" if mutations.is_log(target) else "entries"
    return Run(mode, "jsonl", 0, False, {})


def any_run(rng: random.Random, target: str) -> Run:
    """Any other question."""
    first = first_run(target)
    mode = first.mode
    if mode == "records":
        mode = rng.choice(("records", "records", "records", "batches", "batches", "hex", "entries"))
        if mode == "entries" and target.endswith((".log", ".kafka", ".checkpoint")):
            mode = "records"
    form = "table" if mode == "hex" else rng.choice(FORMS)
    options: dict[str, Any] = {}
    if mode == "batches" and rng.random() < 0.5:
        options["deep"] = True
    if mode in ("records", "batches", "hex"):
        for _ in range(rng.choice((0, 0, 0, 1, 2))):
            name, value = _option(rng)
            options[name] = value
        if form == "kafka":
            options.pop("visible", None)
            options.pop("isolation", None)
        elif mode == "records" and rng.random() < 0.25:
            options["visible"] = True
            options["isolation"] = rng.choice(("read_committed", "read_uncommitted"))
    elif rng.random() < 0.1:
        options["limit"] = rng.randrange(5)
    if rng.random() < 0.2:
        options["retired"] = True
    return Run(mode, form, rng.randrange(4), rng.random() < 0.3, options)


def _option(rng: random.Random) -> tuple[str, Any]:
    number = rng.choice((0, 1, 5, 40, 200, 5000, 1 << 40, -1))
    time = rng.choice((0, 1_400_000_000_000, 1_700_000_000_000, 1_763_600_000_000, -5))
    return rng.choice(
        (
            ("from_offset", number), ("to_offset", number), ("from_time_ms", time),
            ("to_time_ms", time), ("limit", rng.randrange(20)), ("key", b"key"),
            ("grep", re.compile(b"v.l")), ("producer_id", rng.choice((-1, 0, 1, 1000))),
            ("control", rng.random() < 0.5), ("decompress_limit", rng.choice((0, 100, 5000))),
        )
    )  # fmt: skip


def make(all_seeds: Seeds, seed: int, number: int) -> Case:
    """Make input `number` of a campaign."""
    rng = random.Random(f"{seed}/{number}")
    chance = rng.random()
    if chance < 0.60:
        family, files, target = "file", *_file(rng, all_seeds)
    elif chance < 0.94:
        family, files, target = "directory", *_directory(rng, all_seeds)
    elif chance < 0.95:
        family, files, target = "bomb", *_bomb(rng)
    else:
        size = rng.choice((2_000, 10_000, 40_000))
        family, files, target = _trap(rng, rng.choice(sorted(TRAPS)), size)
    runs = [first_run(target)]
    runs += [any_run(rng, target) for _ in range(rng.choice((1, 2)))]
    return Case(number, family, files, target, runs, fresh=rng.random() < 0.5)


def _others(rng: random.Random, all_seeds: Seeds) -> Iterator[bytes]:
    while True:
        seed = rng.choice(all_seeds.files)
        yield next(iter(seed.files.values()))


def _file(rng: random.Random, all_seeds: Seeds) -> tuple[dict[str, bytes], str]:
    """Break one file; of a log mostly a few entries only, so that an input costs little."""
    # Half of the inputs are logs, whatever the seeds are.
    seed = rng.choice(all_seeds.files)
    if rng.random() < 0.5:
        while not mutations.is_log(seed.target):
            seed = rng.choice(all_seeds.files)
    target = seed.target
    data = seed.files[target]
    found = mutations.entries(target, data) if mutations.is_log(target) else []
    if len(found) > 3 and rng.random() < 0.8:
        first = rng.randrange(len(found))
        last = min(len(found), first + rng.choice((1, 2, 3, 8, 30))) - 1
        data = data[found[first].start : found[last].end]
    return {target: mutations.mutate(rng, target, data, _others(rng, all_seeds))}, target


def _directory(rng: random.Random, all_seeds: Seeds) -> tuple[dict[str, bytes], str]:
    """Break some files of a directory, or take one away, or give one another name."""
    seed = rng.choice(all_seeds.directories)
    files = dict(seed.files)
    others = _others(rng, all_seeds)
    for _ in range(rng.choice((1, 1, 2, 3))):
        if not files:
            break
        path = rng.choice(sorted(files))
        chance = rng.random()
        if chance < 0.8:
            files[path] = mutations.mutate(rng, path, files[path], others)
        elif chance < 0.86:
            del files[path]
        elif chance < 0.95:
            files[_rename(rng, path)] = files.pop(path)
        else:
            files[path] = b""
    target = seed.target
    if rng.random() < 0.35 and files:
        target = rng.choice(sorted(files))
    return files, target


def _rename(rng: random.Random, path: str) -> str:
    directory, _, name = path.rpartition("/")
    number = rng.choice((0, 7, 50, 1 << 40, (1 << 63) - 1))
    changed = rng.choice((
        name + rng.choice((".deleted", ".swap", ".cleaned", ".tmp", ".bak-20260101T000000Z")),
        f"{number:020d}.{name.rpartition('.')[2]}",
        name[1:] or "x",
        rng.choice((
            "99999999999999999999.log", "-1.log", "7.log", ".log", "ü.log", "a\nb.index",
            "00000000000000000616-0000000003.checkpoint", "remote_log_snapshot",
        )),
    ))  # fmt: skip
    return f"{directory}/{changed}"


def _bomb(rng: random.Random) -> tuple[dict[str, bytes], str]:
    version = rng.choice((0, 1, 2, 2, 2, 7))
    codecs = {2: (1, 2, 3, 4), 7: (1, 2)}.get(version, (1, 2, 3))
    kind = rng.choice(seeds.BOMB_KINDS)
    size = LIMIT // 8 if kind in MANY_ROWS else rng.choice(seeds.BOMB_SIZES)
    data = seeds.bomb(rng.choice(codecs), version, kind, size, rng.choice((1, 1, 2)))
    target = f"t-0/{PRE08 if version == 7 else LOG}"
    if rng.random() < 0.4:
        data = mutations.set_bytes(rng, target, data, b"")
    return {target: mutations.with_checksums(target, data)}, target


TRAPS: dict[str, tuple[str, traps.Trap]] = {
    **{f"log {name}": (LOG, trap) for name, trap in traps.LOG_TRAPS.items()},
    **{f"kafka {name}": (PRE08, trap) for name, trap in traps.PRE08_TRAPS.items()},
    **{f"small {name}": trap for name, trap in traps.SMALL_TRAPS.items()},
}


def _trap(rng: random.Random, name: str, size: int) -> tuple[str, dict[str, bytes], str]:
    file, make_trap = TRAPS[name]
    target = f"t-0/{file}"
    files = {target: make_trap(rng, size)}
    if name.startswith(("small index", "small time")):
        # An index is checked against its log, so there is one, of many small batches.
        files[f"t-0/{LOG}"] = traps.LOG_TRAPS["good"](rng, size)
        if "time" in name:
            layout = traps.SMALL_TRAPS["index-rising"][1]
            files["t-0/00000000000000000000.index"] = layout(rng, size // 4)
    return f"trap {name}", files, target


def trap_case(name: str, size: int, number: int, *, every_form: bool = True) -> Case:
    """Make a trap of some size, with every question that goes with its file.

    Forms that only write what the plainest question reads can be asked of a trap in turn.
    """
    rng = random.Random(name)
    family, files, target = _trap(rng, name, size)
    first = first_run(target)
    runs = [first]
    if first.mode == "records":
        forms = [form for form in FORMS if form not in ("jsonl", "kafka", "parquet")]
        runs += [Run("records", form, 0, False, {}) for form in _in_turn(forms, number, every_form)]
        runs += [
            Run("records", "kafka", 0, False, {}),
            Run("batches", "jsonl", 0, False, {"deep": True}),
            Run("batches", "kafka", 0, False, {}),
            Run("hex", "table", 0, False, {}),
            Run("records", "jsonl", 0, False, {"visible": True, "isolation": "read_committed"}),
            Run("records", "jsonl", 0, False, {"from_offset": 1000}),
        ]
        if target.endswith(".kafka"):
            runs = [run for run in runs if run.form != "kafka"]
    else:
        forms = [form for form in FORMS if form not in ("jsonl", "kafka")]
        runs += [Run("entries", form, 0, False, {}) for form in _in_turn(forms, number, every_form)]
        runs.append(Run("entries", "kafka", 0, False, {}))
    return Case(number, family, files, target, runs, fresh=False)


def _in_turn(forms: list[str], number: int, every_form: bool) -> list[str]:
    return forms if every_form else [forms[number % len(forms)]]


def bomb_cases() -> Iterator[Case]:
    """Every codec and version with every kind of plain text, once just below the limit."""
    number = 0
    for version, codecs in ((2, (1, 2, 3, 4)), (1, (1, 2, 3)), (0, (1, 2, 3)), (7, (1, 2))):
        for kind in seeds.BOMB_KINDS:
            for at, codec in enumerate(codecs):
                size = seeds.BOMB_SIZES[(number + at) % 2 if at % 2 else -1]
                if kind in MANY_ROWS:  # a second of work for each MiB, and no memory
                    size = LIMIT // 8
                target = f"t-0/{PRE08 if version == 7 else LOG}"
                data = seeds.bomb(codec, version, kind, size, 2)
                forms = [form for form in FORMS if version != 7 or form != "kafka"]
                few = len(forms) if kind == "headers" else 2
                runs = [
                    Run("records", forms[(number + nth) % len(forms)], number % 4, False, {})
                    for nth in range(few)
                ]
                runs.append(Run("hex", "table", 0, False, {}))
                runs.append(Run("batches", "jsonl", 0, False, {"deep": True}))
                family = f"bomb v{version} codec {codec} {kind}"
                yield Case(number, family, {target: data}, target, runs, fresh=False)
                number += 1


def regression_cases() -> Iterator[Case]:
    """Every input that once broke us, with every question: files `what@name` and directories."""
    for number, path in enumerate(sorted(REGRESSIONS.iterdir())):
        what, _, name = path.name.partition("@")
        if path.is_dir() and path.name.endswith("-0"):
            files = {f"{path.name}/{file.name}": file.read_bytes() for file in path.iterdir()}
            target = path.name
        elif name:
            files = {f"t-0/{name}": path.read_bytes()}
            target = f"t-0/{name}"
        else:
            continue
        modes = ["records", "batches", "hex", "entries"]
        if name:
            modes = modes[:3] if mutations.is_log(target) else modes[3:]
        runs = [first_run(target)]
        for mode in modes:
            for nth, form in enumerate(FORMS if mode != "hex" else ("table",)):
                if not (form == "kafka" and name.endswith(".kafka")):
                    deep = {"deep": True} if mode == "batches" else {}
                    runs.append(Run(mode, form, nth % 4, nth % 2 == 1, deep))
        if "records" in modes:
            seen = {"visible": True, "isolation": "read_committed"}
            runs.append(Run("records", "jsonl", 0, False, seen))
        runs = [run for nth, run in enumerate(runs) if run not in runs[:nth]]
        yield Case(number, f"regression {what}", files, target, runs, fresh=False)
