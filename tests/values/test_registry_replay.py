"""What a registry has after its records: ids, versions, what is deleted, GUIDs."""

import json
from hashlib import md5

from each import each
from registry_log import schema_record, tombstone

from kdump.values.schemas.registry import Registry, Schema, choose, context_of, plain_subject


def replayed(*records: tuple[bytes | None, bytes | None]) -> Registry:
    registry = Registry()
    for offset, record in enumerate(records):
        registry.take(offset, *record)
    return registry


def states(registry: Registry) -> list[tuple[str, int, int, str]]:
    return [(one.subject, one.version, one.id, one.deleted) for one in registry]


def delete_subject(subject: str, version: int) -> tuple[bytes, bytes]:
    key = {"keytype": "DELETE_SUBJECT", "subject": subject, "magic": 0}
    return json.dumps(key).encode(), json.dumps({"subject": subject, "version": version}).encode()


def test_deleted_subject_keeps_the_versions_above() -> None:
    registry = replayed(
        schema_record("a", 1, 5, "int"),
        schema_record("a", 2, 6, "long"),
        delete_subject("a", 1),
        delete_subject("other", 1),
    )
    assert states(registry) == [("a", 1, 5, "soft"), ("a", 2, 6, "no")]
    latest = registry.latest("a")
    assert latest is not None
    assert latest.version == 2
    assert registry.latest("other") is None


def test_recreated_version_keeps_the_first_id() -> None:
    registry = replayed(
        schema_record("a", 1, 5, "int"),
        schema_record("a", 1, 5, "int", deleted=True),
        tombstone("a", 1),
        tombstone("never", 1),
        schema_record("a", 1, 9, "long"),
    )
    assert states(registry) == [("a", 1, 5, "hard"), ("a", 1, 9, "no")]
    referred = registry.find_reference(registry.with_id(9)[0], "a", 1)
    assert referred is not None
    assert referred.id == 9


def test_repeated_record_changes_only_the_deletion() -> None:
    registry = replayed(
        schema_record("a", 1, 5, "int"), schema_record("a", 1, 5, "int", deleted=True)
    )
    assert states(registry) == [("a", 1, 5, "soft")]


def test_guid_is_the_digest_unless_recorded() -> None:
    references = [{"name": "n", "subject": "s", "version": 3}]
    registry = replayed(
        schema_record("a", 1, 5, "int", references=references),
        schema_record("b", 1, 6, "int", md5="AAECAwQFBgcICQoLDA0ODw=="),
    )
    made = md5(b"intns\0\0\0\3", usedforsecurity=False).digest()
    assert [one.subject for one in registry.with_guid(made)] == ["a"]
    assert [one.subject for one in registry.with_guid(bytes(range(16)))] == ["b"]
    assert registry.with_guid(bytes(16)) == []


@each(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"\xff", b"{}"),
        (b"[" * 100_000, b"{}"),
        (b"[]", b"{}"),
        (b'{"keytype":"SCHEMA"}', b"{}"),
        (b'{"keytype":"SCHEMA","subject":7,"version":1}', b'{"id":1,"schema":"int"}'),
        (b'{"keytype":"SCHEMA","subject":"a","version":"1"}', b'{"id":1,"schema":"int"}'),
        (b'{"keytype":"SCHEMA","subject":"a","version":1}', b'{"id":true,"schema":"int"}'),
        (b'{"keytype":"SCHEMA","subject":"a","version":1}', b'{"id":1,"schema":null}'),
        (b'{"keytype":"SCHEMA","subject":"a","version":1}', b'{"id":1,"schema":"x","md5":7}'),
        (b'{"keytype":"DELETE_SUBJECT"}', b'{"subject":"a"}'),
    ],
)
def test_invalid_registry_records_are_counted(key: bytes | None, value: bytes) -> None:
    registry = replayed((key, value), schema_record("a", 1, 5, "int"))
    assert registry.unread == 1
    assert states(registry) == [("a", 1, 5, "no")]


def test_records_other_than_schemas_are_skipped() -> None:
    registry = replayed(
        (b'{"keytype":"NOOP","magic":0}', None),
        (b'{"keytype":"CONFIG","magic":0}', b'{"compatibilityLevel":"FULL"}'),
        (b'{"keytype":"CLEAR_SUBJECT","subject":"a"}', b'{"subject":"a"}'),
    )
    assert (registry.unread, states(registry)) == (0, [])


def test_subjects_of_a_context() -> None:
    assert [context_of(one) for one in ("a", ":.:a", ":.blue:a", ":a:b")] == ["", "", ".blue", ""]
    assert [plain_subject(one) for one in ("a", ":.blue:a:b")] == ["a", "a:b"]


def test_subject_of_a_topic_is_chosen_for_an_id() -> None:
    def of(*subjects: str) -> list[Schema]:
        return [Schema(subject, 1, 7, "avro", "int") for subject in subjects]

    def name(found: Schema | None) -> str | None:
        return None if found is None else found.subject

    names = ["orders-value", "orders-com.Order", "com.Order"]
    assert name(choose(of("x", "com.Order", "orders-value"), names)) == "orders-value"
    assert name(choose(of("x", "com.Order"), names)) == "com.Order"
    assert name(choose(of("x", "y"), names)) == "x"
    # an id of a context is another id, but where the subject says that it is the topic's
    assert name(choose(of(":.blue:x"), names)) is None
    assert name(choose(of("x", ":.blue:orders-value"), names)) == ":.blue:orders-value"
    assert name(choose(of(":.blue:orders-value", "orders-value"), names)) == "orders-value"
    assert choose([], names) is None


def test_reference_is_searched_in_its_own_context() -> None:
    registry = replayed(
        schema_record("base", 1, 1, "int"),
        schema_record(":.blue:base", 1, 1, "long"),
        schema_record(":.blue:a", 1, 2, "string"),
    )
    by = registry.with_id(2)[0]
    found = registry.find_reference(by, "base", 1)
    assert found is not None
    assert found.text == "long"
    latest = registry.find_reference(registry.with_id(1)[0], "base", -1)
    assert latest is not None
    assert latest.text == "int"
