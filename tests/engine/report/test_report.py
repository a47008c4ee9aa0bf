"""`report`: the page of sample data and of a recorded incident, and the evidence behind it."""

import csv
import hashlib
import html
import io
import os
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import Result
from commands import run
from corpus import corpus

from kdump.engine.checks.volumes import Volume
from kdump.engine.why import run as why_run
from kdump.errors import TRACEBACK
from kdump.output.case.pseudonyms import Pseudonyms
from kdump.output.case.summary import _forecast
from kdump.rows.verify import NodeStart
from kdump.storage import passing_sums
from kdump.storage.source import WATCHED, Source

SAMPLES = Path(__file__).parents[3] / "sample-data"
THREE = SAMPLES / "damaged/4.4.0-three-nodes"
NODES = [str(THREE / name) for name in ("n1", "n2", "n3")]
NOW = ("--now", "2026-11-28T00:00Z")


def report(*words: str) -> Result:
    return run("report", *words)


class Page(HTMLParser):
    """Holds a page to what it may have: elements that are closed, no script, no address."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tables = self.drawings = 0
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert tag not in ("script", "img", "link", "iframe", "object")
        assert not {name for name in given if name.startswith("on")} | given.keys() & {"src"}
        self.tables += tag == "table"
        self.drawings += tag == "svg"
        self.ids += [str(given["id"])] if "id" in given else []
        self.targets += [str(given["href"])] if "href" in given else []
        if tag not in ("meta", "rect", "line", "polygon", "polyline"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("rect", "line", "polygon", "polyline"):
            assert self.open.pop() == tag


def test_page_is_complete_and_reproducible_without_script(tmp_path: Path) -> None:
    paths = [tmp_path / "a.html", tmp_path / "b.html"]
    given = (*NOW, "--from", "2026-11-21T00:00Z", *NODES)
    results = [report("--output", str(path), *given) for path in paths]
    assert {result.exit_code for result in results} == {3}
    text = paths[0].read_text()
    assert paths[1].read_text() == text
    assert "default-src 'none'; style-src 'unsafe-inline'" in text.replace("&#x27;", "'")
    rebuilt = [line for line in html.unescape(text).splitlines() if "kdump salvage " in line]
    assert (
        len(rebuilt) == len({line.split("/")[-1] for line in rebuilt}) == 4
    )  # each partition once
    page = Page(text)
    assert page.tables > 8
    assert page.drawings >= 4
    assert {target.removeprefix("#") for target in page.targets} == set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    refused = report("--output", str(paths[0]), *given)
    assert refused.exit_code == 5
    assert paths[0].read_text() == text
    inside = report("--output", f"{NODES[0]}/case.html", *given)
    assert inside.exit_code in (2, 5)
    assert not Path(NODES[0], "case.html").exists()


def test_evidence_lists_the_files() -> None:
    result = report("--format", "csv", "--rows", "evidence-file", "--jobs", "2", *NOW, *NODES)
    listed = {row["path"]: row for row in csv.DictReader(io.StringIO(result.stdout))}
    files = [path for node in NODES for path in Path(node).rglob("*") if path.is_file()]
    assert set(listed) == set(map(str, files))
    for path in files:
        row, data = listed[str(path)], path.read_bytes()
        assert (row["sha256"], row["size_bytes"]) == (
            hashlib.sha256(data).hexdigest(),
            str(len(data)),
        )
        assert row["modified_ms"] == str(path.stat().st_mtime_ns // 1_000_000)
    assert not WATCHED
    one = NODES[0]
    lines = report("--format", "table", "--rows", "evidence-file", *NOW, one).stdout.split()
    of_one = {row["sha256"] for path, row in listed.items() if path.startswith(f"{one}/")}
    assert of_one
    assert of_one <= set(lines)  # none is folded
    result = report("--no-hashes", "--format", "csv", "--rows", "evidence-file", one)
    assert {row["sha256"] for row in csv.DictReader(io.StringIO(result.stdout))} == {""}


def test_many_files_have_one_line_per_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kdump.output.case.case._FILES", 10)
    text = report("--format", "markdown", *NOW, NODES[0]).stdout
    found = re.findall(
        r"^\| (/\S+) \| ([\d,]+) \| (\d+) \| \S+ \| ([0-9a-f]{64}) \|$", text, re.MULTILINE
    )
    assert found
    for escaped, count, size, digest in found:
        directory = Path(escaped.replace("\\", ""))
        files = sorted(path for path in directory.iterdir() if path.is_file())
        lines = [
            f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files
        ]
        assert digest == hashlib.sha256("".join(lines).encode()).hexdigest(), directory
        assert int(count) == len(files)
        assert int(size) == sum(path.stat().st_size for path in files)


def test_incident_is_found_within_a_minute() -> None:
    nodes = [str(corpus(f"incident/data/node-{node}") / f"node-{node}") for node in (1, 2, 3)]
    result = report("--format", "markdown", *NOW, *nodes)
    assert result.exit_code == 3
    summary = result.stdout[: result.stdout.index("## Damage and loss")]
    for said in (
        "Damage at 2 places in 2 partitions: 1 to 11 records",
        "orders-0 offset 131; clicks-0 offsets 20–29.",
        "Another copy here is sound at each place",
        "Brokers lost without a clean stop: 3 at 2026-11-26T00:01:33.511Z, 1 at",
        "Unclean leader election of ledger-0 at 2026-11-26T00:01:56.413Z",
        "| partition without leader | ledger-0 |",
        "| unclean leader election | ledger-0 |",
        "Transactions that did not end: tx-refund, tx-open",
        "orders-0 back from 100 to 30",
    ):
        assert said in summary, said
    alone = report("--format", "markdown", *NOW, nodes[1]).stdout
    assert "is sound at each place" not in alone


def test_names_are_replaced_everywhere() -> None:
    nodes = [str(corpus(f"incident/data/node-{node}") / f"node-{node}") for node in (1, 2, 3)]
    names = "orders clicks stock audit payments sensor ledger temp billing dashboard alice bob"
    told = report("--format", "markdown", *NOW, *nodes).stdout
    hidden = report("--format", "markdown", "--redact", *NOW, *nodes).stdout
    for name in (*names.split(), "tx-settle", "tx-refund", "tx-open", "127.0.0.1", *nodes):
        assert name in told.replace("\\", "")
        assert not re.search(rf"\b{re.escape(name)}\b", hidden.replace("\\", "")), name
    assert hidden.count("TOPIC-4-0") == len(re.findall(r"\borders-0\b", told))


def test_pseudonyms_follow_the_longest_name() -> None:
    made = Pseudonyms(["/d", "/d1"])
    for kind, name in (
        ("topic", "orders"), ("topic", "orders-eu"), ("topic", "a.b"), ("topic", "__internal"),
        ("group", "who is it"), ("host", "fe80::1"),
    ):  # fmt: skip
        made.add(kind, name)
    text = "/d1/orders-eu-12/0.log orders-3: x.orders.y a.b-0.0123-delete, who is it at fe80::1"
    assert made.hide(text) == (
        "DISK-2/TOPIC-3-12/0.log TOPIC-2-3: x.TOPIC-2.y TOPIC-1-0.0123-delete, GROUP-1 at HOST-1"
    )
    assert made.hide("__internal-0 reorders 10.1.2.3") == "__internal-0 reorders HOST"


def test_records_need_the_option(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "damaged/one-bit", tmp_path / "disk")
    root = str(tmp_path / "disk")
    text = report("--format", "markdown", *NOW, root).stdout
    assert "knoll birch" not in text
    shown = report("--format", "markdown", "--records", "2", *NOW, root).stdout
    rows = re.findall(r"^\| orders.zstd-0 \| (\d+) \|", shown, re.MULTILINE)
    assert rows == ["455", "456", "474", "475"]
    assert report("--redact", "--records", "2", root).exit_code == 2
    assert report("--redact", "--format", "csv", root).exit_code == 2


def test_failed_part_is_reported_and_the_others_are_complete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*given: object, **named: object) -> Iterator[object]:
        raise ZeroDivisionError("unforeseen")

    monkeypatch.delenv(TRACEBACK, raising=False)
    monkeypatch.setattr(why_run, "why", fail)
    result = report("--format", "markdown", *NOW, *NODES)
    assert result.exit_code == 3
    assert "Not complete: the part why" in result.stdout
    assert "## Timeline" in result.stdout
    assert "Events in order:" in result.stdout


def test_each_failed_part_is_named_under_its_heading(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: object, **named: object) -> Iterator[object]:
        raise ZeroDivisionError("unforeseen")

    monkeypatch.delenv(TRACEBACK, raising=False)
    for name in ("cluster", "groups", "info", "timeline", "verify", "why"):
        monkeypatch.setattr(f"kdump.engine.{name}.run.{name}", fail)
    text = report("--format", "markdown", *NOW, *NODES).stdout
    named: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        elif "Not complete: the part " in line:
            named.setdefault(heading, []).append(line.split("the part ")[1].split()[0].strip(":"))
    assert named == {
        "Damage and loss": ["verify"], "Timeline": ["timeline"], "Cluster": ["cluster"],
        "Consumer groups": ["groups"], "Disk": ["info", "why"],
    }  # fmt: skip


def test_first_three_nodes_that_do_not_start_are_named() -> None:
    stops = [NodeStart("refuses", "lock", f"why {number}", None, None) for number in range(4)]
    starts = NodeStart("starts", "none", "", None, None)
    case = SimpleNamespace(
        rows=lambda part, kind: [*stops, starts] if kind is NodeStart else [], hide=str
    )
    texts = [block.text for block in _forecast(case)]  # type: ignore[arg-type, union-attr]
    assert texts == [f"A node does not start: why {number}" for number in range(3)]


def test_checksum_is_the_same_for_every_reader(tmp_path: Path) -> None:
    path = tmp_path / "file"
    data = os.urandom(300_000)
    path.write_bytes(data)
    wanted = hashlib.sha256(data).hexdigest()
    for reads in ([], [(0, 300_000)], [(0, 100), (50, 1000), (900, 200_000)], [(5, 10), (0, 7)]):
        sums = passing_sums.watch([str(path), str(tmp_path / "none")])
        with Source(path) as source:
            for position, size in reads:
                source.read(position, size)
        whole, none = passing_sums.finish_sums(sums)
        assert (whole.sha256, whole.size_bytes) == (wanted, 300_000)
        assert (none.sha256, none.text) == (None, "No such file or directory")
    sums = passing_sums.watch([str(path)])
    with Source(path) as source:
        source.read(0, 200_000)
    path.write_bytes(data[::-1][:250_000])
    (changed,) = passing_sums.finish_sums(sums)
    assert changed.sha256 == hashlib.sha256(data[::-1][:250_000]).hexdigest()
    with path.open("wb") as file:
        file.write(b"x")
        file.truncate(5_000_000)
    (hole,) = passing_sums.finish_sums(passing_sums.watch([str(path)]))
    assert hole.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    os.truncate(path, 3 << 30)
    (long,) = passing_sums.finish_sums(passing_sums.watch([str(path)]))
    assert (long.sha256, long.text) == (None, "has more than 1 GiB of holes")


def test_volumes_keep_their_totals_as_spans_grow() -> None:
    volume = Volume(8)
    for second in range(100):
        volume.add(second * 1000, second * 1000 + 500, 10, 2)
    volume.add(-1, -1, 7, 1)
    other = Volume(8)
    other.add(500_000, 500_000, 1, 1)
    volume.join(other)
    assert (volume.size_bytes, volume.records_count) == (1008, 202)
    assert (volume.first_ms, volume.last_ms) == (0, 500_000)
    assert len(volume.spans) <= 8
    assert sum(size for size, _ in volume.spans.values()) == 1001


def test_unread_parts_are_not_called_sound(tmp_path: Path) -> None:
    clean, nothing = SAMPLES / "clean/4.4.0/d1", tmp_path / "nothing"
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "pg_wal").write_bytes(b"x" * 100)
    texts = {}
    for name, paths in (("all", [clean]), ("some", [clean, nothing]), ("none", [foreign])):
        target = tmp_path / f"{name}.md"
        report("--output", str(target), *NOW, *map(str, paths))
        texts[name] = target.read_text()
    assert "No damage was found: every batch is complete." in texts["all"]
    assert "the next start loses no further record" in texts["all"]
    assert "every batch is complete" not in texts["some"] + texts["none"]
    assert "No damage was found in the logs that were read." in texts["some"]
    assert "Nothing was checked for damage: no log was read." in texts["none"]
    assert "loses no further record" not in texts["some"] + texts["none"]
