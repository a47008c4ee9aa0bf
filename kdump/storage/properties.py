"""Read files of names and values: meta.properties, partition.metadata, quorum-state, clean mark.

| file | form |
| --- | --- |
| `meta.properties` | Java properties: who owns the data directory (X5) |
| `partition.metadata` | two lines, `version: 0` and `topic_id: <22 characters>` (X8) |
| `quorum-state` | one JSON object with `data_version` (X14) |
| `.kafka_cleanshutdown` | empty, or from 3.7 a JSON object; being there is what counts (X6) |
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from io import StringIO

from kdump.errors import PathError
from kdump.storage import names
from kdump.storage.checkpoints import java_int
from kdump.storage.problems import Problem
from kdump.storage.source import SMALL_FILE_LIMIT, read_whole
from kdump.tuples import NamedTuple

SIZE_LIMIT = 1 << 20  # no properties or JSON file of a broker comes near it
_CODE = "properties-malformed"
_SHOWN = 200
_ZERO_ID = "A" * 22  # the zero UUID
_ID = r"[A-Za-z0-9_-]{22}={0,2}\Z"
_INT32 = 1 << 31


class Properties(NamedTuple):
    """Names and values in file order, as text (JSON text where a value is no string)."""

    values: dict[str, str | None]
    problems: list[Problem]


def parse_meta_properties(data: bytes) -> Properties:
    """Read `meta.properties`; a version and the ids that it asks for must be there (X5)."""
    values: dict[str, str | None] = dict(java_properties(data.decode("latin-1")))
    problems: list[Problem] = []
    version = _number(values.get("version", "0"))
    if version not in (0, 1):
        problems.append(_wrong("version=0 or version=1", values.get("version")))
    # A broker of version 0 can take its id from its settings; one of version 1 cannot.
    id_name = "node.id" if version == 1 else "broker.id"
    if (version == 1 or id_name in values) and _number(values.get(id_name)) is None:
        problems.append(_wrong(f"{id_name}, a number", values.get(id_name)))
    if version == 1 and not values.get("cluster.id"):
        problems.append(_wrong("cluster.id", values.get("cluster.id")))
    directory_id = values.get("directory.id")
    if directory_id is not None and re.match(_ID, directory_id) is None:
        problems.append(_wrong("directory.id of 22 characters", directory_id))
    return Properties(values, problems)


def parse_partition_metadata(data: bytes) -> Properties:
    """Read `partition.metadata` (X8); the zero id is refused as a broker refuses it."""
    values: dict[str, str | None] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            values[name.strip()] = value.strip()
    problems = []
    version, topic_id = _number(values.get("version")), values.get("topic_id")
    if version is None or version < 0:
        problems.append(_wrong("version: 0", values.get("version")))
    if topic_id is None or not is_topic_id(topic_id):
        problems.append(_wrong("topic_id of 22 characters, not zero", topic_id))
    return Properties(values, problems)


def read_partition_metadata(partition: str) -> Properties | None:
    """Read the `partition.metadata` of a partition; None where it is not there."""
    try:
        data = read_whole(os.path.join(partition, names.PARTITION_METADATA), SMALL_FILE_LIMIT)
    except PathError:
        return None
    return parse_partition_metadata(data)


def read_topic_id(partition: str) -> str | None:
    """Read which topic the `partition.metadata` of a partition names; None where none does."""
    read = read_partition_metadata(partition)
    return None if read is None else read.values.get("topic_id")


def is_topic_id(text: str) -> bool:
    """Whether a text is an id that a topic can have; the zero id is none."""
    return re.match(_ID, text) is not None and text.rstrip("=") != _ZERO_ID


def no_uuid(text: str) -> str:
    """What Kafka's reader of UUIDs says of a text; empty where it is one."""
    if len(text) > 24:
        return f"Input string with prefix `{text[:24]}` is too long to be decoded as a base64 UUID"
    letters = text.rstrip("=")
    if illegal := re.search(r"[^A-Za-z0-9_-]", letters):
        return f"Illegal base64 character {ord(illegal[0]):x}"
    if len(letters) % 4 == 1:
        return "Last unit does not have enough valid bits"
    size = len(letters) * 6 // 8
    return (
        ""
        if size == 16
        else (
            f"Input string `{text}` decoded as {size} bytes, which is not equal to the expected 16 "
            "bytes of a base64-encoded UUID"
        )
    )


def parse_quorum_state(data: bytes) -> Properties:
    """Read `quorum-state` (X14): a JSON object with `data_version` 0 or 1."""
    found = _json_object(data)
    version = found.values.get("data_version")
    if not found.problems and version not in ("0", "1"):
        found.problems.append(_wrong("data_version 0 or 1", version))
    return found


def parse_clean_shutdown(data: bytes) -> Properties:
    """Read `.kafka_cleanshutdown`; empty up to 3.6, and content that is no JSON hides no mark."""
    return _json_object(data) if data else Properties({}, [])


def _json_object(data: bytes) -> Properties:
    import json  # here, because few runs come to such a file

    try:
        found = json.loads(data)
        if not isinstance(found, dict):
            return Properties({}, [_wrong("a JSON object", _show(data))])
        return Properties(
            {
                _text(name): _text(value) if isinstance(value, str) else _json_text(value)
                for name, value in found.items()
            },
            [],
        )
    except (ValueError, RecursionError):
        return Properties({}, [_wrong("a JSON object", _show(data))])


def _json_text(value: object) -> str | None:
    import json

    return None if value is None else json.dumps(value, separators=(",", ":"))


def _text(value: str) -> str:
    """Join pairs of surrogates and replace lone ones, which could not be written out again."""
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _show(data: bytes) -> str:
    return data[:_SHOWN].decode("utf-8", "replace")


def _wrong(expected: str, actual: str | None) -> Problem:
    shown = actual[:_SHOWN] if actual is not None else None
    return Problem(_CODE, None, None, expected, shown)


def _number(text: str | None) -> int | None:
    return None if text is None else java_int(text, _INT32)


# Java properties: `name=value`, `name:value` or `name value`; # and ! start comments, a backslash
# escapes a character or, at the end of a line, joins the next.
_LINE = r"([^\r\n]*)(?:\r\n|\n|\r|\Z)"
# The name is taken without a way back, which a line of a megabyte would take a hundred times its
# size to remember.
_SPLIT = r"(?s)((?:\\.|[^\\=: \t\f]++)*+)[ \t\f]*[=:]?[ \t\f]*(.*)\Z"
_ESCAPE = r"(?s)\\(?:u([0-9A-Fa-f]{4})|(.?))"
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def java_properties(text: str) -> Iterator[tuple[str, str]]:
    for line in _logical_lines(text):
        found = re.match(_SPLIT, line)
        if found is not None:
            yield _unescape(found[1]), _unescape(found[2])


def _logical_lines(text: str) -> Iterator[str]:
    """Yield lines with those that continue them; one at a time, as there may be very many."""
    joined, begun = StringIO(), False
    for found in re.finditer(_LINE, text):
        line = found[1].lstrip(" \t\f")
        if not begun and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        begun = backslashes % 2 == 1
        joined.write(line[:-1] if begun else line)
        if not begun:
            yield joined.getvalue()
            joined = StringIO()
    if begun:
        yield joined.getvalue()


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text

    def plain(found: re.Match[str]) -> str:
        if found[1]:
            return chr(int(found[1], 16))
        return _ESCAPED.get(found[2], found[2])

    return _text(re.sub(_ESCAPE, plain, text))
