"""Which partitions a start sets aside: where the cluster's metadata log is looked for."""

from pathlib import Path

import pytest
from builders import batch, record, retired_directory_name, unsigned_varint
from directories import identifier

from kdump.engine.predict.strays import cluster_of
from kdump.storage.log_dir import LogDir
from kdump.storage.names import Retirement

LIVE = "__cluster_metadata-0"


def knows(directory: Path, name: str, topic: int) -> None:
    """Write a metadata log that knows one topic, with an id of this number."""
    text = b"orders"
    value = b"\1\2\0" + unsigned_varint(len(text) + 1) + text + topic.to_bytes(16, "big") + b"\0"
    path = directory / name
    path.mkdir(parents=True)
    (path / f"{0:020}.log").write_bytes(batch([record(0, 0, None, value)]))


@pytest.mark.parametrize("retirement", Retirement)
def test_retired_metadata_log_is_ignored(tmp_path: Path, retirement: Retirement) -> None:
    retired = retired_directory_name(
        "__cluster_metadata", 0, retirement=retirement.value, unique_id="0" * 32
    )
    knows(tmp_path / "d1", retired, 1)
    first = LogDir.open(str(tmp_path / "d1"))
    assert len(first.partitions) == 1
    assert cluster_of([first]) is None
    knows(tmp_path / "d2", LIVE, 2)
    cluster = cluster_of([first, LogDir.open(str(tmp_path / "d2"))])
    assert cluster is not None
    assert [*cluster.topics] == [identifier(2)]
