"""Which data directories are found among the paths that were given."""

from pathlib import Path

from directories import DataDirectory

from kdump.engine.checks.survey import PartitionFacts, group_surveys


def test_data_directories_are_surveyed_once(tmp_path: Path) -> None:
    first = DataDirectory(tmp_path / "first")
    path = first.partition("orders", 0)
    second = DataDirectory(tmp_path / "second", number=2)
    partly = second.partition("users", 0)
    second.partition("users", 1)
    (tmp_path / "link").symlink_to(first.path)
    given = [tmp_path / "gone", path / f"{0:020}.log", path, tmp_path / "link", first.path,
             second.path]  # fmt: skip
    facts = [PartitionFacts("orders", 0, str(path)), PartitionFacts("users", 0, str(partly))]
    found = group_surveys(map(str, given), facts, whole=True)
    assert [(one.directory.path, [*one.facts], one.whole) for one in found] == [
        (str(tmp_path / "link"), facts[:1], False),
        (str(second.path), facts[1:], False),
    ]
    (one,) = group_surveys([str(first.path)], facts, whole=True)
    assert one.whole
    (one,) = group_surveys([str(first.path)], facts, whole=False)
    assert not one.whole
