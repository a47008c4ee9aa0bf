"""`kdump version`, as `kdump --version`."""

from __future__ import annotations

import click


@click.command()
@click.pass_context
def version(ctx: click.Context) -> None:
    """Print the version, and whether compiled code is in use."""
    from kdump.cli import print_version

    print_version(ctx)
