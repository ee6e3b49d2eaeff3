"""`watcher pg`: watched PostgreSQL tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import anyio
import typer

from store.errors import no_watcher
from watcher.cli.commands import DEFAULT_CONFIG, ConfigOption, group, load_configuration, local_command
from watcher.cli.failures import CommandFailed, ExitCode
from watcher.cli.output import Show

if TYPE_CHECKING:
    from config.models import Configuration
    from triggers.postgres.connection import PostgresConnection
    from triggers.postgres.table_options import TableOptions

pg = group("pg", "Watched PostgreSQL tables.")


@local_command(pg, "install-notify")
def install_notify(
    show: Show,
    name: Annotated[str, typer.Argument(help="A watcher with `listen: true`.")],
    apply: Annotated[bool, typer.Option("--apply", help="Run it, with the watcher's own connection.")] = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Print the trigger that notifies a watcher at once when its table is written to.

    Pipe it into psql as the table's owner, or --apply it.
    """
    from triggers.postgres.server.notifications import definition  # noqa: PLC0415  see watcher.cli

    connection, options = watched_table(load_configuration(config), name)
    script = definition(options)
    if apply:
        anyio.run(_apply, connection, options)
    done = {"table": options.table, "sql": script, "applied": apply}
    show(done, lambda: f"{options.table} notifies from now on" if apply else script.rstrip())


def watched_table(configuration: Configuration, name: str) -> tuple[PostgresConnection, TableOptions]:
    """Return the table of a watcher, as its connection and options name it. Raises `CommandFailed`."""
    from triggers.postgres.table_options import TableOptions  # noqa: PLC0415  see watcher.cli

    watcher = configuration.watchers.get(name)
    if watcher is None:
        raise CommandFailed(str(no_watcher(name)), ExitCode.NOT_FOUND)
    if not isinstance(watcher.options, TableOptions) or watcher.connection is None:
        remedy = "name a watcher of postgres.new_rows or postgres.changes"
        raise CommandFailed(f"{name} watches no PostgreSQL table; {remedy}", ExitCode.USAGE)
    return cast("PostgresConnection", configuration.connections[watcher.connection]), watcher.options


async def _apply(connection: PostgresConnection, options: TableOptions) -> None:
    from triggers.errors import TriggerError  # noqa: PLC0415  see watcher.cli
    from triggers.postgres.server.notifications import install  # noqa: PLC0415

    try:
        await install(connection, options)
    except TriggerError as error:
        raise CommandFailed(
            f"{error}; run what this command prints without --apply as the owner of the table"
        ) from error
