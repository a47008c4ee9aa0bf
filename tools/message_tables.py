"""Write the tables of kdump/messages/ from the message specifications in the jars of Kafka servers.

    python tools/message_tables.py [--check] JARS... [--older JARS...]

JARS are files, or directories that hold some: those of one server, 4.4.0 or later. Of `--older`
ones only those records are taken whose number no newer server knows, which shows what it dropped,
and those versions of requests and responses. A specification becomes one line of facts: names,
types, versions, tags, what may be null, defaults. `tables.json` has the records, `protocol.json`
the requests and responses that are read, and of all others their names and versions.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

TABLES = Path(__file__).parents[1] / "kdump/messages/tables.json"
PROTOCOL = TABLES.with_name("protocol.json")

#: The requests whose fields are read.
READ = ("Produce", "Fetch", "ListOffsets", "Metadata")

#: What the specifications of a jar are about, by the jar's name without its version.
AREAS = {
    "kafka-clients": "protocol",
    "kafka-group-coordinator": "group",
    "kafka-transaction-coordinator": "transaction",
    "kafka-share-coordinator": "share",
    "kafka-metadata": "metadata",
    "kafka-raft": "raft",
    "kafka-storage": "storage",
}
KINDS = {"coordinator-key": "key", "coordinator-value": "value", "metadata": "record", "data": ""}
_REMARK = re.compile(r'^((?:[^"/\n]|"(?:[^"\\\n]|\\.)*")*)//.*$', re.MULTILINE)

Table = dict[str, Any]


def main(arguments: list[str]) -> int:
    """Write the tables, or with --check say whether they are what the jars say."""
    check = "--check" in arguments
    named = [argument for argument in arguments if argument != "--check"]
    split = named.index("--older") if "--older" in named else len(named)
    newest, older = [Path(one) for one in named[:split]], [Path(one) for one in named[split + 1 :]]
    texts = {TABLES: tables(newest, older), PROTOCOL: protocol(newest, older)}
    if check:
        return int(any(path.read_text("utf-8") != text for path, text in texts.items()))
    for path, text in texts.items():
        path.write_text(text, "utf-8")
    return 0


def tables(newest: Any, older: Any = ()) -> str:
    """Return the text of tables.json: a line for each message, in the order of their names."""
    found = {table["name"]: table for table in specifications(newest)}
    numbered = {record_of(table) for table in found.values()} - {None}
    for table in specifications(older):
        if record_of(table) is not None and record_of(table) not in numbered:
            found[table["name"]] = table
    lines = [
        f"{json.dumps(name)}:{json.dumps(without_name(found[name]), separators=(',', ':'))}"
        for name in sorted(found)
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def protocol(newest: Any, older: Any = ()) -> str:
    """Return the text of protocol.json: the apis by number, then the messages that are read.

    What only an older server reads of a message is one of its own, named with its versions.
    """
    apis: dict[int, list[str]] = {}
    lines = {}
    for jars in (newest, older):
        for one in requests_and_responses(jars):
            kind = one["type"]
            name = one["name"].removesuffix(kind.title())
            first, last = bounds(one["validVersions"])
            if kind == "request":
                known = apis.setdefault(one["apiKey"], [name, f"{first}-{last}", flexible(one)])
                first_known, last_known = bounds(known[1])
                known[1] = f"{min(first, first_known)}-{max(last, last_known)}"
                if known[2] == "none":
                    known[2] = flexible(one)
            if name in READ:
                table = without_name(table_of(one, "protocol"))
                at = one["name"]
                if at in lines:
                    last = bounds(lines[at]["versions"])[0] - 1
                    table["versions"] = f"{first}-{last}"
                    at = f"{at} {first}-{last}"
                if first <= last:
                    lines[at] = table
    texts = [f'"apis":{json.dumps(dict(sorted(apis.items())), separators=(",", ":"))}'] + [
        f"{json.dumps(at)}:{json.dumps(lines[at], separators=(',', ':'))}" for at in sorted(lines)
    ]
    return "{\n" + ",\n".join(texts) + "\n}\n"


def flexible(one: Table) -> str:
    """Which versions have tagged fields, and so another header."""
    return str(one.get("flexibleVersions", "none"))


def bounds(versions: str) -> tuple[int, int]:
    """Return the first and the last of a range of versions; of none, a range without any."""
    if versions == "none":
        return 1, 0
    first, _, last = versions.partition("-")
    return int(first), int(last or first)


def requests_and_responses(paths: Any) -> Any:
    """Yield the specifications of requests and responses that any version is known of."""
    for one, _ in documents(paths):
        if one["type"] in ("request", "response") and one["validVersions"] != "none":
            yield one


def record_of(table: Table) -> tuple[str, str, int] | None:
    """What a record says its kind is, and which no two may share; None for other messages."""
    return (table["area"], table["kind"], table["id"]) if table.get("kind") else None


def without_name(table: Table) -> Table:
    return {name: value for name, value in table.items() if name != "name"}


def specifications(paths: Any) -> Any:
    """Yield the tables of all specifications but those of requests, responses and headers."""
    for one, area in documents(paths):
        if one["type"] in KINDS and not one["name"].endswith("PrincipalData"):
            yield table_of(one, area)


def documents(paths: Any) -> Any:
    """Yield all specifications in some jars, each with what its jar is about."""
    for path in paths:
        for jar in sorted(path.rglob("*.jar")) if path.is_dir() else [path]:
            area = AREAS.get(re.sub(r"-[0-9].*$", "", jar.stem))
            if area is None:
                continue
            with zipfile.ZipFile(jar) as archive:
                for name in sorted(archive.namelist()):
                    if re.search(r"(message|common/metadata)/\w+\.json$", name):
                        text = _REMARK.sub(r"\1", archive.read(name).decode()).lstrip()
                        # One of 2.8 has a brace too many behind it.
                        one, _ = json.JSONDecoder().raw_decode(text)
                        yield one, area


def table_of(one: Table, area: str) -> Table:
    """Keep of a specification what reading and writing needs."""
    table: Table = {"name": one["name"], "area": area, "versions": one["validVersions"]}
    if KINDS.get(one["type"]):
        table |= {"kind": KINDS[one["type"]], "id": one["apiKey"]}
    flexible = one.get("flexibleVersions", "none")
    if flexible != "none":
        table["flexible"] = flexible
    table["fields"] = [field_of(field) for field in one["fields"]]
    structs = {
        struct["name"]: [field_of(field) for field in struct["fields"]]
        for struct in one.get("commonStructs", ())
    }
    return table | ({"structs": structs} if structs else {})


def field_of(field: Table) -> list[Any]:
    """Make a field's list: name, type, and where there is more to say, an object with it."""
    assert field.get("flexibleVersions") is None, "only headers of requests have such fields"
    more: Table = {}
    versions = field.get("versions", field.get("taggedVersions"))
    if versions != "0+":
        more["versions"] = versions
    if "nullableVersions" in field:
        more["nullable"] = field["nullableVersions"]
    if "tag" in field:
        more |= {"tag": field["tag"], "tagged": field["taggedVersions"]}
    default = field.get("default", "")
    if default not in ("", None):  # a null that is no text is taken for nothing said
        more["default"] = default_of(default)
    if "fields" in field:
        more["fields"] = [field_of(inner) for inner in field["fields"]]
    name = field["name"][0].lower() + field["name"][1:]
    return [name, field["type"], *([more] if more else [])]


def default_of(default: object) -> object:
    """A default as a value of JSON; specifications have some of them as text."""
    words = {"null": None, "true": True, "false": False}
    if not isinstance(default, str):
        return default
    return words[default] if default in words else int(default, 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
