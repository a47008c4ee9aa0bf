"""The kernels alone: one process, no start-up, no command line, floors in the same rounds.

    python tools/benchmarks/own.py DIRECTORY [--floors EXECUTABLE]

Steps build on each other: each reads the file anew in blocks, as the storage layer does, and does
all the work named. Floors report the processor time of their main(); peers get the whole file in
memory. Columns of headers, keys and values are made as the Arrow writer needs them.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    sys.path.insert(0, str(here))
    sys.path.append(str(here.parent.parent))  # the checkout serves where kdump is not installed

from check import Found
from generate import CODECS, HEAD_BYTES, Case, load
from measure import figure, ratio, table

from kdump.kernels.columns import Columns, RecordBatches

Buffer = bytes | bytearray | memoryview

BLOCK_SIZE = 256 * 1024
BATCHES_MAX = 1 << 15
RECORDS_MAX = 1 << 16
DECOMPRESS_LIMIT = 64 << 20
HEAD = b'"topic":"orders","partition":0,"segment":0'

Result = tuple[int, int]  # records, bytes made


class Wrong(Exception):
    """A step found something else than what was written."""


def blocks(path: Path, *, check_crc: bool = True) -> Iterator[tuple[memoryview, int, Columns]]:
    """Walk a file in blocks: yields the block, where it starts, and batch columns.

    One buffer serves for all of them.
    """
    from kdump import kernels
    from kdump.kernels import columns, reasons

    view = memoryview(bytearray(BLOCK_SIZE))
    position, last_offset = 0, -1
    file = os.open(path, os.O_RDONLY)
    try:
        while size := os.preadv(file, [view], position):
            stop, reason = 0, reasons.FULL
            while reason == reasons.FULL:
                batches, stop, reason = kernels.walk(
                    view, stop, size, position, last_offset, check_crc, BATCHES_MAX
                )
                if batches.count:
                    last_offset = batches.value(columns.B_LAST_OFFSET, batches.count - 1)
                    yield view, position, batches
            if stop == 0:
                raise Wrong(f"no batch at {position}")
            position += stop
    finally:
        os.close(file)


def read(path: Path, case: Case) -> Result:
    """Read in blocks and look at nothing."""
    view = memoryview(bytearray(BLOCK_SIZE))
    position = 0
    file = os.open(path, os.O_RDONLY)
    try:
        while size := os.preadv(file, [view], position):
            position += size
    finally:
        os.close(file)
    return case.records, position


def _walk(path: Path, case: Case, *, check_crc: bool) -> Result:
    from kdump.kernels import columns

    batches_count = flags = last_offset = end = 0
    for _, _, batches in blocks(path, check_crc=check_crc):
        batches_count += batches.count
        flags |= batches.flags
        last = batches.count - 1
        last_offset = batches.value(columns.B_LAST_OFFSET, last)
        end = batches.value(columns.B_POSITION, last) + batches.value(columns.B_SIZE, last)
    if flags & columns.WRONG or batches_count != case.batches:
        raise Wrong(f"flags {flags:x}, {batches_count} batches")
    return last_offset + 1, end


def walk(path: Path, case: Case) -> Result:
    """Walk the headers and check every CRC."""
    return _walk(path, case, check_crc=True)


def hop(path: Path, case: Case) -> Result:
    """Walk the headers only."""
    return _walk(path, case, check_crc=False)


def payloads(view: memoryview, base: int, batches: RecordBatches) -> Iterator[tuple[int, Buffer]]:
    """Decompress each batch of a run of compressed ones."""
    from kdump.kernels import columns
    from kdump.record.compression import decompress

    positions, sizes = batches.column(columns.B_POSITION), batches.column(columns.B_SIZE)
    attributes = batches.column(columns.B_ATTRIBUTES)
    for index in range(batches.count):
        start = positions[index] - base
        packed = view[start + HEAD_BYTES : start + sizes[index]]
        plain = decompress(attributes[index] & 7, packed, DECOMPRESS_LIMIT).data
        if plain is None:
            raise Wrong(f"batch {index} does not decompress")
        yield index, plain


def decompress_only(path: Path, case: Case) -> Result:
    """Walk and decompress; records are not looked at."""
    made = 0
    for view, base, batches in blocks(path):
        for _, plain in payloads(view, base, batches):
            made += len(plain)
    return case.records, made


def runs(path: Path) -> Iterator[tuple[Buffer, Columns, Columns]]:
    """Decode: yields data, batch columns and record columns, of plain and compressed batches."""
    from kdump import kernels
    from kdump.kernels import columns, reasons

    for view, base, batches in blocks(path):
        if batches.flags & columns.COMPRESSED:
            for index, plain in payloads(view, base, batches):
                records, _, reason = kernels.decode_records(
                    plain, 0, len(plain), batches, index, 0, RECORDS_MAX
                )
                if reason != reasons.END:
                    raise Wrong(f"batch {index}: reason {reason}")
                yield plain, batches, records
            continue
        first = 0
        while first < batches.count:
            records, first, _, reason = kernels.decode_run(view, base, batches, first, RECORDS_MAX)
            if reason not in (reasons.END, reasons.FULL):
                raise Wrong(f"batch {first}: reason {reason}")
            yield view, batches, records


def decode(path: Path, case: Case) -> Result:
    """Decode every record into columns."""
    del case
    return sum(records.count for _, _, records in runs(path)), 0


def json_lines(path: Path, case: Case) -> Result:
    """Decode and write JSON Lines to nowhere."""
    from kdump import kernels
    from kdump.output.text_forms import json_form

    del case
    form = json_form(HEAD, 0)
    rows = made = 0

    def write(piece: Buffer) -> None:
        nonlocal made
        made += len(piece)

    for data, batches, records in runs(path):
        rows += kernels.format_records(write, data, batches, records, None, form)
    return rows, made


def arrow_columns(path: Path) -> Iterator[tuple[int, Buffer, Buffer, int]]:
    """Gather the buffers of record batches; yields rows, keys, values and the size of the last."""
    from kdump import kernels
    from kdump.kernels import gather_buffers as g
    from kdump.output.arrow_columns import COPIES

    into = g.GatherBuffers(
        *(1 << 15, 1 << 16),
        keys=4 << 20,
        values=16 << 20,
        names=1 << 20,
        contents=4 << 20,
        copies=COPIES,
    )

    def made() -> tuple[int, Buffer, Buffer, int]:
        rows = into.counts[g.N_ROWS]
        ends = [
            memoryview(into.buffers[of]).cast("i")[rows] for of in (g.G_KEY_ENDS, g.G_VALUE_ENDS)
        ]
        keys = memoryview(into.buffers[g.G_KEYS])[: ends[0]]
        values = memoryview(into.buffers[g.G_VALUES])[: ends[1]]
        bits = (*g.BITS[: g.G_NAME_ENDS], *(copy.bits for copy in COPIES))
        size = sum(bits) * rows // 8 + len(keys) + len(values)
        return rows, keys, values, size

    for data, batches, records in runs(path):
        first = 0
        while True:
            first += kernels.gather(into, data, batches, records, None, first)
            if first == records.count:
                break
            yield made()
            into.clear()
    if into.counts[g.N_ROWS]:
        yield made()


def arrow(path: Path, case: Case) -> Result:
    """Decode and make the buffers of Arrow columns."""
    del case
    rows = made = 0
    for count, _, _, size in arrow_columns(path):
        rows += count
        made += size
    return rows, made


def peer_aiokafka(path: Path, case: Case) -> Result:
    """Peer: aiokafka's compiled reader, with its CRC check, each record made and dropped."""
    from aiokafka.record import MemoryRecords  # type: ignore[import-not-found,unused-ignore]

    del case
    records = 0
    source = MemoryRecords(path.read_bytes())
    while (batch := source.next_batch()) is not None:
        if not batch.validate_crc():
            raise Wrong("aiokafka: CRC")
        for _ in batch:
            records += 1
    return records, 0


def verify(path: Path, case: Case) -> None:
    """Once, untimed: what the steps make is what was written."""
    from kdump import kernels
    from kdump.output.text_forms import json_form

    form = json_form(HEAD, 0)
    found, keys_crc, values_crc = Found(), 0, 0
    rest = b""

    def write(piece: Buffer) -> None:
        nonlocal rest
        lines = (rest + bytes(piece)).split(b"\n")
        rest = lines.pop()
        for line in lines:
            found.json_line(line)

    for data, batches, records in runs(path):
        kernels.format_records(write, data, batches, records, None, form)
    for _, keys, values, _ in arrow_columns(path):
        keys_crc, values_crc = zlib.crc32(keys, keys_crc), zlib.crc32(values, values_crc)
    wanted = (case.records, case.keys_crc, case.values_crc)
    for name, answer in (
        ("JSON", (found.records, found.keys_crc, found.values_crc)),
        ("Arrow", (case.records, keys_crc, values_crc)),
    ):
        if answer != wanted:
            raise Wrong(f"{case.name}: {name} has {answer}, written were {wanted}")


def floor(executable: Path, mode: str) -> Callable[[Path, Case], Result]:
    """Make a step of a C program; it knows its own processor time."""

    def step(path: Path, case: Case) -> Result:
        answer = json.loads(subprocess.check_output([str(executable), mode, str(path)]))
        if mode != "read" and (answer["batches"], answer["bad"]) != (case.batches, 0):
            raise Wrong(f"{mode}: {answer}")
        step.seconds = answer["cpu_ns"] / 1e9  # type: ignore[attr-defined]
        return case.records, answer["bytes"]

    return step


def steps_for(case: Case, floors: Path | None) -> dict[str, Callable[[Path, Case], Result]]:
    """Choose the steps that make sense for a case."""
    version = 1 if case.magic < 2 else 2
    steps: dict[str, Callable[[Path, Case], Result]] = {}
    if floors is not None:
        steps["C floor: read"] = floor(floors, "read")
        steps["C floor: read, CRC"] = floor(floors, f"walk{version}")
        steps["C floor: mmap, CRC"] = floor(floors, f"map{version}")
    steps |= {"read": read, "walk, no CRC": hop, "walk": walk}
    if CODECS[case.codec]:
        steps["walk, decompress"] = decompress_only
    steps |= {"decode": decode, "decode, JSON": json_lines, "decode, Arrow columns": arrow}
    if find_spec("aiokafka"):
        steps["aiokafka"] = peer_aiokafka
    return steps


def measure(
    directory: Path, case: Case, floors: Path | None, rounds: int
) -> dict[str, list[float]]:
    """Run all steps of a case round by round; returns processor seconds."""
    path = directory / case.path
    verify(path, case)
    steps = steps_for(case, floors)
    answers: dict[str, Result] = {}
    times: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(rounds + 1):  # the first is for warming up
        for name, step in steps.items():
            began = time.process_time()
            answer = step(path, case)
            seconds = getattr(step, "seconds", time.process_time() - began)
            if answer != answers.setdefault(name, answer) or answer[0] != case.records:
                raise Wrong(f"{case.name}, {name}: {answer}, before {answers[name]}")
            if number > 0:
                times[name].append(seconds)
    return times


def report(case: Case, times: dict[str, list[float]]) -> str:
    """Show one case."""
    references = [name for name in ("C floor: read, CRC", "walk, decompress") if name in times]
    heads = ["", "CPU ms", "min", "ns/record", "GiB/s"] + [f"/ {name}" for name in references]
    rows = []
    for name, seconds in times.items():
        middle = sorted(seconds)[len(seconds) // 2]
        row = [
            name,
            f"{1000 * middle:.2f}",
            f"{1000 * min(seconds):.2f}",
            figure(1e9 * middle / case.records),
            figure(case.plain_bytes / middle / 2**30),
        ]
        rows.append(row + [figure(ratio(seconds, times[name])) for name in references])
    return table(heads, rows)


def main() -> None:
    """Measure the kernels on every case there is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, help="where generate.py wrote")
    parser.add_argument("--floors", type=Path, help="the built floors.c")
    parser.add_argument("--cases", help="default: all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write all figures there")
    arguments = parser.parse_args()
    cases = load(arguments.directory)
    wanted = arguments.cases.split(",") if arguments.cases else list(cases)
    everything = {}
    for name in wanted:
        times = measure(arguments.directory, cases[name], arguments.floors, arguments.rounds)
        everything[name] = times
        print(f"\n{name}, kernels alone\n{report(cases[name], times)}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(everything) + "\n")


if __name__ == "__main__":
    main()
