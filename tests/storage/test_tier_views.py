"""Partitions of a remote storage, read as a broker has them on its disk."""

from collections.abc import Set
from pathlib import Path

from sample_tier import JOURNAL, journal_of

from kdump.errors import PathError
from kdump.storage.remote_objects import RemoteObjects
from kdump.storage.targets import Selection
from kdump.storage.tier_views import TierViews

TOPIC_ID = JOURNAL.removeprefix("journal-0-")
SECOND = "85NjXc6ZTs25aW7Ef3Kdwg"
OTHER_ID = "B" * 22


def views(
    tier: Path | str, known: Set[str] = frozenset(), topic_id: str | None = None
) -> list[str]:
    found = [*TierViews(RemoteObjects(str(tier)), set(), known).paths(Selection(), topic_id)]
    assert not [one for one in found if isinstance(one, PathError)]
    return [str(one) for one in found]


def of_two_topics(folder: Path) -> Path:
    """Give another topic of the same name the same objects."""
    tier = journal_of(folder)
    (tier / JOURNAL).with_name(f"journal-0-{OTHER_ID}").symlink_to(tier / JOURNAL)
    return tier


def test_topic_that_the_metadata_does_not_know_is_left_out(tmp_path: Path) -> None:
    tier = of_two_topics(tmp_path)
    assert len(views(tier)) == 2
    (known,) = views(tier, {TOPIC_ID})
    assert TOPIC_ID in known
    (asked,) = views(tier, topic_id=OTHER_ID)
    assert OTHER_ID in asked


def test_partition_without_segments_is_left_out(tmp_path: Path) -> None:
    (tmp_path / JOURNAL).mkdir()
    assert views(tmp_path) == []


def test_objects_of_a_store_are_copied(tmp_path: Path) -> None:
    from kdump.storage import places

    tier = journal_of(tmp_path)
    (view,) = views(f"file://{tier}")
    (log,) = (tier / JOURNAL).glob(f"*-{SECOND}.log")
    assert places.getsize(f"{view}/{60:020}.log") == log.stat().st_size
    assert "leader-epoch-checkpoint" in places.listdir(view)


def test_segment_that_cannot_be_decoded_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / f"orders-{TOPIC_ID}/0"
    folder.mkdir(parents=True)
    for end in ("log", "indexes", "rsm-manifest"):
        (folder / f"{7:020}-{SECOND}.{end}").write_text("{}")
    (error,) = TierViews(RemoteObjects(str(tmp_path)), set(), set()).paths(Selection(), None)
    assert isinstance(error, PathError)
    assert error.path == str(folder)
    assert error.reason == (
        "has a segment that cannot be read: a field is missing or has the wrong type"
    )
