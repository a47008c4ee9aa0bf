"""Replay the topic in which a schema registry keeps its schemas.

Its records are JSON. A schema's id is the same wherever its text is: ids are of a context, a
version may be given to another schema once it was deleted for good, and what was deleted can be
read as long as its record is on the disk. So schemas are kept by record, and found by id.
"""

from __future__ import annotations

import json
from binascii import a2b_base64
from collections.abc import Iterable, Iterator
from typing import Any

LIVE, SOFT, HARD = "no", "soft", "hard"
#: A registry's name for the types; Avro's is mostly left out.
_TYPES = {"AVRO": "avro", "PROTOBUF": "protobuf", "JSON": "json"}


class Schema:
    """A schema as a record of the registry has it."""

    __slots__ = (
        "_guid", "context", "deleted", "extras", "id", "offset", "references", "subject", "text",
        "type", "version",
    )  # fmt: skip

    def __init__(self, subject: str, version: int, id_: int, type_: str, text: str) -> None:
        self.subject, self.version, self.id, self.type, self.text = (
            subject, version, id_, type_, text,
        )  # fmt: skip
        self.context = context_of(subject)
        self.references: tuple[tuple[str, str, int], ...] = ()  # name, subject, version
        self.deleted, self.offset = LIVE, -1
        self._guid: bytes | None = None
        self.extras: tuple[str, ...] = ()  # metadata and rules, which a GUID is made of too

    @property
    def guid(self) -> bytes:
        """The 16 bytes by which headers name it: said by the record, else the MD5 of its parts."""
        if self._guid is None:
            from hashlib import md5

            made = md5(self.text.encode("utf-8", "surrogatepass"), usedforsecurity=False)
            for name, subject, version in self.references:
                made.update(f"{name}{subject}".encode("utf-8", "surrogatepass"))
                made.update((version & 0xFFFFFFFF).to_bytes(4, "big"))
            for extra in self.extras:
                made.update(extra.encode("utf-8", "surrogatepass"))
            self._guid = made.digest()
        return self._guid

    def set_guid(self, guid: bytes) -> None:
        """Set the GUID that the record has."""
        self._guid = guid


class Registry:
    """Every schema of a registry, as of the last record that was taken."""

    def __init__(self) -> None:
        self._by_id: dict[int, list[Schema]] = {}
        self._versions: dict[tuple[str, int], Schema] = {}
        self._subjects: dict[str, dict[int, None]] = {}
        self._texts: dict[str, str] = {}  # each once, however many have it
        self._by_guid: dict[bytes, list[Schema]] | None = None
        #: Records that are none of a registry's, and findings of damage in its topic.
        self.unread = self.damaged = 0

    def __iter__(self) -> Iterator[Schema]:
        """Yield all of them, in the order of ids and then of records."""
        return (one for id_ in sorted(self._by_id) for one in self._by_id[id_])

    def with_id(self, id_: int) -> list[Schema]:
        """Return the schemas that have an id, in the order of their records."""
        return self._by_id.get(id_, [])

    def with_guid(self, guid: bytes) -> list[Schema]:
        """Return the schemas that a GUID names."""
        if self._by_guid is None:
            self._by_guid = {}
            for one in self:
                self._by_guid.setdefault(one.guid, []).append(one)
        return self._by_guid.get(guid, [])

    def find_reference(self, by: Schema, subject: str, version: int) -> Schema | None:
        """Return what a schema refers to: a version of a subject, of its own context first."""
        if version < 0:
            return self.latest(subject)
        if by.context and not context_of(subject):
            found = self._versions.get((f":{by.context}:{subject}", version))
            if found is not None:
                return found
        return self._versions.get((subject, version))

    def latest(self, subject: str) -> Schema | None:
        """Return the newest version of a subject that is not deleted."""
        for version in sorted(self._subjects.get(subject, ()), reverse=True):
            found = self._versions[subject, version]
            if found.deleted == LIVE:
                return found
        return None

    def take(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Take the next record; one that cannot be read is counted."""
        try:
            named = json.loads(key or b"")
            said = None if value is None else json.loads(value)
            self._take(offset, named, said)
        except (ValueError, TypeError, KeyError, RecursionError):
            self.unread += 1

    def _take(self, offset: int, key: dict[str, Any], value: dict[str, Any] | None) -> None:
        kind = key["keytype"]
        if kind == "DELETE_SUBJECT" and value is not None:
            self._delete(_text(value["subject"]), _number(value["version"]))
        if kind != "SCHEMA":
            return
        subject, version = _text(key["subject"]), _number(key["version"])
        before = self._versions.get((subject, version))
        if value is None:
            if before is not None:
                before.deleted = HARD
            return
        if value.get("schema") is None:
            self.unread += 1
            return
        made = self._schema(offset, subject, version, value)
        if before is not None and before.id == made.id and before.text == made.text:
            before.deleted = made.deleted
            return
        if before is not None:
            before.deleted = HARD
        self._versions[subject, version] = made
        self._subjects.setdefault(subject, {})[version] = None
        self._by_id.setdefault(made.id, []).append(made)
        self._by_guid = None

    def _schema(self, offset: int, subject: str, version: int, value: dict[str, Any]) -> Schema:
        text = _text(value["schema"])
        type_ = _text(value.get("schemaType") or "AVRO")
        made = Schema(
            subject,
            version,
            _number(value["id"]),
            _TYPES.get(type_.upper(), type_),
            self._texts.setdefault(text, text),
        )
        made.offset = offset
        made.deleted = SOFT if value.get("deleted") is True else LIVE
        made.references = tuple(
            (_text(one["name"]), _text(one["subject"]), _number(one["version"]))
            for one in value.get("references") or ()
        )
        if value.get("md5") is not None:
            guid = a2b_base64(value["md5"])
            if len(guid) == 16:
                made.set_guid(guid)
        made.extras = tuple(
            json.dumps(value[name], separators=(",", ":"))
            for name in ("metadata", "ruleSet")
            if value.get(name)
        )
        return made

    def _delete(self, subject: str, upto: int) -> None:
        for version in self._subjects.get(subject, ()):
            found = self._versions[subject, version]
            if version <= upto and found.deleted == LIVE:
                found.deleted = SOFT


def context_of(subject: str) -> str:
    """Return the context in a qualified subject, `:.CONTEXT:SUBJECT`; empty: the default one."""
    if not subject.startswith(":."):
        return ""
    context = subject[1:].partition(":")[0]
    return "" if context == "." else context


def plain_subject(subject: str) -> str:
    """Return a subject without its context."""
    return subject[1:].partition(":")[2] if subject.startswith(":.") else subject


def choose(found: Iterable[Schema], names: Iterable[str]) -> Schema | None:
    """Return which of the schemas with one id wrote a side of a topic.

    `names`: the subjects that it may have, first what is likelier. Ids are of a context: one whose
    subject does not tell is of the default context.
    """
    schemas = list(found)
    for name in names:
        fitting = [one for one in schemas if plain_subject(one.subject) == name]
        if fitting:
            return _best(fitting)
    plain = [one for one in schemas if not one.context]
    return _best(plain) if plain else None


def _best(schemas: list[Schema]) -> Schema:
    """Of the default context first, then of those not deleted, then the first."""
    return min(schemas, key=lambda one: (one.context != "", one.deleted != LIVE))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError
    return value
