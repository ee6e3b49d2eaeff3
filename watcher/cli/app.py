"""The program's commands, put together."""

from __future__ import annotations

from typing import Annotated

import typer

from watcher.cli import (
    administration,
    assets,
    configuration,
    explain,
    init,
    jobs,
    kubernetes,
    pages,
    reconcile,
    replay,
    runs,
    status,
    store,
    tokens,
    watchers,
)
from watcher.cli.failures import EXIT_CODES, Commands

app = typer.Typer(
    name="watcher",
    cls=Commands,
    no_args_is_help=True,
    epilog=EXIT_CODES,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(requested: bool) -> None:
    if requested:
        from watcher.host.machine import program_version  # noqa: PLC0415  see watcher.cli

        typer.echo(program_version())
        raise typer.Exit


@app.callback()
def watcher(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """New files and new rows, each exactly once, to PySpark jobs."""


for function in (configuration.run, configuration.demo, configuration.schema):
    app.command()(function)
for part in (
    init.top,
    configuration.top,
    watchers.top,
    status.top,
    explain.top,
    pages.top,
    reconcile.top,
    replay.top,
    watchers.watchers,
    watchers.rejected,
    assets.assets,
    jobs.jobs,
    runs.runs,
    store.store,
):
    app.add_typer(part)
for part in (
    administration.db,
    tokens.token,
    administration.spark,
    administration.state_store,
    administration.pg,
    kubernetes.kubernetes,
):
    app.add_typer(part)
