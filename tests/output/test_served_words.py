"""The way past damage, in words and as commands."""

from each import each

from kdump.findings.commands import way_lines
from kdump.findings.finding import Finding, finding
from kdump.output.messages import way_past


def told(served_from: int | None, skipped: int, served_by: str | None = "4.1 starting") -> Finding:
    one = finding(
        "batch-length", path="/k/a b-0/0.log", topic="a b", partition=0, segment=0, next_offset=16
    )
    return one._replace(served_from=served_from, skipped_by_seek=skipped, served_by=served_by)


@each(
    ("one", "words"),
    [
        (told(None, 0, None), ""),
        (
            told(16, 0),
            (
                "If the next start does not truncate the log here, reset stuck groups to offset "
                "16, the first that a 4.1 broker can serve after the damage."
            ),
        ),
        (
            told(21, 1, "2.8.2 running"),
            (
                "The log continues at offset 16. Reset stuck groups to offset 21, the "
                "first that the running broker (if it is a 2.8.2) can serve after the damage. "
                "No consumer can fetch the 1 sound record between the damage and that offset; "
                "kdump dump shows them."
            ),
        ),
        (
            told(None, 24),
            (
                "The log continues at offset 16. If the next start does not truncate the "
                "log here, a 4.1 broker can serve nothing after the damage; kdump dump shows "
                "the 24 sound records from 16 on."
            ),
        ),
        (
            told(16, 0, "0.7"),
            (
                "Reset stuck groups to offset 16, the first that a 0.7 broker can serve after the "
                "damage."
            ),
        ),
    ],
)
def test_served_records_have_their_wording(one: Finding, words: str) -> None:
    assert way_past(one) == words


def test_served_records_have_their_commands() -> None:
    tool = "kafka-consumer-groups.sh --bootstrap-server BOOTSTRAP --group GROUP --reset-offsets"
    assert list(way_lines(told(21, 5)._replace(topic="a"))) == [
        f"{tool} --topic a:0 --to-offset 21 --execute",
        "kdump dump --from-offset 16 --to-offset 21 '/k/a b-0'",
    ]
    assert list(way_lines(told(21, 5))) == [
        "# no command: Kafka cannot have a topic named 'a b'",
        "kdump dump --from-offset 16 --to-offset 21 '/k/a b-0'",
    ]
    assert list(way_lines(told(None, 5))) == ["kdump dump --from-offset 16 '/k/a b-0'"]
    assert list(way_lines(told(16, 0))) == ["# no command: Kafka cannot have a topic named 'a b'"]
    assert list(way_lines(told(None, 0, None))) == []
