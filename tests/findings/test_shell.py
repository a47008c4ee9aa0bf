"""A printed command is exactly its words, or the reason why there is none."""

import os
import subprocess
from pathlib import Path

from each import each

from kdump.findings.shell import (
    Variable,
    cluster_id_word,
    format_command,
    is_command,
    join_commands,
    path_word,
    topic_word,
    uuid_word,
)

REFUSED = [
    (topic_word("a;touch x;"), "Kafka cannot have a topic named 'a;touch x;'"),
    (topic_word("a" * 250), f"Kafka cannot have a topic named '{'a' * 79}…'"),
    (topic_word(".."), "Kafka cannot have a topic named .."),
    (topic_word("a\n"), "Kafka cannot have a topic named $'a\\x0a'"),
    (cluster_id_word("x$(touch x)"), "Kafka cannot have the cluster id 'x$(touch x)'"),
    (uuid_word("s/x/e touch x/e"), "Kafka cannot have the id 's/x/e touch x/e'"),
    ("a\0b", "no argument can contain the NUL of $'a\\x00b'"),
]


@each(("word", "why"), REFUSED)
def test_impossible_value_gives_no_command(word: str, why: str) -> None:
    for line in (
        format_command(("printf", word)),
        format_command(("cat",), stdin=word),
        format_command(("cat",), into=word),
        format_command(("cat",), pipe_to=("grep", word)),
    ):
        assert line == f"# no command: {why}"
        assert not is_command(line)
        assert subprocess.run(["bash", "-c", line], check=True, capture_output=True).stdout == b""


def test_possible_values_are_not_quoted() -> None:
    words = ("tool", topic_word("a.b_C-1"), topic_word("t", 7), cluster_id_word(None))
    assert format_command((*words, cluster_id_word("c0rpusSharedAAAAAAAAAA"))) == (
        "tool a.b_C-1 t:7 CLUSTER_ID c0rpusSharedAAAAAAAAAA"
    )


def test_redirections_are_quoted() -> None:
    line = format_command(
        ("cat",), stdin="a'$(b)|", pipe_to=("grep", "-F", "$(b)|"), into="/dev/stdout"
    )
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=True)
    assert done.stdout == b"a'$(b)|\n"
    assert line.count("|") == 1


def test_commands_are_joined() -> None:
    refused = format_command(("b", topic_word("$")))
    assert join_commands(["a", refused, "c", refused]) == f"a && c {refused}"
    assert join_commands([]) == ""


@each("path", ["-rf", "-", "--help", "-\n", os.fsdecode(b"-\xff")])
def test_path_is_not_taken_as_an_option(path: str) -> None:
    line = format_command(("printf", "%s", path_word(path)))
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=True)
    assert os.fsdecode(done.stdout) == f"./{path}"


def test_command_needs_its_directory_variable(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    target = Variable("WHERE", "/a b", option="--target-directory=")
    line = format_command(("rm", "-rf", Variable("WHERE", "/a b"))) + "; echo " + target.text
    unset = subprocess.run(["bash", "-c", line], capture_output=True, check=False, cwd=tmp_path)
    assert unset.returncode
    assert b"WHERE" in unset.stderr
    assert not unset.stdout
    assert (tmp_path / "a b").exists()
    where = {"WHERE": str(tmp_path), "PATH": os.environ["PATH"]}
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=True, env=where)
    assert done.stdout.decode() == f"--target-directory={tmp_path}/a b\n"
    assert not (tmp_path / "a b").exists()
