"""Format every command that kdump prints, as one line that a shell reads as exactly these words.

Paths, names of topics and groups, and ids in a command come from a disk. `format_command` quotes
each word; no other module joins words into a command (a test reads them all). A value that Kafka
cannot have is not printed as an argument: the line is then a comment that gives the reason.

What kdump cannot know is one of the placeholders below, and no other word. A directory whose files
a command replaces or removes is a `Variable`: pasted before it is set, the line does nothing.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Sequence

from kdump.storage.names import DirectoryName
from kdump.tuples import NamedTuple

#: HOST:PORT of a running broker, of a controller, of a ZooKeeper server.
BOOTSTRAP, CONTROLLER, ZOOKEEPER = "BOOTSTRAP", "CONTROLLER", "ZOOKEEPER"
#: What the user chooses: a consumer group, a file, a new directory, one of several copies.
GROUP, FILE, DIRECTORY, COPY = "GROUP", "FILE", "DIR", "COPY"
#: Of the broker that is to be changed: its data directory, and the id of its cluster.
LOG_DIR, CLUSTER_ID = "LOG_DIR", "CLUSTER_ID"
#: Its settings, and a directory outside the data directories to move files to.
SERVER_PROPERTIES, ASIDE = "server.properties", "ASIDE"

#: Kafka makes cluster ids of 22 characters of base64; a user may give `kafka-storage.sh` others.
_CLUSTER_ID = re.compile(r"[a-zA-Z0-9._=-]{1,249}", re.ASCII)
_UUID = re.compile(r"[a-zA-Z0-9_-]{22}", re.ASCII)
_NO_COMMAND = "# no command: "
_SHOWN = 80  # characters of a value that is refused


class Unusable(NamedTuple):
    """In place of a word: a value that cannot be an argument, and why."""

    why: str


class Variable(NamedTuple):
    """A directory that the user names in a shell variable; unset, the shell runs nothing."""

    name: str
    below: str = ""
    option: str = ""

    @property
    def text(self) -> str:
        """The word as bash reads it: an error if the variable is unset or empty."""
        return f'{self.option}"${{{self.name}:?}}"{quote(self.below) if self.below else ""}'


Word = str | Unusable | Variable


def format_command(
    words: Iterable[Word],
    *,
    stdin: Word | None = None,
    pipe_to: Sequence[Word] = (),
    into: Word | None = None,
) -> str:
    """Return a line of bash that runs exactly these words.

    With `stdin` the text is its standard input, with `pipe_to` its output goes to another command,
    with `into` to a file. A line that would need a value that cannot be given is a comment.
    """
    groups = [("", [*words])]
    groups += [] if stdin is None else [(" <<< ", [stdin])]
    groups += [(" | ", [*pipe_to])] if pipe_to else []
    groups += [] if into is None else [(" > ", [into])]
    line = ""
    for sign, some in groups:
        texts = []
        for word in some:
            if isinstance(word, Unusable):
                return _NO_COMMAND + word.why
            if isinstance(word, Variable):
                texts.append(word.text)
            elif "\0" in word:
                return f"{_NO_COMMAND}no argument can contain the NUL of {_show(word)}"
            else:
                texts.append(quote(word))
        line += sign + " ".join(texts)
    return line


def join_commands(lines: Sequence[str]) -> str:
    """Return one line that runs one command after the other, as long as each succeeds."""
    commands = [line for line in lines if is_command(line)]
    return " ".join(filter(None, (" && ".join(commands), *sorted({*lines} - {*commands}))))


def is_command(line: str) -> bool:
    """Whether a formatted line runs something, rather than giving the reason why it does not."""
    return not line.startswith(_NO_COMMAND)


def quote(word: str) -> str:
    """Quote one word for a shell; what a terminal would obey, and the bar, are spelled out.

    A monitoring system cuts its lines at a bar, quoted or not.
    """
    if word.isprintable() and "|" not in word:
        return shlex.quote(word)
    spelled = "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b"'\\|" else f"\\x{byte:02x}"
        for byte in os.fsencode(word)
    )
    return f"$'{spelled}'"


def path_word(path: str) -> str:
    """Return a path that no command reads as an option or as standard input."""
    return f"./{path}" if path.startswith("-") else path


def topic_word(topic: str, partition: int | None = None) -> Word:
    """Return the name of a topic, or of a partition of it as `--topic TOPIC:PARTITION` names it."""
    if why := explain_refused_topic(topic):
        return Unusable(why)
    return topic if partition is None else f"{topic}:{partition}"


def explain_refused_topic(topic: str) -> str:
    """Return why Kafka cannot have a topic of this name; empty if it can."""
    return (
        "" if DirectoryName(topic, 0).legal else f"Kafka cannot have a topic named {_show(topic)}"
    )


def cluster_id_word(cluster_id: str | None) -> Word:
    """Return the id of a cluster, its placeholder where it is not known."""
    if cluster_id is None or _CLUSTER_ID.fullmatch(cluster_id):
        return cluster_id or CLUSTER_ID
    return Unusable(f"Kafka cannot have the cluster id {_show(cluster_id)}")


def uuid_word(value: str) -> Word:
    """Return the id of a topic or of a data directory."""
    if _UUID.fullmatch(value):
        return value
    return Unusable(f"Kafka cannot have the id {_show(value)}")


def _show(value: str) -> str:
    short = value if len(value) <= _SHOWN else value[: _SHOWN - 1] + "…"
    return quote(short)


def words_of(command: str) -> list[str]:
    """Split a command as a shell does. Raises ValueError for a quote that is not closed."""
    return shlex.split(command)
