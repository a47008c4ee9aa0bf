"""The options of the data source, declared once: where each applies, how it is read, what it does.

Refusals, the schema of values, and the table in the manual follow from `OPTIONS`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import partial
from typing import Any

from kdump.errors import UsageError
from kdump.option_values import (
    ISOLATION_LEVELS,
    read_choice,
    read_count,
    read_int64,
    read_positive_size,
    read_time,
    read_truth,
)
from kdump.spark.paths import read_folder
from kdump.storage import places
from kdump.tuples import NamedTuple

LOGS = ("records", "batches")
FILES = (*LOGS, "index-entries", "segments")
CONSUMERS = ("groups", "commits")
VERIFIED = ("findings", "summary")
REPLAYED = (*CONSUMERS, "transactions", "metadata")
ALL: tuple[str, ...] = (*FILES, *VERIFIED, *REPLAYED)


class Option(NamedTuple):
    """An option: the views that have it, and the member of the engine's options that it sets.

    Without a `member` it is an option of the data source itself.
    """

    name: str
    read: Callable[[str], Any]
    doc: str
    views: tuple[str, ...] = ALL
    member: str = ""


def read_paths(text: str) -> list[str]:
    """Read the paths that Spark joins where it is given several."""
    try:
        paths = json.loads(text)
    except ValueError:
        paths = None
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise ValueError("is not a JSON list of paths")
    return paths


def _read_decode(text: str) -> bool:
    return read_choice(text, ("auto", "raw")) == "auto"


def _read_schemas(text: str) -> tuple[str, ...]:
    return tuple(read_paths(text)) if text.startswith("[") else (text,)


#: Offsets by topic and partition; None where Spark's words say that nothing is left out.
Offsets = dict[str, dict[int, int | None]]


def _read_offsets(text: str, *, word: str, number: int) -> Offsets:
    """Read offsets by topic and partition, as Spark's Kafka source takes them."""
    if text.strip().lower() == word:
        return {}
    try:
        given = json.loads(text)
        items = [
            (topic, read_count(partition), offset)
            for topic, partitions in given.items()
            for partition, offset in partitions.items()
        ]
    except (ValueError, AttributeError):
        raise ValueError(f'is neither {word} nor JSON such as {{"orders": {{"0": 23}}}}') from None
    found: Offsets = {}
    for topic, partition, offset in items:
        if type(offset) is not int or (offset < 0 and offset != number) or offset >= 1 << 63:
            raise ValueError(
                f"has {offset!r} for {topic}-{partition}: give an offset, or {number} for {word}"
            )
        found.setdefault(topic, {})[partition] = None if offset == number else offset
    return found


read_starting = partial(_read_offsets, word="earliest", number=-2)
read_ending = partial(_read_offsets, word="latest", number=-1)

_GROUP = "Only groups that match this name or pattern."
_AT = "The state at this time (default: at the end of the log)."

OPTIONS = (
    Option("view", str, "The rows to read, by the names of this table (default: records)."),
    Option("path", str, "A path, a pattern, or several separated by commas; load() sets it."),
    Option("paths", read_paths, "Paths as a JSON list; load() of several paths sets it."),
    Option("failOnMissing", read_truth, "Fail if nothing is found; otherwise there are no rows."),
    Option("packBytes", read_positive_size, "Log bytes of one task (default: 256MiB).", LOGS),
    Option("requireCompiled", read_truth, "Fail on workers without the compiled kernel."),
    Option("pushdown", read_truth, "Only false is accepted; see below."),
    Option("topic", str, "Only topics that match this name or pattern.", member="topic"),
    Option("partition", read_count, "Only partitions of this number.", member="partition"),
    Option(
        "retired",
        read_truth,
        "Include files and directories being deleted; findings and summary always do.",
        (*FILES, *REPLAYED),
        "retired",
    ),
    Option(
        "serverProperties",
        str,
        "A broker's settings; without a path also its data directories.",
        member="server_properties",
    ),
    Option(
        "decompressLimit",
        read_positive_size,
        "Skip batches that decompress to more than this (default: 64MiB); findings reports them.",
        (*LOGS, *VERIFIED, *REPLAYED),
        "decompress_limit",
    ),
    Option(
        "startingOffsets",
        read_starting,
        'The first offset by topic and partition, as in {"orders": {"0": 23}}, or earliest.',
        LOGS,
    ),
    Option(
        "endingOffsets",
        read_ending,
        "The offset after the last one, by topic and partition, or latest.",
        LOGS,
    ),
    Option(
        "failOnDataLoss",
        read_truth,
        "For readStream: fail, instead of a warning, if segments were deleted before they were "
        "read.",
        LOGS,
    ),
    Option("modifiedAfter", read_time, "Only files changed after this time.", FILES),
    Option("fromOffset", read_int64, "Start at this offset.", LOGS, "from_offset"),
    Option("toOffset", read_int64, "Stop before this offset.", LOGS, "to_offset"),
    Option("fromTimeMs", read_time, "Start at this time.", LOGS, "from_time_ms"),
    Option("toTimeMs", read_time, "Stop before this time.", LOGS, "to_time_ms"),
    Option("producerId", read_int64, "Only batches of this producer.", LOGS, "producer_id"),
    Option("visible", read_truth, "Only what a consumer receives.", LOGS, "visible"),
    Option("control", read_truth, "Only control batches, or none of them.", LOGS, "control"),
    Option(
        "isolation",
        partial(read_choice, known=ISOLATION_LEVELS),
        "read_committed omits aborted and open transactions; it implies visible.",
        LOGS,
        "isolation",
    ),
    Option(
        "deep",
        read_truth,
        "Decompress and check every record, too.",
        (*LOGS, *VERIFIED),
        "deep",
    ),
    Option(
        "decode",
        _read_decode,
        "auto adds key_json and value_json: decoded internal topics, and data written with a "
        "schema.",
        ("records",),
        "decode",
    ),
    Option(
        "schemas",
        _read_schemas,
        "With decode: location of schemas, as for --schemas of dump; several as a JSON list.",
        ("records",),
        "schema_files",
    ),
    Option(
        "schemasAtMs",
        read_time,
        "With decode: the schema registry's topic as of this time.",
        ("records",),
        "schemas_at_ms",
    ),
    Option(
        "readerSchema",
        partial(read_choice, known=("writer", "latest")),
        "With decode: latest converts Avro data to the newest schema version of its subject.",
        ("records",),
        "reader_schema",
    ),
    Option(
        "tier",
        read_folder,
        "Folder or bucket with the remote segments of tiered topics, to be checked as well.",
        ("findings",),
        "tier",
    ),
    Option(
        "tierKey",
        places.absolute,
        "With tier: the private key in PEM that decrypts remote segments of Aiven's plugin.",
        ("findings",),
        "tier_key",
    ),
    Option("group", str, _GROUP, CONSUMERS, "group"),
    Option("atMs", read_time, _AT, REPLAYED, "at_ms"),
    Option(
        "atOffset", read_count, "The state at this offset of its log.", ("metadata",), "at_offset"
    ),
    Option(
        "history", read_truth, "Every change instead of the final state.", ("metadata",), "history"
    ),
    Option(
        "transactionalId",
        str,
        "Only ids that match this name or pattern.",
        ("transactions",),
        "transactional_id",
    ),
    Option("openOnly", read_truth, "Only open transactions.", ("transactions",), "open_only"),
)
_BY_NAME = {one.name.lower(): one for one in OPTIONS}

#: Options of Spark's Kafka source, in lower case -> what to give here.
_KAFKAS = {
    "subscribe": "give topic, a name or a pattern",
    "subscribepattern": "give topic, a shell pattern",
    "assign": "give topic and partition",
    "startingtimestamp": "give fromTimeMs",
    "startingoffsetsbytimestamp": "give fromTimeMs",
    "endingtimestamp": "give toTimeMs, which is exclusive",
    "endingoffsetsbytimestamp": "give toTimeMs, which is exclusive",
    "includeheaders": "headers are included without it",
    "kafka.isolation.level": "give isolation",
    "minpartitions": "give packBytes, the bytes of log that a task reads",
    "maxrecordsperpartition": "give packBytes, the bytes of log that a task reads",
}


class GivenOptions:
    """The options that a frame was given, by whatever case of letters."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._spelled = list(options)
        self._texts = {name.lower(): text for name, text in options.items()}

    def names(self) -> Iterable[str]:
        """Return the names in lower case."""
        return self._texts.keys()

    def read(self, name: str, default: Any = None) -> Any:
        """Return the value of an option, or a default."""
        text = self._texts.get(name.lower())
        if text is None:
            return default
        try:
            return _BY_NAME[name.lower()].read(text)
        except ValueError as error:
            raise UsageError(f"option {name}: {text!r} {error}") from None

    def view(self, known: tuple[str, ...]) -> str:
        """Return the view that is asked for."""
        text = self._texts.get("view", "records")
        try:
            return read_choice(text, known)
        except ValueError as error:
            raise UsageError(f"option view: {text!r} {error}") from None

    def of_engine(self, view: str) -> dict[str, Any]:
        """Return the options of the engine by its own names."""
        return {
            one.member: self.read(one.name)
            for one in OPTIONS
            if one.member and view in one.views and one.name.lower() in self._texts
        }

    def refuse_others(self, view: str) -> None:
        """Refuse an option that the view does not have; of Spark's Kafka source, name ours."""
        known = {one.name.lower(): one.name for one in OPTIONS if view in one.views}
        for name in self._spelled:
            if name.lower() in known:
                continue
            if name.lower() in _KAFKAS:
                hint = _KAFKAS[name.lower()]
            elif name.lower().startswith("kafka."):
                hint = "no broker is contacted: .load() names data directories"
            elif name.lower() in _BY_NAME:
                hint = f"it is an option of {', '.join(_BY_NAME[name.lower()].views)}"
            else:
                near = get_close_matches(name.lower(), known, 1)
                all_names = ", ".join(known.values())
                hint = f"did you mean {known[near[0]]}?" if near else f"options are {all_names}"
            raise UsageError(f"view {view} has no option {name!r}: {hint}")
