"""What `why` foretells of compacted partitions, and what the broker then did to them."""

import json
import random
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import builders
import pytest
from cleaned import BROKER, Question, facts_of, offsets, ours, view_of
from corpus import corpus, find_expected, names
from directories import write_checkpoint
from each import each
from segments import START_MS, batch, write, write_partition

from kdump.broker.cleaner import cleaner_log
from kdump.broker.cleaning import CleaningRound
from kdump.broker.settings import Settings, TopicConfig
from kdump.broker.versions import NEWEST
from kdump.engine.why.options import WhyOptions
from kdump.engine.why.run import why
from kdump.findings.finding import Finding
from kdump.findings.rows import Row

Json = dict[str, Any]
#: Retention came first there, in the same run.
RETENTION_FIRST = ("both", "both-size", "start.dirty")


@cache
def recorded() -> tuple[Json, Json]:
    """The topics and the times of the recorded broker."""
    found = [
        json.loads(find_expected(f"retention/{name}.json").read_text())
        for name in ("topics", "clock")
    ]
    return found[0].get("topics", found[0]), found[1]


def compacted() -> dict[str, Json]:
    """The topics that the cleaner looked at; none without corpora."""
    topics = recorded()[0] if names("retention") else {}
    return {
        name: one
        for name, one in topics.items()
        if "compact" in one["configs"].get("cleanup.policy", "")
    }


def cleanings(topic: Json) -> list[Json]:
    """The rounds of cleaning that began."""
    return [event for event in topic["events"] if event["event"] == "clean"]


def cleaned_alone() -> list[str]:
    """The topics that nothing happened to but one round of cleaning."""
    return [
        name
        for name, one in compacted().items()
        if len(cleanings(one)) == 1 and not one["uncleanable"] and name not in RETENTION_FIRST
    ]


def rows(directory: Path, **options: Any) -> tuple[dict[str, Json], list[Finding]]:
    """The rows by topic, and the findings."""
    items = list(why([str(directory)], WhyOptions(**{"broker_version": BROKER, **options})))
    found = [item for item in items if isinstance(item, Row) and item.row == "compaction"]
    return (
        {str(row.fields["topic"]): row.fields for row in found},
        [
            item
            for item in items
            if isinstance(item, Finding) and item.code != "topic-settings-unknown"
        ],
    )


@pytest.mark.parametrize("cleaner", [False, True])
def test_cleaner_choice_matches_the_recorded_broker(cleaner: bool) -> None:
    directory = corpus("retention/before") / "d1"
    clock = recorded()[1]
    found, findings = rows(directory, now_ms=clock["actStop"], cleaner=cleaner)
    assert not findings
    for name, real in compacted().items():
        row, rounds = found[name], cleanings(real)
        # That it fails behind the first entry of a segment only the whole log tells.
        fails = real["uncleanable"] and (cleaner or name == "damaged.length")
        assert row["cleanable"] == (bool(rounds) and not fails), name
        assert (row["blocked_by"] == "corrupt-batch") == fails, name
        assert row["due_ms"] == clock["actStop"] or not row["cleanable"], name
        if rounds and name not in RETENTION_FIRST and not fails:
            assert row["first_dirty_offset"] == rounds[0]["firstDirtyOffset"], name


@pytest.mark.parametrize("name", cleaned_alone())
def test_survivors_match_the_recorded_broker(name: str, tmp_path: Path) -> None:
    real = recorded()[0][name]
    directory = tmp_path / f"{name}-0"
    shutil.copytree(corpus("retention/before") / "d1" / directory.name, directory)
    before = real["before"]
    question = Question(
        directory,
        cleanings(real)[0]["at"],
        real["configs"],
        checkpoint=before["cleanerCheckpoint"],
        log_start=before["logStartCheckpoint"],
    )
    view = question.view()
    choice, cleaned = ours(question, view)
    view.close()
    assert choice.cleanable
    assert cleaned is not None
    after = real["after"]
    assert offsets(before["segments"]) - cleaned.dead == offsets(after["segments"])
    assert cleaned.bytes_left == sum(one["size"] for one in after["segments"])
    assert cleaned.checkpoint == after["cleanerCheckpoint"]


def test_cleaned_part_contains_each_key_once() -> None:
    findings = rows(
        corpus("retention/after") / "d1", now_ms=recorded()[1]["actStop"], cleaner=True
    )[1]
    assert not findings


def test_key_missed_by_the_cleaner_is_found(tmp_path: Path) -> None:
    directory = tmp_path / "plain-0"
    shutil.copytree(corpus("retention/before") / "d1" / "plain-0", directory)
    write_checkpoint(tmp_path / "cleaner-offset-checkpoint", [("plain", 0, 12)])
    configs = (TopicConfig("cleanup.policy", "compact"),)
    found, (finding,) = rows(directory, now_ms=1, cleaner=True, configs=configs)
    assert finding.code == "cleaned-key-twice"
    assert finding.offset is not None
    assert finding.offset < finding.actual < 12
    assert found["plain"]["first_dirty_offset"] == 12


def test_uncompacted_topic_has_no_row() -> None:
    found, _ = rows(corpus("retention/before") / "d1", now_ms=1)
    assert "all.old" not in found


def test_damage_does_not_raise(tmp_path: Path) -> None:
    source = corpus("retention/before") / "d1"
    clock = recorded()[1]
    configs = (TopicConfig("cleanup.policy", "compact"),)
    for seed, name in enumerate(("packed.mix-0", "txn.past-0", "tomb-past-0", "idem-0") * 6):
        rng = random.Random(seed)
        directory = tmp_path / str(seed) / name
        shutil.copytree(source / name, directory)
        for path in rng.sample(sorted(directory.glob("0*")), 3):
            data = bytearray(path.read_bytes())
            for _ in range(rng.choice((1, 9)) if data else 0):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            path.write_bytes(data[: rng.choice((len(data), rng.randrange(len(data) + 1)))])
        found, _ = rows(directory, now_ms=clock["actStop"], cleaner=True, configs=configs)
        (row,) = found.values()
        assert (row["dead_records"] is None) == (row["blocked_by"] == "corrupt-batch")
        assert row["text"]


@pytest.mark.parametrize("name", ["modern/data/clean", "old/v1-01022.clean", "old/v0-0822.clean"])
def test_sound_logs_have_no_findings(name: str) -> None:
    # Of topics without keys all goes, at which brokers of 4.1 fail where messages are old.
    found, findings = rows(
        corpus(name),
        now_ms=1_795_346_571_085,
        cleaner=True,
        configs=(TopicConfig("cleanup.policy", "compact"),),
        broker_version=NEWEST,
    )
    assert found
    assert not findings
    assert not any(row["blocked_by"] == "corrupt-batch" for row in found.values())


def test_full_offset_map_ends_a_round() -> None:
    real = recorded()[0]["map-full"]
    directory = corpus("retention/before") / "d1" / "map-full-0"
    settings = Settings(dedupe_buffer=1_048_600).of_topic(real["configs"])
    view = view_of(directory, settings)
    choice = cleaner_log(view, facts_of(view)).choice(settings, 1)
    cleaning = CleaningRound(view, choice, settings, 1)
    assert not list(cleaning.batches())
    assert (cleaning.map.full, cleaning.is_lower_bound) == (True, False)
    assert cleaning.map.end == cleanings(real)[1]["firstDirtyOffset"]
    few = CleaningRound(view, choice, settings, 1, keys_kept=100)
    assert list(few.batches())
    assert few.is_lower_bound


COMPACT = (TopicConfig("cleanup.policy", "compact"),)


def test_missed_key_is_found_in_a_clean_log(tmp_path: Path) -> None:
    """The checkpoint lies where the active segment begins: the next round has nothing to do."""
    directory = tmp_path / "plain-0"
    shutil.copytree(corpus("retention/before") / "d1" / "plain-0", directory)
    active = max(int(path.stem) for path in directory.glob("*.log"))
    write_checkpoint(tmp_path / "cleaner-offset-checkpoint", [("plain", 0, active)])
    found, (finding,) = rows(directory, now_ms=1, cleaner=True, configs=COMPACT)
    row = found["plain"]
    assert row["first_dirty_offset"] == row["first_uncleanable_offset"] == active
    assert (row["dirty_bytes"], row["dead_records"]) == (0, 0)
    assert (finding.code, finding.actual < active) == ("cleaned-key-twice", True)
    assert not rows(directory, now_ms=1, configs=COMPACT)[1]
    # Damage there stops no cleaner, as none comes by, and is no finding of this kind.
    log = directory / f"{0:020}.log"
    log.write_bytes(b"\0" * 20 + log.read_bytes()[20:])
    assert not rows(directory, now_ms=1, cleaner=True, configs=COMPACT)[1]


def test_tombstones_are_counted_in_a_clean_log(tmp_path: Path) -> None:
    nulls = [builders.record(at, key=b"k%d" % at, value=None) for at in range(3)]
    written = [builders.batch(nulls), batch(3)]
    directory = write_partition(tmp_path, {0: written, 6: [batch(6)]}, "t")
    write_checkpoint(tmp_path / "cleaner-offset-checkpoint", [("t", 0, 6)])
    row = rows(directory, now_ms=START_MS, cleaner=True, configs=COMPACT)[0]["t"]
    assert (row["tombstones"], row["tombstones_removable"]) == (3, 0)


def test_checkpoint_outside_the_log_is_reset(tmp_path: Path) -> None:
    directory = write_partition(tmp_path, {0: [batch(0)], 3: [batch(3)]}, "t")
    words = "beyond the log end: the next run starts over from 0"
    for checkpoint, starts_over in ((6, False), (7, True)):
        write_checkpoint(tmp_path / "cleaner-offset-checkpoint", [("t", 0, checkpoint)])
        row = rows(directory, now_ms=START_MS, configs=COMPACT)[0]["t"]
        assert (words in row["text"]) == starts_over
    assert row["first_dirty_offset"] == 0


@each(
    ("version", "fails"), [((0, 10, 1), False), ((0, 10, 2), True), ((1, 1), True), ((2, 0), False)]
)
def test_offsets_beyond_the_index_range_are_reported(
    tmp_path: Path, version: tuple[int, ...], fails: bool
) -> None:
    """0.10.2.2 was seen to end its cleaner, 2.8.2 and 4.1.1 to split the segment and go on."""
    far = 2**31
    log = [batch(0), batch(far + 3)]
    directory = write_partition(tmp_path, {0: log[:1], far + 9: [batch(far + 9)]}, "t")
    write(directory, 0, "log", b"".join(log))
    options = {"cleaner": True, "configs": COMPACT, "broker_version": version}
    row = rows(directory, now_ms=START_MS, **options)[0]["t"]
    if fails:
        assert (row["blocked_by"], row["fails_at"]["position"]) == ("corrupt-batch", len(log[0]))
        assert "its thread ends: no partition is cleaned" in row["text"]
    else:
        assert row["fails_at"] is None
        assert "segment 0 has offsets more than 2,147,483,647 above its base" in row["text"]
        assert ("the cleaner splits it first" in row["text"]) == (version >= (2, 0))
