"""`kdump help`: the help of a command, or the playbooks for a symptom."""

from __future__ import annotations

import click

from kdump.cli.symptoms import Symptom, find_matches


@click.command()
@click.argument("words", nargs=-1, metavar="[COMMAND | SYMPTOM]")
@click.pass_context
def help(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of COMMAND, or the commands and the playbook for SYMPTOM."""
    group = ctx.find_root()
    assert isinstance(group.command, click.Group)
    if not words:
        click.echo(group.get_help())
        return
    command = group.command.get_command(group, words[0]) if len(words) == 1 else None
    if command is not None:
        click.echo(command.get_help(click.Context(command, group, info_name=words[0])))
        return
    found, all_known = find_matches(" ".join(words))
    if not found:
        click.echo(f"no playbook matches {' '.join(words)!r}; these exist:\n")
    for symptom in found or all_known:
        _show(symptom)
    ctx.exit(0 if found else 1)


def _show(symptom: Symptom) -> None:
    click.echo(symptom.title)
    for command in symptom.commands:
        click.echo(f"    {command}")
    click.echo(f"    playbook: docs/playbooks/{symptom.page}.md, man kdump-playbooks\n")
