"""Options of a salvage."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from kdump.broker.versions import Version
from kdump.errors import PathError
from kdump.storage.file_records import DEFAULT_LIMIT
from kdump.storage.names import DirectoryName
from kdump.storage.source import read_whole
from kdump.storage.targets import Selection
from kdump.tuples import NamedTuple

#: What tells one command that produces from another, beside the paths.
_TELLING = ("produce", "selection", "from_offset", "to_offset", "names", "server_properties",
            "split_batches", "mend_headers")  # fmt: skip
NEWEST_EPOCH, LONGEST = "newest-epoch", "longest"


class SalvageOptions(NamedTuple):
    """What is asked for; the names are those of the command line.

    `prefer` is one of the words above or a path; None: as `newest-epoch`, and what no epoch decides
    stays undecided. `names` are the new names of topics by their old ones, and names of partitions
    of what was carved. `carve`: files are images. `produce` names brokers, `client_settings` are
    librdkafka's, `resume` is the state file, `rate` is in bytes per second. `apply_groups` goes
    with `groups`; `groups_at` is a time, None: before the deletion of a deleted topic, else now.
    `command` are the words that were typed, for the commands that are printed.
    """

    selection: Selection = Selection()
    server_properties: str | None = None
    broker_version: Version | None = None  # None: of each directory, the newest it can be of
    prefer: str | None = None
    from_offset: int | None = None
    to_offset: int | None = None
    names: Mapping[str, str] = MappingProxyType({})
    topic_id: str | None = None
    topic_configs: bool = True
    out: str | None = None
    carve: bool = False
    split_batches: bool = False
    mend_headers: bool = False
    decompress_limit: int = DEFAULT_LIMIT
    dry_run: bool = False
    produce: str | None = None
    client_settings: Mapping[str, str] = MappingProxyType({})
    resume: str | None = None
    rate: int | None = None
    groups: bool = False
    apply_groups: bool = False
    groups_at: int | None = None
    command: tuple[str, ...] = ("kdump", "produce")
    tier: str | None = None  # where the remote segments of tiered topics are
    tier_key: str | None = None  # a file; decrypts those of Aiven's plugin


def read_topic_map(path: str) -> dict[str, str]:
    """Read new names of topics: a line `OLD,NEW` for each; empty lines and # comments are none."""
    found = {}
    for line in read_whole(path, 1 << 20).decode("utf-8", "replace").splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        old, comma, new = (part.strip() for part in line.partition(","))
        if not (old and comma and DirectoryName(new, 0).legal):
            raise PathError(
                path, f"has an invalid line {line!r}: use OLD,NEW with valid topic names"
            )
        found[old] = new
    return found


def read_client_properties(path: str) -> dict[str, str]:
    """Read the client properties that Kafka's tools take, as settings of librdkafka."""
    from kdump.client.properties import librdkafka_settings
    from kdump.storage.properties import java_properties

    given = dict(java_properties(read_whole(path, 1 << 20).decode("latin-1")))
    return librdkafka_settings(path, given)


def default_state(paths: Iterable[str], asked: Mapping[str, object]) -> str:
    """Name the state file of a command, so that the same command finds it again."""
    told: list[object] = [sorted(map(os.path.abspath, paths))]
    told += [asked.get(name) for name in _TELLING]
    digest = hashlib.sha256(json.dumps(told, default=str).encode()).hexdigest()
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(home, "kdump", f"salvage-{digest[:16]}.json")
