"""`watcher run` and `watcher demo`."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated, Literal

import anyio
import typer

from watcher.cli.commands import DEFAULT_CONFIG, ConfigOption, JsonOption, load_configuration
from watcher.cli.failures import Exit, Failure

ROLES = ("triggerer", "scheduler", "api")


def run(
    config: ConfigOption = DEFAULT_CONFIG,
    roles: Annotated[str, typer.Option(help="What this process does, separated by commas.")] = ",".join(ROLES),
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="Bring the database's schema to this program's first.")
    ] = False,
    cancel_jobs: Annotated[
        bool, typer.Option("--cancel-jobs", help="Stop the Spark jobs together with the daemon.")
    ] = False,
) -> None:
    """Run the daemon until SIGTERM or Ctrl-C."""
    chosen = frozenset(role.strip() for role in roles.split(","))
    if unknown := chosen - set(ROLES):
        raise Failure(f"unknown role {min(unknown)!r}; use some of {', '.join(ROLES)}", Exit.USAGE)
    configuration = load_configuration(config)
    from watcher import app  # noqa: PLC0415  see watcher.cli

    options = app.RunOptions(roles=chosen, upgrade=upgrade, cancel_jobs=cancel_jobs)
    anyio.run(app.run, configuration, options, backend_options={"use_uvloop": find_spec("uvloop") is not None})


def demo(
    as_json: JsonOption = False,
    keep: Annotated[bool, typer.Option("--keep", help="Stay up afterwards, until Ctrl-C.")] = False,
    database: Annotated[
        Literal["sqlite", "postgresql"], typer.Option(help="Where the daemon keeps its metadata.")
    ] = "postgresql",
) -> None:
    """Watch it work: PostgreSQL, S3 and Spark on this machine, and a count of what was lost (nothing)."""
    from watcher.demo.command import demo_command  # noqa: PLC0415  see watcher.cli

    raise typer.Exit(demo_command(json_output=as_json, keep=keep, database=database))
