"""`watcher demo`, which brings its own configuration."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from watcher.cli.output import JsonOption
from watcher.host.machine import program

top = typer.Typer()


@top.command()
def demo(
    as_json: JsonOption = False,
    keep: Annotated[bool, typer.Option("--keep", help="Stay up afterwards, until Ctrl-C.")] = False,
    database: Annotated[
        Literal["sqlite", "postgresql"], typer.Option(help="Where the daemon keeps its metadata.")
    ] = "postgresql",
) -> None:
    """Show it at work on this machine, and count what was lost. PostgreSQL, S3 and Spark run for it; nothing is left."""
    from watcher.features.demo.command import demo_command  # noqa: PLC0415  see watcher.cli

    raise typer.Exit(demo_command(program(), json_output=as_json, keep=keep, database=database))
