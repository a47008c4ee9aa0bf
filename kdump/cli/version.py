"""`kdump version`, as `kdump --version`."""

from __future__ import annotations

import click


@click.command()
@click.pass_context
def version(ctx: click.Context) -> None:
    """Print the version and the kernel in use."""
    from kdump.cli import print_version

    print_version(ctx)
