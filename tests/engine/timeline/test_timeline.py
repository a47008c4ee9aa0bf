"""`timeline`: recorded incidents, sample data, and how clocks are bounded."""

import json
import lzma
import os
import re
import shutil
import struct
import subprocess
import sys
from collections import Counter
from datetime import datetime
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest
from builders import with_right_crc
from commands import run
from corpus import corpus, find_expected, find_shared
from long_runs import LONG
from tiered import moment

import kdump
from kdump.engine.timeline.headers import EpochTies
from kdump.engine.timeline.leaders import Leaders, Term
from kdump.engine.timeline.options import WHAT, TimelineOptions
from kdump.engine.timeline.raw_event import Marker, RawEvent, Step, unpack
from kdump.engine.timeline.replica import Item, Replica, read_item
from kdump.engine.timeline.run import _transaction_ties
from kdump.engine.timeline.sources import SOURCES
from kdump.engine.work.spool import Spool, merge_runs
from kdump.rows.timeline import Event
from kdump.storage.source import Source

SAMPLES = Path(__file__).parents[3] / "sample-data"
THREE = SAMPLES / "damaged/4.4.0-three-nodes"
TRANSACTIONS = SAMPLES / "clean/4.4.0-transactions"


def events(*paths: Path, **asked: Any) -> list[Event]:
    return [one for one in kdump.open(*paths).timeline(**asked) if isinstance(one, Event)]


LEFT = [("123", ""), ("123", "-no-times"), ("2", "")]
if LONG:
    LEFT = list(product(("123", "12", "13", "23", "1", "2", "3"), ("", "-no-times")))


@pytest.mark.parametrize(("nodes", "times"), LEFT)
def test_incident_is_reconstructed_from_any_disks(nodes: str, times: str, tmp_path: Path) -> None:
    paths = [corpus(f"incident/data/node-{node}{times}") / f"node-{node}" for node in nodes]
    told = run("timeline", "--format", "jsonl", *paths)
    assert told.exit_code == 0, told.output
    answer = tmp_path / "answer.jsonl"
    answer.write_text(told.stdout)
    root = find_shared()
    assert root is not None
    check = [sys.executable, str(root / "corpus/incident/check.py"), "--answer", str(answer), "-v"]
    check += ["--only", ",".join(nodes)] if nodes != "123" else []
    check += ["--no-times"] if times else []
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[:2000]


def test_events_are_ordered_and_unique() -> None:
    found = events(THREE)
    assert {"format", "leader", "topic-create", "start-clean", "isr"} <= {one.what for one in found}
    shared_by_all = [
        (one.what, one.subject, one.topic, one.offset) for one in found if one.clock == "controller"
    ]
    assert shared_by_all
    assert len(shared_by_all) == len({*shared_by_all})
    bounded = [
        (one.at_earliest_ms, one.at_latest_ms)
        for one in found
        if one.at_earliest_ms is not None and one.at_latest_ms is not None
    ]
    assert all(a + b <= c + d for (a, b), (c, d) in pairwise(bounded))


def test_open_transactions_are_included() -> None:
    found = [one for one in events(TRANSACTIONS) if one.what.startswith("transaction")]
    assert {one.what for one in found} >= {"transaction-begin", "transaction-commit"}
    hanging = {one.subject for one in found if one.what == "transaction-hangs"}
    assert "tx-beta" in hanging


def test_only_selected_events_are_printed() -> None:
    every = events(SAMPLES / "clean/4.4.0")
    back = events(SAMPLES / "clean/4.4.0", group="billing")
    assert {one.subject for one in back} == {"billing"}
    assert "commit-back" in {one.what for one in back}
    assert "commit" not in {one.what for one in back}
    only = events(SAMPLES / "clean/4.4.0", what=("commit", "roll"))
    assert {one.what for one in only} <= {"commit", "roll"}
    at_ms = next(one.at_ms for one in every if one.what == "commit-back")
    assert at_ms is not None
    near = events(SAMPLES / "clean/4.4.0", around_ms=at_ms, within_ms=1)
    assert near
    assert len(near) < len(every)


def test_events_survive_the_spool() -> None:
    event = RawEvent("leader", "o\udcffrders\n-1", "x\0y", "orders", 1, 7, at_ms=-5, path="\0")
    key, read = unpack(event.pack())
    assert read == event
    back = event._replace(what="commit-back").pack()
    assert unpack(back)[0] != key
    assert back < event._replace(what="commit").pack()


def test_table_merges_similar_events() -> None:
    plain, detail = (
        run("timeline", "--format", "table", *more, THREE).stdout for more in ([], ["--detail"])
    )
    assert 0 < len(plain.splitlines()) < len(detail.splitlines())
    assert " events: " in plain
    assert " events: " not in detail


def test_span_around_a_time_selects_events() -> None:
    words = ["timeline", "--around", "2026-11-22T12:21:23Z", "--within", "2s", "--format", "jsonl"]
    told = run(*words, "--group", "billing", SAMPLES / "clean/4.4.0")
    rows = [json.loads(line) for line in told.stdout.splitlines()]
    assert [row["what"] for row in rows if row["row"] == "event"] == [
        "group-empty",
        "commit-back",
        "commit-back",
    ]


def test_exclusive_options_are_refused() -> None:
    for words in (
        ["--around", "03:12", "--from", "03:00"],
        ["--within", "5m"],
        ["--skew", "none", "--skew", "1=5"],
        ["--skew", "one=5"],
        ["--what", "nothing"],
    ):
        result = run("timeline", *words, THREE)
        assert result.exit_code == 2, result.output


def test_given_skew_is_used() -> None:
    words = ["timeline", "--skew", "1=40000", "--what", "topic-create", str(THREE)]
    for line in run(*words, "--format", "jsonl").stdout.splitlines():
        row = json.loads(line)
        if row["row"] == "event" and row["clock_of"] == 1:
            assert row["at_ms"] - 40000 == row["at_earliest_ms"] == row["at_latest_ms"]


def test_large_log_is_hardly_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of 70 MiB whose index was made at its full size, with a batch at its end."""
    home = SAMPLES / "clean/4.4.0/d1/orders-0"
    data = (home / f"{0:020}.log").read_bytes()
    batch = data[: 12 + int.from_bytes(data[8:12], "big")]
    large = tmp_path / "large-0"
    large.mkdir()
    end = (70 << 20) - len(batch)
    with (large / f"{0:020}.log").open("wb") as log:
        log.write(batch)
        log.seek(end)
        log.write(struct.pack(">q", 1_000_000) + batch[8:])
    with (large / f"{0:020}.index").open("wb") as index:
        index.write(struct.pack(">ii", 1_000_000, end))
        index.truncate(10 << 20)
    read = [0]
    plain, into = Source.read, Source.read_into

    def counted(self: Source, position: int, size: int) -> bytes:
        found = plain(self, position, size)
        read[0] += len(found)
        return found

    def counted_into(self: Source, *given: Any) -> int:
        found = into(self, *given)
        read[0] += found
        return found

    monkeypatch.setattr(Source, "read", counted)
    monkeypatch.setattr(Source, "read_into", counted_into)
    events(tmp_path)
    assert 0 < read[0] < (70 << 20) // 100


def test_replicas_with_few_events_share_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = SAMPLES / "clean/4.4.0/d1/orders-0"
    for number in range(20):
        shutil.copytree(home, tmp_path / f"orders-{number}")
    written, flush = [], Spool.flush

    def counted(spool: Spool) -> None:
        written.append(spool)
        flush(spool)

    monkeypatch.setattr(Spool, "flush", counted)
    assert len({one.partition for one in events(tmp_path)}) == 20
    assert len(written) == 2  # of all events, and of those in the order of time


def test_exports_contain_every_event_with_a_time() -> None:
    rows, sketch, body = (
        run("timeline", "--format", form, THREE).stdout.splitlines()
        for form in ("jsonl", "timesketch", "bodyfile")
    )
    dated = [row for row in map(json.loads, rows) if row["row"] == "event"]
    dated = [row for row in dated if any(row[name] is not None for name in row if "_ms" in name)]
    told = list(map(json.loads, sketch))
    assert len(dated) == len(told) == len(body) > 100
    for row, one, line in zip(dated, told, body, strict=True):
        assert one["message"] == f"{row['what']} {row['subject']}: {row['text']}"
        at = datetime.fromisoformat(one["datetime"]).timestamp()
        assert round(at * 1_000_000) == one["timestamp"]
        fields = line.split("|")
        assert len(fields) == 11
        assert fields[7:] == [str(one["timestamp"] // 1_000_000)] * 4
    for words in (["--rows", "event"], ["--output", "there/"]):
        words = ["timeline", "--format", "bodyfile", *words, str(THREE)]
        assert run(*words).exit_code == 2


def test_only_certain_markers_bound_clocks() -> None:
    def step(state: str, clock: int, at_ms: int) -> Step:
        return Step(7, 0, state, clock, at_ms, "tx", ("a-0", "b-0"))

    decided = [step("PrepareCommit", 1, 100), step("CompleteCommit", 1, 130)]
    markers = [Marker(7, 0, 2, 110, "a-0"), Marker(7, 0, 3, 120, "b-0")]
    ties = list(_transaction_ties(decided, markers))
    assert {(tie.first, tie.second) for tie in ties} == {(1, 2), (2, 1), (1, 3), (3, 1)}
    # One of an earlier transaction of the same epoch, in a partition of both and in one of its own.
    earlier = [*markers, Marker(7, 0, 2, 50, "a-0"), Marker(7, 0, 4, 50, "c-0")]
    ties = list(_transaction_ties(decided, earlier))
    assert {(tie.first, tie.second) for tie in ties} == {(1, 3), (3, 1)}
    # Compaction left the end of the one before, or the end is not known.
    for known in (
        [step("PrepareCommit", 1, 100), step("CompleteCommit", 1, 60)],
        [step("PrepareCommit", 1, 100)],
        [*decided, step("PrepareAbort", 1, 20)],
        [step("PrepareCommit", 1, 100), step("CompleteCommit", 2, 130)],
    ):
        assert not list(_transaction_ties(known, markers))


def test_remote_segments_are_dated_by_their_broker() -> None:
    data, _ = moment("last")
    lines = lzma.decompress(find_expected("tiered/last/remote-metadata.jsonl.xz").read_bytes())
    words = {"COPY_SEGMENT_FINISHED": "tier-copy", "DELETE_SEGMENT_FINISHED": "tier-delete"}
    wanted = {
        (
            *(row["metadata_partition"], row["offset"], words[row["state"]], row["event_ms"]),
            *(row["broker_id"], f"{row['topic']}-{row['partition']}"),
        )
        for row in map(json.loads, lines.splitlines())
        if row.get("state") in words
    }
    found = events(Path(data), what=("tier-copy", "tier-delete"))
    told = [
        (f"{one.topic}-{one.partition}", one.offset, one.what, one.at_ms, one.clock_of, one.subject)
        for one in found
    ]
    assert len(told) == len(wanted) > 200
    assert set(told) == wanted
    assert not events(Path(data), what=("gap", "file-changed"))


def test_missing_segment_is_a_gap(tmp_path: Path) -> None:
    source = SAMPLES / "clean/4.1.1/d1"
    copy = tmp_path / "d1"
    shutil.copytree(source, copy)
    assert not events(copy, what=("gap",))
    logs = sorted((copy / "orders.zstd-0").glob("*.log"))
    bases = [int(log.stem) for log in logs]
    for path in (copy / "orders.zstd-0").glob(f"{logs[1].stem}.*"):
        path.unlink()
    (gap,) = events(copy, what=("gap",))
    assert (gap.subject, gap.offset) == ("orders.zstd-0", bases[1])
    assert gap.text == f"no segment contains offsets {bases[1]:,} to {bases[2] - 1:,}"


def test_file_times_date_replicas_and_later_changes(tmp_path: Path) -> None:
    node = tmp_path / "node-1"
    shutil.copytree(corpus("incident/data/node-1") / "node-1", node)
    assert not events(node, what=("file-changed",))
    began = events(node, what=("file-created",))
    assert {one.subject for one in began} >= {"orders-0", "clicks-1", "__cluster_metadata-0"}
    for one in began:
        modified = Path(one.evidence["path"]).stat().st_mtime_ns // 1_000_000
        assert (one.clock, one.clock_of, one.at_ms) == ("file", 1, modified)
    log = min((node / "clicks-0").glob("*.log"))
    os.utime(log, (1_800_000_100, 1_800_000_100))
    (changed,) = events(node, what=("file-changed",))
    assert (changed.evidence["path"], changed.at_ms) == (str(log), 1_800_000_100_000)


def test_single_records_are_added_once() -> None:
    found = events(*sorted(THREE.iterdir()), what=("leader",), grep=re.compile(b"."))
    records = [one for one in found if one.what == "record"]
    places = [(one.topic, one.partition, one.offset) for one in records]
    assert records
    assert {one.what for one in found} <= {"leader", "record"}
    read = kdump.open(*sorted(THREE.iterdir())).records(grep=b".")
    wanted = {
        (one.topic, one.partition, one.offset)
        for one in read
        if isinstance(one, kdump.RecordRow) and one.control is None
    }
    assert set(places) == wanted
    disks = [SAMPLES / "clean/4.4.0/d1", SAMPLES / "clean/4.4.0/d2"]
    kept = [
        one for one in kdump.open(*disks).records(key=b"k355") if not isinstance(one, kdump.Finding)
    ]
    only = [one for one in events(*disks, what=("leader",), key=b"k355") if one.what == "record"]
    places = {(one.topic, one.partition, one.offset) for one in only}
    assert places == {(one.topic, one.partition, one.offset) for one in kept}
    assert all("k355 = " in one.text for one in only)
    assert only


def test_early_end_of_a_replica_makes_no_hanging_transaction(tmp_path: Path) -> None:
    """The broker that goes on for longest has the marker, and the end in the coordinator's log."""
    whole = TRANSACTIONS / "d2"
    short = tmp_path / "d3"
    shutil.copytree(whole, short)
    meta = short / "meta.properties"
    meta.write_text(re.sub(r"node.id=\d+", "node.id=33", meta.read_text()))
    for name in ("customers-0", "__transaction_state-0"):
        (log,) = (short / name).glob("*.log")
        data = log.read_bytes()
        position = end = 0
        while position < len(data):
            is_control = bool(data[position + 22] & 0x20)
            if is_control or (name[0] == "_" and b"\4" in data[position + 80 : position + 110]):
                break
            end = position
            position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        log.write_bytes(data[: position if name[0] != "_" else end])
    hangs = [
        {(one.subject, one.topic) for one in events(*paths, what=("transaction-hangs",))}
        for paths in ((whole,), (short,), (whole, short), (short, whole))
    ]
    assert hangs[1] - hangs[0]
    assert hangs[2] == hangs[3] == hangs[0]


def test_successive_controllers_bound_their_clocks(tmp_path: Path) -> None:
    leaders, scratch, none = Leaders(), str(tmp_path), TimelineOptions()
    item = Item(str(THREE / "n1/__cluster_metadata-0"), "__cluster_metadata", 0, None)
    read = read_item(
        item, lambda size: None, options=none, leaders=leaders, scratch=scratch, first=True
    )
    spool = Spool(scratch)
    spool.add_block(read.few)
    spool.flush()
    found = [unpack(entry)[1] for entry in merge_runs([*read.runs, *spool.runs])]
    led = sorted(one[5:9] for one in found if one.subject == "__cluster_metadata-0")
    assert led
    ties = EpochTies(Replica(item, none, leaders, scratch, lambda size: None))
    assert [ties.batch(epoch, 100, 7) for _, epoch, *_ in led] == [leader for *_, leader, _ in led]
    _, epoch, leader, _ = led[-1]
    leaders.add("AAAAAAAAAAAAAAAAAAAAAQ", 0, Term(epoch + 1, 99, None, None))
    ties.batch(epoch + 1, 150, 8)
    assert ties.found[-1][:4] == (leader, 100, 99, 150)


def test_each_event_has_a_listed_source() -> None:
    """Each of its kind and its clock, as it is declared there."""
    every = events(THREE, TRANSACTIONS, SAMPLES / "clean/4.1.1", grep=re.compile(b"."), what=WHAT)
    kinds = {(one.what, one.clock) for one in every}
    assert kinds <= {
        pair for source in SOURCES for pair in product(source.gives.split(), source.clocks.split())
    }
    assert {"epoch", "commit", "roll", "transaction-begin", "leader", "record"} <= dict(
        kinds
    ).keys()
    first = {one.subject: one for one in reversed(every) if one.what == "epoch"}
    assert all(one.text.startswith("the first batch of leader epoch ") for one in first.values())


def test_broker_without_leadership_may_have_been_stopped(tmp_path: Path) -> None:
    """Fenced again by the controller: M8."""
    from kdump.engine.timeline.metadata import _EventCollector
    from kdump.replay import cluster_facts as c

    item = Item("there", "__cluster_metadata", 0, None)
    told = _EventCollector(
        Replica(item, TimelineOptions(), Leaders(), str(tmp_path), lambda size: None)
    )
    up = c.Broker(7, 1, "", (), None, False, False, (), (), {}, None)
    down = up._replace(fenced=True)
    next_one = down._replace(epoch=9)

    def of(*changes: tuple[c.Fact, c.Fact]) -> list[tuple[str, str]]:
        found = [event for before, after in changes for event in told._broker(before, after, 5)]
        return [(what, text.partition(":")[0]) for what, _, text, *_ in found if what != "fenced"]

    assert of((up, up._replace(rack="r"))) == []
    registered = "registered; broker epoch 9"
    once = ("stop", "fenced while it led no partition")
    assert of((up, down), (down, next_one)) == [once, ("start-unclean", registered)]
    again = [once, ("stop", "fenced again"), ("start-clean", registered)]
    assert of((up, down), (down, down), (down, next_one)) == again
    assert of((down, down), (down, next_one)) == [("start-unclean", registered)]
    told._led_until[7] = 5
    lost = [("stop", "fenced"), ("start-unclean", registered)]
    assert of((up, down), (down, down), (down, next_one)) == lost


def test_fenced_brokers_are_reported_on_request() -> None:
    asked = events(THREE, what=("fenced", "unfenced", "start-clean"))
    assert {one.what for one in asked} == {"fenced", "unfenced", "start-clean"}
    for number in {one.subject for one in asked}:
        states = [one.what for one in asked if one.subject == number and "fenced" in one.what]
        assert states[0] == "unfenced"
        assert all(a != b for a, b in pairwise(states) if "start" not in a)
    assert not {"fenced", "unfenced"} & {one.what for one in events(THREE)}


def test_clock_set_back_is_reported(tmp_path: Path) -> None:
    node = tmp_path / "n1"
    shutil.copytree(THREE / "n1", node)
    assert not events(node, what=("time-jump",))
    log = max((node / "__cluster_metadata-0").glob("*.log"))
    data, starts = bytearray(log.read_bytes()), [0]
    while starts[-1] < len(data):
        starts.append(starts[-1] + 12 + int.from_bytes(data[starts[-1] + 8 :][:4], "big"))
    for first, end in list(pairwise(starts))[-20:]:
        for at in (first + 27, first + 35):  # the first and the largest time of a batch
            data[at : at + 8] = (int.from_bytes(data[at : at + 8], "big") - 3_600_000).to_bytes(
                8, "big"
            )
        data[first:end] = with_right_crc(bytes(data[first:end]))
    log.write_bytes(data)
    (jump,) = events(node, what=("time-jump",))
    assert jump.subject == "__cluster_metadata-0"
    assert re.fullmatch(rf"the clock of broker {jump.clock_of} was set back by 3,59\d s", jump.text)


def test_other_tools_read_the_exports(tmp_path: Path) -> None:
    """Timesketch's own reader, of its source in KDUMP_TIMESKETCH, and mactime of the Sleuth Kit."""
    node = tmp_path / "node-1"
    shutil.copytree(corpus("incident/data/node-1") / "node-1", node)
    os.utime(min((node / "clicks-0").glob("*.log")), (1_800_000_100, 1_800_000_100))
    sketch, body = tmp_path / "case.jsonl", tmp_path / "case.body"
    for form, path in (("timesketch", sketch), ("bodyfile", body)):
        words = ["timeline", "--format", form, str(node), moment("last")[0]]
        path.write_text(run(*words).stdout)
    told = sketch.read_text().splitlines()
    what = Counter(json.loads(line)["message"].split()[0] for line in told)
    assert what["tier-copy"] + what["tier-delete"] == 287
    assert what["file-changed"] == 1
    assert what["file-created"] > 20
    source, mactime = os.environ.get("KDUMP_TIMESKETCH"), shutil.which("mactime")
    if source is None and mactime is None:
        pytest.skip("neither KDUMP_TIMESKETCH nor mactime")
    if source is not None:
        done = subprocess.run(
            [sys.executable, "-c", _TIMESKETCH, source, sketch], capture_output=True, check=False
        )
        assert done.stdout.split() == [b"%d" % len(told)], done.stderr.decode()[-500:]
    if mactime is not None:
        done = subprocess.run(
            ["perl", mactime, "-b", body, "-d", "-y", "-z", "UTC"], capture_output=True, check=True
        )
        assert not done.stderr
        assert len(done.stdout.splitlines()) == len(told) + 1


#: Its reader of JSON Lines asks neither Flask nor pandas, which its module imports.
_TIMESKETCH = """
import sys, types
for name, has in (("flask", "current_app jsonify"), ("pandas", "Timestamp DataFrame"),
                  ("yaml", ""), ("dateutil", "parser")):
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(dict.fromkeys(has.split(), object))
sys.path.insert(0, sys.argv[1])
from timesketch.lib.utils import read_and_validate_jsonl
print(len(list(read_and_validate_jsonl(open(sys.argv[2])))))
"""
