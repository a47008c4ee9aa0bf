"""What `verify` finds and what a view of findings has, as rows that can be compared."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from damaged_catalogue import DamagedInput

from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.run import verify
from kdump.errors import KdumpError
from kdump.findings.escape import json_text
from kdump.findings.finding import Finding
from kdump.storage.inputs import FileOverrides, open_inputs

#: Columns that the rows of the command do not have.
_OWN = {"engine_version", "cluster_id", "node_id", "data_directory", "row"}
Rows = Counter[tuple[tuple[str, str], ...]]


def verify_rows(damaged: DamagedInput) -> list[Mapping[str, Any]]:
    """Give what verify finds; a path that could not be read fails the test."""
    options = VerifyOptions(
        deep=damaged.deep,
        server_properties=damaged.server_properties,
        decompress_limit=damaged.decompress_limit,
        tier=damaged.tier,
        tier_key=damaged.tier_key,
    )
    rows = []
    for item in verify(open_inputs(map(str, damaged.paths), FileOverrides(damaged.kind)), options):
        assert not isinstance(item, KdumpError), item
        if isinstance(item, Finding):
            rows.append(item.fields())
    return rows


def rows_of(found: Iterable[Mapping[str, Any]]) -> Rows:
    """Count rows, whichever gave them."""
    return Counter(
        tuple(
            sorted(
                (name, value if isinstance(value, str) else json_text(value))
                for name, value in row.items()
                if value is not None and name not in _OWN
            )
        )
        for row in found
    )
