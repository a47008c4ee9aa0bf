from each import each
from generated import given, st

from kdump.storage import properties

META = (
    b"#\n#Sat Nov 21 00:07:50 UTC 2026\nnode.id=1\ndirectory.id=Lq8pIYk-0JLg5Cnoy6C1zQ\n"
    b"version=1\ncluster.id=c0rpusSharedAAAAAAAAAA\n"
)


def test_meta_properties_of_a_kraft_node() -> None:
    found = properties.parse_meta_properties(META)
    assert found.problems == []
    assert found.values == {
        "node.id": "1",
        "directory.id": "Lq8pIYk-0JLg5Cnoy6C1zQ",
        "version": "1",
        "cluster.id": "c0rpusSharedAAAAAAAAAA",
    }


def test_meta_properties_of_an_old_broker() -> None:
    found = properties.parse_meta_properties(b"#\nversion=0\nbroker.id=0\n")
    assert (found.values, found.problems) == ({"version": "0", "broker.id": "0"}, [])


def test_missing_version_is_0() -> None:
    assert properties.parse_meta_properties(b"broker.id=3\n").problems == []


@each(
    ("data", "expected", "actual"),
    [
        (META.replace(b"node.id=1", b""), "node.id, a number", None),
        (META.replace(b"node.id=1", b"node.id=x"), "node.id, a number", "x"),
        (META.replace(b"cluster.id=c0rpusSharedAAAAAAAAAA", b""), "cluster.id", None),
        (META.replace(b"version=1", b"version=9"), "version=0 or version=1", "9"),
        (META.replace(b"zQ", b""), "directory.id of 22 characters", "Lq8pIYk-0JLg5Cnoy6C1"),
        (b"version=0\nbroker.id=one", "broker.id, a number", "one"),
    ],
)
def test_meta_properties_malformed(data: bytes, expected: str, actual: str | None) -> None:
    (problem,) = properties.parse_meta_properties(data).problems
    assert problem.code == "properties-malformed"
    assert (problem.expected, problem.actual) == (expected, actual)


@each(
    ("line", "name", "value"),
    [
        ("a=b", "a", "b"),
        ("a : b ", "a", "b "),
        ("a b", "a", "b"),
        ("  a\t=\tb=c", "a", "b=c"),
        ("a", "a", ""),
        ("a\\=x=b", "a=x", "b"),
        ("a=b\\n\\t\\\\", "a", "b\n\t\\"),
        ("a=\\u0041\\u00e9", "a", "A\u00e9"),
        ("a=\\ud83d\\ude00", "a", "\U0001f600"),
        ("a=\\ud83d", "a", "\ufffd"),
        ("a=b\\\n   c", "a", "bc"),
        ("a=b\\\n#c", "a", "b#c"),
        ("a=b\\", "a", "b"),
        ("a=\xe9", "a", "\xe9"),
    ],
)
def test_java_properties_syntax(line: str, name: str, value: str) -> None:
    data = f"! comment\n\n{line}\n".encode("latin-1")
    assert properties.parse_meta_properties(data).values == {name: value}


def test_partition_metadata() -> None:
    found = properties.parse_partition_metadata(b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    assert found.values == {"version": "0", "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"}
    assert found.problems == []


@each(
    "data",
    [
        b"",
        b"version: 0\n",
        b"version: -1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ",
        b"topic_id: AAAAAAAAAAAAAAAAAAAAAQ",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        b"version: 0\ntopic_id: short",
    ],
)
def test_partition_metadata_malformed(data: bytes) -> None:
    assert [p.code for p in properties.parse_partition_metadata(data).problems] == [
        "properties-malformed"
    ] * (2 if not data else 1)


def test_quorum_state() -> None:
    found = properties.parse_quorum_state(
        b'{"clusterId":"","leaderId":1,"votedId":-1,"currentVoters":[{"voterId":1}],'
        b'"x":null,"data_version":0}'
    )
    assert found.problems == []
    assert found.values == {
        "clusterId": "",
        "leaderId": "1",
        "votedId": "-1",
        "currentVoters": '[{"voterId":1}]',
        "x": None,
        "data_version": "0",
    }


@each(
    "data",
    [
        b"",
        b"{}",
        b'{"data_version":2}',
        b"[]",
        b"null",
        b'{"data_version":0',
        b"\xff\xfe\x00",
        b"[" * 100000,
        b'{"data_version":' + b"9" * 6000 + b"}",
    ],
)
def test_quorum_state_malformed(data: bytes) -> None:
    (problem,) = properties.parse_quorum_state(data).problems
    assert problem.code == "properties-malformed"


def test_malformed_file_is_shown_by_its_fields() -> None:
    def problem(found: properties.Properties) -> tuple[object, object]:
        (one,) = found.problems
        assert one[:3] == ("properties-malformed", None, None)
        assert one.places == 1
        return one.expected, one.actual

    long = "x" * 201
    meta, topic, quorum = (
        properties.parse_meta_properties,
        properties.parse_partition_metadata,
        properties.parse_quorum_state,
    )
    assert problem(meta(f"version={long}".encode())) == ("version=0 or version=1", long[:200])
    assert problem(meta(b"directory.id=x")) == ("directory.id of 22 characters", "x")
    assert problem(meta(b"version=-1")) == ("version=0 or version=1", "-1")
    assert problem(topic(b"version: x\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")) == ("version: 0", "x")
    assert problem(topic(b"version: 1\n")) == ("topic_id of 22 characters, not zero", None)
    assert problem(quorum(b'{"data_version":3}')) == ("data_version 0 or 1", "3")
    assert problem(quorum(b"[1]")) == ("a JSON object", "[1]")
    assert problem(quorum(long.encode())) == ("a JSON object", long[:200])
    assert problem(properties.parse_clean_shutdown(b"\xff")) == ("a JSON object", "\ufffd")


def test_meta_properties_of_each_version() -> None:
    for data in (
        b"version=1\nnode.id=1\ncluster.id=a\n",
        b"version=0\n",  # it takes its id from its settings
        b"version=0\nnode.id=x\n",
        b"version=0\nbroker.id=-1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ==\n",
    ):
        assert properties.parse_meta_properties(data).problems == [], data
    for data, count in ((b"version=1\n", 2), (b"version=1\nbroker.id=1\ncluster.id=\n", 2)):
        assert len(properties.parse_meta_properties(data).problems) == count


def test_partition_metadata_is_read_as_by_brokers() -> None:
    found = properties.parse_partition_metadata(
        b" version :  2 \n\nno colon\ntopic_id:AAAAAAAAAAAAAAAAAAAAAQ==\nother: a:b\n"
    )
    assert found.values == {
        "version": "2",
        "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ==",
        "other": "a:b",
    }
    assert found.problems == []


def test_clean_shutdown_file_is_read() -> None:
    assert properties.parse_clean_shutdown(b"") == properties.Properties({}, [])
    found = properties.parse_clean_shutdown(b'{"version":0,"brokerEpoch":745}')
    assert (found.values, found.problems) == ({"version": "0", "brokerEpoch": "745"}, [])
    assert properties.parse_clean_shutdown(b"garbage").problems


def test_names_can_be_written_back() -> None:
    found = properties.parse_quorum_state(b'{"data_version":0,"\\ud800":"\\udfff"}')
    assert found.values == {"data_version": "0", "\ufffd": "\ufffd"}


@given(st.one_of(st.binary(max_size=100), st.text('ab=:#!\\u00e9 \t\n\r"{}[],0', max_size=60)))
def test_any_bytes_are_survived(data: bytes | str) -> None:
    if isinstance(data, str):
        data = data.encode()
    for parse in (
        properties.parse_meta_properties,
        properties.parse_partition_metadata,
        properties.parse_quorum_state,
        properties.parse_clean_shutdown,
    ):
        for value in parse(data).values.values():
            assert value is None or value.encode() is not None
