"""Which copies belong to which partition, and in what order partitions come."""

from pathlib import Path

import builders

from kdump.engine.salvage.copies import Item, plan
from kdump.engine.salvage.options import SalvageOptions


def test_partitions_are_ordered_by_number(tmp_path: Path) -> None:
    for name in ("orders-2", "orders-10", "t10-0", "t9-0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{0:020}.log").write_bytes(builders.batch())
    items = [item for item in plan([str(tmp_path)], SalvageOptions()) if isinstance(item, Item)]
    assert [f"{item.topic}-{item.partition}" for item in items] == [
        "orders-2",
        "orders-10",
        "t9-0",
        "t10-0",
    ]
