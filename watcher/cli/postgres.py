"""`watcher pg`: what a watched PostgreSQL may be given."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, cast

import anyio
import typer

from store.errors import no_watcher
from watcher.cli.commands import DEFAULT_CONFIG, ConfigOption, JsonOption, group, load_configuration
from watcher.cli.failures import Exit, Failure

if TYPE_CHECKING:
    from config.models import Configuration
    from triggers.postgres.connection import PostgresConnection
    from triggers.postgres.options import NewRowsOptions

pg = group("pg", "Watched PostgreSQL tables.")


@pg.command("install-notify")
def install_notify(
    name: Annotated[str, typer.Argument(help="A watcher with `listen: true`.")],
    apply: Annotated[bool, typer.Option("--apply", help="Run it, with the watcher's own connection.")] = False,
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Print the trigger that tells a watcher at once when its table is written to.

    Pipe it into psql as the table's owner, or --apply it.
    """
    from triggers.postgres.notifications import definition  # noqa: PLC0415  see watcher.cli

    connection, options = _watched_table(load_configuration(config), name)
    script = definition(options)
    if apply:
        anyio.run(_apply, connection, options)
    if as_json:
        typer.echo(json.dumps({"table": options.table, "sql": script, "applied": apply}))
    else:
        typer.echo(f"{options.table} notifies from now on" if apply else script.rstrip())


def _watched_table(configuration: Configuration, name: str) -> tuple[PostgresConnection, NewRowsOptions]:
    from triggers.postgres.options import NewRowsOptions  # noqa: PLC0415  see watcher.cli

    watcher = configuration.watchers.get(name)
    if watcher is None:
        raise Failure(str(no_watcher(name)), Exit.NOT_FOUND)
    if not isinstance(watcher.options, NewRowsOptions) or watcher.connection is None:
        raise Failure(f"{name} watches no PostgreSQL table; name a watcher of postgres.new_rows", Exit.USAGE)
    return cast("PostgresConnection", configuration.connections[watcher.connection]), watcher.options


async def _apply(connection: PostgresConnection, options: NewRowsOptions) -> None:
    from triggers.errors import TriggerError  # noqa: PLC0415  see watcher.cli
    from triggers.postgres.notifications import install  # noqa: PLC0415

    try:
        await install(connection, options)
    except TriggerError as error:
        raise Failure(f"{error}; run what this command prints without --apply as the owner of the table") from error
