"""What pages say that code has: commands, findings, versions, members of rows, words of options.

Run as a program this file writes them into the pages, and breaks long lines; a test compares.
"""

import re
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

MAN = Path(__file__).parents[1] / "man"
README = MAN.with_name("README.md")
_WIDTH = 80  # bytes of a line


def _between(name: str) -> re.Pattern[str]:
    begin, end = (re.escape(f'.\\" {name} {word}') for word in ("begin", "end"))
    return re.compile(f"(?<={begin}\n).*?(?={end})", re.DOTALL)


def escape(text: str) -> str:
    """Write text as roff needs it."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text


def wrap(text: str) -> str:
    """Break lines of text that are filled anyway; `mandoc -T lint` wants at most 80 bytes."""
    lines: list[str] = []
    kept = is_tag = False
    for line in text.splitlines():
        if re.match(r"\.(?:nf|EX|TS)\b", line):
            kept = True
        elif re.match(r"\.(?:fi|EE|TE)\b", line):
            kept = False
        if kept or is_tag or line.startswith((".", "'")):
            lines.append(line)
        else:
            lines += _break_line(line)
        is_tag = line.startswith(".TP")
    return "".join(f"{line}\n" for line in lines)


def _break_line(line: str) -> list[str]:
    lines = [""]
    for word in re.split(r"(?<!\\) ", line):  # an escaped space is part of a word
        longer = f"{lines[-1]} {word}"
        if not lines[-1]:
            lines[-1] = word
        elif len(longer.encode()) <= _WIDTH:
            lines[-1] = longer
        else:  # at the start of a line a dot would begin a request
            lines.append(f"\\&{word}" if word.startswith((".", "'")) else word)
    return lines


def _findings() -> list[str]:
    """Give what is wrong, what it means, what to do next."""
    from kdump.findings.finding import CATALOGUE

    lines = []
    for code, entry in CATALOGUE.items():
        lines += [".TP", f'.BR {escape(code)} " ({entry.severity.value})"']
        lines += map(escape, filter(None, (entry.sentence, entry.meaning, entry.remedy)))
    return lines


def _versions() -> list[str]:
    """Give what each release changed, with the proposals and tickets that say so."""
    from kdump.broker import versions

    lines: list[str] = []
    since = None
    for change in vars(versions).values():
        if not isinstance(change, versions.Change):
            continue
        if change.since != since:
            since = change.since
            lines += [".TP", f".B {versions.text_of(since)}"]
        told = [code for code in change.source.split() if "-" in code]
        if change.until is not None:
            told.append(f"until {versions.text_of(change.until)}")
        lines.append(escape(change.does + (f" ({', '.join(told)})" if told else "")))
    return lines


def _members() -> list[str]:
    """Give the members of the rows of `dump`: what each is, and since which magic it is one."""
    from kdump.findings.schema import BATCH, RECORD

    lines: list[str] = []
    for row, fields in (("record", RECORD), ("batch", BATCH)):
        lines += [".TP", f".B {row}", ".RS", ".PD 0"]
        for field in fields:
            since = f" (null below magic {field.since})" if field.since else ""
            lines += [".TP 19", f".I {field.name}", escape(field.doc + since)]
        lines += [".PD", ".RE"]
    return lines


def _of_command(name: str) -> list[str]:
    """Give the rows of a command: what each is, and what its members are."""
    from kdump.engine.registry import COMMANDS
    from kdump.rows.declarations import kinds, members

    of_it = COMMANDS[name].kinds if name in COMMANDS else ("schema-field",)
    lines: list[str] = []
    for kind in (kinds()[one] for one in of_it if one not in _ELSEWHERE):
        lines += [".TP", f".B {escape(kind.row)}", escape(str(kind.__doc__)), ".RS", ".PD 0"]
        for field in members(kind):
            lines += [".TP 19", f".I {escape(field.name)}", escape(field.doc)]
        lines += [".PD", ".RE"]
    return lines


def _commands() -> list[str]:
    """Give the commands by name, each with its line in the help."""
    from kdump.cli import HELP

    lines: list[str] = []
    for name in sorted(HELP):
        lines += [".TP", f".BR kdump-{name} (1)", escape(HELP[name])]
    return lines


def _symptoms() -> list[str]:
    """Give the symptoms, each with the commands to type first and its playbook."""
    from kdump.cli.symptoms import SYMPTOMS

    lines: list[str] = []
    for symptom in SYMPTOMS:
        lines += [".SS " + f'"{escape(symptom.title)}"', ".nf"]
        lines += [f".B {escape(command)}" for command in symptom.commands]
        lines += [".fi", f".I docs/playbooks/{escape(symptom.page)}.md"]
    return lines


def _sources() -> list[str]:
    """Give the sources of the timeline: kinds of events, clocks, what events are about."""
    from kdump.engine.timeline.sources import NO_TOPIC, SOURCES

    lines: list[str] = []
    for source in SOURCES:
        where = {NO_TOPIC: "data directories", None: "each partition"}.get(source.topic)
        kinds, clocks = (", ".join(one.split()) for one in (source.gives, source.clocks))
        lines += [".TP", f".B {escape(where or str(source.topic))}"]
        lines.append(escape(f"{kinds}; clock: {clocks}; about: {source.subject}"))
    return lines


def _spark_options() -> list[str]:
    """Give the options of Spark's data source: the views that have each, and what it does."""
    from kdump.spark.options import ALL, OPTIONS

    lines: list[str] = []
    for option in OPTIONS:
        views = "every view" if option.views == ALL else ", ".join(option.views)
        lines += [".TP", f'.BR {option.name} " ({escape(views)})"', escape(option.doc)]
    return lines


def _spark_columns() -> list[str]:
    """Give the columns that views of Spark have besides those of rows."""
    from kdump.rows.declarations import members
    from kdump.spark.owners import FILE, OWNER
    from kdump.spark.segment_rows import Segment
    from kdump.spark.verification import PartitionSums

    lines: list[str] = []
    for views, fields in (
        ("every view", OWNER),
        ("records, batches, index\\-entries, segments", FILE),
        ("segments", members(Segment)),
        ("summary", members(PartitionSums)),
    ):
        lines += [".TP", f".B {views}", ".RS", ".PD 0"]
        for field in fields:
            lines += [".TP 19", f".I {field.name}", escape(field.doc)]
        lines += [".PD", ".RE"]
    return lines


#: Kinds of rows with a list of their own, and those that belong to another command.
_ELSEWHERE = ("record", "batch", "finding", "salvaged", "salvage-step")
#: Commands whose pages have a list of all that rows have.
_LISTED = (
    "dump groups schema transactions sequences duplicates usage placement find-offset find-time"
    " reindex cluster why carve produce info timeline report"
).split()
LISTS = {
    "commands": ("kdump.1", _commands),
    "findings": ("kdump.1", _findings),
    "versions": ("kdump.1", _versions),
    "members": ("kdump-dump.1", _members),
    "sources of timeline": ("kdump-timeline.1", _sources),
    "symptoms": ("kdump-playbooks.7", _symptoms),
    "options of spark": ("kdump-spark.7", _spark_options),
    "columns of spark": ("kdump-spark.7", _spark_columns),
    **{f"rows of {name}": (f"kdump-{name}.1", partial(_of_command, name)) for name in _LISTED},
}


def expected_list(name: str) -> str:
    """Give a list as the code has it."""
    return wrap("".join(f"{line}\n" for line in LISTS[name][1]()))


def written_list(name: str) -> str:
    """Give a list as its page has it."""
    found = _between(name).search((MAN / LISTS[name][0]).read_text("utf-8"))
    return found[0] if found else ""


def _choices() -> Iterator[tuple[Path, str, str]]:
    """Give each option that takes one of some words: its page, its name, and the words."""
    import click

    from kdump.cli import cli

    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        for option in command.params:
            if isinstance(option.type, click.Choice):
                yield MAN / f"kdump-{name}.1", option.opts[0], "|".join(option.type.choices)


def write_choices() -> None:
    """Put the words that options take into the pages, such as the names of formats."""
    for page, option, words in _choices():
        tag = re.compile(rf'^(\.B.*{re.escape(escape(option))} " )[^"|]+\|[^"]*"$', re.MULTILINE)
        text = page.read_text("utf-8")
        page.write_text(tag.sub(lambda tag, to=words: f'{tag[1]}{escape(to)}"', text), "utf-8")


def write_table() -> None:
    """Put the commands into the table of the README, in the order of the help."""
    from kdump.cli import HELP

    rows = "".join(
        f"| [`kdump {name}`](man/kdump-{name}.1) | {HELP[name].rstrip('.')} |\n" for name in HELP
    )
    text = README.read_text("utf-8")
    README.write_text(
        re.sub(r"(?:^\| \[?`kdump [a-z-]+`.*\n)+", rows, text, flags=re.MULTILINE), "utf-8"
    )


def write_wrapped() -> None:
    """Break the long lines of all pages."""
    for page in MAN.iterdir():
        page.write_text(wrap(page.read_text("utf-8")), "utf-8")


def write_lists() -> None:
    """Put the lists into the pages."""
    for name, (page, _) in LISTS.items():
        text = (MAN / page).read_text("utf-8")
        text = _between(name).sub(lambda _, name=name: expected_list(name), text)
        (MAN / page).write_text(text, "utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    write_lists()
    write_choices()
    write_table()
    write_wrapped()
