"""JSON as Jackson writes it. The cases were checked against Java 17."""

from kdump.output.kafka_text import camel_case, jackson


def test_json_has_upper_case_escapes() -> None:
    assert jackson({"a": "\x1b é"}) == '{"a":"\\u001B é"}'


def test_names_become_camel_case() -> None:
    named = {"kraft_version": 1, "voters": [{"voter_directory_id": "x"}], "port": 1}
    assert camel_case(named) == {
        "kRaftVersion": 1,
        "voters": [{"voterDirectoryId": "x"}],
        "port": 1,
    }
