"""`watcher run`, the daemon."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated

import anyio
import typer

from watcher.cli.commands import DEFAULT_CONFIG, ConfigOption, load_configuration
from watcher.cli.failures import CommandFailed, ExitCode

ROLES = ("triggerer", "scheduler", "api")
top = typer.Typer()


@top.command()
def run(
    config: ConfigOption = DEFAULT_CONFIG,
    roles: Annotated[str, typer.Option(help="What this process does, separated by commas.")] = ",".join(ROLES),
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="Bring the database's schema to this program's first.")
    ] = False,
    apply: Annotated[
        bool, typer.Option("--apply", help="Apply this configuration, although a process that lives runs another one.")
    ] = False,
    cancel_jobs: Annotated[
        bool, typer.Option("--cancel-jobs", help="Stop the Spark jobs together with the daemon.")
    ] = False,
) -> None:
    """Run the daemon until SIGTERM or Ctrl-C."""
    chosen = frozenset(role.strip() for role in roles.split(","))
    if unknown := chosen - set(ROLES):
        raise CommandFailed(f"unknown role {min(unknown)!r}; use some of {', '.join(ROLES)}", ExitCode.USAGE)
    from watcher.configuration.foreign_classes import open_processes  # noqa: PLC0415  see watcher.cli

    with open_processes() as processes:
        configuration = load_configuration(config, processes=processes)
        from watcher import app  # noqa: PLC0415

        options = app.RunOptions(roles=chosen, upgrade=upgrade, apply=apply, cancel_jobs=cancel_jobs)
        uvloop = {"use_uvloop": find_spec("uvloop") is not None}
        anyio.run(app.run, configuration, options, processes, backend_options=uvloop)
