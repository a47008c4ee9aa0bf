"""`--format kafka` on the files of old brokers, against kafka-dump-log 4.1.1 on the same files.

Where the tool runs to its end, both streams are the same, byte for byte. Where it dies (exit
status 1), kdump says why on standard error and goes on, so the tool's text is the beginning of
ours. One line may differ there: the tool prints the start of a record's line and dies at the
payload, when a size inside the record runs past its end; kdump has no such record.
"""

from collections import Counter
from pathlib import Path

import pytest
from corpus import corpus_to_let_go, names
from oracle import oracle

from kdump.engine.kafka_text.dump import kafka_dump
from kdump.engine.reading.options import DumpOptions
from kdump.errors import KdumpError
from kdump.findings.finding import Finding
from kdump.output.kafka_text import KafkaText

pytestmark = pytest.mark.oracle

ARCHIVES = [name for name in names("old") if not name.startswith("old/v07-")]

_DEEP = ("--deep-iteration", "--print-data-log")
_MODES: dict[str, dict[str, tuple[str, ...]]] = {
    ".log": {"records": _DEEP, "batches": ()},
    ".index": {"entries": ()},
    ".timeindex": {"entries": ()},
    ".txnindex": {"entries": ()},
    ".snapshot": {"entries": ()},
}


def ours(path: Path, mode: str) -> tuple[str, list[str], bool]:
    """Give standard output, the lines on standard error, and whether the tool would have died."""
    text = bytearray()
    complaints: list[str] = []
    sink = KafkaText(text.extend, complaints.append, terminal=False)
    for item in kafka_dump([str(path)], DumpOptions(mode=mode)):
        assert not isinstance(item, KdumpError)
        if not isinstance(item, Finding):
            sink.write(item)
    sink.finish()
    said = [line for line in complaints if not line.startswith("kdump: ")]
    return text.decode("utf-8", "surrogateescape"), said, len(said) < len(complaints)


@pytest.mark.parametrize("name", ARCHIVES)
def test_text_equals_the_tool(name: str) -> None:
    asked = oracle()
    differences = {}
    done: Counter[str] = Counter()
    for path in sorted((corpus_to_let_go(name) / "data").rglob("*")):
        for mode, options in _MODES.get(path.suffix, {}).items():
            theirs = asked.ask("dump", args=[*options, "--files", str(path)])
            text, said, died = ours(path, mode)
            where = f"{path.parent.name}/{path.name} {mode}"
            if theirs["exit"] == 0:
                if text != theirs["stdout"] or said != theirs["stderr"] or died:
                    differences[where] = first_difference(text, theirs["stdout"], said)
            else:
                done["died"] += 1
                if not begins(text, theirs["stdout"]):
                    differences[where] = first_difference(text, theirs["stdout"], said)
            done[path.suffix] += 1
    assert differences == {}
    assert done[".log"] > 5
    if ".clean" in name:
        # Only on what wrong produce requests left.
        assert done["died"] <= 4


def begins(text: str, theirs: str) -> bool:
    """Whether the text of a tool that died is the beginning of ours, but for a last record."""
    if text.startswith(theirs):
        return True
    kept, _, last = theirs.removesuffix("\n").rpartition("\n")
    return last.startswith("| offset: ") and text.startswith(kept + "\n")


def first_difference(text: str, theirs: str, said: list[str]) -> str:
    for number, (left, right) in enumerate(
        zip(text.splitlines(), theirs.splitlines(), strict=False)
    ):
        if left != right:
            return f"line {number}: {left!r}, theirs {right!r}"
    return f"{len(text)} characters, theirs {len(theirs)}; standard error: {said}"
